//! Whatever comes and whatever is changed: what is sent on says what was asked for, and its
//! checksums are as right as they came.

use super::*;
use crate::connections::segment::{Incoming, Unfit as Refused};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A frame with right checksums.
fn frame(
    ends: (Spot, Spot),
    numbers: (u32, u32),
    flags: u16,
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let (src, dst) = ends;
    let (v4, ip_len) = match (src.ip(), dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => (Some((src, dst)), ipv4::HEADER_LEN),
        _ => (None, ipv6::HEADER_LEN),
    };
    let mut frame = vec![0; ethernet::HEADER_LEN + ip_len];
    let link = ethernet::Header {
        dst: Mac([2, 0, 0, 0, 0, 1]),
        src: Mac([2, 0, 0, 0, 0, 2]),
        ethertype: match v4 {
            Some(_) => ethernet::ETHERTYPE_IPV4,
            None => ethernet::ETHERTYPE_IPV6,
        },
    };
    link.emit(frame.first_chunk_mut().unwrap());
    let mut segment = vec![0; tcp::HEADER_LEN + options.len()];
    segment.extend(payload);
    let header = tcp::Header {
        src: src.port,
        dst: dst.port,
        seq: numbers.0,
        ack: numbers.1,
        flags,
        window: 1_000,
        urgent: 0,
        options,
    };
    let Some((src, dst)) = v4 else {
        let (src, dst) = (
            Ipv6Addr::from_bits(src.bits()),
            Ipv6Addr::from_bits(dst.bits()),
        );
        header.emit(&mut segment, src, dst).unwrap();
        let packet = ipv6::Header {
            src,
            dst,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            next_header: ipv4::PROTOCOL_TCP,
            payload_len: segment.len() as u16,
        };
        packet.emit(frame[ethernet::HEADER_LEN..].first_chunk_mut().unwrap());
        frame.extend(segment);
        return frame;
    };
    header.emit(&mut segment, src, dst).unwrap();
    let packet = ipv4::Header {
        src,
        dst,
        ttl: 64,
        dscp: 0,
        ecn: 0,
        identification: 7,
        dont_fragment: true,
        protocol: ipv4::PROTOCOL_TCP,
        options: &[],
        payload_len: segment.len() as u16,
    };
    packet.emit(&mut frame[ethernet::HEADER_LEN..]).unwrap();
    frame.extend(segment);
    frame.resize(frame.len().max(MIN_FRAME), 0xaa);
    frame
}

fn rewritten(frame: &[u8], rewrite: &Rewrite) -> Vec<u8> {
    let packet = Packet::read(frame).unwrap();
    let mut out = vec![0x55; packet.written_len(rewrite)];
    packet.write(rewrite, &mut out);
    out
}

fn spot(address: u32, port: u16) -> Spot {
    Spot::new(Ipv4Addr::from_bits(address), port)
}

/// The same number in a family.
fn spot_in(v6: bool, address: u32, port: u16) -> Spot {
    if v6 {
        Spot::new(
            Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(address)),
            port,
        )
    } else {
        spot(address, port)
    }
}

fn plain(src: Spot, dst: Spot) -> Rewrite {
    Rewrite {
        macs: (Mac([2, 0, 0, 0, 0, 8]), Mac([2, 0, 0, 0, 0, 9])),
        src,
        dst,
        seq_by: 0,
        ack_by: 0,
        toa: None,
        no_sack: false,
        breaks: false,
    }
}

proptest! {
    #[test]
    fn what_is_sent_on_is_what_came_with_what_was_changed(
        addresses: (u32, u32, u32, u32),
        ports: (u16, u16, u16, u16),
        numbers: (u32, u32),
        by: (u32, u32),
        flags in 0u16..0x1000,
        options in prop::collection::vec(prop::sample::select(vec![[1u8, 1, 1, 1], [2, 4, 5, 180], [1, 1, 4, 2], [0, 9, 9, 9]]), 0..9),
        payload in prop::collection::vec(any::<u8>(), 0..200),
        toa in any::<bool>(),
        breaks in any::<bool>(),
        v6 in any::<bool>(),
    ) {
        let came = (spot_in(v6, addresses.0, ports.0), spot_in(v6, addresses.1, ports.1));
        let goes = (spot_in(v6, addresses.2, ports.2), spot_in(v6, addresses.3, ports.3));
        let frame = frame(came, numbers, flags, options.as_flattened(), &payload);
        let packet = Packet::read(&frame).unwrap();
        let toa = (toa && packet.has_room_for_toa(1_500)).then_some(came.0);
        let rewrite = Rewrite { seq_by: by.0, ack_by: by.1, toa, no_sack: true, breaks, ..plain(goes.0, goes.1) };
        let out = rewritten(&frame, &rewrite);
        // It also verifies both checksums.
        let found = Incoming::read(&out).unwrap();
        let ends = |spot: Spot| crate::connections::end::End::new(spot.ip(), spot.port);
        prop_assert_eq!((found.src, found.dst), (ends(goes.0), ends(goes.1)));
        let acknowledges = flags & ACK != 0;
        let ack = if acknowledges { numbers.1.wrapping_add(by.1) } else { numbers.1 };
        prop_assert_eq!((found.seq, found.ack), (numbers.0.wrapping_add(by.0), ack));
        prop_assert_eq!((found.flags, found.window), (flags, 1_000));
        prop_assert_eq!(found.toa(), toa.map(ends));
        if breaks && !payload.is_empty() {
            let differing = found.payload.iter().zip(&payload).filter(|(one, other)| one != other);
            prop_assert_eq!((differing.count(), found.payload.len()), (1, payload.len()));
        } else {
            prop_assert_eq!(found.payload, &payload[..]);
        }
        if flags & SYN != 0 {
            prop_assert!(option_places(&[&[0; 20][..], found.options].concat()).0.is_none());
        }
        prop_assert!(out.len() >= MIN_FRAME);
    }

    /// The receiver shall find it.
    #[test]
    fn a_wrong_checksum_of_a_segment_stays_wrong(
        at in 0usize..32, bit in 0u8..8, by: u32, toa in any::<bool>(), payload in prop::collection::vec(any::<u8>(), 12..40),
    ) {
        let ends = (spot(0x0a00_0001, 1_025), spot(0x0a00_0064, 80));
        let mut frame = frame(ends, (5, 6), ACK, &[], &payload);
        // Not in what says where the payload begins.
        let at = if at == 12 { 13 } else { at };
        frame[ethernet::HEADER_LEN + ipv4::HEADER_LEN + at] ^= 1 << bit;
        let rewrite = Rewrite { seq_by: by, ack_by: by, toa: toa.then_some(ends.0), ..plain(ends.1, ends.0) };
        let out = rewritten(&frame, &rewrite);
        // A changed port or number is replaced by a right one, whose checksum is then wrong all the same.
        prop_assert_eq!(Incoming::read(&out).map(|_| ()), Err(Refused::Checksum));
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_rewritten(bytes in prop::collection::vec(any::<u8>(), 0..120), after in any::<bool>()) {
        let mut frame = frame((spot(1, 2), spot(3, 4)), (5, 6), SYN, &[], &[]);
        frame.truncate(if after { ethernet::HEADER_LEN } else { 0 });
        frame.extend(bytes);
        if let Ok(packet) = Packet::read(&frame) {
            let toa = packet.has_room_for_toa(1_500).then_some(packet.src);
            let _ = rewritten(&frame, &Rewrite { toa, no_sack: true, breaks: true, ..plain(packet.dst, packet.src) });
        }
    }
}

#[test]
fn what_is_no_whole_segment_is_told_apart() {
    let ends = (spot(0x0a00_0001, 1_025), spot(0x0a00_0064, 80));
    let right = frame(ends, (5, 6), ACK, &[], b"payload");
    let changed = |changes: &[(usize, u8)]| {
        let mut frame = right.clone();
        for &(at, byte) in changes {
            frame[at] = byte;
        }
        // Whoever changed the header made its checksum right again.
        frame[24..26].fill(0);
        let check = checksum::finish(checksum::sum(&frame[14..34]));
        frame[24..26].copy_from_slice(&check.to_be_bytes());
        Packet::read(&frame).map(|_| ())
    };
    assert_eq!(changed(&[]), Ok(()));
    assert_eq!(changed(&[(20, 0x20)]), Err(Unfit::Fragment));
    assert_eq!(changed(&[(21, 1)]), Err(Unfit::Fragment));
    assert_eq!(changed(&[(22, 1)]), Err(Unfit::HopLimit));
    assert_eq!(changed(&[(23, 17)]), Err(Unfit::Other));
    assert_eq!(changed(&[(12, 0x88)]), Err(Unfit::Other));
    // No IPv6 behind its type.
    assert_eq!(changed(&[(12, 0x86), (13, 0xdd)]), Err(Unfit::Malformed));
    assert_eq!(changed(&[(16, 0), (17, 30)]), Err(Unfit::Malformed));
    assert_eq!(changed(&[(46, 0x40)]), Err(Unfit::Malformed));
    let mut wrong = right.clone();
    wrong[30] ^= 1;
    assert_eq!(Packet::read(&wrong).map(|_| ()), Err(Unfit::Checksum));
}

#[test]
fn an_option_that_does_not_fit_has_no_room() {
    let ends = (spot(1, 2), spot(3, 4));
    let full = frame(ends, (5, 6), ACK, &[1; 40], b"payload");
    assert!(!Packet::read(&full).unwrap().has_room_for_toa(1_500));
    let long = frame(ends, (5, 6), ACK, &[], &[0; 1_460]);
    assert!(!Packet::read(&long).unwrap().has_room_for_toa(1_514));
    assert!(Packet::read(&long).unwrap().has_room_for_toa(1_522));
}
