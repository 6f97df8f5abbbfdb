//! What requests and answers carry.
//!
//! A request: the word `PPRQ`, its number in the connection, the backend that answered
//! the one before, the connection's number and its tag. An answer: `PPAN`, the same
//! four, then who answers and whom it saw: the backend's number, the source port and
//! address of the segment, and the port and address in its TOA option with a flag for
//! whether there was one. Numbers are big-endian; zeros follow up to the length that was
//! asked for.

use std::net::{Ipv4Addr, SocketAddrV4};

/// Bytes of the shortest request.
pub const REQUEST_LEN: usize = 24;
/// Bytes of the shortest answer.
pub const ANSWER_LEN: usize = 40;
/// The backend of a request before the first.
pub const NOBODY: u16 = u16::MAX;
const REQUEST: [u8; 4] = *b"PPRQ";
const ANSWER: [u8; 4] = *b"PPAN";

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
    pub seen: SocketAddrV4,
    /// The client's address and port in the request's TOA option.
    pub toa: Option<SocketAddrV4>,
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

    /// Writes it into `out`, at least [`REQUEST_LEN`] bytes; zeros follow.
    pub fn write(&self, out: &mut [u8]) {
        self.put(REQUEST, out);
        out[REQUEST_LEN..].fill(0);
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

    fn put(&self, word: [u8; 4], out: &mut [u8]) {
        out[..4].copy_from_slice(&word);
        out[4..6].copy_from_slice(&self.number.to_be_bytes());
        out[6..8].copy_from_slice(&self.before.to_be_bytes());
        out[8..16].copy_from_slice(&self.connection.to_be_bytes());
        out[16..24].copy_from_slice(&self.tag.to_be_bytes());
    }
}

impl Answer {
    /// Reads the front of `bytes`; none if they are no answer.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<ANSWER_LEN>()?;
        let request = Request::body(bytes.first_chunk()?);
        let two = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let address = |at: usize| Ipv4Addr::from(std::array::from_fn(|byte| bytes[at + byte]));
        bytes.starts_with(&ANSWER).then(|| Self {
            request,
            backend: two(24),
            seen: SocketAddrV4::new(address(28), two(26)),
            toa: (two(32) != 0).then(|| SocketAddrV4::new(address(36), two(34))),
        })
    }

    /// Writes it into `out`, at least [`ANSWER_LEN`] bytes; zeros follow.
    pub fn write(&self, out: &mut [u8]) {
        self.request.put(ANSWER, out);
        out[24..26].copy_from_slice(&self.backend.to_be_bytes());
        out[26..28].copy_from_slice(&self.seen.port().to_be_bytes());
        out[28..32].copy_from_slice(&self.seen.ip().octets());
        out[32..].fill(0);
        if let Some(toa) = self.toa {
            out[33] = 1;
            out[34..36].copy_from_slice(&toa.port().to_be_bytes());
            out[36..40].copy_from_slice(&toa.ip().octets());
        }
    }
}
