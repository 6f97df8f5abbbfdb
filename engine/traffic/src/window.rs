//! Which sequence numbers of a stream have been received.
//!
//! A bitmap over the last sequence numbers up to the highest one received: all
//! of a stream that has few, otherwise [`WINDOW`]. Within it, first copies,
//! further copies and late arrivals are told apart exactly; further back nothing
//! is known.

use std::hint::black_box;

/// Sequence numbers remembered below the highest one received, at most.
pub const WINDOW: u64 = 1 << 20;
/// The word being overwritten holds up to 63 numbers of the far end.
const OVERWRITTEN: u64 = 64;

/// What a received sequence number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The next one after the highest before.
    InOrder,
    /// Higher than every one before; this many numbers, one or more, were
    /// skipped. They may still come.
    Ahead(u64),
    /// The first copy, after a frame with a higher number (RFC 4737 section
    /// 3.3); the distance is to the highest number received so far.
    Reordered(u64),
    /// A further copy.
    Duplicate,
    /// Too far back to distinguish a first from a further copy.
    BeyondWindow,
}

/// Sliding bitmap of received sequence numbers.
#[derive(Debug, Clone)]
pub struct SequenceWindow {
    /// A power of two of words.
    bits: Vec<u64>,
    /// One more than the highest sequence number received (RFC 4737's
    /// `NextExp`).
    expected: u64,
}

impl Default for SequenceWindow {
    fn default() -> Self {
        Self::new()
    }
}

impl SequenceWindow {
    /// An empty window of the largest size, 128 KiB.
    pub fn new() -> Self {
        Self::of(u64::MAX)
    }

    /// An empty window of a stream of `frames` frames: as large as they need, at
    /// most 128 KiB. Its memory is touched: page faults among the first frames of
    /// a burst would make a pause within it.
    pub fn of(frames: u64) -> Self {
        let numbers = frames.min(WINDOW - OVERWRITTEN) + OVERWRITTEN;
        let mut bits = vec![0; numbers.div_ceil(64).next_power_of_two() as usize];
        black_box(&mut bits).fill(0);
        Self { bits, expected: 0 }
    }

    /// Below the highest number received, those from here on are remembered.
    fn remembered(&self) -> u64 {
        let size = self.bits.len() as u64 * 64;
        self.expected.saturating_sub(size - OVERWRITTEN)
    }

    #[inline(always)]
    fn place(&self, sequence: u64) -> (usize, u64) {
        let word = (sequence / 64) as usize & (self.bits.len() - 1);
        (word, 1 << (sequence % 64))
    }

    /// Records `sequence`.
    #[inline(always)]
    pub fn record(&mut self, sequence: u64) -> Arrival {
        if sequence == self.expected {
            self.expected += 1;
            let (word, bit) = self.place(sequence);
            // Numbers rise through a word bit by bit, so entering it at bit 0
            // is the moment to forget what it held one window ago.
            let kept = if sequence.is_multiple_of(64) {
                0
            } else {
                self.bits[word]
            };
            self.bits[word] = kept | bit;
            return Arrival::InOrder;
        }
        let missing = sequence.wrapping_sub(self.expected);
        if missing < 64 {
            // What one of several queues gets. At most one word is entered: its
            // own, if that is not the word of the highest number before.
            let entered = sequence / 64 != self.expected.wrapping_sub(1) / 64;
            let (word, bit) = self.place(sequence);
            let kept = if entered { 0 } else { self.bits[word] };
            self.bits[word] = kept | bit;
            self.expected = sequence + 1;
            return Arrival::Ahead(missing);
        }
        self.record_out_of_line(sequence)
    }

    fn record_out_of_line(&mut self, sequence: u64) -> Arrival {
        if sequence > self.expected {
            let missing = sequence - self.expected;
            self.forget_up_to(sequence);
            let (word, bit) = self.place(sequence);
            self.bits[word] |= bit;
            self.expected = sequence + 1;
            return Arrival::Ahead(missing);
        }
        let distance = self.expected - 1 - sequence;
        if sequence < self.remembered() {
            return Arrival::BeyondWindow;
        }
        let (word, bit) = self.place(sequence);
        if self.bits[word] & bit != 0 {
            return Arrival::Duplicate;
        }
        self.bits[word] |= bit;
        Arrival::Reordered(distance)
    }

    /// Whether a number was received that is higher than `sequence` by a multiple
    /// of `flows`: a later frame of the same flow. `sequence` is one that
    /// [`record`](Self::record) just called reordered.
    #[cold]
    pub fn overtaken_in_flow(&self, sequence: u64, flows: u64) -> bool {
        let step = usize::try_from(flows.max(1)).unwrap_or(usize::MAX);
        let later = (sequence..self.expected).step_by(step).skip(1);
        let mut later = later.map(|sequence| self.place(sequence));
        later.any(|(word, bit)| self.bits[word] & bit != 0)
    }

    /// The sequence numbers received of those from `first` on, as far back as
    /// they are remembered.
    pub fn received_from(&self, first: u64) -> impl Iterator<Item = u64> + '_ {
        (first.max(self.remembered())..self.expected).filter(move |&sequence| {
            let (word, bit) = self.place(sequence);
            self.bits[word] & bit != 0
        })
    }

    /// Clears the words that numbers from `expected` to `sequence` enter anew.
    fn forget_up_to(&mut self, sequence: u64) {
        let first = self.expected.div_ceil(64);
        let last = sequence / 64;
        if last + 1 >= first + self.bits.len() as u64 {
            self.bits.fill(0);
            return;
        }
        for word in first..=last {
            let (word, _) = self.place(word * 64);
            self.bits[word] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// The definition, with unbounded memory.
    #[derive(Default)]
    struct Reference {
        seen: HashSet<u64>,
        highest: Option<u64>,
    }

    impl Reference {
        fn record(&mut self, sequence: u64) -> Arrival {
            let ahead = self.highest.is_none_or(|highest| sequence > highest);
            let distance = self
                .highest
                .map_or(0, |highest| highest.wrapping_sub(sequence));
            if ahead {
                let missing = sequence - self.highest.map_or(0, |highest| highest + 1);
                self.highest = Some(sequence);
                self.seen.insert(sequence);
                if missing == 0 {
                    Arrival::InOrder
                } else {
                    Arrival::Ahead(missing)
                }
            } else if distance >= WINDOW - 64 {
                Arrival::BeyondWindow
            } else if self.seen.insert(sequence) {
                Arrival::Reordered(distance)
            } else {
                Arrival::Duplicate
            }
        }
    }

    proptest! {
        #[test]
        fn equals_the_definition(
            start in 0u64..1 << 40,
            moves in proptest::collection::vec((-300i64..400, 0u32..40), 1..2000),
        ) {
            let mut window = SequenceWindow::new();
            let mut reference = Reference::default();
            let mut at = start;
            for (step, rare) in moves {
                let step = match rare {
                    0 => step * 1000,
                    1 => step * 100_000,
                    2..20 => 1,
                    _ => step,
                };
                at = at.saturating_add_signed(step);
                prop_assert_eq!(window.record(at), reference.record(at), "sequence {}", at);
            }
            let first = at.saturating_sub(2000);
            let remembered = reference.highest.unwrap().saturating_sub(WINDOW - 65);
            let mut wanted: Vec<_> = reference.seen.into_iter().collect();
            wanted.retain(|&sequence| sequence >= first.max(remembered));
            wanted.sort_unstable();
            prop_assert_eq!(window.received_from(first).collect::<Vec<_>>(), wanted);
        }

        #[test]
        fn a_window_of_all_frames_tells_what_a_larger_one_does(
            frames in 1u64..10_000, numbers in proptest::collection::vec(any::<u64>(), 1..500),
        ) {
            let (mut small, mut large) = (SequenceWindow::of(frames), SequenceWindow::new());
            for number in numbers {
                let sequence = number % frames;
                prop_assert_eq!(small.record(sequence), large.record(sequence));
            }
            prop_assert!(small.received_from(0).eq(large.received_from(0)));
        }
    }

    #[test]
    fn memory_follows_the_number_of_frames() {
        let words = |frames| SequenceWindow::of(frames).bits.len();
        assert_eq!([0, 64, 1000, u64::MAX].map(words), [1, 2, 32, 16_384]);
    }

    #[test]
    fn a_jump_over_more_than_the_window_forgets_everything() {
        let mut window = SequenceWindow::new();
        for sequence in 0..1000 {
            assert_eq!(window.record(sequence), Arrival::InOrder);
        }
        let ahead = Arrival::Ahead(3 * WINDOW - 1);
        assert_eq!(window.record(3 * WINDOW + 999), ahead);
        assert_eq!(window.record(3 * WINDOW + 5), Arrival::Reordered(994));
        assert_eq!(window.record(3), Arrival::BeyondWindow);
    }
}
