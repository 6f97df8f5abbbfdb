//! When the frames of a Poisson process come.

use crate::hash::Hash;

/// Arrivals whose times are known: more than a pacer ever keeps, a power of two.
pub(crate) const KNOWN: usize = 2048;

/// The times of a Poisson process with a given number of arrivals: those of as
/// many independent, evenly spread times, put in order one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Arrivals {
    numbers: Hash,
    frames: u64,
    end_ns: f64,
    /// How many have come.
    arrived: u64,
    /// When the next one comes.
    next_ns: f64,
    /// When the last ones came; arrival `k` at `k` modulo the length.
    times_ns: Box<[f64]>,
}

impl Arrivals {
    /// This many arrivals before `end_ns`.
    pub(crate) fn new(seed: u64, frames: u64, end_ns: u64) -> Self {
        let mut arrivals = Self {
            numbers: Hash::new(seed, 0),
            frames,
            end_ns: end_ns as f64,
            arrived: 0,
            next_ns: 0.0,
            times_ns: vec![0.0; KNOWN].into_boxed_slice(),
        };
        arrivals.next_ns = arrivals.behind(0.0);
        arrivals
    }

    /// The least of the times that are left, which lie evenly between `last_ns`
    /// and the end: of `n` numbers between 0 and 1 the least is distributed as
    /// `1 - u^(1/n)`.
    fn behind(&self, last_ns: f64) -> f64 {
        let left = self.frames - self.arrived;
        if left == 0 {
            return f64::INFINITY;
        }
        // Above 0 and at most 1.
        let even = ((self.numbers.number(self.arrived) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let share = -(even.ln() / left as f64).exp_m1();
        last_ns + (self.end_ns - last_ns) * share
    }

    /// Draws the times up to this one.
    pub(crate) fn advance(&mut self, elapsed_ns: u64) {
        while self.next_ns <= elapsed_ns as f64 {
            self.times_ns[self.arrived as usize % KNOWN] = self.next_ns;
            self.arrived += 1;
            self.next_ns = self.behind(self.next_ns);
        }
    }

    /// How many have come.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// When arrival `k` came, one of the last; of one to come the end.
    pub(crate) fn at_ns(&self, k: u64) -> f64 {
        if k < self.arrived {
            self.times_ns[k as usize % KNOWN]
        } else {
            self.end_ns
        }
    }
}
