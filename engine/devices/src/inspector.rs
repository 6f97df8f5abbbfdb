//! Says what arrives: how much, how evenly, of which sizes and flows, and whether
//! its checksums are right. With `forward` the ports are also joined in pairs, as a
//! [`crate::relay`] joins them.

use crate::relay::{Direction, Relay};
use pinchpoint_wire::tuple::{self, FiveTuple};
use pinchpoint_wire::verify::checksums_right;
use pinchpoint_worker::replies::Offer;
use pinchpoint_worker::standing::Standing;
use pinchpoint_worker::watched::{LoopAccount, PortAccount, Watched};
use pinchpoint_worker::{Core, Replies, Step, Workload};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter;

/// The most flows of one port that are counted; where there are more, only that is known.
pub const MOST_FLOWS: usize = 1 << 20;
/// Length of the periods by which bursts are judged.
pub const SHORT_NS: u64 = 1_000_000;
/// Length of the periods by which the rate is judged.
pub const LONG_NS: u64 = 100_000_000;
/// Periods of [`LONG_NS`] that are kept: an hour.
const MOST_LONG: usize = 36_000;

/// Frames by periods of one length, from the first frame on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Periods {
    /// Periods that have ended, silent ones included.
    pub count: u64,
    /// The most frames in one of them, or in the one that runs.
    pub most: u64,
    /// Frames in all of them.
    pub sum: u64,
    /// The sum of the squares of their frames.
    pub squares: f64,
    current: u64,
    frames: u64,
}

/// What arrived at one port.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Frames.
    pub frames: u64,
    /// Their bytes, without check sequence.
    pub bytes: u64,
    /// Bytes of the shortest.
    pub shortest: usize,
    /// Bytes of the longest.
    pub longest: usize,
    /// When the first burst came, since the start.
    pub first_ns: u64,
    /// When the last burst came.
    pub last_ns: u64,
    /// The longest time between two bursts.
    pub silence_ns: u64,
    /// By periods of [`SHORT_NS`].
    pub short: Periods,
    /// Frames in each period of [`LONG_NS`] that has ended, from the first frame on.
    pub long: Vec<u64>,
    long_now: Periods,
    unchecked: u64,
    /// Frames whose contents were looked at.
    pub checked: u64,
    /// Of those, frames with a wrong checksum or length.
    pub wrong: u64,
    /// Of those, frames that are no IP.
    pub not_ip: u64,
    /// Five-tuples of those, at most [`MOST_FLOWS`].
    pub flows: usize,
    /// Five-tuples whose reverse came in at another port.
    pub answered: usize,
}

/// What an inspector has seen since it started.
#[derive(Debug, Clone)]
pub struct Account {
    /// How its loop ran.
    pub ran: LoopAccount,
    /// By port.
    pub ports: Vec<PortAccount>,
    /// By port.
    pub seen: Vec<Seen>,
    /// By direction; none without forwarding.
    pub directions: Vec<Direction>,
}

/// The five-tuples of one port.
#[derive(Debug, Default)]
struct Flows {
    known: HashSet<u64>,
    reversed: Vec<u64>,
    last: Option<FiveTuple>,
}

/// The workload.
#[derive(Debug)]
pub struct Inspector {
    every: u64,
    seen: Vec<Seen>,
    flows: Vec<Flows>,
    relay: Option<Relay>,
    start_ns: u64,
    watched: Watched,
}

impl Periods {
    /// `count` frames in the period number `period`. If it is a new one, the frames of
    /// the one that has ended, and how many silent ones came between.
    #[inline(always)]
    fn add(&mut self, period: u64, count: u64) -> Option<(u64, u64)> {
        if period == self.current {
            self.frames += count;
            return None;
        }
        let frames = std::mem::replace(&mut self.frames, count);
        let silent = period - self.current - 1;
        self.current = period;
        self.count += 1 + silent;
        self.most = self.most.max(frames);
        self.sum += frames;
        self.squares += (frames as f64).powi(2);
        Some((frames, silent))
    }

    /// With the running period among those that may have had the most.
    fn so_far(&self) -> Self {
        Self {
            most: self.most.max(self.frames),
            ..self.clone()
        }
    }

    /// Variance over mean of the frames in a period: 0 as evenly as a clock, 1 as
    /// by chance; none with fewer than two periods or no frame in them.
    pub fn dispersion(&self) -> Option<f64> {
        let count = self.count as f64;
        let mean = self.sum as f64 / count;
        (self.count > 1 && self.sum > 0).then(|| {
            let variance = (self.squares - count * mean * mean) / (count - 1.0);
            variance.max(0.0) / mean
        })
    }
}

impl Flows {
    /// A five-tuple that has come.
    #[inline]
    fn add(&mut self, tuple: FiveTuple) {
        if self.last == Some(tuple) {
            return;
        }
        self.last = Some(tuple);
        if self.known.len() < MOST_FLOWS && self.known.insert(hash(&tuple)) {
            self.reversed.push(hash(&reversed(&tuple)));
        }
    }
}

fn hash(tuple: &FiveTuple) -> u64 {
    let mut hasher = DefaultHasher::new();
    tuple.hash(&mut hasher);
    hasher.finish()
}

fn reversed(tuple: &FiveTuple) -> FiveTuple {
    FiveTuple {
        protocol: tuple.protocol,
        src: tuple.dst,
        dst: tuple.src,
        src_port: tuple.dst_port,
        dst_port: tuple.src_port,
    }
}

impl Inspector {
    /// An inspector over ports that carry frames of at most `longest` bytes, which
    /// starts at `now_ns` and looks into every frame number `every`. With `forward`
    /// their number is even.
    pub fn new(longest: Vec<usize>, every: u64, forward: bool, now_ns: u64) -> Self {
        let ports = longest.len();
        // Allocated at full size: rehashing a table that grows takes long enough for the ring to fill up.
        let flows = || Flows {
            known: HashSet::with_capacity(MOST_FLOWS),
            reversed: Vec::with_capacity(MOST_FLOWS),
            last: None,
        };
        Self {
            every,
            seen: vec![Seen::default(); ports],
            flows: (0..ports).map(|_| flows()).collect(),
            relay: forward.then(|| Relay::new(longest, now_ns)),
            start_ns: now_ns,
            watched: Watched::new(ports, now_ns),
        }
    }

    /// What came, its flows counted.
    fn seen(&self) -> Vec<Seen> {
        let others = |own: usize| (0..self.flows.len()).filter(move |&port| port != own);
        let answered = |own: usize| {
            let reversed = self.flows[own].reversed.iter();
            let is_known =
                |flow: &&u64| others(own).any(|port| self.flows[port].known.contains(flow));
            reversed.filter(is_known).count()
        };
        let ports = self.seen.iter().enumerate();
        let counted = ports.map(|(port, seen)| Seen {
            short: seen.short.so_far(),
            flows: self.flows[port].known.len(),
            answered: answered(port),
            ..seen.clone()
        });
        counted.collect()
    }
}

impl Workload for Inspector {
    type Outcome = Account;

    fn longest_reply(&self, core: &Core<'_>, port: usize) -> usize {
        let relay = self.relay.as_ref();
        relay.map_or(0, |relay| relay.longest_reply(core, port))
    }

    #[inline(always)]
    fn poll(&mut self, _core: &mut Core<'_>) -> Step {
        Step::Sent(0)
    }

    #[inline(always)]
    fn on_burst(&mut self, port: usize, count: usize, now_ns: u64) {
        let seen = &mut self.seen[port];
        let at_ns = now_ns - self.start_ns;
        if seen.frames == 0 {
            seen.first_ns = at_ns;
        } else {
            seen.silence_ns = seen.silence_ns.max(at_ns - seen.last_ns);
        }
        seen.last_ns = at_ns;
        seen.frames += count as u64;
        let since_ns = at_ns - seen.first_ns;
        seen.short.add(since_ns / SHORT_NS, count as u64);
        if let Some((frames, silent)) = seen.long_now.add(since_ns / LONG_NS, count as u64) {
            let room = MOST_LONG.saturating_sub(seen.long.len());
            let ended = iter::once(frames).chain(iter::repeat_n(0, silent as usize));
            seen.long.extend(ended.take(room));
        }
        if let Some(relay) = &mut self.relay {
            relay.on_burst(port, count, now_ns);
        }
    }

    #[inline(always)]
    fn on_frame(&mut self, port: usize, frame: &[u8], now_ns: u64, replies: &mut Replies) {
        let seen = &mut self.seen[port];
        if seen.bytes == 0 {
            seen.shortest = frame.len();
        }
        seen.bytes += frame.len() as u64;
        seen.shortest = seen.shortest.min(frame.len());
        seen.longest = seen.longest.max(frame.len());
        seen.unchecked += 1;
        if seen.unchecked == self.every {
            seen.unchecked = 0;
            seen.checked += 1;
            match tuple::read(frame) {
                Some((tuple, _)) => self.flows[port].add(tuple),
                None => seen.not_ip += 1,
            }
            seen.wrong += u64::from(!checksums_right(frame));
        }
        if let Some(relay) = &mut self.relay {
            relay.on_frame(port, frame, now_ns, replies);
        }
    }

    #[inline(always)]
    fn on_replies(&mut self, port: usize, offer: Offer, fresh: bool) {
        if let Some(relay) = &mut self.relay {
            relay.on_replies(port, offer, fresh);
        }
    }

    fn publish(&mut self, core: &mut Core<'_>) {
        self.watched.look(core);
    }

    fn close(mut self, mut core: Core<'_>) -> Account {
        self.account(&mut core)
    }
}

impl Standing for Inspector {
    fn account(&mut self, core: &mut Core<'_>) -> Account {
        Account {
            ran: self.watched.ran(core),
            ports: self.watched.ports(core),
            seen: self.seen(),
            directions: self
                .relay
                .as_ref()
                .map_or_else(Vec::new, |relay| relay.directions().to_vec()),
        }
    }
}

#[cfg(test)]
#[path = "inspector_tests.rs"]
mod tests;
