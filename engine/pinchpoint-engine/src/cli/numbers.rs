//! Numbers as people write them, parsed and printed.

use crate::protocol::{Rate, Size};

/// A rate as given: none is as fast as the core and the port allow.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace(pub Option<Rate>);

/// Splits `text` into its leading number and what follows.
fn number(text: &str) -> Option<(f64, &str)> {
    let numeric = |c: char| !(c.is_ascii_digit() || c == '.');
    let (digits, rest) = text.split_at(text.find(numeric).unwrap_or(text.len()));
    let value: f64 = digits.parse().ok()?;
    Some((value, rest)).filter(|(value, _)| value.is_finite())
}

/// Splits a decimal prefix off `text`.
fn prefix(text: &str) -> (f64, &str) {
    let factors = [('k', 1e3), ('K', 1e3), ('M', 1e6), ('G', 1e9)];
    let found = factors
        .iter()
        .find_map(|&(letter, factor)| Some((factor, text.strip_prefix(letter)?)));
    found.unwrap_or((1.0, text))
}

/// Reads a whole number with an optional decimal prefix: `65536`, `64k`, `1M`.
///
/// # Errors
/// What was expected.
pub(super) fn count(text: &str) -> Result<u64, String> {
    if let Ok(plain) = text.parse() {
        return Ok(plain);
    }
    let value = number(text).and_then(|(value, rest)| {
        let (factor, rest) = prefix(rest);
        Some(value * factor).filter(|value| {
            rest.is_empty() && factor > 1.0 && value.fract() == 0.0 && *value <= 1e18
        })
    });
    value
        .map(|value| value as u64)
        .ok_or_else(|| "expected a whole number such as 65536, 64k or 1M".to_owned())
}

/// Reads a time in seconds: `10s`, `500ms`, `100us`, `2m`, `1h`, or `10`.
///
/// # Errors
/// What was expected.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let value = number(text).and_then(|(value, unit)| {
        let factor = match unit {
            "" | "s" => 1.0,
            "ms" => 1e-3,
            "us" => 1e-6,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        Some(value * factor)
    });
    value.ok_or_else(|| "expected a time such as 10s, 500ms, 2m or 1h".to_owned())
}

/// Reads a share: `50%`, or `0.5`.
///
/// # Errors
/// What was expected.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let value = number(text).and_then(|(value, unit)| match unit {
        "" => Some(value),
        "%" => Some(value / 100.0),
        _ => None,
    });
    value
        .filter(|value| *value <= 1.0)
        .ok_or_else(|| "expected a share such as 50%".to_owned())
}

/// Reads a rate: `1M` (frames a second), `10Gbit` (at L1), `10Gbit-l2`, `50%`
/// (of the port's line rate), `2x` (as fast as a capture) or `max`.
///
/// # Errors
/// What was expected.
pub(super) fn pace(text: &str) -> Result<Pace, String> {
    if text == "max" {
        return Ok(Pace(None));
    }
    let rate = number(text).and_then(|(value, unit)| {
        if unit == "%" {
            return Some(Rate::LineShare(value / 100.0)).filter(|_| value <= 100.0);
        }
        if unit == "x" {
            return Some(Rate::Speed(value));
        }
        let (factor, unit) = prefix(unit);
        let value = value * factor;
        match unit {
            "" | "fps" | "pps" => Some(Rate::Fps(value)),
            "bit" | "bit-l1" | "bps" => Some(Rate::BpsL1(value)),
            "bit-l2" | "bps-l2" => Some(Rate::BpsL2(value)),
            _ => None,
        }
    });
    let positive = |rate: &Rate| match rate {
        Rate::Fps(value)
        | Rate::BpsL1(value)
        | Rate::BpsL2(value)
        | Rate::LineShare(value)
        | Rate::Speed(value) => *value > 0.0,
    };
    rate.filter(positive)
        .map(|rate| Pace(Some(rate)))
        .ok_or_else(|| {
            "expected frames a second (1M, 14.88M), bits a second (10Gbit, or 10Gbit-l2 without \
             preamble and gap), a share of the line rate (50%) or max"
                .to_owned()
        })
}

/// Reads frame sizes: `64`, `64,594:4,1518` (size:weight), `64-1518` (random)
/// or `imix:simple`.
///
/// # Errors
/// What was expected.
pub(super) fn size(text: &str) -> Result<Size, String> {
    let expected = || {
        "expected frame sizes with check sequence: 64, a list with weights 64:7,594:4,1518, a \
         range 64-1518 or imix:simple"
            .to_owned()
    };
    if let Some(rest) = text.strip_prefix("imix") {
        return match rest.strip_prefix(':') {
            Some(name) if !name.is_empty() => Ok(Size::Imix(name.to_owned())),
            None if rest.is_empty() => Ok(Size::Imix("simple".to_owned())),
            _ => Err(expected()),
        };
    }
    if let Some((least, greatest)) = text.split_once('-') {
        let ends = least.parse().ok().zip(greatest.parse().ok());
        return ends
            .map(|(least, greatest)| Size::Random(least, greatest))
            .ok_or_else(expected);
    }
    let entry = |entry: &str| -> Option<(usize, u32)> {
        match entry.split_once(':') {
            Some((bytes, weight)) => Some((bytes.parse().ok()?, weight.parse().ok()?)),
            None => Some((entry.parse().ok()?, 1)),
        }
    };
    let list: Option<Vec<_>> = text.split(',').map(entry).collect();
    match list.as_deref() {
        None => Err(expected()),
        Some(&[(bytes, 1)]) => Ok(Size::Fixed(bytes)),
        Some(list) => Ok(Size::List(list.to_vec())),
    }
}

/// A count with its digits in groups of three.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (k, digit) in digits.chars().enumerate() {
        if k > 0 && (digits.len() - k).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate with three significant decimals and its decimal prefix: `3.200 M`.
pub(super) fn scaled(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{:.3} G", value / 1e9),
        v if v >= 1e6 => format!("{:.3} M", value / 1e6),
        v if v >= 1e3 => format!("{:.3} k", value / 1e3),
        _ => format!("{value:.1} "),
    }
}

/// A time in the unit that suits it.
pub(super) fn duration(ns: f64) -> String {
    match ns.abs() {
        v if v < 1e3 => format!("{ns:.0} ns"),
        v if v < 1e6 => format!("{:.2} us", ns / 1e3),
        v if v < 1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.3} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_decimal_prefixes() {
        for (text, value) in [
            ("0", 0),
            ("65536", 65_536),
            ("64k", 64_000),
            ("1.5M", 1_500_000),
        ] {
            assert_eq!(count(text), Ok(value), "{text}");
        }
        for text in ["", "k", "-1", "1.5", "1.0005k", "1T", "64kk", "1e3"] {
            assert!(count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_units_and_are_seconds_without() {
        for (text, value) in [("10", 10.0), ("10s", 10.0), ("500ms", 0.5), ("2m", 120.0)] {
            assert_eq!(seconds(text), Ok(value), "{text}");
        }
        assert_eq!(seconds("1h"), Ok(3600.0));
        for text in ["", "s", "-1s", "10 s", "1d", "1.2.3s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_frames_bits_shares_or_max() {
        for (text, rate) in [
            ("max", None),
            ("1000", Some(Rate::Fps(1000.0))),
            ("1M", Some(Rate::Fps(1e6))),
            ("14.88Mpps", Some(Rate::Fps(14_880_000.0))),
            ("10Gbit", Some(Rate::BpsL1(1e10))),
            ("100kbit-l2", Some(Rate::BpsL2(1e5))),
            ("50%", Some(Rate::LineShare(0.5))),
            ("2x", Some(Rate::Speed(2.0))),
        ] {
            assert_eq!(pace(text), Ok(Pace(rate)), "{text}");
        }
        for text in ["", "fast", "0", "101%", "10Gbit-l3", "-1", "1MM"] {
            let told = pace(text).unwrap_err();
            assert!(told.starts_with("expected frames a second"), "{text}");
        }
    }

    #[test]
    fn sizes_are_one_a_list_a_range_or_a_mix() {
        for (text, expected) in [
            ("64", Size::Fixed(64)),
            (
                "64,594:4,1518",
                Size::List(vec![(64, 1), (594, 4), (1518, 1)]),
            ),
            ("64:7", Size::List(vec![(64, 7)])),
            ("64-1518", Size::Random(64, 1518)),
            ("imix", Size::Imix("simple".to_owned())),
            ("imix:IMIX_v4_1", Size::Imix("IMIX_v4_1".to_owned())),
        ] {
            assert_eq!(size(text), Ok(expected), "{text}");
        }
        for text in ["", "64,", "64:x", "-64", "imix:", "imixed", "64-"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_at_most_one() {
        assert_eq!(share("10%"), Ok(0.1));
        assert_eq!(share("0.25"), Ok(0.25));
        assert!(share("101%").is_err() && share("2").is_err() && share("x").is_err());
    }

    #[test]
    fn what_is_told_has_groups_and_units() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(14_880_952), "14,880,952");
        assert_eq!(scaled(3_200_000.0), "3.200 M");
        assert_eq!(scaled(12.0), "12.0 ");
        assert_eq!(duration(999.0), "999 ns");
        assert_eq!(duration(30_100.0), "30.10 us");
    }
}
