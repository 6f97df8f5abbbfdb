//! A workload's result as tables for people.

use super::numbers::{duration, grouped, scaled};
use super::table::{Paint, Table};
use pinchpoint_sockets::message::{
    Change, Failures, Kind, Latency, Run, SocketsResult, Status, ThreadWitness, Transport,
};

/// Connections that are listed one by one.
const SHOWN: usize = 16;

/// Everything about a workload.
pub(super) fn told(result: &SocketsResult, paint: Paint) -> String {
    let mut parts = vec![head(result), summaries(result)];
    let tables = [
        runs(result),
        times(result),
        connections(result),
        witness(result),
    ];
    parts.extend(
        tables
            .iter()
            .filter(|table| !table.is_empty())
            .map(|table| table.render(paint)),
    );
    parts.push(remarks(result));
    let warnings = warnings(result);
    let lines = warnings
        .iter()
        .map(|text| format!("{} {text}\n", paint.warn("warning:")));
    parts.push(lines.collect());
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn head(result: &SocketsResult) -> String {
    let status = match result.status {
        Status::Completed => "completed",
        Status::Stopped => "stopped",
        Status::Aborted => "aborted",
    };
    let reason = result.reason.as_ref();
    let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    let server = result.server.as_ref();
    let server = server.map_or_else(String::new, |one| format!(", server on core {}", one.core));
    format!(
        "{status}{reason}; client on core {}{server}, to {}\n",
        result.client.core, result.target
    )
}

/// The mean over the repeats, with its confidence interval if there are several. Rates
/// that changed their level within a window are not summarised as one number.
fn summaries(result: &SocketsResult) -> String {
    let without_port = |run: &Run| run.failures.address_unavailable;
    let failed: u64 = result.runs.iter().map(without_port).sum();
    if failed > 0 {
        return format!(
            "limit: source ports: {} connections found no free port; the rate is limited by ports, \
             not by the path\n",
            grouped(failed)
        );
    }
    if result.runs.iter().any(|run| change(run).is_some()) {
        return not_stationary(result);
    }
    let (unit, summary, of): (_, _, fn(&Run) -> Option<f64>) = match result.kind {
        Kind::Stream => ("bit/s", &result.goodput_bps, |run| run.goodput_bps),
        Kind::Rr | Kind::Crr => ("transactions/s", &result.transactions_per_s, |run| {
            run.transactions_per_s
        }),
    };
    let Some(summary) = summary else {
        let only = result.runs.last().and_then(of);
        let line = |value| format!("{}{unit} in one run\n", scaled(value));
        return only.map_or_else(String::new, line);
    };
    let interval = summary.ci95.map_or_else(String::new, |ci95| {
        format!(" +- {} (95 % confidence)", scaled(ci95).trim_end())
    });
    format!(
        "{}{unit}{interval}, {} runs, standard deviation {}\n",
        scaled(summary.mean),
        summary.n,
        scaled(summary.stddev).trim_end()
    )
}

fn change(run: &Run) -> Option<&Change> {
    run.trend.as_ref()?.change.as_ref()
}

/// The range of what all runs went through, and the level that lasted.
fn not_stationary(result: &SocketsResult) -> String {
    let changes: Vec<&Change> = result.runs.iter().filter_map(change).collect();
    let levels = |change: &&Change| [change.before_per_s, change.after_per_s];
    let all = || changes.iter().flat_map(levels);
    let low = all().fold(f64::INFINITY, f64::min);
    let high = all().fold(0.0, f64::max);
    let after = changes.iter().map(|change| change.after_per_s);
    let last = after.sum::<f64>() / changes.len() as f64;
    let rate = |level| rate(result.kind, level);
    format!(
        "not stationary: {} to {} within the window; at its end {}\n",
        rate(low),
        rate(high),
        rate(last)
    )
}

/// A level with its unit: of streams, bits.
fn rate(kind: Kind, per_s: f64) -> String {
    match kind {
        Kind::Stream => format!("{}bit/s", scaled(per_s * 8.0)),
        Kind::Rr | Kind::Crr => format!("{}transactions/s", scaled(per_s)),
    }
}

fn count(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), grouped)
}

fn gigabits(bps: Option<f64>) -> String {
    bps.map_or_else(|| "-".to_owned(), |bps| format!("{:.6}", bps / 1e9))
}

fn is_datagrams(result: &SocketsResult) -> bool {
    result.kind == Kind::Stream && result.transport == Transport::Udp
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |share| format!("{:.4} %", share * 100.0))
}

/// A stream of datagrams.
fn datagrams(result: &SocketsResult) -> Table {
    let mut table = Table::new(&[
        "run",
        "seconds",
        "intended",
        "arrived",
        "per second",
        "lost",
        "lost share",
        "Gbit/s",
    ]);
    for (k, run) in result.runs.iter().enumerate() {
        let per_s = run.transactions_per_s;
        table.row([
            (k + 1).to_string(),
            format!("{:.3}", run.duration_s),
            count(run.intended),
            count(run.transactions),
            per_s.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}")),
            count(run.failed),
            share(run.failed_share),
            gigabits(run.goodput_bps),
        ]);
    }
    table
}

fn runs(result: &SocketsResult) -> Table {
    if is_datagrams(result) {
        return datagrams(result);
    }
    if result.kind == Kind::Stream {
        let mut table = Table::new(&["run", "seconds", "bytes", "Gbit/s"]);
        for (k, run) in result.runs.iter().enumerate() {
            table.row([
                (k + 1).to_string(),
                format!("{:.3}", run.duration_s),
                count(run.received_bytes),
                gigabits(run.goodput_bps),
            ]);
        }
        return table;
    }
    let mut table = Table::new(&[
        "run",
        "seconds",
        "intended",
        "transactions",
        "per second",
        "failed",
        "failed share",
        "unfinished",
    ]);
    for (k, run) in result.runs.iter().enumerate() {
        let per_s = run.transactions_per_s;
        table.row([
            (k + 1).to_string(),
            format!("{:.3}", run.duration_s),
            count(run.intended),
            count(run.transactions),
            per_s.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}")),
            count(run.failed),
            share(run.failed_share),
            grouped(run.unfinished),
        ]);
    }
    table
}

fn times(result: &SocketsResult) -> Table {
    let mut table = Table::new(&[
        "time", "min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max", "stddev",
    ]);
    let mut row = |name: String, latency: &Latency| {
        let values = [
            latency.min_ns as f64,
            latency.mean_ns,
            latency.p50_ns as f64,
            latency.p90_ns as f64,
            latency.p99_ns as f64,
            latency.p999_ns as f64,
            latency.p9999_ns as f64,
            latency.max_ns as f64,
            latency.stddev_ns,
        ];
        table.row(std::iter::once(name).chain(values.map(duration)));
    };
    for (k, run) in result.runs.iter().enumerate() {
        for (what, found) in [("latency", &run.latency), ("service", &run.service)] {
            if let Some(latency) = found {
                row(format!("{what}, run {}", k + 1), latency);
            }
        }
    }
    table
}

/// The connections of the last run, if there are several.
fn connections(result: &SocketsResult) -> Table {
    let mut table = Table::new(&[
        "connection",
        "transactions",
        "bytes",
        "Gbit/s",
        "retransmits",
    ]);
    let all = result.runs.last().map_or(&[][..], |run| &run.connections);
    if all.len() < 2 {
        return table;
    }
    for (k, one) in all.iter().take(SHOWN).enumerate() {
        table.row([
            (k + 1).to_string(),
            count(one.transactions),
            count(one.received_bytes),
            gigabits(one.goodput_bps),
            count(one.retransmits),
        ]);
    }
    if all.len() > SHOWN {
        table.row([format!("... of {}", all.len())]);
    }
    table
}

fn witness(result: &SocketsResult) -> Table {
    let mut table = Table::new(&[
        "thread",
        "user",
        "system",
        "switches",
        "steal",
        "retransmitted",
    ]);
    let mut row = |name: String, thread: &ThreadWitness| {
        let steal = thread.steal_s;
        table.row([
            name,
            format!("{:.2} s", thread.user_s),
            format!("{:.2} s", thread.system_s),
            format!(
                "{} + {} forced",
                grouped(thread.voluntary_switches),
                grouped(thread.involuntary_switches)
            ),
            steal.map_or_else(|| "-".to_owned(), |steal_s| duration(steal_s * 1e9)),
            count(thread.retransmitted_segments),
        ]);
    };
    for (k, run) in result.runs.iter().enumerate() {
        row(format!("client, run {}", k + 1), &run.client);
        if let Some(server) = &run.server {
            row(format!("server, run {}", k + 1), server);
        }
    }
    table
}

/// What has no table of its own.
fn remarks(result: &SocketsResult) -> String {
    let mut lines = Vec::new();
    for (k, run) in result.runs.iter().enumerate() {
        if let [Some(before), Some(after)] = run.cache_line_ns {
            lines.push(format!(
                "run {}: a cache line takes {} between the cores (before), {} (after)\n",
                k + 1,
                duration(before),
                duration(after)
            ));
        }
        if let [Some(before), Some(after)] = run.time_wait
            && (before, after) != (0, 0)
        {
            lines.push(format!(
                "run {}: {} sockets in TIME_WAIT in the client's namespace before, {} after\n",
                k + 1,
                grouped(before),
                grouped(after)
            ));
        }
    }
    lines.concat()
}

/// What to know about `result`, a sentence each.
fn warnings(result: &SocketsResult) -> Vec<String> {
    let mut lines = Vec::new();
    for (k, run) in result.runs.iter().enumerate() {
        let kinds = kinds(&run.failures);
        if !kinds.is_empty() && !is_datagrams(result) {
            let first = run.failures.first.as_ref();
            let first = first.map_or_else(String::new, |first| format!("; the first: {first}"));
            lines.push(format!(
                "run {}: failed: {}{first}",
                k + 1,
                kinds.join(", ")
            ));
        }
        if let Some(change) = change(run) {
            let fell = change.after_per_s < change.before_per_s;
            lines.push(format!(
                "run {}: the rate {} from {} to {} after {:.1} s and stayed there: the mean over the \
                 window describes neither level. Look for something that fills up (ports, tables, \
                 memory) or, on a shared host, for other load",
                k + 1,
                if fell { "fell" } else { "rose" },
                rate(result.kind, change.before_per_s),
                rate(result.kind, change.after_per_s),
                change.at_s
            ));
        }
        if let Some(missed) = run.shortfall.filter(|missed| *missed > 0) {
            let what = if is_datagrams(result) {
                "datagrams that were due were not sent in time: use a lower --rate"
            } else {
                "transactions that were due were not begun because no connection was \
                 free: use more --connections or a lower --rate"
            };
            lines.push(format!("run {}: {} {what}", k + 1, grouped(missed)));
        }
    }
    lines.extend(result.hint.clone());
    lines
}

/// Each kind of failure that occurred, with its count.
fn kinds(failures: &Failures) -> Vec<String> {
    let kinds = [
        ("refused", failures.refused),
        ("without a source port", failures.address_unavailable),
        ("timed out", failures.timeout),
        ("reset", failures.reset),
        ("cut short", failures.short),
        ("unreachable", failures.unreachable),
        ("otherwise", failures.other),
    ];
    let occurred = kinds.iter().filter(|(_, count)| *count > 0);
    occurred
        .map(|(name, count)| format!("{} {name}", grouped(*count)))
        .collect()
}

#[cfg(test)]
#[path = "sockets_table_tests.rs"]
mod tests;
