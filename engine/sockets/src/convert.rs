//! From the request to the workload, with every check of its values, and from
//! the outcome to the result.

use crate::failure::Failure;
use crate::message::{
    self, Failures, Latency, PlaceFacts, SocketsListening, SocketsRequest, SocketsResult,
    SocketsSample, SocketsServed, ThreadWitness,
};
use crate::outcome::{self, Outcome, Run, Served, ServedWindow, ThreadFacts};
use crate::spec::{Close, Kind, Place, Side, Transport, Wait, Workload};
use crate::stats::Summary;
use crate::trend::Trend;
use crate::{Sample, Status};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use std::net::SocketAddr;
use std::time::Duration;

/// Points of the percentile curve each time the distance to 100 % halves.
const CURVE_POINTS_PER_HALVING: u32 = 2;
/// Longest name of a trial, in bytes.
const MAX_NAME: usize = 256;
const MIN_SAMPLE_INTERVAL_S: f64 = 0.01;
const MAX_SAMPLE_INTERVAL_S: f64 = 86_400.0;

/// Pairs each word of the wire with its counterpart, both ways.
macro_rules! same_words {
    ($($name:ident { $($word:ident),* })*) => {$(
        impl From<message::$name> for $name {
            fn from(word: message::$name) -> Self {
                match word { $(message::$name::$word => Self::$word,)* }
            }
        }

        impl From<$name> for message::$name {
            fn from(word: $name) -> Self {
                match word { $($name::$word => Self::$word,)* }
            }
        }
    )*};
}

same_words! {
    Kind { Stream, Rr, Crr }
    Transport { Tcp, Udp }
    Close { Client, Server, Reset }
    Wait { Block, Spin }
    Status { Completed, Stopped, Aborted }
}

impl SocketsRequest {
    /// What it asks for, checked.
    ///
    /// # Errors
    /// [`FailureKind::Invalid`](crate::FailureKind::Invalid); the message
    /// begins with the key.
    pub fn workload(&self) -> Result<Workload, Failure> {
        if self.trial.len() > MAX_NAME {
            let what = format!("expected at most {MAX_NAME} bytes");
            return Err(Failure::invalid("trial", what));
        }
        if let Some(interval_s) = self.sample_interval_s
            && !(MIN_SAMPLE_INTERVAL_S..=MAX_SAMPLE_INTERVAL_S).contains(&interval_s)
        {
            let what =
                format!("expected null or {MIN_SAMPLE_INTERVAL_S} to {MAX_SAMPLE_INTERVAL_S}");
            return Err(Failure::invalid("sample_interval_s", what));
        }
        let (client, server, elsewhere) = self.ends()?;
        let work = Workload {
            kind: self.kind.into(),
            transport: self.transport.into(),
            client,
            server,
            elsewhere,
            sources: self.sources.clone(),
            listen: self.listen,
            port: self.port,
            target: self.target,
            connections: self.connections,
            request_bytes: self.request_bytes,
            response_bytes: self.response_bytes,
            rate_tps: self.rate_tps,
            warm_up: time("warm_up_s", self.warm_up_s)?,
            duration: time("duration_s", self.duration_s)?,
            transactions: self.transactions,
            timeout: time("timeout_s", self.timeout_s)?,
            close: self.close.into(),
            wait: self.wait.into(),
            repeats: self.repeats,
        };
        work.check()?;
        Ok(work)
    }

    /// The places of both ends; that of an end elsewhere is the other one's.
    fn ends(&self) -> Result<(Place, Place, Option<Side>), Failure> {
        let (here, elsewhere) = match (&self.client, &self.server) {
            (Some(client), Some(server)) => return Ok((place(client), place(server), None)),
            (Some(client), None) => (place(client), Side::Server),
            (None, Some(server)) => (place(server), Side::Client),
            (None, None) => {
                let told =
                    "expected a place for it, or for the server: this engine would do nothing";
                return Err(Failure::invalid("client", told));
            }
        };
        if self.sample_interval_s.is_some() {
            let told = "expected null where one end is null: neither end sees what samples count";
            return Err(Failure::invalid("sample_interval_s", told));
        }
        Ok((here.clone(), here, Some(elsewhere)))
    }
}

fn place(place: &message::Place) -> Place {
    Place {
        netns: place.netns.clone(),
        core: place.core,
        cpus: place.cpus.clone(),
    }
}

fn time(key: &str, seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| Failure::invalid(key, format!("{seconds}: {error}")))
}

/// A `sockets_sample`, `elapsed_s` seconds after the workload began.
pub fn sample(trial: String, elapsed_s: f64, sample: Sample) -> SocketsSample {
    SocketsSample {
        trial,
        elapsed_s,
        transactions: sample.transactions,
        failed: sample.failed,
        received_bytes: sample.received_bytes,
    }
}

/// The `sockets_result` of `work`.
pub fn result(trial: String, work: &Workload, outcome: &Outcome) -> SocketsResult {
    let connects = work.kind == Kind::Crr && work.transport == Transport::Tcp;
    SocketsResult {
        trial,
        status: outcome.status.into(),
        reason: outcome.reason.clone(),
        hint: outcome.hint.clone(),
        kind: work.kind.into(),
        transport: work.transport.into(),
        close: connects.then(|| work.close.into()),
        wait: work.wait.into(),
        target: outcome.target,
        client: place_facts(outcome.client),
        server: outcome.server.map(place_facts),
        source_ports: outcome.source_ports,
        runs: outcome
            .runs
            .iter()
            .map(|finished| run(work, finished))
            .collect(),
        transactions_per_s: outcome.transactions_per_s.map(summary),
        goodput_bps: outcome.goodput_bps.map(summary),
    }
}

/// The `sockets_listening` of a server.
pub fn listening(trial: String, address: SocketAddr) -> SocketsListening {
    SocketsListening { trial, address }
}

/// The `sockets_served` of a server.
pub fn served(trial: String, found: &Served) -> SocketsServed {
    SocketsServed {
        trial,
        status: found.status.into(),
        reason: found.reason.clone(),
        address: found.address,
        server: place_facts(found.server),
        window: found.window.as_ref().map(served_window),
    }
}

fn served_window(window: &ServedWindow) -> message::ServedWindow {
    // Requests are not counted here: those that succeeded, the client knows.
    let streams = !window.received.is_empty();
    let all: u64 = window.received.iter().sum();
    message::ServedWindow {
        duration_s: window.duration_ns as f64 / 1e9,
        received_bytes: streams.then_some(all),
        goodput_bps: streams.then(|| window.bps(all)),
        per_second: window.per_second.clone(),
        trend: window.trend.as_ref().map(trend),
        connections: window
            .received
            .iter()
            .map(|&bytes| message::ServedConnection {
                received_bytes: bytes,
                goodput_bps: window.bps(bytes),
            })
            .collect(),
        thread: witness(&window.thread),
    }
}

fn place_facts(facts: outcome::PlaceFacts) -> PlaceFacts {
    PlaceFacts {
        core: facts.core,
        numa_node: facts.numa_node,
    }
}

fn summary(summary: Summary) -> message::Summary {
    message::Summary {
        mean: summary.mean,
        stddev: summary.stddev,
        n: summary.n,
        ci95: summary.ci95,
    }
}

fn run(work: &Workload, run: &Run) -> message::Run {
    // A stream of bytes has no transactions, which is not the same as none.
    let counts = work.has_transactions();
    let faults = &run.faults;
    // What a stream brought, only its server knows.
    let is_known = counts || run.server.is_some();
    message::Run {
        began_ns: run.began_ns,
        duration_s: run.duration_ns as f64 / 1e9,
        intended: run.intended,
        shortfall: run.shortfall,
        transactions: counts.then_some(run.transactions),
        transactions_per_s: counts.then(|| run.transactions_per_s()),
        failed: counts.then(|| faults.total()),
        failed_share: run.failed_share(),
        failures: Failures {
            refused: faults.refused,
            address_unavailable: faults.address_unavailable,
            timeout: faults.timeout,
            reset: faults.reset,
            short: faults.short,
            unreachable: faults.unreachable,
            other: faults.other,
            first: run.first_fault.map(|fault| fault.to_string()),
        },
        unfinished: run.unfinished,
        received_bytes: is_known.then_some(run.received_bytes),
        goodput_bps: is_known.then(|| run.goodput_bps()),
        latency: latency(&run.latency),
        service: latency(&run.service),
        latest_ns: run.latest_ns,
        per_second: run.per_second.clone(),
        trend: run.trend.as_ref().map(trend),
        connections: run
            .connections
            .iter()
            .map(|one| connection(run, one, is_known))
            .collect(),
        client: witness(&run.client),
        server: run.server.as_ref().map(witness),
        time_wait: run.time_wait,
        cache_line_ns: run.cache_line_ns,
    }
}

fn trend(found: &Trend) -> message::Trend {
    message::Trend {
        first_third_per_s: found.first_third_per_s,
        last_third_per_s: found.last_third_per_s,
        change: found.change.map(|change| message::Change {
            at_s: change.at_s,
            before_per_s: change.before_per_s,
            after_per_s: change.after_per_s,
        }),
    }
}

fn connection(run: &Run, one: &outcome::Connection, is_known: bool) -> message::Connection {
    message::Connection {
        transactions: one.transactions,
        received_bytes: is_known.then_some(one.received_bytes),
        goodput_bps: is_known.then(|| run.bps(one.received_bytes)),
        retransmits: one.retransmits,
    }
}

fn witness(facts: &ThreadFacts) -> ThreadWitness {
    ThreadWitness {
        user_s: facts.usage.user_s,
        system_s: facts.usage.system_s,
        voluntary_switches: facts.usage.voluntary_switches,
        involuntary_switches: facts.usage.involuntary_switches,
        steal_s: facts.steal_s,
        retransmitted_segments: facts.retransmitted_segments,
    }
}

/// A histogram of nanoseconds as it stands on the wire; none if it is empty.
pub fn latency(histogram: &Histogram<u64>) -> Option<Latency> {
    if histogram.is_empty() {
        return None;
    }
    let at = |quantile| histogram.value_at_quantile(quantile);
    let mut curve = vec![(0.0, histogram.min())];
    let points = histogram.iter_quantiles(CURVE_POINTS_PER_HALVING);
    curve.extend(points.map(|point| (point.quantile_iterated_to(), point.value_iterated_to())));
    let mut bytes = Vec::new();
    // Writing to memory can only fail for a histogram that does not fit it.
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    Some(Latency {
        count: histogram.len(),
        min_ns: histogram.min().cast_signed(),
        mean_ns: histogram.mean(),
        stddev_ns: histogram.stdev(),
        max_ns: histogram.max(),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        p9999_ns: at(0.9999),
        curve,
        histogram: written.map_or_else(|_| String::new(), |_| STANDARD.encode(&bytes)),
    })
}
