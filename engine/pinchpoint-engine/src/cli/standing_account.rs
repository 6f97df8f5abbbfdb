//! Tables of what the accounts of standing workloads have in common.

use super::numbers::{duration, grouped};
use super::table::{Paint, Table};
use crate::protocol::connections::{PortTold, Ran};

/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;

impl Ran {
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
