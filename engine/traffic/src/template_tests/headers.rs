//! What the headers hold, and their checksums.

use super::*;
use crate::layout::Kind;
use crate::program::tests::write;
use crate::spec::Wrong;
use pinchpoint_wire::ethernet::Frame;
use pinchpoint_wire::{ipv4, ipv6, tcp, udp, verify, vxlan};

#[test]
fn every_field_of_every_stack_is_told_apart_and_checksums_stay_right() {
    for layers in stacks() {
        for field in fields_of(&layers) {
            let op = Op::List(vec![0, field.name.max(), 1]);
            let fields = vec![FieldProgram { field, op }];
            let spec = spec(layers.clone(), Sizes::Random { min: 238, max: 259 }, fields);
            let mut program = FrameProgram::new(&spec).unwrap();
            let mut layout = crate::build::build(&layers).unwrap();
            for _ in 0..30 {
                let frame = write(&mut program, 1 << 39);
                assert!(verify::checksums_right(&frame), "{field} in {layers:?}");
                layout.bytes.clone_from(&frame);
                assert_eq!(recomputed(&layout), frame, "{field} in {layers:?}");
            }
        }
    }
}

/// The frame with all lengths and checksums made anew.
fn recomputed(layout: &Layout) -> Vec<u8> {
    let mut bytes = layout.bytes.clone();
    layout.finish(&mut bytes, Wrong::default());
    bytes
}

#[test]
fn headers_hold_what_their_layers_say() {
    let layers = stacks().remove(13);
    let mut program = FrameProgram::new(&spec(layers, Sizes::Fixed(301), vec![])).unwrap();
    let bytes = write(&mut program, 0);
    let outer = ipv6::Packet::new_checked(Frame::new_checked(&bytes).unwrap().payload()).unwrap();
    assert_eq!((outer.src(), outer.dst()), (A6, B6));
    assert_eq!((outer.traffic_class(), outer.flow_label()), (0x5a, 0xabcde));
    assert_eq!(outer.payload().len(), 301 - 14 - 40);
    let datagram = udp::Datagram::new_checked(outer.payload()).unwrap();
    assert!(datagram.has_checksum());
    let tunnel = vxlan::Packet::new_checked(datagram.payload()).unwrap();
    assert_eq!(tunnel.vni(), 7);
    let frame = Frame::new_checked(tunnel.payload()).unwrap();
    let tags: Vec<_> = frame
        .tags()
        .map(|tag| (tag.tpid, tag.id, tag.pcp, tag.dei))
        .collect();
    assert_eq!(tags, [(0x8100, 100, 3, true)]);
    let inner = ipv6::Packet::new_checked(frame.payload()).unwrap();
    let segment = tcp::Segment::new_checked(inner.payload()).unwrap();
    assert_eq!(
        (segment.seq(), segment.flags(), segment.window()),
        (0xffff_fff0, 0x102, 1000)
    );
}

#[test]
fn tunnels_have_the_bytes_that_their_specifications_draw() {
    let numbered = Layer::Gre {
        key: Some(77),
        sequence: Some(5),
    };
    let cases: [(Vec<Layer>, usize, &[u8]); 6] = [
        (
            vec![eth(), mpls(100), mpls(16), ip4(0)],
            12,
            &[0x88, 0x47, 0, 6, 0x4a, 64, 0, 1, 0x0b, 64, 0x45],
        ),
        (
            vec![eth(), pppoe(), ip4(0)],
            12,
            &[0x88, 0x64, 0x11, 0, 0x12, 0x34, 0, 100, 0, 0x21, 0x45],
        ),
        (
            vec![eth(), nsh(16), eth()],
            12,
            &[0x89, 0x4f, 0x0f, 0xc6, 1, 3, 0x12, 0x34, 0x56, 255, 7, 7],
        ),
        (
            vec![eth(), ip4(0), numbered, ip6(&[])],
            34,
            &[0x30, 0, 0x86, 0xdd, 0, 0, 0, 77, 0, 0, 0, 5, 0x65],
        ),
        (
            vec![eth(), ip4(0), udp(2152), gtpu(Some(9)), ip4(0)],
            36,
            &[
                8, 0x68, 0, 86, 0, 0, 0x34, 0xff, 0, 70, 0xc0, 0xff, 0xee, 1, 0, 0, 0, 0x85, 1,
                0x10, 9, 0, 0x45,
            ],
        ),
        (
            vec![eth(), ip4(0), esp()],
            34,
            &[0xc0, 0xff, 0xee, 1, 0xff, 0xff, 0xff, 0xfe, 0],
        ),
    ];
    for (layers, at, expected) in cases {
        let spec = spec(layers.clone(), Sizes::Fixed(120), vec![]);
        let frame = write(&mut FrameProgram::new(&spec).unwrap(), 0);
        assert_eq!(frame[at..at + expected.len()], *expected, "{layers:?}");
    }
}

#[test]
fn vxlan_over_ipv4_has_no_outer_checksum() {
    let layers = stacks().remove(12);
    let mut program = FrameProgram::new(&spec(layers, Sizes::Fixed(200), vec![])).unwrap();
    let bytes = write(&mut program, 0);
    let outer = ipv4::Packet::new_checked(&bytes[14..]).unwrap();
    assert!(
        !udp::Datagram::new_checked(outer.payload())
            .unwrap()
            .has_checksum()
    );
}

#[test]
fn forced_numbers_stay_and_nothing_behind_is_marked_experimental() {
    let mut layers = vec![eth(), ip4(0)];
    let types = |layers: &[Layer]| {
        let spec = spec(layers.to_vec(), Sizes::Fixed(60), vec![]);
        let frame = write(&mut FrameProgram::new(&spec).unwrap(), 0);
        (u16::from_be_bytes([frame[12], frame[13]]), frame[23])
    };
    assert_eq!(types(&layers), (0x0800, 253));
    if let Layer::Ethernet { ethertype, .. } = &mut layers[0] {
        *ethertype = Some(0x1234);
    }
    if let Layer::Ipv4 { protocol, .. } = &mut layers[1] {
        *protocol = Some(132);
    }
    assert_eq!(types(&layers), (0x1234, 132));
    assert_eq!(types(&layers[..1]).0, 0x1234);
    assert_eq!(types(&[eth()]).0, 0x88b5);
}

#[test]
fn wrong_checksums_are_wrong_and_only_those_asked_for() {
    use crate::layout::Kind::{Icmp, Icmpv6, Ipv4, Tcp, Udp};
    for layers in stacks() {
        let has = |kinds: &[Kind]| layers.iter().any(|layer| kinds.contains(&layer.kind()));
        for (ipv4, l4, present) in [
            (true, false, has(&[Ipv4])),
            (false, true, has(&[Udp, Tcp, Icmp, Icmpv6])),
        ] {
            let mut spec = spec(layers.clone(), Sizes::Random { min: 240, max: 270 }, vec![]);
            spec.wrong = Wrong { ipv4, l4 };
            let program = FrameProgram::new(&spec);
            if !present {
                let key = if ipv4 { "wrong.ipv4" } else { "wrong.l4" };
                assert_eq!(program.unwrap_err().key, key);
                continue;
            }
            let mut program = program.unwrap();
            let layout = crate::build::build(&layers).unwrap();
            for _ in 0..50 {
                let frame = write(&mut program, 5);
                assert!(!verify::checksums_right(&frame), "{layers:?}");
                for check in &layout.checks {
                    let wanted = ipv4 && check.is_ipv4() || l4 && check.is_l4();
                    assert_eq!(check.is_right(&frame), !wanted, "{layers:?}");
                }
            }
        }
    }
}
