//! What the two threads of a workload share.

use crate::live::Live;
use crate::spec::Workload;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// No call waits longer before it looks whether the workload has ended. The
/// server's last wait may begin when the client's is over, so a stop takes
/// twice as long.
const SLICE_NS: u64 = 25_000_000;

/// How far a run has come. The client moves it on, the server follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Nothing is counted yet.
    WarmUp,
    /// The window is open.
    Measuring,
    /// The window is over; a server whose client is elsewhere serves on.
    After,
    /// The client has ended.
    Done,
}

/// Read by both threads in every turn, written a few times in a run.
pub(crate) struct Shared<'a> {
    pub(crate) work: &'a Workload,
    pub(crate) live: &'a Live,
    phase: AtomicU8,
    broken: AtomicBool,
    /// First instant of the window and the first after it.
    window: [AtomicU64; 2],
    server_tid: AtomicI32,
    /// Who waits for the client to have begun, where that is elsewhere.
    attendant: Option<Thread>,
    trouble: Mutex<Option<String>>,
}

impl<'a> Shared<'a> {
    pub(crate) fn new(work: &'a Workload, live: &'a Live) -> Self {
        Self {
            work,
            live,
            phase: AtomicU8::new(Phase::WarmUp as u8),
            broken: AtomicBool::new(false),
            window: [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)],
            server_tid: AtomicI32::new(0),
            attendant: None,
            trouble: Mutex::new(None),
        }
    }

    /// The same for a server whose client is elsewhere; the calling thread
    /// follows it.
    pub(crate) fn attended(work: &'a Workload, live: &'a Live) -> Self {
        Self {
            attendant: Some(thread::current()),
            ..Self::new(work, live)
        }
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::WarmUp,
            1 => Phase::Measuring,
            2 => Phase::After,
            _ => Phase::Done,
        }
    }

    /// Opens the window from `start_ns` up to, but not, `end_ns`.
    pub(crate) fn open_window(&self, start_ns: u64, end_ns: u64) {
        self.window[1].store(end_ns, Ordering::Relaxed);
        self.window[0].store(start_ns, Ordering::Relaxed);
        self.enter(Phase::Measuring);
    }

    /// The client, which is elsewhere, began at `now_ns`: its window follows
    /// its warm-up.
    pub(crate) fn begun(&self, now_ns: u64) {
        let start_ns = now_ns + nanoseconds(self.work.warm_up);
        let end_ns = start_ns + nanoseconds(self.work.duration);
        self.window[1].store(end_ns, Ordering::Relaxed);
        self.window[0].store(start_ns, Ordering::Release);
        if let Some(attendant) = &self.attendant {
            attendant.unpark();
        }
    }

    /// The window's bounds once the client, which is elsewhere, has begun.
    pub(crate) fn planned(&self) -> Option<(u64, u64)> {
        let start_ns = self.window[0].load(Ordering::Acquire);
        let end_ns = self.window[1].load(Ordering::Relaxed);
        (start_ns < u64::MAX).then_some((start_ns, end_ns))
    }

    /// Moves on to `phase`.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// The window's bounds; nothing is in it before it is open.
    #[inline]
    pub(crate) fn window(&self) -> (u64, u64) {
        let start = self.window[0].load(Ordering::Relaxed);
        (start, self.window[1].load(Ordering::Relaxed))
    }

    /// Nothing follows: the server ends.
    pub(crate) fn finish(&self) {
        self.enter(Phase::Done);
    }

    /// Whether the client is to end at once.
    #[inline]
    pub(crate) fn halted(&self) -> bool {
        self.live.stopped() || self.broken.load(Ordering::Relaxed)
    }

    /// Ends the run as aborted; the first reason is kept.
    pub(crate) fn abort(&self, reason: impl Into<String>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.get_or_insert_with(|| reason.into());
        self.broken.store(true, Ordering::Relaxed);
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.clone()
    }

    pub(crate) fn set_server_tid(&self, tid: i32) {
        self.server_tid.store(tid, Ordering::Relaxed);
    }

    pub(crate) fn server_tid(&self) -> i32 {
        self.server_tid.load(Ordering::Relaxed)
    }

    pub(crate) fn timeout_ns(&self) -> u64 {
        nanoseconds(self.work.timeout)
    }

    /// The longest a single call may wait.
    pub(crate) fn slice_ns(&self) -> u64 {
        SLICE_NS.min(self.timeout_ns())
    }
}

/// Nanoseconds of a duration of at most [`MAX_DURATION`](crate::MAX_DURATION).
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
