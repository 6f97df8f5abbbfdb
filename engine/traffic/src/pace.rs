//! When connections and transactions are due.

/// A backlog worth more than this many nanoseconds, of frames or connections, is not made up for:
/// virtual machines stand still for tenths of a millisecond, hundreds of times a second.
pub const CATCH_UP_NS: f64 = 500_000.0;
const SECOND_NS: f64 = 1e9;

/// A constant rate of connections or transactions, reached after a linear ramp.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// How many are due in a second.
    rate: f64,
    interval_ns: f64,
    ramp_ns: f64,
    /// How many are due in the ramp.
    ramped: f64,
    /// How much later than at once the first one is due, in intervals.
    phase: f64,
}

impl Pace {
    /// `rate` a second, from 0 on over the first `ramp_ns`.
    pub fn new(rate: f64, ramp_ns: u64) -> Self {
        let ramp_ns = ramp_ns as f64;
        let interval_ns = SECOND_NS / rate;
        Self {
            rate,
            interval_ns,
            ramp_ns,
            ramped: ramp_ns / interval_ns / 2.0,
            phase: 0.0,
        }
    }

    /// The same, where each takes the place between it and the next that `phase`, less
    /// than 1, says: those of several cores take turns.
    #[must_use]
    pub fn in_phase(self, phase: f64) -> Self {
        Self { phase, ..self }
    }

    /// When number `n` is due, in nanoseconds since the start.
    #[inline(always)]
    pub fn planned_ns(&self, n: u64) -> u64 {
        let n = n as f64 + self.phase;
        if n < self.ramped {
            return (2.0 * n * self.interval_ns * self.ramp_ns).sqrt() as u64;
        }
        (n * self.interval_ns + self.ramp_ns / 2.0) as u64
    }

    /// How many are due, so long after the start: the first one at once.
    #[inline(always)]
    pub fn due(&self, passed_ns: u64) -> u64 {
        let passed_ns = passed_ns as f64;
        let due = if passed_ns < self.ramp_ns {
            self.ramped * (passed_ns / self.ramp_ns).powi(2)
        } else {
            self.rate * (passed_ns - self.ramp_ns / 2.0) / SECOND_NS
        };
        if due < self.phase {
            return 0;
        }
        (due - self.phase) as u64 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_due_was_planned_before(rate in 1.0..1e7f64, ramp_ns in 0..10_000_000_000u64, n in 0..1_000_000u64) {
            let pace = Pace::new(rate, ramp_ns);
            let planned_ns = pace.planned_ns(n);
            prop_assert!(planned_ns <= pace.planned_ns(n + 1));
            // Rounding moves either by one.
            let slack_ns = 2 + (1e-9 * planned_ns as f64) as u64;
            prop_assert!(pace.due(planned_ns.saturating_sub(slack_ns)) <= n);
            prop_assert!(pace.due(planned_ns + slack_ns) > n);
        }
    }

    #[test]
    fn a_ramp_reaches_the_rate_at_its_end() {
        let pace = Pace::new(1_000.0, 2_000_000_000);
        assert_eq!(
            [1_000_000_000, 2_000_000_000, 3_000_000_000].map(|ns| pace.due(ns)),
            [251, 1_001, 2_001]
        );
    }
}
