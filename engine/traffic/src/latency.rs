//! Latency and its variation from frame to frame, as `HdrHistogram`s.

use hdrhistogram::Histogram;
use pinchpoint_wire::signature::TIME_BITS;
use std::hint::black_box;

/// Longest latency told apart, in nanoseconds (34 s); longer ones count as
/// this.
pub const MAX_NS: u64 = 1 << 35;
const SIGNIFICANT_DIGITS: u8 = 3;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// No latency has this value: it has more bits than a time.
const NO_RUN: u64 = u64::MAX;

/// Records latencies, and optionally jitter, without allocating.
///
/// Frames of one burst are stamped together and received together, so equal
/// latencies come in runs; a run is one entry. Within a run the jitter is
/// zero, so only its beginning costs anything.
///
/// Jitter is |D| of RFC 3550 section 6.4.1, the difference between the
/// spacing of two frames at the receiver and at the sender, of frames that
/// follow one another in order of arrival (not necessarily of sequence):
/// |D| = |(R2 - R1) - (S2 - S1)| = |(R2 - S2) - (R1 - S1)|, the change of
/// latency. The clocks of sender and receiver may differ by a constant.
#[derive(Debug, Clone)]
pub struct LatencyRecorder {
    latency: Histogram<u64>,
    jitter: Option<Histogram<u64>>,
    /// The frames whose latency is recorded; none for all.
    sampled: Option<Multiples>,
    run_ns: u64,
    /// Frames of this run.
    run: u64,
    /// Those whose latency is recorded, unless all are.
    run_sampled: u64,
    least_ns: i64,
}

/// What was recorded, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// Latencies of the sampled frames.
    pub latency: Histogram<u64>,
    /// The least of them: below 0 if, by two clocks, a frame was received
    /// before it was sent. None without a frame.
    pub least_ns: Option<i64>,
    /// Jitter between every two consecutive frames, if it was asked for.
    pub jitter: Option<Histogram<u64>>,
}

impl LatencyRecorder {
    /// An empty recorder; allocates its counters. It records the latency of
    /// the frames whose sequence number is a multiple of `every` (1: all of
    /// them; 0 counts as 1). If that has a factor in common with a stream's
    /// number of flows, some flows are never sampled. Jitter is recorded for
    /// all frames, or not at all.
    pub fn new(every: u64, jitter: bool) -> Self {
        Self {
            latency: empty(),
            jitter: jitter.then(empty),
            sampled: (every > 1).then(|| Multiples::of(every)),
            run_ns: NO_RUN,
            run: 0,
            run_sampled: 0,
            least_ns: i64::MAX,
        }
    }

    /// Records frame `sequence`, stamped at `sent_ns` (40 bits) and received
    /// at `received_ns`, at most 9 minutes apart. One that, by the clocks, was received before it was
    /// sent counts as 0, but for the least latency.
    #[inline(always)]
    pub fn record(&mut self, sequence: u64, sent_ns: u64, received_ns: u64) {
        let latency_ns = received_ns.wrapping_sub(sent_ns) & TIME_MASK;
        if latency_ns != self.run_ns {
            self.change(latency_ns);
        }
        self.run += 1;
        if let Some(sampled) = self.sampled {
            self.run_sampled += u64::from(sampled.contains(sequence));
        }
    }

    #[inline(never)]
    fn change(&mut self, latency_ns: u64) {
        let before_ns = self.run_ns;
        self.flush();
        self.run_ns = latency_ns;
        if let (Some(jitter), true) = (&mut self.jitter, before_ns != NO_RUN) {
            let change_ns = signed(latency_ns.wrapping_sub(before_ns));
            jitter.saturating_record(change_ns.unsigned_abs());
        }
    }

    fn flush(&mut self) {
        let recorded = match self.sampled {
            Some(_) => self.run_sampled,
            None => self.run,
        };
        if recorded > 0 {
            self.least_ns = self.least_ns.min(signed(self.run_ns));
            let latency_ns = u64::try_from(signed(self.run_ns)).unwrap_or(0);
            self.latency.saturating_record_n(latency_ns, recorded);
        }
        if let (Some(jitter), true) = (&mut self.jitter, self.run > 1) {
            jitter.saturating_record_n(0, self.run - 1);
        }
        (self.run_ns, self.run, self.run_sampled) = (NO_RUN, 0, 0);
    }

    /// Adds what `other` has recorded. Jitter is within each recorder: the
    /// spacing of two frames that arrived at different queues is not known.
    pub fn merge(&mut self, mut other: Self) {
        self.flush();
        other.flush();
        self.least_ns = self.least_ns.min(other.least_ns);
        add(&mut self.latency, &other.latency);
        match (&mut self.jitter, other.jitter) {
            (Some(ours), Some(theirs)) => add(ours, &theirs),
            (ours @ None, theirs) => *ours = theirs,
            (Some(_), None) => {}
        }
    }

    /// Everything recorded.
    pub fn into_latencies(mut self) -> Latencies {
        self.flush();
        Latencies {
            least_ns: (!self.latency.is_empty()).then_some(self.least_ns),
            latency: self.latency,
            jitter: self.jitter,
        }
    }

    /// The histogram of the latencies recorded, in nanoseconds.
    pub fn into_histogram(self) -> Histogram<u64> {
        self.into_latencies().latency
    }
}

/// A difference of times, which has its sign in their highest bit.
fn signed(difference: u64) -> i64 {
    const ABOVE: u32 = u64::BITS - TIME_BITS;
    (difference << ABOVE) as i64 >> ABOVE
}

/// Its memory is touched here: the first frames of a burst would otherwise
/// wait for page faults.
fn empty() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, MAX_NS, SIGNIFICANT_DIGITS)
        .expect("the bounds are constant and valid");
    black_box(&mut histogram).reset();
    histogram
}

fn add(sum: &mut Histogram<u64>, more: &Histogram<u64>) {
    sum.add(more).expect("both have the same bounds");
}

/// The multiples of a number, told without division: `n` times the inverse of
/// an odd `d` modulo 2^64 is at most `(2^64 - 1) / d` just for the multiples of
/// `d`; a rotation does the same for the factors of two (Warren, Hacker's
/// Delight, section 10-17).
#[derive(Debug, Clone, Copy)]
struct Multiples {
    inverse: u64,
    twos: u32,
    limit: u64,
}

impl Multiples {
    /// Of `divisor`, which is not zero.
    fn of(divisor: u64) -> Self {
        let twos = divisor.trailing_zeros();
        let odd = divisor >> twos;
        // Right in the last 3 bits to begin with; each step of Newton's method
        // doubles their number.
        let inverse = (0..5).fold(odd, |x, _| {
            x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)))
        });
        Self {
            inverse,
            twos,
            limit: u64::MAX / divisor,
        }
    }

    #[inline(always)]
    fn contains(self, number: u64) -> bool {
        number.wrapping_mul(self.inverse).rotate_right(self.twos) <= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn runs_and_single_values_are_all_counted() {
        let mut recorder = LatencyRecorder::new(1, false);
        for (sequence, (sent, received)) in [(100, 300), (100, 300), (150, 350), (100, 1100)]
            .into_iter()
            .enumerate()
        {
            recorder.record(sequence as u64, sent, received);
        }
        let histogram = recorder.into_histogram();
        assert_eq!(histogram.len(), 4);
        assert_eq!(histogram.count_at(200), 3);
        assert_eq!(histogram.max(), 1000);
    }

    #[test]
    fn the_clock_of_40_bits_may_wrap_between_stamp_and_receipt() {
        let mut recorder = LatencyRecorder::new(1, false);
        recorder.record(0, TIME_MASK - 99, (1 << 48) + 400);
        assert_eq!(recorder.into_histogram().max(), 500);
    }

    #[test]
    fn a_frame_received_before_it_was_sent_has_no_latency_of_hours() {
        let mut recorder = LatencyRecorder::new(1, true);
        for (sequence, received) in [(0, 900), (1, 1100)] {
            recorder.record(sequence, 1000, received);
        }
        let found = recorder.into_latencies();
        assert_eq!((found.latency.min(), found.latency.max()), (0, 100));
        assert_eq!(
            found.least_ns,
            Some(-100),
            "which tells by how much, at the least"
        );
        assert_eq!(found.jitter.unwrap().max(), 200);
    }

    #[test]
    fn jitter_does_not_depend_on_how_far_the_clocks_are_apart() {
        for ahead in [0, 5_000_000, 1 << 39, TIME_MASK] {
            let mut recorder = LatencyRecorder::new(1, true);
            for (sequence, sent, received) in [(0, 100, 400), (1, 200, 520), (2, 300, 590)] {
                recorder.record(sequence, (sent + ahead) & TIME_MASK, received);
            }
            let jitter = recorder.into_latencies().jitter.unwrap();
            let counts = [20, 30].map(|change_ns| jitter.count_at(change_ns));
            assert_eq!((jitter.len(), counts), (2, [1, 1]), "ahead by {ahead}");
        }
    }

    proptest! {
        #[test]
        fn multiples_are_those_that_leave_no_remainder(
            divisor in 1u64..5000, number: u64, factor in 0u64..1 << 40,
        ) {
            let multiples = Multiples::of(divisor);
            prop_assert_eq!(multiples.contains(number), number % divisor == 0);
            prop_assert!(multiples.contains(factor * divisor));
        }

        #[test]
        fn every_frame_counts_as_defined_however_they_are_split(
            frames in proptest::collection::vec((0u64..4, 0u64..4), 1..200),
            every in 1u64..7,
            split in 0usize..200,
        ) {
            // Times so small that the histograms hold them exactly.
            let latency = |&(spacing, queued): &(u64, u64)| 100 + spacing * queued;
            let latencies: Vec<_> = frames.iter().map(latency).collect();
            let split = split.min(latencies.len());
            let mut parts = [LatencyRecorder::new(every, true), LatencyRecorder::new(every, true)];
            for (k, latency_ns) in latencies.iter().enumerate() {
                let sent_ns = 1000 * k as u64;
                parts[usize::from(k >= split)].record(k as u64, sent_ns, sent_ns + latency_ns);
            }
            let [mut all, rest] = parts;
            all.merge(rest);
            let Latencies { latency, jitter, .. } = all.into_latencies();
            let jitter = jitter.unwrap();
            for value in 0..120 {
                let wanted = latencies.iter().step_by(every as usize).filter(|&&l| l == value);
                prop_assert_eq!(latency.count_at(value), wanted.count() as u64);
                let within = |part: &[u64]| {
                    part.windows(2).filter(|w| w[0].abs_diff(w[1]) == value).count() as u64
                };
                let wanted = within(&latencies[..split]) + within(&latencies[split..]);
                prop_assert_eq!(jitter.count_at(value), wanted);
            }
        }
    }
}
