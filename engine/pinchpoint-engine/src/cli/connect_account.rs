//! What `connect` and `serve` print.

use super::connect_parts::{SourcesTold, TimesTold};
use super::numbers::{duration, grouped, scaled};
use super::standing_account::{PortTold, Ran, port_table};
use super::table::{Paint, Table};
use pinchpoint_workload::connections::client::Client;
use pinchpoint_workload::connections::counts::Counts;
use pinchpoint_workload::connections::server::Server;
use pinchpoint_workload::connections::work::{Account, Others};
use serde::Serialize;
use std::fmt::Write as _;

/// Addresses in a table.
const MOST_SHOWN: usize = 8;

/// The account on the wire; `type` is `connections`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "connections")]
pub(super) struct Told {
    #[serde(flatten)]
    ran: Ran,
    /// By core, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cores: Vec<Ran>,
    ports: Vec<PortTold>,
    /// Null for `serve`, and as long as the next hop has not answered.
    client: Option<ClientTold>,
    /// The Ethernet address to which the client's frames went.
    next_hop: Option<String>,
    server: Option<ServerTold>,
    others: Vec<OthersTold>,
    /// Segments that backends gave to the client past the device; null without --direct-return.
    returned: Option<u64>,
    /// Segments that arrived at another core than their connection's; null with one core.
    handed: Option<HandedTold>,
}

#[derive(Debug, Serialize)]
struct HandedTold {
    segments: u64,
    lost: u64,
}

#[derive(Debug, Serialize)]
struct ClientTold {
    opened: u64,
    shortfall: u64,
    established: u64,
    /// Of these, whose SYN's answer had a time stamp; 0 without --timestamps.
    stamped: u64,
    answered: u64,
    completed: u64,
    refused: u64,
    reset: u64,
    timed_out_connecting: u64,
    timed_out_answering: u64,
    timed_out_closing: u64,
    unfinished: u64,
    most_open: u64,
    retransmitted: u64,
    duplicated: u64,
    early: u64,
    stale: u64,
    late: u64,
    foreign: u64,
    wrong_payload: u64,
    wrong_backend: u64,
    toa_right: u64,
    toa_wrong: u64,
    unsent: u64,
    /// Connections that a backend could not tell from another open one; null where that was not looked at.
    reused: Option<u64>,
    /// Since the connection was due; null before the first.
    connect_ns: Option<TimesTold>,
    answer_ns: Option<TimesTold>,
    close_ns: Option<TimesTold>,
    /// Of the first answer, where answers are of several segments; otherwise `answer_ns`.
    first_byte_ns: Option<TimesTold>,
    /// Of answers, in order and once.
    delivered_bytes: u64,
    /// From when the first connection was due until the last byte; null before that.
    goodput_bps: Option<f64>,
    /// Connections answered, by the backend's number.
    backends: Vec<u64>,
    /// The same by the source address that the backend saw.
    local: SourcesTold,
    /// Who gave the first answer, by connection, none where it did not come or was wrong; null
    /// without --order.
    order: Option<Vec<Option<u16>>>,
}

#[derive(Debug, Serialize)]
struct ServerTold {
    backends: Vec<BackendTold>,
    elsewhere: u64,
    unacknowledged: u64,
    wrong_payload: u64,
    unsent: u64,
    /// SYNs by source address.
    sources: SourcesTold,
}

#[derive(Debug, Serialize)]
struct BackendTold {
    syns: u64,
    requests: u64,
    fins: u64,
    closed: u64,
    resets: u64,
    toa: u64,
    down: u64,
    /// Segments of answers that it sent again.
    retransmitted: u64,
    /// SYNs with a time stamp.
    stamped: u64,
}

#[derive(Debug, Serialize)]
struct OthersTold {
    port: String,
    other: u64,
    malformed: u64,
    fragments: u64,
    wrong_checksums: u64,
    answered: u64,
    segments: u64,
}

impl Told {
    /// Of all cores, whose accounts these are; none of none.
    pub(super) fn new(accounts: &[Account], cores: &[usize], idle: &str) -> Option<Self> {
        let (first, rest) = accounts.split_first()?;
        let mut merged = (!rest.is_empty()).then(|| first.clone());
        if let Some(whole) = &mut merged {
            for other in rest {
                whole.merge(other);
            }
        }
        let account = merged.as_ref().unwrap_or(first);
        let ran = accounts.iter().zip(cores);
        let ran = ran.map(|(account, &core)| Ran::new(&account.ran, core, idle.to_owned()));
        let ran: Vec<Ran> = ran.collect();
        let others = account.ports.iter().zip(&account.others);
        Some(Self {
            ran: Ran::of_all(&ran)?,
            cores: if rest.is_empty() { Vec::new() } else { ran },
            ports: account.ports.iter().map(PortTold::new).collect(),
            client: account.client.as_ref().map(ClientTold::new),
            next_hop: account.next_hop().map(|mac| mac.to_string()),
            server: account.server.as_ref().map(ServerTold::new),
            returned: account.returned,
            handed: account.handed.map(|handed| HandedTold {
                segments: handed.segments,
                lost: handed.lost,
            }),
            others: others
                .map(|(port, others)| OthersTold::new(&port.name, others))
                .collect(),
        })
    }

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
        let several = self.cores.iter();
        let single = self.cores.is_empty().then_some(&self.ran);
        let lines = several.chain(single).map(|ran| ran.line() + "\n");
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
    fn new(client: &Client) -> Self {
        let Counts {
            opened,
            shortfall,
            established,
            stamped,
            answered,
            completed,
            refused,
            reset,
            timed_out_connecting,
            timed_out_answering,
            timed_out_closing,
            unfinished,
            most_open,
            retransmitted,
            duplicated,
            early,
            stale,
            late,
            foreign,
            wrong_payload,
            wrong_backend,
            toa_right,
            toa_wrong,
            unsent,
        } = *client.counts();
        let (times, delivered) = (client.times(), client.delivered());
        let lasted_ns = delivered.last_ns.checked_sub(client.start_ns());
        let lasted_ns = lasted_ns.filter(|&ns| ns > 0 && delivered.bytes > 0);
        Self {
            opened,
            shortfall,
            established,
            stamped,
            answered,
            completed,
            refused,
            reset,
            timed_out_connecting,
            timed_out_answering,
            timed_out_closing,
            unfinished,
            most_open,
            retransmitted,
            duplicated,
            early,
            stale,
            late,
            foreign,
            wrong_payload,
            wrong_backend,
            toa_right,
            toa_wrong,
            unsent,
            reused: client.reused(),
            connect_ns: TimesTold::new(&times.connect),
            answer_ns: TimesTold::new(&times.answer),
            close_ns: TimesTold::new(&times.close),
            first_byte_ns: TimesTold::new(&times.first_byte),
            delivered_bytes: delivered.bytes,
            goodput_bps: lasted_ns.map(|ns| 8e9 * delivered.bytes as f64 / ns as f64),
            backends: client.answered().backends().to_vec(),
            local: SourcesTold::new(client.answered().local()),
            order: client.order().map(|order| order.backends().collect()),
        }
    }

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
    fn new(server: &Server) -> Self {
        let strays = server.strays();
        let backends = server.backends().iter();
        Self {
            backends: backends
                .map(|one| BackendTold {
                    syns: one.syns,
                    requests: one.requests,
                    fins: one.fins,
                    closed: one.closed,
                    resets: one.resets,
                    toa: one.toa,
                    down: one.down,
                    retransmitted: one.retransmitted,
                    stamped: one.stamped,
                })
                .collect(),
            elsewhere: strays.elsewhere,
            unacknowledged: strays.unacknowledged,
            wrong_payload: strays.wrong_payload,
            unsent: strays.unsent,
            sources: SourcesTold::new(server.sources()),
        }
    }

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

impl OthersTold {
    fn new(port: &str, others: &Others) -> Self {
        Self {
            port: port.to_owned(),
            other: others.other,
            malformed: others.malformed,
            fragments: others.fragments,
            wrong_checksums: others.checksum,
            answered: others.answered,
            segments: others.segments,
        }
    }
}
