//! Latency as an `HdrHistogram`.

use hdrhistogram::Histogram;

/// Longest latency told apart, in nanoseconds (34 s); longer ones count as
/// this.
pub const MAX_NS: u64 = 1 << 35;
const SIGNIFICANT_DIGITS: u8 = 3;
const MASK_48: u64 = 0xffff_ffff_ffff;

/// Records latencies without allocating.
///
/// Frames of one burst are stamped together and received together, so equal
/// values come in runs; a run is one entry.
#[derive(Debug, Clone)]
pub struct LatencyRecorder {
    histogram: Histogram<u64>,
    run_ns: u64,
    run: u64,
}

impl Default for LatencyRecorder {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyRecorder {
    /// An empty recorder; allocates its counters.
    ///
    /// # Panics
    /// Never: the bounds are constants that the histogram accepts.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_NS, SIGNIFICANT_DIGITS)
            .expect("the bounds are constant and valid");
        Self {
            histogram,
            run_ns: 0,
            run: 0,
        }
    }

    /// Records one frame stamped at `sent_ns` (48 bits) and received at
    /// `received_ns`.
    #[inline(always)]
    pub fn record(&mut self, sent_ns: u64, received_ns: u64) {
        let latency_ns = received_ns.wrapping_sub(sent_ns) & MASK_48;
        if latency_ns != self.run_ns {
            self.flush();
            self.run_ns = latency_ns;
        }
        self.run += 1;
    }

    #[inline(never)]
    fn flush(&mut self) {
        if self.run > 0 {
            self.histogram.saturating_record_n(self.run_ns, self.run);
            self.run = 0;
        }
    }

    /// The histogram of everything recorded, in nanoseconds.
    pub fn into_histogram(mut self) -> Histogram<u64> {
        self.flush();
        self.histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_single_values_are_all_counted() {
        let mut recorder = LatencyRecorder::new();
        for (sent, received) in [(100, 300), (100, 300), (150, 350), (100, 1100)] {
            recorder.record(sent, received);
        }
        let histogram = recorder.into_histogram();
        assert_eq!(histogram.len(), 4);
        assert_eq!(histogram.count_at(200), 3);
        assert_eq!(histogram.max(), 1000);
    }

    #[test]
    fn the_48_bit_clock_may_wrap_between_stamp_and_receipt() {
        let mut recorder = LatencyRecorder::new();
        recorder.record(MASK_48 - 99, (1 << 48) + 400);
        assert_eq!(recorder.into_histogram().max(), 500);
    }
}
