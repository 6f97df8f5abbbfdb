//! What a trial is to do: for all workers, and for each.

use pinchpoint_port::{AnyPort, BURST};
use pinchpoint_traffic::pacer::Pacer;
use pinchpoint_traffic::program::FrameProgram;
use pinchpoint_wire::ethernet::Mac;
use std::net::IpAddr;

/// Frames handed to a port at once, at most.
pub const TX_BURST: usize = BURST;

/// A stream, or one worker's part of it, to be sent.
#[derive(Debug, Clone)]
pub struct PlannedStream {
    /// Index of the stream in the trial; its parts have the same.
    pub stream: usize,
    /// Id carried in the signature; its own for each part, because each part
    /// counts its own sequence numbers.
    pub id: u8,
    /// The frames.
    pub program: FrameProgram,
    /// When they are due.
    pub pacer: Pacer,
    /// Frames per second on average; none when unpaced.
    pub rate_fps: Option<f64>,
    /// The port that sends them, as an index into the worker's own ports.
    pub tx_port: usize,
}

/// Where a stream, or a part of it, is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Index of the stream in the trial.
    pub stream: usize,
    /// Id carried in the signature.
    pub id: u8,
    /// Index of the port in the session.
    pub rx_port: usize,
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
    /// Whether the checksums of received frames are verified.
    pub verify_checksums: bool,
    /// Frames handed to a port at once, 1 to [`TX_BURST`].
    pub tx_burst: usize,
    /// Latency is recorded of every frame whose sequence number is a multiple
    /// of this.
    pub latency_every: u64,
    /// Frames to keep of those sent and of those received, by each worker.
    pub capture: usize,
    /// How many streams there are.
    pub streams: usize,
    /// How many ports the session has.
    pub ports: usize,
    /// The streams, or their parts, by the port that expects them.
    pub expected: Vec<Expected>,
    /// By worker, in the order of the session.
    pub workers: Vec<WorkerPlan>,
}

/// A port as one worker owns it: one queue.
pub struct WorkerPort {
    /// Index of the port in the session.
    pub index: usize,
    /// The queue.
    pub port: AnyPort,
    /// Addresses for which it answers ARP and neighbour solicitation.
    pub answers: Vec<(IpAddr, Mac)>,
}
