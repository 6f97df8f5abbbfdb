//! The messages of socket workloads as they stand on the wire; section
//! "Sockets" of protocol/README.md says what they mean.

use serde::{Deserialize, Deserializer, Serialize};
use std::net::{IpAddr, SocketAddr};

/// Reads a key that may be null but must be there.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}

macro_rules! message {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(missing_docs)] // the README defines the keys, once
        pub struct $name { $($(#[$field_meta])* pub $field: $ty,)* }
    )*};
}

/// Any of them, with its `type`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// Runs a workload.
    Sockets(Box<SocketsRequest>),
    /// Totals of the running workload.
    SocketsSample(SocketsSample),
    /// A workload's account.
    SocketsResult(Box<SocketsResult>),
    /// Where a server listens whose client is elsewhere.
    SocketsListening(SocketsListening),
    /// Its account.
    SocketsServed(Box<SocketsServed>),
}

message! {
    /// `sockets` from the lab.
    SocketsRequest {
        trial: String,
        kind: Kind,
        transport: Transport,
        #[serde(deserialize_with = "present")]
        client: Option<Place>,
        #[serde(deserialize_with = "present")]
        server: Option<Place>,
        sources: Vec<IpAddr>,
        #[serde(deserialize_with = "present")]
        listen: Option<IpAddr>,
        port: u16,
        #[serde(deserialize_with = "present")]
        target: Option<SocketAddr>,
        connections: usize,
        request_bytes: usize,
        response_bytes: usize,
        #[serde(deserialize_with = "present")]
        rate_tps: Option<f64>,
        warm_up_s: f64,
        duration_s: f64,
        #[serde(deserialize_with = "present")]
        transactions: Option<u64>,
        timeout_s: f64,
        close: Close,
        wait: Wait,
        repeats: u32,
        #[serde(deserialize_with = "present")]
        sample_interval_s: Option<f64>,
    }

    /// Where a thread is to run.
    Place {
        #[serde(deserialize_with = "present")]
        netns: Option<String>,
        core: usize,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cpus: Vec<usize>,
    }

    /// `sockets_sample` from the engine.
    SocketsSample {
        trial: String,
        elapsed_s: f64,
        transactions: u64,
        failed: u64,
        received_bytes: u64,
    }

    /// `sockets_result` from the engine.
    SocketsResult {
        trial: String,
        status: Status,
        #[serde(deserialize_with = "present")]
        reason: Option<String>,
        #[serde(deserialize_with = "present")]
        hint: Option<String>,
        kind: Kind,
        transport: Transport,
        #[serde(deserialize_with = "present")]
        close: Option<Close>,
        wait: Wait,
        target: SocketAddr,
        client: PlaceFacts,
        #[serde(deserialize_with = "present")]
        server: Option<PlaceFacts>,
        #[serde(deserialize_with = "present")]
        source_ports: Option<u64>,
        runs: Vec<Run>,
        #[serde(deserialize_with = "present")]
        transactions_per_s: Option<Summary>,
        #[serde(deserialize_with = "present")]
        goodput_bps: Option<Summary>,
    }

    /// `sockets_listening` from the engine.
    SocketsListening {
        trial: String,
        address: SocketAddr,
    }

    /// `sockets_served` from the engine.
    SocketsServed {
        trial: String,
        status: Status,
        #[serde(deserialize_with = "present")]
        reason: Option<String>,
        address: SocketAddr,
        server: PlaceFacts,
        #[serde(deserialize_with = "present")]
        window: Option<ServedWindow>,
    }

    /// What a server counted in its window.
    ServedWindow {
        duration_s: f64,
        #[serde(deserialize_with = "present")]
        received_bytes: Option<u64>,
        #[serde(deserialize_with = "present")]
        goodput_bps: Option<f64>,
        per_second: Vec<u64>,
        #[serde(deserialize_with = "present")]
        trend: Option<Trend>,
        connections: Vec<ServedConnection>,
        thread: ThreadWitness,
    }

    /// What one stream brought.
    ServedConnection {
        received_bytes: u64,
        goodput_bps: f64,
    }

    /// Where a thread ran.
    PlaceFacts {
        core: usize,
        #[serde(deserialize_with = "present")]
        numa_node: Option<usize>,
    }

    /// One of the repeats.
    Run {
        began_ns: u64,
        duration_s: f64,
        #[serde(deserialize_with = "present")]
        intended: Option<u64>,
        #[serde(deserialize_with = "present")]
        shortfall: Option<u64>,
        #[serde(deserialize_with = "present")]
        transactions: Option<u64>,
        #[serde(deserialize_with = "present")]
        transactions_per_s: Option<f64>,
        #[serde(deserialize_with = "present")]
        failed: Option<u64>,
        #[serde(deserialize_with = "present")]
        failed_share: Option<f64>,
        failures: Failures,
        unfinished: u64,
        #[serde(deserialize_with = "present")]
        received_bytes: Option<u64>,
        #[serde(deserialize_with = "present")]
        goodput_bps: Option<f64>,
        #[serde(deserialize_with = "present")]
        latency: Option<Latency>,
        #[serde(deserialize_with = "present")]
        service: Option<Latency>,
        #[serde(deserialize_with = "present")]
        latest_ns: Option<u64>,
        per_second: Vec<u64>,
        #[serde(deserialize_with = "present")]
        trend: Option<Trend>,
        connections: Vec<Connection>,
        client: ThreadWitness,
        #[serde(deserialize_with = "present")]
        server: Option<ThreadWitness>,
        time_wait: [Option<u64>; 2],
        cache_line_ns: [Option<f64>; 2],
    }

    /// Failed transactions by kind.
    Failures {
        refused: u64,
        address_unavailable: u64,
        timeout: u64,
        reset: u64,
        short: u64,
        unreachable: u64,
        other: u64,
        #[serde(deserialize_with = "present")]
        first: Option<String>,
    }

    /// How a rate moved within its window.
    Trend {
        first_third_per_s: f64,
        last_third_per_s: f64,
        #[serde(deserialize_with = "present")]
        change: Option<Change>,
    }

    /// From one level to another.
    Change {
        at_s: f64,
        before_per_s: f64,
        after_per_s: f64,
    }

    /// One standing connection.
    Connection {
        #[serde(deserialize_with = "present")]
        transactions: Option<u64>,
        #[serde(deserialize_with = "present")]
        received_bytes: Option<u64>,
        #[serde(deserialize_with = "present")]
        goodput_bps: Option<f64>,
        #[serde(deserialize_with = "present")]
        retransmits: Option<u64>,
    }

    /// How a thread fared.
    ThreadWitness {
        user_s: f64,
        system_s: f64,
        voluntary_switches: u64,
        involuntary_switches: u64,
        #[serde(deserialize_with = "present")]
        steal_s: Option<f64>,
        #[serde(deserialize_with = "present")]
        retransmitted_segments: Option<u64>,
    }

    /// Latency, with the keys of a trial's latency. Its least is below 0 if, by the
    /// clocks of two hosts, a frame was received before it was sent.
    Latency {
        count: u64,
        min_ns: i64,
        mean_ns: f64,
        stddev_ns: f64,
        max_ns: u64,
        p50_ns: u64,
        p90_ns: u64,
        p99_ns: u64,
        p999_ns: u64,
        p9999_ns: u64,
        curve: Vec<(f64, u64)>,
        histogram: String,
    }

    /// Several runs together.
    Summary {
        mean: f64,
        stddev: f64,
        n: usize,
        #[serde(deserialize_with = "present")]
        ci95: Option<f64>,
    }
}

macro_rules! words {
    ($($(#[$meta:meta])* $name:ident { $($(#[$word_meta:meta])* $word:ident,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$word_meta])* $word,)* }
    )*};
}

words! {
    /// What one unit of work is.
    Kind {
        /// Bytes in one direction.
        Stream,
        /// Request and response on a standing connection.
        Rr,
        /// Connect, request, response, close.
        Crr,
    }

    /// What carries it.
    Transport {
        /// Connections.
        Tcp,
        /// Datagrams.
        Udp,
    }

    /// Who closes first.
    Close {
        /// The client.
        Client,
        /// The server.
        Server,
        /// The client, with a reset.
        Reset,
    }

    /// How threads wait.
    Wait {
        /// Asleep.
        Block,
        /// Polling.
        Spin,
    }

    /// How a workload ended.
    Status {
        /// At its time.
        Completed,
        /// On request.
        Stopped,
        /// Because it could not go on.
        Aborted,
    }
}
