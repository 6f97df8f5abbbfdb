//! Whether a rate stayed what it was within its own window.
//!
//! A workload that collapses (ports, tables or memory that fill up) has two
//! levels, one for good after the other. A busy host gives a rate that wanders
//! and comes back. They differ in that almost all of the time before
//! some instant lies above almost all of the time after it (or below), by more
//! than hosts do: virtual cores that move, or a neighbour on the same core,
//! change a rate by up to about 1.6.

/// Length of one count, in nanoseconds.
pub(crate) const SLOT_NS: u64 = 100_000_000;
/// A change of level is reported from this factor on.
const FACTOR: f64 = 2.0;
/// Share of the slots that may lie on the wrong side: single stalls.
const ASIDE: usize = 10;
/// Slots at most; longer windows have longer slots.
const MOST_SLOTS: usize = 600;
/// Slots at least: fewer say nothing about time.
const LEAST_SLOTS: usize = 20;
/// Mean count of a slot at least, or counting itself makes the levels.
const LEAST_COUNT: f64 = 20.0;
/// Slots that the higher level must have: nothing makes a rate high by chance.
const HIGH_SLOTS: usize = 3;
/// How long the lower level must last, in nanoseconds, and its share of the
/// window: anything shorter is a stall.
const LOW_NS: u64 = 1_000_000_000;
const LOW_SHARE: usize = 20;

/// How a rate moved within its window. In units of what was counted, per
/// second: transactions, or bytes of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Median of the window's first third.
    pub first_third_per_s: f64,
    /// Median of its last third.
    pub last_third_per_s: f64,
    /// The change of level, if there was one.
    pub change: Option<Change>,
}

/// One level, and from an instant on another: at least twice or at most half.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Seconds from the beginning of the window.
    pub at_s: f64,
    /// Median before that.
    pub before_per_s: f64,
    /// Median from then on.
    pub after_per_s: f64,
}

/// The trend of `counts`, one for each [`SLOT_NS`] of a window that lasted
/// `duration_ns`; none if it was too short, or too little was counted.
pub(crate) fn of(counts: &[u64], duration_ns: u64) -> Option<Trend> {
    // The last slot may be a part of one.
    let whole = counts.len().min((duration_ns / SLOT_NS) as usize);
    let total: u64 = counts[..whole].iter().sum();
    let for_count = (LEAST_COUNT * whole as f64 / total.max(1) as f64).ceil() as usize;
    let merged = for_count.max(whole.div_ceil(MOST_SLOTS)).max(1);
    let slots: Vec<u64> = counts[..whole]
        .chunks_exact(merged)
        .map(|chunk| chunk.iter().sum())
        .collect();
    if slots.len() < LEAST_SLOTS {
        return None;
    }
    let slot_s = (merged as u64 * SLOT_NS) as f64 / 1e9;
    let per_s = |count: u64| count as f64 / slot_s;
    let third = slots.len() / 3;
    let median = |slots: &[u64]| per_s(Sorted::of(slots).median());
    Some(Trend {
        first_third_per_s: median(&slots[..third]),
        last_third_per_s: median(&slots[slots.len() - third..]),
        change: levels(&slots, merged).map(|(split, before, after)| Change {
            at_s: split as f64 * slot_s,
            before_per_s: per_s(before),
            after_per_s: per_s(after),
        }),
    })
}

/// The split into two levels that fits best, and the medians around it.
fn levels(slots: &[u64], merged: usize) -> Option<(usize, u64, u64)> {
    let second = (LOW_NS / SLOT_NS) as usize;
    let low = second
        .div_ceil(merged)
        .max(slots.len() / LOW_SHARE)
        .max(HIGH_SLOTS);
    let (mut before, mut after) = (Sorted::of(&[]), Sorted::of(slots));
    let mut found = None;
    let mut least = u64::MAX;
    for (k, &count) in slots.iter().enumerate() {
        before.add(count);
        after.remove(count);
        let split = k + 1;
        let rest = slots.len() - split;
        if split.min(rest) < HIGH_SLOTS {
            continue;
        }
        let fell = before.low() > after.high() && rest >= low;
        let rose = after.low() > before.high() && split >= low;
        let (one, other) = (before.median(), after.median());
        let factor = one.max(other) as f64 / one.min(other) as f64;
        if (fell || rose) && factor > FACTOR {
            let misfit = misfit(&slots[..split], one) + misfit(&slots[split..], other);
            if misfit < least {
                least = misfit;
                found = Some((split, one, other));
            }
        }
    }
    found
}

/// How far all `counts` are from `level`, together.
fn misfit(counts: &[u64], level: u64) -> u64 {
    counts.iter().map(|count| count.abs_diff(level)).sum()
}

/// Counts in order.
struct Sorted(Vec<u64>);

impl Sorted {
    fn of(counts: &[u64]) -> Self {
        let mut sorted = counts.to_vec();
        sorted.sort_unstable();
        Self(sorted)
    }

    fn add(&mut self, count: u64) {
        let place = self.0.partition_point(|&other| other < count);
        self.0.insert(place, count);
    }

    fn remove(&mut self, count: u64) {
        if let Ok(place) = self.0.binary_search(&count) {
            self.0.remove(place);
        }
    }

    /// All but a few are at least this.
    fn low(&self) -> u64 {
        self.0[self.0.len() / ASIDE]
    }

    fn median(&self) -> u64 {
        self.0[self.0.len() / 2]
    }

    /// All but a few are at most this.
    fn high(&self) -> u64 {
        self.0[self.0.len() - 1 - self.0.len() / ASIDE]
    }
}

#[cfg(test)]
#[path = "trend_tests.rs"]
mod tests;
