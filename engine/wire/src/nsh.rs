//! The network service header (RFC 8300).

use crate::{Malformed, be16, be24, ethernet, front};

/// Bytes of a header without context.
pub const HEADER_LEN: usize = 8;
/// Bytes of the context of metadata type 1.
pub const CONTEXT_LEN: usize = 16;
/// Next protocol: IPv4.
pub const NEXT_IPV4: u8 = 1;
/// Next protocol: IPv6.
pub const NEXT_IPV6: u8 = 2;
/// Next protocol: Ethernet.
pub const NEXT_ETHERNET: u8 = 3;
/// Next protocol: experiment 1.
pub const NEXT_EXPERIMENT: u8 = 0xfe;

/// View of a header with its context and what is behind it.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    header_len: usize,
}

impl<'a> Packet<'a> {
    /// A view of `bytes`, what an EtherType announced.
    ///
    /// # Errors
    /// [`Malformed`] if the version is not 0 or the header does not fit.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN || bytes[0] >> 6 != 0 {
            return Err(Malformed);
        }
        let header_len = usize::from(bytes[1] & 0x3f) * 4;
        if header_len < HEADER_LEN || bytes.len() < header_len {
            return Err(Malformed);
        }
        Ok(Self { bytes, header_len })
    }

    /// Time to live, 0 to 63.
    pub fn ttl(&self) -> u8 {
        (be16(self.bytes, 0) >> 6) as u8 & 0x3f
    }

    /// Service path identifier; 24 bits.
    pub fn spi(&self) -> u32 {
        be24(self.bytes, 4)
    }

    /// Service index.
    pub fn si(&self) -> u8 {
        self.bytes[7]
    }

    /// Context as it stands on the wire.
    pub fn context(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..self.header_len]
    }

    /// Next protocol.
    pub fn protocol(&self) -> u8 {
        self.bytes[3]
    }

    /// EtherType of the payload, if it is IP or Ethernet.
    pub fn ethertype(&self) -> Option<u16> {
        match self.protocol() {
            NEXT_IPV4 => Some(ethernet::ETHERTYPE_IPV4),
            NEXT_IPV6 => Some(ethernet::ETHERTYPE_IPV6),
            NEXT_ETHERNET => Some(ethernet::ETHERTYPE_BRIDGED),
            _ => None,
        }
    }

    /// Bytes of header and context.
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// What is inside.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..]
    }
}

/// A header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Service path identifier; 24 bits.
    pub spi: u32,
    /// Service index.
    pub si: u8,
    /// Time to live, 0 to 63.
    pub ttl: u8,
    /// Next protocol.
    pub protocol: u8,
    /// [`CONTEXT_LEN`] bytes, with metadata type 1, or none, with type 2.
    pub context: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads the value back.
    pub fn parse(packet: &Packet<'a>) -> Self {
        Self {
            spi: packet.spi(),
            si: packet.si(),
            ttl: packet.ttl(),
            protocol: packet.protocol(),
            context: packet.context(),
        }
    }

    /// Bytes of header and context.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.context.len()
    }

    /// Writes the header into the front of `out`.
    ///
    /// # Errors
    /// [`Malformed`] if `out` is too short or the context has no length that it
    /// can have.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Malformed> {
        let metadata_type = match self.context.len() {
            CONTEXT_LEN => 1,
            0 => 2,
            _ => return Err(Malformed),
        };
        let len = self.header_len();
        let out = front(out, len)?;
        let first = u16::from(self.ttl & 0x3f) << 6 | (len / 4) as u16;
        out[..2].copy_from_slice(&first.to_be_bytes());
        out[2..4].copy_from_slice(&[metadata_type, self.protocol]);
        let path = self.spi << 8 | u32::from(self.si);
        out[4..8].copy_from_slice(&path.to_be_bytes());
        out[8..].copy_from_slice(self.context);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_are_as_the_rfc_draws_them() {
        let context = [7; CONTEXT_LEN];
        let fixed = Header {
            spi: 0x12_3456,
            si: 255,
            ttl: 63,
            protocol: NEXT_ETHERNET,
            context: &context,
        };
        let mut bytes = [0xee; HEADER_LEN + CONTEXT_LEN];
        fixed.emit(&mut bytes).unwrap();
        assert_eq!(bytes[..8], [0x0f, 0xc6, 1, 3, 0x12, 0x34, 0x56, 255]);
        let packet = Packet::new_checked(&bytes).unwrap();
        assert_eq!(Header::parse(&packet), fixed);
        assert_eq!(packet.ethertype(), Some(ethernet::ETHERTYPE_BRIDGED));
        let without = Header {
            context: &[],
            ..fixed
        };
        let mut bytes = [0xee; HEADER_LEN + 3];
        without.emit(&mut bytes).unwrap();
        assert_eq!(bytes[..4], [0x0f, 0xc2, 2, 3]);
        let packet = Packet::new_checked(&bytes).unwrap();
        assert_eq!(
            (Header::parse(&packet), packet.payload().len()),
            (without, 3)
        );
        let odd = Header {
            context: &context[..4],
            ..fixed
        };
        assert_eq!(odd.emit(&mut bytes), Err(Malformed));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(packet) = Packet::new_checked(&bytes) {
                let _ = (Header::parse(&packet), packet.ethertype(), packet.payload());
            }
        }
    }
}
