//! The header of ESP (RFC 4303), behind which everything is ciphertext.

use crate::{Malformed, be32};

/// Bytes of a header.
pub const HEADER_LEN: usize = 8;

/// A header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Security parameters index.
    pub spi: u32,
    /// Sequence number.
    pub sequence: u32,
}

impl Header {
    /// Reads the header at the front of an IP packet's payload.
    ///
    /// # Errors
    /// [`Malformed`] if it does not fit.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN {
            return Err(Malformed);
        }
        Ok(Self {
            spi: be32(bytes, 0),
            sequence: be32(bytes, 4),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; HEADER_LEN]) {
        out[..4].copy_from_slice(&self.spi.to_be_bytes());
        out[4..].copy_from_slice(&self.sequence.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_as_the_rfc_draws_it() {
        let header = Header {
            spi: 0xc0ff_ee01,
            sequence: 7,
        };
        let mut bytes = [0; HEADER_LEN];
        header.emit(&mut bytes);
        assert_eq!(bytes, [0xc0, 0xff, 0xee, 1, 0, 0, 0, 7]);
        assert_eq!(Header::parse(&bytes), Ok(header));
        assert_eq!(Header::parse(&bytes[..7]), Err(Malformed));
    }
}
