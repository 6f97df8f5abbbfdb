//! What a faulty port shows, told by clock and by count.

use super::*;
use crate::Uniform;
use crate::impair::Impairment;
use crate::mem::{self, MemPort};
use pinchpoint_wire::signature::Stamper;
use std::cell::Cell;
use std::rc::Rc;

/// A clock that stands still until it is set.
#[derive(Clone, Default)]
struct Manual(Rc<Cell<u64>>);

impl Clock for Manual {
    fn now_ns(&self) -> u64 {
        self.0.get()
    }
}

/// Sequence numbers shown, and how often frames were announced.
#[derive(Default)]
struct Seen(Vec<u64>, usize);

impl Sink for Seen {
    fn arrived(&mut self, count: usize) {
        self.1 += count;
    }

    fn frame(&mut self, frame: &[u8]) {
        let Reading::Intact(signature) = signature::read(frame) else {
            panic!("a damaged frame");
        };
        self.0.push(signature.sequence);
    }
}

struct Bed {
    left: MemPort,
    right: Faulty<MemPort, Manual>,
    clock: Manual,
    sent: u64,
}

impl Bed {
    fn new(faults: Faults) -> Self {
        let (left, right) = mem::pair(4096);
        let clock = Manual::default();
        let right = Faulty::with_clock(right, faults, clock.clone());
        Self {
            left,
            right,
            clock,
            sent: 0,
        }
    }

    fn send(&mut self, count: usize) {
        let first = self.sent;
        let stamper = Stamper::new(1, 5, 0);
        let write = |index: usize, frame: &mut [u8]| {
            frame.fill(0);
            if let Some(tail) = frame.last_chunk_mut() {
                stamper.emit(first + index as u64, tail);
            }
        };
        assert_eq!(self.left.send(count, Uniform(60, write)), count);
        self.sent += count as u64;
    }

    /// What is shown at `now_ns`.
    fn receive(&mut self, now_ns: u64) -> Vec<u64> {
        self.clock.0.set(now_ns);
        let mut seen = Seen::default();
        let count = self.right.receive(&mut seen);
        assert_eq!(count, seen.1, "announced as many as returned");
        seen.0
    }
}

#[test]
fn a_slow_device_serves_at_its_capacity_and_drops_the_rest() {
    let mut bed = Bed::new(Faults::parse("capacity_fps=1000000,queue=4,delay_us=10").unwrap());
    bed.send(6);
    assert!(bed.receive(0).is_empty());
    assert_eq!(bed.right.waiting(), 4);
    assert!(bed.receive(10_999).is_empty());
    assert_eq!(bed.receive(11_000), [0]);
    assert_eq!(bed.receive(13_000), [1, 2]);
    bed.send(1);
    assert_eq!(bed.receive(14_000), [3]);
    assert_eq!(bed.receive(25_000), [6]);
    assert_eq!(bed.right.waiting(), 0);
    assert_eq!(bed.right.truth().queue_dropped, 2);
    let stats = bed.right.stats();
    assert!(stats.contains(&("fault_queue_dropped".to_owned(), 2)));
}

#[test]
fn a_frame_held_back_is_overtaken_by_as_many_as_asked() {
    let mut bed = Bed::new(Faults {
        reorder: 0.01,
        reorder_by: 8,
        seed: 3,
        ..Faults::default()
    });
    let mut seen = Vec::new();
    for _ in 0..200 {
        bed.send(10);
        seen.extend(bed.receive(0));
    }
    let mut late = Vec::new();
    for (at, &sequence) in seen.iter().enumerate() {
        let before = seen[..at].iter().filter(|&&other| other > sequence).count();
        late.extend((before > 0).then_some(before));
    }
    assert!(late.len() > 5, "{late:?}");
    assert_eq!(bed.right.truth().reordered, late.len() as u64);
    // Another frame held back meanwhile does not overtake.
    assert!(late.iter().all(|&before| before == 8), "{late:?}");
}

#[test]
fn a_frame_held_back_is_shown_when_nothing_has_come_for_a_while() {
    let mut bed = Bed::new(Faults {
        reorder: 1.0,
        ..Faults::default()
    });
    bed.send(3);
    assert!(bed.receive(1000).is_empty());
    assert!(bed.receive(2000).is_empty());
    assert!(bed.receive(2000 + QUIET_NS - 1).is_empty());
    assert_eq!(bed.receive(2000 + QUIET_NS), [0, 1, 2]);
    assert_eq!(bed.right.truth().reordered, 0, "nothing overtook them");
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let faults = "loss=0.1,duplicate=0.1,reorder=0.1,jitter_us=3,seed=";
    let run = |seed: u64| {
        let mut bed = Bed::new(Faults::parse(&format!("{faults}{seed}")).unwrap());
        let mut shown = Vec::new();
        for turn in 0..200 {
            bed.send(7);
            shown.push(bed.receive(turn * 1000));
        }
        shown
    };
    assert_eq!(run(4), run(4));
    assert_ne!(run(4), run(5));
}

#[test]
fn without_faults_frames_pass_unchanged() {
    for impairment in [
        Impairment::default(),
        Impairment {
            delay_ns: 1,
            ..Impairment::default()
        },
    ] {
        let mut bed = Bed::new(Faults {
            impairment,
            ..Faults::default()
        });
        bed.send(64);
        bed.send(64);
        let mut seen = bed.receive(0);
        for now_ns in 1..5 {
            seen.extend(bed.receive(now_ns));
        }
        assert!(seen.into_iter().eq(0..128));
        assert_eq!(bed.right.truth(), Truth::default());
    }
}
