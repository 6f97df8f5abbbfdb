//! Which frames of a stream are due.
//!
//! Frame `k` of a steady stream is due `(k + phase) / rate` after the start;
//! the phase, less than one frame, keeps streams of equal rates from sending
//! in step, as one burst. [`Shape`] describes other schedules. A pacer is asked
//! from time to time how many frames are due and not yet offered; between two
//! questions that number grows with the time that passed. A backlog larger
//! than the catch-up limit is not offered late as one giant burst: its excess
//! is skipped at once and counted as shortfall.

use crate::arrivals::Arrivals;
use crate::pace::CATCH_UP_NS;
use crate::recorded::Recorded;
use std::sync::Arc;

/// Most frames of a backlog that are kept, ...
pub const CATCH_UP_MAX: u64 = 1024;
/// The least number of frames that may be caught up, at any rate.
pub const CATCH_UP_MIN: u64 = 32;

/// How the frames of a stream lie in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// At equal distances.
    Steady,
    /// In groups of this many frames (0 counts as 1) that become due at once;
    /// the groups lie at equal distances, and so that the rate is the mean
    /// rate. The phase is a share of the distance between two groups. What a
    /// last, smaller group would send after the end is due at the end.
    Bursts {
        /// Frames of a group.
        frames: u64,
    },
    /// At a rate that grows in a straight line from this share of the rate (0
    /// to 1; anything less or no number counts as 0, anything more as 1) to
    /// the rate itself, which it reaches at the end. The intended frames are
    /// the area below that line.
    Ramp {
        /// The rate at the start, as a share of the rate at the end.
        from_share: f64,
    },
    /// At the rate, and from some time on at this share of it (0 to 1; anything
    /// less or no number counts as 0, anything more as 1).
    Step {
        /// When it changes, in seconds after the start.
        after_s: f64,
        /// The rate from then on, as a share of the rate before.
        to_share: f64,
    },
    /// At random times that do not depend on each other: a Poisson process
    /// under the condition that it has the intended number of frames, so that
    /// the rate is exactly the mean rate. There is no phase.
    Poisson {
        /// The same seed gives the same times.
        seed: u64,
    },
}

/// A shape, ready to be asked.
#[derive(Debug, Clone)]
enum Schedule {
    Steady,
    Bursts { frames: u64 },
    Ramp { from: f64 },
    Step { after_ns: f64, to: f64 },
    Poisson(Arrivals),
    Recorded(Arc<Recorded>),
}

/// The schedule of one stream.
#[derive(Debug, Clone)]
pub struct Pacer {
    /// Frames per nanosecond, the highest of a ramp; none when unpaced.
    rate: Option<f64>,
    /// Rate times duration.
    whole: f64,
    /// When everything is due.
    end_ns: u64,
    schedule: Schedule,
    phase: f64,
    intended: u64,
    /// Late frames that may be made up for.
    limit: u64,
    /// Whether a number of frames was asked for: none is skipped.
    counted: bool,
    /// Frames that are due in one instant beyond the first.
    burst_extra: u64,
    offered: u64,
    skipped: u64,
    largest_burst: u64,
    latest_ns: u64,
}

impl Pacer {
    /// A schedule of `rate_fps` frames per second, greater than zero, for
    /// `duration_s` seconds, that begins `phase` frames (0 up to, but not, 1)
    /// late. The number of frames does not depend on the phase.
    pub fn paced(rate_fps: f64, duration_s: f64, phase: f64) -> Self {
        let rate = rate_fps / 1e9;
        Self {
            rate: Some(rate),
            whole: rate_fps * duration_s,
            end_ns: (duration_s * 1e9).floor() as u64,
            phase,
            intended: (rate_fps * duration_s).floor() as u64,
            limit: catch_up(rate),
            ..Self::unpaced()
        }
    }

    /// The same rate and duration in another shape; an unpaced stream has
    /// none. The number of frames intended changes if it is a ramp.
    #[must_use]
    pub fn shaped(mut self, shape: Shape) -> Self {
        if !self.is_paced() {
            return self;
        }
        (self.burst_extra, self.intended) = (0, self.whole.floor() as u64);
        self.schedule = match shape {
            Shape::Steady => Schedule::Steady,
            Shape::Bursts { frames } => {
                let frames = frames.max(1);
                self.burst_extra = frames - 1;
                Schedule::Bursts { frames }
            }
            Shape::Ramp { from_share } => {
                let from = Some(from_share.min(1.0)).filter(|&share| share > 0.0);
                let from = from.unwrap_or(0.0);
                self.intended = (self.whole * f64::midpoint(from, 1.0)).floor() as u64;
                Schedule::Ramp { from }
            }
            Shape::Step { after_s, to_share } => {
                let to = to_share.clamp(0.0, 1.0);
                let to = if to.is_nan() { 0.0 } else { to };
                let end_ns = self.end_ns as f64;
                let after_ns = (after_s * 1e9).clamp(0.0, end_ns);
                let share = if end_ns > 0.0 {
                    (after_ns + (end_ns - after_ns) * to) / end_ns
                } else {
                    1.0
                };
                self.intended = (self.whole * share).floor() as u64;
                Schedule::Step { after_ns, to }
            }
            Shape::Poisson { seed } => {
                // Frames that come close to each other are what was asked for.
                self.burst_extra = CATCH_UP_MIN - 1;
                Schedule::Poisson(Arrivals::new(seed, self.intended, self.end_ns))
            }
        };
        self
    }

    /// The same rate and duration with frames as far apart as in a capture, whose
    /// own mean rate becomes this one; an unpaced stream has none. Those due within
    /// the duration are intended. What a capture has within a catch-up is what was
    /// asked for, as a burst is. There is no phase.
    #[must_use]
    pub fn recorded(mut self, times: Arc<Recorded>) -> Self {
        let Some(rate) = self.rate else {
            return self;
        };
        let frames = times.frames() as f64;
        self.burst_extra = times.most_within(rate * CATCH_UP_NS / frames);
        // The end itself belongs to the next period.
        let periods = (self.whole / frames - 1e-9).max(0.0);
        self.intended = times.come(periods);
        self.schedule = Schedule::Recorded(times);
        self
    }

    /// The same schedule for exactly this many frames, or as many as the duration
    /// has if those are fewer. None of them is skipped: what the engine is late
    /// with, or the port does not take, is offered later.
    #[must_use]
    pub fn exactly(mut self, frames: u64) -> Self {
        if self.is_paced() {
            (self.intended, self.limit) = (self.intended.min(frames), u64::MAX);
            self.counted = true;
        }
        self
    }

    /// The same schedule, with a catch-up limit of at most `share` (0 to 1) of a
    /// quarter of a ring of `ring` frames, but one frame: making up for the
    /// engine's own gap must not overflow what the other side keeps up with, and
    /// all streams of a port make up for the same gap. The frames of a burst that
    /// is due come on top: they are what was asked for.
    #[must_use]
    pub fn within(mut self, ring: u32, share: f64) -> Self {
        if self.counted {
            return self;
        }
        let budget = f64::from(ring / 4) * share;
        self.limit = self.limit.min((budget as u64).max(1));
        self
    }

    /// No schedule: a frame is due whenever it is asked for.
    pub fn unpaced() -> Self {
        Self {
            rate: None,
            whole: 0.0,
            end_ns: u64::MAX,
            schedule: Schedule::Steady,
            phase: 0.0,
            intended: u64::MAX,
            limit: u64::MAX,
            counted: false,
            burst_extra: 0,
            offered: 0,
            skipped: 0,
            largest_burst: 0,
            latest_ns: 0,
        }
    }

    /// Whether the stream has a schedule.
    #[inline]
    pub fn is_paced(&self) -> bool {
        self.rate.is_some()
    }

    /// Whether a frame that the port does not take is offered again: of an
    /// unpaced stream, and of one with a number of frames.
    #[inline]
    pub fn offers_again(&self) -> bool {
        self.counted || self.rate.is_none()
    }

    /// How many frames to offer now, `elapsed_ns` after the start; at most
    /// `burst`. What is beyond the catch-up limit is skipped here.
    #[inline]
    pub fn due(&mut self, elapsed_ns: u64, burst: u64) -> u64 {
        let Some(rate) = self.rate else {
            return burst;
        };
        self.arrive(elapsed_ns);
        let scheduled = self.scheduled(elapsed_ns, rate);
        let behind = scheduled.saturating_sub(self.offered + self.skipped);
        if behind == 0 {
            return 0;
        }
        let kept = behind.min(self.most(elapsed_ns, rate));
        self.skipped += behind - kept;
        self.observe(kept, elapsed_ns, rate);
        kept.min(burst)
    }

    /// Draws the random times up to this one.
    #[inline]
    fn arrive(&mut self, elapsed_ns: u64) {
        if let Schedule::Poisson(arrivals) = &mut self.schedule {
            arrivals.advance(elapsed_ns);
        }
    }

    /// Frames whose time has come.
    #[inline]
    fn scheduled(&self, elapsed_ns: u64, rate: f64) -> u64 {
        if elapsed_ns >= self.end_ns {
            return self.intended;
        }
        let frames = if let Schedule::Steady = self.schedule {
            (elapsed_ns as f64 * rate + 1.0 - self.phase) as u64
        } else {
            self.scheduled_in_shape(elapsed_ns, rate)
        };
        frames.min(self.intended)
    }

    #[inline(never)]
    fn scheduled_in_shape(&self, elapsed_ns: u64, rate: f64) -> u64 {
        let steady = elapsed_ns as f64 * rate;
        match self.schedule {
            Schedule::Steady => (steady + 1.0 - self.phase) as u64,
            Schedule::Bursts { frames } => {
                let groups = steady / frames as f64 + 1.0 - self.phase;
                (groups as u64).saturating_mul(frames)
            }
            Schedule::Ramp { from } => {
                // The area below the line: of a trapezium.
                let mean = f64::midpoint(from, self.share(from, elapsed_ns));
                (steady * mean + 1.0 - self.phase) as u64
            }
            Schedule::Step { after_ns, to } => {
                let beyond_ns = (elapsed_ns as f64 - after_ns).max(0.0);
                (steady - beyond_ns * (1.0 - to) * rate + 1.0 - self.phase) as u64
            }
            Schedule::Poisson(ref arrivals) => arrivals.arrived(),
            Schedule::Recorded(ref times) => times.come(steady / times.frames() as f64),
        }
    }

    /// The share of its highest rate that a ramp has reached.
    fn share(&self, from: f64, elapsed_ns: u64) -> f64 {
        from + (1.0 - from) * (elapsed_ns as f64 / self.end_ns as f64)
    }

    /// Most frames that may be offered back to back.
    #[inline]
    fn most(&self, elapsed_ns: u64, rate: f64) -> u64 {
        if let Schedule::Ramp { from } = self.schedule {
            let share = self.share(from, elapsed_ns.min(self.end_ns));
            return self.limit.min(catch_up(rate * share));
        }
        if let Schedule::Step { after_ns, to } = self.schedule {
            let share = if elapsed_ns as f64 > after_ns {
                to
            } else {
                1.0
            };
            return self.limit.min(catch_up(rate * share));
        }
        self.limit.saturating_add(self.burst_extra)
    }

    /// When frame `k` is due, in nanoseconds after the start.
    #[inline]
    fn due_at_ns(&self, k: u64, rate: f64) -> f64 {
        if let Schedule::Steady = self.schedule {
            return (k as f64 + self.phase) / rate;
        }
        self.due_in_shape_ns(k, rate).min(self.end_ns as f64)
    }

    #[inline(never)]
    fn due_in_shape_ns(&self, k: u64, rate: f64) -> f64 {
        let steady_ns = (k as f64 + self.phase) / rate;
        match self.schedule {
            Schedule::Bursts { frames } => {
                ((k / frames) as f64 + self.phase) * frames as f64 / rate
            }
            Schedule::Ramp { from } if steady_ns > 0.0 => {
                // The root of the trapezium's area, in the form that also
                // holds where the ramp is flat.
                let growth = 2.0 * (1.0 - from) * steady_ns / self.end_ns as f64;
                2.0 * steady_ns / (from + (from * from + growth).sqrt())
            }
            Schedule::Step { after_ns, to } if steady_ns > after_ns => {
                after_ns + (steady_ns - after_ns) / to
            }
            Schedule::Poisson(ref arrivals) => arrivals.at_ns(k),
            Schedule::Recorded(ref times) => times.at(k) * times.frames() as f64 / rate,
            Schedule::Steady | Schedule::Ramp { .. } | Schedule::Step { .. } => steady_ns,
        }
    }

    #[inline]
    fn observe(&mut self, backlog: u64, elapsed_ns: u64, rate: f64) {
        self.largest_burst = self.largest_burst.max(backlog);
        let oldest_due_ns = self.due_at_ns(self.offered + self.skipped, rate);
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

    /// Whether every intended frame was offered or skipped.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.offered + self.skipped >= self.intended
    }

    /// Ends the schedule: what was due within `elapsed_ns` and not offered is
    /// shortfall, and what was due later was never intended. Used when a trial
    /// is stopped.
    pub fn cut(&mut self, elapsed_ns: u64) {
        if let Some(rate) = self.rate {
            self.arrive(elapsed_ns);
            let scheduled = self.scheduled(elapsed_ns, rate);
            self.intended = scheduled.max(self.offered + self.skipped);
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

    /// The share of the intended frames that were offered, 0 to 1; none when
    /// unpaced. A load that asks for no frame is offered in full.
    pub fn offered_share(&self) -> Option<f64> {
        let intended = self.intended()?;
        if intended == 0 {
            return Some(1.0);
        }
        Some(self.offered as f64 / intended as f64)
    }

    /// Whether the offered load is within `tolerance` (a share, as in 0.001)
    /// of the intended one; none when unpaced.
    pub fn offered_within(&self, tolerance: f64) -> Option<bool> {
        let missing = self.shortfall()? as f64;
        Some(missing <= tolerance * self.intended as f64)
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

/// Frames that may be made up for at `rate` frames per nanosecond.
fn catch_up(rate: f64) -> u64 {
    let frames = (rate * CATCH_UP_NS).ceil() as u64;
    frames.clamp(CATCH_UP_MIN, CATCH_UP_MAX)
}

#[cfg(test)]
#[path = "pacer_tests.rs"]
mod tests;
