//! Addresses and ports in a row, and fields that vary, as options write them.

use crate::protocol::{FieldRequest, Mac, Op};
use pinchpoint_traffic::spec::FieldRef;
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

/// An address that ports answer for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The address.
    pub ip: IpAddr,
    /// The Ethernet address to answer with.
    pub mac: Mac,
    /// Which ports: `from`, `to`, or all.
    pub side: Option<Side>,
}

/// One side of the paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Where frames come from.
    From,
    /// Where they are expected.
    To,
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
pub(super) fn addresses(text: &str) -> Result<Addresses, String> {
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
    let count = bits(high) - bits(low) + 1;
    if count > MAX_COUNT {
        return Err(format!("{count} addresses; expected at most {MAX_COUNT}"));
    }
    Ok(Addresses {
        first: low,
        count: count as u64,
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
    let last = base + size - 1 - skip_last;
    Some((address(base + skip_first, network), address(last, network)))
}

/// Reads `1025` or `1025-2048`.
///
/// # Errors
/// What was expected.
pub(super) fn ports(text: &str) -> Result<Ports, String> {
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
pub(super) fn services(text: &str) -> Result<Services, String> {
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

/// Reads an Ethernet address.
///
/// # Errors
/// What was expected.
pub(super) fn mac(text: &str) -> Result<Mac, String> {
    let read = text.parse().map(Mac);
    read.map_err(|_| "expected an Ethernet address like 02:00:00:00:00:01".to_owned())
}

/// Reads `IP=MAC`, `IP=MAC@from` or `IP=MAC@to`.
///
/// # Errors
/// What was expected.
pub(super) fn answer(text: &str) -> Result<Answer, String> {
    let expected = "expected IP=MAC, or IP=MAC@from or @to for the ports of one side";
    let (ip, rest) = text.split_once('=').ok_or(expected)?;
    let (told, side) = match rest.split_once('@') {
        None => (rest, None),
        Some((told, "from")) => (told, Some(Side::From)),
        Some((told, "to")) => (told, Some(Side::To)),
        Some(_) => return Err(expected.to_owned()),
    };
    Ok(Answer {
        ip: ip.parse().map_err(|_| expected)?,
        mac: mac(told)?,
        side,
    })
}

/// A value of a field: a number, `0x` and hexadecimal digits, an IPv4 address
/// or an Ethernet address.
fn value(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    if let Ok(ip) = text.parse::<Ipv4Addr>() {
        return Some(ip.to_bits().into());
    }
    if let Ok(mac) = text.parse::<pinchpoint_wire::ethernet::Mac>() {
        return Some(
            mac.0
                .iter()
                .fold(0, |bits, byte| bits << 8 | u64::from(*byte)),
        );
    }
    text.parse().ok()
}

/// Reads `FIELD=OP`: `udp.src=increment:1:1024` (step, count),
/// `ipv4.dst=list:10.0.0.1,10.0.0.9`, `udp.src=random:1024-65535:1000` (least,
/// greatest, count) or `ipv4.dst=zipf:1000:1.1` (count, exponent, and a step
/// if it is not 1).
///
/// # Errors
/// What was expected.
pub(super) fn field(text: &str) -> Result<FieldRequest, String> {
    let (field, op) = text.split_once('=').ok_or(
        "expected FIELD=OP, as in udp.src=increment:1:1024, ipv4.dst=list:10.0.0.1,10.0.0.9, \
         udp.src=random:1024-65535:1000 or ipv4.dst=zipf:1000:1.1",
    )?;
    field
        .parse::<FieldRef>()
        .map_err(|unknown| unknown.to_string())?;
    let (word, rest) = op.split_once(':').unwrap_or((op, ""));
    let op = match word {
        "increment" => increment(rest).ok_or("expected increment:STEP:COUNT"),
        "list" => rest
            .split(',')
            .map(value)
            .collect::<Option<_>>()
            .map(Op::List)
            .ok_or("expected list:VALUE,VALUE,... of numbers or addresses"),
        "random" => random(rest).ok_or("expected random:LEAST-GREATEST:COUNT"),
        "zipf" => zipf(rest).ok_or("expected zipf:COUNT:EXPONENT or zipf:COUNT:EXPONENT:STEP"),
        _ => Err("expected increment, list, random or zipf after the ="),
    };
    Ok(FieldRequest {
        field: field.to_owned(),
        op: op?,
    })
}

fn increment(text: &str) -> Option<Op> {
    let (step, count) = text.split_once(':')?;
    Some(Op::Increment {
        step: step.parse().ok()?,
        count: super::numbers::count(count).ok()?,
    })
}

fn random(text: &str) -> Option<Op> {
    // An Ethernet address has colons of its own.
    let (ends, count) = text.rsplit_once(':')?;
    let (min, max) = ends.split_once('-')?;
    Some(Op::Random {
        min: value(min)?,
        max: value(max)?,
        count: super::numbers::count(count).ok()?,
    })
}

fn zipf(text: &str) -> Option<Op> {
    let parts: Vec<&str> = text.split(':').collect();
    let (&[count, exponent], step) = parts.split_first_chunk()?;
    let step = match step {
        [] => 1,
        [step] => step.parse().ok()?,
        _ => return None,
    };
    Some(Op::Zipf {
        count: super::numbers::count(count).ok()?,
        exponent: exponent.parse().ok()?,
        step,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn answers_may_belong_to_one_side() {
        let read = answer("10.0.0.1=02:00:00:00:00:01@to").unwrap();
        assert_eq!(read.side, Some(Side::To));
        assert_eq!(answer("fd00::1=02:00:00:00:00:01").unwrap().side, None);
        for text in [
            "10.0.0.1",
            "10.0.0.1=x",
            "x=02:00:00:00:00:01",
            "1.1.1.1=02:00:00:00:00:01@x",
        ] {
            assert!(answer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn field_programs_read_as_the_protocol_has_them() {
        for (text, name, op) in [
            (
                "udp.src=increment:-1:1k",
                "udp.src",
                Op::Increment {
                    step: -1,
                    count: 1000,
                },
            ),
            (
                "ipv4[1].dst=list:1.2.3.4,0x10",
                "ipv4[1].dst",
                Op::List(vec![0x0102_0304, 16]),
            ),
            (
                "eth.src=random:02:00:00:00:00:01-02:00:00:00:00:ff:9",
                "eth.src",
                Op::Random {
                    min: 0x0200_0000_0001,
                    max: 0x0200_0000_00ff,
                    count: 9,
                },
            ),
            (
                "ipv4.dst=zipf:9:1.1",
                "ipv4.dst",
                Op::Zipf {
                    count: 9,
                    exponent: 1.1,
                    step: 1,
                },
            ),
            (
                "ipv4.dst=zipf:9:1:256",
                "ipv4.dst",
                Op::Zipf {
                    count: 9,
                    exponent: 1.0,
                    step: 256,
                },
            ),
        ] {
            let expected = FieldRequest {
                field: name.to_owned(),
                op,
            };
            assert_eq!(field(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_field_program_that_is_none_says_what_was_expected() {
        for (text, told) in [
            ("udp.src", "expected FIELD=OP"),
            (
                "udp.sauce=list:1",
                "unknown field 'udp.sauce'; expected one of",
            ),
            ("udp.src=increment:1", "expected increment:STEP:COUNT"),
            ("udp.src=list:1,,2", "expected list:VALUE"),
            ("udp.src=random:1:2", "expected random:LEAST-GREATEST:COUNT"),
            ("udp.src=zipf:1", "expected zipf:COUNT:EXPONENT"),
            (
                "udp.src=dance:1",
                "expected increment, list, random or zipf",
            ),
        ] {
            assert!(field(text).unwrap_err().starts_with(told), "{text}");
        }
    }
}
