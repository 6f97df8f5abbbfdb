//! What holds for every template, seed and burst.

use super::*;
use crate::program::tests::{burst, write};
use pinchpoint_wire::signature::{self, Reading, Signature};
use pinchpoint_wire::verify;

proptest! {
    #[test]
    fn every_frame_is_right_signed_and_of_its_size(spec in any_spec(), time_ns in 0..1u64 << 40) {
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
