//! VXLAN (RFC 7348).

use crate::{Malformed, be24};

/// Bytes of a header.
pub const HEADER_LEN: usize = 8;
/// UDP destination port (RFC 7348 section 5).
pub const PORT: u16 = 4789;
/// The only flag: the network identifier is valid.
const VALID: u8 = 0x08;

/// View of a header and the Ethernet frame behind it.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// A view of `bytes`, a datagram's payload.
    ///
    /// # Errors
    /// [`Malformed`] if the header does not fit or announces no identifier.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN || bytes[0] & VALID == 0 {
            return Err(Malformed);
        }
        Ok(Self { bytes })
    }

    /// VXLAN network identifier; 24 bits.
    pub fn vni(&self) -> u32 {
        be24(self.bytes, 4)
    }

    /// Whether all reserved bits are zero, as a sender must leave them; other
    /// data on VXLAN's port hardly ever looks like that.
    pub fn is_plain(&self) -> bool {
        self.bytes[..4] == [VALID, 0, 0, 0] && self.bytes[7] == 0
    }

    /// The Ethernet frame inside.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }
}

/// A header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// VXLAN network identifier; 24 bits.
    pub vni: u32,
}

impl Header {
    /// Reads the value back.
    pub fn parse(packet: &Packet<'_>) -> Self {
        Self { vni: packet.vni() }
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; HEADER_LEN]) {
        *out = [VALID, 0, 0, 0, 0, 0, 0, 0];
        out[4..].copy_from_slice(&(self.vni << 8).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn header_round_trips(vni in 0u32..1 << 24) {
            let mut bytes = [0xff; HEADER_LEN];
            Header { vni }.emit(&mut bytes);
            let packet = Packet::new_checked(&bytes).unwrap();
            prop_assert_eq!(Header::parse(&packet), Header { vni });
            prop_assert!(packet.is_plain());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            if let Ok(packet) = Packet::new_checked(&bytes) {
                let _ = (Header::parse(&packet), packet.payload(), packet.is_plain());
            }
        }
    }
}
