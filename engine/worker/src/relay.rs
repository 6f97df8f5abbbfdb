//! Ports joined in pairs: what arrives at one end leaves through the other.
//!
//! A relay lets a host that speaks through the kernel reach a switch that does
//! not: one port is the host's interface, the other the switch's vhost-user
//! port. Frames are neither looked at nor touched.
//!
//! A burst is received into a buffer and offered to the other end. While some
//! of it is left, nothing more is received in that direction: what comes
//! meanwhile waits in the receiving port's ring, where it does no harm to a TCP
//! connection. What is left longer than [`Settings::patience_ns`] is dropped,
//! and counted as dropped at the port that did not take it. So, in each
//! direction and at any time, `received = sent + dropped + too_long + waiting`.

use crate::clock::Clock;
use pinchpoint_port::{BURST, Port, Sink, Source};
use pinchpoint_traffic::gaps::GapRecorder;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often ports are asked how they are, and whether somebody asks for the
/// account.
const PUBLISH_NS: u64 = 1_000_000;

/// What a turn that moved nothing ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// The next turn: the core belongs to the relay alone.
    Spin,
    /// The core goes to whoever waits for it (`sched_yield(2)`).
    Yield,
    /// The thread sleeps.
    Sleep(Duration),
}

/// How ports are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What a turn that moved nothing ends with.
    pub idle: Idle,
    /// How long a frame waits for the other end to take it.
    pub patience_ns: u64,
}

/// One end, with its name in the account.
pub struct End<P> {
    /// The name.
    pub name: String,
    /// The port.
    pub port: P,
}

/// What others tell a running relay.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    asked: AtomicBool,
}

impl Control {
    /// Ends the relay.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Asks for the account so far; it comes within milliseconds.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }
}

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

/// The frames of a burst between two ports.
struct Staged {
    bytes: Vec<u8>,
    /// Where each frame ends in `bytes`.
    ends: [usize; BURST],
    count: usize,
    /// The first frame that has not been taken.
    next: usize,
    /// Bytes of the longest frame that can be sent on.
    max_len: usize,
    /// Bytes and number of frames since the burst began; kept of too long ones as well.
    arrived_bytes: u64,
    too_long: u64,
}

impl Staged {
    fn new(max_len: usize) -> Self {
        Self {
            bytes: vec![0; max_len * BURST],
            ends: [0; BURST],
            count: 0,
            next: 0,
            max_len,
            arrived_bytes: 0,
            too_long: 0,
        }
    }

    fn left(&self) -> usize {
        self.count - self.next
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn clear(&mut self) {
        self.count = 0;
        self.next = 0;
        self.arrived_bytes = 0;
        self.too_long = 0;
    }
}

impl Sink for Staged {
    #[inline(always)]
    fn arrived(&mut self, _count: usize) {}

    #[inline(always)]
    fn frame(&mut self, frame: &[u8]) {
        self.arrived_bytes += frame.len() as u64;
        if frame.len() > self.max_len {
            self.too_long += 1;
            return;
        }
        let start = self.start(self.count);
        let end = start + frame.len();
        self.bytes[start..end].copy_from_slice(frame);
        self.ends[self.count] = end;
        self.count += 1;
    }
}

/// The frames of a burst that have not been taken.
struct Rest<'a>(&'a Staged);

impl Source for Rest<'_> {
    #[inline(always)]
    fn len(&self, index: usize) -> usize {
        let index = self.0.next + index;
        self.0.ends[index] - self.0.start(index)
    }

    #[inline(always)]
    fn frame(&mut self, index: usize, frame: &mut [u8]) {
        let index = self.0.next + index;
        frame.copy_from_slice(&self.0.bytes[self.0.start(index)..self.0.ends[index]]);
    }
}

/// One direction under way.
struct Lane {
    staged: Staged,
    counts: Direction,
    /// When the burst in hand was received.
    since_ns: u64,
}

impl Lane {
    fn new(from: usize, to: usize, max_len: usize) -> Self {
        Self {
            staged: Staged::new(max_len),
            counts: Direction {
                from,
                to,
                ..Direction::default()
            },
            since_ns: 0,
        }
    }

    /// Moves at most one burst; whether a frame moved.
    #[inline(always)]
    fn turn<P: Port>(&mut self, from: &mut P, to: &mut P, now_ns: u64, patience_ns: u64) -> bool {
        let (counts, staged) = (&mut self.counts, &mut self.staged);
        let fresh = staged.left() == 0;
        if fresh {
            staged.clear();
            let received = from.receive(staged) as u64;
            if received == 0 {
                return false;
            }
            counts.received += received;
            counts.received_bytes += staged.arrived_bytes;
            counts.too_long += staged.too_long;
            counts.largest_burst = counts.largest_burst.max(received);
            self.since_ns = now_ns;
        }
        let offered = staged.left();
        let taken = if offered == 0 {
            0
        } else {
            to.send(offered, Rest(staged))
        };
        staged.next += taken;
        counts.sent += taken as u64;
        if taken < offered {
            counts.held += u64::from(fresh);
            if now_ns - self.since_ns > patience_ns {
                counts.dropped += staged.left() as u64;
                staged.clear();
            }
        }
        fresh || taken > 0
    }

    fn account(&self) -> Direction {
        Direction {
            waiting: self.staged.left() as u64,
            ..self.counts
        }
    }
}

/// Two ports and the lanes between them.
struct Pair<P> {
    ends: [End<P>; 2],
    lanes: [Lane; 2],
    down_ns: [u64; 2],
    failures: [Option<String>; 2],
}

impl<P: Port> Pair<P> {
    fn new(index: usize, ends: [End<P>; 2]) -> Self {
        let (one, other) = (2 * index, 2 * index + 1);
        let max_len = |end: &End<P>| end.port.max_len();
        Self {
            lanes: [
                Lane::new(one, other, max_len(&ends[1])),
                Lane::new(other, one, max_len(&ends[0])),
            ],
            ends,
            down_ns: [0; 2],
            failures: [None, None],
        }
    }

    #[inline(always)]
    fn turn(&mut self, now_ns: u64, patience_ns: u64) -> bool {
        let [one, other] = &mut self.ends;
        let [there, back] = &mut self.lanes;
        there.turn(&mut one.port, &mut other.port, now_ns, patience_ns)
            | back.turn(&mut other.port, &mut one.port, now_ns, patience_ns)
    }

    /// Asks the ports how they are, which also lets a vhost-user server port
    /// notice that its client has come back.
    fn look(&mut self, since_last_ns: u64) {
        for (k, end) in self.ends.iter_mut().enumerate() {
            if let Some(why) = end.port.failure() {
                self.down_ns[k] += since_last_ns;
                self.failures[k] = Some(why);
            }
        }
    }

    fn account(&mut self) -> impl Iterator<Item = PortAccount> {
        let states = self.down_ns.iter().zip(&self.failures);
        self.ends
            .iter_mut()
            .zip(states)
            .map(|(end, (down_ns, failure))| PortAccount {
                name: end.name.clone(),
                mode: end.port.mode().to_owned(),
                rx_missed: end.port.rx_missed(),
                down_ns: *down_ns,
                failure: failure.clone(),
                stats: end.port.stats(),
            })
    }
}

/// A relay under way.
struct Relay<'a, P> {
    pairs: Vec<Pair<P>>,
    settings: Settings,
    clock: &'a Clock,
    gaps: GapRecorder,
    start_ns: u64,
    looked_ns: u64,
    busy_ns: u64,
    away_ns: u64,
    longest_away_ns: u64,
    turns: u64,
}

/// Moves frames between the two ends of each pair in the calling thread until
/// `control` says stop; returns the account. `tell` gets the account so far
/// whenever it is asked for, and must not wait.
pub fn run<P: Port>(
    pairs: Vec<[End<P>; 2]>,
    settings: Settings,
    clock: &Clock,
    control: &Control,
    mut tell: impl FnMut(Account),
) -> Account {
    let mut relay = Relay::new(pairs, settings, clock);
    let mut busy = false;
    loop {
        let now_ns = clock.now_ns();
        relay.begin_turn(now_ns, busy);
        if control.stop.load(Ordering::Relaxed) {
            return relay.account(now_ns);
        }
        if now_ns - relay.looked_ns >= PUBLISH_NS {
            relay.look(now_ns);
            if control.asked.swap(false, Ordering::Relaxed) {
                tell(relay.account(now_ns));
            }
        }
        busy = false;
        for pair in &mut relay.pairs {
            busy |= pair.turn(now_ns, settings.patience_ns);
        }
        if !busy {
            relay.give_away();
        }
    }
}

impl<'a, P: Port> Relay<'a, P> {
    fn new(pairs: Vec<[End<P>; 2]>, settings: Settings, clock: &'a Clock) -> Self {
        let pairs = pairs.into_iter().enumerate();
        let pairs = pairs.map(|(index, ends)| Pair::new(index, ends)).collect();
        let start_ns = clock.now_ns();
        Self {
            pairs,
            settings,
            clock,
            gaps: GapRecorder::new(start_ns),
            start_ns,
            looked_ns: start_ns,
            busy_ns: 0,
            away_ns: 0,
            longest_away_ns: 0,
            turns: 0,
        }
    }

    #[inline(always)]
    fn begin_turn(&mut self, now_ns: u64, busy: bool) {
        let gap_ns = self.gaps.tick(now_ns, busy);
        self.turns += 1;
        if busy {
            self.busy_ns += gap_ns;
        }
    }

    #[inline(always)]
    fn give_away(&mut self) {
        if self.settings.idle == Idle::Spin {
            std::hint::spin_loop();
            return;
        }
        let left_ns = self.clock.now_ns();
        self.gaps.tick(left_ns, false);
        match self.settings.idle {
            Idle::Sleep(time) => std::thread::sleep(time),
            _ => std::thread::yield_now(),
        }
        let now_ns = self.clock.now_ns();
        let away_ns = now_ns.saturating_sub(left_ns);
        self.away_ns += away_ns;
        self.longest_away_ns = self.longest_away_ns.max(away_ns);
        self.gaps.resume(now_ns);
    }

    #[inline(never)]
    fn look(&mut self, now_ns: u64) {
        let since_last_ns = now_ns - self.looked_ns;
        self.looked_ns = now_ns;
        for pair in &mut self.pairs {
            pair.look(since_last_ns);
        }
    }

    fn account(&mut self, now_ns: u64) -> Account {
        let lanes = self.pairs.iter().flat_map(|pair| &pair.lanes);
        Account {
            elapsed_ns: now_ns - self.start_ns,
            busy_ns: self.busy_ns,
            away_ns: self.away_ns,
            longest_away_ns: self.longest_away_ns,
            turns: self.turns,
            gaps: self.gaps.clone(),
            directions: lanes.map(Lane::account).collect(),
            ports: self.pairs.iter_mut().flat_map(Pair::account).collect(),
        }
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
