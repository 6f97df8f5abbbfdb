//! A trial's result as tables for people.

use super::numbers::{duration, grouped, scaled};
use super::table::{Paint, Table};
use super::warnings;
use crate::protocol::{
    Latency, OpenReply, PortResult, RunRequest, Status, StreamResult, TrialResult, Witness,
};

/// Bytes on the wire that are not in the frame: preamble, start of frame
/// delimiter and inter-packet gap (IEEE 802.3 clause 4.4.2).
const WIRE_OVERHEAD: f64 = 20.0;

/// Everything about a trial.
pub(super) fn account(
    result: &TrialResult,
    request: &RunRequest,
    opened: &OpenReply,
    paint: Paint,
) -> String {
    let mut parts = vec![head(result, opened)];
    if !result.streams.is_empty() {
        parts.push(counts(result).render(paint));
        parts.push(rates(result).render(paint));
    }
    if result.streams.is_empty() {
        parts.push(arrivals(result).render(paint));
    }
    parts.push(times(result).filled(paint));
    parts.push(lossy_flows(result).filled(paint));
    parts.push(ports(result).filled(paint));
    parts.push(witness(&result.witness).render(paint));
    parts.push(remarks(result));
    let warnings = warnings::warnings(result, request);
    let told = warnings
        .iter()
        .map(|text| format!("{} {text}\n", paint.warn("warning:")));
    parts.push(told.collect());
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

impl Table {
    /// The table, or nothing if it has no rows.
    fn filled(&self, paint: Paint) -> String {
        if self.is_empty() {
            return String::new();
        }
        self.render(paint)
    }
}

fn head(result: &TrialResult, opened: &OpenReply) -> String {
    let status = match result.status {
        Status::Completed => "completed",
        Status::Stopped => "stopped",
        Status::Aborted => "aborted",
    };
    let reason = result.reason.as_ref();
    let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    let modes = opened.ports.iter().map(|port| {
        let queues = match port.queues {
            1 => String::new(),
            count => format!(", {count} queues"),
        };
        format!("{} ({}{queues})", port.name, port.mode)
    });
    let modes: Vec<String> = modes.collect();
    format!(
        "{status}{reason} after {:.3} s and {:.3} s of drain; ports: {}\n",
        result.duration_s,
        result.drain_s,
        modes.join(", ")
    )
}

fn title(stream: &StreamResult) -> String {
    let to = stream.rx_port.as_deref().unwrap_or("nobody");
    let from = stream.tx_port.as_deref().unwrap_or("elsewhere");
    format!("{} {from} > {to}", stream.id)
}

fn told(count: Option<u64>) -> String {
    count.map_or_else(|| "-".to_owned(), grouped)
}

/// The sum over streams; none as soon as one of them does not know.
fn sum(streams: &[StreamResult], of: Count) -> Option<u64> {
    streams.iter().map(of).sum()
}

/// What is counted of a stream; none if it cannot be.
type Count = fn(&StreamResult) -> Option<u64>;

const COUNTS: [(&str, Count); 8] = [
    ("intended", |stream| stream.intended),
    ("offered", |stream| Some(stream.offered)),
    ("sent", |stream| Some(stream.sent)),
    ("received", |stream| stream.received),
    ("lost", |stream| stream.lost),
    ("duplicated", |stream| stream.duplicated),
    ("reordered", |stream| stream.reordered),
    ("corrupt", |stream| stream.corrupt),
];

fn counts(result: &TrialResult) -> Table {
    let mut heading = vec!["stream"];
    heading.extend(COUNTS.map(|(name, _)| name));
    heading.push("lost share");
    let mut table = Table::new(&heading);
    let mut row = |name: String, values: Vec<Option<u64>>, sent: u64, lost: Option<u64>| {
        let share = lost
            .filter(|_| sent > 0)
            .map(|lost| lost as f64 / sent as f64);
        let share = share.map_or_else(|| "-".to_owned(), percent);
        let cells = std::iter::once(name).chain(values.into_iter().map(told));
        table.row(cells.chain([share]));
    };
    for stream in &result.streams {
        let values = COUNTS.iter().map(|(_, of)| of(stream)).collect();
        row(title(stream), values, stream.sent, stream.lost);
    }
    if result.streams.len() > 1 {
        let streams = &result.streams;
        let values = COUNTS.iter().map(|(_, of)| sum(streams, *of)).collect();
        let sent = streams.iter().map(|stream| stream.sent).sum();
        row(
            "total".to_owned(),
            values,
            sent,
            sum(streams, |stream| stream.lost),
        );
    }
    table
}

/// A share with enough decimals to tell one frame in a billion from none.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 || percent >= 0.001 {
        format!("{percent:.3} %")
    } else {
        format!("{percent:.1e} %")
    }
}

fn rates(result: &TrialResult) -> Table {
    let mut table = Table::new(&["rate", "Mpps", "Gbit/s L1", "Gbit/s L2"]);
    let kinds: [(&str, Count); 4] = [
        ("intended", |stream| stream.intended),
        ("offered", |stream| Some(stream.offered)),
        ("sent", |stream| Some(stream.sent)),
        ("received", |stream| stream.received),
    ];
    for (name, of) in kinds {
        let bits = |overhead: f64| -> Option<f64> {
            let streams = result.streams.iter();
            let each = streams.map(|stream| {
                of(stream).map(|count| count as f64 * (stream.bytes_mean + overhead) * 8.0)
            });
            each.sum()
        };
        let values = [
            sum(&result.streams, of).map(|count| count as f64 / 1e6),
            bits(WIRE_OVERHEAD).map(|bits| bits / 1e9),
            bits(0.0).map(|bits| bits / 1e9),
        ];
        let per_s = |value: Option<f64>| match value {
            Some(value) if result.duration_s > 0.0 => format!("{:.6}", value / result.duration_s),
            _ => "-".to_owned(),
        };
        table.row(std::iter::once(name.to_owned()).chain(values.map(per_s)));
    }
    table
}

fn times(result: &TrialResult) -> Table {
    let mut table = Table::new(&["time", "min", "p50", "p99", "p99.9", "max", "frames"]);
    let dash = || "-".to_owned();
    let mut row = |name: String, latency: &Latency| {
        let values = [
            latency.min_ns as f64,
            latency.p50_ns as f64,
            latency.p99_ns as f64,
            latency.p999_ns as f64,
            latency.max_ns as f64,
        ];
        let values = values.map(duration);
        let cells = std::iter::once(name).chain(values);
        table.row(cells.chain([grouped(latency.count)]));
    };
    for stream in &result.streams {
        for (what, found) in [("latency", &stream.latency), ("jitter", &stream.jitter)] {
            if let Some(latency) = found {
                let clock = stream.latency_clock.as_ref();
                let by = clock.map_or_else(String::new, |clock| format!(", {clock}'s clock"));
                row(format!("{what} {}{by}", title(stream)), latency);
            }
        }
    }
    let is_own = |stream: &StreamResult| stream.latency_clock.is_none();
    if let Some(own) = &result.witness.loopback
        && !table.is_empty()
        && result.streams.iter().any(is_own)
    {
        table.row([
            "of latency, the engine's own".to_owned(),
            duration(own.min_ns as f64),
            duration(own.p50_ns as f64),
            duration(own.p99_ns as f64),
            dash(),
            duration(own.max_ns as f64),
            grouped(own.frames),
        ]);
    }
    table
}

/// Lossy flows that are listed one by one.
const FLOWS_SHOWN: usize = 10;

fn lossy_flows(result: &TrialResult) -> Table {
    let mut table = Table::new(&["lossy flows", "flow", "sent", "received"]);
    for stream in &result.streams {
        let Some(flows) = &stream.flows else { continue };
        for (flow, sent, received) in flows.losses.iter().take(FLOWS_SHOWN) {
            let cells = [*flow, *sent, *received].map(grouped);
            table.row(std::iter::once(title(stream)).chain(cells));
        }
    }
    table
}

/// What a trial without streams received.
fn arrivals(result: &TrialResult) -> Table {
    let mut table = Table::new(&["port", "arrived", "fps"]);
    for port in &result.ports {
        let arrived = port.received + port.late + port.foreign;
        let fps = arrived as f64 / result.duration_s.max(1e-9);
        table.row([
            port.name.clone(),
            grouped(arrived),
            scaled(fps).trim_end().to_owned(),
        ]);
    }
    table
}

/// Every counter of a port that is not zero, a line each.
fn ports(result: &TrialResult) -> Table {
    let mut table = Table::new(&["port", "counter", "frames"]).left(2);
    for port in &result.ports {
        for (name, count) in port_counters(port) {
            table.row([port.name.clone(), name, grouped(count)]);
        }
    }
    table
}

fn port_counters(port: &PortResult) -> Vec<(String, u64)> {
    let own = [
        ("sent", port.sent),
        ("refused", port.refused),
        ("received", port.received),
        ("foreign", port.foreign),
        ("late", port.late),
        ("answered", port.answered),
        ("rx_missed", port.rx_missed.unwrap_or(0)),
    ];
    let own = own.iter().map(|&(name, count)| (name.to_owned(), count));
    let stats = port
        .stats
        .iter()
        .map(|(name, &count)| (name.clone(), count));
    own.chain(stats).filter(|(_, count)| *count > 0).collect()
}

fn witness(witness: &Witness) -> Table {
    let mut table = Table::new(&[
        "core", "busy", "gaps", "total", "longest", "at", "steal", "switches", "clock",
    ]);
    for worker in &witness.workers {
        let steal = worker.steal_s;
        let clock = worker.frequency_hz;
        table.row([
            worker.core.to_string(),
            format!("{:.0} %", worker.busy_share * 100.0),
            format!(
                "{} over {}",
                grouped(worker.gaps),
                duration(worker.gap_threshold_ns as f64)
            ),
            duration(worker.gap_total_ns as f64),
            duration(worker.gap_max_ns as f64),
            format!("{:.4} s", worker.gap_max_at_s),
            steal.map_or_else(|| "-".to_owned(), |steal_s| duration(steal_s * 1e9)),
            format!(
                "{} + {} forced",
                worker.voluntary_switches, worker.involuntary_switches
            ),
            clock.map_or_else(
                || "-".to_owned(),
                |hz| format!("{:.2} GHz", hz as f64 / 1e9),
            ),
        ]);
    }
    table
}

/// What has no table of its own.
fn remarks(result: &TrialResult) -> String {
    let mut lines = Vec::new();
    for stream in &result.streams {
        let Some(flows) = &stream.flows else { continue };
        lines.push(format!(
            "stream {}: {} of its first {} flows lost frames\n",
            stream.id,
            grouped(flows.lossy),
            grouped(flows.tracked)
        ));
    }
    for line in &result.witness.cache_lines {
        let told = |ns: Option<f64>| ns.map_or_else(|| "unknown".to_owned(), duration);
        lines.push(format!(
            "a cache line takes {} from core {} to core {} (before), {} (after)\n",
            told(line.before_ns),
            line.cores[0],
            line.cores[1],
            told(line.after_ns)
        ));
        let told =
            |ipc: Option<f64>| ipc.map_or_else(|| "unknown".to_owned(), |ipc| format!("{ipc:.1}"));
        for (place, core) in line.cores.iter().enumerate() {
            lines.push(format!(
                "core {core} executed {} instructions a cycle (before), {} (after)\n",
                told(line.ipc_before[place]),
                told(line.ipc_after[place])
            ));
        }
    }
    if !result.streams.is_empty() {
        let latest = result.pacing.latest_ns;
        let latest = latest.map_or_else(String::new, |ns| {
            format!(
                "; the latest frame was offered {} late",
                duration(ns as f64)
            )
        });
        lines.push(format!(
            "the largest burst was {} frames{latest}\n",
            result.pacing.largest_burst
        ));
    }
    if let Some(capture) = &result.capture {
        lines.push(format!(
            "{} frames sent and {} received are in {}\n",
            grouped(capture.sent as u64),
            grouped(capture.received as u64),
            capture.file
        ));
    }
    lines.concat()
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
