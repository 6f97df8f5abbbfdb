//! How a running trial is watched, stopped, and kept in step by its workers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What the workers of a trial share with each other and with the thread that
/// watches them.
#[derive(Debug)]
pub struct Live {
    flags: Flags,
    step: Step,
    counters: Vec<Counters>,
    failure: Mutex<Option<String>>,
}

/// On a cache line of their own: every worker reads them in every turn.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Flags {
    stop: AtomicBool,
    abort: AtomicBool,
}

/// Who is still sending, and when the last one ended; written once by each.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Step {
    sending: AtomicUsize,
    sent_ns: AtomicU64,
    ready: AtomicUsize,
    start_ns: AtomicU64,
    go_ns: AtomicU64,
}

/// One worker's totals: written by it alone.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    offered: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    lost: AtomicU64,
    gaps_ns: AtomicU64,
    gap_max_ns: AtomicU64,
    /// By part: frames sent and received.
    parts: Vec<(AtomicU64, AtomicU64)>,
}

/// Totals of a running trial; each is exact, but they are not of one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// Frames presented to the ports.
    pub offered: u64,
    /// Frames the ports took.
    pub sent: u64,
    /// Distinct intact frames that came back; every frame that arrived in a
    /// trial without streams.
    pub received: u64,
    /// Frames refused, and frames overtaken that have not come yet; of no use
    /// where a port has several queues.
    pub lost: u64,
    /// Nanoseconds in gaps of the workers' loops.
    pub gaps_ns: u64,
    /// The longest of them since the sample before, in nanoseconds.
    pub gap_max_ns: u64,
}

impl Counters {
    fn new(parts: usize) -> Self {
        let parts = std::iter::repeat_with(Default::default).take(parts);
        Self {
            parts: parts.collect(),
            ..Self::default()
        }
    }
}

/// How long after the last worker is ready, or after `go`, a trial starts: long
/// enough for all of them to see it coming.
const START_AFTER_NS: u64 = 20_000;

impl Live {
    /// For a trial of `workers` workers, whose streams have `parts` parts.
    pub fn new(workers: usize, parts: usize) -> Self {
        let step = Step::default();
        step.sending.store(workers, Ordering::Relaxed);
        Self {
            flags: Flags::default(),
            step,
            counters: (0..workers).map(|_| Counters::new(parts)).collect(),
            failure: Mutex::new(None),
        }
    }

    /// Ends the sending; the drain follows.
    pub fn stop(&self) {
        self.flags.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the sending and the drain.
    pub fn abort(&self) {
        self.flags.abort.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Ends sending and drain because of `reason`; the first reason is kept.
    pub fn fail(&self, reason: String) {
        if let Ok(mut failure) = self.failure.lock() {
            failure.get_or_insert(reason);
        }
        self.abort();
    }

    /// Why the trial could not go on, if so.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().ok()?.clone()
    }

    #[inline(always)]
    pub(crate) fn stopped(&self) -> bool {
        self.flags.stop.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn aborted(&self) -> bool {
        self.flags.abort.load(Ordering::Relaxed)
    }

    /// Waits until every worker is here; returns when to start, in
    /// nanoseconds of the clock that `now_ns` reads. None if the trial was
    /// stopped meanwhile.
    pub(crate) fn await_start(&self, now_ns: impl Fn() -> u64) -> Option<u64> {
        let last = self.step.ready.fetch_add(1, Ordering::AcqRel) + 1 == self.counters.len();
        if last {
            let alone = self.counters.len() == 1;
            let wait_ns = if alone { 0 } else { START_AFTER_NS };
            let start_ns = (now_ns() + wait_ns).max(1);
            self.step.start_ns.store(start_ns, Ordering::Release);
        }
        loop {
            let start_ns = self.step.start_ns.load(Ordering::Acquire);
            if start_ns > 0 && now_ns() >= start_ns {
                return Some(start_ns);
            }
            if self.stopped() {
                return None;
            }
            // Two workers may share a core: let the other one get ready.
            if start_ns == 0 {
                std::thread::yield_now();
            }
        }
    }

    /// Whether every worker is here and runs, or the trial will not go on.
    pub fn has_begun(&self) -> bool {
        self.step.start_ns.load(Ordering::Acquire) > 0 || self.stopped()
    }

    /// Has the workers of a trial that waits for it send, all from the same
    /// instant, soon after `now_ns` of the trial's clock; false if they do already.
    pub fn go(&self, now_ns: u64) -> bool {
        let go_ns = now_ns + START_AFTER_NS;
        let swapped =
            self.step
                .go_ns
                .compare_exchange(0, go_ns, Ordering::AcqRel, Ordering::Relaxed);
        swapped.is_ok()
    }

    /// When sending begins; none while that is waited for.
    #[inline(always)]
    pub(crate) fn go_ns(&self) -> Option<u64> {
        Some(self.step.go_ns.load(Ordering::Acquire)).filter(|&at| at > 0)
    }

    /// One worker has sent its last frame, at `now_ns`; whether it is the last one.
    pub(crate) fn sending_ended(&self, now_ns: u64) -> bool {
        self.step.sent_ns.fetch_max(now_ns, Ordering::AcqRel);
        self.step.sending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// When the last worker sent its last frame; none while one still sends.
    #[inline(always)]
    pub(crate) fn all_sent_ns(&self) -> Option<u64> {
        let ended = self.step.sending.load(Ordering::Acquire) == 0;
        ended.then(|| self.step.sent_ns.load(Ordering::Acquire))
    }

    pub(crate) fn publish(&self, worker: usize, sample: Sample) {
        let counters = &self.counters[worker];
        counters.offered.store(sample.offered, Ordering::Relaxed);
        counters.sent.store(sample.sent, Ordering::Relaxed);
        counters.received.store(sample.received, Ordering::Relaxed);
        counters.lost.store(sample.lost, Ordering::Relaxed);
        counters.gaps_ns.store(sample.gaps_ns, Ordering::Relaxed);
        if sample.gap_max_ns > 0 {
            counters
                .gap_max_ns
                .fetch_max(sample.gap_max_ns, Ordering::Relaxed);
        }
    }

    pub(crate) fn publish_sent(&self, worker: usize, part: usize, sent: u64) {
        self.counters[worker].parts[part]
            .0
            .store(sent, Ordering::Relaxed);
    }

    pub(crate) fn publish_received(&self, worker: usize, part: usize, received: u64) {
        let counters = &self.counters[worker].parts[part];
        counters.1.store(received, Ordering::Relaxed);
    }

    /// Frames of a part sent and received, as last published.
    pub fn part(&self, part: usize) -> (u64, u64) {
        let of = |counters: &Counters| {
            let (sent, received) = &counters.parts[part];
            (
                sent.load(Ordering::Relaxed),
                received.load(Ordering::Relaxed),
            )
        };
        let add = |(sent, received), (more, came)| (sent + more, received + came);
        self.counters.iter().map(of).fold((0, 0), add)
    }

    /// The totals as last published, at most a few milliseconds ago. Forgets the
    /// longest gap: the next sample has the longest one after this.
    pub fn sample(&self) -> Sample {
        let mut total = Sample::default();
        for counters in &self.counters {
            total.offered += counters.offered.load(Ordering::Relaxed);
            total.sent += counters.sent.load(Ordering::Relaxed);
            total.received += counters.received.load(Ordering::Relaxed);
            total.lost += counters.lost.load(Ordering::Relaxed);
            total.gaps_ns += counters.gaps_ns.load(Ordering::Relaxed);
            let longest = counters.gap_max_ns.swap(0, Ordering::Relaxed);
            total.gap_max_ns = total.gap_max_ns.max(longest);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_await_start_and_drain_after_the_last_one() {
        let live = Live::new(2, 0);
        let clock = std::time::Instant::now();
        let now_ns = || clock.elapsed().as_nanos() as u64;
        let starts = std::thread::scope(|scope| {
            let other = scope.spawn(|| live.await_start(now_ns));
            [live.await_start(now_ns), other.join().unwrap()]
        });
        assert!(starts[0].is_some());
        assert_eq!(starts[0], starts[1]);
        assert!(!live.sending_ended(500));
        assert_eq!(live.all_sent_ns(), None);
        assert!(live.sending_ended(300));
        assert_eq!(live.all_sent_ns(), Some(500));
    }

    #[test]
    fn an_aborted_trial_waits_for_nobody_and_keeps_its_first_reason() {
        let live = Live::new(2, 0);
        live.fail("the first".to_owned());
        live.fail("the second".to_owned());
        assert_eq!(live.await_start(|| 0), None);
        assert_eq!(live.failure().as_deref(), Some("the first"));
    }
}
