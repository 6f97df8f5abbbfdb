use super::*;
use crate::spec::{FieldName, FieldProgram, FieldRef, Layer, Sizes, Wrong};
use pinchpoint_wire::ethernet::{self, Mac};
use pinchpoint_wire::signature::Signature;
use pinchpoint_wire::{ipv4, signature, signature::Reading, udp, verify};
use proptest::prelude::*;
use std::collections::HashSet;
use std::net::Ipv4Addr;

const UDP_CHECK_AT: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + 6;

fn udp_layers(src: Ipv4Addr, dst_port: u16) -> Vec<Layer> {
    vec![
        Layer::Ethernet {
            src: Mac([2, 0, 0, 0, 0, 1]),
            dst: Mac([2, 0, 0, 0, 0, 2]),
            ethertype: None,
        },
        Layer::Ipv4 {
            src,
            dst: Ipv4Addr::new(48, 0, 0, 1),
            ttl: 64,
            dscp: 10,
            ecn: 0,
            identification: 0,
            dont_fragment: true,
            protocol: None,
            options: Vec::new(),
        },
        Layer::Udp {
            src: 1025,
            dst: dst_port,
        },
    ]
}

pub(super) fn spec(len: usize, flows: u64, fields: Vec<FieldProgram>) -> StreamSpec {
    StreamSpec {
        together: false,
        id: 7,
        epoch: 3,
        seed: 0,
        part: 0,
        stamped: true,
        sizes: Sizes::Fixed(len),
        template: Template::Layers(udp_layers(Ipv4Addr::new(16, 0, 0, 1), 12)),
        wrong: Wrong::default(),
        flows,
        first_flow: 0,
        fields,
    }
}

pub(super) fn increment(name: FieldName, step: i64, count: u64) -> FieldProgram {
    FieldProgram {
        field: FieldRef::outermost(name),
        op: Op::Increment { step, count },
    }
}

/// Keeps `frames` frames, all of which it asks for, and takes the first
/// `taken`.
struct Keep<'a> {
    frames: &'a mut Vec<Vec<u8>>,
    count: usize,
    taken: u64,
}

impl BurstSender for Keep<'_> {
    fn send<W: FrameWriter>(self, writer: &mut W) -> u64 {
        let lens: Vec<_> = (0..self.count).map(|index| writer.len(index)).collect();
        for (index, len) in lens.into_iter().enumerate() {
            let mut frame = vec![0xff; len];
            writer.write(index, &mut frame);
            self.frames.push(frame);
        }
        self.taken
    }
}

pub(super) fn burst(
    program: &mut FrameProgram,
    time_ns: u64,
    count: usize,
    taken: u64,
) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let keep = Keep {
        frames: &mut frames,
        count,
        taken,
    };
    assert_eq!(program.send(time_ns, keep), taken);
    frames
}

pub(super) fn write(program: &mut FrameProgram, time_ns: u64) -> Vec<u8> {
    burst(program, time_ns, 1, 1).remove(0)
}

fn tuple(frame: &[u8]) -> (u32, u32, u16, u16) {
    let ip = ipv4::Packet::new_checked(&frame[ethernet::HEADER_LEN..]).unwrap();
    let udp = udp::Datagram::new_checked(ip.payload()).unwrap();
    (ip.src().to_bits(), ip.dst().to_bits(), udp.src(), udp.dst())
}

#[test]
fn first_digit_is_the_fastest_and_flows_cut_the_product() {
    let fields = vec![
        increment(FieldName::Ipv4Dst, 1, 3),
        increment(FieldName::Ipv4Src, 2, 5),
    ];
    let spec = spec(60, 7, fields);
    let expected = [
        (0, 0),
        (0, 1),
        (0, 2),
        (2, 0),
        (2, 1),
        (2, 2),
        (4, 0),
        (0, 0),
        (0, 1),
    ];
    for mut program in both_ways(&spec) {
        for (src, dst) in expected {
            let frame = write(&mut program, 0);
            let expected = (0x1000_0001 + src, 0x3000_0001 + dst, 1025, 12);
            assert_eq!(tuple(&frame), expected);
        }
    }
}

/// The fast path and the general one.
fn both_ways(spec: &StreamSpec) -> [FrameProgram; 2] {
    let plain = FrameProgram::new(spec).unwrap();
    assert!(plain.is_plain());
    [plain, FrameProgram::general(spec).unwrap()]
}

#[test]
fn sixty_five_thousand_flows_are_distinct_and_come_again() {
    let fields = vec![
        increment(FieldName::Ipv4Dst, 1, 65_535),
        increment(FieldName::Ipv4Src, 1, 255),
    ];
    for mut program in both_ways(&spec(60, 65_536, fields)) {
        let mut seen = HashSet::new();
        for _ in 0..65_536 {
            assert!(seen.insert(tuple(&write(&mut program, 0))));
        }
        let again = tuple(&write(&mut program, 0));
        assert_eq!(again, (0x1000_0001, 0x3000_0001, 1025, 12));
    }
}

#[test]
fn frames_without_a_signature_are_the_same_on_both_paths() {
    for len in [60, 61, 1514] {
        let fields = vec![increment(FieldName::UdpSrc, 1, 10)];
        let mut bare = spec(len, 10, fields);
        bare.stamped = false;
        let [mut plain, mut general] = both_ways(&bare);
        for _ in 0..20 {
            let frame = write(&mut plain, 7);
            assert!(verify::checksums_right(&frame));
            assert!(frame[42..].iter().all(|byte| *byte == 0));
            assert_eq!(frame, write(&mut general, 9));
        }
    }
}

/// Among them are the ports of tunnels, which a receiver looks into: what
/// stands there is a signature, and must not be taken for a tunnel's header.
#[test]
fn frames_to_every_port_are_right() {
    let fields = vec![increment(FieldName::UdpDst, 1, 65_536)];
    for len in [60, 61, 90] {
        let mut program = FrameProgram::new(&spec(len, 65_536, fields.clone())).unwrap();
        for frame in burst(&mut program, u64::MAX, 65_536, 65_536) {
            assert!(verify::checksums_right(&frame), "{:?}", tuple(&frame));
        }
    }
}

/// Offers a buffer of the wrong length, then one of the right.
struct Clumsy<'a>(&'a mut Vec<u8>);

impl BurstSender for Clumsy<'_> {
    fn send<W: FrameWriter>(self, writer: &mut W) -> u64 {
        let mut short = vec![0xee; writer.len(0) - 1];
        writer.write(0, &mut short);
        assert!(short.iter().all(|byte| *byte == 0xee));
        self.0.resize(writer.len(0), 0);
        writer.write(0, self.0);
        1
    }
}

#[test]
fn a_buffer_of_another_length_is_left_alone() {
    for mut program in both_ways(&spec(70, 1, vec![])) {
        let expected = write(&mut program.clone(), 5);
        let mut frame = Vec::new();
        assert_eq!(program.send(5, Clumsy(&mut frame)), 1);
        assert_eq!((frame, program.next()), (expected, 1));
    }
}

#[test]
fn steps_wrap_in_the_width_of_the_field() {
    let fields = vec![
        increment(FieldName::UdpDst, -13, 3),
        increment(FieldName::UdpSrc, 0x1_0001, 2),
    ];
    let dsts = [12, 65_535, 65_522];
    let expected: Vec<_> = (0..6)
        .map(|i| (1025 + i / 3, dsts[usize::from(i) % 3]))
        .collect();
    for mut program in both_ways(&spec(60, 6, fields)) {
        let mut ports = Vec::new();
        for _ in 0..6 {
            let frame = write(&mut program, 0);
            assert!(verify::checksums_right(&frame));
            let (_, _, src, dst) = tuple(&frame);
            ports.push((src, dst));
        }
        assert_eq!(ports, expected);
    }
}

#[test]
fn errors_name_the_key() {
    let key = |spec: &StreamSpec| FrameProgram::new(spec).unwrap_err().key;
    assert_eq!(key(&spec(59, 1, vec![])), "sizes.fixed");
    assert_eq!(key(&spec(60, 2, vec![])), "flows");
    assert_eq!(key(&spec(60, 0, vec![])), "flows");
    let none = vec![increment(FieldName::UdpSrc, 1, 0)];
    assert_eq!(key(&spec(60, 1, none)), "fields[0].op.count");
    let twice = vec![
        increment(FieldName::UdpSrc, 1, 2),
        increment(FieldName::UdpSrc, 1, 2),
    ];
    assert_eq!(key(&spec(60, 1, twice)), "fields[1].field");
    let mut beyond = spec(60, 3, vec![increment(FieldName::UdpSrc, 1, 5)]);
    beyond.first_flow = 3;
    assert_eq!(key(&beyond), "first_flow");
}

#[test]
fn only_what_the_fast_path_can_do_takes_it() {
    let plain = spec(60, 1, vec![]);
    let cases: [fn(&mut StreamSpec); 4] = [
        |spec| spec.wrong.ipv4 = true,
        |spec| spec.sizes = Sizes::Random { min: 60, max: 61 },
        |spec| spec.fields = vec![increment(FieldName::Ipv4Ttl, 1, 2)],
        |spec| {
            let Template::Layers(layers) = &mut spec.template else {
                return;
            };
            if let Layer::Ipv4 { options, .. } = &mut layers[1] {
                *options = vec![1; 4];
            }
            spec.sizes = Sizes::Fixed(64);
        },
    ];
    assert!(FrameProgram::new(&plain).unwrap().is_plain());
    for change in cases {
        let mut spec = plain.clone();
        change(&mut spec);
        assert!(!FrameProgram::new(&spec).unwrap().is_plain());
    }
}

fn any_name() -> impl Strategy<Value = FieldName> {
    prop_oneof![
        Just(FieldName::Ipv4Src),
        Just(FieldName::Ipv4Dst),
        Just(FieldName::UdpSrc),
        Just(FieldName::UdpDst)
    ]
}

fn any_spec() -> impl Strategy<Value = StreamSpec> {
    let program = (any_name(), any::<i64>(), 1u64..20)
        .prop_map(|(name, step, count)| increment(name, step, count));
    let fields = proptest::collection::vec(program, 0..4).prop_map(|mut fields| {
        let mut seen = Vec::new();
        fields.retain(|program| {
            let fresh = !seen.contains(&program.field);
            seen.push(program.field);
            fresh
        });
        fields
    });
    (
        60usize..200,
        fields,
        any::<(u64, u64)>(),
        any::<u32>(),
        any::<u16>(),
    )
        .prop_map(|(len, fields, (flows, first), address, port)| {
            let product: u64 = fields
                .iter()
                .filter_map(|program| program.op.digit())
                .product();
            let flows = 1 + flows % product;
            let mut spec = spec(len, flows, fields);
            spec.first_flow = first % (product - flows + 1);
            spec.template = Template::Layers(udp_layers(address.into(), port));
            spec
        })
}

proptest! {
    #[test]
    fn every_frame_is_well_formed_and_signed(spec in any_spec(), time_ns in 0..1u64 << 40) {
        let mut program = FrameProgram::new(&spec).unwrap();
        for sequence in 0..100 {
            let frame = write(&mut program, time_ns);
            prop_assert!(verify::checksums_right(&frame));
            prop_assert_ne!(&frame[UDP_CHECK_AT..UDP_CHECK_AT + 2], &[0, 0]);
            let expected = Signature { epoch: 3, stream: 7, sequence, time_ns };
            prop_assert_eq!(signature::read(&frame), Reading::Intact(expected));
        }
    }

    #[test]
    fn the_fast_path_and_the_general_one_write_the_same_frames(
        spec in any_spec(), time_ns in 0..1u64 << 48, start in 0u64..500,
    ) {
        let [mut plain, mut general] = both_ways(&spec);
        plain.seek(start);
        general.seek(start);
        for _ in 0..100 {
            prop_assert_eq!(write(&mut plain, time_ns), write(&mut general, time_ns));
        }
    }

    #[test]
    fn seek_equals_writing_all_before(spec in any_spec(), to in 0u64..600) {
        for mut walked in both_ways(&spec) {
            let mut jumped = walked.clone();
            for _ in 0..to {
                write(&mut walked, 0);
            }
            jumped.seek(to);
            for _ in 0..50 {
                prop_assert_eq!(write(&mut walked, 0), write(&mut jumped, 0));
            }
        }
    }

    /// The definition in the protocol's README, tuple by tuple.
    #[test]
    fn tuples_follow_the_documented_order(spec in any_spec(), start in 0u64..500) {
        let mut program = FrameProgram::new(&spec).unwrap();
        program.seek(start);
        let (src, dst, sport, dport) = tuple(&write(&mut FrameProgram::new(&StreamSpec {
            fields: vec![], flows: 1, first_flow: 0, ..spec.clone()
        }).unwrap(), 0));
        for n in start..start + 100 {
            let frame = write(&mut program, 0);
            let flow = spec.first_flow + n % spec.flows;
            prop_assert_eq!(program.flow_of(n), Some(flow));
            let (mut src, mut dst, mut sport, mut dport) = (src, dst, sport, dport);
            let mut rest = flow;
            for program in &spec.fields {
                let Op::Increment { step, count } = program.op else { continue };
                let offset = step.wrapping_mul((rest % count) as i64);
                rest /= count;
                match program.field.name {
                    FieldName::Ipv4Src => src = src.wrapping_add(offset as u32),
                    FieldName::Ipv4Dst => dst = dst.wrapping_add(offset as u32),
                    FieldName::UdpSrc => sport = sport.wrapping_add(offset as u16),
                    _ => dport = dport.wrapping_add(offset as u16),
                }
            }
            prop_assert_eq!(tuple(&frame), (src, dst, sport, dport), "frame {}", n);
        }
    }

    #[test]
    fn frames_not_sent_are_written_again(
        spec in any_spec(), bursts in proptest::collection::vec((1usize..40, 0u64..40), 1..20),
    ) {
        for mut program in both_ways(&spec) {
            let mut expected = 0;
            for &(count, taken) in &bursts {
                let taken = taken.min(count as u64);
                burst(&mut program, 0, count, taken);
                expected += taken;
                let mut fresh = program.clone();
                fresh.seek(expected);
                prop_assert_eq!(program.next(), expected);
                prop_assert_eq!(burst(&mut program, 0, 1, 0), burst(&mut fresh, 0, 1, 0));
            }
        }
    }

    #[test]
    fn a_stream_split_into_blocks_has_the_same_tuples(spec in any_spec(), cut: u64) {
        let cut = cut % spec.flows;
        prop_assume!(cut > 0);
        let blocks = [(0, cut), (cut, spec.flows - cut)];
        let mut whole = FrameProgram::new(&spec).unwrap();
        for (first, flows) in blocks {
            let first_flow = spec.first_flow + first;
            let block = StreamSpec { flows, first_flow, ..spec.clone() };
            let mut part = FrameProgram::new(&block).unwrap();
            for _ in 0..flows {
                prop_assert_eq!(tuple(&write(&mut part, 0)), tuple(&write(&mut whole, 0)));
            }
        }
    }
}
