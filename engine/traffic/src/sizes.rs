//! Frame sizes, and which frame has which.
//!
//! A frame's size is a function of its sequence number alone, so a stream can
//! be entered anywhere and repeats exactly.

use crate::hash::Hash;
use crate::limits::{MAX_LEN, MIN_LEN, SpecError, check};
use pinchpoint_wire::FCS_LEN;

/// Sizes in one list at most.
const MAX_SIZES: usize = 64;
/// Frames before a list's pattern comes again at most.
const MAX_PERIOD: u64 = 1 << 16;
/// How much of the pattern is stored twice, so that a burst that runs over
/// its end needs no division.
const OVERLAP: usize = 256;
/// Makes the sizes' random numbers differ from every field's.
const PURPOSE: u64 = u64::MAX;

/// The sizes of a stream's frames: bytes in the buffer, four fewer than
/// `frame_bytes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sizes {
    /// All the same.
    Fixed(usize),
    /// Sizes and how often each comes among the others, spread as evenly as
    /// whole frames can be.
    List(Vec<(usize, u32)>),
    /// Any size from the least to the greatest, all equally often.
    Random {
        /// The least.
        min: usize,
        /// The greatest.
        max: usize,
    },
}

/// A mix of sizes by its name; none if it is not known.
///
/// | name | `frame_bytes` x weight | source |
/// |---|---|---|
/// | `simple` | 64 x 7, 594 x 4, 1518 x 1 | the "simple IMIX" with IP lengths 40, 576 and 1500 on Ethernet |
/// | `IMIX_v4_1` | 64 x 28, 570 x 16, 1518 x 4 | FD.io CSIT |
///
/// RFC 6985 says how a mix is to be written down; it defines none.
pub fn imix(name: &str) -> Option<Sizes> {
    let list: &[(usize, u32)] = match name {
        "simple" => &[(64, 7), (594, 4), (1518, 1)],
        "IMIX_v4_1" => &[(64, 28), (570, 16), (1518, 4)],
        _ => return None,
    };
    let in_buffer = list
        .iter()
        .map(|(bytes, weight)| (bytes - FCS_LEN, *weight));
    Some(Sizes::List(in_buffer.collect()))
}

impl Sizes {
    /// Every size with its key, for checks.
    pub(crate) fn keyed(&self) -> Vec<(String, usize)> {
        match self {
            Self::Fixed(len) => vec![("sizes.fixed".to_owned(), *len)],
            Self::List(list) => {
                let entry =
                    |(k, (len, _)): (usize, &(usize, u32))| (format!("sizes.list[{k}]"), *len);
                list.iter().enumerate().map(entry).collect()
            }
            Self::Random { min, max } => vec![
                ("sizes.random.min".to_owned(), *min),
                ("sizes.random.max".to_owned(), *max),
            ],
        }
    }

    pub(crate) fn validate(&self) -> Result<(), SpecError> {
        if let Self::List(list) = self {
            check(
                (1..=MAX_SIZES).contains(&list.len()),
                "sizes.list",
                format!("expected 1 to {MAX_SIZES} sizes, got {}", list.len()),
            )?;
            for (k, (_, weight)) in list.iter().enumerate() {
                check(
                    *weight > 0,
                    format!("sizes.list[{k}]"),
                    "expected a weight of at least 1",
                )?;
            }
            let period = period(list);
            check(
                period <= MAX_PERIOD,
                "sizes.list",
                format!(
                    "expected weights that repeat after at most {MAX_PERIOD} frames, got {period}"
                ),
            )?;
        }
        for (key, len) in self.keyed() {
            let bytes = len.saturating_add(FCS_LEN);
            check(
                (MIN_LEN..=MAX_LEN).contains(&len),
                key,
                format!("expected 64 to {}, got {bytes}", MAX_LEN + FCS_LEN),
            )?;
        }
        if let Self::Random { min, max } = self {
            check(
                min <= max,
                "sizes.random.max",
                format!("is less than min, {}", min + FCS_LEN),
            )?;
        }
        Ok(())
    }
}

/// Weights without their greatest common divisor.
fn reduced(list: &[(usize, u32)]) -> Vec<u64> {
    fn gcd(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    let weights = list.iter().map(|(_, weight)| u64::from(*weight));
    let divisor = weights.clone().fold(0, gcd).max(1);
    weights.map(|weight| weight / divisor).collect()
}

fn period(list: &[(usize, u32)]) -> u64 {
    reduced(list).iter().sum()
}

/// Smooth weighted round robin: everyone gains its weight, the richest is
/// served and pays the sum of all weights; the first of equals wins.
fn interleave(weights: &[u64]) -> Vec<u16> {
    let period: u64 = weights.iter().sum();
    let mut credits = vec![0i64; weights.len()];
    let mut order = Vec::with_capacity(period as usize);
    for _ in 0..period {
        let mut richest = 0;
        for (k, weight) in weights.iter().enumerate() {
            credits[k] += *weight as i64;
            if credits[k] > credits[richest] {
                richest = k;
            }
        }
        credits[richest] -= period as i64;
        order.push(richest as u16);
    }
    order
}

/// Which size comes when.
#[derive(Debug, Clone)]
pub(crate) struct SizePattern {
    /// The sizes there are.
    lens: Vec<u16>,
    order: Order,
    mean: f64,
}

#[derive(Debug, Clone)]
enum Order {
    Always,
    Table {
        /// One period and the beginning of the next.
        order: Vec<u16>,
        period: usize,
    },
    Random(Hash),
}

impl SizePattern {
    /// The pattern of sizes that were validated.
    pub(crate) fn new(sizes: &Sizes, seed: u64) -> Self {
        match sizes {
            Sizes::Fixed(len) => Self {
                lens: vec![*len as u16],
                order: Order::Always,
                mean: *len as f64,
            },
            Sizes::List(list) => {
                let weights = reduced(list);
                let once = interleave(&weights);
                let period = once.len();
                let order = once
                    .iter()
                    .cycle()
                    .take(period + OVERLAP)
                    .copied()
                    .collect();
                let total = list
                    .iter()
                    .zip(&weights)
                    .map(|((len, _), weight)| *len as u64 * weight);
                Self {
                    lens: list.iter().map(|(len, _)| *len as u16).collect(),
                    order: Order::Table { order, period },
                    mean: total.sum::<u64>() as f64 / period as f64,
                }
            }
            Sizes::Random { min, max } => Self {
                lens: (*min as u16..=*max as u16).collect(),
                order: Order::Random(Hash::new(seed, PURPOSE)),
                mean: (min + max) as f64 / 2.0,
            },
        }
    }

    pub(crate) fn lens(&self) -> impl Iterator<Item = usize> {
        self.lens.iter().map(|len| usize::from(*len))
    }

    /// Bytes of the longest frame.
    pub(crate) fn max_len(&self) -> usize {
        self.lens().max().unwrap_or(MIN_LEN)
    }

    /// Bytes of the shortest frame.
    pub(crate) fn min_len(&self) -> usize {
        self.lens().min().unwrap_or(MIN_LEN)
    }

    /// Bytes of a frame on average, over the pattern.
    pub(crate) fn mean_len(&self) -> f64 {
        self.mean
    }

    /// Where in the pattern frame `sequence` stands.
    pub(crate) fn position(&self, sequence: u64) -> usize {
        match &self.order {
            Order::Table { period, .. } => (sequence % *period as u64) as usize,
            _ => 0,
        }
    }

    /// The position behind `position`.
    #[inline(always)]
    pub(crate) fn next(&self, position: usize) -> usize {
        match &self.order {
            Order::Table { period, .. } if position + 1 < *period => position + 1,
            _ => 0,
        }
    }

    /// Number among the sizes, and bytes, of the frame `ahead` behind frame
    /// `sequence`, which stands at `position`.
    #[inline(always)]
    pub(crate) fn size(&self, sequence: u64, position: usize, ahead: usize) -> (usize, usize) {
        let size = match &self.order {
            Order::Always => 0,
            Order::Table { order, period } => {
                let at = position + ahead;
                let at = if at < order.len() { at } else { at % period };
                usize::from(order[at])
            }
            Order::Random(hash) => {
                hash.up_to(sequence + ahead as u64, self.lens.len() as u64 - 1) as usize
            }
        };
        (size, usize::from(self.lens[size]))
    }
}

#[cfg(test)]
#[path = "sizes_tests.rs"]
mod tests;
