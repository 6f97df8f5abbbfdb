//! Counts by powers of two.

/// Bucket `k` counts the values above 2^(k-1) and up to 2^k, the first one
/// everything up to 1; the last one has no upper edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowersOfTwo<const N: usize> {
    buckets: [u64; N],
}

impl<const N: usize> Default for PowersOfTwo<N> {
    fn default() -> Self {
        Self { buckets: [0; N] }
    }
}

impl<const N: usize> PowersOfTwo<N> {
    /// Counts `value`.
    #[inline(always)]
    pub fn record(&mut self, value: u64) {
        // Bits needed for value - 1: the exponent of the power of two that the
        // value does not exceed.
        let bucket = 64 - value.saturating_sub(1).leading_zeros() as usize;
        self.buckets[bucket.min(N - 1)] += 1;
    }

    /// `(edge, count)`: values of at most `edge`, a power of two, and more
    /// than half of it; empty buckets are left out.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        let edges = self.buckets.iter().enumerate();
        edges
            .filter(|&(_, &count)| count > 0)
            .map(|(bit, &count)| (1u64.checked_shl(bit as u32).unwrap_or(u64::MAX), count))
            .collect()
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *count += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_under_the_power_of_two_it_does_not_exceed() {
        let mut powers = PowersOfTwo::<5>::default();
        for value in [0, 1, 2, 3, 4, 5, 8, 9, 1000, u64::MAX] {
            powers.record(value);
        }
        let expected = [(1, 2), (2, 1), (4, 2), (8, 2), (16, 3)];
        assert_eq!(powers.pairs(), expected);
        powers.merge(&powers.clone());
        assert_eq!(
            powers.pairs(),
            expected.map(|(edge, count)| (edge, 2 * count))
        );
    }

    #[test]
    fn the_last_of_65_buckets_ends_at_the_largest_number() {
        let mut powers = PowersOfTwo::<65>::default();
        powers.record(u64::MAX);
        assert_eq!(powers.pairs(), [(u64::MAX, 1)]);
    }
}
