//! Which backend gets a connection, and from which local end.

use super::settings::{LocalEnds, Scheduler, Settings, Spot};
use pinchpoint_traffic::hash::Hash;

/// Deals connections.
#[derive(Debug)]
pub(super) struct Deal {
    /// Backends in the order of a round.
    round: Vec<u16>,
    next: usize,
    scheduler: Scheduler,
    hash: Hash,
}

impl Deal {
    pub(super) fn new(settings: &Settings, hash: Hash) -> Self {
        let weights = &settings.wrongs.weights;
        let turns = |backend: usize| usize::from(weights.get(backend).copied().unwrap_or(1));
        let round: Vec<u16> = (0..settings.backends.len())
            .flat_map(|backend| std::iter::repeat_n(backend as u16, turns(backend)))
            .collect();
        Self {
            // Weights that are all zero are none.
            round: if round.is_empty() { vec![0] } else { round },
            next: 0,
            scheduler: settings.scheduler,
            hash,
        }
    }

    /// The backend of the next connection, which is this client's.
    #[inline]
    pub(super) fn backend(&self, client: Spot) -> u16 {
        let place = match self.scheduler {
            Scheduler::RoundRobin => self.next,
            Scheduler::Hash => {
                let last = self.round.len() as u64 - 1;
                self.hash.up_to(client.key(), last) as usize
            }
        };
        self.round[place]
    }

    /// A connection was opened.
    #[inline]
    pub(super) fn opened(&mut self) {
        self.next = if self.next + 1 == self.round.len() {
            0
        } else {
            self.next + 1
        };
    }
}

const BITS: u32 = u64::BITS;

/// The local ends of one backend: a bit for each that is in use.
#[derive(Debug, Clone)]
struct Used {
    words: Vec<u64>,
    next: u32,
    count: u32,
}

/// The local ends, of which each backend has all to itself: what it answers tells connections apart.
#[derive(Debug)]
pub(super) struct Pool {
    ends: LocalEnds,
    size: u32,
    used: Vec<Used>,
    reuse_after: Option<u32>,
}

impl Pool {
    pub(super) fn new(ends: LocalEnds, backends: usize, reuse_after: Option<u32>) -> Self {
        let size = ends.size() as u32;
        let none = Used {
            words: vec![0; size.div_ceil(BITS) as usize],
            next: 0,
            count: 0,
        };
        Self {
            ends,
            size,
            used: vec![none; backends],
            reuse_after,
        }
    }

    /// The next free end for a connection to `backend`, with its number; none if all are in use.
    pub(super) fn take(&mut self, backend: u16) -> Option<(u32, Spot)> {
        let used = &mut self.used[usize::from(backend)];
        if let Some(after) = self.reuse_after {
            let number = used.next;
            used.next = (number + 1) % after.clamp(1, self.size);
            used.set(number);
            return Some((number, self.ends.spot(number)));
        }
        if used.count == self.size {
            return None;
        }
        let number = used.free(self.size)?;
        used.set(number);
        used.next = if number + 1 == self.size {
            0
        } else {
            number + 1
        };
        Some((number, self.ends.spot(number)))
    }

    pub(super) fn give_back(&mut self, backend: u16, number: u32) {
        let used = &mut self.used[usize::from(backend)];
        let (word, bit) = ((number / BITS) as usize, 1 << (number % BITS));
        used.count -= u32::from(used.words[word] & bit != 0);
        used.words[word] &= !bit;
    }

    /// Ends that are in use, of all backends.
    pub(super) fn used(&self) -> u64 {
        self.used.iter().map(|used| u64::from(used.count)).sum()
    }

    /// Ends of all backends.
    pub(super) fn size(&self) -> u64 {
        u64::from(self.size) * self.used.len() as u64
    }
}

impl Used {
    fn set(&mut self, number: u32) {
        let (word, bit) = ((number / BITS) as usize, 1 << (number % BITS));
        self.count += u32::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    /// The first free number from `next` on, all the way round.
    fn free(&self, size: u32) -> Option<u32> {
        let first = (self.next / BITS) as usize;
        let before = (1u64 << (self.next % BITS)) - 1;
        let words = self.words.len();
        for step in 0..=words {
            let at = (first + step) % words;
            // What stands before `next` in its word comes last.
            let hidden = if step == 0 { before } else { 0 };
            let free = (!(self.words[at] | hidden)).trailing_zeros();
            let number = at as u32 * BITS + free;
            if free < BITS && number < size {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    fn ends(count: u32, port_count: u32) -> LocalEnds {
        LocalEnds {
            first: Ipv4Addr::new(10, 1, 0, 240).into(),
            count,
            port: 1025,
            port_count,
        }
    }

    proptest! {
        #[test]
        fn an_end_is_given_to_one_at_a_time_and_refused_only_if_all_are_in_use(
            size in (1u32..4, 1u32..50),
            steps in proptest::collection::vec((0u8..4, any::<prop::sample::Index>()), 0..600),
        ) {
            let mut pool = Pool::new(ends(size.0, size.1), 2, None);
            let mut given = BTreeSet::new();
            for (kind, which) in steps {
                let backend = u16::from(kind % 2);
                if kind < 2 || given.is_empty() {
                    let full = given.iter().filter(|one: &&(u16, u32)| one.0 == backend).count() as u32
                        == size.0 * size.1;
                    let taken = pool.take(backend);
                    prop_assert_eq!(taken.is_none(), full);
                    if let Some((number, spot)) = taken {
                        prop_assert!(given.insert((backend, number)));
                        prop_assert_eq!(u32::from(spot.port - 1025) * size.0 + (spot.bits() as u32 & 0xf), number);
                    }
                } else {
                    let one = *given.iter().nth(which.index(given.len())).unwrap();
                    given.remove(&one);
                    pool.give_back(one.0, one.1);
                }
                prop_assert_eq!(pool.used(), given.len() as u64);
            }
        }
    }

    #[test]
    fn local_addresses_are_taken_in_turn() {
        let mut pool = Pool::new(ends(2, 2), 1, None);
        let taken: Vec<_> = std::iter::from_fn(|| pool.take(0))
            .map(|(_, spot)| (spot.bits() as u8, spot.port))
            .collect();
        assert_eq!(taken, [(240, 1025), (241, 1025), (240, 1026), (241, 1026)]);
    }

    #[test]
    fn a_pool_that_reuses_early_gives_the_same_end_again_although_it_is_in_use() {
        let mut pool = Pool::new(ends(1, 100), 1, Some(3));
        let numbers: Vec<_> = (0..5).map(|_| pool.take(0).unwrap().0).collect();
        assert_eq!(numbers, [0, 1, 2, 0, 1]);
        for number in numbers {
            pool.give_back(0, number);
        }
        assert_eq!(pool.used(), 0);
    }
}
