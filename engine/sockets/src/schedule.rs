//! When transactions begin.

use pinchpoint_traffic::pace::Pace;

/// When the next transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Now; it was planned for this instant.
    Now(u64),
    /// Later, at this instant.
    At(u64),
    /// None is left.
    Over,
}

/// The plan of one stretch of time, all in nanoseconds of one clock.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    start_ns: u64,
    end_ns: u64,
    /// None in a closed loop.
    pace: Option<Pace>,
    /// Transactions at most, by the plan and by the limit.
    most: u64,
    limit: u64,
    begun: u64,
}

impl Schedule {
    /// From `start_ns` up to, but not, `end_ns`; `rate_tps` none is a closed
    /// loop; at most `limit` transactions.
    pub(crate) fn new(
        start_ns: u64,
        end_ns: u64,
        rate_tps: Option<f64>,
        limit: Option<u64>,
    ) -> Self {
        let seconds = (end_ns - start_ns) as f64 / 1e9;
        let planned = rate_tps.map_or(u64::MAX, |rate| (rate * seconds).floor() as u64);
        Self {
            start_ns,
            end_ns,
            pace: rate_tps.map(|rate| Pace::new(rate, 0)),
            most: planned.min(limit.unwrap_or(u64::MAX)),
            limit: limit.unwrap_or(u64::MAX),
            begun: 0,
        }
    }

    /// When the next transaction begins. What is still waiting when time is
    /// up is never begun: see [`shortfall`](Self::shortfall).
    #[inline]
    pub(crate) fn due(&self, now_ns: u64) -> Due {
        if self.begun >= self.most || now_ns >= self.end_ns {
            return Due::Over;
        }
        match self.pace {
            None => Due::Now(now_ns),
            Some(pace) => {
                let planned = self.start_ns + pace.planned_ns(self.begun);
                if planned <= now_ns {
                    Due::Now(planned)
                } else {
                    Due::At(planned)
                }
            }
        }
    }

    /// The transaction that was due has begun.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.begun += 1;
    }

    pub(crate) fn is_paced(&self) -> bool {
        self.pace.is_some()
    }

    /// Whether as many have begun as the limit allows, however much time is
    /// left.
    pub(crate) fn at_limit(&self) -> bool {
        self.begun >= self.limit
    }

    /// Transactions planned until `now_ns`; none in a closed loop.
    pub(crate) fn intended(&self, now_ns: u64) -> Option<u64> {
        let pace = self.pace?;
        if now_ns >= self.end_ns {
            return Some(self.most);
        }
        let passed_ns = now_ns.saturating_sub(self.start_ns);
        Some(pace.due(passed_ns).min(self.most))
    }

    /// Transactions that were planned until `now_ns` and never begun.
    pub(crate) fn shortfall(&self, now_ns: u64) -> Option<u64> {
        let intended = self.intended(now_ns)?;
        Some(intended.saturating_sub(self.begun))
    }

    pub(crate) fn start_ns(&self) -> u64 {
        self.start_ns
    }

    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_keeps_its_plan_however_late_it_is() {
        let mut schedule = Schedule::new(1000, 1_000_001_000, Some(1e6), None);
        assert_eq!(schedule.due(1000), Due::Now(1000));
        schedule.begin();
        assert_eq!(schedule.due(1500), Due::At(2000));
        assert_eq!(schedule.due(9000), Due::Now(2000));
        assert_eq!(schedule.intended(2_000_000_000), Some(1_000_000));
        assert_eq!(schedule.due(1_000_001_000), Due::Over);
        assert_eq!(schedule.shortfall(1_000_001_000), Some(999_999));
        assert_eq!(schedule.intended(3500), Some(3));
    }

    #[test]
    fn a_closed_loop_begins_at_once_until_time_or_number_is_up() {
        let mut schedule = Schedule::new(0, 100, None, Some(1));
        assert_eq!(schedule.due(42), Due::Now(42));
        assert_eq!(schedule.due(100), Due::Over);
        schedule.begin();
        assert_eq!(schedule.due(43), Due::Over);
        assert!(schedule.at_limit());
        assert_eq!(schedule.intended(50), None);
    }
}
