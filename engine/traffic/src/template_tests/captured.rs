//! Frames from elsewhere as templates.

use super::*;
use crate::program::tests::{burst, increment, write};
use pinchpoint_wire::{signature, verify};

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
