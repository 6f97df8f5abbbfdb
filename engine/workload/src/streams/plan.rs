//! What a trial is to do: for all workers, and for each.

use super::slices::Slices;
use pinchpoint_port::BURST;
use pinchpoint_port::xdp_live::LiveStream;
use pinchpoint_traffic::flows::FlowMap;
use pinchpoint_traffic::pacer::Pacer;
use pinchpoint_traffic::program::FrameProgram;
use pinchpoint_traffic::sent_bound::SentBound;
use std::sync::Arc;

/// Frames handed to a port at once, at most.
pub const TX_BURST: usize = BURST;

/// A stream as far as one worker sends it: all of it, or a part with sequence
/// numbers of its own. What every worker knows of it.
#[derive(Debug, Clone)]
pub struct Part {
    /// Index of the stream in the trial.
    pub stream: usize,
    /// Id carried in the signature: the stream's, with the number of the part in the high byte.
    pub id: u16,
    /// Who sends it, as an index into the workers; none: another engine does.
    pub worker: Option<usize>,
    /// The ports that expect it, as indexes into the session's: any of them may
    /// deliver a frame. None if nobody does, or if its frames carry no signature.
    pub rx_ports: Vec<usize>,
    /// How many flows take turns in it; none if the sequence number does not say
    /// which flow a frame is of.
    pub flow_count: Option<u64>,
    /// How many frames it has at most; none if that is not known.
    pub frames: Option<u64>,
    /// Whether received frames of it with a wrong checksum are corrupt.
    pub verify_checksums: bool,
    /// How far it has been sent, for those who receive it elsewhere; endless where
    /// another engine sends it.
    pub sent_bound: Arc<SentBound>,
    /// The flows to follow one by one, and how many of the first.
    pub flows: Option<(FlowMap, usize)>,
    /// Of a replay: the sorted hashes of its frames without signature.
    pub unsigned: Option<Arc<[u64]>>,
}

/// How a worker sends a part.
#[derive(Debug, Clone)]
pub struct PlannedStream {
    /// Which part of the trial's.
    pub part: usize,
    /// The frames.
    pub program: FrameProgram,
    /// When they are due.
    pub pacer: Pacer,
    /// Frames per second on average; none when unpaced.
    pub rate_fps: Option<f64>,
    /// The port that sends them, as an index into the worker's own ports.
    pub tx_port: usize,
    /// The frames as the kernel is to make them, if the port has it do so.
    pub live: Option<LiveStream>,
}

/// What one worker does.
#[derive(Debug, Clone)]
pub struct WorkerPlan {
    /// The core to run on.
    pub core: usize,
    /// What it sends.
    pub streams: Vec<PlannedStream>,
}

/// One trial.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Trial number carried in the signatures.
    pub epoch: u8,
    /// How long to send, in nanoseconds.
    pub duration_ns: u64,
    /// How long to receive after sending, in nanoseconds.
    pub drain_ns: u64,
    /// Where other engines take part: how long the start of the sending, and the
    /// end of the trial after it, are waited for, in nanoseconds. None: sending
    /// begins at once, and the trial ends with its drain.
    pub peer_timeout_ns: Option<u64>,
    /// Frames handed to a port at once, 1 to [`TX_BURST`].
    pub tx_burst: usize,
    /// Latency is recorded of every frame whose sequence number is a multiple
    /// of this.
    pub latency_every: u64,
    /// Whether the variation of latency from frame to frame is recorded.
    pub jitter: bool,
    /// Frames to keep of those sent and of those received, by each worker.
    pub capture: usize,
    /// Groups of streams that take turns; none: all are sent all the time.
    pub slices: Option<Slices>,
    /// How many streams there are.
    pub streams: usize,
    /// How many ports the session has.
    pub ports: usize,
    /// The streams' parts.
    pub parts: Vec<Part>,
    /// By worker, in the order of the session.
    pub workers: Vec<WorkerPlan>,
}
