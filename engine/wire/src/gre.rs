//! GRE (RFC 2784) with key and sequence number (RFC 2890).

use crate::{Malformed, be16, be32, checksum, front};

/// Bytes of a header without optional fields.
pub const HEADER_LEN: usize = 4;
const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const VERSION: u16 = 0x0007;

/// View of a header with its optional fields and what is behind them.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    flags: u16,
    header_len: usize,
}

impl<'a> Packet<'a> {
    /// A view of `bytes`, an IP packet's payload.
    ///
    /// # Errors
    /// [`Malformed`] if the version is not 0, source routing is announced, or
    /// the fields do not fit.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN {
            return Err(Malformed);
        }
        let flags = be16(bytes, 0);
        let optional = (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones();
        let header_len = HEADER_LEN + 4 * optional as usize;
        if flags & (VERSION | ROUTING) != 0 || bytes.len() < header_len {
            return Err(Malformed);
        }
        Ok(Self {
            bytes,
            flags,
            header_len,
        })
    }

    /// EtherType of the payload.
    pub fn protocol(&self) -> u16 {
        be16(self.bytes, 2)
    }

    /// Whether there is a checksum.
    pub fn has_checksum(&self) -> bool {
        self.flags & CHECKSUM != 0
    }

    /// Whether the checksum over header and payload is right, or absent.
    pub fn verify_checksum(&self) -> bool {
        !self.has_checksum() || checksum::fold(checksum::sum(self.bytes)) == 0xffff
    }

    /// Key, if there is one.
    pub fn key(&self) -> Option<u32> {
        let at = HEADER_LEN + if self.has_checksum() { 4 } else { 0 };
        (self.flags & KEY != 0).then(|| be32(self.bytes, at))
    }

    /// Sequence number, if there is one.
    pub fn sequence(&self) -> Option<u32> {
        (self.flags & SEQUENCE != 0).then(|| be32(self.bytes, self.header_len - 4))
    }

    /// Bytes of the header with its optional fields.
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// What is inside.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..]
    }
}

/// A header without checksum as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// EtherType of the payload.
    pub protocol: u16,
    /// Key.
    pub key: Option<u32>,
    /// Sequence number.
    pub sequence: Option<u32>,
}

impl Header {
    /// Reads the value back; a checksum is not kept.
    pub fn parse(packet: &Packet<'_>) -> Self {
        Self {
            protocol: packet.protocol(),
            key: packet.key(),
            sequence: packet.sequence(),
        }
    }

    /// Bytes of the header with its optional fields.
    pub fn header_len(&self) -> usize {
        let optional = usize::from(self.key.is_some()) + usize::from(self.sequence.is_some());
        HEADER_LEN + 4 * optional
    }

    /// Writes the header into the front of `out`.
    ///
    /// # Errors
    /// [`Malformed`] if `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Malformed> {
        let out = front(out, self.header_len())?;
        let flag = |present, flag| if present { flag } else { 0 };
        let flags = flag(self.key.is_some(), KEY) | flag(self.sequence.is_some(), SEQUENCE);
        out[..2].copy_from_slice(&flags.to_be_bytes());
        out[2..4].copy_from_slice(&self.protocol.to_be_bytes());
        let optional = [self.key, self.sequence].into_iter().flatten();
        for (field, value) in out[HEADER_LEN..].chunks_mut(4).zip(optional) {
            field.copy_from_slice(&value.to_be_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_checksum_is_verified_and_stands_before_the_key() {
        let mut bytes = [0xa0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 9, 1, 2, 3];
        let check = checksum::finish(checksum::sum(&bytes));
        bytes[4..6].copy_from_slice(&check.to_be_bytes());
        let packet = Packet::new_checked(&bytes).unwrap();
        assert_eq!(packet.key(), Some(9));
        assert!(packet.verify_checksum());
        bytes[13] ^= 1;
        assert!(!Packet::new_checked(&bytes).unwrap().verify_checksum());
    }

    proptest! {
        #[test]
        fn header_round_trips(protocol: u16, key: Option<u32>, sequence: Option<u32>) {
            let header = Header { protocol, key, sequence };
            let mut bytes = [0xff; 20];
            header.emit(&mut bytes).unwrap();
            let packet = Packet::new_checked(&bytes).unwrap();
            prop_assert_eq!(Header::parse(&packet), header);
            prop_assert_eq!(packet.payload().len(), 20 - header.header_len());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            if let Ok(packet) = Packet::new_checked(&bytes) {
                let _ = (Header::parse(&packet), packet.payload(), packet.verify_checksum());
            }
        }
    }
}
