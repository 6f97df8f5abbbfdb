//! When a frame has been served.

/// The device stands still for `length_ns` at the end of every `period_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// From the end of one pause to the end of the next; more than `length_ns`.
    pub period_ns: u64,
    /// How long a pause is.
    pub length_ns: u64,
}

/// Serves one frame after the other.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    service_ns: f64,
    pause: Option<Pause>,
    start_ns: u64,
    /// When the last frame has been served, in nanoseconds after the start.
    free_ns: f64,
}

impl Server {
    /// A server that takes `service_ns` for a frame and starts at `start_ns`.
    pub(crate) fn new(service_ns: f64, pause: Option<Pause>, start_ns: u64) -> Self {
        Self {
            service_ns,
            pause,
            start_ns,
            free_ns: 0.0,
        }
    }

    /// When a frame has been served that may be begun at `from_ns` and takes
    /// `extra_ns` longer than others.
    pub(crate) fn serve(&mut self, from_ns: u64, extra_ns: u64) -> u64 {
        let from_ns = from_ns.saturating_sub(self.start_ns) as f64;
        let begin_ns = self.free_ns.max(from_ns);
        self.free_ns = self.worked(begin_ns, self.service_ns + extra_ns as f64);
        // Sums of service times are not exact: a whole number stays one.
        self.start_ns + (self.free_ns - 1e-4).ceil().max(0.0) as u64
    }

    /// When `work_ns` of work are done that begin at `begin_ns`.
    fn worked(&self, begin_ns: f64, mut work_ns: f64) -> f64 {
        let Some(pause) = self.pause else {
            return begin_ns + work_ns;
        };
        let (period_ns, length_ns) = (pause.period_ns as f64, pause.length_ns as f64);
        let mut at_ns = begin_ns;
        loop {
            let end_ns = (at_ns / period_ns).floor() * period_ns + period_ns;
            let left_ns = (end_ns - length_ns - at_ns).max(0.0);
            if work_ns <= left_ns {
                return at_ns + work_ns;
            }
            work_ns -= left_ns;
            at_ns = end_ns;
        }
    }
}
