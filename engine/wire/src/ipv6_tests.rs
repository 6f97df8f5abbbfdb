use super::*;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

fn packet(next_header: u8, body: &[u8]) -> Vec<u8> {
    let header = Header {
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::from_bits(2),
        hop_limit: 1,
        traffic_class: 0,
        flow_label: 0,
        next_header,
        payload_len: body.len() as u16,
    };
    let mut bytes = vec![0; HEADER_LEN];
    header.emit(bytes.first_chunk_mut().unwrap());
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn a_routing_header_with_segments_left_names_the_final_destination() {
    for (kind, segments_left, expected) in [
        (4, 1, Some(0xa)),
        (4, 0, Some(2)),
        (2, 1, Some(0xa)),
        (0, 2, Some(0xb)),
        (99, 1, None),
    ] {
        let mut routing = vec![0, kind, segments_left, 0, 0, 0, 0];
        for last in [0xa, 0xb] {
            routing.extend_from_slice(&Ipv6Addr::from_bits(last).octets());
        }
        let routing: Vec<u8> = [17, 4].iter().chain(&routing[1..]).copied().collect();
        let bytes = packet(ROUTING, &routing);
        let view = Packet::new_checked(&bytes).unwrap();
        assert_eq!(view.protocol(), 17);
        assert_eq!(view.final_dst(), expected.map(Ipv6Addr::from_bits));
    }
}

#[test]
fn behind_a_later_fragment_nothing_is_read() {
    // Offset 1, then bytes that would be a broken destination option.
    let bytes = packet(FRAGMENT, &[DESTINATION, 0, 0, 8, 0, 0, 0, 0, 17, 200]);
    let view = Packet::new_checked(&bytes).unwrap();
    assert!(view.is_fragment());
    assert_eq!((view.protocol(), view.payload().len()), (DESTINATION, 2));
    let atomic = packet(FRAGMENT, &[17, 0, 0, 0, 0, 0, 0, 9]);
    assert!(!Packet::new_checked(&atomic).unwrap().is_fragment());
}

fn any_extension() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let kinds = prop_oneof![Just(HOP_BY_HOP), Just(ROUTING), Just(DESTINATION)];
    (kinds, 0usize..6).prop_map(|(kind, units)| (kind, vec![0; 6 + 8 * units]))
}

proptest! {
    #[test]
    fn header_and_extensions_round_trip(
        addresses: (u128, u128), hop_limit: u8, traffic_class: u8, flow_label in 0u32..1 << 20,
        extensions in proptest::collection::vec(any_extension(), 0..4), payload_len in 0usize..50,
    ) {
        let kinds: Vec<u8> = extensions.iter().map(|e| e.0).chain([6]).collect();
        let len: usize = extensions.iter().map(|e| e.1.len() + 2).sum();
        let header = Header {
            src: addresses.0.into(), dst: addresses.1.into(), hop_limit, traffic_class, flow_label,
            next_header: kinds[0], payload_len: (len + payload_len) as u16,
        };
        let mut bytes = vec![0; HEADER_LEN + len + payload_len + 3];
        header.emit(bytes.first_chunk_mut().unwrap());
        let mut at = HEADER_LEN;
        for (k, (kind, body)) in extensions.iter().enumerate() {
            let extension = Extension { kind: *kind, body };
            extension.emit(kinds[k + 1], &mut bytes[at..]).unwrap();
            at += extension.header_len();
        }
        let packet = Packet::new_checked(&bytes).unwrap();
        prop_assert_eq!(Header::parse(&packet), header);
        prop_assert_eq!(packet.protocol(), 6);
        prop_assert_eq!(packet.payload().len(), payload_len);
        let seen: Vec<_> = packet.extensions().map(|e| (e.kind, e.body.to_vec())).collect();
        prop_assert_eq!(seen, extensions);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 46..140), kind in any_extension(),
    ) {
        bytes[0] = 0x60;
        bytes[4..6].copy_from_slice(&[0, 6]);
        bytes[6] = kind.0;
        bytes[41] %= 8;
        for len in [40, bytes.len()] {
            bytes[5] = (len - 40) as u8;
            if let Ok(packet) = Packet::new_checked(&bytes) {
                let _ = (Header::parse(&packet), packet.extensions().count(), packet.payload());
                let _ = (packet.final_dst(), packet.is_fragment());
            }
        }
    }
}
