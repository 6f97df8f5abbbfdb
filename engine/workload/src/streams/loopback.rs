//! The engine's own share of a latency.
//!
//! Latency is taken from the stamp, just before a burst is written, to the end
//! of the receive call that returned it. Part of that time is the engine's:
//! writing the rest of the burst, and coming round to the port again. It is
//! measured by the same loop, with the same frames at the same rate, over two
//! ports in memory that take no time of their own.

use super::live::Live;
use super::plan::{Part, Plan, PlannedStream, WorkerPlan};
use super::trial;
use pinchpoint_port::{AnyPort, mem};
use pinchpoint_traffic::latency::LatencyRecorder;
use pinchpoint_traffic::pacer::Pacer;
use pinchpoint_worker::{Clock, WorkerPort};
use std::collections::HashMap;
use std::sync::Arc;

/// How long it sends, in nanoseconds.
const DURATION_NS: u64 = 5_000_000;
const DRAIN_NS: u64 = 200_000;
/// The least rate: 100 frames, still so few that they do not meet.
const MIN_RATE_FPS: f64 = 20_000.0;
/// Frames that each direction holds: more than any burst.
const RING: usize = 512;

/// Sends the first stream of `plan` from memory to memory for 5 ms, on the
/// first worker's core and at that worker's whole rate (at least 20,000 frames
/// a second). None if nothing came back, the stream carries no time, or the
/// kernel makes its frames.
pub fn measure(plan: &Plan, clock: &Clock) -> Option<LatencyRecorder> {
    let first = plan
        .workers
        .iter()
        .find(|worker| !worker.streams.is_empty())?;
    let stream = first.streams.first()?;
    if stream.live.is_some() || !stream.program.is_stamped() {
        return None;
    }
    let rates = first.streams.iter().map(|stream| stream.rate_fps);
    let rate_fps: Option<f64> = rates.sum();
    let rate_fps = rate_fps.map(|rate_fps| rate_fps.max(MIN_RATE_FPS));
    let pacer = match rate_fps {
        Some(rate_fps) => Pacer::paced(rate_fps, DURATION_NS as f64 / 1e9, 0.0),
        None => Pacer::unpaced(),
    };
    let planned = PlannedStream {
        part: 0,
        pacer: pacer.within(RING as u32, 1.0),
        tx_port: 0,
        live: None,
        ..stream.clone()
    };
    let plan = Plan {
        duration_ns: DURATION_NS,
        peer_timeout_ns: None,
        drain_ns: DRAIN_NS,
        latency_every: 1,
        jitter: false,
        capture: 0,
        slices: None,
        streams: 1,
        ports: 2,
        parts: vec![Part {
            stream: 0,
            worker: Some(0),
            rx_ports: vec![1],
            frames: None,
            sent_bound: Arc::default(),
            flows: None,
            ..plan.parts[stream.part].clone()
        }],
        workers: vec![WorkerPlan {
            core: first.core,
            streams: vec![planned],
        }],
        ..plan.clone()
    };
    let (one, other) = mem::pair(RING);
    let port = |index, port| WorkerPort {
        index,
        name: "loopback".to_owned(),
        port: AnyPort::Mem(port),
        answers: HashMap::new(),
    };
    let ports = vec![vec![port(0, one), port(1, other)]];
    let live = Arc::new(Live::new(1, plan.parts.len()));
    let running = trial::start(ports, plan, clock, &live, |_| ()).ok()?;
    let (_, outcome) = running.join()?;
    let mut streams = outcome.ok()?.streams;
    streams.pop()?.received.map(|received| received.latency)
}
