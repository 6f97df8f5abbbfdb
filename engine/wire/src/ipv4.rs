//! IPv4 (RFC 791).

use crate::{Malformed, be16, checksum, front};
use core::net::Ipv4Addr;

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header with options.
pub const MAX_HEADER_LEN: usize = 60;
/// Protocol number of ICMP.
pub const PROTOCOL_ICMP: u8 = 1;
/// Protocol number of IPv4 inside IP (RFC 2003).
pub const PROTOCOL_IPV4: u8 = 4;
/// Protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
/// Protocol number of IPv6 inside IP (RFC 4213).
pub const PROTOCOL_IPV6: u8 = 41;
/// Protocol number of GRE.
pub const PROTOCOL_GRE: u8 = 47;
/// Protocol number of ESP.
pub const PROTOCOL_ESP: u8 = 50;
/// Protocol number of ICMPv6.
pub const PROTOCOL_ICMPV6: u8 = 58;
/// Protocol number for experiments (RFC 3692).
pub const PROTOCOL_EXPERIMENT: u8 = 253;
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

    /// Explicit congestion notification (RFC 3168).
    pub fn ecn(&self) -> u8 {
        self.bytes[1] & 3
    }

    /// Identification.
    pub fn identification(&self) -> u16 {
        be16(self.bytes, 4)
    }

    /// Whether the packet must not be fragmented.
    pub fn dont_fragment(&self) -> bool {
        be16(self.bytes, 6) & DONT_FRAGMENT != 0
    }

    /// Bytes of the header with its options.
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// Options as they stand on the wire.
    pub fn options(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..self.header_len]
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

/// A header as a value; not a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Time to live, in hops.
    pub ttl: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Explicit congestion notification (RFC 3168), 0 to 3.
    pub ecn: u8,
    /// Identification; zero will do for packets that are not to be fragmented
    /// (RFC 6864 section 4.1).
    pub identification: u16,
    /// Whether the packet must not be fragmented.
    pub dont_fragment: bool,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Options as they stand on the wire: a multiple of 4 bytes, at most 40.
    pub options: &'a [u8],
    /// Bytes after the header.
    pub payload_len: u16,
}

impl<'a> Header<'a> {
    /// Reads the value back; what makes a packet a fragment is not kept.
    pub fn parse(packet: &Packet<'a>) -> Self {
        Self {
            src: packet.src(),
            dst: packet.dst(),
            ttl: packet.ttl(),
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            identification: packet.identification(),
            dont_fragment: packet.dont_fragment(),
            protocol: packet.protocol(),
            options: packet.options(),
            payload_len: packet.payload().len() as u16,
        }
    }

    /// Bytes of the header with its options.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header with its checksum into the front of `out`.
    ///
    /// # Errors
    /// [`Malformed`] if `out` is too short, the options have no length a
    /// header can have, or the packet would exceed 65,535 bytes.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Malformed> {
        let header_len = self.header_len();
        if !self.options.len().is_multiple_of(4) || header_len > MAX_HEADER_LEN {
            return Err(Malformed);
        }
        let total_len = header_len + usize::from(self.payload_len);
        let total_len = u16::try_from(total_len).map_err(|_| Malformed)?;
        let out = front(out, header_len)?;
        let fragment = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        let (first, service) = (0x40 | (header_len / 4) as u8, self.dscp << 2 | self.ecn & 3);
        let words = [
            u32::from(u16::from_be_bytes([first, service])) << 16 | u32::from(total_len),
            u32::from(self.identification) << 16 | u32::from(fragment),
            u32::from(u16::from_be_bytes([self.ttl, self.protocol])) << 16,
            self.src.to_bits(),
            self.dst.to_bits(),
        ];
        // Summed from the values: reading back what was just written in smaller parts stalls.
        let total = words.iter().map(|&word| u64::from(word)).sum::<u64>();
        let check = checksum::finish(total + checksum::sum(self.options));
        let (fixed, options) = out.split_at_mut(HEADER_LEN);
        for (place, word) in fixed.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        fixed[10..12].copy_from_slice(&check.to_be_bytes());
        options.copy_from_slice(self.options);
        Ok(())
    }
}

/// A header without options of which only the length and the addresses differ from packet to
/// packet. The sum of everything else is known, so its checksum costs three additions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    words: [u32; 3],
    sum: u64,
}

impl Template {
    /// Of packets that must not be fragmented; service and identification are zero.
    pub const fn new(ttl: u8, protocol: u8) -> Self {
        let words = [
            0x4500_0000,
            DONT_FRAGMENT as u32,
            (ttl as u32) << 24 | (protocol as u32) << 16,
        ];
        Self {
            words,
            sum: words[0] as u64 + words[1] as u64 + words[2] as u64,
        }
    }

    /// Writes the header of a packet with `payload_len` bytes behind it, at most 65,515.
    #[inline(always)]
    pub fn emit(
        &self,
        out: &mut [u8; HEADER_LEN],
        (src, dst): (Ipv4Addr, Ipv4Addr),
        payload_len: u16,
    ) {
        let total_len = HEADER_LEN as u32 + u32::from(payload_len);
        let (src, dst) = (src.to_bits(), dst.to_bits());
        let total = self.sum + u64::from(total_len) + u64::from(src) + u64::from(dst);
        let check = u32::from(checksum::finish(total));
        let [first, second, third] = self.words;
        let words = [first | total_len & 0xffff, second, third | check, src, dst];
        for (place, word) in out.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
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
            src: u32, dst: u32, ttl: u8, dscp in 0u8..64, ecn in 0u8..4, protocol: u8,
            identification: u16, dont_fragment: bool, payload_len in 0u16..9000,
            options in proptest::collection::vec(any::<[u8; 4]>(), 0..=10),
        ) {
            let header = Header {
                src: src.into(), dst: dst.into(), ttl, dscp, ecn, identification, dont_fragment,
                protocol, options: options.as_flattened(), payload_len,
            };
            let mut bytes = vec![0u8; header.header_len() + usize::from(payload_len)];
            header.emit(&mut bytes).unwrap();
            let packet = Packet::new_checked(&bytes).unwrap();
            prop_assert!(packet.verify_checksum());
            prop_assert!(!packet.is_fragment());
            prop_assert_eq!(Header::parse(&packet), header);
        }

        #[test]
        fn a_template_writes_what_a_header_does(
            src: u32, dst: u32, ttl: u8, protocol: u8, payload_len in 0..=u16::MAX - 20,
        ) {
            let (src, dst) = (Ipv4Addr::from(src), Ipv4Addr::from(dst));
            let header = Header {
                src, dst, ttl, dscp: 0, ecn: 0, identification: 0, dont_fragment: true, protocol,
                options: &[], payload_len,
            };
            let (mut expected, mut written) = ([0; HEADER_LEN], [0xaa; HEADER_LEN]);
            header.emit(&mut expected).unwrap();
            Template::new(ttl, protocol).emit(&mut written, (src, dst), payload_len);
            prop_assert_eq!(written, expected);
        }

        #[test]
        fn options_of_impossible_length_are_refused(len in 0usize..80) {
            let options = vec![1; len];
            let header = Header {
                src: Ipv4Addr::LOCALHOST, dst: Ipv4Addr::LOCALHOST, ttl: 1, dscp: 0, ecn: 0,
                identification: 0, dont_fragment: true, protocol: 17, options: &options,
                payload_len: 0,
            };
            let fits = len.is_multiple_of(4) && len <= 40;
            prop_assert_eq!(header.emit(&mut [0; 128]).is_ok(), fits);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(packet) = Packet::new_checked(&bytes) {
                let _ = (Header::parse(&packet), packet.verify_checksum(), packet.is_fragment());
            }
        }
    }
}
