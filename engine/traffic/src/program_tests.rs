use super::*;
use crate::spec::{Field, FieldProgram};
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_wire::signature::Signature;
use pinchpoint_wire::{signature::Reading, verify};
use proptest::prelude::*;
use std::collections::HashSet;

fn spec(len: usize, flows: u64, fields: Vec<FieldProgram>) -> StreamSpec {
    StreamSpec {
        id: 7,
        epoch: 3,
        len,
        eth_src: Mac([2, 0, 0, 0, 0, 1]),
        eth_dst: Mac([2, 0, 0, 0, 0, 2]),
        ip_src: Ipv4Addr::new(16, 0, 0, 1),
        ip_dst: Ipv4Addr::new(48, 0, 0, 1),
        ttl: 64,
        dscp: 10,
        udp_src: 1025,
        udp_dst: 12,
        flows,
        fields,
    }
}

fn increment(field: Field, step: i64, count: u64) -> FieldProgram {
    FieldProgram { field, step, count }
}

fn write(program: &mut FrameProgram, frame: &mut [u8], time_ns: u64) {
    program.send(time_ns, |burst| {
        burst.write(frame);
        1
    });
}

fn tuple(frame: &[u8]) -> (u32, u32, u16, u16) {
    let ip = ipv4::Packet::new_checked(&frame[IP_AT..]).unwrap();
    let udp = udp::Datagram::new_checked(ip.payload()).unwrap();
    (ip.src().to_bits(), ip.dst().to_bits(), udp.src(), udp.dst())
}

#[test]
fn first_digit_is_the_fastest_and_flows_cut_the_product() {
    let fields = vec![
        increment(Field::Ipv4Dst, 1, 3),
        increment(Field::Ipv4Src, 2, 5),
    ];
    let mut program = FrameProgram::new(&spec(60, 7, fields)).unwrap();
    let (src, dst) = (0x1000_0001, 0x3000_0001);
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
    for (src_offset, dst_offset) in expected {
        let mut frame = [0; 60];
        write(&mut program, &mut frame, 0);
        assert_eq!(
            tuple(&frame),
            (src + src_offset, dst + dst_offset, 1025, 12)
        );
    }
}

#[test]
fn sixty_five_thousand_flows_are_distinct_and_come_again() {
    let fields = vec![
        increment(Field::Ipv4Dst, 1, 65_535),
        increment(Field::Ipv4Src, 1, 255),
    ];
    let mut program = FrameProgram::new(&spec(60, 65_536, fields)).unwrap();
    let mut seen = HashSet::new();
    let mut frame = [0; 60];
    for _ in 0..65_536 {
        write(&mut program, &mut frame, 0);
        assert!(seen.insert(tuple(&frame)));
    }
    write(&mut program, &mut frame, 0);
    assert_eq!(tuple(&frame), (0x1000_0001, 0x3000_0001, 1025, 12));
}

#[test]
fn steps_wrap_in_the_width_of_the_field() {
    let fields = vec![
        increment(Field::UdpDst, -13, 3),
        increment(Field::UdpSrc, 0x1_0001, 2),
    ];
    let mut program = FrameProgram::new(&spec(60, 6, fields)).unwrap();
    let mut ports = Vec::new();
    for _ in 0..6 {
        let mut frame = [0; 60];
        write(&mut program, &mut frame, 0);
        assert!(verify::checksums_right(&frame));
        let (_, _, src, dst) = tuple(&frame);
        ports.push((src, dst));
    }
    let dsts = [12, 65_535, 65_522];
    let expected: Vec<_> = (0..6)
        .map(|i| (1025 + i / 3, dsts[usize::from(i) % 3]))
        .collect();
    assert_eq!(ports, expected);
}

#[test]
fn errors_name_the_key() {
    let key = |spec: &StreamSpec| FrameProgram::new(spec).unwrap_err().key;
    assert_eq!(key(&spec(59, 1, vec![])), "frame_bytes");
    assert_eq!(key(&spec(60, 2, vec![])), "flows");
    assert_eq!(key(&spec(60, 0, vec![])), "flows");
    let none = vec![increment(Field::UdpSrc, 1, 0)];
    assert_eq!(key(&spec(60, 1, none)), "fields[0].count");
    let twice = vec![
        increment(Field::UdpSrc, 1, 2),
        increment(Field::UdpSrc, 1, 2),
    ];
    assert_eq!(key(&spec(60, 1, twice)), "fields[1].field");
}

fn any_field() -> impl Strategy<Value = Field> {
    prop_oneof![
        Just(Field::Ipv4Src),
        Just(Field::Ipv4Dst),
        Just(Field::UdpSrc),
        Just(Field::UdpDst)
    ]
}

fn any_spec() -> impl Strategy<Value = StreamSpec> {
    let program = (any_field(), any::<i64>(), 1u64..20)
        .prop_map(|(field, step, count)| FieldProgram { field, step, count });
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
        any::<u64>(),
        any::<u32>(),
        any::<u16>(),
    )
        .prop_map(|(len, fields, flows, address, port)| {
            let product: u64 = fields.iter().map(|program| program.count).product();
            let mut spec = spec(len, 1 + flows % product, fields);
            spec.ip_src = address.into();
            spec.udp_dst = port;
            spec
        })
}

proptest! {
    #[test]
    fn every_frame_is_well_formed_and_signed(spec in any_spec(), time_ns in 0..1u64 << 48) {
        let mut program = FrameProgram::new(&spec).unwrap();
        let mut frame = vec![0xff; spec.len];
        for sequence in 0..100 {
            frame.fill(0xff);
            write(&mut program, &mut frame, time_ns);
            prop_assert!(verify::checksums_right(&frame));
            prop_assert_ne!(&frame[PAYLOAD_AT - 2..PAYLOAD_AT], &[0, 0]);
            let expected = Signature { epoch: 3, stream: 7, sequence, time_ns };
            prop_assert_eq!(signature::read(&frame), Reading::Intact(expected));
        }
    }

    #[test]
    fn seek_equals_writing_all_before(spec in any_spec(), to in 0u64..3000) {
        let mut walked = FrameProgram::new(&spec).unwrap();
        let mut jumped = walked.clone();
        let (mut a, mut b) = (vec![0; spec.len], vec![0; spec.len]);
        for _ in 0..to {
            write(&mut walked, &mut a, 0);
        }
        jumped.place = jumped.order.seek(to);
        for _ in 0..50 {
            write(&mut walked, &mut a, 0);
            write(&mut jumped, &mut b, 0);
            prop_assert_eq!(&a, &b);
        }
    }
}

proptest! {
    /// The definition in the protocol's README, tuple by tuple.
    #[test]
    fn tuples_follow_the_documented_order(spec in any_spec(), start in 0u64..500) {
        let mut program = FrameProgram::new(&spec).unwrap();
        program.place = program.order.seek(start);
        let mut frame = vec![0; spec.len];
        for n in start..start + 100 {
            write(&mut program, &mut frame, 0);
            let mut rest = n % spec.flows;
            let (mut src, mut dst) = (spec.ip_src.to_bits(), spec.ip_dst.to_bits());
            let (mut sport, mut dport) = (spec.udp_src, spec.udp_dst);
            for program in &spec.fields {
                let offset = program.step.wrapping_mul((rest % program.count) as i64);
                rest /= program.count;
                match program.field {
                    Field::Ipv4Src => src = src.wrapping_add(offset as u32),
                    Field::Ipv4Dst => dst = dst.wrapping_add(offset as u32),
                    Field::UdpSrc => sport = sport.wrapping_add(offset as u16),
                    Field::UdpDst => dport = dport.wrapping_add(offset as u16),
                }
            }
            prop_assert_eq!(tuple(&frame), (src, dst, sport, dport), "frame {}", n);
        }
    }

    #[test]
    fn frames_not_sent_are_written_again(spec in any_spec(), bursts in proptest::collection::vec((1u64..40, 0u64..40), 1..20)) {
        let mut program = FrameProgram::new(&spec).unwrap();
        let mut frame = vec![0; spec.len];
        let mut expected = 0;
        for (count, taken) in bursts {
            let taken = taken.min(count);
            program.send(0, |burst| {
                for _ in 0..count {
                    burst.write(&mut frame);
                }
                taken
            });
            expected += taken;
            let fresh = FrameProgram { place: program.order.seek(expected), ..program.clone() };
            let (mut a, mut b) = (frame.clone(), frame.clone());
            program.burst(0).write(&mut a);
            fresh.burst(0).write(&mut b);
            prop_assert_eq!(program.next(), expected);
            prop_assert_eq!(a, b);
        }
    }
}
