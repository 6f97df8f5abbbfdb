//! The signature: what a frame says about itself in its last 18 bytes.
//!
//! All fields are big endian.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..2 | magic | 0x9c3a |
//! | 2 | epoch | the trial, modulo 256 |
//! | 3 | stream | low byte of the stream id: the stream |
//! | 4..10 | sequence | number of the frame in its stream, from 0 |
//! | 10 | part | high byte of the stream id: which part of the stream |
//! | 11..16 | time | low 40 bits of the nanoseconds of the sender's clock (18 minutes) |
//! | 16..18 | check | Internet checksum (RFC 1071) of bytes 0..16 |
//!
//! The check is the ones' complement of the ones' complement sum of the other
//! eight 16-bit words, so a signature as a whole sums to 0xffff, which is zero
//! in that arithmetic. Two things follow. Any one flipped bit changes the sum
//! by a power of two, never by a multiple of 65,535, and is always found. And
//! a signature adds nothing to the checksum of the datagram it ends,
//! wherever it starts and whatever sequence and time it carries: the UDP
//! checksum of a stream changes with its five-tuple alone.
//!
//! A flipped bit inside the magic would make one of our frames look foreign;
//! [`read`] tells the two apart, since the check still fits the true magic.

use crate::checksum;

/// Bytes of a signature.
pub const LEN: usize = 18;
/// First two bytes.
pub const MAGIC: u16 = 0x9c3a;
/// Bits of a transmit time.
pub const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
const MASK_48: u64 = 0xffff_ffff_ffff;

/// What a sender says about a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// The trial, modulo 256.
    pub epoch: u8,
    /// Stream id; its high byte distinguishes the parts of a stream.
    pub stream: u16,
    /// Number of the frame in its stream; 48 bits.
    pub sequence: u64,
    /// Transmit time in nanoseconds of the sender's clock; [`TIME_BITS`] bits.
    pub time_ns: u64,
}

/// What the end of a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// An intact signature.
    Intact(Signature),
    /// The engine's signature with damaged bytes; the stream is what it claims.
    Corrupt {
        /// The stream id as read, which may be the damaged part.
        stream: u16,
    },
    /// No signature.
    Foreign,
}

impl Signature {
    /// Writes the signature; sequence and time are cut to 48 and 40 bits.
    #[inline(always)]
    pub fn emit(&self, out: &mut [u8; LEN]) {
        Stamper::new(self.epoch, self.stream, self.time_ns).emit(self.sequence & MASK_48, out);
    }
}

/// Writes the signatures of one stream's frames that share a transmit time.
///
/// Modulo 65,535 a number equals the sum of its 16-bit words, so the check is
/// that of everything else plus the sequence number itself.
#[derive(Debug, Clone, Copy)]
pub struct Stamper {
    first: u64,
    second: u64,
    sum: u64,
}

impl Stamper {
    /// Signatures of `stream` in `epoch`, sent at `time_ns` (cut to 40 bits).
    #[inline(always)]
    pub fn new(epoch: u8, stream: u16, time_ns: u64) -> Self {
        let [part, stream] = stream.to_be_bytes();
        let first = u64::from(MAGIC) << 48 | u64::from(epoch) << 40 | u64::from(stream) << 32;
        let second = u64::from(part) << TIME_BITS | time_ns & TIME_MASK;
        Self {
            first,
            second,
            sum: halves(first) + halves(second),
        }
    }

    /// Writes the signature of frame `sequence`, at most 48 bits.
    #[inline(always)]
    pub fn emit(&self, sequence: u64, out: &mut [u8; LEN]) {
        let first = self.first | sequence >> 16;
        let second = self.second | sequence << 48;
        let check = checksum::finish(self.sum + sequence);
        out[..8].copy_from_slice(&first.to_be_bytes());
        out[8..16].copy_from_slice(&second.to_be_bytes());
        out[16..].copy_from_slice(&check.to_be_bytes());
    }
}

/// Reads the last [`LEN`] bytes of `frame`.
#[inline(always)]
pub fn read(frame: &[u8]) -> Reading {
    let Some(bytes) = frame.last_chunk::<LEN>() else {
        return Reading::Foreign;
    };
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    let first = u64::from_be_bytes(word);
    word.copy_from_slice(&bytes[8..16]);
    let second = u64::from_be_bytes(word);
    let check = u16::from_be_bytes([bytes[16], bytes[17]]);
    let total = halves(first) + halves(second) + u64::from(check);
    let stream = u16::from_be_bytes([(second >> TIME_BITS) as u8, (first >> 32) as u8]);
    let magic = (first >> 48) as u16;
    if magic != MAGIC {
        return read_damaged_magic(magic, total, stream);
    }
    if checksum::fold(total) != 0xffff {
        return Reading::Corrupt { stream };
    }
    Reading::Intact(Signature {
        epoch: (first >> 40) as u8,
        stream,
        sequence: (first & 0xffff_ffff) << 16 | second >> 48,
        time_ns: second & TIME_MASK,
    })
}

#[cold]
fn read_damaged_magic(magic: u16, total: u64, stream: u16) -> Reading {
    let repaired = total - u64::from(magic) + u64::from(MAGIC);
    if (magic ^ MAGIC).is_power_of_two() && checksum::fold(repaired) == 0xffff {
        Reading::Corrupt { stream }
    } else {
        Reading::Foreign
    }
}

/// Both 32-bit halves added: equal to the sum of the four 16-bit words modulo
/// 65,535.
#[inline(always)]
const fn halves(word: u64) -> u64 {
    (word >> 32) + (word & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout_is_the_documented_one() {
        let signature = Signature {
            epoch: 0x11,
            stream: 0x9922,
            sequence: 0x3344_5566_7788,
            time_ns: 0xaa_bbcc_ddee,
        };
        let mut bytes = [0; LEN];
        signature.emit(&mut bytes);
        assert_eq!(
            bytes[..16],
            [
                0x9c, 0x3a, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc,
                0xdd, 0xee
            ]
        );
        assert_eq!(checksum::fold(checksum::sum(&bytes)), 0xffff);
    }

    proptest! {
        #[test]
        fn round_trips(epoch: u8, stream: u16, sequence in 0..=MASK_48, time_ns in 0..=TIME_MASK) {
            let signature = Signature { epoch, stream, sequence, time_ns };
            let mut bytes = [0; LEN];
            signature.emit(&mut bytes);
            prop_assert_eq!(read(&bytes), Reading::Intact(signature));
            prop_assert_eq!(checksum::fold(checksum::sum(&bytes)), 0xffff);
        }

        #[test]
        fn every_flipped_bit_is_corrupt(epoch: u8, stream: u16, sequence: u64, time_ns: u64) {
            let mut bytes = [0; LEN];
            Signature { epoch, stream, sequence, time_ns }.emit(&mut bytes);
            for bit in 0..LEN * 8 {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                prop_assert!(matches!(read(&damaged), Reading::Corrupt { .. }), "bit {}", bit);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = read(&bytes);
        }
    }
}
