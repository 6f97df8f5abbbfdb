//! GTP-U, the user plane of mobile networks (3GPP TS 29.281), with the PDU
//! session container of 5G (TS 38.415).

use crate::{Malformed, be16, be32, ethernet, front};

/// Bytes of a header without optional fields.
pub const HEADER_LEN: usize = 8;
/// UDP destination port (TS 29.281 section 4.4.2).
pub const PORT: u16 = 2152;
/// Version 1, protocol type GTP.
const VERSION: u8 = 0x30;
/// An extension header follows.
const EXTENSION: u8 = 0x04;
/// Any of extension, sequence number and N-PDU number: all three are there.
const OPTIONAL: u8 = 0x07;
const OPTIONAL_LEN: usize = 4;
/// The message that carries a user's packet.
const G_PDU: u8 = 0xff;
/// Extension header type of a PDU session container.
const SESSION_TYPE: u8 = 0x85;
const SESSION_LEN: usize = 4;

/// View of a G-PDU with its extension headers and the packet behind them.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    header_len: usize,
}

impl<'a> Packet<'a> {
    /// A view of `bytes`, a datagram's payload.
    ///
    /// # Errors
    /// [`Malformed`] if it is no G-PDU of version 1 or does not fit.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN || bytes[0] & 0xf0 != VERSION || bytes[1] != G_PDU {
            return Err(Malformed);
        }
        let end = HEADER_LEN + usize::from(be16(bytes, 2));
        let bytes = bytes.get(..end).ok_or(Malformed)?;
        let header_len = header_len(bytes).ok_or(Malformed)?;
        if header_len > bytes.len() {
            return Err(Malformed);
        }
        Ok(Self { bytes, header_len })
    }

    /// Tunnel endpoint identifier.
    pub fn teid(&self) -> u32 {
        be32(self.bytes, 4)
    }

    /// The PDU session container, if it is the first extension header.
    pub fn session(&self) -> Option<Session> {
        let is_there = self.bytes[0] & EXTENSION != 0 && self.bytes[11] == SESSION_TYPE;
        is_there.then(|| Session {
            pdu_type: self.bytes[13] >> 4,
            qfi: self.bytes[14] & 0x3f,
        })
    }

    /// Bytes of header and extension headers.
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// EtherType of the payload, if it is IP: nothing announces it.
    pub fn ethertype(&self) -> Option<u16> {
        ethernet::ip_ethertype(self.payload())
    }

    /// What is inside.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..]
    }
}

/// Bytes of the header at the front of `bytes` with all extension headers, each
/// of as many words as its first byte says and with the type of the next in its
/// last (TS 29.281 section 5.2.1).
fn header_len(bytes: &[u8]) -> Option<usize> {
    if bytes[0] & OPTIONAL == 0 {
        return Some(HEADER_LEN);
    }
    let mut len = HEADER_LEN + OPTIONAL_LEN;
    let mut next = *bytes.get(len - 1)?;
    while bytes[0] & EXTENSION != 0 && next != 0 {
        let words = usize::from(*bytes.get(len)?);
        if words == 0 {
            return None;
        }
        len += words * 4;
        next = *bytes.get(len - 1)?;
    }
    Some(len)
}

/// A PDU session container (TS 38.415 section 5.5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// 0 downlink, 1 uplink.
    pub pdu_type: u8,
    /// QoS flow identifier, 0 to 63.
    pub qfi: u8,
}

/// A header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Tunnel endpoint identifier.
    pub teid: u32,
    /// PDU session container.
    pub session: Option<Session>,
    /// Bytes behind the header.
    pub payload_len: u16,
}

impl Header {
    /// Reads the value back; other extension headers are not kept.
    pub fn parse(packet: &Packet<'_>) -> Self {
        Self {
            teid: packet.teid(),
            session: packet.session(),
            payload_len: packet.payload().len() as u16,
        }
    }

    /// Bytes of the header with its container.
    pub fn header_len(&self) -> usize {
        match self.session {
            None => HEADER_LEN,
            Some(_) => HEADER_LEN + OPTIONAL_LEN + SESSION_LEN,
        }
    }

    /// Writes the header into the front of `out`.
    ///
    /// # Errors
    /// [`Malformed`] if `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Malformed> {
        let len = self.header_len();
        let out = front(out, len)?;
        let counted = self.payload_len.wrapping_add((len - HEADER_LEN) as u16);
        out[..2].copy_from_slice(&[VERSION, G_PDU]);
        out[2..4].copy_from_slice(&counted.to_be_bytes());
        out[4..8].copy_from_slice(&self.teid.to_be_bytes());
        if let Some(Session { pdu_type, qfi }) = self.session {
            out[0] |= EXTENSION;
            out[8..12].copy_from_slice(&[0, 0, 0, SESSION_TYPE]);
            out[12..].copy_from_slice(&[1, pdu_type << 4, qfi & 0x3f, 0]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_are_as_the_specifications_draw_them() {
        let plain = Header {
            teid: 0x1234,
            session: None,
            payload_len: 4,
        };
        let (pdu_type, qfi) = (1, 9);
        let with_session = Header {
            session: Some(Session { pdu_type, qfi }),
            ..plain
        };
        let mut bytes = [0x45; 20];
        plain.emit(&mut bytes).unwrap();
        assert_eq!(bytes[..8], [0x30, 0xff, 0, 4, 0, 0, 0x12, 0x34]);
        assert_eq!(Packet::new_checked(&bytes).unwrap().payload(), [0x45; 4]);
        with_session.emit(&mut bytes).unwrap();
        assert_eq!(bytes[..8], [0x34, 0xff, 0, 12, 0, 0, 0x12, 0x34]);
        assert_eq!(bytes[8..16], [0, 0, 0, 0x85, 1, 0x10, 9, 0]);
        let packet = Packet::new_checked(&bytes).unwrap();
        assert_eq!(
            (Header::parse(&packet), packet.header_len()),
            (with_session, 16)
        );
        assert_eq!(packet.ethertype(), Some(ethernet::ETHERTYPE_IPV4));
        // An echo request carries no packet.
        bytes[1] = 1;
        assert_eq!(Packet::new_checked(&bytes).unwrap_err(), Malformed);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            flags in 0x30u8..0x38, bytes in proptest::collection::vec(any::<u8>(), 4..60),
        ) {
            let mut bytes = bytes;
            let counted = (bytes.len().saturating_sub(HEADER_LEN) as u16).to_be_bytes();
            bytes[..4].copy_from_slice(&[flags, G_PDU, counted[0], counted[1]]);
            if let Ok(packet) = Packet::new_checked(&bytes) {
                let _ = (Header::parse(&packet), packet.ethertype());
            }
        }
    }
}
