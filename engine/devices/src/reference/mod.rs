//! A forwarder between two ports whose truth is known.
//!
//! Frames pass four places, in each direction:
//!
//! | place | what happens |
//! |---|---|
//! | `rx` | frames leave the port's ring; planted losses |
//! | `ring` | frames wait for service; those that find [`Truth::ring`] frames waiting are dropped |
//! | `table` | a frame is served at [`Truth::rate_fps`], for longer if its flow is new; rules drop; planted losses |
//! | `tx` | frames go to the other port; planted losses, and `full` if it does not take them |
//!
//! Service is paced by the clock, so the rate is that of the host's clock and not
//! of its processor. A core that stands still makes up for it: frames that arrived
//! meanwhile are served as if the device had gone on, and are only dropped if more
//! came than the ring and the service of that time have room for. What the core's
//! standing still cost beyond that (the real port's ring overflowed) the port counts
//! as missed; the account has the gaps of the loop.
//!
//! With [`Truth::hardware`], frames of offloaded flows are served by a second server, and
//! are none of [`Counts::software_frames`]. Frames leave in the order in which they came.
//!
//! At any time, in each direction, `received` is the sum of `sent`, `waiting` and
//! all [`Drops`].

mod lane;
mod rules;
pub(crate) mod server;

pub use lane::{Counts, Drops};
pub use rules::{Loss, Match, Rule};
pub use server::Pause;

use lane::Lane;
use pinchpoint_port::Port;
use pinchpoint_worker::replies::Offer;
use pinchpoint_worker::standing::Standing;
use pinchpoint_worker::watched::{LoopAccount, PortAccount, Watched};
use pinchpoint_worker::{Core, Replies, Step, Workload};

/// Frames that hardware forwards, past the software that serves the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hardware {
    /// Frames served per second, more than zero; none: as they come.
    pub rate_fps: Option<f64>,
    /// Whether a flow is only offloaded once a frame of its reply was seen, as a
    /// connection that is tracked is. Else it is from its second frame on.
    pub needs_reply: bool,
}

/// What is true of a device, in each direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Truth {
    /// Frames served per second, more than zero; none: as they come.
    pub rate_fps: Option<f64>,
    /// Frames that wait for service at most, the one being served included.
    pub ring: u32,
    /// What a frame of a new flow takes longer, in nanoseconds.
    pub new_flow_ns: u64,
    /// Flows that are remembered, each by its five-tuple; none is ever forgotten,
    /// and one for which there is no room stays new.
    pub flows: usize,
    /// Rules that drop; the first one that matches counts.
    pub rules: Vec<Rule>,
    /// Losses planted at the places.
    pub rx: Option<Loss>,
    /// See `rx`.
    pub table: Option<Loss>,
    /// See `rx`.
    pub tx: Option<Loss>,
    /// When the device stands still.
    pub pause: Option<Pause>,
    /// What it offloads; none: nothing.
    pub hardware: Option<Hardware>,
    /// Seed of the losses that are drawn.
    pub seed: u64,
}

impl Default for Truth {
    /// A device that forwards everything as it comes.
    fn default() -> Self {
        Self {
            rate_fps: None,
            ring: 1024,
            new_flow_ns: 0,
            flows: 1 << 16,
            rules: Vec::new(),
            rx: None,
            table: None,
            tx: None,
            pause: None,
            hardware: None,
            seed: 1,
        }
    }
}

/// What a device has done since it started.
#[derive(Debug, Clone)]
pub struct Account {
    /// How its loop ran.
    pub ran: LoopAccount,
    /// How its ports were.
    pub ports: Vec<PortAccount>,
    /// What came from the first port, and what came from the second.
    pub directions: [Counts; 2],
}

/// The workload.
#[derive(Debug)]
pub struct Reference {
    lanes: [Lane; 2],
    watched: Watched,
}

impl Reference {
    /// A device of which `truth` holds, between two ports with receive rings of
    /// `rings` frames that carry frames of at most `longest` bytes. It starts at
    /// `now_ns`.
    pub fn new(truth: &Truth, rings: [u32; 2], longest: [usize; 2], now_ns: u64) -> Self {
        let lane = |from: usize| {
            let longest = longest[1 - from];
            Lane::new(truth, from, rings[from] as usize, longest, now_ns)
        };
        Self {
            lanes: [lane(0), lane(1)],
            watched: Watched::new(2, now_ns),
        }
    }
}

impl Workload for Reference {
    type Outcome = Account;

    /// Nothing is answered in the same turn: frames are sent when they are served.
    fn longest_reply(&self, _core: &Core<'_>, _port: usize) -> usize {
        0
    }

    #[inline(always)]
    fn poll(&mut self, core: &mut Core<'_>) -> Step {
        let mut bursts = 0;
        for (from, lane) in self.lanes.iter_mut().enumerate() {
            bursts += lane.leave(core.now_ns, |count, frames| {
                core.ports[1 - from].port.send(count, frames)
            });
        }
        Step::Sent(bursts)
    }

    #[inline(always)]
    fn on_burst(&mut self, _port: usize, _count: usize, _now_ns: u64) {}

    #[inline(always)]
    fn on_frame(&mut self, port: usize, frame: &[u8], now_ns: u64, _replies: &mut Replies) {
        let [first, second] = &mut self.lanes;
        let (lane, opposite) = if port == 0 {
            (first, &*second)
        } else {
            (second, &*first)
        };
        lane.enter(frame, now_ns, opposite.flows());
    }

    fn on_replies(&mut self, _port: usize, _offer: Offer, _fresh: bool) {}

    fn publish(&mut self, core: &mut Core<'_>) {
        self.watched.look(core);
    }

    fn close(mut self, mut core: Core<'_>) -> Account {
        self.account(&mut core)
    }
}

impl Standing for Reference {
    fn account(&mut self, core: &mut Core<'_>) -> Account {
        Account {
            ran: self.watched.ran(core),
            ports: self.watched.ports(core),
            directions: [self.lanes[0].counts(), self.lanes[1].counts()],
        }
    }
}

#[cfg(test)]
mod tests;
