//! What the general way promises, over templates of every kind.

mod captured;
mod flows;
mod headers;
mod properties;
mod refusals;

use super::tests::spec as plain_spec;
use super::*;
use crate::spec::{Extension, ExtensionKind, FieldName, FieldProgram, FieldRef, Layer, Sizes};
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_wire::icmpv6;
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

fn mpls(label: u32) -> Layer {
    let (tc, ttl) = (5, 64);
    Layer::Mpls { label, tc, ttl }
}

fn pppoe() -> Layer {
    Layer::Pppoe { session_id: 0x1234 }
}

fn gtpu(qfi: Option<u8>) -> Layer {
    Layer::Gtpu {
        teid: 0xc0ff_ee01,
        qfi,
        pdu_type: 1,
    }
}

fn nsh(context: usize) -> Layer {
    Layer::Nsh {
        spi: 0x12_3456,
        si: 255,
        ttl: 63,
        context: vec![7; context],
    }
}

fn esp() -> Layer {
    let (spi, sequence) = (0xc0ff_ee01, 0xffff_fffe);
    Layer::Esp { spi, sequence }
}

/// Stacks that together hold every layer, each with the fields it has.
fn stacks() -> Vec<Vec<Layer>> {
    use ExtensionKind::{Destination, Fragment, HopByHop};
    let vx = || Layer::Vxlan { vni: 7 };
    let gre = |key| Layer::Gre {
        key,
        sequence: None,
    };
    let numbered = |key| Layer::Gre {
        key,
        sequence: Some(0xffff_fffe),
    };
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
        vec![eth(), ip4(0), numbered(Some(77)), eth(), ip6(&[]), udp(12)],
        vec![eth(), ip6(&[]), numbered(None), mpls(16), ip4(0), udp(12)],
        vec![eth(), mpls(100), mpls(16), ip4(0), tcp(0)],
        vec![eth(), vlan(0x8100), mpls(16), ip6(&[]), udp(12)],
        vec![eth(), vlan(0x8100), pppoe(), ip4(0), udp(12)],
        vec![eth(), pppoe(), ip6(&[]), tcp(0)],
        vec![eth(), ip4(0), udp(2152), gtpu(None), ip4(0), udp(12)],
        vec![eth(), ip6(&[]), udp(2152), gtpu(Some(9)), ip6(&[]), tcp(0)],
        vec![eth(), nsh(16), eth(), ip4(0), udp(12)],
        vec![eth(), vlan(0x8100), nsh(0), ip6(&[]), udp(12)],
        vec![eth(), ip4(0), gre(None), nsh(0), ip4(0), icmp()],
        vec![eth(), ip4(0), esp()],
        vec![eth(), ip6(&[]), esp()],
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
        let is_there = |name: &&FieldName| match (layer, name) {
            (Layer::Gre { key, .. }, FieldName::GreKey) => key.is_some(),
            (Layer::Gre { sequence, .. }, FieldName::GreSequence) => sequence.is_some(),
            _ => true,
        };
        fields.extend(names.filter(is_there).map(|name| FieldRef {
            layer: index,
            name: *name,
        }));
    }
    fields
}

fn spec(layers: Vec<Layer>, sizes: Sizes, fields: Vec<FieldProgram>) -> StreamSpec {
    let counts = fields.iter().filter_map(|program| program.op.digit());
    StreamSpec {
        together: false,
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
