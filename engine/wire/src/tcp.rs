//! TCP (RFC 9293).

use crate::checksum::{self, Address};
use crate::{Malformed, be16, be32, ipv4};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header with options.
pub const MAX_HEADER_LEN: usize = 60;

/// View of a segment; a segment has no length field and ends with its packet.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    bytes: &'a [u8],
    header_len: usize,
}

impl<'a> Segment<'a> {
    /// A view of `bytes`, an IP packet's payload.
    ///
    /// # Errors
    /// [`Malformed`] if the header or its options do not fit.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN {
            return Err(Malformed);
        }
        let header_len = usize::from(bytes[12] >> 4) * 4;
        if header_len < HEADER_LEN || header_len > bytes.len() {
            return Err(Malformed);
        }
        Ok(Self { bytes, header_len })
    }

    /// Source port.
    pub fn src(&self) -> u16 {
        be16(self.bytes, 0)
    }

    /// Destination port.
    pub fn dst(&self) -> u16 {
        be16(self.bytes, 2)
    }

    /// Sequence number.
    pub fn seq(&self) -> u32 {
        be32(self.bytes, 4)
    }

    /// Acknowledgment number.
    pub fn ack(&self) -> u32 {
        be32(self.bytes, 8)
    }

    /// The eight control bits (FIN lowest) and the four reserved above them.
    pub fn flags(&self) -> u16 {
        be16(self.bytes, 12) & 0x0fff
    }

    /// Window, unscaled.
    pub fn window(&self) -> u16 {
        be16(self.bytes, 14)
    }

    /// Urgent pointer.
    pub fn urgent(&self) -> u16 {
        be16(self.bytes, 18)
    }

    /// Bytes of the header with its options.
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// Options as they stand on the wire.
    pub fn options(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..self.header_len]
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..]
    }

    /// Whether the checksum is right for these addresses.
    pub fn verify_checksum<A: Address>(&self, src: A, dst: A) -> bool {
        let total = pseudo_sum(src, dst, self.bytes.len()) + checksum::sum(self.bytes);
        checksum::fold(total) == 0xffff
    }
}

fn pseudo_sum<A: Address>(src: A, dst: A, len: usize) -> u64 {
    checksum::pseudo_sum(src, dst, ipv4::PROTOCOL_TCP, len as u32)
}

/// A header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// The eight control bits (FIN lowest) and the four reserved above them.
    pub flags: u16,
    /// Window, unscaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options as they stand on the wire: a multiple of 4 bytes, at most 40.
    pub options: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads the value back.
    pub fn parse(segment: &Segment<'a>) -> Self {
        Self {
            src: segment.src(),
            dst: segment.dst(),
            seq: segment.seq(),
            ack: segment.ack(),
            flags: segment.flags(),
            window: segment.window(),
            urgent: segment.urgent(),
            options: segment.options(),
        }
    }

    /// Bytes of the header with its options.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes header and checksum into the front of `segment`, whose payload
    /// must already stand behind it.
    ///
    /// # Errors
    /// [`Malformed`] if `segment` is too short or the options have no length
    /// a header can have.
    pub fn emit<A: Address>(&self, segment: &mut [u8], src: A, dst: A) -> Result<(), Malformed> {
        let payload = segment.get(self.header_len()..).ok_or(Malformed)?;
        let sum = checksum::sum(payload);
        self.emit_summed(segment, src, dst, sum)
    }

    /// As [`emit`](Self::emit), where the unfolded sum of the payload is known.
    ///
    /// # Errors
    /// [`Malformed`] if `segment` is too short or the options have no length
    /// a header can have.
    // Always: passed in memory, ports and flags would be read back together just after they were written apart.
    #[inline(always)]
    pub fn emit_summed<A: Address>(
        &self,
        segment: &mut [u8],
        src: A,
        dst: A,
        payload: u64,
    ) -> Result<(), Malformed> {
        let len = segment.len();
        let header_len = self.header_len();
        if !self.options.len().is_multiple_of(4) || header_len > MAX_HEADER_LEN {
            return Err(Malformed);
        }
        let out = segment.get_mut(..header_len).ok_or(Malformed)?;
        let offset_and_flags = (header_len as u16 / 4) << 12 | self.flags & 0x0fff;
        let words = [
            u32::from(self.src) << 16 | u32::from(self.dst),
            self.seq,
            self.ack,
            u32::from(offset_and_flags) << 16 | u32::from(self.window),
            u32::from(self.urgent),
        ];
        // Summed from the values: reading back what was just written in smaller parts stalls.
        let total = words.iter().map(|&word| u64::from(word)).sum::<u64>();
        let total = total + payload + checksum::sum(self.options) + pseudo_sum(src, dst, len);
        let (fixed, options) = out.split_at_mut(HEADER_LEN);
        for (place, word) in fixed.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        fixed[16..18].copy_from_slice(&checksum::finish(total).to_be_bytes());
        options.copy_from_slice(self.options);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;
    use proptest::prelude::*;
    use std::vec;

    proptest! {
        #[test]
        fn segment_round_trips_and_a_flipped_bit_shows(
            ports: (u16, u16), numbers: (u32, u32), flags in 0u16..0x1000, window: u16,
            urgent: u16, options in proptest::collection::vec(any::<[u8; 4]>(), 0..=10),
            addresses: (u128, u128), payload_len in 1usize..100, at: usize,
        ) {
            let (src, dst) = (Ipv6Addr::from(addresses.0), Ipv6Addr::from(addresses.1));
            let header = Header {
                src: ports.0, dst: ports.1, seq: numbers.0, ack: numbers.1, flags, window, urgent,
                options: options.as_flattened(),
            };
            let mut bytes = vec![7; header.header_len() + payload_len];
            header.emit(&mut bytes, src, dst).unwrap();
            let segment = Segment::new_checked(&bytes).unwrap();
            prop_assert_eq!(Header::parse(&segment), header);
            prop_assert_eq!(segment.payload().len(), payload_len);
            prop_assert!(segment.verify_checksum(src, dst));
            let at = header.header_len() + at % payload_len;
            bytes[at] ^= 0x20;
            prop_assert!(!Segment::new_checked(&bytes).unwrap().verify_checksum(src, dst));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(segment) = Segment::new_checked(&bytes) {
                let _ = (Header::parse(&segment), segment.payload());
                let _ = segment.verify_checksum(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
            }
        }
    }
}
