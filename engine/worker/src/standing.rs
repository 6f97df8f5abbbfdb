//! Workloads that run until somebody stops them, and say on the way how far
//! they have come.

use crate::replies::{Offer, Replies};
use crate::turn::{Core, Step, Workload};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A workload whose account can be asked for at any time.
pub trait Standing: Workload {
    /// Whether it remembers anything that [`forget`](Self::forget) makes it forget.
    const FORGETS: bool = false;
    /// Bytes of the longest frame that it sends or expects, without check sequence; none: of any.
    const LONGEST_FRAME: Option<usize> = None;

    /// What has happened since the start.
    fn account(&mut self, core: &mut Core<'_>) -> Self::Outcome;

    /// Forgets what it remembers of the traffic so far; its account keeps all counts.
    fn forget(&mut self) {}
}

/// What other threads ask of a standing workload.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    asked: AtomicUsize,
    forget: AtomicBool,
}

impl Control {
    /// Ends the work.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Asks for the account so far; it comes within milliseconds, once for each
    /// call.
    pub fn ask(&self) {
        self.asked.fetch_add(1, Ordering::Release);
    }

    /// Has it forget what it remembers, within milliseconds and before the next account.
    pub fn forget(&self) {
        self.forget.store(true, Ordering::Release);
    }
}

/// Runs a standing workload until `control` says stop. `report` gets the
/// account whenever it is asked for, and must not wait.
pub struct UntilStopped<'a, W, F> {
    /// The workload.
    pub workload: W,
    /// What other threads ask for.
    pub control: &'a Control,
    /// Where accounts go.
    pub report: F,
}

impl<W: Standing, F: FnMut(W::Outcome)> Workload for UntilStopped<'_, W, F> {
    type Outcome = W::Outcome;

    fn longest_reply(&self, core: &Core<'_>, port: usize) -> usize {
        self.workload.longest_reply(core, port)
    }

    #[inline(always)]
    fn poll(&mut self, core: &mut Core<'_>) -> Step {
        if self.control.stop.load(Ordering::Relaxed) {
            return Step::End;
        }
        self.workload.poll(core)
    }

    #[inline(always)]
    fn on_burst(&mut self, port: usize, count: usize, now_ns: u64) {
        self.workload.on_burst(port, count, now_ns);
    }

    #[inline(always)]
    fn on_frame(&mut self, port: usize, frame: &[u8], now_ns: u64, replies: &mut Replies) {
        self.workload.on_frame(port, frame, now_ns, replies);
    }

    #[inline(always)]
    fn on_replies(&mut self, port: usize, offer: Offer, fresh: bool) {
        self.workload.on_replies(port, offer, fresh);
    }

    fn publish(&mut self, core: &mut Core<'_>) {
        self.workload.publish(core);
        let asked = self.control.asked.swap(0, Ordering::Acquire);
        if self.control.forget.swap(false, Ordering::Acquire) {
            self.workload.forget();
        }
        for _ in 0..asked {
            let account = self.workload.account(core);
            (self.report)(account);
        }
    }

    fn close(self, core: Core<'_>) -> Self::Outcome {
        self.workload.close(core)
    }
}
