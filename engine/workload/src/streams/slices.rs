//! Slices of a trial: groups of streams that take turns.
//!
//! [`Schedule`] says beforehand when which group is sent. It depends on nothing
//! but the time since the start of the trial, so that workers need not agree on
//! anything else. [`Slicer`] goes through it, in one worker, and counts.

use super::hold::Hold;
use pinchpoint_traffic::gaps;
use std::sync::Arc;

/// Groups of streams that take turns, and whom to stop meanwhile.
#[derive(Debug, Clone)]
pub struct Slices {
    /// When each group is sent.
    pub schedule: Schedule,
    /// The group of each part of the trial's streams.
    pub groups: Vec<usize>,
    /// Processes to stop while the group of another one is sent.
    pub hold: Option<Arc<Hold>>,
}

/// What a schedule is made of.
#[derive(Debug, Clone, Copy)]
pub struct Pattern<'a> {
    /// The group of each slice; repeats.
    pub order: &'a [usize],
    /// Nanoseconds of a slice; more than the other two together.
    pub length_ns: u64,
    /// Nanoseconds without sending, where the group changes.
    pub settle_ns: u64,
    /// Nanoseconds of sending after that which are not measured.
    pub discard_ns: u64,
}

/// One slice. Times are nanoseconds after the start of the trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Whose it is.
    pub group: usize,
    /// When it begins,
    pub start_ns: u64,
    /// when its group is sent,
    pub send_ns: u64,
    /// when its measured part begins,
    pub measure_ns: u64,
    /// and when it ends.
    pub end_ns: u64,
    /// How long the group was not sent, until `send_ns`.
    pub idle_ns: u64,
}

/// The slices of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// At least one.
    windows: Vec<Window>,
}

impl Schedule {
    /// The slices of a trial that sends for `duration_ns`, greater than zero.
    pub fn new(pattern: &Pattern<'_>, duration_ns: u64) -> Self {
        let groups = pattern.order.iter().max().map_or(0, |most| most + 1);
        let mut sent_ns = vec![0; groups];
        let mut windows: Vec<Window> = Vec::new();
        let slices = pattern.order.iter().cycle();
        for (start_ns, &group) in (0..duration_ns)
            .step_by(pattern.length_ns as usize)
            .zip(slices)
        {
            let end_ns = (start_ns + pattern.length_ns).min(duration_ns);
            let changes = windows.last().is_none_or(|last| last.group != group);
            let after_change = |ns: u64| if changes { ns } else { 0 };
            let send_ns = (start_ns + after_change(pattern.settle_ns)).min(end_ns);
            let measure_ns = (send_ns + after_change(pattern.discard_ns)).min(end_ns);
            windows.push(Window {
                group,
                start_ns,
                send_ns,
                measure_ns,
                end_ns,
                idle_ns: send_ns - sent_ns[group],
            });
            sent_ns[group] += end_ns - send_ns;
        }
        Self { windows }
    }

    /// The slices, in the order of time.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// How long `group` is sent in the first `elapsed_ns` nanoseconds: the time
    /// by which its streams are paced.
    pub fn sent_ns(&self, group: usize, elapsed_ns: u64) -> u64 {
        let own = self.windows.iter().filter(|window| window.group == group);
        own.map(|window| elapsed_ns.clamp(window.send_ns, window.end_ns) - window.send_ns)
            .sum()
    }
}

/// What was counted in the measured part of one slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SliceCounts {
    /// Whose slice it was.
    pub group: usize,
    /// When its measured part began, in nanoseconds after the start.
    pub start_ns: u64,
    /// How long it was; 0 if there was none.
    pub length_ns: u64,
    /// From the start of the slice until the processes were stopped and
    /// continued; none if none were.
    pub switch_ns: Option<u64>,
    /// Frames presented to the ports.
    pub offered: u64,
    /// Frames that they did not take.
    pub refused: u64,
    /// Distinct intact frames that arrived.
    pub received: u64,
    /// Time in gaps of the loop.
    pub gap_ns: u64,
}

impl SliceCounts {
    /// Adds what another worker counted in the same slice. Measured is what
    /// both measured.
    pub(crate) fn add(&mut self, other: &Self) {
        self.start_ns = self.start_ns.max(other.start_ns);
        self.length_ns = self.length_ns.min(other.length_ns);
        self.switch_ns = self.switch_ns.or(other.switch_ns);
        self.offered += other.offered;
        self.refused += other.refused;
        self.received += other.received;
        self.gap_ns += other.gap_ns;
    }
}

/// Totals of a group's streams since the start of the trial.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) offered: u64,
    pub(crate) refused: u64,
    pub(crate) received: u64,
    pub(crate) gap_ns: u64,
}

/// One worker's way through the slices.
pub(crate) struct Slicer<'a> {
    windows: &'a [Window],
    /// The slice under way.
    place: usize,
    /// When its measured part began, and the totals then.
    from: Option<(u64, Totals)>,
    switch_ns: Option<u64>,
    counts: Vec<SliceCounts>,
}

impl<'a> Slicer<'a> {
    pub(crate) fn new(schedule: &'a Schedule) -> Self {
        let windows = schedule.windows();
        Self {
            windows,
            place: 0,
            from: None,
            switch_ns: None,
            counts: Vec::with_capacity(windows.len()),
        }
    }

    /// The slice under way.
    pub(crate) fn window(&self) -> &'a Window {
        &self.windows[self.place]
    }

    /// Brings the slices up to `elapsed_ns`. A core that stood still may have
    /// slept through several; the last one is left to [`finish`](Self::finish).
    pub(crate) fn advance(&mut self, elapsed_ns: u64, totals: impl Fn(usize) -> Totals) {
        while elapsed_ns >= self.window().end_ns && self.place + 1 < self.windows.len() {
            self.close(elapsed_ns, &totals);
            self.place += 1;
        }
        let window = self.window();
        if self.from.is_none() && (window.measure_ns..window.end_ns).contains(&elapsed_ns) {
            self.from = Some((elapsed_ns, totals(window.group)));
        }
    }

    /// When there is something to do after `elapsed_ns`.
    pub(crate) fn next_ns(&self, elapsed_ns: u64) -> u64 {
        let window = self.window();
        let is_last = self.place + 1 == self.windows.len();
        let end_ns = if is_last { u64::MAX } else { window.end_ns };
        let steps = [window.send_ns, window.measure_ns, end_ns];
        let next = steps.into_iter().find(|&step| step > elapsed_ns);
        next.unwrap_or(u64::MAX)
    }

    /// The processes were switched by `elapsed_ns`.
    pub(crate) fn switched(&mut self, elapsed_ns: u64) {
        self.switch_ns = Some(elapsed_ns.saturating_sub(self.window().start_ns));
    }

    /// Ends the slice under way, and with it the slices.
    pub(crate) fn finish(
        mut self,
        elapsed_ns: u64,
        totals: impl Fn(usize) -> Totals,
    ) -> Vec<SliceCounts> {
        self.close(elapsed_ns, &totals);
        self.counts
    }

    fn close(&mut self, elapsed_ns: u64, totals: &impl Fn(usize) -> Totals) {
        let window = self.window();
        let mut counts = SliceCounts {
            group: window.group,
            start_ns: window.measure_ns,
            switch_ns: self.switch_ns.take(),
            ..SliceCounts::default()
        };
        if let Some((from_ns, before)) = self.from.take() {
            let now = totals(window.group);
            // What the loop was late by is a gap too, if it is no mere turn.
            let late_ns = from_ns - window.measure_ns;
            let late_ns = Some(late_ns).filter(|&ns| ns > gaps::THRESHOLD_NS);
            counts.start_ns = from_ns;
            counts.length_ns = elapsed_ns - from_ns;
            counts.offered = now.offered - before.offered;
            counts.refused = now.refused - before.refused;
            counts.received = now.received - before.received;
            counts.gap_ns = now.gap_ns - before.gap_ns + late_ns.unwrap_or(0);
        }
        self.counts.push(counts);
    }
}

#[cfg(test)]
#[path = "slices_tests.rs"]
mod tests;
