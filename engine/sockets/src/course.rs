//! What one stretch of a client's work follows and fills.

use crate::fault::Fault;
use crate::record::Recorder;
use crate::schedule::Schedule;
use crate::shared::Shared;
use std::time::Duration;

/// Without any success for this many timeouts the other side counts as gone.
const TIMEOUTS: u64 = 3;
/// Rest after a transaction that failed before it had waited for anything.
pub(crate) const REST: Duration = Duration::from_millis(1);

/// One stretch of a client's work: its plan, and its record.
pub(crate) struct Course<'a> {
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) schedule: Schedule,
    pub(crate) recorder: Recorder<'a>,
}

impl Course<'_> {
    /// See [`Recorder::success`].
    #[inline]
    pub(crate) fn success(&mut self, slot: usize, planned_ns: u64, begun_ns: u64, done_ns: u64) {
        self.recorder.success(slot, planned_ns, begun_ns, done_ns);
        if self.schedule.is_paced() {
            self.recorder.served(planned_ns, begun_ns, done_ns);
        }
    }

    /// Counts a failure at `now_ns`; ends the run if nothing succeeds any
    /// more.
    pub(crate) fn failure(&mut self, planned_ns: u64, begun_ns: u64, fault: Fault, now_ns: u64) {
        self.recorder.failure(planned_ns, begun_ns, fault);
        if fault == Fault::Ended {
            return;
        }
        let most_ns = TIMEOUTS * self.shared.timeout_ns();
        if self.recorder.drought_ns(now_ns) >= most_ns {
            let seconds = most_ns as f64 / 1e9;
            let reason = format!("no transaction succeeded for {seconds} s: {fault}");
            self.shared.abort(reason);
        }
    }
}
