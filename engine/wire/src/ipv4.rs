//! IPv4 (RFC 791).

use crate::{Malformed, be16, checksum};
use core::net::Ipv4Addr;

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS_OR_OFFSET: u16 = 0x3fff;

/// View of a packet, cut at its total length (Ethernet padding removed).
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    header_len: usize,
}

impl<'a> Packet<'a> {
    /// A view of the packet at the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed`] if the version is not 4, or the header or the total
    /// length does not fit.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN || bytes[0] >> 4 != 4 {
            return Err(Malformed);
        }
        let header_len = usize::from(bytes[0] & 0x0f) * 4;
        let total_len = usize::from(be16(bytes, 2));
        if header_len < HEADER_LEN || total_len < header_len || total_len > bytes.len() {
            return Err(Malformed);
        }
        Ok(Self {
            bytes: &bytes[..total_len],
            header_len,
        })
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::new(
            self.bytes[12],
            self.bytes[13],
            self.bytes[14],
            self.bytes[15],
        )
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::new(
            self.bytes[16],
            self.bytes[17],
            self.bytes[18],
            self.bytes[19],
        )
    }

    /// Protocol number of the payload.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.bytes[9]
    }

    /// Time to live, in hops.
    pub fn ttl(&self) -> u8 {
        self.bytes[8]
    }

    /// Differentiated services code point (RFC 2474).
    pub fn dscp(&self) -> u8 {
        self.bytes[1] >> 2
    }

    /// Whether this is one fragment of a larger packet.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        be16(self.bytes, 6) & MORE_FRAGMENTS_OR_OFFSET != 0
    }

    /// Whether the header checksum is right.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum::fold(checksum::sum(&self.bytes[..self.header_len])) == 0xffff
    }

    /// What follows the header, up to the total length.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..]
    }
}

/// A header without options as a value; "don't fragment" is set and the
/// identification is zero, as RFC 6864 section 4.1 allows for atomic packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Time to live, in hops.
    pub ttl: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Bytes after the header.
    pub payload_len: u16,
}

impl Header {
    /// Reads the value back; options and flags are not kept.
    pub fn parse(packet: &Packet<'_>) -> Self {
        Self {
            src: packet.src(),
            dst: packet.dst(),
            ttl: packet.ttl(),
            dscp: packet.dscp(),
            protocol: packet.protocol(),
            payload_len: packet.payload().len() as u16,
        }
    }

    /// Writes the header with its checksum. `payload_len` must be at most
    /// 65,515.
    pub fn emit(&self, out: &mut [u8; HEADER_LEN]) {
        let total_len = HEADER_LEN as u16 + self.payload_len;
        *out = [0; HEADER_LEN];
        out[0] = 0x45;
        out[1] = self.dscp << 2;
        out[2..4].copy_from_slice(&total_len.to_be_bytes());
        out[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
        out[8] = self.ttl;
        out[9] = self.protocol;
        out[12..16].copy_from_slice(&self.src.octets());
        out[16..20].copy_from_slice(&self.dst.octets());
        let check = checksum::finish(checksum::sum(out));
        out[10..12].copy_from_slice(&check.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    proptest! {
        #[test]
        fn header_round_trips(
            src: u32, dst: u32, ttl: u8, dscp in 0u8..64, protocol: u8, payload_len in 0u16..9000,
        ) {
            let header = Header { src: src.into(), dst: dst.into(), ttl, dscp, protocol, payload_len };
            let mut bytes = vec![0u8; HEADER_LEN + usize::from(payload_len)];
            header.emit(bytes.first_chunk_mut().unwrap());
            let packet = Packet::new_checked(&bytes).unwrap();
            prop_assert!(packet.verify_checksum());
            prop_assert!(!packet.is_fragment());
            prop_assert_eq!(Header::parse(&packet), header);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(packet) = Packet::new_checked(&bytes) {
                let _ = (Header::parse(&packet), packet.verify_checksum(), packet.is_fragment());
            }
        }
    }
}
