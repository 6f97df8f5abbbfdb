//! A client that is one of several cores'.

use super::Client;

impl Client {
    /// The same client; its connections take turns with those of other cores, `phase` of the way
    /// from one to the next.
    #[must_use]
    pub fn in_phase(self, phase: f64) -> Self {
        Self {
            pace: self.pace.in_phase(phase),
            ..self
        }
    }

    /// Adds what became of another core's connections. What only one core could know of both, which
    /// ends were in use twice and in which order backends were reached, is not known any more.
    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.times.merge(&other.times);
        self.delivered.merge(&other.delivered);
        self.answered.merge(&other.answered);
        (self.reuse, self.order) = (None, None);
    }
}
