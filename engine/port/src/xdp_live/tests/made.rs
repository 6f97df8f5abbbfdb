//! The frames that the program makes, without an interface.

use super::*;
use pinchpoint_wire::verify;

/// Without a `veth`, `lo` does: nothing is redirected in these runs.
fn loaded(stream: &LiveStream) -> Loaded {
    Loaded::new(stream, &DeviceMap::new(1).unwrap()).unwrap()
}

/// Runs the stream's program on `before`; returns the frame it makes.
fn made(loaded: &Loaded, before: &[u8]) -> Vec<u8> {
    const REDIRECT: u32 = 4;
    loaded.state.set(program::TIME_LEFT, 0);
    let (result, frame) = loaded.frame.run_once(before).unwrap();
    assert_eq!(result, REDIRECT);
    frame
}

#[test]
#[ignore = "needs root"]
fn frames_are_those_of_the_frame_program_byte_for_byte() {
    let all = [
        ("udp.src", 1, 10),
        ("ipv4.dst", -1, 3),
        ("ipv4.src", 256, 5),
        ("udp.dst", -7, 4),
    ];
    let specs = [
        spec(60, 1, &[]),
        spec(60, 600, &all),
        spec(60, 77, &all),
        spec(61, 15, &all[1..3]),
        StreamSpec {
            id: 0x1307,
            ..spec(60, 15, &all[1..3])
        },
        spec(200, 10, &all[..1]),
        spec(1514, 100, &all),
        // The checksum takes every value, also those sent as 0xffff.
        spec(60, 65_536, &[("udp.src", 1, 65_536)]),
    ];
    for spec in specs {
        let stream = live(&spec);
        let loaded = loaded(&stream);
        let mut program = FrameProgram::new(&spec).unwrap();
        for sequence in 0..spec.flows.max(3) * 2 {
            let mut before = stream.template.clone();
            // What a frame's last receiver left in its headers.
            before[..42].fill(0xa5);
            let frame = made(&loaded, &before);
            let time_ns = signature_of(&frame).time_ns;
            assert_eq!(frame, written(&mut program, time_ns), "frame {sequence}");
            assert!(verify::checksums_right(&frame));
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_part_of_the_tuples_comes_again_and_again() {
    let spec = spec(60, 15, &[("ipv4.dst", 1, 3), ("udp.src", 1, 5)]);
    let stream = LiveStream {
        first_flow: 4,
        flows: 9,
        ..live(&spec)
    };
    let mut program = FrameProgram::new(&spec).unwrap();
    let tuples: Vec<_> = (0..15).map(|_| written(&mut program, 0)).collect();
    let loaded = loaded(&stream);
    for sequence in 0..30 {
        let frame = made(&loaded, &stream.template);
        let tuple = &tuples[4 + sequence % 9];
        assert_eq!(frame[..42], tuple[..42], "frame {sequence}");
    }
}

#[test]
#[ignore = "needs root"]
fn edits_of_single_bytes_and_of_some_bits_keep_checksums_right() {
    let varying = [("ipv4.src", 1, 2), ("udp.src", 1, 2)];
    let mut stream = live(&spec(60, 1, &varying));
    let edit = |offset, width, base, mask, count| LiveEdit {
        offset,
        width,
        base,
        step: 3,
        mask,
        count,
    };
    stream.edits = vec![
        // Time to live, a byte at an even place; the last byte of the source.
        edit(IP_AT + 8, 1, 64, u32::MAX, 2),
        edit(IP_AT + 15, 1, 250, u32::MAX, 5),
        edit(UDP_AT, 2, 0x1ff0, 0x0fff, 10),
    ];
    stream.flows = 100;
    stream.checksums[0].edits = vec![0, 1];
    stream.checksums[1].edits = vec![1, 2];
    let loaded = loaded(&stream);
    for number in 0..100u16 {
        let frame = made(&loaded, &stream.template);
        assert!(verify::checksums_right(&frame), "{number}");
        assert_eq!(u16::from(frame[IP_AT + 8]), 64 + 3 * (number % 2));
        assert_eq!(
            u16::from(frame[IP_AT + 15]),
            (250 + 3 * (number / 2 % 5)) % 256
        );
        let port = u16::from_be_bytes([frame[UDP_AT], frame[UDP_AT + 1]]);
        assert_eq!(port, 0x1000 | (0xff0 + 3 * (number / 10)) & 0xfff);
    }
}
