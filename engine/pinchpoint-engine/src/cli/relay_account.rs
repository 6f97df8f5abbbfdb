//! A relay's account, as JSON and as tables.

use super::numbers::{duration, grouped};
use super::table::{Paint, Table};
use pinchpoint_workload::relay::{Account, Direction, PortAccount};
use serde::Serialize;
use std::collections::BTreeMap;

/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;

/// The account on the wire; `type` is `relay`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "relay")]
pub(super) struct Told {
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
    ports: Vec<PortTold>,
    directions: Vec<DirectionTold>,
}

/// Times the loop stood still against its will.
#[derive(Debug, Serialize)]
struct Gaps {
    threshold_s: f64,
    count: u64,
    total_s: f64,
    longest_s: f64,
}

#[derive(Debug, Serialize)]
struct PortTold {
    name: String,
    mode: String,
    rx_missed: Option<u64>,
    down_s: f64,
    failure: Option<String>,
    stats: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct DirectionTold {
    from: String,
    to: String,
    received: u64,
    received_bytes: u64,
    sent: u64,
    dropped: u64,
    too_long: u64,
    waiting: u64,
    held_bursts: u64,
    largest_burst: u64,
}

impl Told {
    pub(super) fn new(account: &Account, core: usize, idle: String) -> Self {
        let elapsed_s = account.elapsed_ns as f64 / SECOND_NS;
        let share = |ns: u64| ns as f64 / account.elapsed_ns.max(1) as f64;
        let directions = account.directions.iter();
        Self {
            core,
            idle,
            elapsed_s,
            busy_share: share(account.busy_ns),
            away_share: share(account.away_ns),
            longest_away_s: account.longest_away_ns as f64 / SECOND_NS,
            turns: account.turns,
            gaps: Gaps {
                threshold_s: pinchpoint_traffic::gaps::THRESHOLD_NS as f64 / SECOND_NS,
                count: account.gaps.over(),
                total_s: account.gaps.over_total_ns() as f64 / SECOND_NS,
                longest_s: account.gaps.max_ns() as f64 / SECOND_NS,
            },
            ports: account.ports.iter().map(port_told).collect(),
            directions: directions
                .map(|direction| direction_told(direction, &account.ports))
                .collect(),
        }
    }

    /// As tables.
    pub(super) fn tables(&self, paint: Paint) -> String {
        let mut ways = Table::new(&[
            "direction",
            "received",
            "sent",
            "dropped",
            "too long",
            "waiting",
            "held bursts",
            "largest burst",
        ]);
        for way in &self.directions {
            let counts = [
                way.received,
                way.sent,
                way.dropped,
                way.too_long,
                way.waiting,
                way.held_bursts,
                way.largest_burst,
            ];
            let name = format!("{} > {}", way.from, way.to);
            ways.row([name].into_iter().chain(counts.map(grouped)));
        }
        let mut ports = Table::new(&["port", "mode", "missed", "without link"]).left(2);
        for port in &self.ports {
            ports.row([
                port.name.clone(),
                port.mode.clone(),
                port.rx_missed.map_or_else(|| "-".to_owned(), grouped),
                duration(port.down_s * SECOND_NS),
            ]);
        }
        let gaps = &self.gaps;
        format!(
            "{}\n{}\ncore {}: {:.3} s, {:.0} % busy, {:.0} % given away ({}, at most {}); {} gaps \
             over {}, {} together, {} the longest\n",
            ways.render(paint),
            ports.render(paint),
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

fn port_told(port: &PortAccount) -> PortTold {
    PortTold {
        name: port.name.clone(),
        mode: port.mode.clone(),
        rx_missed: port.rx_missed,
        down_s: port.down_ns as f64 / SECOND_NS,
        failure: port.failure.clone(),
        stats: port.stats.iter().cloned().collect(),
    }
}

fn direction_told(direction: &Direction, ports: &[PortAccount]) -> DirectionTold {
    let name = |index: usize| ports[index].name.clone();
    DirectionTold {
        from: name(direction.from),
        to: name(direction.to),
        received: direction.received,
        received_bytes: direction.received_bytes,
        sent: direction.sent,
        dropped: direction.dropped,
        too_long: direction.too_long,
        waiting: direction.waiting,
        held_bursts: direction.held,
        largest_burst: direction.largest_burst,
    }
}
