//! Geneve (RFC 8926).

use crate::{Malformed, be16, be24, front};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 8;
/// UDP destination port (RFC 8926 section 3.3).
pub const PORT: u16 = 6081;
/// Bytes of all options together at most.
pub const MAX_OPTIONS: usize = 63 * 4;
const CONTROL: u8 = 0x80;
const CRITICAL: u8 = 0x40;

/// View of a header with its options and what is behind them.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    header_len: usize,
}

impl<'a> Packet<'a> {
    /// A view of `bytes`, a datagram's payload.
    ///
    /// # Errors
    /// [`Malformed`] if the version is not 0 or header and options do not fit.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN || bytes[0] >> 6 != 0 {
            return Err(Malformed);
        }
        let header_len = HEADER_LEN + usize::from(bytes[0] & 0x3f) * 4;
        if bytes.len() < header_len {
            return Err(Malformed);
        }
        Ok(Self { bytes, header_len })
    }

    /// Virtual network identifier; 24 bits.
    pub fn vni(&self) -> u32 {
        be24(self.bytes, 4)
    }

    /// EtherType of the payload.
    pub fn protocol(&self) -> u16 {
        be16(self.bytes, 2)
    }

    /// Whether this is a control packet.
    pub fn is_control(&self) -> bool {
        self.bytes[1] & CONTROL != 0
    }

    /// Whether an option must be understood.
    pub fn is_critical(&self) -> bool {
        self.bytes[1] & CRITICAL != 0
    }

    /// Bytes of header and options.
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// Options as they stand on the wire.
    pub fn options(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..self.header_len]
    }

    /// What is inside.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..]
    }
}

/// A header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Virtual network identifier; 24 bits.
    pub vni: u32,
    /// EtherType of the payload.
    pub protocol: u16,
    /// Whether this is a control packet.
    pub control: bool,
    /// Options as they stand on the wire: a multiple of 4 bytes, at most
    /// [`MAX_OPTIONS`].
    pub options: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads the value back.
    pub fn parse(packet: &Packet<'a>) -> Self {
        Self {
            vni: packet.vni(),
            protocol: packet.protocol(),
            control: packet.is_control(),
            options: packet.options(),
        }
    }

    /// Bytes of header and options.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header into the front of `out`; it is marked critical if
    /// an option is (RFC 8926 section 3.4).
    ///
    /// # Errors
    /// [`Malformed`] if `out` is too short or the options have no length a
    /// header can have.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), Malformed> {
        let len = self.options.len();
        if !len.is_multiple_of(4) || len > MAX_OPTIONS {
            return Err(Malformed);
        }
        let out = front(out, self.header_len())?;
        let control = if self.control { CONTROL } else { 0 };
        let critical = if any_critical(self.options) {
            CRITICAL
        } else {
            0
        };
        out[0] = (len / 4) as u8;
        out[1] = control | critical;
        out[2..4].copy_from_slice(&self.protocol.to_be_bytes());
        out[4..8].copy_from_slice(&(self.vni << 8).to_be_bytes());
        out[8..].copy_from_slice(self.options);
        Ok(())
    }
}

/// Whether one of the options, each of 4 bytes and as many words as its last
/// byte says, has a type with the highest bit set (RFC 8926 section 3.5).
fn any_critical(mut options: &[u8]) -> bool {
    while let Some((head, rest)) = options.split_first_chunk::<4>() {
        if head[2] & 0x80 != 0 {
            return true;
        }
        options = rest.get(usize::from(head[3] & 0x1f) * 4..).unwrap_or(&[]);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    #[test]
    fn a_critical_option_marks_the_header() {
        let options = [1, 2, 3, 1, 0x80, 0x80, 0x80, 0x80, 1, 2, 0x83, 0];
        for (len, critical) in [(8, false), (12, true)] {
            let options = &options[..len];
            let header = Header {
                vni: 1,
                protocol: 0x6558,
                control: false,
                options,
            };
            let mut bytes = [0; HEADER_LEN + 12];
            header.emit(&mut bytes).unwrap();
            assert_eq!(Packet::new_checked(&bytes).unwrap().is_critical(), critical);
        }
    }

    proptest! {
        #[test]
        fn header_round_trips(
            vni in 0u32..1 << 24, protocol: u16, control: bool,
            options in proptest::collection::vec(any::<[u8; 4]>(), 0..=63),
        ) {
            let header = Header { vni, protocol, control, options: options.as_flattened() };
            let mut bytes = vec![0xff; header.header_len() + 3];
            header.emit(&mut bytes).unwrap();
            let packet = Packet::new_checked(&bytes).unwrap();
            prop_assert_eq!(Header::parse(&packet), header);
            prop_assert_eq!(packet.payload().len(), 3);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(packet) = Packet::new_checked(&bytes) {
                let _ = (Header::parse(&packet), packet.payload());
                let mut out = [0; 512];
                let _ = Header::parse(&packet).emit(&mut out);
            }
        }
    }
}
