//! What a workload did.

use crate::fault::{Fault, Faults};
use crate::stats::Summary;
use crate::trend::Trend;
use crate::usage::Usage;
use hdrhistogram::Histogram;
use std::net::SocketAddr;

/// How a workload ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// At its time.
    Completed,
    /// Early, on request.
    Stopped,
    /// Before its time, because it could not go on; the counts so far hold.
    Aborted,
}

/// Where a thread ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceFacts {
    /// The core.
    pub core: usize,
    /// The core's NUMA node; none if the kernel does not tell.
    pub numa_node: Option<usize>,
}

/// How a thread and its core fared during the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThreadFacts {
    /// What the thread used and how often it was switched.
    pub usage: Usage,
    /// Seconds the hypervisor ran something else on the core; none if the
    /// kernel does not tell. Counted in hundredths.
    pub steal_s: Option<f64>,
    /// TCP segments sent again in the thread's whole namespace.
    pub retransmitted_segments: Option<u64>,
}

/// One standing connection during the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Transactions that succeeded; none for a stream.
    pub transactions: Option<u64>,
    /// Payload bytes that the server received.
    pub received_bytes: u64,
    /// Segments that the client's side sent again since it connected; none
    /// over UDP.
    pub retransmits: Option<u64>,
}

/// One of the repeats.
#[derive(Debug, Clone)]
pub struct Run {
    /// When the window began, in nanoseconds of `CLOCK_MONOTONIC`: windows of
    /// several processes of one machine can be laid side by side.
    pub began_ns: u64,
    /// Length of the window that was counted, in nanoseconds.
    pub duration_ns: u64,
    /// Transactions planned in the window; none in a closed loop.
    pub intended: Option<u64>,
    /// Planned ones that were never begun for want of a free connection; none
    /// in a closed loop.
    pub shortfall: Option<u64>,
    /// Transactions of the window that succeeded.
    pub transactions: u64,
    /// Transactions of the window that failed, by kind.
    pub faults: Faults,
    /// What failed first.
    pub first_fault: Option<Fault>,
    /// Transactions under way when the run was stopped.
    pub unfinished: u64,
    /// Payload bytes that the server received in the window; of transactions,
    /// the requests of those that succeeded. Not counted, and 0, of a stream
    /// whose server is elsewhere.
    pub received_bytes: u64,
    /// Nanoseconds from the planned instant to the end of the response, and
    /// of `crr` to the end of the client's close. In a closed loop the planned
    /// instant is the begin. Empty for a stream.
    pub latency: Histogram<u64>,
    /// The same from the instant the transaction began; empty in a closed
    /// loop, where the two are one.
    pub service: Histogram<u64>,
    /// How late, in nanoseconds, the latest transaction began; none in a
    /// closed loop.
    pub latest_ns: Option<u64>,
    /// Transactions that ended, or bytes received of a stream, in each second
    /// of the window; the last second may be a part of one.
    pub per_second: Vec<u64>,
    /// How that moved within the window; none if the window was too short.
    pub trend: Option<Trend>,
    /// The standing connections, in the order they were opened; empty for
    /// `crr`.
    pub connections: Vec<Connection>,
    /// The client's thread.
    pub client: ThreadFacts,
    /// The server's thread; none if it is elsewhere.
    pub server: Option<ThreadFacts>,
    /// Sockets in TIME_WAIT in the client's namespace before and after.
    pub time_wait: [Option<u64>; 2],
    /// Distance of the two cores before and after: nanoseconds one way of a
    /// cache line; none on a single core.
    pub cache_line_ns: [Option<f64>; 2],
}

impl Run {
    /// Transactions per second that succeeded.
    pub fn transactions_per_s(&self) -> f64 {
        per_second(self.transactions as f64, self.duration_ns)
    }

    /// Payload bits per second that the server received.
    pub fn goodput_bps(&self) -> f64 {
        self.bps(self.received_bytes)
    }

    /// Bytes in the window as bits per second.
    pub fn bps(&self, bytes: u64) -> f64 {
        per_second(bytes as f64 * 8.0, self.duration_ns)
    }

    /// Failed transactions as a share of those that ended (RFC 9411 section
    /// 7 calls for less than 0.001 %); none if none ended.
    pub fn failed_share(&self) -> Option<f64> {
        let failed = self.faults.total();
        let ended = failed + self.transactions;
        (ended > 0).then(|| failed as f64 / ended as f64)
    }
}

fn per_second(amount: f64, duration_ns: u64) -> f64 {
    if duration_ns == 0 {
        return 0.0;
    }
    amount / (duration_ns as f64 / 1e9)
}

/// A workload's complete account.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Why it was aborted.
    pub reason: Option<String>,
    /// What the user can do about failures, if something is known.
    pub hint: Option<String>,
    /// Where the client connected to, in the last run.
    pub target: SocketAddr,
    /// Where the client ran.
    pub client: PlaceFacts,
    /// Where the server ran; none if another engine has it.
    pub server: Option<PlaceFacts>,
    /// Ports that the client's kernel may choose from, for each source.
    pub source_ports: Option<u64>,
    /// The repeats, in order; one that was stopped or aborted is the last.
    pub runs: Vec<Run>,
    /// Transactions per second over several repeats.
    pub transactions_per_s: Option<Summary>,
    /// Goodput in bits per second over several repeats.
    pub goodput_bps: Option<Summary>,
}

/// What a server did whose client is elsewhere.
#[derive(Debug, Clone)]
pub struct Served {
    /// Stopped, as it serves until then; or aborted.
    pub status: Status,
    /// Why it was aborted.
    pub reason: Option<String>,
    /// Where it listened.
    pub address: SocketAddr,
    /// Where it ran.
    pub server: PlaceFacts,
    /// What it counted; none if it was ended before its window.
    pub window: Option<ServedWindow>,
}

/// What a server counted in its window, which begins by its own clock when the
/// warm-up has passed since all connections that are to stand, or the first of
/// others, were accepted.
#[derive(Debug, Clone)]
pub struct ServedWindow {
    /// Its length in nanoseconds: shorter than asked for if it was stopped, or
    /// the last stream ended, before.
    pub duration_ns: u64,
    /// Payload bytes of streams, by connection in the order they were accepted;
    /// empty if requests were answered.
    pub received: Vec<u64>,
    /// All of them in each second.
    pub per_second: Vec<u64>,
    /// How that moved.
    pub trend: Option<Trend>,
    /// The server's thread.
    pub thread: ThreadFacts,
}

impl ServedWindow {
    /// Bytes in the window as bits per second.
    pub fn bps(&self, bytes: u64) -> f64 {
        per_second(bytes as f64 * 8.0, self.duration_ns)
    }
}
