//! From what the worker did to messages.

use crate::convert::KnownPort;
use crate::protocol::{
    Backend, BackendName, CacheLine, HelloReply, Latency, Pacing, PortResult, Status, StreamResult,
    TrialResult, VERSION, Witness, WorkerWitness,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use pinchpoint_port::Availability;
use pinchpoint_traffic::gaps;
use pinchpoint_traffic::pacer::Pacer;
use pinchpoint_worker::Outcome;
use pinchpoint_worker::outcome::{LoopOutcome, PortOutcome, StreamOutcome};

/// Points of the percentile curve each time the distance to 100 % halves.
const CURVE_POINTS_PER_HALVING: u32 = 2;

/// The answer to `hello`.
pub fn hello(backends: Vec<Availability>, cores: Vec<usize>, clock_hz: u64) -> HelloReply {
    let backend = |found: Availability| Backend {
        name: match found.name {
            "af_packet" => BackendName::AfPacket,
            "dpdk" => BackendName::Dpdk,
            _ => BackendName::Mem,
        },
        available: found.available,
        detail: found.detail,
        why: found.why,
        hint: found.hint,
    };
    HelloReply {
        protocol: VERSION,
        engine: env!("CARGO_PKG_VERSION").to_owned(),
        backends: backends.into_iter().map(backend).collect(),
        cores,
        clock_hz,
    }
}

/// A trial's `result`.
pub fn result(
    trial: String,
    outcome: Outcome,
    ports: &[KnownPort],
    cache_line: Option<CacheLine>,
) -> TrialResult {
    let pacers = || outcome.streams.iter().map(|stream| &stream.pacer);
    let pacing = Pacing {
        largest_burst: pacers().map(Pacer::largest_burst).max().unwrap_or(0),
        latest_ns: pacers().filter_map(Pacer::latest_ns).max(),
    };
    let worker = worker(&outcome.worker);
    let streams = outcome.streams.into_iter();
    let port_outcomes = outcome.ports.into_iter().zip(ports);
    TrialResult {
        trial,
        status: if outcome.stopped {
            Status::Stopped
        } else {
            Status::Completed
        },
        duration_s: seconds(outcome.duration_ns),
        drain_s: seconds(outcome.drain_ns),
        streams: streams.map(|one| stream(one, ports)).collect(),
        ports: port_outcomes.map(|(one, known)| port(one, known)).collect(),
        pacing,
        witness: Witness {
            workers: vec![worker],
            cache_line,
        },
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn stream(outcome: StreamOutcome, ports: &[KnownPort]) -> StreamResult {
    let counts = outcome.counts;
    let histogram = outcome.latency.into_histogram();
    StreamResult {
        id: outcome.id,
        tx_port: ports[outcome.tx_port].name.clone(),
        rx_port: ports[outcome.rx_port].name.clone(),
        intended: outcome.pacer.intended(),
        offered: outcome.pacer.offered(),
        refused: outcome.refused,
        shortfall: outcome.pacer.shortfall(),
        sent: outcome.sent,
        received: counts.received,
        lost: outcome.sent - counts.received,
        duplicated: counts.duplicated,
        reordered: counts.reordered,
        reorder_distance_max: counts.reorder_distance_max,
        corrupt: counts.corrupt,
        latency: (!histogram.is_empty()).then(|| latency(&histogram)),
    }
}

fn latency(histogram: &Histogram<u64>) -> Latency {
    let at = |quantile| histogram.value_at_quantile(quantile);
    let mut curve = vec![(0.0, histogram.min())];
    let points = histogram.iter_quantiles(CURVE_POINTS_PER_HALVING);
    curve.extend(points.map(|point| (point.quantile_iterated_to(), point.value_iterated_to())));
    let mut bytes = Vec::new();
    // Writing to memory can only fail for a histogram that does not fit it.
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    Latency {
        count: histogram.len(),
        min_ns: histogram.min(),
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
    }
}

fn port(outcome: PortOutcome, known: &KnownPort) -> PortResult {
    let own = ("engine_tx_full_bursts".to_owned(), outcome.full);
    PortResult {
        name: known.name.clone(),
        sent: outcome.sent,
        refused: outcome.refused,
        received: outcome.counts.received,
        foreign: outcome.counts.foreign,
        late: outcome.counts.late,
        rx_missed: outcome.rx_missed,
        stats: outcome.stats.into_iter().chain([own]).collect(),
    }
}

fn worker(outcome: &LoopOutcome) -> WorkerWitness {
    let gaps = &outcome.gaps;
    WorkerWitness {
        core: outcome.core,
        loops: outcome.turns,
        busy_share: outcome.busy_share,
        gap_threshold_ns: gaps::THRESHOLD_NS,
        gaps: gaps.over(),
        gap_total_ns: gaps.over_total_ns(),
        gap_max_ns: gaps.max_ns(),
        gap_max_at_s: seconds(gaps.max_at_ns().saturating_sub(outcome.start_ns)),
        gap_histogram: gaps.histogram(),
        steal_s: outcome.disturbance.steal_s,
        voluntary_switches: outcome.disturbance.voluntary_switches,
        involuntary_switches: outcome.disturbance.involuntary_switches,
    }
}
