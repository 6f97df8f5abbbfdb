//! The command lines of `rr`, `crr` and `stream`.

use super::engine_args::OutputArgs;
use super::numbers;
use crate::session::allowed_cores;
use clap::{Args, ValueEnum};
use pinchpoint_sockets::message::{Close, Kind, Place, SocketsRequest, Transport, Wait};
use std::net::{IpAddr, SocketAddr};

/// `rr`.
#[derive(Debug, Args)]
pub struct RrArgs {
    #[command(flatten, next_help_heading = "Path")]
    path: PathArgs,
    #[command(flatten, next_help_heading = "Load")]
    time: TimeArgs,
    #[command(flatten, next_help_heading = "Load")]
    transactions: TransactionArgs,
    #[command(flatten, next_help_heading = "Output")]
    pub(super) output: OutputArgs,
}

/// `crr`.
#[derive(Debug, Args)]
pub struct CrrArgs {
    #[command(flatten, next_help_heading = "Path")]
    path: PathArgs,
    #[command(flatten, next_help_heading = "Load")]
    time: TimeArgs,
    #[command(flatten, next_help_heading = "Load")]
    transactions: TransactionArgs,
    /// Which side closes first. Its kernel keeps the connection in TIME_WAIT for 60 s.
    /// client: as most programs do. Ports are used in turn, and are reused within the 60 s
    /// if both ends have TCP time stamps; otherwise they run out, and that is the result.
    /// reset: the client resets the connection, which leaves no TIME_WAIT
    #[arg(
        long,
        value_name = "WHO",
        default_value = "client",
        help_heading = "Load"
    )]
    close: CloseArg,
    #[command(flatten, next_help_heading = "Output")]
    pub(super) output: OutputArgs,
}

/// `stream`.
#[derive(Debug, Args)]
pub struct StreamArgs {
    #[command(flatten, next_help_heading = "Path")]
    path: PathArgs,
    #[command(flatten, next_help_heading = "Load")]
    time: TimeArgs,
    /// Send datagrams: those that do not arrive are counted
    #[arg(long, help_heading = "Load")]
    udp: bool,
    /// Datagrams per second [default: as fast as they go]
    #[arg(long, value_name = "N", requires = "udp", help_heading = "Load")]
    #[arg(value_parser = numbers::count)]
    rate: Option<u64>,
    /// Bytes of one write, or of a datagram [default: 131072, or 1472]
    #[arg(long, value_name = "BYTES", help_heading = "Load")]
    #[arg(value_parser = numbers::count)]
    write: Option<u64>,
    #[command(flatten, next_help_heading = "Output")]
    pub(super) output: OutputArgs,
}

/// Between whom.
#[derive(Debug, Args)]
struct PathArgs {
    /// Network namespace of the client [default: this one]
    #[arg(long, value_name = "NETNS")]
    client: Option<String>,
    /// Network namespace of the server [default: this one]
    #[arg(long, value_name = "NETNS")]
    server: Option<String>,
    /// Address the server listens on [default: 127.0.0.1]
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
    /// Port the server listens on; with 0 the kernel chooses
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Where the client connects, if not to the server itself, e.g. a balancer's address
    #[arg(long, value_name = "IP:PORT")]
    target: Option<SocketAddr>,
    /// Addresses the client sends from, in turn [default: the kernel chooses]
    #[arg(long, value_name = "IP,IP", value_delimiter = ',')]
    source: Vec<IpAddr>,
    /// Core of the client [default: the first]
    #[arg(long, value_name = "N")]
    client_core: Option<usize>,
    /// Core of the server [default: the second]
    #[arg(long, value_name = "N")]
    server_core: Option<usize>,
    /// Poll for data instead of sleeping; needs two cores
    #[arg(long)]
    spin: bool,
}

/// How long, how often and how many at once.
#[derive(Debug, Args)]
struct TimeArgs {
    /// How long to measure: 10s, 500ms, 2m
    #[arg(long, default_value = "10s", value_parser = numbers::seconds)]
    time: f64,
    /// How long to run before the measurement
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = numbers::seconds)]
    warm_up: f64,
    /// Repeat the measurement N times; two or more give a confidence interval
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeats: u32,
    /// Number of connections; for crr, of transactions under way at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    connections: usize,
}

/// What a transaction is.
#[derive(Debug, Args)]
struct TransactionArgs {
    /// Use UDP instead of TCP
    #[arg(long)]
    udp: bool,
    /// Planned transactions per second; latency is then measured from the planned instant
    /// [default: each begins when one ends]
    #[arg(long, value_name = "N", value_parser = numbers::count)]
    rate: Option<u64>,
    /// End after this many transactions
    #[arg(long, value_name = "N", value_parser = numbers::count)]
    transactions: Option<u64>,
    /// Bytes of a request
    #[arg(long, value_name = "BYTES", default_value = "1", value_parser = numbers::count)]
    request: u64,
    /// Bytes of a response
    #[arg(long, value_name = "BYTES", default_value = "1", value_parser = numbers::count)]
    response: u64,
    /// A transaction that takes longer counts as failed
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = numbers::seconds)]
    timeout: f64,
}

/// Who closes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CloseArg {
    /// The client
    Client,
    /// The server
    Server,
    /// The client, with a reset
    Reset,
}

impl RrArgs {
    /// The request for it.
    pub(super) fn work(&self) -> SocketsRequest {
        let of = base(Kind::Rr, &self.path, &self.time);
        self.transactions.apply(of)
    }
}

impl CrrArgs {
    /// The request for it.
    pub(super) fn work(&self) -> SocketsRequest {
        let close = match self.close {
            CloseArg::Client => Close::Client,
            CloseArg::Server => Close::Server,
            CloseArg::Reset => Close::Reset,
        };
        let of = base(Kind::Crr, &self.path, &self.time);
        self.transactions.apply(SocketsRequest { close, ..of })
    }
}

impl StreamArgs {
    /// The request for it.
    pub(super) fn work(&self) -> SocketsRequest {
        let (transport, bytes) = if self.udp {
            (Transport::Udp, 1_472)
        } else {
            (Transport::Tcp, 131_072)
        };
        SocketsRequest {
            transport,
            request_bytes: self.write.unwrap_or(bytes) as usize,
            rate_tps: self.rate.map(|rate| rate as f64),
            ..base(Kind::Stream, &self.path, &self.time)
        }
    }
}

impl TransactionArgs {
    fn apply(&self, request: SocketsRequest) -> SocketsRequest {
        SocketsRequest {
            transport: if self.udp {
                Transport::Udp
            } else {
                Transport::Tcp
            },
            request_bytes: self.request as usize,
            response_bytes: self.response as usize,
            rate_tps: self.rate.map(|rate| rate as f64),
            transactions: self.transactions,
            timeout_s: self.timeout,
            ..request
        }
    }
}

fn base(kind: Kind, path: &PathArgs, time: &TimeArgs) -> SocketsRequest {
    let allowed = allowed_cores();
    let first = allowed.first().copied().unwrap_or(0);
    let client = path.client_core.unwrap_or(first);
    let other = allowed.iter().copied().find(|&core| core != client);
    let place = |netns: &Option<String>, core| Place {
        netns: netns.clone(),
        core,
        cpus: Vec::new(),
    };
    SocketsRequest {
        trial: "cli".to_owned(),
        kind,
        transport: Transport::Tcp,
        client: Some(place(&path.client, client)),
        server: Some(place(
            &path.server,
            path.server_core.or(other).unwrap_or(client),
        )),
        sources: path.source.clone(),
        listen: path.address,
        port: path.port,
        target: path.target,
        connections: time.connections,
        request_bytes: 0,
        response_bytes: 0,
        rate_tps: None,
        warm_up_s: time.warm_up,
        duration_s: time.time,
        transactions: None,
        timeout_s: 1.0,
        close: Close::Client,
        wait: if path.spin { Wait::Spin } else { Wait::Block },
        repeats: time.repeats,
        sample_interval_s: Some(1.0),
    }
}
