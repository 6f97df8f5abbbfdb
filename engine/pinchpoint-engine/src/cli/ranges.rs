//! Ethernet addresses, addresses that ports answer for, and fields that vary, as options write them.

use crate::protocol::{FieldRequest, Mac, Op};
use pinchpoint_traffic::spec::FieldRef;
use std::net::{IpAddr, Ipv4Addr};

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
