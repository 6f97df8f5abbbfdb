//! Ports joined in pairs: what arrives at one end leaves through the other.
//!
//! A relay lets a host that speaks through the kernel reach a switch that does
//! not: one port is the host's interface, the other the switch's vhost-user
//! port. Frames are neither looked at nor touched.
//!
//! A burst is received into a buffer and offered to the other end. While some
//! of it is left, nothing more is received in that direction: what comes
//! meanwhile waits in the receiving port's ring, where it does no harm to a TCP
//! connection. What is left longer than the loop's patience is dropped,
//! and counted as dropped at the port that did not take it. So, in each
//! direction and at any time, `received = sent + dropped + too_long + waiting`.

use pinchpoint_port::Port;
use pinchpoint_traffic::gaps::GapRecorder;
use pinchpoint_worker::replies::Offer;
use pinchpoint_worker::standing::Standing;
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

/// What became of one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortAccount {
    /// Its name.
    pub name: String,
    /// Which implementation drives it.
    pub mode: String,
    /// Frames that found the receive ring full; none if the port cannot tell.
    pub rx_missed: Option<u64>,
    /// Nanoseconds without a link, to a millisecond.
    pub down_ns: u64,
    /// Why the link was down last.
    pub failure: Option<String>,
    /// Whatever else the port counts.
    pub stats: Vec<(String, u64)>,
}

/// What a relay has done since it started.
#[derive(Debug, Clone)]
pub struct Account {
    /// Nanoseconds since the start.
    pub elapsed_ns: u64,
    /// Nanoseconds in turns that moved frames.
    pub busy_ns: u64,
    /// Nanoseconds in which the core was given away, spinning excepted.
    pub away_ns: u64,
    /// The longest time the core was given away at once.
    pub longest_away_ns: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// How evenly they came, time given away excepted.
    pub gaps: GapRecorder,
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
    down_ns: Vec<u64>,
    failures: Vec<Option<String>>,
    start_ns: u64,
    looked_ns: u64,
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
            down_ns: vec![0; ports],
            failures: vec![None; ports],
            start_ns: now_ns,
            looked_ns: now_ns,
        }
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

    /// Asks the ports how they are, which also lets a vhost-user server port
    /// notice that its client has come back.
    fn publish(&mut self, core: &mut Core<'_>) {
        let since_last_ns = core.now_ns - self.looked_ns;
        self.looked_ns = core.now_ns;
        for (port, own) in core.ports.iter_mut().enumerate() {
            if let Some(why) = own.port.failure() {
                self.down_ns[port] += since_last_ns;
                self.failures[port] = Some(why);
            }
        }
    }

    fn close(mut self, mut core: Core<'_>) -> Account {
        self.account(&mut core)
    }
}

impl Standing for Relay {
    fn account(&mut self, core: &mut Core<'_>) -> Account {
        let states = self.down_ns.iter().zip(&self.failures);
        let ports = core.ports.iter_mut().zip(states);
        let ports = ports.map(|(own, (down_ns, failure))| PortAccount {
            name: own.name.clone(),
            mode: own.port.mode().to_owned(),
            rx_missed: own.port.rx_missed(),
            down_ns: *down_ns,
            failure: failure.clone(),
            stats: own.port.stats(),
        });
        Account {
            elapsed_ns: core.now_ns - self.start_ns,
            busy_ns: core.busy_ns,
            away_ns: core.away_ns,
            longest_away_ns: core.longest_away_ns,
            turns: core.turns,
            gaps: core.gaps.clone(),
            ports: ports.collect(),
            directions: self.directions.clone(),
        }
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
