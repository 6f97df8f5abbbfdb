//! Ethernet II (IEEE 802.3 clause 3) with 802.1Q tags skipped.

use crate::vlan::{self, Tag};
use crate::{Malformed, be16};
use core::fmt;
use core::str::FromStr;

/// Bytes of an untagged header.
pub const HEADER_LEN: usize = 14;
/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherType of Ethernet inside GRE and Geneve (RFC 1701, RFC 8926).
pub const ETHERTYPE_BRIDGED: u16 = 0x6558;
/// EtherType of MPLS (RFC 5332).
pub const ETHERTYPE_MPLS: u16 = 0x8847;
/// EtherType of PPPoE sessions (RFC 2516).
pub const ETHERTYPE_PPPOE: u16 = 0x8864;
/// EtherType of network service headers (RFC 8300).
pub const ETHERTYPE_NSH: u16 = 0x894f;
/// EtherType for experiments (IEEE 802, local experimental EtherType 1).
pub const ETHERTYPE_EXPERIMENT: u16 = 0x88b5;

/// EtherType of an IP packet that nothing announces, by its version; none if it
/// is of no version.
pub fn ip_ethertype(packet: &[u8]) -> Option<u16> {
    match packet.first()? >> 4 {
        4 => Some(ETHERTYPE_IPV4),
        6 => Some(ETHERTYPE_IPV6),
        _ => None,
    }
}

/// A 48-bit address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = Malformed;

    /// Six pairs of hexadecimal digits separated by colons.
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or(Malformed)?;
            if part.len() != 2 || part.starts_with('+') {
                return Err(Malformed);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| Malformed)?;
        }
        if parts.next().is_some() {
            return Err(Malformed);
        }
        Ok(Self(bytes))
    }
}

/// View of a frame without its frame check sequence.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    payload_at: usize,
}

impl<'a> Frame<'a> {
    /// A view of `bytes`, past at most two VLAN tags.
    ///
    /// # Errors
    /// [`Malformed`] if the header or an announced tag does not fit.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut payload_at = HEADER_LEN;
        if bytes.len() < payload_at {
            return Err(Malformed);
        }
        for _ in 0..2 {
            if !vlan::is_tpid(be16(bytes, payload_at - 2)) {
                break;
            }
            payload_at += 4;
            if bytes.len() < payload_at {
                return Err(Malformed);
            }
        }
        Ok(Self { bytes, payload_at })
    }

    /// Destination address.
    pub fn dst(&self) -> Mac {
        let mut mac = Mac::default();
        mac.0.copy_from_slice(&self.bytes[..6]);
        mac
    }

    /// Source address.
    pub fn src(&self) -> Mac {
        let mut mac = Mac::default();
        mac.0.copy_from_slice(&self.bytes[6..12]);
        mac
    }

    /// EtherType after any VLAN tags.
    #[inline]
    pub fn ethertype(&self) -> u16 {
        be16(self.bytes, self.payload_at - 2)
    }

    /// Bytes of the header and its tags.
    pub fn header_len(&self) -> usize {
        self.payload_at
    }

    /// The tags, the outermost first.
    pub fn tags(&self) -> impl Iterator<Item = Tag> + 'a {
        let tags = &self.bytes[HEADER_LEN - 2..self.payload_at - 2];
        tags.as_chunks().0.iter().map(Tag::parse)
    }

    /// What follows the header and its tags, padding included.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.payload_at..]
    }
}

/// An untagged header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Destination address.
    pub dst: Mac,
    /// Source address.
    pub src: Mac,
    /// EtherType of the payload.
    pub ethertype: u16,
}

impl Header {
    /// Reads the value back; VLAN tags are not kept.
    pub fn parse(frame: &Frame<'_>) -> Self {
        Self {
            dst: frame.dst(),
            src: frame.src(),
            ethertype: frame.ethertype(),
        }
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; HEADER_LEN]) {
        out[..6].copy_from_slice(&self.dst.0);
        out[6..12].copy_from_slice(&self.src.0);
        out[12..].copy_from_slice(&self.ethertype.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn tags_are_skipped() {
        let mut bytes = [0u8; 22];
        bytes[12..14].copy_from_slice(&[0x88, 0xa8]);
        bytes[16..18].copy_from_slice(&[0x81, 0x00]);
        bytes[20..22].copy_from_slice(&[0x08, 0x00]);
        let frame = Frame::new_checked(&bytes).unwrap();
        assert_eq!(frame.ethertype(), ETHERTYPE_IPV4);
        assert!(frame.payload().is_empty());
        let tpids: std::vec::Vec<_> = frame.tags().map(|tag| tag.tpid).collect();
        assert_eq!(tpids, [0x88a8, 0x8100]);
        assert!(Frame::new_checked(&bytes[..20]).is_err());
    }

    #[test]
    fn addresses_with_wrong_shape_are_refused() {
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "+1:00:00:00:00:01",
        ] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn header_round_trips(dst: [u8; 6], src: [u8; 6]) {
            let header = Header { dst: Mac(dst), src: Mac(src), ethertype: ETHERTYPE_IPV4 };
            let mut bytes = [0; HEADER_LEN];
            header.emit(&mut bytes);
            prop_assert_eq!(Header::parse(&Frame::new_checked(&bytes).unwrap()), header);
        }

        #[test]
        fn addresses_round_trip(mac: [u8; 6]) {
            prop_assert_eq!(Mac(mac).to_string().parse::<Mac>().unwrap(), Mac(mac));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(frame) = Frame::new_checked(&bytes) {
                let _ = (frame.dst(), frame.src(), frame.ethertype(), frame.payload());
                let _ = frame.tags().count();
            }
        }
    }
}
