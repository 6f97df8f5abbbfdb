//! The messages as they stand on the wire; protocol/README.md says what they
//! mean. Nothing here checks more than their shape.

use pinchpoint_sockets::message::{
    SocketsListening, SocketsRequest, SocketsResult, SocketsSample, SocketsServed,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::net::IpAddr;

macro_rules! message {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(missing_docs)] // the README defines the keys, once
        pub struct $name { $($(#[$field_meta])* pub $field: $ty,)* }
    )*};
}

macro_rules! words {
    ($($(#[$meta:meta])* $name:ident { $($(#[$word_meta:meta])* $word:ident,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$word_meta])* $word,)* }
    )*};
}

pub mod connections;
mod layer;
mod stream;

pub use pinchpoint_sockets::message::Latency;

pub use connections::{ConnectionsRequest, ConnectionsResult, ConnectionsSample};
pub use layer::{EchoRequest, ExtensionRequest, Hex, LayerRequest, TcpFlag};
pub use stream::{FieldRequest, Op, Rate, Shape, Size, StreamRequest, Template, Wrong};

/// Version of the protocol spoken here.
pub const VERSION: u32 = 9;

/// Reads a key that may be null but must be there.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}

/// What the lab sends.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Asks for versions and abilities.
    Hello(HelloRequest),
    /// Takes cores and ports.
    Open(OpenRequest),
    /// Runs a trial.
    Run(RunRequest),
    /// Runs a workload over kernel sockets.
    Sockets(SocketsRequest),
    /// Opens connections over the open ports.
    Connections(Box<ConnectionsRequest>),
    /// Begins the sending of a trial that waits for it.
    Go(Empty),
    /// Ends the running trial, workload or load.
    Stop(Empty),
    /// Ends the session.
    Bye(Empty),
}

/// What the engine sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// Versions and abilities.
    Hello(HelloReply),
    /// The ports as opened.
    Open(OpenReply),
    /// The workers of a trial that waits for `go` receive.
    Begun(OfTrial),
    /// Such a trial has sent everything, and still receives.
    Sent(OfTrial),
    /// Totals of the running trial.
    Sample(Sample),
    /// A trial's account.
    Result(Box<TrialResult>),
    /// Totals of the running workload.
    SocketsSample(SocketsSample),
    /// A workload's account.
    SocketsResult(Box<SocketsResult>),
    /// Where a server listens whose client is another engine's.
    SocketsListening(SocketsListening),
    /// Such a server's account.
    SocketsServed(Box<SocketsServed>),
    /// Totals of the running load of connections.
    ConnectionsSample(ConnectionsSample),
    /// A load's account.
    ConnectionsResult(Box<ConnectionsResult>),
    /// What could not be done.
    Error(ErrorReply),
    /// The last line.
    Bye(Empty),
}

message! {
    /// A message without keys.
    Empty {}

    /// `hello` from the lab.
    HelloRequest { protocol: u32, }

    /// `open` from the lab.
    OpenRequest {
        workers: Vec<WorkerRequest>,
        eal_args: Vec<String>,
        ports: Vec<PortRequest>,
        link_timeout_s: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        longest_frame_bytes: Option<usize>,
    }

    /// One worker of `open`.
    WorkerRequest { core: usize, ports: Vec<String>, }

    /// One port of `open`.
    PortRequest {
        name: String,
        backend: BackendName,
        device: String,
        #[serde(deserialize_with = "present")]
        netns: Option<String>,
        rx_ring: u32,
        tx_ring: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        ring_behind: Option<u32>,
        answers: Vec<Address>,
    }

    /// An address that a port answers for.
    Address { ip: IpAddr, mac: Mac, }

    /// `run` from the lab.
    RunRequest {
        trial: String,
        epoch: u8,
        duration_s: f64,
        drain_s: f64,
        #[serde(deserialize_with = "present")]
        sample_interval_s: Option<f64>,
        probe_cores: Vec<[usize; 2]>,
        quiet_within_s: f64,
        verify_checksums: bool,
        tx_burst: usize,
        latency_every: u64,
        loopback: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        wall_clock: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        on_go: bool,
        #[serde(deserialize_with = "present")]
        capture: Option<CaptureRequest>,
        #[serde(deserialize_with = "present")]
        slices: Option<SlicesRequest>,
        streams: Vec<StreamRequest>,
    }

    /// Groups of streams that take turns.
    SlicesRequest {
        groups: Vec<Vec<u8>>,
        order: Vec<usize>,
        length_ns: u64,
        settle_ns: u64,
        discard_ns: u64,
        #[serde(deserialize_with = "present")]
        hold: Option<Vec<Vec<i32>>>,
    }

    /// Frames to keep for a look.
    CaptureRequest { file: String, frames: usize, }

    /// `hello` from the engine.
    HelloReply {
        protocol: u32,
        engine: String,
        backends: Vec<Backend>,
        cores: Vec<usize>,
        clock_hz: u64,
    }

    /// What a backend can do.
    Backend {
        name: BackendName,
        available: bool,
        #[serde(deserialize_with = "present")]
        detail: Option<String>,
        #[serde(deserialize_with = "present")]
        why: Option<String>,
        #[serde(deserialize_with = "present")]
        hint: Option<String>,
    }

    /// `open` from the engine.
    OpenReply { ports: Vec<OpenedPort>, }

    /// One opened port.
    OpenedPort {
        name: String,
        #[serde(deserialize_with = "present")]
        mac: Option<Mac>,
        mode: String,
        link_up: bool,
        queues: u16,
        rx_ring: u32,
        tx_ring: u32,
        max_frame_bytes: usize,
        #[serde(deserialize_with = "present")]
        speed_bps: Option<u64>,
    }

    /// `begun` and `sent` from the engine.
    OfTrial { trial: String, }

    /// `sample` from the engine.
    Sample {
        trial: String,
        elapsed_s: f64,
        offered: u64,
        sent: u64,
        received: u64,
        #[serde(deserialize_with = "present")]
        lost: Option<u64>,
        gaps_ns: u64,
        gap_max_ns: u64,
        streams: Vec<StreamSample>,
    }

    /// One stream in a `sample`.
    StreamSample {
        id: u8,
        sent: u64,
        received: u64,
    }

    /// `result` from the engine.
    TrialResult {
        trial: String,
        status: Status,
        #[serde(deserialize_with = "present")]
        reason: Option<String>,
        duration_s: f64,
        drain_s: f64,
        streams: Vec<StreamResult>,
        #[serde(deserialize_with = "present")]
        slices: Option<Vec<SliceResult>>,
        ports: Vec<PortResult>,
        pacing: Pacing,
        witness: Witness,
        #[serde(deserialize_with = "present")]
        capture: Option<CaptureResult>,
    }

    /// Where the kept frames are.
    CaptureResult {
        file: String,
        sent: usize,
        received: usize,
        #[serde(deserialize_with = "present")]
        error: Option<String>,
    }

    /// One stream's account.
    StreamResult {
        id: u8,
        #[serde(deserialize_with = "present")]
        tx_port: Option<String>,
        #[serde(deserialize_with = "present")]
        rx_port: Option<String>,
        rx_ports: Vec<String>,
        #[serde(deserialize_with = "present")]
        intended: Option<u64>,
        offered: u64,
        refused: u64,
        #[serde(deserialize_with = "present")]
        shortfall: Option<u64>,
        sent: u64,
        bytes_mean: f64,
        #[serde(deserialize_with = "present")]
        received: Option<u64>,
        #[serde(deserialize_with = "present")]
        lost: Option<u64>,
        #[serde(deserialize_with = "present")]
        duplicated: Option<u64>,
        #[serde(deserialize_with = "present")]
        reordered: Option<u64>,
        #[serde(deserialize_with = "present")]
        reordered_in_flow: Option<u64>,
        #[serde(deserialize_with = "present")]
        reorder_distance_max: Option<u64>,
        reorder_histogram: Vec<(u64, u64)>,
        #[serde(deserialize_with = "present")]
        corrupt: Option<u64>,
        #[serde(deserialize_with = "present")]
        late: Option<u64>,
        #[serde(deserialize_with = "present")]
        misdelivered: Option<u64>,
        #[serde(deserialize_with = "present")]
        largest_jump: Option<Jump>,
        #[serde(deserialize_with = "present")]
        last_loss_s: Option<f64>,
        #[serde(deserialize_with = "present")]
        latency: Option<Latency>,
        /// Whose clock says when frames arrived; absent: the engine's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        latency_clock: Option<String>,
        #[serde(deserialize_with = "present")]
        jitter: Option<Latency>,
        #[serde(deserialize_with = "present")]
        flows: Option<FlowsResult>,
    }

    /// What was counted in a slice.
    SliceResult {
        group: usize,
        start_ns: u64,
        length_ns: u64,
        #[serde(deserialize_with = "present")]
        switch_ns: Option<u64>,
        offered: u64,
        refused: u64,
        #[serde(deserialize_with = "present")]
        received: Option<u64>,
        gap_ns: u64,
    }

    /// The longest run of sequence numbers passed over.
    Jump { frames: u64, at_s: f64, }

    /// The longest time in which a port delivered nothing.
    Silence { ns: u64, at_s: f64, }

    /// The flows that were counted one by one.
    FlowsResult { tracked: u64, lossy: u64, losses: Vec<(u64, u64, u64)>, }

    /// One port's account.
    PortResult {
        name: String,
        sent: u64,
        refused: u64,
        received: u64,
        foreign: u64,
        misdelivered: u64,
        late: u64,
        answered: u64,
        #[serde(deserialize_with = "present")]
        rx_missed: Option<u64>,
        #[serde(deserialize_with = "present")]
        longest_silence: Option<Silence>,
        stats: BTreeMap<String, u64>,
    }

    /// How even the sending was.
    Pacing {
        largest_burst: u64,
        #[serde(deserialize_with = "present")]
        latest_ns: Option<u64>,
    }

    /// How the host behaved.
    Witness {
        workers: Vec<WorkerWitness>,
        cache_lines: Vec<CacheLine>,
        #[serde(deserialize_with = "present")]
        loopback: Option<Loopback>,
    }

    /// The engine's own share of a latency.
    Loopback { frames: u64, min_ns: u64, p50_ns: u64, p99_ns: u64, max_ns: u64, }

    /// How one worker fared.
    WorkerWitness {
        core: usize,
        loops: u64,
        busy_share: f64,
        gap_threshold_ns: u64,
        gaps: u64,
        gap_total_ns: u64,
        gap_max_ns: u64,
        gap_max_at_s: f64,
        gap_histogram: Vec<(u64, u64)>,
        gaps_longest: Vec<(f64, u64)>,
        #[serde(deserialize_with = "present")]
        steal_s: Option<f64>,
        voluntary_switches: u64,
        involuntary_switches: u64,
        #[serde(deserialize_with = "present")]
        frequency_hz: Option<u64>,
    }

    /// How far two cores are apart.
    CacheLine {
        cores: [usize; 2],
        #[serde(deserialize_with = "present")]
        before_ns: Option<f64>,
        #[serde(deserialize_with = "present")]
        after_ns: Option<f64>,
        ipc_before: [Option<f64>; 2],
        ipc_after: [Option<f64>; 2],
        occupied_ns: [u64; 2],
    }

    /// `error` from the engine.
    ErrorReply {
        code: ErrorCode,
        message: String,
        #[serde(deserialize_with = "present")]
        hint: Option<String>,
    }
}

words! {
    /// Which implementation drives a port.
    BackendName {
        /// Two ends in this process.
        Mem,
        /// A network interface through packet sockets.
        AfPacket,
        /// A network interface through AF_XDP sockets.
        AfXdp,
        /// A network interface that XDP live frames leave from.
        XdpLive,
        /// A DPDK ethdev.
        Dpdk,
    }

    /// How a trial ended.
    Status {
        /// At its time.
        Completed,
        /// Before its time, because the lab said so.
        Stopped,
        /// Before its time, because it could not go on.
        Aborted,
    }

    /// What kind of thing went wrong.
    ErrorCode {
        /// The line is not a JSON object of a known type and shape.
        Malformed,
        /// The two programs speak different versions.
        Protocol,
        /// A key has a value that cannot be met.
        Invalid,
        /// The request does not fit the state of the session.
        State,
        /// A port could not be opened.
        PortOpen,
        /// A link did not come up in time.
        LinkDown,
        /// DPDK did not get its hugepages; the process opens no further port.
        NoMemory,
        /// The engine failed; its ports are closed.
        Internal,
    }
}

/// An Ethernet address, written `02:00:00:00:00:01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mac(pub pinchpoint_wire::ethernet::Mac);

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let expected = || {
            D::Error::custom(format!(
                "'{text}' is not an Ethernet address, expected one like 02:00:00:00:00:01"
            ))
        };
        text.parse().map(Self).map_err(|_| expected())
    }
}
