//! Two ports joined in memory.
//!
//! Each direction is a ring of fixed slots with one writer and one reader, so
//! the two ends may live in one thread or in two. A frame is written straight
//! into its slot and read from it; nothing is allocated after [`pair`]. The
//! slots lie in one piece, each on lines of its own, and the reader asks for
//! the lines of frames ahead of the one it reads.
#![allow(unsafe_code)]

use crate::ahead::{AHEAD, LINE, prefetch_frame};
use crate::{BURST, Port, Sink, Source};
use pinchpoint_wire::ethernet::Mac;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the longest frame.
pub const MAX_LEN: usize = 9216;

/// Keeps the two ends' counters off each other's cache line (128 bytes: two
/// lines, which some cores fetch together).
#[repr(align(128))]
#[derive(Default)]
struct Counter(AtomicUsize);

#[repr(align(64))]
struct Line {
    _bytes: [u8; LINE],
}

/// Lines of a slot for frames of at most `max_len` bytes. An odd number: the first
/// lines of neighbouring slots, all that short frames have, then share no set of the
/// cache.
const fn slot_lines(max_len: usize) -> usize {
    max_len.div_ceil(LINE) | 1
}

struct Ring {
    /// `slot_lines` for each slot.
    lines: Box<[UnsafeCell<Line>]>,
    slot_lines: usize,
    /// Bytes of the longest frame; a slot has at least as many.
    max_len: usize,
    lens: Box<[UnsafeCell<u16>]>,
    /// Frames ever written; advanced by the writer.
    head: Counter,
    /// Frames ever read; advanced by the reader.
    tail: Counter,
}

// SAFETY: slots `tail..head` are only touched by the one `RingReader`, all
// others only by the one `RingWriter`; the counters' release stores and acquire
// loads pass the slots from one to the other.
unsafe impl Sync for Ring {}

impl Ring {
    fn new(capacity: usize, max_len: usize) -> Arc<Self> {
        let line = || UnsafeCell::new(Line { _bytes: [0; LINE] });
        let slot_lines = slot_lines(max_len);
        Arc::new(Self {
            lines: std::iter::repeat_with(line)
                .take(capacity * slot_lines)
                .collect(),
            slot_lines,
            max_len,
            lens: std::iter::repeat_with(|| UnsafeCell::new(0))
                .take(capacity)
                .collect(),
            head: Counter::default(),
            tail: Counter::default(),
        })
    }

    fn capacity(&self) -> usize {
        self.lens.len()
    }

    fn index(&self, count: usize) -> usize {
        count & (self.capacity() - 1)
    }

    /// Where the bytes of a slot begin, `max_len` at least.
    ///
    /// # Panics
    /// If there is no slot of that number.
    #[inline(always)]
    fn slot(&self, index: usize) -> *mut u8 {
        assert!(index < self.capacity());
        let first = UnsafeCell::raw_get(self.lines.as_ptr());
        // SAFETY: there are `slot_lines` lines for each of `capacity` slots.
        unsafe { first.add(index * self.slot_lines).cast() }
    }

    /// Asks for the lines of a slot that the writer has handed over.
    #[inline(always)]
    fn prefetch(&self, index: usize) {
        // SAFETY: handed over, hence the reader's, which asks.
        let len = unsafe { *self.lens[index].get() };
        prefetch_frame(self.slot(index), usize::from(len));
    }
}

/// The only writer of a ring: not `Clone`, and every method takes `&mut self`.
struct RingWriter(Arc<Ring>);

impl RingWriter {
    fn write<S: Source>(&mut self, count: usize, mut source: S) -> usize {
        let ring = &*self.0;
        let head = ring.head.0.load(Ordering::Relaxed);
        let used = head.wrapping_sub(ring.tail.0.load(Ordering::Acquire));
        let taken = count.min(ring.capacity() - used);
        let mut at = ring.index(head);
        for i in 0..taken {
            let len = source.len(i);
            assert!(len <= ring.max_len, "a frame of {len} bytes");
            // SAFETY: this slot is outside `tail..head`, hence the writer's,
            // `&mut self` makes this the only access by a writer, and a slot
            // holds `max_len` bytes.
            let (frame, slot_len) = unsafe {
                (
                    std::slice::from_raw_parts_mut(ring.slot(at), len),
                    &mut *ring.lens[at].get(),
                )
            };
            source.frame(i, frame);
            *slot_len = len as u16;
            at = ring.index(at + 1);
        }
        ring.head
            .0
            .store(head.wrapping_add(taken), Ordering::Release);
        taken
    }
}

/// The only reader of a ring: not `Clone`, and every method takes `&mut self`.
struct RingReader(Arc<Ring>);

impl RingReader {
    fn read<S: Sink>(&mut self, sink: &mut S) -> usize {
        let ring = &*self.0;
        let tail = ring.tail.0.load(Ordering::Relaxed);
        let waiting = ring.head.0.load(Ordering::Acquire).wrapping_sub(tail);
        let count = waiting.min(BURST);
        if count == 0 {
            return 0;
        }
        for ahead in 0..count.min(AHEAD) {
            ring.prefetch(ring.index(tail.wrapping_add(ahead)));
        }
        sink.arrived(count);
        for number in 0..count {
            if number + AHEAD < count {
                ring.prefetch(ring.index(tail.wrapping_add(number + AHEAD)));
            }
            let at = ring.index(tail.wrapping_add(number));
            // SAFETY: this slot is inside `tail..head`, hence the reader's,
            // `&mut self` makes this the only access by a reader, and the
            // writer left a length of `max_len` at most.
            let frame = unsafe {
                let len = usize::from(*ring.lens[at].get());
                std::slice::from_raw_parts(ring.slot(at), len)
            };
            sink.frame(frame);
        }
        ring.tail
            .0
            .store(tail.wrapping_add(count), Ordering::Release);
        count
    }
}

/// One end of a pair.
pub struct MemPort {
    out: RingWriter,
    input: RingReader,
}

/// Two joined ports; each direction holds `capacity` frames, at least one.
pub fn pair(capacity: usize) -> (MemPort, MemPort) {
    pair_of(capacity, MAX_LEN)
}

/// The same for frames of at most `max_len` bytes, up to [`MAX_LEN`].
pub fn pair_of(capacity: usize, max_len: usize) -> (MemPort, MemPort) {
    // A power of two keeps slot numbers in step when the counters wrap.
    let capacity = capacity.max(1).next_power_of_two();
    let max_len = max_len.min(MAX_LEN);
    let (there, back) = (Ring::new(capacity, max_len), Ring::new(capacity, max_len));
    let one = MemPort {
        out: RingWriter(Arc::clone(&there)),
        input: RingReader(Arc::clone(&back)),
    };
    let other = MemPort {
        out: RingWriter(back),
        input: RingReader(there),
    };
    (one, other)
}

impl Port for MemPort {
    #[inline]
    fn send<S: Source>(&mut self, count: usize, source: S) -> usize {
        self.out.write(count, source)
    }

    #[inline]
    fn receive<S: Sink>(&mut self, sink: &mut S) -> usize {
        self.input.read(sink)
    }

    fn link_up(&mut self) -> bool {
        true
    }

    fn failure(&mut self) -> Option<String> {
        None
    }

    fn mac(&self) -> Option<Mac> {
        None
    }

    fn mode(&self) -> &'static str {
        "mem"
    }

    fn max_len(&self) -> usize {
        self.out.0.max_len
    }

    fn rings(&self) -> (u32, u32) {
        (self.input.0.capacity() as u32, self.out.0.capacity() as u32)
    }

    fn rx_missed(&mut self) -> Option<u64> {
        Some(0)
    }

    fn stats(&mut self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uniform;
    use std::time::{Duration, Instant};

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[derive(Default)]
    struct Collect(Vec<Vec<u8>>);

    impl Sink for Collect {
        fn arrived(&mut self, _count: usize) {}
        fn frame(&mut self, frame: &[u8]) {
            self.0.push(frame.to_vec());
        }
    }

    /// Expects numbered frames.
    struct Count(u64);

    impl Sink for Count {
        fn arrived(&mut self, _count: usize) {}
        fn frame(&mut self, frame: &[u8]) {
            assert_eq!(frame[..8], self.0.to_be_bytes());
            self.0 += 1;
        }
    }

    #[test]
    fn frames_arrive_in_order_and_a_full_ring_refuses_the_rest() {
        let (mut left, mut right) = pair(4);
        let taken = left.send(
            6,
            Uniform(60, |i: usize, frame: &mut [u8]| frame.fill(i as u8)),
        );
        assert_eq!(taken, 4);
        let mut seen = Collect::default();
        assert_eq!(right.receive(&mut seen), 4);
        let expected: Vec<_> = (0..4).map(|i| vec![i; 60]).collect();
        assert_eq!(seen.0, expected);
        assert_eq!(right.receive(&mut seen), 0);
        assert_eq!(left.send(1, Uniform(60, |_: usize, _: &mut [u8]| ())), 1);
    }

    #[test]
    fn short_slots_hold_frames_of_the_longest_length_side_by_side() {
        for longest in [60, 64, 1514] {
            let (mut left, mut right) = pair_of(4, longest);
            assert_eq!(left.max_len(), longest);
            let write = |i: usize, frame: &mut [u8]| frame.fill(i as u8);
            assert_eq!(left.send(4, Uniform(longest, write)), 4);
            let mut seen = Collect::default();
            assert_eq!(right.receive(&mut seen), 4);
            let expected: Vec<_> = (0..4).map(|i| vec![i; longest]).collect();
            assert_eq!(seen.0, expected);
        }
        assert_eq!(pair_of(1, usize::MAX).0.max_len(), MAX_LEN);
    }

    #[test]
    fn what_one_thread_wrote_another_reads_in_order_and_nothing_more() {
        const FRAMES: u64 = 100_000;
        let (mut left, mut right) = pair(32);
        let writer = std::thread::spawn(move || {
            let mut next = 0u64;
            while next < FRAMES {
                let first = next;
                let burst = (FRAMES - first).min(16) as usize;
                next += left.send(
                    burst,
                    Uniform(60, |i: usize, frame: &mut [u8]| {
                        frame[..8].copy_from_slice(&(first + i as u64).to_be_bytes());
                    }),
                ) as u64;
            }
        });
        let mut count = Count(0);
        let start = Instant::now();
        loop {
            let ended = writer.is_finished();
            if right.receive(&mut count) == 0 {
                if ended {
                    break;
                }
                assert!(start.elapsed() < TIMEOUT, "{} frames came", count.0);
                std::thread::yield_now();
            }
        }
        writer.join().unwrap();
        assert_eq!(count.0, FRAMES);
    }
}
