//! One end of a connection: an address of either family, and a port.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What IPv4-mapped addresses begin with (RFC 4291 section 2.5.5.2); they are IPv4 here.
const MAPPED: u128 = 0xffff << 32;

/// Source addresses that are counted one by one; there may be as many as a flood likes.
pub const MOST_SOURCES: usize = 1 << 16;

/// An address and a port, as numbers that can be compared and counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct End {
    /// The address; one of IPv4 as an IPv4-mapped one.
    pub bits: u128,
    /// The port.
    pub port: u16,
}

impl End {
    /// Of an address of either family.
    pub fn new(ip: impl Into<IpAddr>, port: u16) -> Self {
        Self {
            bits: bits(ip.into()),
            port,
        }
    }

    /// Its IPv4 address, if it has one.
    #[inline(always)]
    pub fn v4(self) -> Option<Ipv4Addr> {
        (self.bits >> 32 == MAPPED >> 32).then(|| Ipv4Addr::from_bits(self.bits as u32))
    }

    /// Its address as one of IPv6.
    #[inline(always)]
    pub fn v6(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.bits)
    }

    /// Its address.
    pub fn ip(self) -> IpAddr {
        ip(self.bits)
    }
}

impl From<SocketAddr> for End {
    fn from(at: SocketAddr) -> Self {
        Self::new(at.ip(), at.port())
    }
}

/// An address as a number.
#[inline(always)]
pub fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => MAPPED | u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// The address that a number stands for.
pub fn ip(bits: u128) -> IpAddr {
    let v4 = End { bits, port: 0 }.v4();
    v4.map_or_else(|| Ipv6Addr::from_bits(bits).into(), IpAddr::from)
}
