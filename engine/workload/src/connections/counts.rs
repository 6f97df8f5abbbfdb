//! What a client counts, and how long things took.

use pinchpoint_traffic::latency::LatencyRecorder;

/// What became of the connections, and what else arrived.
///
/// opened = completed + refused + reset + timed out + unfinished, always.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections whose SYN the port took.
    pub opened: u64,
    /// Connections that were due and were not opened, for want of time.
    pub shortfall: u64,
    /// Whose SYN was answered by a SYN.
    pub established: u64,
    /// Of these, whose SYN's answer had a time stamp.
    pub stamped: u64,
    /// Whose last answer came.
    pub answered: u64,
    /// That went as they should, to the end.
    pub completed: u64,
    /// Answered by a reset instead of a SYN.
    pub refused: u64,
    /// Reset later.
    pub reset: u64,
    /// Timed out waiting for the SYN's answer.
    pub timed_out_connecting: u64,
    /// Timed out waiting for an answer to a request.
    pub timed_out_answering: u64,
    /// Timed out waiting for the other side's FIN.
    pub timed_out_closing: u64,
    /// That have not ended.
    pub unfinished: u64,
    /// The most that were open at the same time.
    pub most_open: u64,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// Segments of a stage that the connection has left behind.
    pub duplicated: u64,
    /// Segments of a stage that the connection has not reached.
    pub early: u64,
    /// Segments of an earlier connection with the same tuple, where this one waits for the answer to its
    /// SYN. They are answered by a reset (RFC 9293 section 3.10.7.3).
    pub stale: u64,
    /// Segments of connections that have ended.
    pub late: u64,
    /// Segments that belong to no connection.
    pub foreign: u64,
    /// Answers that are not to the request that was sent.
    pub wrong_payload: u64,
    /// Answers from another backend than that of the connection's first answer.
    pub wrong_backend: u64,
    /// First answers whose TOA, or PROXY header, is the client's address and port.
    pub toa_right: u64,
    /// First answers where that is another.
    pub toa_wrong: u64,
    /// Segments to a server that did not fit the port's ring.
    pub unsent: u64,
}

impl Counts {
    /// Connections that ended by time-out, at any stage.
    pub fn timed_out(&self) -> u64 {
        self.timed_out_connecting + self.timed_out_answering + self.timed_out_closing
    }

    /// Adds those of another core. The most that were open at once are then the sum of what each
    /// core had at most, which all together had at most.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            opened,
            shortfall,
            established,
            stamped,
            answered,
            completed,
            refused,
            reset,
            timed_out_connecting,
            timed_out_answering,
            timed_out_closing,
            unfinished,
            most_open,
            retransmitted,
            duplicated,
            early,
            stale,
            late,
            foreign,
            wrong_payload,
            wrong_backend,
            toa_right,
            toa_wrong,
            unsent,
        } = other;
        self.opened += opened;
        self.shortfall += shortfall;
        self.established += established;
        self.stamped += stamped;
        self.answered += answered;
        self.completed += completed;
        self.refused += refused;
        self.reset += reset;
        self.timed_out_connecting += timed_out_connecting;
        self.timed_out_answering += timed_out_answering;
        self.timed_out_closing += timed_out_closing;
        self.unfinished += unfinished;
        self.most_open += most_open;
        self.retransmitted += retransmitted;
        self.duplicated += duplicated;
        self.early += early;
        self.stale += stale;
        self.late += late;
        self.foreign += foreign;
        self.wrong_payload += wrong_payload;
        self.wrong_backend += wrong_backend;
        self.toa_right += toa_right;
        self.toa_wrong += toa_wrong;
        self.unsent += unsent;
    }

    pub(super) fn open(&mut self, count: u64) {
        self.opened += count;
        self.unfinished += count;
        self.most_open = self.most_open.max(self.unfinished);
    }
}

/// What arrived of answers, in order and once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Bytes.
    pub bytes: u64,
    /// When the last came.
    pub last_ns: u64,
}

impl Delivered {
    #[inline(always)]
    pub(super) fn add(&mut self, bytes: usize, now_ns: u64) {
        self.bytes += bytes as u64;
        self.last_ns = now_ns;
    }

    /// Adds what came to another core.
    pub fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.last_ns = self.last_ns.max(other.last_ns);
    }
}

/// When something happened, since the connection was due; where connections are held, answers and
/// FINs since the request was due that they were held before.
#[derive(Debug, Clone)]
pub struct Times {
    /// The answer to the SYN.
    pub connect: LatencyRecorder,
    /// The first byte of the first answer, where answers are of several segments.
    pub first_byte: LatencyRecorder,
    /// The last answer; all of it.
    pub answer: LatencyRecorder,
    /// The other side's FIN.
    pub close: LatencyRecorder,
}

impl Times {
    /// Adds those of another core.
    pub fn merge(&mut self, other: &Self) {
        self.connect.merge(other.connect.clone());
        self.first_byte.merge(other.first_byte.clone());
        self.answer.merge(other.answer.clone());
        self.close.merge(other.close.clone());
    }
}

impl Default for Times {
    fn default() -> Self {
        let empty = || LatencyRecorder::new(1, false);
        Self {
            connect: empty(),
            first_byte: empty(),
            answer: empty(),
            close: empty(),
        }
    }
}
