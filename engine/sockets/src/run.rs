//! A workload from beginning to end.

use crate::client;
use crate::failure::{Failure, FailureKind};
use crate::fault::{Fault, Faults};
use crate::live::Live;
use crate::outcome::{Connection, Outcome, PlaceFacts, Run, Status, ThreadFacts};
use crate::record::OverTime;
use crate::server;
use crate::shared::Shared;
use crate::spec::{Close, Kind, Workload};
use crate::stats::summarise;
use pinchpoint_port::sched::numa_node;
use pinchpoint_worker::{Clock, probe};
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;

/// Runs `work` in two threads of its own, or only the client's if the server
/// is elsewhere, and waits for its end; `live` stops it within 100 ms and
/// reports how far it is. All sockets are closed at the
/// end. A path or a peer that stops working while it runs is no failure but an
/// outcome that was [aborted](Status::Aborted), with the counts so far.
///
/// # Errors
/// A [`Failure`] when nothing could be measured: a value that cannot be met,
/// a namespace, core or address that is not there, no first connection.
pub fn run(work: &Workload, live: &Live) -> Result<Outcome, Failure> {
    work.check()?;
    let clock = Clock::new();
    let mut runs = Vec::with_capacity(work.repeats as usize);
    loop {
        let shared = Shared::new(work, live);
        let (run, facts) = run_once(&shared, &clock)?;
        runs.push(run);
        let reason = shared.trouble();
        let status = match reason {
            Some(_) => Status::Aborted,
            None if live.stopped() => Status::Stopped,
            None => Status::Completed,
        };
        if status != Status::Completed || runs.len() == work.repeats as usize {
            return Ok(outcome(work, status, reason, facts, runs));
        }
    }
}

/// What holds for every run.
#[derive(Clone, Copy)]
struct Facts {
    target: SocketAddr,
    source_ports: Option<u64>,
}

fn run_once(shared: &Shared, clock: &Clock) -> Result<(Run, Facts), Failure> {
    let work = shared.work;
    let cores = [work.client.core, work.server.core];
    let distance = || {
        let here = work.elsewhere.is_none();
        here.then(|| probe::distance(cores).one_way_ns).flatten()
    };
    let before_ns = distance();
    let (client, server, address) = match work.target {
        Some(target) if work.elsewhere.is_some() => {
            (client_alone(shared, clock, target)?, None, target)
        }
        _ => {
            let (client, server, address) = both_sides(shared, clock)?;
            (client, Some(server), address)
        }
    };
    let after_ns = distance();
    let facts = Facts {
        target: shared.work.target.unwrap_or(address),
        source_ports: client.source_ports,
    };
    Ok((
        account(shared.work, client, server.as_ref(), [before_ns, after_ns]),
        facts,
    ))
}

pub(crate) fn failed(side: &str) -> Failure {
    Failure::new(
        FailureKind::Internal,
        format!("the {side}'s thread failed; its message is on stderr"),
    )
}

fn client_alone(
    shared: &Shared,
    clock: &Clock,
    target: SocketAddr,
) -> Result<client::Report, Failure> {
    thread::scope(|scope| {
        let client = scope.spawn(|| client::run(shared, clock, target));
        client.join().map_err(|_| failed("client"))?
    })
}

fn both_sides(
    shared: &Shared,
    clock: &Clock,
) -> Result<(client::Report, server::Report, SocketAddr), Failure> {
    thread::scope(|scope| {
        let (ready, address) = mpsc::channel();
        let server = scope.spawn(move || server::run(shared, clock, &ready));
        let address = address.recv().unwrap_or_else(|_| Err(failed("server")))?;
        let client = scope
            .spawn(move || client::run(shared, clock, address))
            .join();
        shared.finish();
        let server = server.join();
        let client = client.map_err(|_| failed("client"))??;
        let server = server.ok().flatten().ok_or_else(|| failed("server"))?;
        Ok((client, server, address))
    })
}

fn account(
    work: &Workload,
    client: client::Report,
    server: Option<&server::Report>,
    cache_line_ns: [Option<f64>; 2],
) -> Run {
    let found = client.account;
    let streams = work.kind == Kind::Stream;
    let bytes_of = |transactions: u64| transactions * work.request_bytes as u64;
    let received = server.map_or(&[][..], |one| &one.received);
    let received_bytes = if streams {
        received.iter().sum()
    } else {
        bytes_of(found.transactions)
    };
    let over_time = if streams {
        server.map(|one| &one.over_time)
    } else {
        Some(&found.over_time)
    };
    // Of a stream of datagrams: those that arrived, and those that did not.
    let arrived = client.sent.zip(server).map(|(_, one)| one.datagrams);
    let lost = (client.sent.zip(arrived)).map(|(sent, arrived)| sent.saturating_sub(arrived));
    let connection = |k: usize| Connection {
        transactions: (!streams).then(|| found.per_connection[k]),
        received_bytes: if streams {
            received.get(k).copied().unwrap_or(0)
        } else {
            bytes_of(found.per_connection[k])
        },
        retransmits: client.retransmits.get(k).copied().flatten(),
    };
    let standing = if work.kind == Kind::Crr {
        0
    } else {
        work.connections
    };
    let thread = |k: usize, usage| ThreadFacts {
        usage,
        steal_s: client.steal_s[k],
        retransmitted_segments: client.retransmitted_segments[k],
    };
    Run {
        began_ns: client.began_ns,
        duration_ns: client.duration_ns,
        intended: client.intended,
        shortfall: client.shortfall,
        transactions: arrived.unwrap_or(found.transactions),
        faults: lost.map_or(found.faults, |timeout| Faults {
            timeout,
            ..Faults::default()
        }),
        first_fault: match lost {
            Some(lost) => (lost > 0).then_some(Fault::Timeout),
            None => found.first_fault,
        },
        unfinished: client.unfinished,
        received_bytes,
        latest_ns: client.intended.map(|_| found.latest_ns),
        per_second: over_time.map(OverTime::per_second).unwrap_or_default(),
        trend: over_time.and_then(|one| one.trend(client.duration_ns)),
        connections: (0..standing).map(connection).collect(),
        client: thread(0, client.usage),
        server: server.map(|one| thread(1, one.usage)),
        time_wait: client.time_wait,
        cache_line_ns,
        latency: found.latency,
        service: found.service,
    }
}

pub(crate) fn place(core: usize) -> PlaceFacts {
    PlaceFacts {
        core,
        numa_node: numa_node(core),
    }
}

fn outcome(
    work: &Workload,
    status: Status,
    reason: Option<String>,
    facts: Facts,
    runs: Vec<Run>,
) -> Outcome {
    let several = |value: fn(&Run) -> f64| {
        let values: Vec<f64> = runs.iter().map(value).collect();
        summarise(&values).filter(|summary| summary.n > 1)
    };
    let transactions_per_s = several(Run::transactions_per_s);
    Outcome {
        status,
        reason,
        hint: hint(work, &facts, &runs),
        target: facts.target,
        client: place(work.client.core),
        server: work.elsewhere.is_none().then(|| place(work.server.core)),
        source_ports: facts.source_ports,
        transactions_per_s: transactions_per_s.filter(|_| work.kind != Kind::Stream),
        goodput_bps: several(Run::goodput_bps),
        runs,
    }
}

/// How long the kernel keeps a pair of addresses and ports after the close
/// (`TCP_TIMEWAIT_LEN`).
const TIME_WAIT_S: u64 = 60;

/// What mends failures that have a known remedy.
fn hint(work: &Workload, facts: &Facts, runs: &[Run]) -> Option<String> {
    if runs.iter().all(|run| run.faults.address_unavailable == 0) {
        return None;
    }
    let sources = work.sources.len().max(1) as u64;
    let pairs = facts.source_ports.map(|ports| ports * sources);
    let mut text = "the client ran out of source ports".to_owned();
    if let Some(pairs) = pairs {
        let _ = write!(text, " ({pairs} pairs of {sources} address(es) and a port)");
    }
    text.push_str(
        ": add addresses to sources, or widen net.ipv4.ip_local_port_range in its namespace",
    );
    if work.kind == Kind::Crr && work.close == Close::Client {
        let _ = write!(
            text,
            "; without net.ipv4.tcp_timestamps on both ends each pair stays in TIME_WAIT for \
             {TIME_WAIT_S} s"
        );
        if let Some(pairs) = pairs {
            let rate = pairs / TIME_WAIT_S;
            let _ = write!(text, ", which allows {rate} connections a second");
        }
        text.push_str(
            "; if the server closes first, or the client resets, no port stays in TIME_WAIT",
        );
    }
    Some(text)
}
