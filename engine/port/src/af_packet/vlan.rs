//! Tags of IEEE 802.1Q, which the kernel takes out of the frames it receives.

/// Bytes of a tag.
pub(super) const LEN: usize = 4;

/// Bytes of the two addresses before it.
const ADDRESSES: usize = 12;

/// The tag that the kernel took out of a frame, as its status and the two
/// fields beside it tell (packet(7), `PACKET_AUXDATA`).
#[inline(always)]
pub(super) fn tag(status: u32, tci: u16, tpid: u16) -> Option<[u8; LEN]> {
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = match status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => libc::ETH_P_8021Q as u16,
        _ => tpid,
    };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), tci.to_be_bytes());
    Some([a, b, c, d])
}

/// Puts `tag` where it was; `bytes` are room for it and the frame.
pub(super) fn put_back(bytes: &mut [u8], tag: [u8; LEN]) -> &[u8] {
    if bytes.len() < LEN + ADDRESSES {
        return &bytes[LEN..];
    }
    bytes.copy_within(LEN..LEN + ADDRESSES, 0);
    bytes[ADDRESSES..ADDRESSES + LEN].copy_from_slice(&tag);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_goes_behind_the_addresses() {
        let mut bytes: Vec<u8> = (0..32).collect();
        let valid = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        let tag = tag(valid, 0x6007, 0x88a8).unwrap();
        let mut expected: Vec<u8> = (4..16).collect();
        expected.extend([0x88, 0xa8, 0x60, 0x07]);
        expected.extend(16..32);
        assert_eq!(put_back(&mut bytes, tag), expected);
    }

    #[test]
    fn an_untold_protocol_is_8021q_and_an_untagged_frame_has_no_tag() {
        let valid = libc::TP_STATUS_VLAN_VALID;
        assert_eq!(tag(valid, 5, 0), Some([0x81, 0, 0, 5]));
        assert_eq!(tag(libc::TP_STATUS_USER, 5, 0x8100), None);
    }
}
