//! How many segments came from each address.

use super::end::{MOST_SOURCES, ip};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::net::IpAddr;

/// Segments by source address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// The first address and its count. Often it is the only one: it is not hashed.
    first: Option<(u128, u64)>,
    by_address: HashMap<u128, u64, RandomState>,
    /// Of addresses beyond [`MOST_SOURCES`].
    pub others: u64,
}

impl Sources {
    /// One more of `address`, as in an [`End`].
    #[inline]
    pub fn add(&mut self, address: u128) {
        self.add_many(address, 1);
    }

    #[inline(always)]
    fn add_many(&mut self, address: u128, more: u64) {
        let (first, count) = self.first.get_or_insert((address, 0));
        if *first == address {
            *count += more;
        } else if let Some(count) = self.by_address.get_mut(&address) {
            *count += more;
        } else if self.by_address.len() + 1 < MOST_SOURCES {
            self.by_address.insert(address, more);
        } else {
            self.others += more;
        }
    }

    /// Adds those that another core has seen.
    pub fn merge(&mut self, other: &Self) {
        let rest = other.by_address.iter().map(|(&bits, &count)| (bits, count));
        for (address, count) in other.first.into_iter().chain(rest) {
            self.add_many(address, count);
        }
        self.others += other.others;
    }

    /// The addresses with their counts, in order.
    pub fn sorted(&self) -> Vec<(IpAddr, u64)> {
        let others = self.by_address.iter().map(|(&bits, &count)| (bits, count));
        let all = self.first.into_iter().chain(others);
        let mut all: Vec<_> = all.map(|(bits, count)| (ip(bits), count)).collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::end::End;
    use std::net::Ipv4Addr;

    #[test]
    fn sources_of_two_cores_are_counted_together() {
        let bits = |n: u32| End::new(Ipv4Addr::from_bits(n), 0).bits;
        let of = |all: &[u32]| {
            let mut sources = Sources::default();
            for &n in all {
                sources.add(bits(n));
            }
            sources
        };
        let mut one = of(&[1, 2, 2]);
        one.merge(&of(&[2, 3, 1]));
        let counts: Vec<u64> = one.sorted().iter().map(|&(_, count)| count).collect();
        assert_eq!(counts, [2, 3, 1]);
        let mut none = Sources::default();
        none.merge(&one);
        assert_eq!(none.sorted(), one.sorted());
    }

    #[test]
    fn sources_beyond_those_that_are_counted_one_by_one_are_others() {
        let mut sources = Sources::default();
        let bits = |n: u64| End::new(Ipv4Addr::from_bits(n as u32), 0).bits;
        for n in (0..MOST_SOURCES as u64 + 5).chain([0, 1, 1]) {
            sources.add(bits(n));
        }
        let sorted = sources.sorted();
        assert_eq!((sorted.len(), sources.others), (MOST_SOURCES, 5));
        let counts: Vec<u64> = sorted[..3].iter().map(|&(_, count)| count).collect();
        assert_eq!(counts, [2, 3, 1]);
    }
}
