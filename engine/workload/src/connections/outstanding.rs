//! How far each connection has come that has not ended: two bits each, and twelve bytes
//! more where something is sent that no segment asks for.

use super::payload::NOBODY;
use std::ops::Range;

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has ended, or it was never opened.
    Ended,
    /// Its SYN was sent.
    Opened,
    /// The SYN was answered.
    Established,
    /// The last answer came, and the FIN was sent.
    Answered,
}

/// What a segment that nobody asked for has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The other side's next sequence number.
    pub received: u32,
    /// Answers that came.
    pub answers: u16,
    /// Who gave the last of them, or [`NOBODY`].
    pub backend: u16,
    /// The other side's latest time stamp; 0: it has none.
    pub heard: u32,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            received: 0,
            answers: 0,
            backend: NOBODY,
            heard: 0,
        }
    }
}

const BITS: u64 = 2;
const IN_WORD: u64 = u64::BITS as u64 / BITS;

/// The connections between the oldest that has not ended and the next to be opened.
#[derive(Debug, Clone)]
pub struct Outstanding {
    words: Vec<u64>,
    /// Empty where nothing is sent without being asked for.
    progress: Vec<Progress>,
    room: u64,
    known: Range<u64>,
}

impl Outstanding {
    /// Room for at least `room` connections, none of which has been opened. With
    /// `remembers`, [`progress`](Self::progress) is kept of each.
    pub fn new(room: u64, remembers: bool) -> Self {
        let room = room.max(IN_WORD).next_power_of_two();
        Self {
            words: vec![0; (room / IN_WORD) as usize],
            progress: vec![Progress::default(); if remembers { room as usize } else { 0 }],
            room,
            known: 0..0,
        }
    }

    /// The next connection to be opened.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        self.known.end
    }

    /// Connections that can be added now.
    #[inline(always)]
    pub fn room(&self) -> u64 {
        self.room - (self.known.end - self.known.start)
    }

    /// The oldest connection, if there is one.
    #[inline(always)]
    pub fn oldest(&self) -> Option<(u64, State)> {
        (!self.known.is_empty()).then(|| (self.known.start, self.state(self.known.start)))
    }

    /// How far connection `n` has come.
    #[inline(always)]
    pub fn state(&self, n: u64) -> State {
        if !self.known.contains(&n) {
            return State::Ended;
        }
        let (word, shift) = self.place(n);
        match self.words[word] >> shift & 3 {
            0 => State::Ended,
            1 => State::Opened,
            2 => State::Established,
            _ => State::Answered,
        }
    }

    /// Notes how far connection `n` has come, one of those that are known.
    #[inline(always)]
    pub fn set(&mut self, n: u64, state: State) {
        debug_assert!(self.known.contains(&n));
        let (word, shift) = self.place(n);
        self.words[word] = self.words[word] & !(3 << shift) | (state as u64) << shift;
    }

    /// How far connection `n` has come, as far as it was noted.
    #[inline(always)]
    pub fn progress(&self, n: u64) -> Progress {
        let slot = (n & (self.room - 1)) as usize;
        self.progress.get(slot).copied().unwrap_or_default()
    }

    /// The same of a connection that may have ended; none if that was not noted, or is forgotten.
    pub fn remembered(&self, n: u64) -> Option<Progress> {
        let is_known = !self.progress.is_empty() && n < self.known.end;
        (is_known && self.known.end - n <= self.room).then(|| self.progress(n))
    }

    /// Notes how far connection `n` has come, if that is to be known.
    #[inline(always)]
    pub fn note(&mut self, n: u64, progress: Progress) {
        let slot = (n & (self.room - 1)) as usize;
        if let Some(known) = self.progress.get_mut(slot) {
            *known = progress;
        }
    }

    /// Adds the next connection; there must be [`room`](Self::room).
    #[inline(always)]
    pub fn push(&mut self, state: State) {
        debug_assert!(self.room() > 0);
        self.known.end += 1;
        self.set(self.known.end - 1, state);
        self.note(self.known.end - 1, Progress::default());
    }

    /// Adds the next `count` connections, none of which is opened; there must be
    /// [`room`](Self::room).
    pub fn skip(&mut self, count: u64) {
        debug_assert!(count <= self.room());
        let mut n = self.known.end;
        self.known.end += count;
        while n < self.known.end {
            let (word, shift) = self.place(n);
            let slots = (IN_WORD - shift / BITS).min(self.known.end - n);
            let states = u64::MAX >> (BITS * (IN_WORD - slots)) << shift;
            self.words[word] &= !states;
            n += slots;
        }
    }

    /// Forgets the oldest connection.
    #[inline(always)]
    pub fn pop(&mut self) {
        self.known.start += 1;
    }

    /// Forgets the oldest connections up to the first that has not ended.
    #[inline(always)]
    pub fn pop_ended(&mut self) {
        loop {
            let (word, shift) = self.place(self.known.start);
            let ended = u64::from((self.words[word] >> shift).trailing_zeros()) / BITS;
            let known = self.known.end - self.known.start;
            let ended = ended.min(IN_WORD - shift / BITS).min(known);
            if ended == 0 {
                return;
            }
            self.known.start += ended;
        }
    }

    fn place(&self, n: u64) -> (usize, u64) {
        let slot = n & (self.room - 1);
        ((slot / IN_WORD) as usize, slot % IN_WORD * BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STATES: [State; 4] = [
        State::Ended,
        State::Opened,
        State::Established,
        State::Answered,
    ];

    proptest! {
        /// Slots are used again and again, so that what stood in them before must not count.
        #[test]
        fn many_at_once_are_the_same_as_one_by_one(
            steps in prop::collection::vec((0..200u64, prop::collection::vec(0..4usize, 0..20)), 1..40),
        ) {
            let (mut bulk, mut single) = (Outstanding::new(256, false), Outstanding::new(256, false));
            for (skipped, opened) in steps {
                let skipped = skipped.min(bulk.room());
                bulk.skip(skipped);
                for _ in 0..skipped {
                    single.push(State::Ended);
                }
                for state in opened.into_iter().map(|state| STATES[state]) {
                    if bulk.room() == 0 {
                        bulk.pop();
                        single.pop();
                    }
                    bulk.push(state);
                    single.push(state);
                }
                bulk.pop_ended();
                while single.oldest().is_some_and(|(_, state)| state == State::Ended) {
                    single.pop();
                }
                prop_assert_eq!(bulk.oldest(), single.oldest());
                prop_assert_eq!((bulk.next(), bulk.room()), (single.next(), single.room()));
                for n in single.oldest().map_or(0..0, |(n, _)| n..single.next()) {
                    prop_assert_eq!(bulk.state(n), single.state(n));
                }
            }
        }
    }
}
