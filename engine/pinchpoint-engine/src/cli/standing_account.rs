//! What the accounts of `relay`, `reflect` and `forward` have in common.

use super::numbers::{duration, grouped};
use super::table::{Paint, Table};
use pinchpoint_traffic::gaps::THRESHOLD_NS;
use pinchpoint_worker::watched::{LoopAccount, PortAccount};
use serde::Serialize;
use std::collections::BTreeMap;

/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;

/// How the loop ran.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Ran {
    core: usize,
    idle: String,
    elapsed_s: f64,
    /// Of the elapsed time, in turns that moved frames.
    busy_share: f64,
    /// Of the elapsed time, given away because nothing came.
    away_share: f64,
    longest_away_s: f64,
    turns: u64,
    gaps: Gaps,
}

/// Times the loop stood still against its will.
#[derive(Debug, Clone, Serialize)]
struct Gaps {
    threshold_s: f64,
    count: u64,
    total_s: f64,
    longest_s: f64,
}

/// How a port was.
#[derive(Debug, Serialize)]
pub(super) struct PortTold {
    name: String,
    mode: String,
    rx_missed: Option<u64>,
    down_s: f64,
    failure: Option<String>,
    stats: BTreeMap<String, u64>,
}

impl Ran {
    pub(super) fn new(ran: &LoopAccount, core: usize, idle: String) -> Self {
        let share = |ns: u64| ns as f64 / ran.elapsed_ns.max(1) as f64;
        Self {
            core,
            idle,
            elapsed_s: ran.elapsed_ns as f64 / SECOND_NS,
            busy_share: share(ran.busy_ns),
            away_share: share(ran.away_ns),
            longest_away_s: ran.longest_away_ns as f64 / SECOND_NS,
            turns: ran.turns,
            gaps: Gaps {
                threshold_s: THRESHOLD_NS as f64 / SECOND_NS,
                count: ran.gaps.over(),
                total_s: ran.gaps.over_total_ns() as f64 / SECOND_NS,
                longest_s: ran.gaps.max_ns() as f64 / SECOND_NS,
            },
        }
    }

    /// Several cores as one account: the shares of the busiest core, the longest times away and gaps,
    /// the sums of gaps and turns. `None` without a core.
    pub(super) fn of_all(all: &[Self]) -> Option<Self> {
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

    /// As a line.
    pub(super) fn line(&self) -> String {
        let gaps = &self.gaps;
        format!(
            "core {}: {:.3} s, {:.0} % busy, {:.0} % given away ({}, at most {}); {} gaps over {}, \
             {} in total, {} the longest",
            self.core,
            self.elapsed_s,
            100.0 * self.busy_share,
            100.0 * self.away_share,
            self.idle,
            duration(self.longest_away_s * SECOND_NS),
            grouped(gaps.count),
            duration(gaps.threshold_s * SECOND_NS),
            duration(gaps.total_s * SECOND_NS),
            duration(gaps.longest_s * SECOND_NS),
        )
    }
}

impl PortTold {
    pub(super) fn new(port: &PortAccount) -> Self {
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

/// The ports as a table.
pub(super) fn port_table(ports: &[PortTold], paint: Paint) -> String {
    let mut table = Table::new(&["port", "mode", "missed", "without link"]).left(2);
    for port in ports {
        table.row([
            port.name.clone(),
            port.mode.clone(),
            port.rx_missed.map_or_else(|| "-".to_owned(), grouped),
            duration(port.down_s * SECOND_NS),
        ]);
    }
    table.render(paint)
}
