use super::*;
use crate::ethernet::Mac;
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

fn eth(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let (dst, src) = (Mac([2; 6]), Mac([4; 6]));
    let header = ethernet::Header {
        dst,
        src,
        ethertype,
    };
    let mut bytes = vec![0; ethernet::HEADER_LEN];
    header.emit(bytes.first_chunk_mut().unwrap());
    bytes.extend_from_slice(payload);
    bytes
}

fn ip4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = ipv4::Header {
        src: A,
        dst: B,
        ttl: 64,
        dscp: 0,
        ecn: 0,
        identification: 1,
        dont_fragment: false,
        protocol,
        options: &[],
        payload_len: payload.len() as u16,
    };
    let mut bytes = vec![0; ipv4::HEADER_LEN];
    header.emit(&mut bytes).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}

fn ip6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let header = ipv6::Header {
        src: A6,
        dst: B6,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
        next_header,
        payload_len: payload.len() as u16,
    };
    let mut bytes = vec![0; ipv6::HEADER_LEN];
    header.emit(bytes.first_chunk_mut().unwrap());
    bytes.extend_from_slice(payload);
    bytes
}

fn udp_bytes<T: Address>(dst_port: u16, payload: &[u8], src: T, dst: T) -> Vec<u8> {
    let mut bytes = [&[0; udp::HEADER_LEN], payload].concat();
    let header = udp::Header {
        src: 9,
        dst: dst_port,
    };
    header.emit(&mut bytes, src, dst).unwrap();
    bytes
}

fn tcp_bytes<T: Address>(src: T, dst: T) -> Vec<u8> {
    let header = tcp::Header {
        src: 1,
        dst: 2,
        seq: 3,
        ack: 4,
        flags: 2,
        window: 5,
        urgent: 0,
        options: &[1, 1, 1, 1],
    };
    let mut bytes = vec![6; 30];
    header.emit(&mut bytes, src, dst).unwrap();
    bytes
}

fn vxlan_bytes(inner: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; vxlan::HEADER_LEN];
    vxlan::Header { vni: 7 }.emit(bytes.first_chunk_mut().unwrap());
    bytes.extend_from_slice(inner);
    bytes
}

/// Frames of each kind that is verified; a checksum covers the last byte of
/// each.
fn samples() -> Vec<Vec<u8>> {
    let (v4, v6) = (ethernet::ETHERTYPE_IPV4, ethernet::ETHERTYPE_IPV6);
    let mut ping = vec![8; 20];
    let echo = icmp::Header {
        kind: 8,
        code: 0,
        identifier: 1,
        sequence: 2,
    };
    echo.emit(&mut ping).unwrap();
    let mut ping6 = vec![8; 20];
    icmpv6::emit(&icmpv6::Header { kind: 128, ..echo }, &mut ping6, A6, B6).unwrap();
    let inner = eth(v4, &ip4(17, &udp_bytes(5, &[1; 9], A, B)));
    let inner6 = eth(v6, &ip6(6, &tcp_bytes(A6, B6)));
    let without_checksum = |port: u16, payload: &[u8]| {
        let mut bytes = udp_bytes(port, payload, A, B);
        bytes[6..8].fill(0);
        bytes
    };
    let mut geneve_bytes = vec![0; 12];
    let header = geneve::Header {
        vni: 1,
        protocol: ethernet::ETHERTYPE_BRIDGED,
        control: false,
        options: &[0, 1, 2, 0],
    };
    header.emit(&mut geneve_bytes).unwrap();
    geneve_bytes.extend_from_slice(&inner);
    let mut gre_bytes = vec![0; 8];
    let header = gre::Header {
        protocol: v6,
        key: Some(1),
        sequence: None,
    };
    header.emit(&mut gre_bytes).unwrap();
    gre_bytes.extend_from_slice(&ip6(17, &udp_bytes(5, &[1; 9], A6, B6)));
    let packet = ip4(17, &udp_bytes(5, &[1; 9], A, B));
    let len = packet.len() as u8;
    let behind = |front: &[u8]| [front, &packet[..]].concat();
    let labels = behind(&[0, 6, 0x4a, 255, 0, 1, 1, 64]);
    let session = behind(&[0x11, 0, 0, 7, 0, len + 2, 0, 0x21]);
    let service = behind(&[0x0f, 0xc2, 2, 1, 0, 0, 1, 255]);
    let bearer = behind(&[0x30, 0xff, 0, len, 0, 0, 0, 7]);
    vec![
        inner.clone(),
        inner6.clone(),
        eth(v4, &ip4(6, &tcp_bytes(A, B))),
        eth(v4, &ip4(1, &ping)),
        eth(v6, &ip6(58, &ping6)),
        eth(v6, &ip6(17, &udp_bytes(5, &[1; 9], A6, B6))),
        eth(
            v4,
            &ip4(17, &without_checksum(vxlan::PORT, &vxlan_bytes(&inner))),
        ),
        eth(
            v4,
            &ip4(17, &without_checksum(vxlan::PORT, &vxlan_bytes(&inner6))),
        ),
        eth(v4, &ip4(17, &udp_bytes(geneve::PORT, &geneve_bytes, A, B))),
        eth(v4, &ip4(47, &gre_bytes)),
        eth(v6, &ip6(4, &packet)),
        eth(ethernet::ETHERTYPE_MPLS, &labels),
        eth(ethernet::ETHERTYPE_PPPOE, &session),
        eth(ethernet::ETHERTYPE_NSH, &service),
        eth(v4, &ip4(17, &without_checksum(gtpu::PORT, &bearer))),
    ]
}

#[test]
fn right_frames_pass_and_a_bit_flipped_in_the_payload_is_found() {
    for (k, frame) in samples().into_iter().enumerate() {
        assert!(checksums_right(&frame), "sample {k}");
        let mut damaged = frame.clone();
        *damaged.last_mut().unwrap() ^= 0x10;
        assert!(!checksums_right(&damaged), "sample {k}");
    }
}

#[test]
fn padding_is_not_looked_at() {
    for mut frame in samples() {
        // An Ethernet trailer, outside every length field.
        frame.extend_from_slice(&[1, 2, 3]);
        assert!(checksums_right(&frame));
    }
}

#[test]
fn udp_over_ipv6_needs_a_checksum_unless_it_is_a_tunnel() {
    let mut plain = udp_bytes(5, &[1; 9], A6, B6);
    plain[6..8].fill(0);
    assert!(!checksums_right(&eth(
        ethernet::ETHERTYPE_IPV6,
        &ip6(17, &plain)
    )));
    let inner = samples().remove(0);
    let mut tunnel = udp_bytes(vxlan::PORT, &vxlan_bytes(&inner), A6, B6);
    tunnel[6..8].fill(0);
    assert!(checksums_right(&eth(
        ethernet::ETHERTYPE_IPV6,
        &ip6(17, &tunnel)
    )));
}

#[test]
fn what_is_no_tunnel_may_use_its_port() {
    for port in [vxlan::PORT, geneve::PORT, gtpu::PORT] {
        let frame = eth(
            ethernet::ETHERTYPE_IPV4,
            &ip4(17, &udp_bytes(port, &[0; 20], A, B)),
        );
        assert!(checksums_right(&frame));
    }
}

#[test]
fn nesting_without_end_is_taken_on_trust_at_some_depth() {
    let mut frame = samples().remove(0);
    for _ in 0..40 {
        let tunnel = udp_bytes(vxlan::PORT, &vxlan_bytes(&frame), A, B);
        frame = eth(ethernet::ETHERTYPE_IPV4, &ip4(17, &tunnel));
    }
    assert!(checksums_right(&frame));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = checksums_right(&bytes);
    }

    #[test]
    fn damaged_frames_never_panic(
        k in 0usize..15, cut in 0usize..200, damage in proptest::collection::vec(any::<(usize, u8)>(), 0..6),
    ) {
        let mut frame = samples().remove(k);
        for (at, value) in damage {
            let at = at % frame.len();
            frame[at] = value;
        }
        frame.truncate(cut);
        let _ = checksums_right(&frame);
    }
}
