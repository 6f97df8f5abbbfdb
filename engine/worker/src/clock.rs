//! The engine's clock: the processor's time stamp counter where it is
//! invariant and in order on all cores, the system's monotonic clock otherwise.

use pinchpoint_port::sched;
use quanta::Clock as Counter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long two cores compare their counters; the kernel's own check of this
/// kind (`check_tsc_warp`) takes as long.
const COMPARING: Duration = Duration::from_millis(2);
/// What two readings of a time of day that nobody set may differ by, on a busy core.
const SET: Duration = Duration::from_micros(50);
/// How often both of the system's clocks are read for one pair of times.
const WALL_READINGS: usize = 16;
/// A core that does not get its turn within this is left uncompared.
const MEETING: Duration = Duration::from_millis(200);

/// Nanoseconds since the engine started. Reading it costs a few nanoseconds.
/// The order is the same on all cores for which [`in_order`](Self::in_order)
/// was asked.
#[derive(Debug, Clone)]
pub struct Clock {
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Counter { counter: Counter, origin: u64 },
    System { origin: Instant, at_origin_ns: u64 },
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock that starts at zero; calibrates itself, which takes up to
    /// 200 ms the first time in a process.
    pub fn new() -> Self {
        let counter = Counter::new();
        let origin = counter.raw();
        Self {
            source: Source::Counter { counter, origin },
        }
    }

    /// A clock that starts at zero and that the kernel keeps in order.
    fn system() -> Self {
        Self {
            source: Source::System {
                origin: Instant::now(),
                at_origin_ns: 0,
            },
        }
    }

    /// The system's clock, set now to its time of day in nanoseconds since 1970.
    /// From then on it advances with the monotonic clock, whose rate is disciplined
    /// like that of the time of day, but which never steps.
    pub fn wall() -> Self {
        // The two are read one after the other: of several attempts the least interrupted.
        let read = |_| {
            let (origin, now) = (Instant::now(), SystemTime::now());
            (origin.elapsed(), origin, now)
        };
        let attempts = (0..WALL_READINGS).map(read);
        let least = attempts.min_by_key(|(took, ..)| *took);
        let (took, origin, now) = least.unwrap_or_else(|| read(0));
        let origin = origin + took / 2;
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            source: Source::System {
                origin,
                at_origin_ns: since_1970.as_nanos() as u64,
            },
        }
    }

    /// This clock, if its counter never goes back from one of `cores` to
    /// another; the system's otherwise, which costs more to read.
    #[must_use]
    pub fn in_order(&self, cores: &[usize]) -> Self {
        let read = || self.now_ns();
        let back_ns = cores
            .windows(2)
            .filter(|pair| pair[0] != pair[1])
            .map(|pair| goes_back([(pair[0], &read), (pair[1], &read)]));
        match back_ns.max() {
            Some(back_ns) if back_ns > 0 => {
                eprintln!(
                    "pinchpoint-engine: warning: the time stamp counters of the cores differ by up to \
                     {back_ns} ns: the system's clock is used instead"
                );
                Self::system()
            }
            _ => self.clone(),
        }
    }

    /// By how much the system's time of day has been set since this clock, a
    /// [`wall`](Self::wall), was made; none if it was not.
    pub fn was_set(&self) -> Option<Duration> {
        let (then, now) = (self.now_ns(), Self::wall().now_ns());
        let by = Duration::from_nanos(then.abs_diff(now));
        (by > SET).then_some(by)
    }

    /// Now, in nanoseconds.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        match &self.source {
            Source::Counter { counter, origin } => counter.delta_as_nanos(*origin, counter.raw()),
            Source::System {
                origin,
                at_origin_ns,
            } => at_origin_ns + origin.elapsed().as_nanos() as u64,
        }
    }

    /// Now, after every load before the call: no earlier than what they saw.
    #[inline(always)]
    pub fn now_after_loads_ns(&self) -> u64 {
        sched::load_fence();
        self.now_ns()
    }

    /// Ticks of the underlying counter per second.
    pub fn hz(&self) -> u64 {
        const TICKS: u64 = 1 << 40;
        let Source::Counter { counter, .. } = &self.source else {
            return 1_000_000_000;
        };
        let nanoseconds = counter.delta_as_nanos(0, TICKS).max(1);
        (TICKS as f64 / nanoseconds as f64 * 1e9).round() as u64
    }
}

/// By how much the second of two readings, one after the other on two cores,
/// was ever the smaller one. The cores take turns as their caches let them.
fn goes_back<F: Fn() -> u64 + Sync>(sides: [(usize, &F); 2]) -> u64 {
    let latest = AtomicU64::new(0);
    let arrived = AtomicU64::new(0);
    let side = |(core, read): (usize, &F)| {
        // Where it may not run, there is nothing to compare.
        if sched::pin(core).is_err() {
            return 0;
        }
        arrived.fetch_add(1, Ordering::AcqRel);
        let begun = Instant::now();
        while arrived.load(Ordering::Acquire) < 2 {
            if begun.elapsed() > MEETING {
                return 0;
            }
            std::thread::yield_now();
        }
        let mut back_ns = 0;
        let begun = Instant::now();
        while begun.elapsed() < COMPARING {
            for _ in 0..64 {
                let before = latest.load(Ordering::SeqCst);
                sched::load_fence();
                let now = read();
                back_ns = back_ns.max(before.saturating_sub(now));
                latest.fetch_max(now, Ordering::SeqCst);
            }
        }
        back_ns
    };
    std::thread::scope(|scope| {
        let threads = sides.map(|one| scope.spawn(move || side(one)));
        let found = threads.map(|thread| thread.join().unwrap_or(0));
        found.into_iter().max().unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_is_behind_on_another_core_is_found() {
        let clock = Clock::new();
        let ahead = |by_ns: u64| {
            let clock = clock.clone();
            Box::new(move || clock.now_ns() + by_ns) as Box<dyn Fn() -> u64 + Sync>
        };
        let (right, wrong) = (ahead(0), ahead(1_000_000_000));
        // On one core the scheduler gives the turns: only where the reading that
        // is ahead comes first, the other shows it. Asked until one try has that.
        let tries = (0..100).map(|_| goes_back([(core(), &wrong), (core(), &right)]));
        let found = tries.into_iter().find(|&back_ns| back_ns > 0);
        assert!(
            found.is_some_and(|back_ns| back_ns <= 1_000_000_000),
            "{found:?}"
        );
    }

    #[test]
    fn the_systems_clock_goes_on_and_is_kept_on_one_core() {
        let clock = Clock::system();
        let first = clock.now_ns();
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.now_ns() >= first + 2_000_000);
        assert_eq!(clock.hz(), 1_000_000_000);
        let kept = Clock::new().in_order(&[core(), core()]);
        assert!(matches!(kept.source, Source::Counter { .. }));
    }

    fn core() -> usize {
        nix::sched::sched_getcpu().unwrap()
    }
}
