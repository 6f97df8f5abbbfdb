//! A port that damages what it receives, and knows exactly how.
//!
//! [`Faulty`] wraps any port and plays a device under test of which the truth
//! is known. Each received frame first waits as
//! [`Impairment`](crate::impair::Impairment) says, and may
//! find the queue full. Then it meets at most one of four faults, drawn from a
//! seeded generator. Every fault that took effect is counted: an account of the
//! frames shown afterwards can be compared with the truth, number by number.
//!
//! A frame arrives at the simulated device when the port is asked for frames.
//! An owner that does not ask for a while finds that all have arrived at once.

mod spec;

use crate::impair::{Clock, Line, Monotonic, Pool, Random};
use crate::{BURST, Port, Sink, Source};
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_wire::signature::{self, Reading};
use pinchpoint_wire::verify;

pub use spec::{Faults, OPTIONS};

/// Faults that took effect. What is said of reordering is exact if every
/// stream's frames arrive here in their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Truth {
    /// Frames that disappeared.
    pub lost: u64,
    /// Frames shown twice.
    pub duplicated: u64,
    /// Frames shown after at least one undamaged frame of the same stream
    /// that followed them.
    pub reordered: u64,
    /// Largest distance in the stream of such a frame from the last one of
    /// those shown before.
    pub reorder_distance_max: u64,
    /// Frames with a flipped bit.
    pub corrupt: u64,
    /// Frames that found the bottleneck's queue full.
    pub queue_dropped: u64,
}

/// Frames held back at once; no frame is held back beyond them.
const HELD_MAX: usize = BURST;
/// Frames held back are shown when none has come for this long.
const QUIET_NS: u64 = 5_000_000;
/// Bursts taken from the wrapped port at once: more than its peer sends
/// between two calls, so that frames wait here and not in its ring.
const BURSTS: usize = 16;
const FIRST_COVERED_BYTE: usize = 14;
/// The place of frames without a signature, behind those of all stream ids.
const UNSIGNED: u16 = u16::MAX;

/// Which frame of which stream it is, counted as they arrive.
#[derive(Debug, Clone, Copy)]
struct Tag {
    stream: u16,
    number: u64,
}

/// Frames of one stream.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    arrived: u64,
    /// One more than the highest number shown.
    shown: u64,
}

/// A frame held back.
struct Held {
    frame: Vec<u8>,
    tag: Tag,
    wait: u32,
}

/// A port whose receive side has faults.
pub struct Faulty<P, C = Monotonic> {
    inner: P,
    clock: C,
    /// Frames that wait; none if no frame does.
    line: Option<Line<Tag>>,
    /// Since when nothing has come although frames are held back.
    quiet_since_ns: Option<u64>,
    state: State,
}

struct State {
    faults: Faults,
    truth: Truth,
    random: Random,
    streams: Vec<Stream>,
    held: Vec<Held>,
    pool: Pool,
    scratch: Vec<u8>,
}

impl<P: Port> Faulty<P> {
    /// `inner` with `faults`.
    pub fn new(inner: P, faults: Faults) -> Self {
        Self::with_clock(inner, faults, Monotonic::default())
    }
}

impl<P: Port, C: Clock> Faulty<P, C> {
    /// `inner` with `faults` that happen in the time of `clock`.
    pub fn with_clock(inner: P, faults: Faults, clock: C) -> Self {
        let waits = faults.impairment.waits();
        let held = if faults.reorder > 0.0 { HELD_MAX } else { 0 };
        let mut random = Random::new(faults.seed);
        Self {
            inner,
            clock,
            line: waits.then(|| Line::new(faults.impairment, random.draw())),
            quiet_since_ns: None,
            state: State {
                faults,
                truth: Truth::default(),
                random,
                streams: vec![Stream::default(); usize::from(UNSIGNED) + 1],
                held: Vec::with_capacity(held),
                pool: Pool::with(held),
                scratch: Vec::new(),
            },
        }
    }

    /// The faults that took effect so far.
    pub fn truth(&self) -> Truth {
        self.state.truth
    }

    /// Frames that have arrived and are neither shown nor gone.
    pub fn waiting(&self) -> usize {
        self.line.as_ref().map_or(0, Line::len) + self.state.held.len()
    }

    /// Shows held frames once no frame has come for a while; returns how many.
    fn release_when_quiet<S: Sink>(&mut self, sink: &mut S) -> usize {
        if self.state.held.is_empty() || self.line.as_ref().is_some_and(|line| line.len() > 0) {
            self.quiet_since_ns = None;
            return 0;
        }
        let now_ns = self.clock.now_ns();
        let since_ns = *self.quiet_since_ns.get_or_insert(now_ns);
        if now_ns - since_ns < QUIET_NS {
            return 0;
        }
        let count = self.state.held.len();
        sink.arrived(count);
        while !self.state.held.is_empty() {
            self.state.release(0, sink);
        }
        count
    }
}

impl State {
    /// The next frame that arrives.
    fn tag(&mut self, frame: &[u8]) -> Tag {
        let stream = match signature::read(frame) {
            Reading::Intact(signature) => signature.stream,
            Reading::Corrupt { stream } => stream,
            Reading::Foreign => UNSIGNED,
        };
        let arrived = &mut self.streams[usize::from(stream)].arrived;
        *arrived += 1;
        Tag {
            stream,
            number: *arrived - 1,
        }
    }

    fn pass<S: Sink>(&mut self, frame: &[u8], tag: Tag, sink: &mut S) {
        let Faults {
            loss,
            duplicate,
            reorder,
            corrupt,
            ..
        } = self.faults;
        let dice = self.random.share();
        if dice < loss {
            self.truth.lost += 1;
        } else if dice < loss + corrupt && frame.len() > FIRST_COVERED_BYTE {
            self.truth.corrupt += 1;
            self.show_damaged(frame, tag, sink);
        } else if dice < loss + corrupt + reorder && self.held.len() < HELD_MAX {
            self.hold(frame, tag);
        } else {
            self.show(frame, tag, sink);
            if dice >= 1.0 - duplicate {
                self.truth.duplicated += 1;
                sink.frame(frame);
            }
            self.overtake(tag, sink);
        }
    }

    fn show<S: Sink>(&mut self, frame: &[u8], tag: Tag, sink: &mut S) {
        let shown = &mut self.streams[usize::from(tag.stream)].shown;
        if tag.number < *shown {
            let distance = *shown - 1 - tag.number;
            self.truth.reordered += 1;
            self.truth.reorder_distance_max = self.truth.reorder_distance_max.max(distance);
        } else {
            *shown = tag.number + 1;
        }
        sink.frame(frame);
    }

    fn show_damaged<S: Sink>(&mut self, frame: &[u8], tag: Tag, sink: &mut S) {
        self.scratch.clear();
        self.scratch.extend_from_slice(frame);
        let bit = self.flip(FIRST_COVERED_BYTE);
        if tag.stream != UNSIGNED && !is_noticed(&self.scratch) {
            // No checksum covers this bit; the signature's check covers all
            // of the signature.
            self.scratch[bit / 8] ^= 1 << (bit % 8);
            self.flip(frame.len() - signature::LEN);
        }
        sink.frame(&self.scratch);
    }

    /// Flips a bit of the copied frame, not before byte `first`; returns its
    /// place.
    fn flip(&mut self, first: usize) -> usize {
        let bits = 8 * (self.scratch.len() - first) as u64;
        let bit = 8 * first + (self.random.draw() % bits) as usize;
        self.scratch[bit / 8] ^= 1 << (bit % 8);
        bit
    }

    fn hold(&mut self, frame: &[u8], tag: Tag) {
        self.held.push(Held {
            frame: self.pool.copy(frame),
            tag,
            wait: self.faults.reorder_by,
        });
    }

    /// Frame `tag` has overtaken those of its stream that are held back.
    fn overtake<S: Sink>(&mut self, tag: Tag, sink: &mut S) {
        let mut at = 0;
        while let Some(held) = self.held.get_mut(at) {
            if held.tag.stream == tag.stream {
                held.wait = held.wait.saturating_sub(1);
                if held.wait == 0 {
                    self.release(at, sink);
                    continue;
                }
            }
            at += 1;
        }
    }

    /// Shows the frame held back at place `at`.
    fn release<S: Sink>(&mut self, at: usize, sink: &mut S) {
        let held = self.held.remove(at);
        self.show(&held.frame, held.tag, sink);
        self.pool.give_back(held.frame);
    }
}

/// Whether an account that verifies checksums sees that the frame is damaged.
fn is_noticed(frame: &[u8]) -> bool {
    matches!(signature::read(frame), Reading::Corrupt { .. }) || !verify::checksums_right(frame)
}

/// Passes frames through the faults on their way to the real sink.
struct Through<'a, S> {
    state: &'a mut State,
    sink: &'a mut S,
}

impl<S: Sink> Sink for Through<'_, S> {
    fn arrived(&mut self, count: usize) {
        self.sink.arrived(count);
    }

    fn frame(&mut self, frame: &[u8]) {
        let tag = self.state.tag(frame);
        self.state.pass(frame, tag, self.sink);
    }
}

/// Takes frames into the line where they wait.
struct Enter<'a> {
    state: &'a mut State,
    line: &'a mut Line<Tag>,
    now_ns: u64,
}

impl Sink for Enter<'_> {
    fn arrived(&mut self, _count: usize) {}

    fn frame(&mut self, frame: &[u8]) {
        let tag = self.state.tag(frame);
        let taken = self.line.enter(self.now_ns, frame, tag);
        self.state.truth.queue_dropped += u64::from(!taken);
    }
}

/// Lets frames into `line` and shows those that have left it, at most one
/// burst; returns how many.
fn wait_and_pass<P: Port, S: Sink>(
    inner: &mut P,
    line: &mut Line<Tag>,
    state: &mut State,
    now_ns: u64,
    sink: &mut S,
) -> usize {
    for _ in 0..BURSTS {
        let mut enter = Enter {
            state: &mut *state,
            line: &mut *line,
            now_ns,
        };
        if inner.receive(&mut enter) < BURST {
            break;
        }
    }
    let count = line.left(now_ns, BURST);
    if count > 0 {
        sink.arrived(count);
    }
    for _ in 0..count {
        if let Some((frame, tag)) = line.leave() {
            state.pass(&frame, tag, sink);
            line.give_back(frame);
        }
    }
    count
}

impl<P: Port, C: Clock> Port for Faulty<P, C> {
    fn send<S: Source>(&mut self, count: usize, source: S) -> usize {
        self.inner.send(count, source)
    }

    fn receive<S: Sink>(&mut self, sink: &mut S) -> usize {
        let count = match &mut self.line {
            Some(line) => {
                let now_ns = self.clock.now_ns();
                wait_and_pass(&mut self.inner, line, &mut self.state, now_ns, sink)
            }
            None => self.inner.receive(&mut Through {
                state: &mut self.state,
                sink,
            }),
        };
        if count > 0 {
            self.quiet_since_ns = None;
            return count;
        }
        self.release_when_quiet(sink)
    }

    fn link_up(&mut self) -> bool {
        self.inner.link_up()
    }

    fn failure(&mut self) -> Option<String> {
        self.inner.failure()
    }

    fn unsent(&mut self) -> u64 {
        self.inner.unsent()
    }

    fn mac(&self) -> Option<Mac> {
        self.inner.mac()
    }

    fn mode(&self) -> &str {
        self.inner.mode()
    }

    fn max_len(&self) -> usize {
        self.inner.max_len()
    }

    fn rings(&self) -> (u32, u32) {
        self.inner.rings()
    }

    fn rx_missed(&mut self) -> Option<u64> {
        self.inner.rx_missed()
    }

    fn stats(&mut self) -> Vec<(String, u64)> {
        let truth = self.state.truth;
        let mut stats = self.inner.stats();
        stats.extend([
            ("fault_lost".to_owned(), truth.lost),
            ("fault_duplicated".to_owned(), truth.duplicated),
            ("fault_reordered".to_owned(), truth.reordered),
            ("fault_corrupt".to_owned(), truth.corrupt),
            ("fault_queue_dropped".to_owned(), truth.queue_dropped),
        ]);
        stats
    }
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
