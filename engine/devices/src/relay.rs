//! Ports joined in pairs: what arrives at one end leaves through the other.
//!
//! A relay lets a host that speaks through the kernel reach a switch that does
//! not: one port is the host's interface, the other the switch's vhost-user
//! port. Frames are neither looked at nor touched.
//!
//! A burst is received into a buffer and offered to the other end. While some
//! of it is left, nothing more is received in that direction: what comes
//! meanwhile waits in the receiving port's ring, where it does no harm to a TCP
//! connection. What is left longer than the loop's `reply_timeout_ns` is dropped,
//! and counted as dropped at the port that did not take it. So, in each
//! direction and at any time, `received = sent + dropped + too_long + waiting`.

use pinchpoint_worker::replies::Offer;
use pinchpoint_worker::standing::Standing;
use pinchpoint_worker::watched::{LoopAccount, PortAccount, Watched};
use pinchpoint_worker::{Core, Replies, Step, Workload};

/// One direction of a pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Direction {
    /// The port that receives, as an index into the account's ports.
    pub from: usize,
    /// The port that sends.
    pub to: usize,
    /// Frames that left the receive ring of `from`.
    pub received: u64,
    /// Their bytes, without check sequence.
    pub received_bytes: u64,
    /// Frames that `to` took.
    pub sent: u64,
    /// Frames that `to` did not take in time.
    pub dropped: u64,
    /// Frames longer than `to` carries.
    pub too_long: u64,
    /// Frames that are between the two.
    pub waiting: u64,
    /// Bursts of which `to` did not take all at once.
    pub held: u64,
    /// Most frames received at once.
    pub largest_burst: u64,
}

/// What a relay has done since it started.
#[derive(Debug, Clone)]
pub struct Account {
    /// How its loop ran.
    pub ran: LoopAccount,
    /// By port, the two of a pair in a row.
    pub ports: Vec<PortAccount>,
    /// By direction, the two of a pair in a row.
    pub directions: Vec<Direction>,
}

/// Ports joined in pairs: 0 with 1, 2 with 3, and so on.
#[derive(Debug)]
pub struct Relay {
    /// By the port that receives.
    directions: Vec<Direction>,
    /// Bytes of the longest frame that each port carries.
    longest: Vec<usize>,
    watched: Watched,
}

/// The other port of the pair.
fn other(port: usize) -> usize {
    port ^ 1
}

impl Relay {
    /// A relay over ports that carry frames of at most `longest` bytes, an even
    /// number of them, which starts at `now_ns`.
    pub fn new(longest: Vec<usize>, now_ns: u64) -> Self {
        let direction = |from| Direction {
            from,
            to: other(from),
            ..Direction::default()
        };
        let ports = longest.len();
        Self {
            directions: (0..ports).map(direction).collect(),
            longest,
            watched: Watched::new(ports, now_ns),
        }
    }

    /// By the port that receives.
    pub(crate) fn directions(&self) -> &[Direction] {
        &self.directions
    }
}

impl Workload for Relay {
    type Outcome = Account;

    fn longest_reply(&self, _core: &Core<'_>, port: usize) -> usize {
        self.longest[other(port)]
    }

    #[inline(always)]
    fn poll(&mut self, _core: &mut Core<'_>) -> Step {
        Step::Sent(0)
    }

    #[inline(always)]
    fn on_burst(&mut self, port: usize, count: usize, _now_ns: u64) {
        let direction = &mut self.directions[port];
        direction.received += count as u64;
        direction.largest_burst = direction.largest_burst.max(count as u64);
    }

    #[inline(always)]
    fn on_frame(&mut self, port: usize, frame: &[u8], _now_ns: u64, replies: &mut Replies) {
        let direction = &mut self.directions[port];
        direction.received_bytes += frame.len() as u64;
        let copy = |out: &mut [u8]| out.copy_from_slice(frame);
        if replies.push(direction.to, frame.len(), copy) {
            direction.waiting += 1;
        } else {
            direction.too_long += 1;
        }
    }

    #[inline(always)]
    fn on_replies(&mut self, port: usize, offer: Offer, fresh: bool) {
        let direction = &mut self.directions[port];
        direction.sent += offer.sent;
        direction.dropped += offer.dropped;
        direction.waiting = offer.waiting;
        direction.held += u64::from(fresh && offer.waiting + offer.dropped > 0);
    }

    fn publish(&mut self, core: &mut Core<'_>) {
        self.watched.look(core);
    }

    fn close(mut self, mut core: Core<'_>) -> Account {
        self.account(&mut core)
    }
}

impl Standing for Relay {
    fn account(&mut self, core: &mut Core<'_>) -> Account {
        Account {
            ran: self.watched.ran(core),
            ports: self.watched.ports(core),
            directions: self.directions.clone(),
        }
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
