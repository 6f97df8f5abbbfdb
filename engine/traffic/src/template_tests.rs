//! What the general way promises, over templates of every kind.

use super::tests::{burst, increment, spec as plain_spec, write};
use super::*;
use crate::layout::Kind;
use crate::spec::{
    Extension, ExtensionKind, FieldName, FieldProgram, FieldRef, Layer, Sizes, Wrong, imix,
};
use pinchpoint_wire::ethernet::{Frame, Mac};
use pinchpoint_wire::signature::Signature;
use pinchpoint_wire::{icmpv6, ipv4, ipv6, signature, signature::Reading, tcp, udp, verify, vxlan};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 1, 2, 3, 4, 5, 6, 7);
const B6: Ipv6Addr = Ipv6Addr::new(0xfd00, 7, 6, 5, 4, 3, 2, 1);

fn eth() -> Layer {
    Layer::Ethernet {
        src: Mac([2, 0, 0, 0, 0, 1]),
        dst: Mac([2, 0, 0, 0, 0, 2]),
        ethertype: None,
    }
}

fn vlan(tpid: u16) -> Layer {
    let (id, pcp, dei) = (100, 3, true);
    Layer::Vlan { tpid, id, pcp, dei }
}

fn ip4(options: usize) -> Layer {
    Layer::Ipv4 {
        src: Ipv4Addr::new(16, 0, 0, 1),
        dst: Ipv4Addr::new(48, 0, 0, 1),
        ttl: 64,
        dscp: 10,
        ecn: 1,
        identification: 0x1234,
        dont_fragment: false,
        protocol: None,
        options: vec![1; options],
    }
}

fn ip6(kinds: &[ExtensionKind]) -> Layer {
    let extension = |kind: &ExtensionKind| Extension {
        kind: *kind,
        // Of a fragment header, the only fragment; else padding.
        body: vec![0; 6],
    };
    Layer::Ipv6 {
        src: A6,
        dst: B6,
        hop_limit: 64,
        traffic_class: 0x5a,
        flow_label: 0xabcde,
        next_header: None,
        extensions: kinds.iter().map(extension).collect(),
    }
}

fn udp(dst: u16) -> Layer {
    Layer::Udp { src: 1025, dst }
}

fn tcp(options: usize) -> Layer {
    Layer::Tcp {
        src: 1025,
        dst: 80,
        seq: 0xffff_fff0,
        ack: 7,
        flags: 0x102,
        window: 1000,
        options: vec![1; options],
    }
}

fn icmp() -> Layer {
    Layer::Icmp {
        kind: 8,
        code: 0,
        identifier: 9,
        sequence: 0xfffe,
    }
}

fn solicitation() -> Layer {
    Layer::Icmpv6 {
        kind: icmpv6::SOLICITATION,
        code: 0,
        identifier: 0,
        sequence: 0,
        body: [&B6.octets()[..], &[1, 1, 2, 0, 0, 0, 0, 1]].concat(),
    }
}

fn arp() -> Layer {
    Layer::Arp {
        operation: 1,
        sender_mac: Mac([2, 0, 0, 0, 0, 1]),
        sender_ip: Ipv4Addr::new(10, 0, 0, 1),
        target_mac: Mac([0; 6]),
        target_ip: Ipv4Addr::new(10, 0, 0, 2),
    }
}

fn geneve() -> Layer {
    Layer::Geneve {
        vni: 5,
        options: vec![1, 2, 3, 1, 9, 9, 9, 9],
    }
}

/// Stacks that together hold every layer, each with the fields it has.
fn stacks() -> Vec<Vec<Layer>> {
    use ExtensionKind::{Destination, Fragment, HopByHop};
    let vx = || Layer::Vxlan { vni: 7 };
    let gre = |key| Layer::Gre { key };
    let routing = Layer::Ipv6 {
        src: A6,
        dst: B6,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
        next_header: None,
        extensions: vec![Extension {
            kind: ExtensionKind::Routing,
            // RFC 8754: type 4, one segment left, two segments.
            body: [&[4, 1, 1, 0, 0, 0][..], &A6.octets(), &B6.octets()].concat(),
        }],
    };
    vec![
        vec![eth()],
        vec![eth(), arp()],
        vec![eth(), vlan(0x88a8), vlan(0x8100), arp()],
        vec![eth(), ip4(0)],
        vec![eth(), ip4(40), udp(12)],
        vec![eth(), vlan(0x8100), ip4(0), tcp(0)],
        vec![eth(), vlan(0x88a8), vlan(0x8100), ip4(4), tcp(12)],
        vec![eth(), ip4(0), icmp()],
        vec![eth(), ip6(&[]), udp(12)],
        vec![eth(), ip6(&[HopByHop, Destination, Fragment]), tcp(40)],
        vec![eth(), routing, udp(12)],
        vec![eth(), ip6(&[]), solicitation()],
        vec![eth(), ip4(0), udp(4789), vx(), eth(), ip4(0), udp(12)],
        vec![
            eth(),
            ip6(&[]),
            udp(4789),
            vx(),
            eth(),
            vlan(0x8100),
            ip6(&[]),
            tcp(0),
        ],
        vec![eth(), ip4(0), udp(6081), geneve(), eth(), ip4(0), icmp()],
        vec![eth(), ip6(&[]), udp(6081), geneve(), ip4(0), udp(12)],
        vec![eth(), ip4(0), gre(Some(77)), ip6(&[]), udp(12)],
        vec![eth(), ip6(&[]), gre(None), eth(), ip4(0), tcp(0)],
        vec![eth(), ip4(0), ip6(&[]), ip4(0), udp(12)],
    ]
}

/// Every field of every header of a stack.
fn fields_of(layers: &[Layer]) -> Vec<FieldRef> {
    let mut fields = Vec::new();
    for (k, layer) in layers.iter().enumerate() {
        let kind = layer.kind();
        let same = |other: &&Layer| other.kind() == kind;
        let index = layers[..k].iter().filter(same).count();
        let names = FieldName::ALL.iter().filter(|name| name.place().0 == kind);
        let no_key = matches!(layer, Layer::Gre { key: None });
        fields.extend(names.filter(|_| !no_key).map(|name| FieldRef {
            layer: index,
            name: *name,
        }));
    }
    fields
}

fn spec(layers: Vec<Layer>, sizes: Sizes, fields: Vec<FieldProgram>) -> StreamSpec {
    let counts = fields.iter().filter_map(|program| program.op.digit());
    StreamSpec {
        seed: 42,
        part: 0,
        sizes,
        template: Template::Layers(layers),
        flows: counts.fold(1, u64::saturating_mul),
        fields,
        ..plain_spec(60, 1, vec![])
    }
}

fn any_op(field: FieldRef) -> impl Strategy<Value = FieldProgram> {
    let max = field.name.max();
    let increment = (any::<i64>(), 1u64..9).prop_map(|(step, count)| Op::Increment { step, count });
    let list = proptest::collection::vec(0..=max, 1..5).prop_map(Op::List);
    let random = (0..=max, 0..=max, 1u64..9).prop_map(|(a, b, count)| Op::Random {
        min: a.min(b),
        max: a.max(b),
        count,
    });
    let zipf = (1u64..99, 0.0..3.0, any::<i64>()).prop_map(|(count, exponent, step)| Op::Zipf {
        count,
        exponent,
        step,
    });
    prop_oneof![increment, list, random, zipf].prop_map(move |op| FieldProgram { field, op })
}

/// A stack with some of its fields varied, in any size it allows.
fn any_spec() -> impl Strategy<Value = StreamSpec> {
    let with_fields = |layers: Vec<Layer>| {
        let all = fields_of(&layers);
        let some = proptest::sample::subsequence(all.clone(), 0..=all.len().min(6));
        let programs = some.prop_flat_map(|some| some.into_iter().map(any_op).collect::<Vec<_>>());
        (Just(layers), programs)
    };
    let sizes = prop_oneof![
        (240usize..300).prop_map(Sizes::Fixed),
        (240usize..300, 0usize..40).prop_map(|(min, more)| Sizes::Random {
            min,
            max: min + more
        }),
        proptest::collection::vec((240usize..300, 1u32..6), 1..5).prop_map(Sizes::List),
    ];
    let stack = proptest::sample::select(stacks()).prop_flat_map(with_fields);
    (stack, sizes, any::<u64>(), any::<(u64, u64)>()).prop_map(
        |((layers, fields), sizes, seed, (flows, first))| {
            let mut spec = spec(layers, sizes, fields);
            let product = spec.flows;
            spec.seed = seed;
            spec.flows = 1 + flows % product;
            spec.first_flow = first % (product - spec.flows + 1);
            spec
        },
    )
}

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
                let frame = write(&mut program, 1 << 40);
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

#[test]
fn a_frame_too_short_is_refused_with_the_least_size() {
    let layers = stacks().remove(12);
    // 14 + 20 + 8 + 8 + 14 + 20 + 8 = 92 bytes of headers, 18 of signature.
    let list = Sizes::List(vec![(200, 1), (109, 1)]);
    let mut spec = spec(layers, list, vec![]);
    let error = FrameProgram::new(&spec).unwrap_err();
    assert_eq!(error.key, "sizes.list[1]");
    assert!(
        error
            .what
            .contains("at least 114 bytes (96 without a signature), got 113"),
        "{error}"
    );
    spec.stamped = false;
    assert!(FrameProgram::new(&spec).is_ok());
    spec.sizes = Sizes::Fixed(91);
    let error = FrameProgram::new(&spec).unwrap_err();
    assert!(error.what.ends_with("at least 96 bytes, got 95"), "{error}");
}

#[test]
fn errors_of_layers_and_fields_name_the_key() {
    let tcp_flags = Layer::Tcp {
        src: 0,
        dst: 0,
        seq: 0,
        ack: 0,
        flags: 0x1000,
        window: 0,
        options: vec![],
    };
    let tag = Layer::Vlan {
        tpid: 0x8100,
        id: 4096,
        pcp: 0,
        dei: false,
    };
    for (layers, expected) in [
        (vec![], "layers"),
        (vec![ip4(0)], "layers[0]"),
        (vec![eth(), udp(1)], "layers[1]"),
        (vec![eth(), ip4(0), tcp(0), ip4(0)], "layers[3]"),
        (vec![eth(), ip4(0), tcp_flags], "layers[2].tcp.flags"),
        (vec![eth(), tag], "layers[1].vlan.id"),
        (vec![eth(), ip4(3)], "layers[1].ipv4.options"),
        (
            vec![eth(), ip4(0), udp(1), Layer::Vxlan { vni: 1 << 24 }],
            "layers[3].vxlan.vni",
        ),
    ] {
        let error = FrameProgram::new(&spec(layers, Sizes::Fixed(200), vec![])).unwrap_err();
        assert_eq!(error.key, expected);
    }
    let field = |text: &str, op| FieldProgram {
        field: text.parse().unwrap(),
        op,
    };
    let random = |min, max, count| Op::Random { min, max, count };
    let zipf = |exponent| Op::Zipf {
        count: 5,
        exponent,
        step: 1,
    };
    for (program, expected) in [
        (field("ipv4[1].src", Op::List(vec![1])), "fields[0].field"),
        (field("tcp.src", Op::List(vec![1])), "fields[0].field"),
        (field("udp.src", Op::List(vec![])), "fields[0].op.values"),
        (
            field("udp.src", Op::List(vec![1, 65_536])),
            "fields[0].op.values[1]",
        ),
        (field("udp.src", random(5, 4, 1)), "fields[0].op.min"),
        (field("udp.src", random(5, 65_536, 1)), "fields[0].op.max"),
        (field("udp.src", random(5, 6, 0)), "fields[0].op.count"),
        (field("udp.src", zipf(f64::NAN)), "fields[0].op.exponent"),
        (field("udp.src", zipf(-0.1)), "fields[0].op.exponent"),
    ] {
        let mut spec = spec(
            vec![eth(), ip4(0), udp(1)],
            Sizes::Fixed(200),
            vec![program],
        );
        spec.flows = 1;
        assert_eq!(FrameProgram::new(&spec).unwrap_err().key, expected);
    }
}

#[test]
fn sixteen_million_five_tuples_are_a_matter_of_counting() {
    let fields = vec![
        increment(FieldName::Ipv4Src, 1, 1 << 14),
        increment(FieldName::TcpSrc, 1, 1 << 10),
    ];
    let spec = spec(vec![eth(), ip4(0), tcp(0)], Sizes::Fixed(72), fields);
    assert_eq!(spec.flows, 1 << 24);
    let mut program = FrameProgram::new(&spec).unwrap();
    let last = (1 << 24) - 1;
    program.seek(last);
    assert_eq!(program.flow_of(last), Some(last));
    let frames = burst(&mut program, 0, 2, 2);
    let src = |frame: &[u8]| {
        ipv4::Packet::new_checked(&frame[14..])
            .unwrap()
            .src()
            .to_bits()
    };
    assert_eq!(src(&frames[0]) - src(&frames[1]), (1 << 14) - 1);
}

#[test]
fn drawn_fields_leave_frames_without_a_flow() {
    let op = Op::Zipf {
        count: 100,
        exponent: 1.0,
        step: 2,
    };
    let field = FieldRef::outermost(FieldName::Ipv4Dst);
    let fields = vec![FieldProgram { field, op }];
    let mut program =
        FrameProgram::new(&spec(vec![eth(), ip4(0), udp(1)], Sizes::Fixed(60), fields)).unwrap();
    assert_eq!(program.flow_of(3), None);
    let mut first = 0;
    for _ in 0..1000 {
        let frame = write(&mut program, 0);
        let dst = ipv4::Packet::new_checked(&frame[14..])
            .unwrap()
            .dst()
            .to_bits();
        let rank = dst - 0x3000_0001;
        assert!(rank.is_multiple_of(2) && rank < 200);
        first += u32::from(rank == 0);
    }
    // 1 / (1 + 1/2 + ... + 1/100) = 0.193.
    assert!((150..240).contains(&first), "{first}");
}

#[test]
fn sizes_follow_the_pattern_and_lengths_the_sizes() {
    let layers = vec![eth(), ip4(0), udp(12)];
    let mut program = FrameProgram::new(&spec(layers, imix("simple").unwrap(), vec![])).unwrap();
    assert_eq!((program.min_len(), program.max_len()), (60, 1514));
    let frames = burst(&mut program, 0, 24, 24);
    let total: usize = frames.iter().map(Vec::len).sum();
    assert!((total as f64 / 24.0 - program.mean_len()).abs() < 1e-9);
    for frame in &frames {
        let ip = ipv4::Packet::new_checked(&frame[14..]).unwrap();
        assert_eq!(ip.payload().len(), frame.len() - 34);
        assert!(verify::checksums_right(frame));
    }
}

/// FNV-1a over frames: changes if one bit of one of them does.
fn fingerprint(spec: &StreamSpec) -> u64 {
    let frames = burst(
        &mut FrameProgram::new(spec).unwrap(),
        0x0102_0304_0506,
        300,
        300,
    );
    let bytes = frames.iter().flatten();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[test]
fn frames_are_the_same_ones_as_ever() {
    let random = |name, min, max| FieldProgram {
        field: FieldRef::outermost(name),
        op: Op::Random {
            min,
            max,
            count: 50,
        },
    };
    let list = |name, values: &[u64]| FieldProgram {
        field: FieldRef::outermost(name),
        op: Op::List(values.to_vec()),
    };
    let mut seen = Vec::new();
    let plain = vec![increment(FieldName::Ipv4Dst, 3, 77)];
    seen.push(fingerprint(&plain_spec(60, 77, plain)));
    let fields = vec![
        random(FieldName::Ipv6Src, 0, u64::MAX),
        list(FieldName::VxlanVni, &[5, 6, 9]),
    ];
    let sizes = Sizes::Random { min: 250, max: 400 };
    seen.push(fingerprint(&spec(stacks().remove(13), sizes, fields)));
    let fields = vec![random(FieldName::TcpSrc, 1024, 65_535)];
    let sizes = Sizes::List(vec![(90, 3), (600, 2)]);
    seen.push(fingerprint(&spec(stacks().remove(5), sizes, fields)));
    let expected = [
        0x26f1_ba13_f0bd_abcc,
        0xb480_8a8b_0211_3a31,
        0x3280_901f_1cc7_5e6c,
    ];
    assert_eq!(seen, expected, "{seen:x?}");
}

proptest! {
    #[test]
    fn every_frame_is_right_signed_and_of_its_size(spec in any_spec(), time_ns in 0..1u64 << 48) {
        let mut program = FrameProgram::new(&spec).unwrap();
        let (min, max) = (program.min_len(), program.max_len());
        for (sequence, frame) in (0..).zip(burst(&mut program, time_ns, 60, 60)) {
            prop_assert!((min..=max).contains(&frame.len()));
            prop_assert!(verify::checksums_right(&frame));
            let expected = Signature { epoch: 3, stream: 7, sequence, time_ns };
            prop_assert_eq!(signature::read(&frame), Reading::Intact(expected));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_frames_however_they_are_sent(
        spec in any_spec(), bursts in proptest::collection::vec((1usize..20, 0u64..20), 1..20),
    ) {
        let mut whole = FrameProgram::new(&spec).unwrap();
        let frames = burst(&mut whole, 9, 400, 400);
        let mut program = FrameProgram::new(&spec).unwrap();
        for (count, taken) in bursts {
            let at = program.next() as usize;
            let taken = taken.min(count as u64);
            let written = burst(&mut program, 9, count, taken);
            prop_assert_eq!(&written[..], &frames[at..at + count]);
            prop_assert_eq!(program.next(), at as u64 + taken);
        }
        let mut jumped = FrameProgram::new(&spec).unwrap();
        jumped.seek(350);
        prop_assert_eq!(&burst(&mut jumped, 9, 50, 50)[..], &frames[350..]);
    }

    #[test]
    fn a_captured_frame_of_ours_is_sent_as_our_template_is(
        spec in any_spec(), time_ns in 0..1u64 << 48,
    ) {
        let plain = StreamSpec {
            stamped: false,
            sizes: Sizes::Fixed(300),
            flows: 1,
            first_flow: 0,
            fields: vec![],
            ..spec.clone()
        };
        let captured = write(&mut FrameProgram::new(&plain).unwrap(), 0);
        let template = Template::Bytes(captured);
        let again = StreamSpec { template, ..spec.clone() };
        let mut again = FrameProgram::new(&again).unwrap();
        let mut program = FrameProgram::new(&spec).unwrap();
        for _ in 0..50 {
            prop_assert_eq!(write(&mut program, time_ns), write(&mut again, time_ns));
        }
    }

    #[test]
    fn any_bytes_are_a_template(
        bytes in proptest::collection::vec(any::<u8>(), 0..300), stamped: bool,
        ethertype in proptest::option::of(prop_oneof![Just(0x0800u16), Just(0x86dd), Just(0x8100)]),
        first: Option<u8>, len in 400usize..700,
    ) {
        let mut bytes = bytes;
        if bytes.len() > 40 && let Some(ethertype) = ethertype {
            bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
            bytes[14] = first.map_or(0x45, |first| if first & 1 == 0 { 0x60 } else { 0x45 });
            bytes[16] = 0;
        }
        let mut spec = spec(vec![], Sizes::Random { min: len, max: len + 9 }, vec![]);
        spec.stamped = stamped;
        spec.template = Template::Bytes(bytes.clone());
        let mut program = FrameProgram::new(&spec).unwrap();
        for frame in burst(&mut program, 0, 20, 20) {
            let intact = matches!(signature::read(&frame), Reading::Intact(_));
            prop_assert_eq!(intact, stamped);
            // The addresses are never touched.
            let front = bytes.len().min(12);
            prop_assert_eq!(&frame[..front], &bytes[..front]);
        }
    }
}

#[test]
fn what_is_not_understood_is_sent_as_it_is() {
    // An EtherType of no protocol that is known.
    let bytes: Vec<u8> = (0..100).map(|k| k ^ 0x5a).collect();
    let mut spec = spec(vec![], Sizes::Fixed(100), vec![]);
    spec.template = Template::Bytes(bytes.clone());
    spec.stamped = false;
    assert_eq!(write(&mut FrameProgram::new(&spec).unwrap(), 0), bytes);
    spec.stamped = true;
    assert_eq!(
        write(&mut FrameProgram::new(&spec).unwrap(), 0)[..82],
        bytes[..82]
    );
}

#[test]
fn a_captured_payload_is_kept_and_checksums_fit_it_at_every_size() {
    let layers = vec![eth(), ip4(0), udp(12)];
    let plain = spec(layers, Sizes::Fixed(200), vec![]);
    let mut captured = write(&mut FrameProgram::new(&plain).unwrap(), 0);
    for (k, byte) in captured[42..].iter_mut().enumerate() {
        *byte = k as u8 ^ 0xa5;
    }
    // As a capture on the sending machine shows it, before the device sums.
    captured[40..42].copy_from_slice(&[0xab, 0xcd]);
    let sizes = Sizes::Random { min: 60, max: 260 };
    let template = Template::Bytes(captured.clone());
    let fields = vec![increment(FieldName::UdpSrc, 1, 1000)];
    let mut spec = spec(vec![], sizes, fields);
    spec.template = template;
    let mut program = FrameProgram::new(&spec).unwrap();
    for frame in burst(&mut program, 1, 1000, 1000) {
        let end = frame.len() - signature::LEN;
        let kept = end.min(captured.len());
        assert_eq!(frame[42..kept], captured[42..kept]);
        assert!(frame[kept..end].iter().all(|byte| *byte == 0));
        assert!(verify::checksums_right(&frame));
    }
}
