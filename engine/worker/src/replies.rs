//! Answers to the frames of a burst.
//!
//! A frame that a port delivers is gone when the port's call returns, so an
//! answer is written at once, into a buffer with a small descriptor for each
//! answer. Both have a fixed size: nothing is allocated after [`Replies::new`].

use pinchpoint_port::{AnyPort, BURST, Port, Source};
use pinchpoint_wire::FCS_LEN;

/// Bytes of the shortest Ethernet frame, without check sequence.
const SHORTEST: usize = 64 - FCS_LEN;

/// One answer.
#[derive(Debug, Clone, Copy, Default)]
struct Reply {
    /// The port that sends it, by its place among the worker's.
    to: u16,
    /// Where it ends in the buffer; it begins where the one before it ends.
    end: u32,
}

/// Answers to the frames of one burst, at most [`BURST`], in the order in which
/// they were given.
#[derive(Debug)]
pub struct Replies {
    bytes: Vec<u8>,
    ring: [Reply; BURST],
    count: usize,
    /// The first one that has not been sent.
    next: usize,
    longest: usize,
    /// When the burst arrived that they answer.
    pub(crate) since_ns: u64,
}

/// What happened to answers that were offered to one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The port.
    pub to: usize,
    /// Answers that it took.
    pub sent: u64,
    /// Answers that it did not take and that are offered again.
    pub waiting: u64,
    /// Answers that it did not take in time: they are dropped.
    pub dropped: u64,
}

impl Replies {
    /// Room for answers of at most `longest` bytes.
    pub fn new(longest: usize) -> Self {
        Self {
            bytes: vec![0; longest * BURST],
            ring: [Reply::default(); BURST],
            count: 0,
            next: 0,
            longest,
            since_ns: 0,
        }
    }

    /// Has the port number `to` send an answer of `len` bytes that `write`
    /// writes into a buffer of that length and unspecified content. False if it
    /// is too long or the burst has as many answers as there is room for.
    #[inline(always)]
    pub fn push(&mut self, to: usize, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
        if len > self.longest || self.count == BURST {
            return false;
        }
        let begin = self.begin(self.count);
        write(&mut self.bytes[begin..begin + len]);
        self.ring[self.count] = Reply {
            to: to as u16,
            end: (begin + len) as u32,
        };
        self.count += 1;
        true
    }

    /// Answers that have not been sent.
    #[inline(always)]
    pub fn waiting(&self) -> usize {
        self.count - self.next
    }

    /// Forgets all answers.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        (self.count, self.next) = (0, 0);
    }

    fn begin(&self, index: usize) -> usize {
        index
            .checked_sub(1)
            .map_or(0, |before| self.ring[before].end as usize)
    }

    /// Offers those that wait and go to the same port as the first of them;
    /// what the port does not take is dropped if `over`.
    pub(crate) fn offer<'a>(
        &mut self,
        port: impl FnOnce(usize) -> &'a mut AnyPort,
        over: bool,
    ) -> Offer {
        let to = self.ring[self.next].to;
        let alike = self.ring[self.next..self.count].iter();
        let offered = alike.take_while(|reply| reply.to == to).count();
        let taken = port(usize::from(to)).send(offered, Rest(self));
        let left = offered - taken;
        self.next += if over { offered } else { taken };
        Offer {
            to: usize::from(to),
            sent: taken as u64,
            waiting: if over { 0 } else { left as u64 },
            dropped: if over { left as u64 } else { 0 },
        }
    }
}

/// The answers that have not been sent.
struct Rest<'a>(&'a Replies);

impl Source for Rest<'_> {
    #[inline(always)]
    fn len(&self, index: usize) -> usize {
        let index = self.0.next + index;
        self.0.ring[index].end as usize - self.0.begin(index)
    }

    #[inline(always)]
    fn frame(&mut self, index: usize, frame: &mut [u8]) {
        let index = self.0.next + index;
        let bytes = &self.0.bytes[self.0.begin(index)..self.0.ring[index].end as usize];
        // Answers of no content have the shortest length, and are copied without a call.
        let shortest = <&mut [u8; SHORTEST]>::try_from(&mut *frame);
        if let (Ok(frame), Some(bytes)) = (shortest, bytes.first_chunk()) {
            *frame = *bytes;
        } else {
            frame.copy_from_slice(bytes);
        }
    }
}
