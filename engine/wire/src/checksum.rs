//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).
//!
//! Sums are kept unfolded in a `u64`. Because 2^16 = 1 modulo 65,535, words of
//! any width that is a multiple of 16 bits may be added whole: a big-endian
//! `u32` counts for its two halves. The sum of a packet, at most 64 KiB, is
//! below 2^55: callers that add at most 2^8 of those and 2^31 `u32` cannot
//! overflow.

use core::net::{Ipv4Addr, Ipv6Addr};

/// An address as it enters a pseudo header.
pub trait Address: Copy {
    /// Unfolded sum of the address's words.
    fn sum(self) -> u64;
}

impl Address for Ipv4Addr {
    #[inline(always)]
    fn sum(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Address for Ipv6Addr {
    #[inline(always)]
    fn sum(self) -> u64 {
        let bits = self.to_bits();
        let words = [bits >> 96, bits >> 64, bits >> 32, bits];
        words.iter().map(|word| u64::from(*word as u32)).sum()
    }
}

/// Unfolded sum of the pseudo header for `len` bytes of `protocol` (RFC 768,
/// RFC 9293 section 3.1, RFC 8200 section 8.1). The layouts of IPv4 and IPv6
/// differ, the sums do not.
#[inline]
pub fn pseudo_sum<A: Address>(src: A, dst: A, protocol: u8, len: u32) -> u64 {
    src.sum() + dst.sum() + u64::from(protocol) + u64::from(len)
}

/// Unfolded sum of the big-endian 16-bit words of `data`, at most 64 KiB; an
/// odd last byte is padded with zero on the right (RFC 1071 section 4.1).
///
/// The words are added as they stand in memory, eight bytes at a time. Where
/// that swaps the bytes of each, it divides their sum by 2^8 modulo 65,535
/// (RFC 1071 section 2(B)), which one shift makes good.
#[inline]
pub fn sum(data: &[u8]) -> u64 {
    let (chunks, rest) = data.as_chunks::<8>();
    let words = chunks.iter().map(|chunk| u64::from_ne_bytes(*chunk));
    let mut total: u64 = words.map(|word| (word >> 32) + (word & 0xffff_ffff)).sum();
    // In parts of known length: a copy of an unknown length would be a call.
    let (chunks, rest) = rest.as_chunks::<4>();
    if let [chunk] = chunks {
        total += u64::from(u32::from_ne_bytes(*chunk));
    }
    let (chunks, rest) = rest.as_chunks::<2>();
    if let [chunk] = chunks {
        total += u64::from(u16::from_ne_bytes(*chunk));
    }
    if let [last] = rest {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    if cfg!(target_endian = "little") {
        total << 8
    } else {
        total
    }
}

/// Folds an unfolded sum to 16 bits with end-around carry. The result is zero
/// only for a sum of zero.
#[inline(always)]
pub const fn fold(total: u64) -> u16 {
    // Adding a number to itself with its halves swapped leaves, in the upper
    // half, the sum of both halves with the carry already brought round.
    let total = (total.wrapping_add(total.rotate_left(32)) >> 32) as u32;
    (total.wrapping_add(total.rotate_left(16)) >> 16) as u16
}

/// The checksum field for an unfolded sum: the ones' complement of its fold.
#[inline(always)]
pub const fn finish(total: u64) -> u16 {
    !fold(total)
}

/// As [`finish`], for UDP over IPv4, where a checksum of zero is sent as
/// 0xffff because zero means "none" (RFC 768).
#[inline(always)]
pub const fn finish_udp(total: u64) -> u16 {
    let check = finish(total);
    if check == 0 { 0xffff } else { check }
}

/// The checksum after one 16-bit word it covers changed from `old` to `new`
/// (RFC 1624 section 3, equation 3).
#[inline]
pub const fn update(check: u16, old: u16, new: u16) -> u16 {
    finish(!check as u64 + !old as u64 + new as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 4.1, word by word, as the reference.
    fn reference(data: &[u8]) -> u16 {
        let mut total = 0u32;
        for pair in data.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        }
        while total >> 16 != 0 {
            total = (total & 0xffff) + (total >> 16);
        }
        !(total as u16)
    }

    #[test]
    fn example_of_rfc_1071_section_3() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&data)), 0xddf2);
    }

    #[test]
    fn example_of_rfc_1624_section_4() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn the_longest_packet_of_ones_overflows_nothing_and_zeros_alone_sum_to_zero() {
        let longest = std::vec![0xff; 65_535];
        assert_eq!(finish(sum(&longest)), reference(&longest));
        assert!(sum(&longest) < 1 << 55);
        assert_eq!((sum(&[0; 61]), sum(&[])), (0, 0));
    }

    #[test]
    fn udp_never_sends_zero() {
        assert_eq!(finish_udp(0xffff), 0xffff);
    }

    proptest! {
        #[test]
        fn wide_sum_equals_the_reference(data in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(finish(sum(&data)), reference(&data));
        }

        #[test]
        fn sums_of_parts_add_up(data in proptest::collection::vec(any::<u8>(), 0..200), at: usize) {
            let at = (at % (data.len() + 1)) & !1;
            prop_assert_eq!(finish(sum(&data[..at]) + sum(&data[at..])), reference(&data));
        }

        #[test]
        fn incremental_update_equals_full_sum(
            mut data in proptest::collection::vec(any::<u8>(), 20..64),
            at in 0usize..9,
            new: u16,
        ) {
            data[0] |= 1; // an all-zero header has no nonzero sum (RFC 1624 section 3)
            let at = 2 + at * 2;
            let before = finish(sum(&data));
            let old = u16::from_be_bytes([data[at], data[at + 1]]);
            data[at..at + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update(before, old, new), finish(sum(&data)));
        }
    }
}
