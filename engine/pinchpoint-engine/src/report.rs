//! From what the worker did to messages.

use crate::convert::{Known, KnownPort};
use crate::protocol::{
    Backend, BackendName, CacheLine, CaptureResult, FlowsResult, HelloReply, Jump, Loopback,
    OpenReply, OpenedPort, Pacing, PortResult, RunRequest, Silence, SliceResult, Status,
    StreamRequest, StreamResult, TrialResult, VERSION, Witness, WorkerWitness,
};
use pinchpoint_port::{AnyPort, Availability, Backend as PortBackend, Port, PortSpec, Stamps};
use pinchpoint_sockets::latency;
use pinchpoint_sockets::message::Latency;
use pinchpoint_traffic::gaps;
use pinchpoint_traffic::latency::LatencyRecorder;
use pinchpoint_traffic::pacer::Pacer;
use pinchpoint_wire::FCS_LEN;
use pinchpoint_worker::probe;
use pinchpoint_workload::streams::Outcome;
use pinchpoint_workload::streams::outcome::{LoopOutcome, PortOutcome, StreamOutcome};
use pinchpoint_workload::streams::slices::SliceCounts;
use std::time::{Duration, Instant};

mod connections;
pub mod standing;

/// Flows with losses that a result lists.
const MAX_LOSSES: usize = 1000;

/// The answer to `hello`.
pub fn hello(backends: Vec<Availability>, cores: Vec<usize>, clock_hz: u64) -> HelloReply {
    let backend = |found: Availability| Backend {
        name: match found.backend {
            PortBackend::Mem => BackendName::Mem,
            PortBackend::AfPacket => BackendName::AfPacket,
            PortBackend::AfXdp => BackendName::AfXdp,
            PortBackend::XdpLive => BackendName::XdpLive,
            PortBackend::Dpdk => BackendName::Dpdk,
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

/// The answer to `open`.
pub fn opened(specs: &[PortSpec], queues: &mut [Vec<AnyPort>]) -> OpenReply {
    let ports = specs.iter().zip(queues).filter_map(|(spec, queues)| {
        let count = queues.len() as u16;
        let first = queues.first_mut()?;
        Some(OpenedPort {
            name: spec.name.clone(),
            mac: first.mac().map(crate::protocol::Mac),
            mode: first.mode().to_owned(),
            link_up: true,
            queues: count,
            rx_ring: first.rings().0,
            tx_ring: first.rings().1,
            max_frame_bytes: first.max_len() + FCS_LEN,
            speed_bps: first.speed_bps(),
        })
    });
    OpenReply {
        ports: ports.collect(),
    }
}

/// The distance of each pair before a trial, in a moment in which nobody else
/// uses the second core if there are such moments within `wait` in all.
pub fn cache_lines_before(
    pairs: &[[usize; 2]],
    wait: Duration,
    widest: &mut probe::Widest,
) -> Vec<CacheLine> {
    let begun = Instant::now();
    let probed = pairs.iter().map(|&cores| {
        let left = wait.saturating_sub(begun.elapsed());
        let before = probe::quiet_distance(cores, left, widest);
        CacheLine {
            cores,
            before_ns: before.one_way_ns,
            after_ns: None,
            ipc_before: before.ipc,
            ipc_after: [None, None],
            occupied_ns: before.occupied_ns,
        }
    });
    probed.collect()
}

/// The same after the trial.
pub fn cache_lines_after(mut lines: Vec<CacheLine>, widest: &mut probe::Widest) -> Vec<CacheLine> {
    for line in &mut lines {
        let after = probe::quiet_distance(line.cores, Duration::ZERO, widest);
        line.after_ns = after.one_way_ns;
        line.ipc_after = after.ipc;
        line.occupied_ns[0] += after.occupied_ns[0];
        line.occupied_ns[1] += after.occupied_ns[1];
    }
    lines
}

/// The engine's own share of a latency.
pub fn loopback(latency: LatencyRecorder) -> Loopback {
    let histogram = latency.into_histogram();
    Loopback {
        frames: histogram.len(),
        min_ns: histogram.min(),
        p50_ns: histogram.value_at_quantile(0.5),
        p99_ns: histogram.value_at_quantile(0.99),
        max_ns: histogram.max(),
    }
}

/// What is known about a trial besides its account.
pub struct Beside {
    /// How far the cores are apart.
    pub cache_lines: Vec<CacheLine>,
    /// The engine's own share of a latency.
    pub loopback: Option<Loopback>,
    /// Where the frames kept for a look are.
    pub capture: Option<CaptureResult>,
}

/// A trial's `result`.
pub fn result(
    request: &RunRequest,
    outcome: Outcome,
    known: &Known,
    beside: Beside,
) -> TrialResult {
    let pacers = || outcome.streams.iter().flat_map(|stream| &stream.pacers);
    let pacing = Pacing {
        largest_burst: pacers().map(Pacer::largest_burst).max().unwrap_or(0),
        latest_ns: pacers().filter_map(Pacer::latest_ns).max(),
    };
    let start_ns = outcome.start_ns;
    let streams = outcome.streams.into_iter().zip(&request.streams);
    let ports = outcome.ports.into_iter().zip(&known.ports);
    let streams: Vec<StreamResult> = streams
        .map(|(one, wanted)| {
            let told = stream(one, wanted, start_ns, request.wall_clock);
            StreamResult {
                latency_clock: latency_clock(wanted, &known.ports),
                ..told
            }
        })
        .collect();
    let slices = request.slices.as_ref().map(|wanted| {
        let of_group = |group: usize| {
            let ids = &wanted.groups[group];
            streams.iter().filter(|stream| ids.contains(&stream.id))
        };
        let is_counted = |group| of_group(group).all(|stream| stream.received.is_some());
        let slices = outcome.slices.iter();
        slices
            .map(|one| slice(one, is_counted(one.group)))
            .collect()
    });
    TrialResult {
        trial: request.trial.clone(),
        status: match (&outcome.failure, outcome.stopped) {
            (Some(_), _) => Status::Aborted,
            (None, true) => Status::Stopped,
            (None, false) => Status::Completed,
        },
        reason: outcome.failure,
        duration_s: seconds(outcome.duration_ns),
        drain_s: seconds(outcome.drain_ns),
        streams,
        slices,
        ports: ports
            .map(|(one, known)| port(one, known, start_ns))
            .collect(),
        pacing,
        witness: Witness {
            workers: outcome.workers.iter().map(worker).collect(),
            cache_lines: beside.cache_lines,
            loopback: beside.loopback,
        },
        capture: beside.capture,
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn stream(
    outcome: StreamOutcome,
    request: &StreamRequest,
    start_ns: u64,
    wall_clock: bool,
) -> StreamResult {
    let sum =
        |of: fn(&Pacer) -> Option<u64>| -> Option<u64> { outcome.pacers.iter().map(of).sum() };
    let received = outcome.received.as_ref();
    let counts = received.map(|received| received.counts);
    let tracked = received.and_then(|received| received.flows);
    let losses = received.map(|received| received.losses.as_slice());
    let flows = tracked.zip(losses).map(|(flows, losses)| FlowsResult {
        tracked: flows.flows,
        lossy: flows.with_loss,
        losses: losses
            .iter()
            .take(MAX_LOSSES)
            .map(|loss| (loss.flow, loss.sent, loss.received))
            .collect(),
    });
    let since_start = |at_ns: u64| seconds(at_ns.saturating_sub(start_ns));
    let last_jump_ns = counts.and_then(|counts| counts.last_jump_ns);
    // With several queues a jump is no loss, and the last one is not known.
    let one_queue = counts.is_none_or(|counts| counts.shares < 2);
    let last_loss_ns = outcome.refused_ns.max(last_jump_ns).filter(|_| one_queue);
    let jump = counts.and_then(|counts| counts.largest_jump);
    // Of a stream that another engine sends.
    let is_sent = request.tx_port.is_some();
    let latencies = outcome
        .received
        .map(|received| received.latency.into_latencies());
    let times = latencies.as_ref().and_then(|found| {
        let min_ns = found.least_ns?;
        let told = latency(&found.latency)?;
        Some(Latency { min_ns, ..told })
    });
    let jitter = latencies.and_then(|found| latency(&found.jitter?));
    StreamResult {
        id: request.id,
        tx_port: request.tx_port.clone(),
        rx_port: request.rx_port.clone(),
        rx_ports: request.rx_ports.clone(),
        intended: sum(Pacer::intended).filter(|_| is_sent),
        offered: outcome.pacers.iter().map(Pacer::offered).sum(),
        refused: outcome.refused,
        shortfall: sum(Pacer::shortfall).filter(|_| is_sent),
        sent: outcome.sent,
        bytes_mean: outcome.mean_len + FCS_LEN as f64,
        received: counts.map(|counts| counts.received),
        lost: counts
            .filter(|_| is_sent)
            .map(|counts| outcome.sent - counts.received),
        duplicated: counts.map(|counts| counts.duplicated),
        reordered: counts.map(|counts| counts.reordered),
        reordered_in_flow: counts.and_then(|counts| counts.reordered_in_flow),
        reorder_distance_max: counts.map(|counts| counts.reorder_distance_max),
        reorder_histogram: counts.map_or_else(Vec::new, |counts| counts.reorder_distances.pairs()),
        corrupt: counts.map(|counts| counts.corrupt),
        late: counts.map(|counts| counts.late),
        misdelivered: counts.map(|_| outcome.misdelivered),
        largest_jump: jump.map(|jump| Jump {
            frames: jump.missing,
            at_s: since_start(jump.at_ns),
        }),
        last_loss_s: last_loss_ns.map(since_start),
        // Two engines have one time only by the system's clock.
        latency: times.filter(|_| is_sent || wall_clock),
        latency_clock: None,
        jitter,
        flows,
    }
}

/// Whose clock says when a stream's frames arrived; none if it is the engine's.
fn latency_clock(stream: &StreamRequest, ports: &[KnownPort]) -> Option<String> {
    let is_one =
        |name: &String| stream.rx_port.as_ref() == Some(name) || stream.rx_ports.contains(name);
    let mut stamps = ports.iter().filter(|port| is_one(&port.name));
    stamps.find_map(|port| match port.stamps {
        Stamps::Engine => None,
        Stamps::Kernel => Some("kernel".to_owned()),
        Stamps::Nic => Some("nic".to_owned()),
    })
}

fn slice(counts: &SliceCounts, is_counted: bool) -> SliceResult {
    SliceResult {
        group: counts.group,
        start_ns: counts.start_ns,
        length_ns: counts.length_ns,
        switch_ns: counts.switch_ns,
        offered: counts.offered,
        refused: counts.refused,
        received: is_counted.then_some(counts.received),
        gap_ns: counts.gap_ns,
    }
}

fn port(outcome: PortOutcome, known: &KnownPort, start_ns: u64) -> PortResult {
    let silence = outcome.counts.silence.map(|longest| Silence {
        ns: longest.len_ns,
        at_s: seconds(longest.at_ns.saturating_sub(start_ns)),
    });
    let own = [
        ("engine_tx_full_bursts".to_owned(), outcome.full),
        ("engine_rx_full_bursts".to_owned(), outcome.full_receives),
        ("engine_rx_cut_turns".to_owned(), outcome.cut_receives),
    ];
    PortResult {
        name: known.name.clone(),
        sent: outcome.sent,
        refused: outcome.refused,
        received: outcome.counts.received,
        foreign: outcome.counts.foreign,
        misdelivered: outcome.counts.misdelivered,
        late: outcome.counts.late,
        answered: outcome.answered,
        rx_missed: outcome.rx_missed,
        longest_silence: silence,
        stats: outcome.stats.into_iter().chain(own).collect(),
    }
}

fn worker(outcome: &LoopOutcome) -> WorkerWitness {
    let gaps = &outcome.gaps;
    let since_start = |at_ns: u64| seconds(at_ns.saturating_sub(outcome.start_ns));
    let longest = gaps.longest().iter();
    let longest = longest.map(|gap| (since_start(gap.at_ns), gap.len_ns));
    WorkerWitness {
        core: outcome.core,
        loops: outcome.turns,
        busy_share: outcome.busy_share,
        gap_threshold_ns: gaps::THRESHOLD_NS,
        gaps: gaps.over(),
        gap_total_ns: gaps.over_total_ns(),
        gap_max_ns: gaps.max_ns(),
        gap_max_at_s: since_start(gaps.max_at_ns()),
        gap_histogram: gaps.histogram(),
        gaps_longest: longest.collect(),
        steal_s: outcome.disturbance.steal_s,
        voluntary_switches: outcome.disturbance.voluntary_switches,
        involuntary_switches: outcome.disturbance.involuntary_switches,
        frequency_hz: outcome.frequency_hz,
    }
}
