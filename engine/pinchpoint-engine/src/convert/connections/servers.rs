//! Backends: from what is asked for to what answers.

use super::{clock, nanoseconds};
use crate::convert::{check, invalid};
use crate::protocol::connections::{Closer, ConnectionsRequest, OutageRequest};
use crate::protocol::{ErrorReply, Mac};
use crate::text::Services;
use pinchpoint_port::Port;
use pinchpoint_wire::ethernet;
use pinchpoint_worker::WorkerPort;
use pinchpoint_workload::connections::end::End;
use pinchpoint_workload::connections::options::StampClock;
use pinchpoint_workload::connections::outages::{Manner, Outage};
use pinchpoint_workload::connections::payload::ANSWER_LEN;
use pinchpoint_workload::connections::plan::mix;
use pinchpoint_workload::connections::server::Server;
use pinchpoint_workload::connections::timers::Retry;
use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

/// Backends without an address of their own have this (locally administered).
const SERVER_MAC: ethernet::Mac = ethernet::Mac([0x02, 0, 0, 0, 0, 0x02]);
/// An object of 1 MiB.
const MOST_ANSWER: u64 = 1 << 20;
const MOST_BACKENDS: usize = 4096;
const MOST_OUTAGES: usize = 4096;

/// Backends, behind the first port that has them as behind all others.
#[derive(Debug, Clone)]
pub struct Servers {
    backends: Vec<End>,
    is_v4: bool,
    mac: Option<ethernet::Mac>,
    answer_len: u32,
    clock: Option<StampClock>,
    down: Vec<Outage>,
    /// Sequence numbers shall differ from one load to the next, not be secret.
    key: u64,
    first_seq: Option<u32>,
    closes_after: Option<u32>,
    retry: Option<Retry>,
    /// With direct return, the service that they answer for.
    direct: Option<End>,
}

impl Servers {
    /// What answers at `backends`; none if there are none.
    ///
    /// # Errors
    /// Code `invalid`, naming the key.
    pub fn new(
        backends: &[SocketAddr],
        answer_bytes: u64,
        timestamps: bool,
        down: &[OutageRequest],
        mac: Option<Mac>,
    ) -> Result<Option<Self>, ErrorReply> {
        let ends = ends(backends)?;
        let (least, most) = (ANSWER_LEN as u64, MOST_ANSWER);
        check(
            (least..=most).contains(&answer_bytes),
            "answer_bytes",
            format!("expected {least} to {most}, got {answer_bytes}"),
        )?;
        let down = outages(down, backends.len())?;
        let since_1970 = super::since_1970(SystemTime::now()).as_nanos() as u64;
        let servers = Self {
            backends: ends,
            is_v4: backends.iter().all(SocketAddr::is_ipv4),
            mac: mac.map(|Mac(mac)| mac),
            answer_len: answer_bytes as u32,
            clock: clock(timestamps),
            down,
            key: mix(since_1970 ^ u64::from(std::process::id())),
            first_seq: None,
            closes_after: None,
            retry: None,
            direct: None,
        };
        Ok((!backends.is_empty()).then_some(servers))
    }

    /// Those of a load.
    pub(super) fn of_load(
        request: &ConnectionsRequest,
        to: &Services,
        retry: Retry,
    ) -> Result<Option<Self>, ErrorReply> {
        let servers = Self::new(
            &request.backends,
            request.answer_bytes,
            request.timestamps,
            &request.down,
            request.server_mac,
        )?;
        let direct = direct(request, to)?;
        Ok(servers.map(|servers| Self {
            first_seq: request.sequence.map(|(_, servers)| servers),
            closes_after: (request.close == Closer::Backend).then_some(request.requests),
            retry: request.retry.is_some().then_some(retry),
            direct,
            ..servers
        }))
    }

    pub(super) fn is_v4(&self) -> bool {
        self.is_v4
    }

    /// The servers behind `port`.
    pub fn at(self, port: &WorkerPort) -> Server {
        let own = self.mac.or_else(|| port.port.mac()).unwrap_or(SERVER_MAC);
        let server = Server::new(&self.backends, own, self.answer_len, self.key);
        server
            .with_first_seq(self.first_seq)
            .with_close(self.closes_after)
            .with_stamps(self.clock)
            .with_retry(self.retry)
            .with_outages(self.down)
            .with_direct(self.direct)
    }
}

/// Each backend once, and at an address that there is on a wire.
fn ends(backends: &[SocketAddr]) -> Result<Vec<End>, ErrorReply> {
    let count = backends.len();
    check(
        count <= MOST_BACKENDS,
        "backends",
        format!("expected at most {MOST_BACKENDS}, got {count}"),
    )?;
    let mut ends: Vec<End> = Vec::with_capacity(count);
    for (number, one) in backends.iter().enumerate() {
        let (key, end) = (format!("backends[{number}]"), End::from(*one));
        check(
            !ends.contains(&end),
            &key,
            format!("{one}: there are two; expected each once"),
        )?;
        let is_mapped = matches!(one.ip(), IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
        check(
            !is_mapped,
            &key,
            format!("{one}: expected an address that is not mapped from IPv4 into IPv6"),
        )?;
        ends.push(end);
    }
    Ok(ends)
}

fn outages(down: &[OutageRequest], backends: usize) -> Result<Vec<Outage>, ErrorReply> {
    check(
        down.len() <= MOST_OUTAGES,
        "down",
        format!("expected at most {MOST_OUTAGES}, got {}", down.len()),
    )?;
    let outage = |(number, one): (usize, &OutageRequest)| {
        let key = format!("down[{number}]");
        if usize::from(one.backend) >= backends {
            let last = backends.saturating_sub(1);
            let what = format!(
                "{}: there is no such backend; expected 0 to {last}",
                one.backend
            );
            return Err(invalid(format!("{key}.backend"), what));
        }
        let from_ns = nanoseconds(one.from_s, &format!("{key}.from_s"))?;
        let until_key = format!("{key}.until_s");
        let until_ns =
            (one.until_s).map_or(Ok(u64::MAX), |until_s| nanoseconds(until_s, &until_key))?;
        check(
            until_ns > from_ns,
            until_key,
            format!("expected an end after {} s", one.from_s),
        )?;
        Ok(Outage {
            backend: one.backend,
            from_ns,
            until_ns,
            manner: if one.resets {
                Manner::Reset
            } else {
                Manner::Silent
            },
        })
    };
    down.iter().enumerate().map(outage).collect()
}

/// With direct return, the service that backends answer for: a device that changes no address
/// can reach every one of them.
fn direct(request: &ConnectionsRequest, services: &Services) -> Result<Option<End>, ErrorReply> {
    if !request.direct_return {
        return Ok(None);
    }
    let (to, backends) = (services.first, &request.backends);
    check(
        !backends.is_empty(),
        "direct_return",
        "expected 'backends' that answer",
    )?;
    check(
        services.addresses * services.ports == 1,
        "to",
        "expected one address and port with 'direct_return'",
    )?;
    for (number, one) in backends.iter().enumerate() {
        let is_same = |other: &SocketAddr| other.ip() == one.ip();
        let expected = if one.port() != to.port() {
            format!("port {}, which 'direct_return' leaves in place", to.port())
        } else if one.is_ipv4() != to.is_ipv4() {
            format!("an address of the same family as 'to' {to}")
        } else if backends[..number].iter().any(is_same) {
            "each address once with 'direct_return'".to_owned()
        } else {
            continue;
        };
        let key = format!("backends[{number}]");
        return Err(invalid(key, format!("{one}: expected {expected}")));
    }
    Ok(Some(to.into()))
}
