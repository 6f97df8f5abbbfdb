//! How evenly a loop comes round: the time between its iterations.

/// Gaps longer than this are counted and totalled one by one.
pub const THRESHOLD_NS: u64 = 20_000;
/// An iteration that moved frames may take this many times its usual time
/// before it counts as a gap: a burst through the kernel takes its time.
pub const USUAL: u64 = 4;
/// The usual time is a moving mean over about this many working iterations.
const MEMORY: u64 = 64;

/// Histogram of gaps by powers of two, and the long ones in particular.
#[derive(Debug, Clone)]
pub struct GapRecorder {
    last_ns: u64,
    buckets: [u64; 65],
    over: u64,
    over_total_ns: u64,
    max_ns: u64,
    max_at_ns: u64,
    /// Moving mean of working iterations, times [`MEMORY`].
    work_ns: u64,
}

impl GapRecorder {
    /// A recorder whose first gap begins at `now_ns`.
    pub fn new(now_ns: u64) -> Self {
        Self {
            last_ns: now_ns,
            buckets: [0; 65],
            over: 0,
            over_total_ns: 0,
            max_ns: 0,
            max_at_ns: now_ns,
            work_ns: 0,
        }
    }

    /// Records that an iteration began at `now_ns`; returns the gap before it.
    /// `worked`: the iteration before moved frames.
    #[inline(always)]
    pub fn tick(&mut self, now_ns: u64, worked: bool) -> u64 {
        let gap_ns = now_ns.saturating_sub(self.last_ns);
        // Bits needed for gap - 1: the exponent of the power of two that the
        // gap does not exceed.
        let bucket = 64 - gap_ns.saturating_sub(1).leading_zeros();
        self.buckets[bucket as usize] += 1;
        if gap_ns > self.max_ns {
            self.max_ns = gap_ns;
            self.max_at_ns = self.last_ns;
        }
        if gap_ns > THRESHOLD_NS.max(self.usual_ns(gap_ns, worked)) {
            self.over += 1;
            self.over_total_ns += gap_ns;
        }
        self.last_ns = now_ns;
        gap_ns
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
        let edges = self.buckets.iter().enumerate();
        edges
            .filter(|&(_, &count)| count > 0)
            .map(|(bit, &count)| (1u64.checked_shl(bit as u32).unwrap_or(u64::MAX), count))
            .collect()
    }

    /// Gaps longer than [`THRESHOLD_NS`].
    pub fn over(&self) -> u64 {
        self.over
    }

    /// Nanoseconds in gaps longer than [`THRESHOLD_NS`].
    pub fn over_total_ns(&self) -> u64 {
        self.over_total_ns
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
