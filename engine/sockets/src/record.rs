//! The account of one window.

use crate::fault::{Fault, Faults};
use crate::live::Live;
use crate::shared::nanoseconds;
use crate::spec::Workload;
use crate::trend::{self, SLOT_NS, Trend};
use hdrhistogram::Histogram;
use pinchpoint_traffic::latency::LatencyRecorder;

/// Slots of a second.
const SECOND: usize = (1_000_000_000 / SLOT_NS) as usize;

/// Counts what belongs to the window: the transactions planned in it.
pub(crate) struct Recorder<'a> {
    live: &'a Live,
    /// First instant of the window; the end of time before it is open.
    start_ns: u64,
    latency: LatencyRecorder,
    service: LatencyRecorder,
    latest_ns: u64,
    transactions: u64,
    per_connection: Vec<u64>,
    over_time: OverTime,
    faults: Faults,
    first_fault: Option<Fault>,
    last_fault: Option<Fault>,
    last_success_ns: u64,
    /// When the first of the failures since the last success began.
    failing_since_ns: Option<u64>,
}

/// What a recorder has found.
pub(crate) struct Account {
    pub(crate) transactions: u64,
    pub(crate) per_connection: Vec<u64>,
    pub(crate) over_time: OverTime,
    pub(crate) faults: Faults,
    pub(crate) first_fault: Option<Fault>,
    pub(crate) latency: Histogram<u64>,
    pub(crate) service: Histogram<u64>,
    pub(crate) latest_ns: u64,
}

/// What was counted over a window, slot by slot ([`SLOT_NS`]).
pub(crate) struct OverTime(Vec<u64>);

impl OverTime {
    /// Room for `work`'s window, the begun slot too.
    pub(crate) fn new(work: &Workload) -> Self {
        Self(vec![
            0;
            nanoseconds(work.duration).div_ceil(SLOT_NS) as usize
        ])
    }

    /// Counts `more` at `at_ns` of a window that began at `start_ns`; nothing
    /// after its end.
    #[inline]
    pub(crate) fn count(&mut self, at_ns: u64, start_ns: u64, more: u64) {
        let slot = ((at_ns - start_ns) / SLOT_NS) as usize;
        if let Some(count) = self.0.get_mut(slot) {
            *count += more;
        }
    }

    pub(crate) fn per_second(&self) -> Vec<u64> {
        self.0
            .chunks(SECOND)
            .map(|slots| slots.iter().sum())
            .collect()
    }

    /// See [`trend::of`].
    pub(crate) fn trend(&self, duration_ns: u64) -> Option<Trend> {
        trend::of(&self.0, duration_ns)
    }
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(work: &Workload, live: &'a Live, now_ns: u64) -> Self {
        Self {
            live,
            start_ns: u64::MAX,
            latency: LatencyRecorder::new(1, false),
            service: LatencyRecorder::new(1, false),
            latest_ns: 0,
            transactions: 0,
            per_connection: vec![0; work.connections],
            over_time: OverTime::new(work),
            faults: Faults::default(),
            first_fault: None,
            last_fault: None,
            last_success_ns: now_ns,
            failing_since_ns: None,
        }
    }

    pub(crate) fn open(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// A transaction planned for `planned_ns` began at `begun_ns` and has
    /// succeeded at `done_ns`.
    #[inline]
    pub(crate) fn success(&mut self, slot: usize, planned_ns: u64, begun_ns: u64, done_ns: u64) {
        self.last_success_ns = done_ns;
        self.failing_since_ns = None;
        self.live.count_transaction();
        if planned_ns < self.start_ns {
            return;
        }
        self.transactions += 1;
        self.per_connection[slot] += 1;
        self.over_time.count(done_ns, self.start_ns, 1);
        self.latency.record(0, planned_ns, done_ns);
        if planned_ns != begun_ns {
            self.latest_ns = self.latest_ns.max(begun_ns - planned_ns);
        }
    }

    /// The same, of a transaction that had an instant of its own.
    #[inline]
    pub(crate) fn served(&mut self, planned_ns: u64, begun_ns: u64, done_ns: u64) {
        if planned_ns >= self.start_ns {
            self.service.record(0, begun_ns, done_ns);
        }
    }

    /// A transaction planned for `planned_ns` began at `begun_ns` and has
    /// failed.
    pub(crate) fn failure(&mut self, planned_ns: u64, begun_ns: u64, fault: Fault) {
        self.last_fault = Some(fault);
        if fault == Fault::Ended {
            return;
        }
        self.failing_since_ns.get_or_insert(begun_ns);
        self.live.count_failed();
        if planned_ns >= self.start_ns {
            self.faults.count(fault);
            self.first_fault.get_or_insert(fault);
        }
    }

    /// Nanoseconds since transactions began to fail without exception.
    pub(crate) fn drought_ns(&self, now_ns: u64) -> u64 {
        self.failing_since_ns
            .map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
    }

    pub(crate) fn last_success_ns(&self) -> u64 {
        self.last_success_ns
    }

    pub(crate) fn last_fault(&self) -> Option<Fault> {
        self.last_fault
    }

    pub(crate) fn into_account(self) -> Account {
        Account {
            transactions: self.transactions,
            per_connection: self.per_connection,
            over_time: self.over_time,
            faults: self.faults,
            first_fault: self.first_fault,
            latency: self.latency.into_histogram(),
            service: self.service.into_histogram(),
            latest_ns: self.latest_ns,
        }
    }
}
