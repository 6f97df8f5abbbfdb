//! How many connections are opened, when, and for how long.

use super::timers::Retry;
use pinchpoint_traffic::pace::CATCH_UP_NS;

/// Connections that may always be made up for.
const CATCH_UP_MIN: u64 = 64;
const SECOND_NS: f64 = 1e9;

/// How many connections are opened, when, and for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Connections a second.
    pub rate: f64,
    /// How long it takes to reach this rate.
    pub ramp_ns: u64,
    /// How many.
    pub count: u64,
    /// How long one may wait for what it is due, from when it is due.
    pub timeout_ns: u64,
    /// How long one is held, from when it is due, before the request
    pub hold_ns: u64,
    /// with this number, from 0.
    pub hold_before: u16,
    /// How often segments without an answer are repeated.
    pub retry: Retry,
    /// Whether the backends close a connection first, with the last answer.
    pub server_closes: bool,
    /// Whether connections that are late are opened all the same, not only those of a short backlog.
    pub opens_late: bool,
}

impl Schedule {
    /// What core number `core` of `cores` has of it: every `cores`-th connection, from number `core` on.
    #[must_use]
    pub fn part(&self, core: u32, cores: u32) -> Self {
        let (core, cores) = (u64::from(core), u64::from(cores));
        Self {
            rate: self.rate / cores as f64,
            count: self.count / cores + u64::from(core < self.count % cores),
            ..*self
        }
    }

    /// The longest that a connection lasts from when it is due.
    pub fn lasting_ns(&self) -> u64 {
        self.timeout_ns + self.hold_ns
    }

    /// The most connections that are due and have not ended.
    pub fn outstanding(&self) -> u64 {
        let lasting = self.rate * self.lasting_ns() as f64 / SECOND_NS;
        lasting.min(self.count as f64) as u64 + CATCH_UP_MIN + self.catch_up()
    }

    /// The longest backlog that is made up for.
    pub fn catch_up(&self) -> u64 {
        ((self.rate * CATCH_UP_NS / SECOND_NS) as u64).max(CATCH_UP_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinchpoint_traffic::pace::Pace;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cores_take_turns_and_open_as_many_together_as_one_would(
            rate in 1.0..1e6f64, ramp_ns in 0..2_000_000_000u64, n in 0..100_000u64, cores in 1..9u32, count in 0..1_000u64,
        ) {
            let whole = Schedule { rate, ramp_ns, count, ..schedule() };
            let parts: Vec<_> = (0..cores).map(|core| whole.part(core, cores)).collect();
            prop_assert_eq!(parts.iter().map(|part| part.count).sum::<u64>(), count);
            // Connection n of all is one of the core whose turn it is, at the same time.
            let core = (n % u64::from(cores)) as u32;
            let phase = f64::from(core) / f64::from(cores);
            let own = Pace::new(parts[core as usize].rate, ramp_ns).in_phase(phase);
            let planned_ns = Pace::new(rate, ramp_ns).planned_ns(n);
            let apart_ns = own.planned_ns(n / u64::from(cores)).abs_diff(planned_ns);
            prop_assert!(apart_ns <= 2 + (1e-9 * planned_ns as f64) as u64, "{} ns", apart_ns);
        }
    }

    #[test]
    fn as_many_connections_as_there_are_numbers_are_divided_too() {
        let whole = Schedule {
            count: u64::MAX,
            ..schedule()
        };
        let counts = (0..2).map(|core| whole.part(core, 2).count);
        assert_eq!(counts.collect::<Vec<_>>(), [1 << 63, (1 << 63) - 1]);
    }

    fn schedule() -> Schedule {
        Schedule {
            rate: 1.0,
            ramp_ns: 0,
            count: 1,
            timeout_ns: 1,
            hold_ns: 0,
            hold_before: 0,
            retry: Retry::default(),
            server_closes: false,
            opens_late: false,
        }
    }
}
