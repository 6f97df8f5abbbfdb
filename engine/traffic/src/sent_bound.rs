//! How far a stream has been sent, told to the workers that receive it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bound is moved this many frames ahead of the sender at once, so that
/// its cache line changes hands seldom.
pub const LEAD: u64 = 4096;

/// An upper bound of the sequence numbers of a stream sent so far. The worker
/// that sends the stream alone moves it; workers that receive it read it. The
/// line is its own (128 bytes: two lines, which some cores fetch together).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SentBound(AtomicU64);

impl SentBound {
    /// Of a stream of which nothing was sent.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Of a stream of which every frame may have been sent: nobody here knows how far the sender is.
    pub const fn endless() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }

    /// Called before sequence numbers below `next` are handed to a port.
    #[inline(always)]
    pub fn reach(&self, next: u64) {
        if next > self.0.load(Ordering::Relaxed) {
            self.0.store(next + LEAD, Ordering::Release);
        }
    }

    /// Called when sending has ended: exactly `sent` frames were sent. Those
    /// who close their account afterwards leave out frames that never were.
    pub fn finish(&self, sent: u64) {
        self.0.store(sent, Ordering::Release);
    }

    /// Sequence numbers from here on have not been sent.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
