//! What is true of a balancer, and what it does wrong on purpose.

use pinchpoint_wire::end::{bits, ip};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The most places of the table: 0.6 GiB with its indexes, as far as they are used.
pub const MOST_CONNECTIONS: usize = 1 << 22;
/// The most local ends of all backends together: 32 MiB, a bit for each.
pub const MOST_LOCAL_ENDS: u64 = 1 << 28;
/// The most backends.
pub const MOST_BACKENDS: usize = 256;

/// An address of either family and a port, in 18 bytes: a table has three for each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spot {
    /// The address; one of IPv4 as an IPv4-mapped one (RFC 4291 section 2.5.5.2).
    address: Ipv6Addr,
    /// The port.
    pub port: u16,
}

impl Spot {
    /// Of an address of either family.
    #[inline(always)]
    pub fn new(address: impl Into<IpAddr>, port: u16) -> Self {
        let address = Ipv6Addr::from_bits(bits(address.into()));
        Self { address, port }
    }

    /// Its address.
    #[inline]
    pub fn ip(self) -> IpAddr {
        ip(self.address.to_bits())
    }

    /// Its address as a number.
    #[inline(always)]
    pub(super) fn bits(self) -> u128 {
        self.address.to_bits()
    }

    /// Both as one number; all ends of IPv4 have different ones.
    #[inline(always)]
    pub(super) fn key(self) -> u64 {
        let bits = self.address.to_bits();
        let upper = (bits >> 64) as u64;
        (bits as u64) << 16 ^ u64::from(self.port) ^ upper.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl From<SocketAddr> for Spot {
    fn from(at: SocketAddr) -> Self {
        Self::new(at.ip(), at.port())
    }
}

/// How connections are dealt to backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// One after the other.
    RoundRobin,
    /// By a hash of the client's address and port.
    Hash,
}

/// The addresses and ports that backends see: ports of the first address to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalEnds {
    /// The first address.
    pub first: IpAddr,
    /// How many addresses, at least one.
    pub count: u32,
    /// The first port of each.
    pub port: u16,
    /// How many ports each has, at least one.
    pub port_count: u32,
}

impl LocalEnds {
    /// How many there are, for each backend.
    pub fn size(&self) -> u64 {
        u64::from(self.count) * u64::from(self.port_count)
    }

    /// Number `n` of them: addresses change fastest.
    #[inline]
    pub(super) fn spot(&self, n: u32) -> Spot {
        let address = bits(self.first).wrapping_add((n % self.count).into());
        let port = self.port.wrapping_add((n / self.count) as u16);
        Spot::new(ip(address), port)
    }

    /// Whether an address is one of them.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        bits(address).wrapping_sub(bits(self.first)) < self.count.into()
    }
}

/// How long connections are remembered on which nothing more is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the client has acknowledged the backend's SYN.
    pub opening_ns: u64,
    /// From then on.
    pub established_ns: u64,
    /// From the second FIN or a reset on, whatever is sent.
    pub closed_ns: u64,
}

/// What it does wrong on purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wrongs {
    /// Connections of each backend in a round; empty: one each, which is fair.
    pub weights: Vec<u16>,
    /// Connections are never forgotten.
    pub leaks: bool,
    /// After this number of connections the local ends begin again, whether in use or not.
    pub reuse_after: Option<u32>,
    /// In every n-th segment with payload to a client, a bit of the payload is changed, and the checksum with it.
    pub break_every: Option<u64>,
    /// Every n-th SYN is dropped.
    pub drop_syn_every: Option<u64>,
    /// What is sent to this backend waits for this long.
    pub slow: Option<(u16, u64)>,
}

/// What is true of a balancer.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The virtual server. Backends and local ends are of its family.
    pub service: Spot,
    /// At least one, and each once.
    pub backends: Vec<Spot>,
    /// What backends see (full-NAT); none: they see the client (destination NAT).
    pub local: Option<LocalEnds>,
    /// Whether addresses and ports stay as they are, and backends answer the client past it
    /// (direct return). Then there are no local ends.
    pub direct: bool,
    /// Who gets a connection.
    pub scheduler: Scheduler,
    /// Places of the table.
    pub connections: usize,
    /// When places become free.
    pub timeouts: Timeouts,
    /// Frames served a second, of both directions together; none: as they come.
    pub rate_fps: Option<f64>,
    /// Frames that wait for service at most, the one being served included.
    pub ring: u32,
    /// What the first SYN of a connection takes longer, in nanoseconds.
    pub new_connection_ns: u64,
    /// Whether the client's end is put into a TOA option, with full-NAT.
    pub toa: bool,
    /// Whether the client's sequence numbers are rewritten, by another distance for each connection.
    pub rewrites_seq: bool,
    /// What is wrong with it.
    pub wrongs: Wrongs,
    /// Seed of hashes and distances.
    pub seed: u64,
}

impl Settings {
    /// A fair balancer in destination NAT that serves frames as they come.
    pub fn new(service: Spot, backends: Vec<Spot>) -> Self {
        Self {
            service,
            backends,
            local: None,
            direct: false,
            scheduler: Scheduler::RoundRobin,
            connections: 1 << 16,
            timeouts: Timeouts {
                opening_ns: 3_000_000_000,
                established_ns: 90_000_000_000,
                closed_ns: 7_000_000_000,
            },
            rate_fps: None,
            ring: 1024,
            new_connection_ns: 0,
            toa: false,
            rewrites_seq: false,
            wrongs: Wrongs::default(),
            seed: 1,
        }
    }
}
