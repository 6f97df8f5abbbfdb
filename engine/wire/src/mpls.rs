//! MPLS label stack entries (RFC 3032 section 2.1; the traffic class, RFC 5462).

/// Bytes of an entry.
pub const LEN: usize = 4;

/// An entry as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Label, 20 bits.
    pub label: u32,
    /// Traffic class, 0 to 7.
    pub tc: u8,
    /// Whether it is the last of its stack.
    pub bottom: bool,
    /// Time to live.
    pub ttl: u8,
}

impl Entry {
    /// Reads an entry.
    pub fn parse(bytes: &[u8; LEN]) -> Self {
        let word = u32::from_be_bytes(*bytes);
        Self {
            label: word >> 12,
            tc: (word >> 9) as u8 & 7,
            bottom: word & 0x100 != 0,
            ttl: word as u8,
        }
    }

    /// Writes the entry; the parts are cut to their widths.
    pub fn emit(&self, out: &mut [u8; LEN]) {
        let tc = u32::from(self.tc & 7);
        let word = self.label << 12 | tc << 9 | u32::from(self.bottom) << 8 | u32::from(self.ttl);
        *out = word.to_be_bytes();
    }
}

/// What is behind the stack that `bytes` begin with; none if they end before it
/// does.
pub fn behind(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let (entry, rest) = bytes.split_first_chunk::<LEN>()?;
        if Entry::parse(entry).bottom {
            return Some(rest);
        }
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_are_as_the_rfc_draws_them() {
        let outer = Entry {
            label: 100,
            tc: 5,
            bottom: false,
            ttl: 255,
        };
        let inner = Entry {
            label: 16,
            tc: 0,
            bottom: true,
            ttl: 64,
        };
        let bytes = [0, 6, 0x4a, 255, 0, 1, 1, 64, 0x45];
        assert_eq!(Entry::parse(&[0, 6, 0x4a, 255]), outer);
        assert_eq!(Entry::parse(&[0, 1, 1, 64]), inner);
        assert_eq!(behind(&bytes), Some(&[0x45][..]));
        assert_eq!(behind(&bytes[..7]), None);
    }

    proptest! {
        #[test]
        fn every_bit_is_kept(bytes: [u8; LEN]) {
            let mut again = [0; LEN];
            Entry::parse(&bytes).emit(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }
}
