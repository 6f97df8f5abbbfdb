//! How the loops and ports of a standing workload were.

use crate::protocol::connections::{GapsTold, PortTold, Ran};
use pinchpoint_traffic::gaps::THRESHOLD_NS;
use pinchpoint_worker::Idle;
use pinchpoint_worker::watched::{LoopAccount, PortAccount};

/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;

impl Ran {
    /// How the loop of `core` ran, which does `idle` when nothing has arrived.
    pub fn new(ran: &LoopAccount, core: usize, idle: String) -> Self {
        let share = |ns: u64| ns as f64 / ran.elapsed_ns.max(1) as f64;
        Self {
            core,
            idle,
            elapsed_s: ran.elapsed_ns as f64 / SECOND_NS,
            busy_share: share(ran.busy_ns),
            away_share: share(ran.away_ns),
            longest_away_s: ran.longest_away_ns as f64 / SECOND_NS,
            turns: ran.turns,
            gaps: GapsTold {
                threshold_s: THRESHOLD_NS as f64 / SECOND_NS,
                count: ran.gaps.over(),
                total_s: ran.gaps.over_total_ns() as f64 / SECOND_NS,
                longest_s: ran.gaps.max_ns() as f64 / SECOND_NS,
            },
        }
    }

    /// Several cores as one account: the shares of the busiest core, the longest times away and gaps,
    /// the sums of gaps and turns. `None` without a core.
    pub fn of_all(all: &[Self]) -> Option<Self> {
        let busier = |a: &&Self, b: &&Self| a.busy_share.total_cmp(&b.busy_share);
        let mut whole = all.iter().max_by(busier)?.clone();
        whole.turns = all.iter().map(|core| core.turns).sum();
        whole.gaps.count = all.iter().map(|core| core.gaps.count).sum();
        whole.gaps.total_s = all.iter().map(|core| core.gaps.total_s).sum();
        for core in all {
            whole.elapsed_s = whole.elapsed_s.max(core.elapsed_s);
            whole.longest_away_s = whole.longest_away_s.max(core.longest_away_s);
            whole.gaps.longest_s = whole.gaps.longest_s.max(core.gaps.longest_s);
        }
        Some(whole)
    }
}

impl PortTold {
    /// How a port was.
    pub fn new(port: &PortAccount) -> Self {
        Self {
            name: port.name.clone(),
            mode: port.mode.clone(),
            rx_missed: port.rx_missed,
            down_s: port.down_ns as f64 / SECOND_NS,
            failure: port.failure.clone(),
            stats: port.stats.iter().cloned().collect(),
        }
    }
}

/// What a loop does when nothing has arrived, in the word of the command line.
pub fn idle_word(idle: Idle) -> String {
    match idle {
        Idle::Next | Idle::Spin => "spin".to_owned(),
        Idle::Yield => "yield".to_owned(),
        Idle::Sleep(time) => format!("sleep:{}us", time.as_secs_f64() * 1e6),
    }
}
