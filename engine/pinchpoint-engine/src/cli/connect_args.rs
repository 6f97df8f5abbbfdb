//! `connect` and `serve`: their options.

use super::Failure;
use super::connect_outages::{outage, retry};
use super::numbers;
use super::ranges;
use super::refusal::refused_load;
use super::standing_args::{CoreList, StandingArgs, cores};
use crate::convert::Servers;
use crate::protocol::Mac;
use crate::protocol::connections::{Closer, ConnectionsRequest, OutageRequest, RetryRequest};
use clap::{Args, ValueEnum};
use std::net::SocketAddr;

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

/// A side of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CloserArg {
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
    #[arg(long, value_name = "IP:PORT")]
    pub to: String,
    /// Client addresses: one, a range A-B, or the hosts of a network A/N
    /// [default: 16.0.0.1, or fd00::1]
    #[arg(long, value_name = "IP")]
    pub clients: Option<String>,
    /// Client ports: one or a range
    #[arg(long, value_name = "PORT", default_value = "1025-65535")]
    pub client_ports: String,
    /// Where frames go first: an Ethernet address, or an IP address whose own is asked
    /// for (ARP, neighbour discovery) [default: the address of --to]
    #[arg(long, value_name = "MAC|IP")]
    pub next_hop: Option<String>,
    /// Connections a second
    #[arg(long, value_name = "N", default_value = "1k", value_parser = numbers::count)]
    pub rate: u64,
    /// How long to open connections
    #[arg(long, default_value = "10s", value_parser = numbers::seconds)]
    pub time: f64,
    /// How long it takes to reach --rate, from 0 on
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = numbers::seconds)]
    pub ramp: f64,
    /// How long backends answer before the first connection is due: a device may check them
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = numbers::seconds)]
    pub lead: f64,
    /// How many to open, however long that takes
    #[arg(long, value_name = "N", value_parser = numbers::count, conflicts_with = "time")]
    pub count: Option<u64>,
    /// What is done with them: a kind, or several with weights: request:98,reset:2
    #[arg(long, value_name = "KIND[:WEIGHT],..", default_value = "request")]
    pub work: String,
    /// Requests of a connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub requests: u32,
    /// Bytes of a request
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = numbers::count)]
    pub request_size: u64,
    /// How long a connection waits for what it is due
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = numbers::seconds)]
    pub timeout: f64,
    /// How long a connection is held before a request
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = numbers::seconds)]
    pub hold: f64,
    /// Before which of its requests, from 0. After an answer, it is also noticed if two that are
    /// open have the same source address and port at a backend
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "hold")]
    pub hold_before: u16,
    /// Which side closes a connection first: the backend then does so with its last answer
    #[arg(long, value_name = "SIDE", value_enum, default_value_t = CloserArg::Client)]
    pub close: CloserArg,
    /// Repeat a segment without answer every TIME, TIMES times at most
    #[arg(long, value_name = "TIME:TIMES", value_parser = retry)]
    pub retry: Option<RetryRequest>,
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
    #[arg(long, value_name = "TIME", requires = "json", value_parser = numbers::seconds)]
    pub sample: Option<f64>,
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
    #[arg(long, value_name = "MAC", value_parser = ranges::mac)]
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
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = numbers::count)]
    pub answer_size: u64,
    /// Send TCP time stamps (RFC 7323), as most kernels do; a backend only in answer to segments that have them
    #[arg(long)]
    pub timestamps: bool,
    /// A backend, by its number, that is down for some time: it answers nothing, or everything by a reset.
    /// Times count from the first connection; may be repeated
    #[arg(long, value_name = "N@FROM-[UNTIL][:reset]", value_parser = outage)]
    pub backend_down: Vec<OutageRequest>,
    /// Ethernet address of the backends [default: that of the first port that has them]
    #[arg(long, value_name = "MAC", value_parser = ranges::mac)]
    pub server_mac: Option<Mac>,
}

impl ConnectArgs {
    /// What a session would be asked for. Ports only count: they are opened by what `standing` says.
    pub(super) fn request(&self) -> ConnectionsRequest {
        let ports = self.standing.ports.iter();
        let rate = self.rate as f64;
        let opening_s = (self.time - self.ramp / 2.0).max(0.0);
        ConnectionsRequest {
            trial: "cli".to_owned(),
            ports: ports.map(|port| port.device.clone()).collect(),
            to: self.to.clone(),
            clients: (self.clients.clone()).unwrap_or_else(|| default_clients(&self.to).to_owned()),
            client_ports: self.client_ports.clone(),
            next_hop: self.next_hop.clone(),
            rate_cps: self.rate,
            count: self.count.unwrap_or((rate * opening_s) as u64),
            ramp_s: self.ramp,
            lead_s: self.lead,
            timeout_s: self.timeout,
            hold_s: self.hold,
            hold_before: self.hold_before,
            work: self.work.clone(),
            requests: self.requests,
            request_bytes: self.request_size,
            answer_bytes: self.servers.answer_size,
            close: match self.close {
                CloserArg::Client => Closer::Client,
                CloserArg::Backend => Closer::Backend,
            },
            retry: self.retry.clone(),
            late: self.late,
            sequence: self.sequence,
            seed: self.seed,
            one_isn: self.one_isn,
            sample_interval_s: self.sample,
            by_tuple: self.by_tuple,
            order: self.order,
            direct_return: self.direct_return,
            timestamps: self.servers.timestamps,
            mac: self.mac,
            server_mac: self.servers.server_mac,
            backends: self.servers.backend.clone(),
            down: self.servers.backend_down.clone(),
        }
    }
}

impl ServerArgs {
    /// What answers; none if there are no backends.
    ///
    /// # Errors
    /// Which value cannot be.
    pub(super) fn servers(&self) -> Result<Option<Servers>, Failure> {
        let servers = Servers::new(
            &self.backend,
            self.answer_size,
            self.timestamps,
            &self.backend_down,
            self.server_mac,
        );
        servers.map_err(|error| refused_load(&error))
    }
}

/// Of the family of the service `to`.
fn default_clients(to: &str) -> &'static str {
    if to.starts_with('[') {
        "fd00::1"
    } else {
        "16.0.0.1"
    }
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
}
