//! What every standing workload reports: how its loop ran, and how its ports were.

use crate::turn::{Core, WorkerPort};
use pinchpoint_port::Port;
use pinchpoint_traffic::gaps::GapRecorder;

/// How the loop of a standing workload ran.
#[derive(Debug, Clone)]
pub struct LoopAccount {
    /// Nanoseconds since the start.
    pub elapsed_ns: u64,
    /// Nanoseconds in turns that moved frames.
    pub busy_ns: u64,
    /// Nanoseconds in which the core was given away, spinning excepted.
    pub away_ns: u64,
    /// The longest time the core was given away at once.
    pub longest_away_ns: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// How evenly they came, time given away excepted.
    pub gaps: GapRecorder,
}

/// What happened to one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortAccount {
    /// Its name.
    pub name: String,
    /// Which implementation drives it.
    pub mode: String,
    /// Frames that found the receive ring full; none if the port cannot tell.
    pub rx_missed: Option<u64>,
    /// Nanoseconds without a link, to a millisecond.
    pub down_ns: u64,
    /// Why the link was down last.
    pub failure: Option<String>,
    /// Whatever else the port counts.
    pub stats: Vec<(String, u64)>,
}

/// Counters of a port at some time, from which others count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    rx_missed: Option<u64>,
    stats: Vec<(String, u64)>,
}

impl Baseline {
    /// Reads the counters of `own` now.
    pub fn of(own: &mut WorkerPort) -> Self {
        Self {
            rx_missed: own.port.rx_missed(),
            stats: own.port.stats(),
        }
    }

    /// The frames missed since then, of those missed until now.
    pub fn missed(&self, now: Option<u64>) -> Option<u64> {
        Some(now?.saturating_sub(self.rx_missed?))
    }

    /// The increase of every counter; one that was not there before began at zero.
    pub fn stats(&self, now: Vec<(String, u64)>) -> Vec<(String, u64)> {
        let since = |(name, value): (String, u64)| {
            let earlier = self.stats.iter().find(|(known, _)| *known == name);
            let value = value.saturating_sub(earlier.map_or(0, |(_, value)| *value));
            (name, value)
        };
        now.into_iter().map(since).collect()
    }
}

impl PortAccount {
    /// What happened since `before`, which was read before the workload began.
    #[must_use]
    pub fn since(self, before: &Baseline) -> Self {
        Self {
            rx_missed: before.missed(self.rx_missed),
            stats: before.stats(self.stats),
            ..self
        }
    }

    /// Adds what happened to another queue of the same port.
    pub fn merge(&mut self, other: &Self) {
        let missed = self.rx_missed.zip(other.rx_missed);
        self.rx_missed = missed.map(|(one, other)| one + other);
        self.down_ns = self.down_ns.max(other.down_ns);
        if self.failure.is_none() {
            self.failure.clone_from(&other.failure);
        }
        for (name, count) in &other.stats {
            match self.stats.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += count,
                None => self.stats.push((name.clone(), *count)),
            }
        }
    }
}

/// Watches the ports of a standing workload.
#[derive(Debug)]
pub struct Watched {
    start_ns: u64,
    looked_ns: u64,
    down_ns: Vec<u64>,
    failures: Vec<Option<String>>,
}

impl Watched {
    /// Watches this many ports from `now_ns` on.
    pub fn new(ports: usize, now_ns: u64) -> Self {
        Self {
            start_ns: now_ns,
            looked_ns: now_ns,
            down_ns: vec![0; ports],
            failures: vec![None; ports],
        }
    }

    /// Asks the ports how they are, which also lets a vhost-user server port
    /// notice that its client has come back.
    pub fn look(&mut self, core: &mut Core<'_>) {
        let since_last_ns = core.now_ns - self.looked_ns;
        self.looked_ns = core.now_ns;
        for (port, own) in core.ports.iter_mut().enumerate() {
            if let Some(why) = own.port.failure() {
                self.down_ns[port] += since_last_ns;
                self.failures[port] = Some(why);
            }
        }
    }

    /// How the loop ran so far.
    pub fn ran(&self, core: &Core<'_>) -> LoopAccount {
        LoopAccount {
            elapsed_ns: core.now_ns - self.start_ns,
            busy_ns: core.busy_ns,
            away_ns: core.away_ns,
            longest_away_ns: core.longest_away_ns,
            turns: core.turns,
            gaps: core.gaps.clone(),
        }
    }

    /// What happened to the ports so far, in their order.
    pub fn ports(&self, core: &mut Core<'_>) -> Vec<PortAccount> {
        let states = self.down_ns.iter().zip(&self.failures);
        let ports = core.ports.iter_mut().zip(states);
        let account = ports.map(|(own, (down_ns, failure))| PortAccount {
            name: own.name.clone(),
            mode: own.port.mode().to_owned(),
            rx_missed: own.port.rx_missed(),
            down_ns: *down_ns,
            failure: failure.clone(),
            stats: own.port.stats(),
        });
        account.collect()
    }
}
