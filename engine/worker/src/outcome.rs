//! What a trial did.

use crate::witness::Disturbance;
use pinchpoint_traffic::counts::{PortCounts, StreamCounts};
use pinchpoint_traffic::gaps::GapRecorder;
use pinchpoint_traffic::latency::LatencyRecorder;
use pinchpoint_traffic::pacer::Pacer;

/// One stream's account.
#[derive(Debug, Clone)]
pub struct StreamOutcome {
    /// Stream id.
    pub id: u8,
    /// Index of the port that sent it.
    pub tx_port: usize,
    /// Index of the port that expected it.
    pub rx_port: usize,
    /// Intended and offered frames, shortfall, bursts.
    pub pacer: Pacer,
    /// Frames offered at their time that the port did not take.
    pub refused: u64,
    /// Frames the port took.
    pub sent: u64,
    /// What came back.
    pub counts: StreamCounts,
    /// How long it took.
    pub latency: LatencyRecorder,
}

/// One port's account.
#[derive(Debug, Clone)]
pub struct PortOutcome {
    /// Frames the port took.
    pub sent: u64,
    /// Frames offered at their time that the port did not take.
    pub refused: u64,
    /// Bursts of which the port did not take every frame.
    pub full: u64,
    /// What it delivered.
    pub counts: PortCounts,
    /// Frames that found its receive ring full; none if it cannot tell.
    pub rx_missed: Option<u64>,
    /// Increase of every other counter of the port.
    pub stats: Vec<(String, u64)>,
}

/// How the loop went.
#[derive(Debug, Clone)]
pub struct LoopOutcome {
    /// Core it ran on.
    pub core: usize,
    /// When the trial began, in the clock of the gaps.
    pub start_ns: u64,
    /// Turns of the loop, drain included.
    pub turns: u64,
    /// Share of the sending time spent in turns that sent or received.
    pub busy_share: f64,
    /// Time between turns, drain included.
    pub gaps: GapRecorder,
    /// What the host did to the worker meanwhile.
    pub disturbance: Disturbance,
}

/// A trial's complete account.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Whether the trial ended before its time.
    pub stopped: bool,
    /// How long it sent, in nanoseconds.
    pub duration_ns: u64,
    /// How long it received afterwards, in nanoseconds.
    pub drain_ns: u64,
    /// By stream, in the order of the plan.
    pub streams: Vec<StreamOutcome>,
    /// By port, in the order of the session.
    pub ports: Vec<PortOutcome>,
    /// How the worker fared.
    pub worker: LoopOutcome,
}
