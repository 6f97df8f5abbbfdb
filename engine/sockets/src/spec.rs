//! What a workload is to do.

use crate::failure::Failure;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Most connections (transactions under way) at once.
pub const MAX_CONNECTIONS: usize = 16_384;
/// Most bytes of a request, a response or a write.
pub const MAX_BYTES: usize = 1 << 24;
/// Most payload bytes of a UDP datagram over IPv4 (RFC 768, RFC 791).
pub const MAX_DATAGRAM: usize = 65_507;
/// Least payload bytes of a datagram of a stream: the number of its connection, and a mark.
pub(crate) const MARKED: usize = 5;
/// Highest planned rate, in transactions per second.
pub const MAX_RATE_TPS: f64 = 1e8;
/// Longest duration and warm-up.
pub const MAX_DURATION: Duration = Duration::from_secs(86_400);
/// Longest wait for one transaction.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// Most repeats.
pub const MAX_REPEATS: u32 = 1000;

/// What one unit of work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes in one direction, client to server, as fast as they go; over UDP, datagrams, which may
    /// have a rate.
    Stream,
    /// Request and response on a standing connection.
    Rr,
    /// Connect, request, response, close; over UDP, a new source port each.
    Crr,
}

/// What carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Connections.
    Tcp,
    /// One datagram a request, one a response.
    Udp,
}

/// Who closes a connection of [`Kind::Crr`] first. That side's kernel keeps
/// the address pair in TIME_WAIT for 60 s (RFC 9293 section 3.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// The client: each transaction occupies a source port for 60 s more, or,
    /// with TCP time stamps, until its turn comes again.
    Client,
    /// The server: the client waits for its end of stream, then closes.
    Server,
    /// The client, with a reset (`SO_LINGER` 0, socket(7)): no TIME_WAIT, and
    /// a segment fewer than a real connection has.
    Reset,
}

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end that connects.
    Client,
    /// The end that listens.
    Server,
}

/// How both threads wait for data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Asleep in the kernel.
    Block,
    /// Asking again and again; needs a core for each thread.
    Spin,
}

/// Where a thread runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Network namespace (`ip netns`), or none for this process's own.
    pub netns: Option<String>,
    /// The core it is pinned to, and by which its witnesses go.
    pub core: usize,
    /// Cores among which the kernel may move it; empty: it is pinned.
    pub cpus: Vec<usize>,
}

/// One workload: one client thread, one server thread, one program.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// What one unit of work is.
    pub kind: Kind,
    /// What carries it.
    pub transport: Transport,
    /// Where the client runs.
    pub client: Place,
    /// Where the server runs.
    pub server: Place,
    /// The end that another engine has, whose place here means nothing; none:
    /// both are in this process.
    pub elsewhere: Option<Side>,
    /// Addresses the client sends from, taken in turn by connections (`rr`,
    /// `stream`) or transactions (`crr`); none: the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Address the server listens on; none: 127.0.0.1. All of them only in a
    /// named namespace, with `target`.
    pub listen: Option<IpAddr>,
    /// Port the server listens on; 0: the kernel chooses.
    pub port: u16,
    /// Where the client connects to when that is not the server itself, such
    /// as a balancer's address.
    pub target: Option<SocketAddr>,
    /// Connections, or transactions under way at once.
    pub connections: usize,
    /// Bytes of a request, or of one write of a stream.
    pub request_bytes: usize,
    /// Bytes of a response; 0 for a stream.
    pub response_bytes: usize,
    /// Planned transactions per second; none: each begins when one ends.
    pub rate_tps: Option<f64>,
    /// Time before anything is counted.
    pub warm_up: Duration,
    /// Time that is counted.
    pub duration: Duration,
    /// Ends the counted time early, after this many transactions.
    pub transactions: Option<u64>,
    /// A transaction that takes longer has failed.
    pub timeout: Duration,
    /// Who closes first, for `crr` over TCP.
    pub close: Close,
    /// How the threads wait.
    pub wait: Wait,
    /// How often all of it is done.
    pub repeats: u32,
}

impl Workload {
    /// A closed loop of one connection on loopback in this namespace, one
    /// second after a tenth of warm-up, one byte each way.
    pub fn loopback(kind: Kind, transport: Transport) -> Self {
        let place = Place {
            netns: None,
            core: 0,
            cpus: Vec::new(),
        };
        let (request_bytes, response_bytes) = match (kind, transport) {
            (Kind::Stream, Transport::Tcp) => (131_072, 0),
            (Kind::Stream, Transport::Udp) => (1_472, 0),
            (Kind::Rr | Kind::Crr, _) => (1, 1),
        };
        Self {
            kind,
            transport,
            client: place.clone(),
            server: place,
            elsewhere: None,
            sources: Vec::new(),
            listen: None,
            port: 0,
            target: None,
            connections: 1,
            request_bytes,
            response_bytes,
            rate_tps: None,
            warm_up: Duration::from_millis(100),
            duration: Duration::from_secs(1),
            transactions: None,
            timeout: Duration::from_secs(1),
            close: Close::Client,
            wait: Wait::Block,
            repeats: 1,
        }
    }

    /// Whether it counts transactions, or datagrams of a stream: what succeeds or fails.
    pub(crate) fn has_transactions(&self) -> bool {
        self.kind != Kind::Stream || self.transport == Transport::Udp
    }

    /// The address the server listens on.
    pub fn listen_address(&self) -> IpAddr {
        self.listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// Checks every value against what a workload can be.
    ///
    /// # Errors
    /// [`FailureKind::Invalid`](crate::FailureKind::Invalid); the message
    /// begins with the key.
    pub fn check(&self) -> Result<(), Failure> {
        self.check_places()?;
        self.check_sizes()?;
        self.check_times()?;
        self.check_addresses()?;
        self.check_elsewhere()?;
        self.check_kind()
    }

    /// The witnesses of a thread that moves are those of one of its cores.
    fn check_places(&self) -> Result<(), Failure> {
        for (key, place) in [("client.core", &self.client), ("server.core", &self.server)] {
            if !place.cpus.is_empty() && !place.cpus.contains(&place.core) {
                let what = format!("expected one of cpus {:?}, got {}", place.cpus, place.core);
                return Err(Failure::invalid(key, what));
            }
        }
        Ok(())
    }

    fn check_elsewhere(&self) -> Result<(), Failure> {
        let Some(side) = self.elsewhere else {
            return Ok(());
        };
        let told = match (side, self.target) {
            (Side::Server, None) => {
                "expected the address at which the other engine's server listens where server is null"
            }
            (Side::Client, Some(_)) => {
                "expected null where client is null: the client's own request has it"
            }
            _ if self.repeats > 1 => {
                let told =
                    "expected 1 where one end is null: each window is asked for at both ends";
                return Err(Failure::invalid("repeats", told));
            }
            _ => return Ok(()),
        };
        Err(Failure::invalid("target", told))
    }

    fn check_sizes(&self) -> Result<(), Failure> {
        let most = match self.transport {
            Transport::Tcp => MAX_BYTES,
            Transport::Udp => MAX_DATAGRAM,
        };
        let is_marked = self.kind == Kind::Stream && self.transport == Transport::Udp;
        let least = if is_marked { MARKED } else { 1 };
        let sizes = [
            ("request_bytes", self.request_bytes, least),
            (
                "response_bytes",
                self.response_bytes,
                usize::from(self.kind != Kind::Stream),
            ),
        ];
        for (key, bytes, least) in sizes {
            within(key, bytes, least, most)?;
        }
        within("connections", self.connections, 1, MAX_CONNECTIONS)?;
        within("repeats", self.repeats, 1, MAX_REPEATS)?;
        if self.transactions == Some(0) {
            return Err(Failure::invalid(
                "transactions",
                "expected null or 1 or more",
            ));
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), Failure> {
        if let Some(rate) = self.rate_tps
            && !(rate > 0.0 && rate <= MAX_RATE_TPS)
        {
            let expected = "expected null or more than 0 and at most 1e8";
            return Err(Failure::invalid(
                "rate_tps",
                format!("{expected}, got {rate}"),
            ));
        }
        let millisecond = Duration::from_millis(1);
        let times = [
            ("warm_up_s", self.warm_up, Duration::ZERO, MAX_DURATION),
            ("duration_s", self.duration, millisecond, MAX_DURATION),
            ("timeout_s", self.timeout, millisecond, MAX_TIMEOUT),
        ];
        for (key, time, least, most) in times {
            if time < least || time > most {
                let (least, most, time) =
                    (least.as_secs_f64(), most.as_secs_f64(), time.as_secs_f64());
                return Err(Failure::invalid(
                    key,
                    format!("expected {least} to {most}, got {time}"),
                ));
            }
        }
        Ok(())
    }

    fn check_addresses(&self) -> Result<(), Failure> {
        let listen = self.listen_address();
        // Behind a balancer a namespace of its own has the addresses of all backends.
        let has_all = self.target.is_some() && self.server.netns.is_some();
        if listen.is_multicast() || listen.is_unspecified() && !has_all {
            let what = format!("expected one address of the server's namespace, got {listen}");
            return Err(Failure::invalid("listen", what));
        }
        let apart = self.client.netns != self.server.netns;
        if apart && listen.is_loopback() && self.target.is_none() {
            let what =
                "expected an address that the client can reach: loopback ends at its namespace";
            return Err(Failure::invalid("listen", what));
        }
        let target = self.target.map_or(listen, |target| target.ip());
        if let Some(port) = self.target.map(|target| target.port())
            && port == 0
        {
            return Err(Failure::invalid(
                "target",
                "expected a port from 1 to 65535, got 0",
            ));
        }
        for (k, source) in self.sources.iter().enumerate() {
            if source.is_ipv4() != target.is_ipv4() {
                let what = format!(
                    "{source} and {target} are of different families; expected both IPv4 or both IPv6"
                );
                return Err(Failure::invalid(&format!("sources[{k}]"), what));
            }
        }
        Ok(())
    }

    fn check_kind(&self) -> Result<(), Failure> {
        let share = self.elsewhere.is_none() && self.client.core == self.server.core;
        if self.wait == Wait::Spin && share {
            let what = "spinning threads need a core each; expected another client.core, or block";
            return Err(Failure::invalid("wait", what));
        }
        if self.kind != Kind::Stream {
            return Ok(());
        }
        let is_udp = self.transport == Transport::Udp;
        if is_udp && self.elsewhere.is_some() {
            let told = "expected tcp for a stream one end of which another engine has";
            return Err(Failure::invalid("transport", told));
        }
        if self.response_bytes != 0 {
            return Err(Failure::invalid(
                "response_bytes",
                "expected 0 for a stream",
            ));
        }
        for (key, set) in [
            ("rate_tps", self.rate_tps.is_some() && !is_udp),
            ("transactions", self.transactions.is_some()),
        ] {
            if set {
                return Err(Failure::invalid(key, "expected null for a stream"));
            }
        }
        Ok(())
    }
}

fn within<T: PartialOrd + Copy + std::fmt::Display>(
    key: &str,
    value: T,
    least: T,
    most: T,
) -> Result<(), Failure> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(Failure::invalid(
        key,
        format!("expected {least} to {most}, got {value}"),
    ))
}
