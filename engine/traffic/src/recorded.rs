//! When the frames of a capture come.

/// The times of a capture's frames, again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// After the beginning of a period, in order.
    offsets_ns: Vec<u64>,
    period_ns: u64,
}

impl Recorded {
    /// Frames at these times after the beginning of each period; none if there
    /// are none, if they are out of order or if one does not lie in the period.
    pub fn new(offsets_ns: Vec<u64>, period_ns: u64) -> Option<Self> {
        let last_ns = offsets_ns.last().copied();
        let fits = offsets_ns.is_sorted() && last_ns.is_some_and(|last_ns| last_ns < period_ns);
        fits.then_some(Self {
            offsets_ns,
            period_ns,
        })
    }

    /// Frames of a period.
    pub fn frames(&self) -> u64 {
        self.offsets_ns.len() as u64
    }

    /// Frames a second on average, at the capture's own speed.
    pub fn rate_fps(&self) -> f64 {
        self.frames() as f64 * 1e9 / self.period_ns as f64
    }

    /// How many have come after this many periods.
    pub(crate) fn come(&self, periods: f64) -> u64 {
        let whole = periods.floor();
        let into_ns = (periods - whole) * self.period_ns as f64;
        let within = self.offsets_ns.partition_point(|&at| at as f64 <= into_ns);
        let before = (whole as u64).saturating_mul(self.frames());
        before.saturating_add(within as u64)
    }

    /// After how many periods frame `k` comes.
    pub(crate) fn at(&self, k: u64) -> f64 {
        let offset_ns = self.offsets_ns[(k % self.frames()) as usize];
        (k / self.frames()) as f64 + offset_ns as f64 / self.period_ns as f64
    }

    /// Most frames of a period that come within this part of one.
    pub(crate) fn most_within(&self, part: f64) -> u64 {
        let window_ns = part * self.period_ns as f64;
        let mut first = 0;
        let mut most = 0;
        for (last, &at) in self.offsets_ns.iter().enumerate() {
            while (at - self.offsets_ns[first]) as f64 > window_ns {
                first += 1;
            }
            most = most.max(last - first + 1);
        }
        most as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_at_their_offsets_in_every_period() {
        let times = Recorded::new(vec![0, 10, 10, 700], 1000).unwrap();
        for (periods, come) in [
            (0.0, 1),
            (0.0099, 1),
            (0.0101, 3),
            (0.8, 4),
            (1.0, 5),
            (2.9, 12),
        ] {
            assert_eq!(times.come(periods), come, "after {periods} periods");
        }
        for k in 0..100 {
            assert!(times.come(times.at(k) + 1e-9) > k, "frame {k}");
            assert!(k == 0 || times.come(times.at(k) - 1e-9) <= k, "frame {k}");
        }
        assert!((times.rate_fps() - 4e6).abs() < 1e-3);
        assert_eq!(
            [0.0, 0.01, 0.5, 5.0].map(|part| times.most_within(part)),
            [2, 3, 3, 4]
        );
    }

    #[test]
    fn times_that_are_none_or_not_in_a_period_are_no_schedule() {
        assert_eq!(Recorded::new(vec![], 10), None);
        assert_eq!(Recorded::new(vec![5, 4], 10), None);
        assert_eq!(Recorded::new(vec![0, 10], 10), None);
    }
}
