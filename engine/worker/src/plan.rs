//! What a trial is to do, and how it is watched and stopped meanwhile.

use pinchpoint_port::BURST;
use pinchpoint_traffic::pacer::Pacer;
use pinchpoint_traffic::program::FrameProgram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One stream of a trial.
#[derive(Debug, Clone)]
pub struct PlannedStream {
    /// Stream id carried in the signature.
    pub id: u8,
    /// The frames.
    pub program: FrameProgram,
    /// When they are due.
    pub pacer: Pacer,
    /// Index of the port that sends them.
    pub tx_port: usize,
    /// Index of the port that expects them.
    pub rx_port: usize,
}

/// One trial.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The core to run on.
    pub core: usize,
    /// Trial number carried in the signatures.
    pub epoch: u8,
    /// How long to send, in nanoseconds.
    pub duration_ns: u64,
    /// How long to receive after sending, in nanoseconds.
    pub drain_ns: u64,
    /// Whether received IPv4 and UDP checksums are verified.
    pub verify_checksums: bool,
    /// The streams.
    pub streams: Vec<PlannedStream>,
}

/// Frames handed to a port at once, at most.
pub const TX_BURST: usize = BURST;

/// What a running trial shares with the thread that watches it. The worker
/// alone writes the counters, the watcher alone the flags.
#[derive(Debug, Default)]
pub struct Live {
    flags: Flags,
    counters: Counters,
}

/// On a cache line of their own: the worker reads them in every turn.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Flags {
    stop: AtomicBool,
    abort: AtomicBool,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    offered: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// Totals of a running trial; each is exact, but they are not of one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Frames presented to the ports.
    pub offered: u64,
    /// Frames the ports took.
    pub sent: u64,
    /// Distinct intact frames that came back.
    pub received: u64,
}

impl Live {
    /// Ends the sending; the drain follows.
    pub fn stop(&self) {
        self.flags.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the sending and the drain.
    pub fn abort(&self) {
        self.flags.abort.store(true, Ordering::Relaxed);
        self.stop();
    }

    #[inline(always)]
    pub(crate) fn stopped(&self) -> bool {
        self.flags.stop.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn aborted(&self) -> bool {
        self.flags.abort.load(Ordering::Relaxed)
    }

    pub(crate) fn publish(&self, sample: Sample) {
        let counters = &self.counters;
        counters.offered.store(sample.offered, Ordering::Relaxed);
        counters.sent.store(sample.sent, Ordering::Relaxed);
        counters.received.store(sample.received, Ordering::Relaxed);
    }

    /// The totals as last published, at most a few milliseconds ago.
    pub fn sample(&self) -> Sample {
        let counters = &self.counters;
        Sample {
            offered: counters.offered.load(Ordering::Relaxed),
            sent: counters.sent.load(Ordering::Relaxed),
            received: counters.received.load(Ordering::Relaxed),
        }
    }
}
