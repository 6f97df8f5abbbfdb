//! VLAN tags (IEEE 802.1Q clause 9).

/// Bytes of a tag.
pub const LEN: usize = 4;
/// Tag protocol identifier of a customer tag.
pub const TPID_CUSTOMER: u16 = 0x8100;
/// Tag protocol identifier of a service tag ("QinQ").
pub const TPID_SERVICE: u16 = 0x88a8;

/// Whether an EtherType announces a tag.
#[inline(always)]
pub const fn is_tpid(ethertype: u16) -> bool {
    matches!(ethertype, TPID_CUSTOMER | TPID_SERVICE)
}

/// A tag as a value. On the wire it stands where the EtherType would, and the
/// EtherType behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Tag protocol identifier, in the place of an EtherType.
    pub tpid: u16,
    /// Priority code point, 0 to 7.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN identifier, 0 to 4095.
    pub id: u16,
}

impl Tag {
    /// Reads a tag.
    pub fn parse(bytes: &[u8; LEN]) -> Self {
        let control = u16::from_be_bytes([bytes[2], bytes[3]]);
        Self {
            tpid: u16::from_be_bytes([bytes[0], bytes[1]]),
            pcp: (control >> 13) as u8,
            dei: control & 0x1000 != 0,
            id: control & 0x0fff,
        }
    }

    /// Writes the tag; the parts are cut to their widths.
    pub fn emit(&self, out: &mut [u8; LEN]) {
        let control = u16::from(self.pcp) << 13 | u16::from(self.dei) << 12 | self.id & 0x0fff;
        out[..2].copy_from_slice(&self.tpid.to_be_bytes());
        out[2..].copy_from_slice(&control.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tag_round_trips(tpid: u16, pcp in 0u8..8, dei: bool, id in 0u16..4096) {
            let tag = Tag { tpid, pcp, dei, id };
            let mut bytes = [0; LEN];
            tag.emit(&mut bytes);
            prop_assert_eq!(Tag::parse(&bytes), tag);
        }

        #[test]
        fn every_bit_is_kept(bytes: [u8; LEN]) {
            let mut again = [0; LEN];
            Tag::parse(&bytes).emit(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }
}
