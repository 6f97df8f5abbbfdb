//! Loads of connections, as they stand on the wire.

use super::{Mac, Status, present};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

message! {
    /// `connections` from the lab.
    #[allow(clippy::struct_excessive_bools)] // each is a key of its own
    ConnectionsRequest {
        trial: String,
        ports: Vec<String>,
        to: String,
        clients: String,
        client_ports: String,
        #[serde(deserialize_with = "present")]
        next_hop: Option<String>,
        rate_cps: u64,
        count: u64,
        ramp_s: f64,
        lead_s: f64,
        timeout_s: f64,
        hold_s: f64,
        hold_before: u16,
        work: String,
        requests: u32,
        request_bytes: u64,
        answer_bytes: u64,
        close: Closer,
        #[serde(deserialize_with = "present")]
        retry: Option<RetryRequest>,
        late: bool,
        #[serde(deserialize_with = "present")]
        sequence: Option<(u32, u32)>,
        seed: u64,
        one_isn: bool,
        #[serde(deserialize_with = "present")]
        sample_interval_s: Option<f64>,
        by_tuple: bool,
        order: bool,
        direct_return: bool,
        timestamps: bool,
        #[serde(deserialize_with = "present")]
        mac: Option<Mac>,
        #[serde(deserialize_with = "present")]
        server_mac: Option<Mac>,
        backends: Vec<SocketAddr>,
        down: Vec<OutageRequest>,
    }

    /// When a segment without an answer is sent again.
    RetryRequest { after_s: f64, times: u32, }

    /// A time at which a backend is down, since the first connection was due.
    OutageRequest {
        backend: u16,
        from_s: f64,
        #[serde(deserialize_with = "present")]
        until_s: Option<f64>,
        resets: bool,
    }

    /// `connections_sample` from the engine.
    ConnectionsSample {
        trial: String,
        #[serde(flatten)]
        counts: ConnectionsCounts,
    }

    /// What has been counted since the first connection was due.
    ConnectionsCounts {
        elapsed_s: f64,
        opened: u64,
        shortfall: u64,
        established: u64,
        answered: u64,
        completed: u64,
        refused: u64,
        reset: u64,
        timed_out_connecting: u64,
        timed_out_answering: u64,
        timed_out_closing: u64,
        wrong_backend: u64,
        backends: Vec<u64>,
        kept: Vec<u64>,
        left: Vec<u64>,
        down: Vec<u64>,
    }

    /// `connections_result` from the engine.
    ConnectionsResult {
        trial: String,
        status: Status,
        #[serde(deserialize_with = "present")]
        reason: Option<String>,
        #[serde(flatten)]
        account: ConnectionsAccount,
    }

    /// What became of connections. The first keys are those of [`Ran`], of all cores.
    ConnectionsAccount {
        core: usize,
        idle: String,
        elapsed_s: f64,
        busy_share: f64,
        away_share: f64,
        longest_away_s: f64,
        turns: u64,
        gaps: GapsTold,
        /// By core, where there are several.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cores: Vec<Ran>,
        ports: Vec<PortTold>,
        /// Null for `serve`, and as long as the next hop has not answered.
        #[serde(deserialize_with = "present")]
        client: Option<ClientTold>,
        /// The Ethernet address to which the client's frames went.
        #[serde(deserialize_with = "present")]
        next_hop: Option<String>,
        #[serde(deserialize_with = "present")]
        server: Option<ServerTold>,
        others: Vec<OthersTold>,
        /// Segments that backends gave to the client past the device; null without direct return.
        #[serde(deserialize_with = "present")]
        returned: Option<u64>,
        /// Segments that arrived at another core than their connection's; null with one core.
        #[serde(deserialize_with = "present")]
        handed: Option<HandedTold>,
    }

    /// How the loop of a core ran.
    Ran {
        core: usize,
        idle: String,
        elapsed_s: f64,
        /// Of the elapsed time, in turns that moved frames.
        busy_share: f64,
        /// Of the elapsed time, given away because nothing came.
        away_share: f64,
        longest_away_s: f64,
        turns: u64,
        gaps: GapsTold,
    }

    /// Times the loop stood still against its will.
    GapsTold { threshold_s: f64, count: u64, total_s: f64, longest_s: f64, }

    /// How a port was.
    PortTold {
        name: String,
        mode: String,
        #[serde(deserialize_with = "present")]
        rx_missed: Option<u64>,
        down_s: f64,
        #[serde(deserialize_with = "present")]
        failure: Option<String>,
        stats: BTreeMap<String, u64>,
    }

    /// Segments that were for another core.
    HandedTold { segments: u64, lost: u64, }

    /// What the client counted.
    ClientTold {
        opened: u64,
        shortfall: u64,
        established: u64,
        /// Of these, whose SYN's answer had a time stamp; 0 without time stamps.
        stamped: u64,
        answered: u64,
        completed: u64,
        refused: u64,
        reset: u64,
        timed_out_connecting: u64,
        timed_out_answering: u64,
        timed_out_closing: u64,
        unfinished: u64,
        most_open: u64,
        retransmitted: u64,
        duplicated: u64,
        early: u64,
        stale: u64,
        late: u64,
        foreign: u64,
        wrong_payload: u64,
        wrong_backend: u64,
        toa_right: u64,
        toa_wrong: u64,
        unsent: u64,
        /// Connections that a backend could not tell from another open one; null where that was not looked at.
        #[serde(deserialize_with = "present")]
        reused: Option<u64>,
        /// Since the connection was due; null before the first.
        #[serde(deserialize_with = "present")]
        connect_ns: Option<TimesTold>,
        #[serde(deserialize_with = "present")]
        answer_ns: Option<TimesTold>,
        #[serde(deserialize_with = "present")]
        close_ns: Option<TimesTold>,
        /// Of the first answer, where answers are of several segments; otherwise `answer_ns`.
        #[serde(deserialize_with = "present")]
        first_byte_ns: Option<TimesTold>,
        /// Of answers, in order and once.
        delivered_bytes: u64,
        /// From when the first connection was due until the last byte; null before that.
        #[serde(deserialize_with = "present")]
        goodput_bps: Option<f64>,
        /// Connections answered, by the backend's number.
        backends: Vec<u64>,
        /// The same by the source address that the backend saw.
        local: SourcesTold,
        /// Who gave the first answer, by connection, none where it did not come or was wrong; null
        /// where that was not asked for.
        #[serde(deserialize_with = "present")]
        order: Option<Vec<Option<u16>>>,
    }

    /// What the backends counted.
    ServerTold {
        backends: Vec<BackendTold>,
        elsewhere: u64,
        unacknowledged: u64,
        wrong_payload: u64,
        unsent: u64,
        /// SYNs by source address.
        sources: SourcesTold,
    }

    /// What one backend counted.
    BackendTold {
        syns: u64,
        requests: u64,
        fins: u64,
        closed: u64,
        resets: u64,
        toa: u64,
        down: u64,
        /// Segments of answers that it sent again.
        retransmitted: u64,
        /// SYNs with a time stamp.
        stamped: u64,
    }

    /// Frames of a port by what they were.
    OthersTold {
        port: String,
        other: u64,
        malformed: u64,
        fragments: u64,
        wrong_checksums: u64,
        answered: u64,
        segments: u64,
    }

    /// Times in nanoseconds.
    TimesTold {
        count: u64,
        min: u64,
        mean: f64,
        p50: u64,
        p90: u64,
        p99: u64,
        p999: u64,
        max: u64,
    }

    /// Counts by address.
    SourcesTold {
        listed: Vec<SourceTold>,
        /// Addresses that are not listed, as far as they were counted one by one.
        unlisted: usize,
        /// What came from addresses that are not listed.
        others: u64,
    }

    /// One address and its count.
    SourceTold { address: IpAddr, count: u64, }
}

words! {
    /// Which side closes a connection first.
    Closer {
        /// Who opened it.
        Client,
        /// Who answers.
        Backend,
    }
}
