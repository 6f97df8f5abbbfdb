//! What the host did to a worker: time stolen from its core, and switches
//! away from its thread.

use nix::sys::resource::{UsageWho, getrusage};

/// Jiffies per second in /proc/stat (`USER_HZ`, fixed on Linux).
const USER_HZ: f64 = 100.0;
/// Position of steal time among the numbers of a `cpu` line (proc(5)).
const STEAL_FIELD: usize = 7;

/// A reading, or the difference of two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Disturbance {
    /// Seconds the hypervisor ran something else on the core; none if the
    /// kernel does not tell. Counted in hundredths.
    pub steal_s: Option<f64>,
    /// Times the thread gave up its core.
    pub voluntary_switches: u64,
    /// Times the core was taken from the thread.
    pub involuntary_switches: u64,
}

impl Disturbance {
    /// Nothing happened, as far as is known.
    pub const NONE: Self = Self {
        steal_s: None,
        voluntary_switches: 0,
        involuntary_switches: 0,
    };

    /// The reading now, for `core` and the calling thread.
    pub fn now(core: usize) -> Self {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok();
        let switches = |count: i64| u64::try_from(count).unwrap_or(0);
        Self {
            steal_s: std::fs::read_to_string("/proc/stat")
                .ok()
                .and_then(|stat| steal_s(&stat, core)),
            voluntary_switches: usage.map_or(0, |u| switches(u.voluntary_context_switches())),
            involuntary_switches: usage.map_or(0, |u| switches(u.involuntary_context_switches())),
        }
    }

    /// What happened since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let steal = self.steal_s.zip(earlier.steal_s);
        Self {
            // Rounded to the counter's own unit.
            steal_s: steal.map(|(now, then)| ((now - then) * USER_HZ).round() / USER_HZ),
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
        }
    }
}

fn steal_s(stat: &str, core: usize) -> Option<f64> {
    let label = format!("cpu{core}");
    let line = stat
        .lines()
        .find(|line| line.split_whitespace().next() == Some(&label))?;
    let jiffies: f64 = line.split_whitespace().nth(STEAL_FIELD + 1)?.parse().ok()?;
    Some(jiffies / USER_HZ)
}

/// The frequency that `core` runs at now, in Hz, as the kernel reports it; in a
/// virtual machine that is often a constant.
pub fn frequency_hz(core: usize) -> Option<u64> {
    let scaling = format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq");
    if let Ok(khz) = std::fs::read_to_string(scaling) {
        return khz.trim().parse().ok().map(|khz: u64| khz * 1000);
    }
    cpuinfo_hz(&std::fs::read_to_string("/proc/cpuinfo").ok()?, core)
}

fn cpuinfo_hz(cpuinfo: &str, core: usize) -> Option<u64> {
    let mut own = false;
    for line in cpuinfo.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        match key.trim() {
            "processor" => own = value.trim().parse() == Ok(core),
            "cpu MHz" if own => {
                let mhz: f64 = value.trim().parse().ok()?;
                return Some((mhz * 1e6).round() as u64);
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_read_from_the_line_of_the_core() {
        let stat =
            "cpu  1 2 3 4 5 6 7 8 9 10\ncpu1 0 0 0 0 0 0 0 250 0 0\ncpu10 0 0 0 0 0 0 0 9 0 0\n";
        assert_eq!(steal_s(stat, 1), Some(2.5));
        assert_eq!(steal_s(stat, 0), None);
        assert_eq!(steal_s("garbage", 0), None);
    }

    #[test]
    fn the_frequency_is_that_of_the_core_asked_for() {
        let cpuinfo =
            "processor\t: 0\ncpu MHz\t\t: 2600.000\n\nprocessor\t: 1\ncpu MHz\t\t: 3100.5\n";
        assert_eq!(cpuinfo_hz(cpuinfo, 1), Some(3_100_500_000));
        assert_eq!(cpuinfo_hz(cpuinfo, 2), None);
    }
}
