//! ICMP (RFC 792).

use crate::{Malformed, be16, checksum};

/// Bytes of a header.
pub const HEADER_LEN: usize = 8;
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type of an echo request.
pub const ECHO: u8 = 8;

/// View of a message.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// A view of `bytes`, an IPv4 packet's payload.
    ///
    /// # Errors
    /// [`Malformed`] if the header does not fit.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN {
            return Err(Malformed);
        }
        Ok(Self { bytes })
    }

    /// Type.
    pub fn kind(&self) -> u8 {
        self.bytes[0]
    }

    /// Code.
    pub fn code(&self) -> u8 {
        self.bytes[1]
    }

    /// Identifier of an echo; of other types, bytes 4 and 5.
    pub fn identifier(&self) -> u16 {
        be16(self.bytes, 4)
    }

    /// Sequence number of an echo; of other types, bytes 6 and 7.
    pub fn sequence(&self) -> u16 {
        be16(self.bytes, 6)
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }

    /// Whether the checksum is right.
    pub fn verify_checksum(&self) -> bool {
        checksum::fold(checksum::sum(self.bytes)) == 0xffff
    }
}

/// A header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// Identifier of an echo; of other types, bytes 4 and 5.
    pub identifier: u16,
    /// Sequence number of an echo; of other types, bytes 6 and 7.
    pub sequence: u16,
}

impl Header {
    /// Reads the value back.
    pub fn parse(message: &Message<'_>) -> Self {
        Self {
            kind: message.kind(),
            code: message.code(),
            identifier: message.identifier(),
            sequence: message.sequence(),
        }
    }

    /// Writes header and checksum into the front of `message`, whose payload
    /// must already stand behind it.
    ///
    /// # Errors
    /// [`Malformed`] if `message` is shorter than a header.
    pub fn emit(&self, message: &mut [u8]) -> Result<(), Malformed> {
        self.emit_without_checksum(message)?;
        let check = checksum::finish(checksum::sum(message));
        message[2..4].copy_from_slice(&check.to_be_bytes());
        Ok(())
    }

    pub(crate) fn emit_without_checksum(self, message: &mut [u8]) -> Result<(), Malformed> {
        let header = message.first_chunk_mut::<HEADER_LEN>().ok_or(Malformed)?;
        header[..4].copy_from_slice(&[self.kind, self.code, 0, 0]);
        header[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        header[6..].copy_from_slice(&self.sequence.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    proptest! {
        #[test]
        fn message_round_trips(
            kind: u8, code: u8, identifier: u16, sequence: u16, payload_len in 0usize..99,
        ) {
            let header = Header { kind, code, identifier, sequence };
            let mut bytes = vec![3; HEADER_LEN + payload_len];
            header.emit(&mut bytes).unwrap();
            let message = Message::new_checked(&bytes).unwrap();
            prop_assert_eq!(Header::parse(&message), header);
            prop_assert!(message.verify_checksum());
            bytes[5] ^= 1;
            prop_assert!(!Message::new_checked(&bytes).unwrap().verify_checksum());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(message) = Message::new_checked(&bytes) {
                let _ = (Header::parse(&message), message.payload(), message.verify_checksum());
            }
        }
    }
}
