//! Tables of what `connect` and `serve` have counted.

use super::numbers::{duration, grouped, scaled};
use super::standing_account::port_table;
use super::table::{Paint, Table};
use crate::protocol::connections::{ClientTold, ConnectionsAccount, HandedTold, Ran, ServerTold};
use std::fmt::Write as _;

/// Addresses in a table.
const MOST_SHOWN: usize = 8;

impl ConnectionsAccount {
    pub(super) fn tables(&self, paint: Paint) -> String {
        let parts = [
            self.client.as_ref().map(|client| client.tables(paint)),
            self.server.as_ref().map(|server| server.table(paint)),
            Some(self.others(paint)),
            self.returned
                .map(|count| format!("segments past the device: {}\n", grouped(count))),
            self.handed.as_ref().map(HandedTold::line),
            Some(port_table(&self.ports, paint)),
            Some(self.lines()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// How the loop of each core ran.
    fn lines(&self) -> String {
        let single = self.cores.is_empty().then(|| self.ran().line());
        let several = self.cores.iter().map(Ran::line);
        let lines = several.chain(single).map(|line| line + "\n");
        lines.collect::<Vec<_>>().concat()
    }

    fn others(&self, paint: Paint) -> String {
        let heading = [
            "port",
            "segments",
            "neighbours answered",
            "fragments",
            "wrong checksum",
            "malformed",
            "other",
        ];
        let mut table = Table::new(&heading);
        for port in &self.others {
            let counts = [
                port.segments,
                port.answered,
                port.fragments,
                port.wrong_checksums,
                port.malformed,
                port.other,
            ];
            table.row([port.port.clone()].into_iter().chain(counts.map(grouped)));
        }
        table.render(paint)
    }
}

impl HandedTold {
    fn line(&self) -> String {
        let (segments, lost) = (grouped(self.segments), grouped(self.lost));
        format!(
            "segments handed to the core of their connection: {segments}; lost on the way: {lost}\n"
        )
    }
}

impl ClientTold {
    fn tables(&self, paint: Paint) -> String {
        let mut outcomes = Table::new(&["connections", ""]);
        for (name, count) in [
            ("opened", self.opened),
            ("completed", self.completed),
            ("refused", self.refused),
            ("reset", self.reset),
            ("timed out connecting", self.timed_out_connecting),
            ("timed out answering", self.timed_out_answering),
            ("timed out closing", self.timed_out_closing),
            ("unfinished", self.unfinished),
            ("not opened in time", self.shortfall),
            ("most open at once", self.most_open),
        ] {
            outcomes.row([name.to_owned(), grouped(count)]);
        }
        for (name, count) in [
            ("segments sent again", self.retransmitted),
            ("segments not taken by the port", self.unsent),
            ("duplicated segments", self.duplicated),
            ("early segments", self.early),
            ("segments of earlier connections", self.stale),
            ("late segments", self.late),
            ("foreign segments", self.foreign),
            ("answers with a wrong payload", self.wrong_payload),
            ("answers of another backend", self.wrong_backend),
            ("SYNs answered with a time stamp", self.stamped),
            ("answers with the right TOA", self.toa_right),
            ("answers with a wrong TOA", self.toa_wrong),
        ] {
            if count > 0 {
                outcomes.row([name.to_owned(), grouped(count)]);
            }
        }
        if let Some(bps) = self.goodput_bps {
            outcomes.row(["goodput".to_owned(), format!("{}bit/s", scaled(bps))]);
        }
        let parts = [self.times(paint), self.shares(paint)];
        let parts = parts.into_iter().flatten();
        std::iter::once(outcomes.render(paint))
            .chain(parts)
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn times(&self, paint: Paint) -> Option<String> {
        let mut table = Table::new(&[
            "since due",
            "connections",
            "median",
            "90 %",
            "99 %",
            "99.9 %",
            "longest",
        ]);
        let stages = [
            ("connected", &self.connect_ns),
            ("first byte", &self.first_byte_ns),
            ("answered", &self.answer_ns),
            ("closed", &self.close_ns),
        ];
        for (name, times) in stages {
            if let Some(times) = times {
                let quantiles = [times.p50, times.p90, times.p99, times.p999, times.max];
                let cells = quantiles.map(|ns| duration(ns as f64));
                table.row(
                    [name.to_owned(), grouped(times.count)]
                        .into_iter()
                        .chain(cells),
                );
            }
        }
        (!table.is_empty()).then(|| table.render(paint))
    }

    fn shares(&self, paint: Paint) -> Option<String> {
        let mut table = Table::new(&["answered by", "connections"]);
        for (number, &count) in self.backends.iter().enumerate() {
            table.row([format!("backend {number}"), grouped(count)]);
        }
        let (shown, hidden) = self
            .local
            .listed
            .split_at(self.local.listed.len().min(MOST_SHOWN));
        for source in shown {
            table.row([
                format!("seen from {}", source.address),
                grouped(source.count),
            ]);
        }
        let others = self.local.others + hidden.iter().map(|source| source.count).sum::<u64>();
        if others > 0 {
            table.row(["seen from others".to_owned(), grouped(others)]);
        }
        (!table.is_empty()).then(|| table.render(paint))
    }
}

impl ServerTold {
    fn table(&self, paint: Paint) -> String {
        let mut table = Table::new(&[
            "backend",
            "SYNs",
            "requests",
            "FINs",
            "closed",
            "resets",
            "with TOA",
            "while down",
            "sent again",
        ]);
        for (number, one) in self.backends.iter().enumerate() {
            let counts = [
                one.syns,
                one.requests,
                one.fins,
                one.closed,
                one.resets,
                one.toa,
                one.down,
                one.retransmitted,
            ];
            table.row([number.to_string()].into_iter().chain(counts.map(grouped)));
        }
        let mut text = table.render(paint);
        for (name, count) in [
            ("segments for no backend", self.elsewhere),
            ("segments of no connection", self.unacknowledged),
            ("segments with a wrong payload", self.wrong_payload),
            ("answers not taken by the port", self.unsent),
        ] {
            if count > 0 {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{name}: {}", grouped(count));
            }
        }
        text
    }
}
