//! `connect` and `serve`: their options.

use super::Failure;
use super::connect_outages::{outage, retry};
use super::connect_work::work;
use super::numbers;
use super::ranges::{self, Addresses, Ports, Services};
use super::standing_args::{CoreList, StandingArgs, cores};
use clap::{Args, ValueEnum};
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_workload::connections::outages::Outage;
use pinchpoint_workload::connections::payload::{ANSWER_LEN, REQUEST_LEN};
use pinchpoint_workload::connections::plan::{MOST_SENT, Mix, Plan, Requests, mix};
use pinchpoint_workload::connections::schedule::Schedule;
use pinchpoint_workload::connections::segment::{MSS, STAMPED_MSS};
use pinchpoint_workload::connections::timers::Retry;
use pinchpoint_workload::connections::work::NextHop;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

/// What stands behind the options of `connect --help`.
pub(super) const CONNECT_EXAMPLES: &str = "\
20,000 connections a second through a balancer with three backends, both ends on one core:
    pinchpoint-engine connect af_packet:veth1@clients af_packet:veth4@servers \\
        --to 10.0.0.100:80 --clients 10.0.0.1-10.0.0.50 --rate 20k --time 10s \\
        --backend 10.1.0.1:8080 --backend 10.1.0.2:8080 --backend 10.1.0.3:8080
SYNs only, as fast as one core makes them:
    pinchpoint-engine connect dpdk:net_null0 --to 10.0.0.100:80 --next-hop 02:00:00:00:00:01 \\
        --work syn --rate 50M --time 1s --timeout 1ms
100,000 connections that are open at the same time, for a minute:
    pinchpoint-engine connect af_packet:veth1@clients --to 10.0.0.100:80 \\
        --rate 10k --count 100k --hold 60s

Kinds of --work, each with an optional weight: syn (the answer to the SYN is the end),
abandon (a handshake and no more), reset (a handshake, then a reset) and request
(requests with answers, then FINs); or udp alone (a request and its answer, each one
datagram, as DNS has them). Times count from when a connection is due.
Prints 'ready' once all links are up, and the account when every connection has ended.
SIGTERM and Ctrl-C end it earlier; SIGUSR1 prints the account so far.
Exit status otherwise: 2 bad command line, 3 a port could not be opened.";

/// What stands behind the options of `serve --help`.
pub(super) const SERVE_EXAMPLES: &str = "\
Two backends in one namespace, for the balancer in front of them:
    pinchpoint-engine serve af_packet:veth4@servers --backend 10.1.0.1:8080 \\
        --backend 10.1.0.2:8080

It answers SYNs, the requests of 'connect' and FINs, each from the segment alone, and
questions where its backends are (ARP, neighbour discovery).
Prints 'ready' once all links are up. SIGTERM and Ctrl-C end it: it prints its account
and exits with 0. SIGUSR1 prints the account so far.
Exit status otherwise: 2 bad command line, 3 a port could not be opened.";

/// An MTU of 1,500 without the headers.
const MOST_BYTES: u64 = 1460;
/// An object of 1 MiB.
const MOST_ANSWER: u64 = 1 << 20;
/// The most connections of which the state is kept: 16 MiB, or 768 MiB with --hold or --retry.
const MOST_OUTSTANDING: f64 = 67_108_864.0;
const SECOND_NS: f64 = 1e9;
const LEAST_SAMPLED_NS: u64 = 10_000_000;
/// Of which it can be kept in mind which backend answered: 32 MiB.
const MOST_TUPLES: u64 = 1 << 24;

/// A side of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Closer {
    /// Who opened them.
    Client,
    /// Who answers.
    Backend,
}

/// `connect`.
#[derive(Debug, Args)]
#[command(after_help = CONNECT_EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // each is a switch of its own
pub struct ConnectArgs {
    /// The first port is the client's; servers answer at the others
    #[command(flatten)]
    #[allow(missing_docs)]
    pub standing: StandingArgs,
    /// Several cores, each with a queue of every port and its share of the client's ports or addresses
    #[arg(long, value_name = "N-N,N", conflicts_with = "core", value_parser = cores)]
    pub cores: Option<CoreList>,
    /// The virtual server; several where address or port is a range: 10.0.0.1-10.0.0.3:80-84
    #[arg(long, value_name = "IP:PORT", value_parser = ranges::services)]
    pub to: Services,
    /// Client addresses: one, a range A-B, or the hosts of a network A/N
    /// [default: 16.0.0.1, or fd00::1]
    #[arg(long, value_name = "IP", value_parser = ranges::addresses)]
    pub clients: Option<Addresses>,
    /// Client ports: one or a range
    #[arg(long, value_name = "PORT", default_value = "1025-65535", value_parser = ranges::ports)]
    pub client_ports: Ports,
    /// Where frames go first: an Ethernet address, or an IP address whose own is asked
    /// for (ARP, neighbour discovery) [default: the address of --to]
    #[arg(long, value_name = "MAC|IP", value_parser = next_hop)]
    pub next_hop: Option<NextHop>,
    /// Connections a second
    #[arg(long, value_name = "N", default_value = "1k", value_parser = positive)]
    pub rate: u64,
    /// How long to open connections
    #[arg(long, default_value = "10s", value_parser = numbers::seconds)]
    pub time: f64,
    /// How long it takes to reach --rate, from 0 on
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = nanoseconds)]
    pub ramp: u64,
    /// How long backends answer before the first connection is due: a device may check them
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = nanoseconds)]
    pub lead: u64,
    /// How many to open, however long that takes
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "time")]
    pub count: Option<u64>,
    /// What is done with them: a kind, or several with weights: request:98,reset:2
    #[arg(long, value_name = "KIND[:WEIGHT],..", default_value = "request", value_parser = work)]
    pub work: Mix,
    /// Requests of a connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub requests: u32,
    /// Bytes of a request
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = request_len)]
    pub request_size: u32,
    /// How long a connection waits for what it is due
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = nanoseconds)]
    pub timeout: u64,
    /// How long a connection is held before a request
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = nanoseconds)]
    pub hold: u64,
    /// Before which of its requests, from 0. After an answer, it is also noticed if two that are
    /// open have the same source address and port at a backend
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "hold")]
    pub hold_before: u16,
    /// Which side closes a connection first: the backend then does so with its last answer
    #[arg(long, value_name = "SIDE", value_enum, default_value_t = Closer::Client)]
    pub close: Closer,
    /// Repeat a segment without answer every TIME, TIMES times at most
    #[arg(long, value_name = "TIME:TIMES", value_parser = retry)]
    pub retry: Option<Retry>,
    /// Open connections that are late, too, instead of giving up all but 0.5 ms of a backlog
    #[arg(long)]
    pub late: bool,
    /// First sequence numbers of the client and of the backends, the same for every
    /// connection, so that others can continue them; each tuple is used once
    #[arg(long, value_name = "N:N", value_parser = sequence)]
    pub sequence: Option<(u32, u32)>,
    /// Seed of what is random in sequence numbers, and of the mix
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Give all connections one initial sequence number, which rises when a tuple is used again:
    /// a device that gives up closed connections early for higher numbers then keeps them
    #[arg(long)]
    pub one_isn: bool,
    /// Print counts every TIME, as lines of JSON
    #[arg(long, value_name = "TIME", requires = "json", value_parser = sampled)]
    pub sample: Option<u64>,
    /// Count in samples how many connections stay with the backend that their tuple had before
    #[arg(long, requires = "sample")]
    pub by_tuple: bool,
    /// List which backend answered each connection first, in the order of opening, of 65,536 at most
    #[arg(long, requires = "json")]
    pub order: bool,
    /// The device leaves the address of --to in place, and backends answer the client past it: answers
    /// are handed over within the engine. Backend number N is found by its own address, and is at the
    /// N-th Ethernet address from --server-mac on
    #[arg(long, requires = "backend")]
    pub direct_return: bool,
    /// Ethernet address of the client [default: that of its port]
    #[arg(long, value_name = "MAC", value_parser = mac)]
    pub mac: Option<Mac>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub servers: ServerArgs,
}

/// `serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct ServeArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub standing: StandingArgs,
    /// Several cores, each with a queue of every port
    #[arg(long, value_name = "N-N,N", conflicts_with = "core", value_parser = cores)]
    pub cores: Option<CoreList>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub servers: ServerArgs,
}

/// What answers.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// A backend; several are numbered from 0 on, in this order
    #[arg(long, value_name = "IP:PORT")]
    pub backend: Vec<SocketAddr>,
    /// Bytes of an answer; more than 1,440 are several segments
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = answer_len)]
    pub answer_size: u32,
    /// Send TCP time stamps (RFC 7323), as most kernels do; a backend only in answer to segments that have them
    #[arg(long)]
    pub timestamps: bool,
    /// A backend, by its number, that is down for some time: it answers nothing, or everything by a reset.
    /// Times count from the first connection; may be repeated
    #[arg(long, value_name = "N@FROM-[UNTIL][:reset]", value_parser = outage)]
    pub backend_down: Vec<Outage>,
    /// Ethernet address of the backends [default: that of the first port that has them]
    #[arg(long, value_name = "MAC", value_parser = mac)]
    pub server_mac: Option<Mac>,
}

impl ConnectArgs {
    /// The connections.
    ///
    /// # Errors
    /// Which options do not fit together.
    pub(super) fn plan(&self) -> Result<Plan, Failure> {
        let clients = clients_of(self);
        let to = self.to.first;
        if clients.first.is_ipv4() != to.is_ipv4() {
            return Err(Failure::usage(format!(
                "--clients {}: expected addresses of the same family as --to {}",
                clients.first, to
            )));
        }
        let (most, over) = match (to.is_ipv4(), self.servers.timestamps) {
            (_, true) => (STAMPED_MSS, "with --timestamps"),
            (false, _) => (MSS, "over IPv6"),
            _ => (MOST_BYTES as u32, "in a segment"),
        };
        if self.request_size > most {
            return Err(Failure::usage(format!(
                "--request-size {}: expected at most {most} {over}",
                self.request_size
            )));
        }
        let has_tcp = self.sequence.is_some() || self.servers.timestamps;
        let asks_more = self.requests > 1 || self.hold > 0 || has_tcp;
        if self.work.is_datagrams() && (asks_more || self.close == Closer::Backend) {
            return Err(Failure::usage(
                "--work udp: one request each; leave out --requests, --hold, --sequence, --timestamps and --close",
            ));
        }
        let is_whole = self.work.is_datagrams() || self.direct_return;
        let longest = if self.servers.timestamps {
            STAMPED_MSS
        } else {
            MSS
        };
        if is_whole && self.servers.answer_size > longest {
            return Err(Failure::usage(format!(
                "--answer-size {}: expected at most {longest} with --work udp and --direct-return",
                self.servers.answer_size
            )));
        }
        let bytes = u64::from(self.requests) * u64::from(self.request_size);
        if bytes + 2 > u64::from(MOST_SENT) {
            return Err(Failure::usage(format!(
                "--requests {} of --request-size {}: {bytes} bytes; expected at most {} in a connection",
                self.requests,
                self.request_size,
                MOST_SENT - 2
            )));
        }
        let tuples = clients.count * self.client_ports.count;
        if self.by_tuple && tuples > MOST_TUPLES {
            return Err(Failure::usage(format!(
                "--by-tuple: {tuples} pairs of --clients and --client-ports; expected at most {MOST_TUPLES}"
            )));
        }
        Ok(Plan {
            clients: clients.first,
            client_count: clients.count as u32,
            ports: self.client_ports.first,
            port_count: self.client_ports.count as u32,
            service: to.into(),
            service_addresses: self.to.addresses,
            service_ports: self.to.ports,
            mix: self.work,
            requests: Requests {
                count: self.requests,
                len: self.request_size,
            },
            key: mix(self.seed),
            first_round: first_round(SystemTime::now()),
            one_isn: self.one_isn,
            same_first_seq: self.sequence.map(|(client, _)| client),
        })
    }

    /// When they are opened.
    ///
    /// # Errors
    /// If the state of too many would have to be kept.
    pub(super) fn schedule(&self) -> Result<Schedule, Failure> {
        if u32::from(self.hold_before) >= self.requests {
            return Err(Failure::usage(format!(
                "--hold-before {}: expected less than --requests {}",
                self.hold_before, self.requests
            )));
        }
        let rate = self.rate as f64;
        let opening_s = (self.time - self.ramp as f64 / SECOND_NS / 2.0).max(0.0);
        let count = self.count.unwrap_or((rate * opening_s) as u64);
        let tuples = clients_of(self).count * self.client_ports.count;
        if self.sequence.is_some() && count > tuples {
            return Err(Failure::usage(format!(
                "--sequence with {count} connections: expected at most {tuples}, one of each client address and port"
            )));
        }
        let lasting_s = (self.timeout + self.hold) as f64 / SECOND_NS;
        let outstanding = (rate * lasting_s).min(count as f64);
        if outstanding > MOST_OUTSTANDING {
            return Err(Failure::usage(format!(
                "--rate {} with --timeout and --hold of {lasting_s} s together: {outstanding:.0} connections \
                 outstanding; expected at most {MOST_OUTSTANDING}; shorten --timeout",
                self.rate
            )));
        }
        Ok(Schedule {
            rate,
            ramp_ns: self.ramp,
            count,
            timeout_ns: self.timeout,
            hold_ns: self.hold,
            hold_before: self.hold_before,
            retry: self.retry.unwrap_or_default(),
            server_closes: self.close == Closer::Backend,
            opens_late: self.late,
        })
    }

    pub(super) fn first_hop(&self) -> NextHop {
        self.next_hop.unwrap_or(NextHop::Of(self.to.first.ip()))
    }
}

/// Sixteenths of a second: sequence numbers rise from run to run as long as each tuple is
/// used less than 16 times a second, and come round after more than an hour.
fn first_round(now: SystemTime) -> u16 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_millis() * 16 / 1000) as u16
}

fn clients_of(args: &ConnectArgs) -> Addresses {
    args.clients.unwrap_or(default_clients(args.to.first.ip()))
}

fn default_clients(service: IpAddr) -> Addresses {
    let first = match service {
        IpAddr::V4(_) => Ipv4Addr::new(16, 0, 0, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into(),
    };
    Addresses { first, count: 1 }
}

fn next_hop(text: &str) -> Result<NextHop, String> {
    let at = text.parse().map(NextHop::Of);
    at.or_else(|_| mac(text).map(NextHop::At)).map_err(|_| {
        "expected an Ethernet address (02:00:00:00:00:01) or an IP address (10.0.0.1)".to_owned()
    })
}

fn mac(text: &str) -> Result<Mac, String> {
    ranges::mac(text).map(|mac| mac.0)
}

fn positive(text: &str) -> Result<u64, String> {
    let value = numbers::count(text)?;
    if value == 0 {
        Err("expected at least 1".to_owned())
    } else {
        Ok(value)
    }
}

fn nanoseconds(text: &str) -> Result<u64, String> {
    Ok((numbers::seconds(text)? * SECOND_NS) as u64)
}

/// The loop looks about once in a millisecond.
fn sampled(text: &str) -> Result<u64, String> {
    let every_ns = nanoseconds(text)?;
    let is_enough = every_ns >= LEAST_SAMPLED_NS;
    is_enough
        .then_some(every_ns)
        .ok_or_else(|| "expected at least 10ms".to_owned())
}

fn bytes(text: &str, least: usize, most: u64) -> Result<u32, String> {
    let value = numbers::count(text)?;
    let fits = (least as u64..=most).contains(&value);
    fits.then_some(value as u32)
        .ok_or_else(|| format!("expected {least} to {most}"))
}

fn request_len(text: &str) -> Result<u32, String> {
    bytes(text, REQUEST_LEN, MOST_BYTES)
}

fn answer_len(text: &str) -> Result<u32, String> {
    bytes(text, ANSWER_LEN, MOST_ANSWER)
}

fn sequence(text: &str) -> Result<(u32, u32), String> {
    let numbers = text
        .split_once(':')
        .and_then(|(client, server)| Some((client.parse().ok()?, server.parse().ok()?)));
    numbers.ok_or_else(|| "expected two numbers up to 4294967295, as in 1000:2000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_later_run_has_higher_sequence_numbers() {
        let at = |ms| first_round(UNIX_EPOCH + Duration::from_millis(ms));
        assert_eq!(at(1_000_000).wrapping_sub(at(998_000)), 32);
        assert_eq!(at(4_096_000), at(0));
    }

    #[test]
    fn sequence_numbers_of_both_ends_are_two_of_32_bits() {
        assert_eq!(sequence("0:4294967295"), Ok((0, u32::MAX)));
        for text in ["", "1", "1:", ":2", "1:2:3", "-1:2", "1:4294967296"] {
            assert!(
                sequence(text).unwrap_err().contains("two numbers"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_next_hop_is_an_address_of_either_kind() {
        assert_eq!(
            next_hop("10.0.0.1"),
            Ok(NextHop::Of(Ipv4Addr::new(10, 0, 0, 1).into()))
        );
        assert_eq!(
            next_hop("02:00:00:00:00:01"),
            Ok(NextHop::At(Mac([2, 0, 0, 0, 0, 1])))
        );
        assert!(
            next_hop("gateway")
                .unwrap_err()
                .contains("expected an Ethernet address")
        );
    }

    #[test]
    fn sizes_hold_what_is_in_them_and_requests_fit_a_segment() {
        assert_eq!(
            (request_len("24"), answer_len("64"), answer_len("1048576")),
            (Ok(24), Ok(64), Ok(1 << 20))
        );
        for refused in [request_len("23"), request_len("1461")] {
            assert!(refused.unwrap_err().contains("to 1460"));
        }
        for refused in [answer_len("63"), answer_len("1048577")] {
            assert!(refused.unwrap_err().contains("64 to 1048576"));
        }
    }
}
