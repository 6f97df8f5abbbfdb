//! Numbers of entries by hash: open addressing in a table of a fixed size, at most half full.

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// Entries by hash. Several may have the same one.
#[derive(Debug, Clone)]
pub(super) struct Index {
    /// Upper half: the hash; lower half: the entry.
    slots: Vec<u64>,
}

fn slot(hash: u32, entry: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(entry)
}

fn hash_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

fn entry_of(slot: u64) -> u32 {
    slot as u32
}

impl Index {
    /// Room for `entries` entries.
    pub(super) fn new(entries: usize) -> Self {
        let size = (2 * entries.max(1)).next_power_of_two();
        Self {
            slots: vec![slot(0, NONE); size],
        }
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    /// Where the entry with `hash` is of which `is_it` is true, or the free place behind the
    /// last that was looked at.
    #[inline]
    fn place(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> usize {
        let mut at = self.home(hash);
        loop {
            let found = self.slots[at];
            let is_free = entry_of(found) == NONE;
            if is_free || (hash_of(found) == hash && is_it(entry_of(found))) {
                return at;
            }
            at = self.after(at);
        }
    }

    /// The entry with `hash` of which `is_it` is true.
    #[inline]
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let found = entry_of(self.slots[self.place(hash, is_it)]);
        (found != NONE).then_some(found)
    }

    /// Adds an entry, in place of the one of which `is_it` is true if there is one.
    #[inline]
    pub(super) fn put(&mut self, hash: u32, entry: u32, is_it: impl Fn(u32) -> bool) {
        let at = self.place(hash, is_it);
        self.slots[at] = slot(hash, entry);
    }

    /// Removes an entry, if it is there.
    pub(super) fn remove(&mut self, hash: u32, entry: u32) {
        let mut free = self.place(hash, |one| one == entry);
        if entry_of(self.slots[free]) == NONE {
            return;
        }
        // Those behind it move up as far as they may, or they would no longer be found.
        let mut at = free;
        loop {
            at = self.after(at);
            let found = self.slots[at];
            if entry_of(found) == NONE {
                break;
            }
            let mask = self.slots.len() - 1;
            let from_home = at.wrapping_sub(self.home(hash_of(found))) & mask;
            if from_home >= at.wrapping_sub(free) & mask {
                self.slots[free] = found;
                free = at;
            }
        }
        self.slots[free] = slot(0, NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Hashes collide on purpose.
        #[test]
        fn it_holds_what_a_map_holds(steps in proptest::collection::vec((any::<bool>(), 0u32..16), 0..300)) {
            let mut index = Index::new(16);
            let mut map = HashMap::new();
            let hash = |key: u32| key / 5 * 7;
            for (adds, key) in steps {
                if adds {
                    index.put(hash(key), key, |one| one == key);
                    map.insert(key, key);
                } else {
                    index.remove(hash(key), key);
                    map.remove(&key);
                }
                for key in 0..16 {
                    prop_assert_eq!(index.find(hash(key), |one| one == key), map.get(&key).copied());
                }
            }
        }
    }
}
