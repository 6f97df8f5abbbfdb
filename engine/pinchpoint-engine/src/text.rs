//! Values that are written as text, in options and in messages alike: addresses and ports in a
//! row, kinds of work, the next hop.

use pinchpoint_workload::connections::plan::{KINDS, Mix, Work};
use pinchpoint_workload::connections::work::NextHop;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Addresses in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The lowest.
    pub first: IpAddr,
    /// How many there are, at least 1.
    pub count: u64,
}

/// Ports in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// The lowest.
    pub first: u16,
    /// How many there are, at least 1.
    pub count: u64,
}

/// Virtual servers: addresses in a row, each with the same ports in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Services {
    /// The lowest address with the lowest port.
    pub first: SocketAddr,
    /// How many addresses there are, at least 1.
    pub addresses: u32,
    /// How many ports each has, at least 1.
    pub ports: u32,
}

/// Most virtual servers.
const MOST_SERVICES: u64 = 65_536;
/// Most values of a range: what a field program takes.
const MAX_COUNT: u128 = 1 << 32;

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

fn address(bits: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from_bits(bits as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(bits).into(),
    }
}

/// Reads `A`, `A-B` (both included) or `A/N` (the hosts of the network: all
/// but its first and, in IPv4, its last address).
///
/// # Errors
/// What was expected.
pub fn addresses(text: &str) -> Result<Addresses, String> {
    let expected = || {
        "expected an address (16.0.0.1), a range (16.0.0.1-16.0.0.255) or a network (16.0.0.0/24)"
            .to_owned()
    };
    let read = |text: &str| text.parse::<IpAddr>().map_err(|_| expected());
    let (low, high) = if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (read(first)?, read(last)?);
        if first.is_ipv4() != last.is_ipv4() || first > last {
            return Err("the range ends before it begins: put the lower address first".to_owned());
        }
        (first, last)
    } else if let Some((network, length)) = text.split_once('/') {
        hosts(read(network)?, length.parse().map_err(|_| expected())?).ok_or_else(expected)?
    } else {
        let one = read(text)?;
        (one, one)
    };
    let more = bits(high) - bits(low);
    if more >= MAX_COUNT {
        return Err(format!("too many addresses; expected at most {MAX_COUNT}"));
    }
    Ok(Addresses {
        first: low,
        count: more as u64 + 1,
    })
}

/// First and last host of a network.
fn hosts(network: IpAddr, length: u32) -> Option<(IpAddr, IpAddr)> {
    let width = if network.is_ipv4() { 32 } else { 128 };
    let free = width - Some(length).filter(|length| (1..=width).contains(length))?;
    let size = 1u128 << free;
    let base = bits(network) & !(size - 1);
    // A network of one or two addresses has no other than hosts (RFC 3021).
    let (skip_first, skip_last) = match free {
        0 | 1 => (0, 0),
        _ => (1, u128::from(network.is_ipv4())),
    };
    let last = base + (size - 1) - skip_last;
    Some((address(base + skip_first, network), address(last, network)))
}

/// Reads `1025` or `1025-2048`.
///
/// # Errors
/// What was expected.
pub fn ports(text: &str) -> Result<Ports, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ends = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
    let (first, last) = ends
        .filter(|(first, last)| first <= last)
        .ok_or("expected a port (1025) or a range of them (1025-2048)")?;
    Ok(Ports {
        first,
        count: u64::from(last - first) + 1,
    })
}

/// Reads `IP:PORT`, either of which may be a range: `10.0.0.1-10.0.0.3:80-84`, `[fd00::1]:80`.
///
/// # Errors
/// What was expected.
pub fn services(text: &str) -> Result<Services, String> {
    let expected = || {
        "expected IP:PORT (10.0.0.1:80, [fd00::1]:80); either may be a range (10.0.0.1-10.0.0.3:80-84)"
            .to_owned()
    };
    let (ips, numbers) = text.rsplit_once(':').ok_or_else(expected)?;
    let in_brackets = ips.strip_prefix('[').and_then(|ips| ips.strip_suffix(']'));
    let (all, ports) = (addresses(in_brackets.unwrap_or(ips))?, ports(numbers)?);
    if all.first.is_ipv6() != in_brackets.is_some() {
        return Err(expected());
    }
    let count = all.count * ports.count;
    if count > MOST_SERVICES {
        return Err(format!(
            "{count} virtual servers; expected at most {MOST_SERVICES}"
        ));
    }
    Ok(Services {
        first: SocketAddr::new(all.first, ports.first),
        addresses: all.count as u32,
        ports: ports.count as u32,
    })
}

/// Reads an Ethernet address, or an IP address whose own is asked for.
///
/// # Errors
/// What was expected.
pub fn next_hop(text: &str) -> Result<NextHop, String> {
    let at = text.parse().map(NextHop::Of);
    at.or_else(|_| text.parse().map(NextHop::At)).map_err(|_| {
        "expected an Ethernet address (02:00:00:00:00:01) or an IP address (10.0.0.1)".to_owned()
    })
}

/// The word for a kind of work.
fn word(work: Work) -> &'static str {
    match work {
        Work::Syn => "syn",
        Work::Abandon => "abandon",
        Work::Reset => "reset",
        Work::Request => "request",
        Work::Datagram => "udp",
    }
}

/// Reads them, as in `request:98,reset:2`.
///
/// # Errors
/// What was expected.
pub fn work(text: &str) -> Result<Mix, String> {
    if text == word(Work::Datagram) {
        return Ok(Mix::datagrams());
    }
    let mut weights = [0; KINDS.len()];
    for part in text.split(',') {
        let (name, weight) = part.split_once(':').unwrap_or((part, "1"));
        let kind = KINDS.iter().position(|&kind| word(kind) == name);
        let weight = weight.parse::<u32>().ok();
        let (kind, weight) = kind.zip(weight).ok_or_else(|| {
            format!("'{part}': expected syn, abandon, reset or request, with a weight (request:98,reset:2), or udp alone")
        })?;
        weights[kind] = weight;
    }
    Mix::new(weights).ok_or_else(|| "expected a weight that is not 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinchpoint_wire::ethernet::Mac;

    #[test]
    fn addresses_are_one_a_range_or_the_hosts_of_a_network() {
        for (text, first, count) in [
            ("16.0.0.1", "16.0.0.1", 1),
            ("16.0.0.1-16.0.1.0", "16.0.0.1", 256),
            ("16.0.0.0/24", "16.0.0.1", 254),
            ("16.0.0.77/30", "16.0.0.77", 2),
            ("16.0.0.6/31", "16.0.0.6", 2),
            ("16.0.0.6/32", "16.0.0.6", 1),
            ("fd00::1-fd00::ff", "fd00::1", 255),
            ("fd00::/112", "fd00::1", 65_535),
            (
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:0/112",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:1",
                65_535,
            ),
        ] {
            let first = first.parse().unwrap();
            assert_eq!(addresses(text), Ok(Addresses { first, count }), "{text}");
        }
        for text in [
            "",
            "16.0.0",
            "16.0.0.2-16.0.0.1",
            "1.1.1.1-fd00::1",
            "1.1.1.1/33",
            "::/1",
            "f000::/4",
            "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ] {
            assert!(addresses(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ports_are_one_or_a_range() {
        assert_eq!(
            ports("80"),
            Ok(Ports {
                first: 80,
                count: 1
            })
        );
        assert_eq!(
            ports("1025-2048"),
            Ok(Ports {
                first: 1025,
                count: 1024
            })
        );
        for text in ["", "65536", "9-8", "1-2-3", "http"] {
            assert!(ports(text).is_err(), "{text}");
        }
    }

    #[test]
    fn virtual_servers_are_one_or_a_range_of_addresses_with_a_range_of_ports() {
        let read = |text: &str| {
            services(text).map(|all| (all.first.to_string(), all.addresses, all.ports))
        };
        for (text, first, addresses, ports) in [
            ("10.0.0.100:80", "10.0.0.100:80", 1, 1),
            ("6.6.247.3-6.6.247.5:80-84", "6.6.247.3:80", 3, 5),
            ("[fd00::1-fd00::2]:80", "[fd00::1]:80", 2, 1),
        ] {
            assert_eq!(
                read(text),
                Ok((first.to_owned(), addresses, ports)),
                "{text}"
            );
        }
        for text in [
            "10.0.0.100",
            "10.0.0.100:",
            ":80",
            "fd00::1:80",
            "[10.0.0.1]:80",
            "10.0.0.1:9-8",
        ] {
            assert!(read(text).unwrap_err().starts_with("expected"), "{text}");
        }
        assert!(
            read("10.0.0.0-10.0.0.255:1-1000")
                .unwrap_err()
                .contains("at most 65536")
        );
    }

    #[test]
    fn kinds_of_work_have_weights() {
        assert_eq!(work("request"), Ok(Mix::new([0, 0, 0, 1]).unwrap()));
        assert_eq!(
            work("request:98,reset:2"),
            Ok(Mix::new([0, 0, 2, 98]).unwrap())
        );
        assert_eq!(work("syn,abandon:3"), Ok(Mix::new([1, 3, 0, 0]).unwrap()));
        for text in ["", "syn:", "syn:-1", "nap", "request:1:2", "udp,syn"] {
            assert!(work(text).unwrap_err().contains("expected syn"), "{text}");
        }
        assert!(work("syn:0").unwrap_err().contains("not 0"));
        assert_eq!(work("udp"), Ok(Mix::datagrams()));
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
}
