//! Numbers that look random and are functions of what they are asked for.

/// An odd number near 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's output function (Steele, Lea, Flood: Fast Splittable
/// Pseudorandom Number Generators, 2014).
const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A source of numbers of its own for every pair of seed and purpose.
#[derive(Debug, Clone, Copy)]
pub struct Hash(u64);

impl Hash {
    /// Numbers for this seed and this purpose.
    pub const fn new(seed: u64, purpose: u64) -> Self {
        Self(mix(seed ^ mix(purpose.wrapping_add(GOLDEN))))
    }

    /// Number `n` of SplitMix64 started here.
    #[inline(always)]
    pub const fn number(self, n: u64) -> u64 {
        mix(self.0.wrapping_add(GOLDEN.wrapping_mul(n.wrapping_add(1))))
    }

    /// Number `n` of `0..=max`, evenly but for one part in 2^64 / `max`.
    #[inline(always)]
    pub const fn up_to(self, n: u64, max: u64) -> u64 {
        ((self.number(n) as u128 * (max as u128 + 1)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_are_evenly_spread_and_reach_both_ends() {
        let hash = Hash::new(1, 2);
        let mut counts = [0u32; 10];
        for n in 0..100_000 {
            counts[hash.up_to(n, 9) as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (9_500..10_500).contains(count)),
            "{counts:?}"
        );
        assert_eq!(hash.up_to(5, 0), 0);
        assert_eq!(hash.up_to(5, u64::MAX), hash.number(5));
    }

    #[test]
    fn seeds_and_purposes_give_different_numbers() {
        let numbers = |seed, purpose| Hash::new(seed, purpose).number(0);
        let all = (0..100).flat_map(|seed| (0..100).map(move |purpose| numbers(seed, purpose)));
        assert_eq!(all.collect::<HashSet<_>>().len(), 10_000);
    }
}
