//! How far a trial has come, and a worker that has sent.

use super::slices::SliceCounts;

/// How far a trial has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// All workers have sent.
    Sent,
    /// It has ended, however it did.
    Ended,
}

/// The end of sending, and the drain that follows.
pub(super) struct AllSent {
    pub(super) at_ns: u64,
    pub(super) busy_share: f64,
    pub(super) slices: Vec<SliceCounts>,
    /// Turns that a drain which is over may still take, to empty the rings.
    pub(super) turns_left: usize,
    /// Frames of this trial that had arrived when this was last looked at, and
    /// when their number last grew.
    pub(super) delivered: u64,
    pub(super) last_ns: u64,
    /// Whether the drain was over in the turn before.
    pub(super) looked: bool,
    /// When this worker saw that the other engines have sent.
    pub(super) released_ns: Option<u64>,
    /// Whether the core was given away in the turn before.
    pub(super) rested: bool,
}
