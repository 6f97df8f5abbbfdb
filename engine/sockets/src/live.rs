//! What a running workload shares with the thread that watches it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The watcher alone writes the flag, the client the first two counters and
/// the server the last.
#[derive(Debug, Default)]
pub struct Live {
    stop: Line<AtomicBool>,
    client: Line<ClientCounters>,
    received: Line<AtomicU64>,
}

/// Alone on its (doubled) cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

#[derive(Debug, Default)]
struct ClientCounters {
    transactions: AtomicU64,
    failed: AtomicU64,
}

/// Totals since the workload began, warm-up and earlier repeats included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Transactions that succeeded.
    pub transactions: u64,
    /// Transactions that failed.
    pub failed: u64,
    /// Payload bytes that the server received of streams.
    pub received_bytes: u64,
}

impl Live {
    /// Ends the workload within 100 ms.
    pub fn stop(&self) {
        self.stop.0.store(true, Ordering::Relaxed);
    }

    /// The totals so far; they are not of one instant.
    pub fn sample(&self) -> Sample {
        Sample {
            transactions: self.client.0.transactions.load(Ordering::Relaxed),
            failed: self.client.0.failed.load(Ordering::Relaxed),
            received_bytes: self.received.0.load(Ordering::Relaxed),
        }
    }

    #[inline]
    pub(crate) fn stopped(&self) -> bool {
        self.stop.0.load(Ordering::Relaxed)
    }

    // Each counter has one writer, so it needs no atomic addition.

    #[inline]
    pub(crate) fn count_transaction(&self) {
        add(&self.client.0.transactions, 1);
    }

    #[inline]
    pub(crate) fn count_failed(&self) {
        add(&self.client.0.failed, 1);
    }

    #[inline]
    pub(crate) fn count_received(&self, bytes: u64) {
        add(&self.received.0, bytes);
    }
}

#[inline]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}
