//! What an account says when it is closed, and how several are added up.
//!
//! Several workers may each receive a part of a stream, those frames that
//! their queues deliver, into an account of their own. Merged, the counts of
//! frames are exact, under one condition: all copies of a frame arrive at one
//! queue, as they do when a device spreads frames by their addresses.
//! Where that does not hold, a copy at another queue passes for a distinct frame
//! and hides a lost one; [`StreamCounts::at_most`] finds what can be found of it.
//! Reordering, jumps and jitter compare a frame with the one before it, and
//! between queues there is no before: they are those within each queue.

use crate::flows::FlowTracker;
use crate::latency::LatencyRecorder;
use crate::powers::PowersOfTwo;
use crate::window::WINDOW;

/// Buckets for the distances of reordered frames: up to a whole window.
pub const DISTANCES: usize = WINDOW.ilog2() as usize + 1;

/// A jump in the sequence numbers of the frames that arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    /// Frames missing when the frame behind them arrived. Those that were
    /// only reordered may have come later, and then are not lost.
    pub missing: u64,
    /// When that frame arrived, in nanoseconds of the clock given to the
    /// account.
    pub at_ns: u64,
}

/// Counts of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Distinct intact frames.
    pub received: u64,
    /// The sum of the sequence numbers of these frames, modulo 2^64.
    pub sequence_sum: u64,
    /// Further copies of frames already received.
    pub duplicated: u64,
    /// Frames received after one with a higher sequence number.
    pub reordered: u64,
    /// Largest difference between a reordered frame's sequence number and the
    /// highest one received before it.
    pub reorder_distance_max: u64,
    /// Those of `reordered` that came after a later frame of their own flow
    /// (RFC 4737, with the flow as the packet type); none if the flow of a frame is
    /// not known. Flows arrive at one queue each, so this also holds where
    /// `shares` is above 1.
    pub reordered_in_flow: Option<u64>,
    /// All those differences.
    pub reorder_distances: PowersOfTwo<DISTANCES>,
    /// Frames with the engine's signature that arrived damaged.
    pub corrupt: u64,
    /// Frames that arrived when their trial had ended, or too far behind to
    /// be told from a copy.
    pub late: u64,
    /// The largest jump; none if there was none, or if `shares` is above 1.
    pub largest_jump: Option<Jump>,
    /// Frames that one behind them overtook; less those of them that came
    /// later, `reordered`, they are lost or still to come. If `shares` is above
    /// 1, those that took another queue are among them.
    pub passed_over: u64,
    /// When a frame with others missing before it last arrived, in nanoseconds
    /// of the clock given to the account; none if none did, or if `shares` is
    /// above 1.
    pub last_jump_ns: Option<u64>,
    /// Accounts that received frames of the stream: what is said of
    /// reordering is true within each of them.
    pub shares: u64,
}

/// `0 + 1 + ... + (count - 1)`, modulo 2^64.
const fn sum_below(count: u64) -> u64 {
    let last = count.saturating_sub(1);
    if count.is_multiple_of(2) {
        (count / 2).wrapping_mul(last)
    } else {
        count.wrapping_mul(last / 2)
    }
}

impl StreamCounts {
    /// Adds what another worker counted of the same stream.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.sequence_sum = self.sequence_sum.wrapping_add(other.sequence_sum);
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.reorder_distance_max = self.reorder_distance_max.max(other.reorder_distance_max);
        let in_flow = self.reordered_in_flow.zip(other.reordered_in_flow);
        self.reordered_in_flow = in_flow.map(|(one, other)| one + other);
        self.reorder_distances.merge(&other.reorder_distances);
        self.corrupt += other.corrupt;
        self.late += other.late;
        self.shares += other.shares;
        // What one share misses, another one has.
        (self.largest_jump, self.last_jump_ns) = match self.shares {
            0 | 1 => (
                self.largest_jump.or(other.largest_jump),
                self.last_jump_ns.or(other.last_jump_ns),
            ),
            _ => (None, None),
        };
        self.passed_over += other.passed_over;
    }

    /// Corrects merged counts of a stream of which `sent` frames were sent:
    /// more distinct frames than that cannot be, so the excess are copies
    /// that arrived at different queues.
    ///
    /// If it is exactly as many, and `contiguous` (the frames that were sent
    /// have the sequence numbers `0..sent`), but they are not the same frames,
    /// copies hide losses: one at least. More of them cannot be counted.
    pub fn at_most(&mut self, sent: u64, contiguous: bool) {
        let mut copies = self.received.saturating_sub(sent);
        let may_hide = self.shares > 1 && contiguous && self.received == sent;
        if may_hide && self.sequence_sum != sum_below(sent) {
            copies = 1;
        }
        self.received -= copies;
        self.duplicated += copies;
    }

    /// Notes that a frame arrived with `missing` frames before it missing.
    pub(crate) fn jumped(&mut self, missing: u64, at_ns: u64) {
        self.passed_over += missing;
        self.last_jump_ns = Some(at_ns);
        if self.largest_jump.is_none_or(|jump| missing > jump.missing) {
            self.largest_jump = Some(Jump { missing, at_ns });
        }
    }

    pub(crate) fn reordered(&mut self, distance: u64) {
        self.reordered += 1;
        self.reorder_distance_max = self.reorder_distance_max.max(distance);
        self.reorder_distances.record(distance);
    }
}

/// A time in which a port delivered nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// When it began, in nanoseconds of the clock given to the account.
    pub at_ns: u64,
    /// How long it was.
    pub len_ns: u64,
}

/// Counts of one port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Frames of this trial: distinct ones, copies and damaged ones.
    pub received: u64,
    /// Frames of an earlier trial, or too far behind to be distinguished from a copy.
    pub late: u64,
    /// Frames without our signature, or of a stream not expected here.
    pub foreign: u64,
    /// Those of `foreign` that are of this trial, and that another port expects.
    pub misdelivered: u64,
    /// When the port last delivered anything, in nanoseconds of the clock given
    /// to the account; none if it never did.
    pub last_ns: Option<u64>,
    /// The longest time between two bursts that it delivered; none if there
    /// were no two, or with several queues, of which each is silent by itself.
    pub silence: Option<Silence>,
}

impl PortCounts {
    /// Adds the counts of another queue of the same port.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.late += other.late;
        self.foreign += other.foreign;
        self.misdelivered += other.misdelivered;
        self.last_ns = self.last_ns.max(other.last_ns);
        self.silence = None;
    }

    /// Notes that something arrived at `now_ns`, or that the time ends then in
    /// which something could have.
    #[inline(always)]
    pub fn heard(&mut self, now_ns: u64) {
        if let Some(last_ns) = self.last_ns {
            let len_ns = now_ns.saturating_sub(last_ns);
            if self.silence.is_none_or(|longest| len_ns > longest.len_ns) {
                self.silence = Some(Silence {
                    at_ns: last_ns,
                    len_ns,
                });
            }
        }
        self.last_ns = Some(now_ns);
    }
}

/// Everything known of a stream that was received.
#[derive(Debug, Clone)]
pub struct StreamAccount {
    /// How many frames came back, and how.
    pub counts: StreamCounts,
    /// How long they took, and how evenly they came; none if another part of the same stream has it.
    pub latency: Option<LatencyRecorder>,
    /// How many came back of each flow, if flows are followed.
    pub flows: Option<FlowTracker>,
}

impl StreamAccount {
    /// Adds another worker's account of the same stream.
    pub fn merge(&mut self, other: Self) {
        self.counts.merge(&other.counts);
        match (&mut self.latency, other.latency) {
            (Some(ours), Some(theirs)) => ours.merge(theirs),
            (ours @ None, theirs) => *ours = theirs,
            (Some(_), None) => {}
        }
        match (&mut self.flows, other.flows) {
            (Some(ours), Some(theirs)) => ours.merge(&theirs),
            (ours @ None, theirs) => *ours = theirs,
            (Some(_), None) => {}
        }
    }
}

/// A closed account.
#[derive(Debug, Clone)]
pub struct Closed {
    /// By stream; none where nothing is known: no port here expected the
    /// stream.
    pub streams: Vec<Option<StreamAccount>>,
    /// By port.
    pub ports: Vec<PortCounts>,
    /// By stream: frames that came out of ports that do not expect them.
    pub misdelivered: Vec<u64>,
}

/// The sum of what several workers know of one stream; none if no one can
/// tell anything.
pub fn merged(accounts: impl IntoIterator<Item = Option<StreamAccount>>) -> Option<StreamAccount> {
    let known = accounts.into_iter().flatten();
    known.reduce(|mut sum, account| {
        sum.merge(account);
        sum
    })
}
