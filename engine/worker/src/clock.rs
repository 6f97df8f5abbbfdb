//! The engine's clock: the processor's time stamp counter where it is
//! invariant, the system's monotonic clock otherwise.

use quanta::Clock as Source;

/// Nanoseconds since the engine started. Reading it costs a few nanoseconds
/// and is ordered the same on all cores.
#[derive(Debug, Clone)]
pub struct Clock {
    source: Source,
    origin: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock that starts at zero; calibrates itself, which takes up to
    /// 200 ms the first time in a process.
    pub fn new() -> Self {
        let source = Source::new();
        let origin = source.raw();
        Self { source, origin }
    }

    /// Now, in nanoseconds.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        self.source.delta_as_nanos(self.origin, self.source.raw())
    }

    /// Ticks of the underlying counter per second.
    pub fn hz(&self) -> u64 {
        const TICKS: u64 = 1 << 40;
        let nanoseconds = self.source.delta_as_nanos(0, TICKS).max(1);
        (TICKS as f64 / nanoseconds as f64 * 1e9).round() as u64
    }
}
