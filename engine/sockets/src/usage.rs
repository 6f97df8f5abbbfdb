//! What a thread used of its core.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// A reading for one thread, or the difference of two (getrusage(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Seconds in user mode.
    pub user_s: f64,
    /// Seconds in the kernel, network stack included as far as it ran in this
    /// thread's name.
    pub system_s: f64,
    /// Times the thread gave up its core.
    pub voluntary_switches: u64,
    /// Times the core was taken from the thread.
    pub involuntary_switches: u64,
}

impl Usage {
    /// The reading now, for the calling thread; zero if the kernel does not
    /// tell.
    pub fn now() -> Self {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else {
            return Self::default();
        };
        let count = |switches: i64| u64::try_from(switches).unwrap_or(0);
        Self {
            user_s: seconds(usage.user_time()),
            system_s: seconds(usage.system_time()),
            voluntary_switches: count(usage.voluntary_context_switches()),
            involuntary_switches: count(usage.involuntary_context_switches()),
        }
    }

    /// What was used since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        // The split into user and system is an estimate that may step back.
        Self {
            user_s: (self.user_s - earlier.user_s).max(0.0),
            system_s: (self.system_s - earlier.system_s).max(0.0),
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
        }
    }
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_that_works_and_sleeps_shows_both() {
        let before = Usage::now();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        std::thread::sleep(Duration::from_millis(1));
        let used = Usage::now().since(&before);
        assert!(used.user_s + used.system_s > 0.0);
        assert!(used.voluntary_switches >= 1);
    }
}
