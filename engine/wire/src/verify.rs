//! Whether the checksums inside a frame are right.

use crate::{ethernet, ipv4, udp};

/// False if `frame` carries IPv4 and its header checksum, or the checksum of
/// an unfragmented UDP datagram in it, is wrong, or if its lengths do not fit.
/// Frames of other protocols, and UDP without a checksum, pass: there is
/// nothing to verify.
#[inline]
pub fn checksums_right(frame: &[u8]) -> bool {
    let Ok(frame) = ethernet::Frame::new_checked(frame) else {
        return false;
    };
    if frame.ethertype() != ethernet::ETHERTYPE_IPV4 {
        return true;
    }
    let Ok(packet) = ipv4::Packet::new_checked(frame.payload()) else {
        return false;
    };
    if !packet.verify_checksum() {
        return false;
    }
    if packet.protocol() != ipv4::PROTOCOL_UDP || packet.is_fragment() {
        return true;
    }
    udp::Datagram::new_checked(packet.payload())
        .is_ok_and(|datagram| datagram.verify_checksum(packet.src(), packet.dst()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = checksums_right(&bytes);
        }

        #[test]
        fn arbitrary_ipv4_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 60..120)) {
            bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
            bytes[23] = ipv4::PROTOCOL_UDP;
            let _ = checksums_right(&bytes);
        }
    }
}
