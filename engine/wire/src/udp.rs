//! UDP (RFC 768).

use crate::checksum::Address;
use crate::{Malformed, be16, checksum, ipv4};

/// Bytes of a header.
pub const HEADER_LEN: usize = 8;

/// Unfolded sum of the pseudo header (RFC 768) for `len` bytes of UDP header
/// and payload.
#[inline]
pub fn pseudo_sum<A: Address>(src: A, dst: A, len: u16) -> u64 {
    checksum::pseudo_sum(src, dst, ipv4::PROTOCOL_UDP, u32::from(len))
}

/// View of a datagram, cut at its length field.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    bytes: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// A view of the datagram at the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed`] if the header or the announced length does not fit.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN {
            return Err(Malformed);
        }
        let len = usize::from(be16(bytes, 4));
        if len < HEADER_LEN || len > bytes.len() {
            return Err(Malformed);
        }
        Ok(Self {
            bytes: &bytes[..len],
        })
    }

    /// Source port.
    #[inline]
    pub fn src(&self) -> u16 {
        be16(self.bytes, 0)
    }

    /// Destination port.
    #[inline]
    pub fn dst(&self) -> u16 {
        be16(self.bytes, 2)
    }

    /// Whether there is a checksum; over IPv6 only tunnels may do without
    /// (RFC 6935).
    #[inline]
    pub fn has_checksum(&self) -> bool {
        be16(self.bytes, 6) != 0
    }

    /// Whether the checksum is right for these addresses, or absent.
    #[inline]
    pub fn verify_checksum<A: Address>(&self, src: A, dst: A) -> bool {
        let total = pseudo_sum(src, dst, self.bytes.len() as u16) + checksum::sum(self.bytes);
        !self.has_checksum() || checksum::fold(total) == 0xffff
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }
}

/// A header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
}

impl Header {
    /// Reads the value back.
    pub fn parse(datagram: &Datagram<'_>) -> Self {
        Self {
            src: datagram.src(),
            dst: datagram.dst(),
        }
    }

    /// Writes header and checksum into the front of `datagram`, whose payload
    /// must already stand behind it.
    ///
    /// # Errors
    /// [`Malformed`] if `datagram` is shorter than a header or longer than
    /// 65,535 bytes.
    pub fn emit<A: Address>(
        &self,
        datagram: &mut [u8],
        ip_src: A,
        ip_dst: A,
    ) -> Result<(), Malformed> {
        let len = u16::try_from(datagram.len()).map_err(|_| Malformed)?;
        let header = datagram.first_chunk_mut::<HEADER_LEN>().ok_or(Malformed)?;
        header[..2].copy_from_slice(&self.src.to_be_bytes());
        header[2..4].copy_from_slice(&self.dst.to_be_bytes());
        header[4..6].copy_from_slice(&len.to_be_bytes());
        header[6..].fill(0);
        let total = pseudo_sum(ip_src, ip_dst, len) + checksum::sum(datagram);
        datagram[6..8].copy_from_slice(&checksum::finish_udp(total).to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn datagram_round_trips_and_a_flipped_bit_shows(
            ip_src: u32, ip_dst: u32, src: u16, dst: u16,
            payload in proptest::collection::vec(any::<u8>(), 1..200),
            at: usize, bit in 0u32..8,
        ) {
            let (ip_src, ip_dst) = (Ipv4Addr::from(ip_src), Ipv4Addr::from(ip_dst));
            let header = Header { src, dst };
            let mut bytes: Vec<u8> = [0; HEADER_LEN].iter().chain(&payload).copied().collect();
            header.emit(&mut bytes, ip_src, ip_dst).unwrap();
            let view = Datagram::new_checked(&bytes).unwrap();
            prop_assert_eq!(Header::parse(&view), header);
            prop_assert_eq!(view.payload(), &payload[..]);
            prop_assert!(view.verify_checksum(ip_src, ip_dst));
            let at = HEADER_LEN + at % payload.len();
            bytes[at] ^= 1 << bit;
            let view = Datagram::new_checked(&bytes).unwrap();
            prop_assert!(!view.verify_checksum(ip_src, ip_dst));
        }

        #[test]
        fn datagram_over_ipv6_round_trips(src: u128, dst: u128, ports: (u16, u16)) {
            let (src, dst) = (Ipv6Addr::from(src), Ipv6Addr::from(dst));
            let mut bytes = [0; HEADER_LEN + 5];
            Header { src: ports.0, dst: ports.1 }.emit(&mut bytes, src, dst).unwrap();
            let view = Datagram::new_checked(&bytes).unwrap();
            prop_assert!(view.has_checksum() && view.verify_checksum(src, dst));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(view) = Datagram::new_checked(&bytes) {
                let _ = (Header::parse(&view), view.payload());
                let _ = view.verify_checksum(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST);
            }
        }
    }
}
