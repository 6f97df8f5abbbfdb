//! Zipf's law: rank `r` (from 1) is drawn in proportion to `r^-exponent`.
//!
//! Rejection-inversion (Hörmann, Derflinger: Rejection-inversion to generate
//! variates from monotone discrete distributions, ACM TOMACS 6(3), 1996):
//! a point under the law's continuous upper hull is drawn by inversion and
//! kept if it lies under the law itself. It needs no table, and keeps more
//! than nine points in ten.

use crate::hash::Hash;

/// One law.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
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
    /// Areas from which on a point near the rank is under the law, for the
    /// ranks drawn most often.
    limits: Vec<f64>,
}

/// Ranks whose limit is remembered.
const REMEMBERED: u64 = 1024;

impl Zipf {
    /// The law over ranks 1 to `count`, at least 1; `exponent` is not negative.
    pub(crate) fn new(count: u64, exponent: f64) -> Self {
        let mut law = Self {
            count: count as f64,
            exponent,
            is_smooth: (1.0 - exponent).abs() > 1e-3,
            slope: 1.0 / (1.0 - exponent),
            hull_first: 0.0,
            hull_last: 0.0,
            squeeze: 0.0,
            limits: Vec::new(),
        };
        law.hull_first = law.area(1.5) - 1.0;
        law.hull_last = law.area(law.count + 0.5);
        law.squeeze = 2.0 - law.area_inverse(law.area(2.5) - law.height(2.0));
        law.limits = (1..=count.min(REMEMBERED))
            .map(|rank| law.limit(rank as f64))
            .collect();
        law
    }

    fn limit(&self, rank: f64) -> f64 {
        self.area(rank + 0.5) - self.height(rank)
    }

    /// A rank, from 0, that depends on `hash` and `n` alone.
    #[inline]
    pub(crate) fn rank(&self, hash: Hash, n: u64) -> u64 {
        let mut number = hash.number(n);
        loop {
            // The upper 53 bits, as many as a float has.
            let share = (number >> 11) as f64 / (1u64 << 53) as f64;
            let area = self.hull_last + share * (self.hull_first - self.hull_last);
            let point = self.area_inverse(area);
            // Rounded half up; the law's points begin at 1/2.
            let rank = ((point + 0.5) as u64 as f64).clamp(1.0, self.count);
            let index = rank as u64 - 1;
            let limit = || match self.limits.get(index as usize) {
                Some(limit) => *limit,
                None => self.limit(rank),
            };
            if rank - point <= self.squeeze || area >= limit() {
                return index;
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
    fn sixteen_million_ranks_need_no_memory_and_stay_in_range() {
        let law = Zipf::new(16_000_000, 1.1);
        let ranks = (0..100_000).map(|n| law.rank(Hash::new(1, 1), n));
        let largest = ranks.max().unwrap();
        assert!((1_000_000..16_000_000).contains(&largest), "{largest}");
    }
}
