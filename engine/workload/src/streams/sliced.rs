//! What the loop does where slices begin and end.

use super::slices::{SliceCounts, Slices, Totals};
use super::work::{Stream, Streams};
use pinchpoint_traffic::account::Account;
use pinchpoint_traffic::gaps::GapRecorder;
use pinchpoint_worker::Core;

impl Streams<'_> {
    /// A slice begins, is sent, is measured, or ends. The first worker stops
    /// and continues processes: another thread would have to be woken for it,
    /// on cores that are all busy.
    #[cold]
    #[inline(never)]
    pub(super) fn turn_slices(&mut self, core: &mut Core<'_>, elapsed_ns: u64) {
        let (Some(slicer), Some(slices)) = (&mut self.slicer, &self.plan.slices) else {
            return;
        };
        let (streams, account, gaps) = (&self.own, &self.account, &core.gaps);
        slicer.advance(elapsed_ns, |group| {
            totals(slices, group, streams, account, gaps)
        });
        let window = slicer.window();
        if let Some(hold) = slices.hold.as_ref().filter(|_| self.index == 0) {
            match hold.turn_to(window.group) {
                Ok(true) => {
                    let now_ns = core.clock.now_ns();
                    slicer.switched(now_ns - self.start_ns);
                    core.gaps.resume(now_ns);
                }
                Ok(false) => {}
                Err(why) => self.live.fail(why),
            }
        }
        self.slice_at_ns = slicer.next_ns(elapsed_ns);
        self.idle_ns = window.idle_ns;
        self.active = if elapsed_ns < window.send_ns {
            0..0
        } else {
            let group = |stream: &Stream| slices.groups[stream.planned.part];
            let from = streams.partition_point(|stream| group(stream) < window.group);
            let to = streams.partition_point(|stream| group(stream) <= window.group);
            from..to
        };
    }

    /// Ends every stream's schedule, `elapsed_ns` after the start.
    pub(super) fn cut(&mut self, elapsed_ns: u64) {
        for stream in &mut self.own {
            let sent_ns = self.plan.slices.as_ref().map_or(elapsed_ns, |slices| {
                let group = slices.groups[stream.planned.part];
                slices.schedule.sent_ns(group, elapsed_ns)
            });
            stream.planned.pacer.cut(sent_ns);
        }
    }

    /// What was counted in the slices. No process is stopped any more.
    pub(super) fn end_slices(&mut self, core: &Core<'_>) -> Vec<SliceCounts> {
        let (Some(slicer), Some(slices)) = (self.slicer.take(), &self.plan.slices) else {
            return Vec::new();
        };
        if let Some(hold) = slices.hold.as_ref().filter(|_| self.index == 0) {
            if let Err(why) = hold.check() {
                self.live.fail(why);
            }
            hold.release();
        }
        let (streams, account, gaps) = (&self.own, &self.account, &core.gaps);
        slicer.finish(core.now_ns - self.start_ns, |group| {
            totals(slices, group, streams, account, gaps)
        })
    }
}

/// What a group's streams have come to, as far as this worker knows.
fn totals(
    slices: &Slices,
    group: usize,
    streams: &[Stream],
    account: &Account,
    gaps: &GapRecorder,
) -> Totals {
    let is_own = |part: usize| slices.groups[part] == group;
    let own = streams.iter().filter(|stream| is_own(stream.planned.part));
    let mut totals = Totals {
        gap_ns: gaps.over_total_ns(),
        ..Totals::default()
    };
    for stream in own {
        totals.offered += stream.planned.pacer.offered();
        totals.refused += stream.refused;
    }
    let parts = (0..slices.groups.len()).filter(|&part| is_own(part));
    totals.received = parts.map(|part| account.received_of(part)).sum();
    totals
}
