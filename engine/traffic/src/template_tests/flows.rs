//! Five-tuples, drawn fields, sizes, and that frames stay what they were.

use super::*;
use crate::program::tests::{burst, increment, write};
use crate::spec::imix;
use pinchpoint_wire::{ipv4, verify};

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

#[test]
fn programs_that_step_together_are_no_digits() {
    let fields = vec![
        increment(FieldName::UdpSrc, 2, 3),
        increment(FieldName::UdpDst, 1, 4),
    ];
    let mut spec = spec(vec![eth(), ip4(0), udp(12)], Sizes::Fixed(60), fields);
    (spec.together, spec.flows) = (true, 12);
    let mut program = FrameProgram::new(&spec).unwrap();
    let ports = |frame: &[u8], at: usize| u64::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let frames = burst(&mut program, 0, 30, 30);
    let (src, dst) = (ports(&frames[0], 34), ports(&frames[0], 36));
    for (n, frame) in (0..).zip(&frames) {
        let n: u64 = n;
        assert_eq!(ports(frame, 34), src + 2 * (n % 3), "frame {n}");
        assert_eq!(ports(frame, 36), dst + n % 4, "frame {n}");
        assert!(verify::checksums_right(frame));
    }
    program.seek(7);
    assert_eq!(burst(&mut program, 0, 1, 1)[0][34..38], frames[7][34..38]);
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
        0x0138_f409_af87_440e,
        0x0329_b00e_2804_55eb,
        0x7086_cf59_5f22_0436,
    ];
    assert_eq!(seen, expected, "{seen:x?}");
}
