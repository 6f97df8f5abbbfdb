//! How evenly a loop comes round: the time between its iterations.

use crate::powers::PowersOfTwo;

/// Gaps longer than this are counted and totalled one by one.
pub const THRESHOLD_NS: u64 = 20_000;
/// An iteration that moved frames may take this many times its usual time
/// before it counts as a gap: a burst through the kernel takes its time.
pub const USUAL: u64 = 4;
/// The usual time is a moving mean over about this many working iterations.
const MEMORY: u64 = 64;
/// Gaps remembered one by one.
pub const LOGGED: usize = 10;

/// Time between two turns of the loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gap {
    /// When it began, in nanoseconds of the clock given to
    /// [`GapRecorder::tick`].
    pub at_ns: u64,
    /// How long it was, in nanoseconds.
    pub len_ns: u64,
}

impl Gap {
    /// Nanoseconds of it between `from_ns` and `to_ns`.
    pub fn overlap(&self, from_ns: u64, to_ns: u64) -> u64 {
        let end_ns = self.at_ns.saturating_add(self.len_ns).min(to_ns);
        end_ns.saturating_sub(self.at_ns.max(from_ns))
    }
}

/// Histogram of gaps by powers of two, and the long ones in particular.
#[derive(Debug, Clone)]
pub struct GapRecorder {
    last_ns: u64,
    powers: PowersOfTwo<65>,
    over: u64,
    over_total_ns: u64,
    max_ns: u64,
    max_at_ns: u64,
    /// The longest of those over the threshold since it was last taken.
    recent_max_ns: u64,
    /// The longest first; those not used yet are of length zero.
    logged: [Gap; LOGGED],
    /// Moving mean of working iterations, times [`MEMORY`].
    work_ns: u64,
}

impl GapRecorder {
    /// A recorder whose first gap begins at `now_ns`.
    pub fn new(now_ns: u64) -> Self {
        Self {
            last_ns: now_ns,
            powers: PowersOfTwo::default(),
            over: 0,
            over_total_ns: 0,
            max_ns: 0,
            max_at_ns: now_ns,
            recent_max_ns: 0,
            logged: [Gap::default(); LOGGED],
            work_ns: 0,
        }
    }

    /// Records that an iteration began at `now_ns`; returns the gap before it.
    /// `worked`: the iteration before moved frames.
    #[inline(always)]
    pub fn tick(&mut self, now_ns: u64, worked: bool) -> u64 {
        let gap_ns = now_ns.saturating_sub(self.last_ns);
        self.powers.record(gap_ns);
        if gap_ns > self.max_ns {
            self.max_ns = gap_ns;
            self.max_at_ns = self.last_ns;
        }
        if gap_ns > THRESHOLD_NS.max(self.usual_ns(gap_ns, worked)) {
            self.over += 1;
            self.over_total_ns += gap_ns;
            self.recent_max_ns = self.recent_max_ns.max(gap_ns);
            self.log(Gap {
                at_ns: self.last_ns,
                len_ns: gap_ns,
            });
        }
        self.last_ns = now_ns;
        gap_ns
    }

    /// The loop gave its core away until `now_ns` of its own accord: the next
    /// gap begins there.
    #[inline(always)]
    pub fn resume(&mut self, now_ns: u64) {
        self.last_ns = now_ns;
    }

    /// Keeps `gap` if it is one of the longest.
    #[cold]
    fn log(&mut self, gap: Gap) {
        let place = self
            .logged
            .partition_point(|kept| kept.len_ns >= gap.len_ns);
        if place < LOGGED {
            self.logged[place..].rotate_right(1);
            self.logged[place] = gap;
        }
    }

    /// How long this iteration could usually take; learns from it.
    #[inline(always)]
    fn usual_ns(&mut self, gap_ns: u64, worked: bool) -> u64 {
        if !worked {
            return 0;
        }
        let mean_ns = self.work_ns / MEMORY;
        // Bounded, so that one real gap does not raise what is usual.
        let sample_ns = gap_ns.min(2 * USUAL * mean_ns.max(THRESHOLD_NS));
        self.work_ns = self.work_ns - mean_ns + sample_ns;
        USUAL * mean_ns
    }

    /// `(edge, count)`: iterations whose gap was at most `edge` ns and more
    /// than half of it; empty buckets are left out. The first edge is 1 ns.
    pub fn histogram(&self) -> Vec<(u64, u64)> {
        self.powers.pairs()
    }

    /// Gaps longer than [`THRESHOLD_NS`].
    pub fn over(&self) -> u64 {
        self.over
    }

    /// Nanoseconds in gaps longer than [`THRESHOLD_NS`].
    pub fn over_total_ns(&self) -> u64 {
        self.over_total_ns
    }

    /// The longest gap that [`over`](Self::over) counts since this was last
    /// asked, in nanoseconds; 0 if there was none.
    pub fn take_recent_max_ns(&mut self) -> u64 {
        std::mem::take(&mut self.recent_max_ns)
    }

    /// The longest gap, in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// When the longest gap began, in nanoseconds of the clock given to
    /// [`tick`](Self::tick).
    pub fn max_at_ns(&self) -> u64 {
        self.max_at_ns
    }

    /// The longest gaps of those that [`over`](Self::over) counts, at most
    /// [`LOGGED`], the longest first.
    pub fn longest(&self) -> &[Gap] {
        let used = self.logged.partition_point(|gap| gap.len_ns > 0);
        &self.logged[..used]
    }

    /// Nanoseconds between `from_ns` and `to_ns` that lie in one of the
    /// [`longest`](Self::longest) gaps; at least that long the loop stood
    /// still meanwhile.
    pub fn overlap(&self, from_ns: u64, to_ns: u64) -> u64 {
        let overlaps = self.longest().iter().map(|gap| gap.overlap(from_ns, to_ns));
        overlaps.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_fall_under_the_power_of_two_they_do_not_exceed() {
        let mut gaps = GapRecorder::new(1000);
        for now_ns in [1001, 2025, 3050, 33_150, 33_150] {
            gaps.tick(now_ns, false);
        }
        assert_eq!(
            gaps.histogram(),
            [(1, 2), (1024, 1), (2048, 1), (32_768, 1)]
        );
        assert_eq!((gaps.over(), gaps.over_total_ns()), (1, 30_100));
        assert_eq!((gaps.max_ns(), gaps.max_at_ns()), (30_100, 3050));
    }

    #[test]
    fn time_given_away_is_no_gap() {
        let mut gaps = GapRecorder::new(0);
        gaps.tick(1_000, false);
        gaps.resume(5_000_000);
        assert_eq!(gaps.tick(5_001_000, false), 1_000);
        assert_eq!((gaps.over(), gaps.max_ns()), (0, 1_000));
    }

    #[test]
    fn the_ten_longest_gaps_are_kept_with_their_times() {
        let mut gaps = GapRecorder::new(500);
        let mut now_ns = 500;
        let lengths: Vec<u64> = (1..=30).map(|k| 20_000 + k * 7 % 31 * 1000).collect();
        let mut all = Vec::new();
        for &len_ns in &lengths {
            all.push(Gap {
                at_ns: now_ns,
                len_ns,
            });
            now_ns += len_ns;
            gaps.tick(now_ns, false);
            now_ns += 100;
            gaps.tick(now_ns, false);
        }
        all.sort_by_key(|gap| std::cmp::Reverse(gap.len_ns));
        assert_eq!(gaps.longest(), &all[..LOGGED]);
    }

    #[test]
    fn overlap_is_the_part_of_a_window_that_was_slept_through() {
        let mut gaps = GapRecorder::new(0);
        for now_ns in [1_000, 3_001_000, 3_002_000, 4_002_000, 4_003_000] {
            gaps.tick(now_ns, false);
        }
        assert_eq!(gaps.longest().len(), 2);
        assert_eq!(gaps.overlap(0, 10_000_000), 4_000_000);
        assert_eq!(gaps.overlap(3_000_000, 3_003_000), 1_000 + 1_000);
        assert_eq!(gaps.overlap(3_001_000, 3_002_000), 0);
        assert_eq!(gaps.overlap(9_000_000, 1_000), 0);
    }

    #[test]
    fn long_work_is_no_gap_once_it_is_usual_but_a_pause_within_it_is() {
        let mut gaps = GapRecorder::new(0);
        let mut now_ns = 0;
        for _ in 0..1000 {
            now_ns += 90_000;
            gaps.tick(now_ns, true);
        }
        let learning = gaps.over();
        assert!(learning < 64, "{learning} gaps while learning");
        for _ in 0..1000 {
            now_ns += 90_000;
            gaps.tick(now_ns, true);
        }
        assert_eq!(gaps.over(), learning);
        gaps.tick(now_ns + 1_000_000, true);
        assert_eq!(gaps.over(), learning + 1);
        gaps.tick(now_ns + 1_090_000, false);
        assert_eq!(gaps.over(), learning + 2, "an idle turn has no excuse");
    }
}
