//! Frames that have been let in and have not left.

use super::hops::Hops;
use pinchpoint_port::{BURST, Source};
use std::collections::VecDeque;

/// Frames that wait for a backend's Ethernet address.
const MOST_WAITING: usize = 64;
/// How long they wait.
const WAITING_TIMEOUT_NS: u64 = 1_000_000_000;

/// A frame that is held.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) slot: usize,
    pub(super) len: usize,
    /// When it leaves.
    pub(super) due_ns: u64,
    /// The port through which it does.
    pub(super) to: usize,
}

#[derive(Debug)]
pub(super) struct Queue {
    /// Bytes of frames, in slots of `longest`; free slots are taken last in, first out, so
    /// that few of them are used while few frames wait.
    bytes: Vec<u8>,
    longest: usize,
    free: Vec<usize>,
    ring: usize,
    held: VecDeque<Held>,
    /// How many of `held` had been served when this was last looked at.
    served: usize,
    /// Those to a slow backend.
    slow: VecDeque<Held>,
    /// Those to a backend that has to be found, with its number; `due_ns` is when they came.
    waiting: VecDeque<(u16, Held)>,
}

/// What became of frames that were to leave, by the port through which they were to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) sent: [u64; 2],
    pub(super) full: [u64; 2],
    pub(super) bursts: usize,
}

impl Queue {
    /// Of a device whose ring holds `ring` frames, between ports whose rings hold `port_rings`
    /// together.
    pub(super) fn new(ring: usize, port_rings: usize, longest: usize, is_slow: bool) -> Self {
        let slow = if is_slow { ring } else { 0 };
        // Those that wait, those received in one turn, and those of the turn before it.
        let slots = ring + 2 * (port_rings + 2 * BURST) + slow + MOST_WAITING;
        Self {
            bytes: vec![0; slots * longest],
            longest,
            free: (0..slots).rev().collect(),
            ring,
            held: VecDeque::with_capacity(slots),
            served: 0,
            slow: VecDeque::with_capacity(slow),
            waiting: VecDeque::with_capacity(MOST_WAITING),
        }
    }

    /// A slot for a frame that comes at `now_ns`; none if the ring is full.
    #[inline]
    pub(super) fn admit(&mut self, now_ns: u64) -> Option<usize> {
        while self
            .held
            .get(self.served)
            .is_some_and(|held| held.due_ns <= now_ns)
        {
            self.served += 1;
        }
        if self.held.len() - self.served >= self.ring {
            return None;
        }
        self.free.pop()
    }

    #[inline]
    pub(super) fn slot(&mut self, slot: usize) -> &mut [u8] {
        let begin = slot * self.longest;
        &mut self.bytes[begin..begin + self.longest]
    }

    #[inline]
    pub(super) fn give_back(&mut self, slot: usize) {
        self.free.push(slot);
    }

    #[inline]
    pub(super) fn hold(&mut self, held: Held) {
        self.held.push_back(held);
    }

    /// Holds a frame to a slow backend; false if too many of them wait.
    pub(super) fn hold_slow(&mut self, held: Held) -> bool {
        let has_room = self.slow.len() < self.ring;
        if has_room {
            self.slow.push_back(held);
        } else {
            self.free.push(held.slot);
        }
        has_room
    }

    /// Holds a frame to a backend that has to be found; false if too many of them wait.
    pub(super) fn hold_waiting(&mut self, backend: u16, held: Held) -> bool {
        let has_room = self.waiting.len() < MOST_WAITING;
        if has_room {
            self.waiting.push_back((backend, held));
        } else {
            self.free.push(held.slot);
        }
        has_room
    }

    /// Sends on those whose backend was found; returns how many waited for too long.
    #[inline]
    pub(super) fn release(&mut self, hops: &Hops, now_ns: u64) -> u64 {
        let mut dropped = 0;
        for _ in 0..self.waiting.len() {
            let Some((backend, held)) = self.waiting.pop_front() else {
                break;
            };
            if let Some(mac) = hops.mac(backend) {
                self.slot(held.slot)[..6].copy_from_slice(&mac.0);
                let due_ns = self
                    .held
                    .back()
                    .map_or(now_ns, |last| last.due_ns.max(now_ns));
                self.held.push_back(Held { due_ns, ..held });
            } else if now_ns.saturating_sub(held.due_ns) > WAITING_TIMEOUT_NS {
                self.free.push(held.slot);
                dropped += 1;
            } else {
                self.waiting.push_back((backend, held));
            }
        }
        dropped
    }

    /// Frames that are held and leave through the port number `to`.
    pub(super) fn count(&self, to: usize) -> u64 {
        let held = self.held.iter().chain(&self.slow);
        let all = held.chain(self.waiting.iter().map(|(_, held)| held));
        all.filter(|held| held.to == to).count() as u64
    }

    /// Gives the frames that are due at `now_ns` to `send`, by port, which returns how many of
    /// these first ones were taken.
    #[inline]
    pub(super) fn leave(
        &mut self,
        now_ns: u64,
        mut send: impl FnMut(usize, usize, Frames<'_>) -> usize,
    ) -> Left {
        let mut left = Left::default();
        for is_slow in [false, true] {
            loop {
                let (mut bursts, mut counts) = ([[(0, 0); BURST]; 2], [0; 2]);
                while let Some(held) = self.pop(is_slow, now_ns, &counts) {
                    bursts[held.to][counts[held.to]] = (held.slot, held.len);
                    counts[held.to] += 1;
                }
                if counts == [0; 2] {
                    break;
                }
                for (to, (burst, count)) in bursts.iter().zip(counts).enumerate() {
                    if count == 0 {
                        continue;
                    }
                    let frames = Frames {
                        bytes: &self.bytes,
                        longest: self.longest,
                        burst: &burst[..count],
                    };
                    let taken = send(to, count, frames);
                    left.sent[to] += taken as u64;
                    left.full[to] += (count - taken) as u64;
                    left.bursts += 1;
                    self.free.extend(burst[..count].iter().map(|one| one.0));
                }
            }
        }
        left
    }

    #[inline(always)]
    fn pop(&mut self, is_slow: bool, now_ns: u64, counts: &[usize; 2]) -> Option<Held> {
        let queue = if is_slow {
            &mut self.slow
        } else {
            &mut self.held
        };
        let held = *queue.front()?;
        if held.due_ns > now_ns || counts[held.to] == BURST {
            return None;
        }
        queue.pop_front();
        if !is_slow {
            self.served = self.served.saturating_sub(1);
        }
        Some(held)
    }
}

/// Frames that leave.
pub(super) struct Frames<'a> {
    bytes: &'a [u8],
    longest: usize,
    /// The slot and length of each.
    burst: &'a [(usize, usize)],
}

impl Source for Frames<'_> {
    #[inline(always)]
    fn len(&self, index: usize) -> usize {
        self.burst[index].1
    }

    #[inline(always)]
    fn frame(&mut self, index: usize, frame: &mut [u8]) {
        let (slot, len) = self.burst[index];
        let begin = slot * self.longest;
        frame.copy_from_slice(&self.bytes[begin..begin + len]);
    }
}
