//! Which connections there are, and when they are opened.

use super::{SECOND_NS, nanoseconds, since_1970};
use crate::convert::{check, invalid};
use crate::protocol::ErrorReply;
use crate::protocol::connections::{Closer, ConnectionsRequest, RetryRequest};
use crate::text::{self, Addresses, Ports, Services};
use pinchpoint_workload::connections::payload::REQUEST_LEN;
use pinchpoint_workload::connections::plan::{MOST_SENT, Mix, Plan, Requests, mix};
use pinchpoint_workload::connections::schedule::Schedule;
use pinchpoint_workload::connections::segment::{MSS, STAMPED_MSS};
use pinchpoint_workload::connections::timers::Retry;
use std::net::IpAddr;
use std::time::SystemTime;

/// An MTU of 1,500 without the headers.
const MOST_BYTES: u64 = 1460;
/// The most connections of which the state is kept: 16 MiB, or 768 MiB where they are held or repeated.
const MOST_OUTSTANDING: f64 = 67_108_864.0;
/// Of which it can be kept in mind which backend answered: 32 MiB.
const MOST_TUPLES: u64 = 1 << 24;
const MOST_RATE: u64 = 1_000_000_000;
const MOST_TIMES: u32 = 100;

/// What stands in a request as text.
pub(super) struct Named {
    pub(super) to: Services,
    clients: Addresses,
    client_ports: Ports,
    work: Mix,
}

impl Named {
    pub(super) fn new(request: &ConnectionsRequest) -> Result<Self, ErrorReply> {
        let at = |key: &'static str| move |what: String| invalid(key, what);
        let named = Self {
            to: text::services(&request.to).map_err(at("to"))?,
            clients: text::addresses(&request.clients).map_err(at("clients"))?,
            client_ports: text::ports(&request.client_ports).map_err(at("client_ports"))?,
            work: text::work(&request.work).map_err(at("work"))?,
        };
        let (to, clients) = (named.to.first, named.clients);
        check(
            clients.first.is_ipv4() == to.is_ipv4(),
            "clients",
            format!(
                "{}: expected addresses of the same family as 'to' {to}",
                clients.first
            ),
        )?;
        check(
            u32::try_from(clients.count).is_ok(),
            "clients",
            format!("{} addresses; expected at most {}", clients.count, u32::MAX),
        )?;
        for (key, first, count) in [
            ("to", to.ip(), u64::from(named.to.addresses)),
            ("clients", clients.first, clients.count),
        ] {
            check(
                !has_mapped(first, count),
                key,
                "expected no IPv4 addresses mapped into IPv6: they are none on a wire",
            )?;
        }
        Ok(named)
    }

    /// Pairs of a client's address and port.
    fn tuples(&self) -> u64 {
        self.clients.count * self.client_ports.count
    }
}

/// Whether one of `count` addresses from `first` on is an IPv4 address in IPv6.
fn has_mapped(first: IpAddr, count: u64) -> bool {
    let IpAddr::V6(first) = first else {
        return false;
    };
    let (least, most) = (0xffff_u128 << 32, (0x1_0000_u128 << 32) - 1);
    let last = first.to_bits().saturating_add(u128::from(count) - 1);
    first.to_bits() <= most && last >= least
}

/// The connections.
pub(super) fn plan(request: &ConnectionsRequest, named: &Named) -> Result<Plan, ErrorReply> {
    check_sizes(request, named)?;
    let tuples = named.tuples();
    check(
        !request.by_tuple || tuples <= MOST_TUPLES,
        "by_tuple",
        format!("{tuples} pairs of 'clients' and 'client_ports'; expected at most {MOST_TUPLES}"),
    )?;
    Ok(Plan {
        clients: named.clients.first,
        client_count: named.clients.count as u32,
        ports: named.client_ports.first,
        port_count: named.client_ports.count as u32,
        service: named.to.first.into(),
        service_addresses: named.to.addresses,
        service_ports: named.to.ports,
        mix: named.work,
        requests: Requests {
            count: request.requests,
            len: request.request_bytes as u32,
        },
        key: mix(request.seed),
        first_round: first_round(SystemTime::now()),
        one_isn: request.one_isn,
        same_first_seq: request.sequence.map(|(client, _)| client),
    })
}

/// Requests and answers have sizes that fit a segment, and each other.
fn check_sizes(request: &ConnectionsRequest, named: &Named) -> Result<(), ErrorReply> {
    let (len, count) = (request.request_bytes, request.requests);
    let (least, most) = (REQUEST_LEN as u64, MOST_BYTES);
    check(
        (least..=most).contains(&len),
        "request_bytes",
        format!("expected {least} to {most}, got {len}"),
    )?;
    let (most, over) = match (named.to.first.is_ipv4(), request.timestamps) {
        (_, true) => (u64::from(STAMPED_MSS), "with 'timestamps'"),
        (false, _) => (u64::from(MSS), "over IPv6"),
        _ => (MOST_BYTES, "in a segment"),
    };
    check(
        len <= most,
        "request_bytes",
        format!("{len}; expected at most {most} {over}"),
    )?;
    let is_datagrams = named.work.is_datagrams();
    let has_tcp = request.sequence.is_some() || request.timestamps;
    let asks_more = count > 1 || request.hold_s > 0.0 || has_tcp;
    check(
        !is_datagrams || !(asks_more || request.close == Closer::Backend),
        "work",
        "udp is one request each; leave out 'requests', 'hold_s', 'sequence', 'timestamps' and 'close'",
    )?;
    let longest = if request.timestamps { STAMPED_MSS } else { MSS };
    let is_whole = is_datagrams || request.direct_return;
    check(
        !is_whole || request.answer_bytes <= u64::from(longest),
        "answer_bytes",
        format!(
            "{}; expected at most {longest} with 'work' udp and 'direct_return'",
            request.answer_bytes
        ),
    )?;
    check(count > 0, "requests", "expected at least 1")?;
    let bytes = u64::from(count) * len;
    check(
        bytes + 2 <= u64::from(MOST_SENT),
        "requests",
        format!(
            "{count} of 'request_bytes' {len}: {bytes} bytes; expected at most {} in a connection",
            MOST_SENT - 2
        ),
    )
}

/// When they are opened.
pub(super) fn schedule(
    request: &ConnectionsRequest,
    named: &Named,
) -> Result<Schedule, ErrorReply> {
    let (rate, count, tuples) = (request.rate_cps, request.count, named.tuples());
    check(
        (1..=MOST_RATE).contains(&rate),
        "rate_cps",
        format!("expected 1 to {MOST_RATE}, got {rate}"),
    )?;
    check(count > 0, "count", "expected at least 1")?;
    check(
        u32::from(request.hold_before) < request.requests,
        "hold_before",
        format!(
            "{}; expected less than 'requests' {}",
            request.hold_before, request.requests
        ),
    )?;
    check(
        request.sequence.is_none() || count <= tuples,
        "sequence",
        format!(
            "{count} connections; expected at most {tuples}, one of each client address and port"
        ),
    )?;
    let timeout_ns = nanoseconds(request.timeout_s, "timeout_s")?;
    let hold_ns = nanoseconds(request.hold_s, "hold_s")?;
    let lasting_s = (timeout_ns + hold_ns) as f64 / SECOND_NS;
    let outstanding = (rate as f64 * lasting_s).min(count as f64);
    check(
        outstanding <= MOST_OUTSTANDING,
        "rate_cps",
        format!(
            "{rate} with 'timeout_s' and 'hold_s' of {lasting_s} s together: {outstanding:.0} connections \
             outstanding; expected at most {MOST_OUTSTANDING}; shorten 'timeout_s'"
        ),
    )?;
    Ok(Schedule {
        rate: rate as f64,
        ramp_ns: nanoseconds(request.ramp_s, "ramp_s")?,
        count,
        timeout_ns,
        hold_ns,
        hold_before: request.hold_before,
        retry: (request.retry.as_ref()).map_or_else(|| Ok(Retry::default()), retry)?,
        server_closes: request.close == Closer::Backend,
        opens_late: request.late,
    })
}

fn retry(request: &RetryRequest) -> Result<Retry, ErrorReply> {
    check(
        (1..=MOST_TIMES).contains(&request.times),
        "retry.times",
        format!("expected 1 to {MOST_TIMES}, got {}", request.times),
    )?;
    Ok(Retry {
        after_ns: nanoseconds(request.after_s, "retry.after_s")?,
        times: request.times,
    })
}

/// Sixteenths of a second: sequence numbers rise from load to load as long as each tuple is
/// used less than 16 times a second, and come round after more than an hour.
fn first_round(now: SystemTime) -> u16 {
    (since_1970(now).as_millis() * 16 / 1000) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_later_load_has_higher_sequence_numbers() {
        let at = |ms| first_round(UNIX_EPOCH + Duration::from_millis(ms));
        assert_eq!(at(1_000_000).wrapping_sub(at(998_000)), 32);
        assert_eq!(at(4_096_000), at(0));
    }

    #[test]
    fn an_ipv4_address_in_ipv6_is_found_wherever_it_stands_in_a_range() {
        for (first, count, found) in [
            ("::fffe:ffff:ffff", 1, false),
            ("::fffe:ffff:ffff", 2, true),
            ("::ffff:10.0.0.1", 1, true),
            ("::ffff:255.255.255.255", 9, true),
            ("::1:0:0:0", 1 << 32, false),
            ("10.0.0.1", 9, false),
        ] {
            assert_eq!(has_mapped(first.parse().unwrap(), count), found, "{first}");
        }
    }
}
