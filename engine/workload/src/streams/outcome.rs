//! What a trial did: by worker, and put together.

use super::slices::SliceCounts;
use pinchpoint_traffic::counts::{PortCounts, StreamAccount, StreamCounts};
use pinchpoint_traffic::flows::{FlowLoss, FlowTotals};
use pinchpoint_traffic::gaps::GapRecorder;
use pinchpoint_traffic::latency::LatencyRecorder;
use pinchpoint_traffic::pacer::Pacer;
use pinchpoint_worker::witness::Disturbance;

/// A part as it was sent.
#[derive(Debug, Clone)]
pub struct SentPart {
    /// Which part of the plan.
    pub part: usize,
    /// Intended and offered frames, shortfall, bursts.
    pub pacer: Pacer,
    /// Frames offered at their time that the port did not take.
    pub refused: u64,
    /// When that last happened, in nanoseconds of the engine's clock.
    pub refused_ns: Option<u64>,
    /// Frames the port took.
    pub sent: u64,
    /// Bytes of a frame on average, without check sequence.
    pub mean_len: f64,
    /// Whether the frames sent are those numbered from 0: then it is known how
    /// many of each flow were sent.
    pub contiguous: bool,
}

/// One worker's share of a trial.
#[derive(Debug, Clone)]
pub struct Share {
    /// Whether the sending ended before its time.
    pub stopped: bool,
    /// When the trial began, in nanoseconds of the engine's clock.
    pub start_ns: u64,
    /// When this worker had sent its last frame.
    pub sent_ns: u64,
    /// When it received no more.
    pub end_ns: u64,
    /// What it sent.
    pub sent: Vec<SentPart>,
    /// What it received, by part of the plan; none where none of its ports
    /// expected the part.
    pub received: Vec<Option<StreamAccount>>,
    /// By part of the plan: frames that came out of its ports, which do not
    /// expect them.
    pub misdelivered: Vec<u64>,
    /// What its ports did, by index in the session.
    pub ports: Vec<(usize, PortOutcome)>,
    /// What it counted in each slice, as far as it came.
    pub slices: Vec<SliceCounts>,
    /// How its loop went.
    pub worker: LoopOutcome,
    /// Frames it kept.
    pub captured: Vec<Captured>,
}

/// A frame that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Index of the port in the session.
    pub port: usize,
    /// Whether it was sent; else it was received.
    pub sent: bool,
    /// When, in nanoseconds of the engine's clock.
    pub at_ns: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// One stream's account.
#[derive(Debug, Clone, Default)]
pub struct StreamOutcome {
    /// How each part of it was paced.
    pub pacers: Vec<Pacer>,
    /// Frames offered at their time that the port did not take.
    pub refused: u64,
    /// When that last happened, in nanoseconds of the engine's clock.
    pub refused_ns: Option<u64>,
    /// Frames the port took.
    pub sent: u64,
    /// Bytes of a frame on average, without check sequence.
    pub mean_len: f64,
    /// Frames that came out of ports that do not expect them.
    pub misdelivered: u64,
    /// What came back; none if nobody could tell.
    pub received: Option<Received>,
}

/// What came back of a stream.
#[derive(Debug, Clone)]
pub struct Received {
    /// How many frames, and how.
    pub counts: StreamCounts,
    /// How long they took, and how evenly they came.
    pub latency: LatencyRecorder,
    /// The flows that were followed, all together; none if none were.
    pub flows: Option<FlowTotals>,
    /// Those of them with a loss.
    pub losses: Vec<FlowLoss>,
}

/// One port's account.
#[derive(Debug, Clone, Default)]
pub struct PortOutcome {
    /// Frames the port took.
    pub sent: u64,
    /// Frames offered at their time that the port did not take.
    pub refused: u64,
    /// Bursts of which the port did not take every frame.
    pub full: u64,
    /// Requests for its addresses that it answered.
    pub answered: u64,
    /// What it delivered.
    pub counts: PortCounts,
    /// Receive calls that returned a whole burst: more may have waited.
    pub full_receives: u64,
    /// Turns that left off before a receive call returned less than a whole burst.
    pub cut_receives: u64,
    /// Frames that found its receive ring full; none if it cannot tell.
    pub rx_missed: Option<u64>,
    /// Increase of every other counter of the port.
    pub stats: Vec<(String, u64)>,
}

/// How a worker's loop went.
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
    /// The core's frequency at the end, in Hz; none if the kernel does not tell.
    pub frequency_hz: Option<u64>,
}

/// A trial's complete account.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Whether the trial ended before its time.
    pub stopped: bool,
    /// Why it could not go on, if so.
    pub failure: Option<String>,
    /// How long it sent, in nanoseconds.
    pub duration_ns: u64,
    /// How long it received afterwards, in nanoseconds.
    pub drain_ns: u64,
    /// By stream, in the order of the plan.
    pub streams: Vec<StreamOutcome>,
    /// By slice, in the order of time; empty without slices.
    pub slices: Vec<SliceCounts>,
    /// By port, in the order of the session.
    pub ports: Vec<PortOutcome>,
    /// How the workers fared, in the order of the plan.
    pub workers: Vec<LoopOutcome>,
    /// Frames that were kept, in the order of time.
    pub captured: Vec<Captured>,
    /// When the trial began, in nanoseconds of the engine's clock.
    pub start_ns: u64,
}
