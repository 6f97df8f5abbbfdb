//! Zipf's law: rank `r` (from 1) is drawn in proportion to `r^-exponent`.
//!
//! The first ranks, which most draws fall on, are found in a table of
//! cumulated weights. Further ranks, however many, need none: rejection-
//! inversion (Hörmann, Derflinger: Rejection-inversion to generate variates
//! from monotone discrete distributions, ACM TOMACS 6(3), 1996) draws a point
//! under the law's continuous upper hull by inversion and keeps it if it lies
//! under the law itself.

use crate::hash::Hash;

/// Ranks in the table at most.
const TABLED: u64 = 1024;
/// Equal parts of the table's weight, each with the rank it begins in.
const PARTS: usize = 2048;

/// One law.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    head: Head,
    tail: Tail,
    /// Weight of all ranks.
    total: f64,
}

impl Zipf {
    /// The law over ranks 1 to `count`, at least 1; `exponent` is not negative.
    pub(crate) fn new(count: u64, exponent: f64) -> Self {
        let head = Head::new(count.min(TABLED), exponent);
        let tail = Tail::new(count.min(TABLED) + 1, count, exponent);
        let total = head.weight() + if count > TABLED { tail.weight() } else { 0.0 };
        Self { head, tail, total }
    }

    /// A rank, from 0, that depends on `hash` and `n` alone.
    #[inline]
    pub(crate) fn rank(&self, hash: Hash, n: u64) -> u64 {
        let number = hash.number(n);
        let weight = share(number) * self.total;
        if weight < self.head.weight() {
            self.head.rank(weight)
        } else if self.tail.first <= self.tail.count {
            self.tail.rank(hash, number)
        } else {
            // Rounding alone leads here.
            self.tail.count as u64 - 1
        }
    }
}

/// The upper 53 bits, as many as a float has, as a number below 1.
#[inline(always)]
fn share(number: u64) -> f64 {
    (number >> 11) as f64 / (1u64 << 53) as f64
}

/// The first ranks.
#[derive(Debug, Clone)]
struct Head {
    /// Weight of the ranks up to each.
    cumulated: Vec<f64>,
    /// The rank, from 0, in which each part of the weight begins.
    guide: Vec<u16>,
    parts_per_weight: f64,
}

impl Head {
    fn new(count: u64, exponent: f64) -> Self {
        let mut weight = 0.0;
        let cumulated: Vec<f64> = (1..=count)
            .map(|rank| {
                weight += (rank as f64).powf(-exponent);
                weight
            })
            .collect();
        let begins = |part: usize| {
            let before = weight * part as f64 / PARTS as f64;
            cumulated.partition_point(|up_to| *up_to <= before) as u16
        };
        Self {
            guide: (0..PARTS).map(begins).collect(),
            parts_per_weight: PARTS as f64 / weight,
            cumulated,
        }
    }

    #[inline(always)]
    fn weight(&self) -> f64 {
        self.cumulated.last().copied().unwrap_or_default()
    }

    /// The rank, from 0, on which `weight`, less than all, falls.
    #[inline(always)]
    fn rank(&self, weight: f64) -> u64 {
        let part = (weight * self.parts_per_weight) as usize;
        let begin = usize::from(self.guide[part.min(PARTS - 1)]);
        let rest = self.cumulated.get(begin..).unwrap_or_default();
        let further = rest.iter().take_while(|up_to| **up_to <= weight).count();
        (begin + further) as u64
    }
}

/// The ranks from one on.
#[derive(Debug, Clone, Copy)]
struct Tail {
    first: f64,
    count: f64,
    exponent: f64,
    /// Whether the exponent is so far from 1 that the plain logarithm loses
    /// no more than the last few bits; it is much faster.
    is_smooth: bool,
    /// `1 / (1 - exponent)`.
    slope: f64,
    hull_first: f64,
    hull_last: f64,
    /// Within this distance below a rank, a point needs no further test.
    squeeze: f64,
}

impl Tail {
    fn new(first: u64, count: u64, exponent: f64) -> Self {
        let mut tail = Self {
            first: first as f64,
            count: count as f64,
            exponent,
            is_smooth: (1.0 - exponent).abs() > 1e-3,
            slope: 1.0 / (1.0 - exponent),
            hull_first: 0.0,
            hull_last: 0.0,
            squeeze: 0.0,
        };
        tail.hull_first = tail.area(tail.first + 0.5) - tail.height(tail.first);
        tail.hull_last = tail.area(tail.count + 0.5);
        let second = tail.first + 1.0;
        let under = tail.area(second + 0.5) - tail.height(second);
        tail.squeeze = second - tail.area_inverse(under);
        tail
    }

    /// Weight of all its ranks, at least [`TABLED`], by the Euler-Maclaurin
    /// formula up to first derivatives: there, exact to 12 digits.
    fn weight(&self) -> f64 {
        let slope = |x: f64| -self.exponent * self.height(x) / x;
        let ends = self.height(self.first) + self.height(self.count);
        self.area(self.count) - self.area(self.first)
            + ends / 2.0
            + (slope(self.count) - slope(self.first)) / 12.0
    }

    /// A rank, from 0.
    #[inline]
    fn rank(&self, hash: Hash, seed: u64) -> u64 {
        let mut number = hash.number(seed);
        loop {
            let area = self.hull_last + share(number) * (self.hull_first - self.hull_last);
            let point = self.area_inverse(area);
            let rank = ((point + 0.5) as u64 as f64).clamp(self.first, self.count);
            if rank - point <= self.squeeze || area >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u64 - 1;
            }
            number = hash.number(number);
        }
    }

    fn height(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// Integral of the height: `(x^(1-e) - 1) / (1-e)`, or `ln x` if e is 1.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.exponent) * log;
        log * if t.abs() > 1e-8 {
            t.exp_m1() / t
        } else {
            1.0 + t / 2.0
        }
    }

    fn area_inverse(&self, area: f64) -> f64 {
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        if self.is_smooth {
            return ((1.0 + t).ln() * self.slope).exp();
        }
        let ratio = if t.abs() > 1e-8 {
            t.ln_1p() / t
        } else {
            1.0 - t / 2.0
        };
        (area * ratio).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_law() {
        let draws = 400_000;
        for (count, exponent) in [
            (1u64, 1.0),
            (2, 1.0),
            (10, 0.0),
            (20, 0.7),
            (50, 1.0),
            (50, 1.0005),
            (2000, 1.1),
            (50, 2.5),
        ] {
            let law = Zipf::new(count, exponent);
            let mut seen = vec![0f64; count as usize];
            for n in 0..draws {
                seen[law.rank(Hash::new(9, 9), n) as usize] += 1.0;
            }
            let weight = |rank: u64| (rank as f64).powf(-exponent);
            let total: f64 = (1..=count).map(weight).sum();
            for rank in 1..=count {
                let share = weight(rank) / total;
                let expected = share * draws as f64;
                let deviation = (expected * (1.0 - share)).sqrt();
                let difference = (seen[rank as usize - 1] - expected).abs();
                assert!(
                    difference <= 5.0 * deviation,
                    "{count} {exponent} rank {rank}"
                );
            }
        }
    }

    #[test]
    fn the_tail_s_weight_is_the_sum_of_its_ranks() {
        for (first, count, exponent) in [
            (1025, 1_000_000, 1.1),
            (1025, 1025, 1.0),
            (1025, 90_000, 0.0),
        ] {
            let sum: f64 = (first..=count)
                .map(|rank| (rank as f64).powf(-exponent))
                .sum();
            let weight = Tail::new(first, count, exponent).weight();
            assert!((weight / sum - 1.0).abs() < 1e-9, "{weight} {sum}");
        }
    }

    #[test]
    fn table_and_tail_share_the_draws_by_their_weights() {
        let law = Zipf::new(1_000_000, 1.1);
        let draws = 200_000;
        let in_table = (0..draws)
            .filter(|n| law.rank(Hash::new(3, 3), *n) < TABLED)
            .count();
        let expected = law.head.weight() / law.total * draws as f64;
        assert!(
            (in_table as f64 - expected).abs() < 1000.0,
            "{in_table} {expected}"
        );
    }

    #[test]
    fn sixteen_million_ranks_need_no_memory_and_stay_in_range() {
        let law = Zipf::new(16_000_000, 1.1);
        let ranks = (0..100_000).map(|n| law.rank(Hash::new(1, 1), n));
        let largest = ranks.max().unwrap();
        assert!((1_000_000..16_000_000).contains(&largest), "{largest}");
    }
}
