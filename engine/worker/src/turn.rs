//! The hot loop: one core, one state, run to completion.
//!
//! In each turn the workload sends what is due, then what every port has
//! received goes to the workload frame by frame, then its answers are sent.

use crate::clock::Clock;
use crate::replies::{Offer, Replies};
use pinchpoint_port::{AnyPort, BURST, Port, Sink};
use pinchpoint_traffic::gaps::GapRecorder;
use pinchpoint_wire::ethernet::Mac;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// How often the workload publishes.
pub(crate) const PUBLISH_NS: u64 = 1_000_000;

/// A port as one worker owns it: one queue.
pub struct WorkerPort {
    /// Index of the port in the session.
    pub index: usize,
    /// Its name, to tell why a trial ended.
    pub name: String,
    /// The queue.
    pub port: AnyPort,
    /// Addresses for which it answers ARP and neighbour solicitation.
    pub answers: HashMap<IpAddr, Mac>,
}

/// What a turn that moved nothing ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// The next turn at once.
    Next,
    /// The next turn, after the processor's hint for loops that wait.
    Spin,
    /// The core goes to whoever waits for it (`sched_yield(2)`).
    Yield,
    /// The thread sleeps.
    Sleep(Duration),
}

/// How a loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What a turn that moved nothing ends with.
    pub idle: Idle,
    /// How long an answer that its port does not take is offered again. As long
    /// as one waits, nothing more is received from the port that it answers: what
    /// comes meanwhile waits in that port's ring.
    pub reply_timeout_ns: u64,
}

/// What [`Workload::poll`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It offered this many bursts to ports.
    Sent(usize),
    /// The work is done: the loop ends, and receives nothing more.
    End,
}

/// What a worker does.
///
/// Ports have numbers: their places among the worker's. Calls are in the order
/// [`poll`](Self::poll), then for each port the bursts it has, each with
/// [`on_burst`](Self::on_burst), its frames and [`on_replies`](Self::on_replies).
pub trait Workload {
    /// What is known at the end.
    type Outcome;

    /// Bytes of the longest answer to a frame of the port number `port`; 0 if
    /// there are none.
    fn longest_reply(&self, core: &Core<'_>, port: usize) -> usize;

    /// A turn begins: sends what is due.
    fn poll(&mut self, core: &mut Core<'_>) -> Step;

    /// `count` frames have left the ring of `port`; the clock says `now_ns`.
    fn on_burst(&mut self, port: usize, count: usize, now_ns: u64);

    /// One frame of that burst. It is gone when the call returns: answers are
    /// written into `replies`, and are sent when the burst is over.
    fn on_frame(&mut self, port: usize, frame: &[u8], now_ns: u64, replies: &mut Replies);

    /// Answers to frames of `port` were offered to the port that sends them;
    /// `fresh` if for the first time.
    fn on_replies(&mut self, port: usize, offer: Offer, fresh: bool);

    /// Called about once a millisecond, before [`poll`](Self::poll).
    fn publish(&mut self, core: &mut Core<'_>);

    /// The work is done.
    fn close(self, core: Core<'_>) -> Self::Outcome;
}

/// What a port's receive side has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Frames.
    pub frames: u64,
    /// Calls that returned a whole burst: more may have waited.
    pub full_bursts: u64,
    /// Turns that ended before a call returned less than a whole burst: the turn
    /// may not last longer.
    pub cut_turns: u64,
}

/// What a workload sees of the loop that runs it.
pub struct Core<'a> {
    /// The worker's ports.
    pub ports: &'a mut [WorkerPort],
    /// The engine's clock.
    pub clock: &'a Clock,
    /// The clock at the beginning of this turn.
    pub now_ns: u64,
    /// Turns so far.
    pub turns: u64,
    /// Nanoseconds in turns that moved frames.
    pub busy_ns: u64,
    /// Nanoseconds in which the core was given away.
    pub away_ns: u64,
    /// The longest time the core was given away at once.
    pub longest_away_ns: u64,
    /// How evenly turns came, time given away excepted.
    pub gaps: GapRecorder,
    /// What each port received.
    pub received: Vec<Received>,
    /// Whether the turn before moved frames.
    pub busy: bool,
    /// Whether the turn before received frames.
    pub any_received: bool,
}

/// A workload and the core it has.
pub struct Worker<'a, W> {
    core: Core<'a>,
    workload: W,
    settings: Settings,
    /// By port that received.
    replies: Vec<Replies>,
    /// By port: bursts that a turn may receive, beside as many as it sent.
    budgets: Vec<usize>,
    publish_at_ns: u64,
}

/// Hands the frames of a burst to the workload.
struct Arriving<'a, W> {
    workload: &'a mut W,
    replies: &'a mut Replies,
    clock: &'a Clock,
    port: usize,
    now_ns: u64,
}

impl<W: Workload> Sink for Arriving<'_, W> {
    #[inline(always)]
    fn arrived(&mut self, count: usize) {
        self.now_ns = self.clock.now_after_loads_ns();
        self.workload.on_burst(self.port, count, self.now_ns);
    }

    #[inline(always)]
    fn stamped(&mut self, at_ns: u64) {
        self.now_ns = at_ns;
    }

    #[inline(always)]
    fn frame(&mut self, frame: &[u8]) {
        self.workload
            .on_frame(self.port, frame, self.now_ns, self.replies);
    }
}

impl<'a> Core<'a> {
    fn new(ports: &'a mut [WorkerPort], clock: &'a Clock) -> Self {
        let now_ns = clock.now_ns();
        Self {
            received: vec![Received::default(); ports.len()],
            ports,
            clock,
            now_ns,
            turns: 0,
            busy_ns: 0,
            away_ns: 0,
            longest_away_ns: 0,
            gaps: GapRecorder::new(now_ns),
            busy: false,
            any_received: false,
        }
    }

    #[inline(always)]
    fn begin_turn(&mut self) {
        self.now_ns = self.clock.now_ns();
        let gap_ns = self.gaps.tick(self.now_ns, self.busy);
        self.turns += 1;
        if self.busy {
            self.busy_ns += gap_ns;
        }
    }

    /// How the loop goes is recorded anew, from `start_ns` on.
    pub fn begin_anew(&mut self, start_ns: u64) {
        self.gaps = GapRecorder::new(start_ns);
        self.gaps.tick(self.now_ns, false);
        (self.turns, self.busy_ns) = (1, 0);
        (self.away_ns, self.longest_away_ns) = (0, 0);
    }

    /// Leaves the core to others as `idle` says. That time is no gap.
    #[inline(never)]
    pub fn give_away(&mut self, idle: Idle) {
        match idle {
            Idle::Next => return,
            Idle::Spin => return std::hint::spin_loop(),
            Idle::Yield | Idle::Sleep(_) => {}
        }
        let left_ns = self.clock.now_ns();
        self.gaps.tick(left_ns, false);
        match idle {
            Idle::Sleep(time) => std::thread::sleep(time),
            _ => std::thread::yield_now(),
        }
        let now_ns = self.clock.now_ns();
        let away_ns = now_ns.saturating_sub(left_ns);
        self.away_ns += away_ns;
        self.longest_away_ns = self.longest_away_ns.max(away_ns);
        self.gaps.resume(now_ns);
    }
}

/// Bursts that a turn may receive from a port: a quarter of its ring, at least
/// one. A turn that empties a full ring would make frames late that are due.
fn budget(own: &WorkerPort) -> usize {
    (own.port.rings().0 as usize / 4 / BURST).max(1)
}

impl<'a, W: Workload> Worker<'a, W> {
    /// A loop over `ports` whose time begins now.
    pub fn new(
        ports: &'a mut [WorkerPort],
        workload: W,
        settings: Settings,
        clock: &'a Clock,
    ) -> Self {
        let core = Core::new(ports, clock);
        let replies = |port| Replies::new(workload.longest_reply(&core, port));
        let replies = (0..core.ports.len()).map(replies).collect();
        let budgets = core.ports.iter().map(budget).collect();
        Self {
            budgets,
            publish_at_ns: core.now_ns + PUBLISH_NS,
            core,
            workload,
            settings,
            replies,
        }
    }

    /// Runs until the workload is done.
    pub fn run(&mut self) {
        while self.turn() {}
    }

    /// What the workload knows.
    pub fn close(self) -> W::Outcome {
        self.workload.close(self.core)
    }

    /// One turn; false if the workload is done.
    #[inline(always)]
    pub fn turn(&mut self) -> bool {
        self.core.begin_turn();
        if self.core.now_ns >= self.publish_at_ns {
            self.publish();
        }
        let Step::Sent(bursts) = self.workload.poll(&mut self.core) else {
            return false;
        };
        let (received, replied) = self.receive(bursts);
        self.core.any_received = received;
        self.core.busy = bursts > 0 || received || replied;
        if !self.core.busy && self.settings.idle != Idle::Next {
            self.core.give_away(self.settings.idle);
        }
        true
    }

    #[inline(never)]
    fn publish(&mut self) {
        self.publish_at_ns = self.core.now_ns + PUBLISH_NS;
        self.workload.publish(&mut self.core);
    }

    /// Receives from every port until it has no whole burst left, but at most its
    /// budget and as many bursts as this turn sent: what is sent must not arrive
    /// faster than it is received. Sends answers. Returns whether frames came, and
    /// whether answers went.
    #[inline(always)]
    fn receive(&mut self, sent_bursts: usize) -> (bool, bool) {
        let (mut received, mut replied) = (false, false);
        for port in 0..self.core.ports.len() {
            if self.replies[port].waiting() > 0 {
                replied |= self.reply(port, false);
                if self.replies[port].waiting() > 0 {
                    continue;
                }
            }
            let mut left = self.budgets[port] + sent_bursts;
            loop {
                let count = self.burst(port);
                received |= count > 0;
                if self.replies[port].waiting() > 0 {
                    replied |= self.reply(port, true);
                }
                left -= 1;
                if count < BURST || self.replies[port].waiting() > 0 {
                    break;
                }
                if left == 0 {
                    self.core.received[port].cut_turns += 1;
                    break;
                }
            }
        }
        (received, replied)
    }

    /// Receives one burst from `port`; returns how many frames.
    #[inline(always)]
    fn burst(&mut self, port: usize) -> usize {
        let replies = &mut self.replies[port];
        replies.clear();
        let mut arriving = Arriving {
            workload: &mut self.workload,
            replies,
            clock: self.core.clock,
            port,
            now_ns: 0,
        };
        let count = self.core.ports[port].port.receive(&mut arriving);
        if count > 0 {
            self.replies[port].since_ns = self.core.now_ns;
            let received = &mut self.core.received[port];
            received.frames += count as u64;
            received.full_bursts += u64::from(count == BURST);
        }
        count
    }

    /// Offers the answers to frames of `port` until one port takes no more;
    /// whether any was sent. What a port did not take in time is dropped.
    #[inline(never)]
    fn reply(&mut self, port: usize, fresh: bool) -> bool {
        let replies = &mut self.replies[port];
        let waited_ns = self.core.now_ns - replies.since_ns;
        let reply_timeout_ns = self.settings.reply_timeout_ns;
        let over = reply_timeout_ns == 0 || waited_ns > reply_timeout_ns;
        let mut any = false;
        while replies.waiting() > 0 {
            let ports = &mut *self.core.ports;
            let offer = replies.offer(|to| &mut ports[to].port, over);
            any |= offer.sent > 0;
            self.workload.on_replies(port, offer, fresh);
            if offer.waiting > 0 {
                break;
            }
        }
        any
    }
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
