//! What requests and answers carry.
//!
//! A request: the word `PPRQ`, its number in the connection, the backend that answered
//! the one before, the connection's number and its tag. An answer: `PPAN`, the same
//! four, then who answers and whom it saw: the backend's number, the source port and
//! address of the segment, and a flag, port and address of its TOA option, or of the PROXY
//! header before the request. Addresses have 16 bytes, those of IPv4 mapped. Numbers are big-endian; zeros follow up to the length
//! that was asked for.

use super::end::End;

/// Bytes of the shortest request.
pub const REQUEST_LEN: usize = 24;
/// Bytes of the shortest answer.
pub const ANSWER_LEN: usize = 64;
/// The backend of a request before the first.
pub const NOBODY: u16 = u16::MAX;
const REQUEST: [u8; 4] = *b"PPRQ";
const ANSWER: [u8; 4] = *b"PPAN";

/// Whether these bytes begin as a request or an answer.
pub(super) fn is_own(bytes: &[u8]) -> bool {
    bytes.starts_with(&REQUEST) || bytes.starts_with(&ANSWER)
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its number in the connection, from 0.
    pub number: u16,
    /// Who answered the one before, or [`NOBODY`].
    pub before: u16,
    /// The connection's number.
    pub connection: u64,
    /// The connection's tag.
    pub tag: u64,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The request that it answers.
    pub request: Request,
    /// Who answers.
    pub backend: u16,
    /// The source address and port of the request, as the backend saw them.
    pub seen: End,
    /// The client's address and port in the request's TOA option, or in the connection's PROXY header.
    pub toa: Option<End>,
}

impl Request {
    /// Whether both are the same request, whoever answered the one before.
    pub fn is_same(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.number, one.connection, one.tag);
        of(self) == of(other)
    }

    /// Reads the front of `bytes`; none if they are no request.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<REQUEST_LEN>()?;
        bytes.starts_with(&REQUEST).then(|| Self::body(bytes))
    }

    /// Writes it into `out`, at least [`REQUEST_LEN`] bytes; zeros follow. Returns the
    /// unfolded sum of what was written.
    #[inline(always)]
    pub fn write(&self, out: &mut [u8]) -> u64 {
        put(&self.words(REQUEST), out)
    }

    fn body(bytes: &[u8; REQUEST_LEN]) -> Self {
        let eight = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Self {
            number: u16::from_be_bytes([bytes[4], bytes[5]]),
            before: u16::from_be_bytes([bytes[6], bytes[7]]),
            connection: eight(8),
            tag: eight(16),
        }
    }

    fn words(&self, word: [u8; 4]) -> [u32; REQUEST_LEN / 4] {
        let half = |value: u64| [(value >> 32) as u32, value as u32];
        let [connection, tag] = [half(self.connection), half(self.tag)];
        let numbers = u32::from(self.number) << 16 | u32::from(self.before);
        let word = u32::from_be_bytes(word);
        [word, numbers, connection[0], connection[1], tag[0], tag[1]]
    }
}

impl Answer {
    /// Reads the front of `bytes`; none if they are no answer.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<ANSWER_LEN>()?;
        let request = Request::body(bytes.first_chunk()?);
        let two = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let address = |at: usize| u128::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let end = |port: usize, ip: usize| End {
            bits: address(ip),
            port: two(port),
        };
        bytes.starts_with(&ANSWER).then(|| Self {
            request,
            backend: two(24),
            seen: end(26, 28),
            toa: (two(44) != 0).then(|| end(46, 48)),
        })
    }

    /// Writes it into `out`, at least [`ANSWER_LEN`] bytes; zeros follow. Returns the
    /// unfolded sum of what was written.
    #[inline(always)]
    pub fn write(&self, out: &mut [u8]) -> u64 {
        let mut words = [0; ANSWER_LEN / 4];
        words[..6].copy_from_slice(&self.request.words(ANSWER));
        words[6] = u32::from(self.backend) << 16 | u32::from(self.seen.port);
        words[7..11].copy_from_slice(&quarters(self.seen.bits));
        if let Some(toa) = self.toa {
            words[11] = 1 << 16 | u32::from(toa.port);
            words[12..].copy_from_slice(&quarters(toa.bits));
        }
        put(&words, out)
    }
}

#[inline(always)]
fn quarters(bits: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (bits >> shift) as u32)
}

/// Words, then zeros; summed from the values, which stand in registers.
#[inline(always)]
fn put<const N: usize>(words: &[u32; N], out: &mut [u8]) -> u64 {
    let (front, rest) = out.split_at_mut(4 * N);
    for (place, word) in front.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    rest.fill(0);
    words.iter().map(|&word| u64::from(word)).sum()
}
