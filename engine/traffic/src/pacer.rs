//! Which frames of a stream are due.
//!
//! Frame `k` of a stream is due `(k + phase) / rate` after the start; the
//! phase, less than one frame, keeps streams of equal rates from sending in
//! step, as one burst. A pacer is asked from time to time how many frames are
//! due and not yet offered; between two questions that number grows with the
//! time that passed. A backlog larger
//! than the catch-up limit is not offered late as one giant burst: its excess
//! is given up at once and counted as shortfall.

/// A backlog worth more than this many nanoseconds is given up ...
pub const CATCH_UP_NS: f64 = 100_000.0;
/// ... and in any case what exceeds this many frames, ...
pub const CATCH_UP_MAX: u64 = 512;
/// ... but never less than this many are kept.
pub const CATCH_UP_MIN: u64 = 32;

/// The schedule of one stream.
#[derive(Debug, Clone)]
pub struct Pacer {
    /// Frames per nanosecond; none when unpaced.
    rate: Option<f64>,
    phase: f64,
    intended: u64,
    limit: u64,
    offered: u64,
    given_up: u64,
    largest_burst: u64,
    latest_ns: u64,
}

impl Pacer {
    /// A schedule of `rate_fps` frames per second, greater than zero, for
    /// `duration_s` seconds, that begins `phase` frames (0 up to, but not, 1)
    /// late. The number of frames does not depend on the phase.
    pub fn paced(rate_fps: f64, duration_s: f64, phase: f64) -> Self {
        let rate = rate_fps / 1e9;
        let limit = (rate * CATCH_UP_NS).ceil() as u64;
        Self {
            rate: Some(rate),
            phase,
            intended: (rate_fps * duration_s).floor() as u64,
            limit: limit.clamp(CATCH_UP_MIN, CATCH_UP_MAX),
            ..Self::unpaced()
        }
    }

    /// The same schedule, with a catch-up limit of at most a quarter of a
    /// ring of `ring` frames: making up for the engine's own gap must not
    /// overflow what the other side keeps up with.
    #[must_use]
    pub fn within(mut self, ring: u32) -> Self {
        self.limit = self.limit.min(u64::from(ring / 4).max(1));
        self
    }

    /// No schedule: a frame is due whenever it is asked for.
    pub fn unpaced() -> Self {
        Self {
            rate: None,
            phase: 0.0,
            intended: u64::MAX,
            limit: u64::MAX,
            offered: 0,
            given_up: 0,
            largest_burst: 0,
            latest_ns: 0,
        }
    }

    /// Whether the stream has a schedule.
    #[inline]
    pub fn is_paced(&self) -> bool {
        self.rate.is_some()
    }

    /// How many frames to offer now, `elapsed_ns` after the start; at most
    /// `burst`. What is beyond the catch-up limit is given up here.
    #[inline]
    pub fn due(&mut self, elapsed_ns: u64, burst: u64) -> u64 {
        let Some(rate) = self.rate else {
            return burst;
        };
        let scheduled = self.scheduled(elapsed_ns, rate);
        let behind = scheduled.saturating_sub(self.offered + self.given_up);
        if behind > self.limit {
            self.given_up += behind - self.limit;
        }
        let backlog = behind.min(self.limit);
        if backlog > 0 {
            self.observe(backlog, elapsed_ns, rate);
        }
        backlog.min(burst)
    }

    /// Frames whose time has come.
    #[inline]
    fn scheduled(&self, elapsed_ns: u64, rate: f64) -> u64 {
        let frames = elapsed_ns as f64 * rate + 1.0 - self.phase;
        (frames as u64).min(self.intended)
    }

    #[inline]
    fn observe(&mut self, backlog: u64, elapsed_ns: u64, rate: f64) {
        self.largest_burst = self.largest_burst.max(backlog);
        let oldest_due_ns = ((self.offered + self.given_up) as f64 + self.phase) / rate;
        let late_ns = (elapsed_ns as f64 - oldest_due_ns).max(0.0) as u64;
        self.latest_ns = self.latest_ns.max(late_ns);
    }

    /// Records that `frames` were presented to the port.
    #[inline]
    pub fn offer(&mut self, frames: u64) {
        self.offered += frames;
        if self.rate.is_none() {
            self.largest_burst = self.largest_burst.max(frames);
        }
    }

    /// Whether every intended frame was offered or given up.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.offered + self.given_up >= self.intended
    }

    /// Ends the schedule: what was due within `elapsed_ns` and not offered is
    /// shortfall, and what was due later was never intended. Used when a trial
    /// is stopped.
    pub fn cut(&mut self, elapsed_ns: u64) {
        if let Some(rate) = self.rate {
            let scheduled = self.scheduled(elapsed_ns, rate);
            self.intended = scheduled.max(self.offered + self.given_up);
        }
    }

    /// Frames the load and the duration ask for; none when unpaced.
    pub fn intended(&self) -> Option<u64> {
        self.rate.map(|_| self.intended)
    }

    /// Frames presented to the port.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// Frames that were due and never offered; none when unpaced.
    pub fn shortfall(&self) -> Option<u64> {
        self.rate.map(|_| self.intended - self.offered)
    }

    /// Most frames that were offered back to back: the largest backlog kept,
    /// or the largest burst when unpaced.
    pub fn largest_burst(&self) -> u64 {
        self.largest_burst
    }

    /// How long after its time the latest frame was offered, in nanoseconds;
    /// none when unpaced.
    pub fn latest_ns(&self) -> Option<u64> {
        self.rate.map(|_| self.latest_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn catching_up_fills_at_most_a_quarter_of_the_ring() {
        let mut pacer = Pacer::paced(1e7, 1.0, 0.0).within(256);
        assert_eq!(pacer.due(1_000_000, 1000), 64);
        let mut pacer = Pacer::paced(1e7, 1.0, 0.0).within(4096);
        assert_eq!(pacer.due(1_000_000, 1000), CATCH_UP_MAX);
    }

    #[test]
    fn frames_are_due_by_time() {
        let mut pacer = Pacer::paced(1e6, 1.0, 0.0);
        assert_eq!(pacer.due(0, 32), 1);
        pacer.offer(1);
        assert_eq!(pacer.due(999, 32), 0);
        assert_eq!(pacer.due(1_000, 32), 1);
        pacer.offer(1);
        assert_eq!(pacer.due(10_500, 32), 9);
        assert_eq!(pacer.largest_burst(), 9);
        assert_eq!(pacer.latest_ns(), Some(8_500));
    }

    #[test]
    fn a_phase_delays_every_frame_by_part_of_an_interval() {
        let mut pacer = Pacer::paced(1e6, 1.0, 0.25);
        assert_eq!(pacer.due(249, 32), 0);
        assert_eq!(pacer.due(250, 32), 1);
        pacer.offer(1);
        assert_eq!(pacer.due(1249, 32), 0);
        assert_eq!(pacer.due(1250, 32), 1);
    }

    #[test]
    fn a_long_gap_is_shortfall_and_not_a_giant_burst() {
        let mut pacer = Pacer::paced(1e7, 1.0, 0.0);
        assert_eq!(pacer.due(5_000_000, 64), 64);
        assert_eq!(pacer.largest_burst(), CATCH_UP_MAX);
        let mut sent = 0;
        while pacer.due(5_000_000, 64) > 0 {
            pacer.offer(64);
            sent += 64;
        }
        assert_eq!(sent, CATCH_UP_MAX);
        assert_eq!(pacer.given_up, 50_001 - CATCH_UP_MAX);
    }

    #[test]
    fn a_stopped_trial_keeps_its_identity() {
        let mut pacer = Pacer::paced(1e6, 10.0, 0.0);
        let due = pacer.due(9_999, 64);
        pacer.offer(due);
        pacer.cut(19_999);
        assert_eq!(pacer.intended(), Some(20));
        assert_eq!(pacer.shortfall(), Some(10));
    }

    proptest! {
        #[test]
        fn intended_is_offered_plus_shortfall_whatever_the_gaps(
            rate in 1.0f64..5e7,
            phase in 0.0f64..1.0,
            gaps in proptest::collection::vec(0u64..3_000_000, 1..200),
        ) {
            let duration_s = 0.05;
            let mut pacer = Pacer::paced(rate, duration_s, phase);
            let mut now = 0;
            for gap in gaps {
                now += gap;
                let frames = pacer.due(now.min(50_000_000), 64);
                prop_assert!(frames <= 64);
                pacer.offer(frames);
            }
            while !pacer.is_done() {
                let frames = pacer.due(50_000_000, 64);
                prop_assert!(frames > 0);
                pacer.offer(frames);
            }
            let intended = (rate * duration_s).floor() as u64;
            prop_assert_eq!(pacer.intended(), Some(intended));
            prop_assert_eq!(pacer.offered() + pacer.shortfall().unwrap(), intended);
            prop_assert!(pacer.largest_burst() <= CATCH_UP_MAX);
        }
    }
}
