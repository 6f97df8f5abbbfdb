//! PPPoE sessions (RFC 2516), with the protocol field of PPP (RFC 1661).

use crate::{Malformed, be16, ethernet};

/// Bytes of the session's header and of PPP's protocol field.
pub const HEADER_LEN: usize = 8;
/// Bytes before those that the length field counts.
pub const LENGTH_FROM: usize = 6;
/// PPP protocol number of IPv4.
pub const PPP_IPV4: u16 = 0x0021;
/// PPP protocol number of IPv6 (RFC 5072).
pub const PPP_IPV6: u16 = 0x0057;
/// PPP protocol number of padding, which receivers discard.
pub const PPP_PADDING: u16 = 0x0001;
/// Version 1, type 1.
const VERSION_AND_TYPE: u8 = 0x11;

/// View of a session's packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// A view of `bytes`, a frame's payload; Ethernet padding is left out.
    ///
    /// # Errors
    /// [`Malformed`] if it is no session data of version 1 or does not fit.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN || bytes[..2] != [VERSION_AND_TYPE, 0] {
            return Err(Malformed);
        }
        let end = LENGTH_FROM + usize::from(be16(bytes, 4));
        if end < HEADER_LEN || end > bytes.len() {
            return Err(Malformed);
        }
        Ok(Self {
            bytes: &bytes[..end],
        })
    }

    /// Session identifier.
    pub fn session_id(&self) -> u16 {
        be16(self.bytes, 2)
    }

    /// PPP protocol number.
    pub fn protocol(&self) -> u16 {
        be16(self.bytes, 6)
    }

    /// EtherType of the payload, if it is IP.
    pub fn ethertype(&self) -> Option<u16> {
        match self.protocol() {
            PPP_IPV4 => Some(ethernet::ETHERTYPE_IPV4),
            PPP_IPV6 => Some(ethernet::ETHERTYPE_IPV6),
            _ => None,
        }
    }

    /// What is inside.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }
}

/// A header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Session identifier.
    pub session_id: u16,
    /// PPP protocol number.
    pub protocol: u16,
    /// Bytes behind the header.
    pub payload_len: u16,
}

impl Header {
    /// Reads the value back.
    pub fn parse(packet: &Packet<'_>) -> Self {
        Self {
            session_id: packet.session_id(),
            protocol: packet.protocol(),
            payload_len: packet.payload().len() as u16,
        }
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; HEADER_LEN]) {
        out[..2].copy_from_slice(&[VERSION_AND_TYPE, 0]);
        out[2..4].copy_from_slice(&self.session_id.to_be_bytes());
        out[4..6].copy_from_slice(&self.payload_len.wrapping_add(2).to_be_bytes());
        out[6..].copy_from_slice(&self.protocol.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_is_as_the_rfc_draws_it() {
        let header = Header {
            session_id: 0x1234,
            protocol: PPP_IPV4,
            payload_len: 20,
        };
        let mut bytes = [0xff; HEADER_LEN + 22];
        header.emit(bytes.first_chunk_mut().unwrap());
        assert_eq!(bytes[..HEADER_LEN], [0x11, 0, 0x12, 0x34, 0, 22, 0, 0x21]);
        let packet = Packet::new_checked(&bytes).unwrap();
        assert_eq!(Header::parse(&packet), header);
        assert_eq!(packet.ethertype(), Some(ethernet::ETHERTYPE_IPV4));
        // Discovery is no session.
        bytes[1] = 9;
        assert_eq!(Packet::new_checked(&bytes).unwrap_err(), Malformed);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            front in prop_oneof![Just([0x11u8, 0]), any::<[u8; 2]>()],
            bytes in proptest::collection::vec(any::<u8>(), 2..40),
        ) {
            let mut bytes = bytes;
            bytes[..2].copy_from_slice(&front);
            if let Ok(packet) = Packet::new_checked(&bytes) {
                let _ = (Header::parse(&packet), packet.ethertype(), packet.payload());
            }
        }
    }
}
