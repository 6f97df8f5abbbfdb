//! A port that damages what it receives, and knows exactly how.
//!
//! [`Faulty`] wraps any port. Each received frame meets at most one fault,
//! drawn from a seeded generator, and every fault that took effect is counted:
//! an account of the frames shown afterwards can be compared with the truth.

use crate::{Port, Sink, Source};
use pinchpoint_wire::ethernet::Mac;

/// How often which fault strikes, each between 0 and 1, their sum at most 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Faults {
    /// The frame disappears.
    pub loss: f64,
    /// The frame is shown twice.
    pub duplicate: f64,
    /// The frame is held back behind the next [`HOLD`] frames.
    pub reorder: f64,
    /// One bit behind the Ethernet header is flipped.
    pub corrupt: f64,
    /// Seed of the generator.
    pub seed: u64,
}

/// Faults that took effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Truth {
    /// Frames that disappeared.
    pub lost: u64,
    /// Frames shown twice.
    pub duplicated: u64,
    /// Frames shown after at least one undamaged frame that followed them.
    pub reordered: u64,
    /// Frames with a flipped bit.
    pub corrupt: u64,
}

/// Frames that overtake one that is held back, unless traffic ends before.
pub const HOLD: u32 = 5;
const FIRST_COVERED_BYTE: usize = 14;

/// A frame held back.
struct Held {
    frame: Vec<u8>,
    wait: u32,
    overtaken: bool,
}

/// A port whose receive side has faults.
pub struct Faulty<P> {
    inner: P,
    state: State,
}

struct State {
    faults: Faults,
    truth: Truth,
    random: u64,
    held: Option<Held>,
    scratch: Vec<u8>,
}

impl<P: Port> Faulty<P> {
    /// `inner` with `faults`.
    pub fn new(inner: P, faults: Faults) -> Self {
        let state = State {
            faults,
            truth: Truth::default(),
            random: faults.seed,
            held: None,
            scratch: Vec::new(),
        };
        Self { inner, state }
    }

    /// The faults that took effect so far.
    pub fn truth(&self) -> Truth {
        self.state.truth
    }
}

impl State {
    /// SplitMix64 (Steele, Lea and Flood, 2014).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn pass<S: Sink>(&mut self, frame: &[u8], sink: &mut S) {
        let Faults {
            loss,
            duplicate,
            reorder,
            corrupt,
            ..
        } = self.faults;
        let dice = self.draw() as f64 / u64::MAX as f64;
        if dice < loss {
            self.truth.lost += 1;
        } else if dice < loss + corrupt && frame.len() > FIRST_COVERED_BYTE {
            self.truth.corrupt += 1;
            self.show_damaged(frame, sink);
        } else if dice < loss + corrupt + reorder && self.held.is_none() {
            self.held = Some(Held {
                frame: frame.to_vec(),
                wait: HOLD,
                overtaken: false,
            });
        } else {
            sink.frame(frame);
            if dice > 1.0 - duplicate {
                self.truth.duplicated += 1;
                sink.frame(frame);
            }
            self.overtake(sink);
        }
    }

    fn show_damaged<S: Sink>(&mut self, frame: &[u8], sink: &mut S) {
        let covered = (frame.len() - FIRST_COVERED_BYTE) as u64 * 8;
        let bit = (self.draw() % covered) as usize;
        self.scratch.clear();
        self.scratch.extend_from_slice(frame);
        self.scratch[FIRST_COVERED_BYTE + bit / 8] ^= 1 << (bit % 8);
        sink.frame(&self.scratch);
    }

    fn overtake<S: Sink>(&mut self, sink: &mut S) {
        let Some(held) = &mut self.held else {
            return;
        };
        held.overtaken = true;
        held.wait -= 1;
        if held.wait == 0 {
            self.release(sink);
        }
    }

    fn release<S: Sink>(&mut self, sink: &mut S) {
        if let Some(held) = self.held.take() {
            self.truth.reordered += u64::from(held.overtaken);
            sink.frame(&held.frame);
        }
    }
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
        self.state.pass(frame, self.sink);
    }
}

impl<P: Port> Port for Faulty<P> {
    fn send<S: Source>(&mut self, count: usize, source: S) -> usize {
        self.inner.send(count, source)
    }

    fn receive<S: Sink>(&mut self, sink: &mut S) -> usize {
        let count = self.inner.receive(&mut Through {
            state: &mut self.state,
            sink,
        });
        // Nothing is coming that could overtake the frame held back.
        if count == 0 && self.state.held.is_some() {
            sink.arrived(1);
            self.state.release(sink);
            return 1;
        }
        count
    }

    fn link_up(&mut self) -> bool {
        self.inner.link_up()
    }

    fn failure(&mut self) -> Option<String> {
        self.inner.failure()
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
        ]);
        stats
    }
}
