//! What arrives at the other end of a link.

use super::*;
use crate::testing::Bench;
use pinchpoint_wire::verify;
use std::time::Instant;

/// What arrives of stream 7: intact, in order, with right checksums.
#[derive(Default)]
struct Arrived {
    next: u64,
    times: Vec<u64>,
}

impl Sink for Arrived {
    fn arrived(&mut self, _count: usize) {}
    fn frame(&mut self, frame: &[u8]) {
        if signature::read(frame) == Reading::Foreign {
            return;
        }
        let signature = signature_of(frame);
        assert!(verify::checksums_right(frame));
        assert_eq!((signature.stream, signature.epoch), (7, 3));
        assert_eq!(signature.sequence, self.next);
        self.next += 1;
        self.times.push(signature.time_ns);
    }
}

fn receive_until(port: &mut impl Port, seen: &mut Arrived, count: u64) {
    let start = Instant::now();
    while seen.next < count && start.elapsed() < TIMEOUT {
        port.receive(seen);
    }
    assert_eq!(seen.next, count);
}

#[test]
#[ignore = "needs root"]
fn every_frame_arrives_intact_and_with_the_time_of_the_given_clock() {
    const ORIGIN: u64 = 1 << 39;
    let bench = Bench::new("");
    let mut left = live_port("v0,rx=1", &bench.near);
    let mut right = live_port("v0,rx=1", &bench.far);
    assert_eq!(left.mode(), "xdp_live and af_xdp native copy need-wakeup");
    let spec = spec(60, 600, &[("ipv4.src", 1, 30), ("udp.dst", 1, 20)]);
    left.load(&[live(&spec)]).unwrap();
    let start = Instant::now();
    let now_ns = || ORIGIN + start.elapsed().as_nanos() as u64;
    let mut seen = Arrived::default();
    for count in [1, 15, 16, 17, 64, 65, 300, 1_000] {
        let before = now_ns();
        let first = seen.times.len();
        let sent = left.send_live(0, count, now_ns);
        assert_eq!(
            sent,
            Sent {
                frames: count,
                refused: 0
            }
        );
        let wanted = seen.next + count;
        receive_until(&mut right, &mut seen, wanted);
        let after = now_ns();
        // A pair of readings lies that far apart at most on a busy machine.
        let slack = 1_000_000;
        for time in &seen.times[first..] {
            assert!((before - slack..=after + slack).contains(time));
        }
        assert!(seen.times[first..].is_sorted());
    }
    assert_eq!(left.next_live(0), Some(seen.next));
    assert_eq!(left.failure(), None);
}

/// The frames that arrived with a signature.
#[derive(Default)]
struct Frames(Vec<Vec<u8>>);

impl Sink for Frames {
    fn arrived(&mut self, _count: usize) {}
    fn frame(&mut self, frame: &[u8]) {
        if signature::read(frame) != Reading::Foreign {
            self.0.push(frame.to_vec());
        }
    }
}

#[test]
#[ignore = "needs root"]
fn vlan_ids_and_times_to_live_vary_on_the_wire_as_the_frame_program_writes_them() {
    let bench = Bench::new("");
    let mut left = live_port("v0", &bench.near);
    let mut right = live_port("v0,rx=1", &bench.far);
    let varying = [("vlan.id", 300, 13), ("ipv4.ttl", -1, 64)];
    let mut spec = spec(80, 13 * 64, &varying);
    let vlan = Layer::Vlan {
        id: 100,
        pcp: 5,
        dei: true,
        tpid: 0x8100,
    };
    let Template::Layers(layers) = &mut spec.template else {
        unreachable!("made of layers above");
    };
    layers.insert(1, vlan);
    left.load(&[live(&spec)]).unwrap();
    let mut program = FrameProgram::new(&spec).unwrap();
    let mut seen = Frames::default();
    let count = 2 * spec.flows;
    let start = Instant::now();
    for burst in std::iter::repeat_n(64, count as usize / 64) {
        assert_eq!(left.send_live(0, burst, || 0).refused, 0);
        let wanted = seen.0.len() + burst as usize;
        while seen.0.len() < wanted && start.elapsed() < TIMEOUT {
            right.receive(&mut seen);
        }
    }
    assert_eq!(seen.0.len() as u64, count);
    for (sequence, frame) in (0..).zip(&seen.0) {
        assert_eq!(*frame, written(&mut program, signature_of(frame).time_ns));
        // Priority 5, DEI, and an id in 12 bits.
        let id = (100 + 300 * (sequence % 13)) & 0xfff;
        assert_eq!(
            frame[12..16],
            [0x81, 0x00, 0xb0 | (id >> 8) as u8, id as u8]
        );
        assert_eq!(u64::from(frame[IP_AT + 4 + 8]), 64 - sequence / 13 % 64);
        assert!(verify::checksums_right(frame));
    }
}
