//! What of a capture is sent, and how it is told where it arrives.

use super::*;
use crate::account::{Account, Expected, Sender, Settings};
use crate::program::{BurstSender, FrameProgram};
use pinchpoint_wire::signature::Reading;
use pinchpoint_wire::verify;
use proptest::prelude::*;

/// An IPv4 packet with this header behind its own, and a payload of 0xa5.
fn frame(protocol: u8, header: &[u8], payload: usize) -> Vec<u8> {
    let len = (20 + header.len() + payload) as u16;
    let mut bytes = vec![2; 12];
    bytes.extend([8, 0, 0x45, 0]);
    bytes.extend(len.to_be_bytes());
    bytes.extend([0, 9, 0, 0, 64, protocol, 0, 0]);
    bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend_from_slice(header);
    bytes.resize(14 + usize::from(len), 0xa5);
    bytes
}

fn udp_frame(payload: usize) -> Vec<u8> {
    let [high, low] = (8 + payload as u16).to_be_bytes();
    frame(17, &[4, 0, 0, 53, high, low, 1, 1], payload)
}

/// A TCP segment without data; `seq` tells one from the other.
fn ack(seq: u8) -> Vec<u8> {
    let ports_and_numbers = [4, 0, 0, 80, 0, 0, 0, seq, 0, 0, 0, 2];
    let rest = [0x50, 0x10, 1, 0, 9, 9, 0, 0];
    frame(6, &[&ports_and_numbers[..], &rest].concat(), 0)
}

fn echo_reply(kind: u8) -> Vec<u8> {
    frame(1, &[kind, 0, 0, 0, 0, 7, 0, 1], 56)
}

fn replay(frames: &[Vec<u8>], stamped: bool) -> Arc<Replay> {
    Arc::new(Replay::new(frames.iter().map(Vec::as_slice), stamped).unwrap())
}

struct Collect<'a> {
    frames: &'a mut Vec<Vec<u8>>,
    count: usize,
    taken: u64,
}

impl BurstSender for Collect<'_> {
    fn send<W: FrameWriter>(self, writer: &mut W) -> u64 {
        for index in 0..self.count {
            let mut frame = vec![0xee; writer.len(index)];
            writer.write(index, &mut frame);
            if (index as u64) < self.taken {
                self.frames.push(frame);
            }
        }
        self.taken
    }
}

fn sent(program: &mut FrameProgram, count: usize, taken: u64) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let collect = Collect {
        frames: &mut frames,
        count,
        taken,
    };
    assert_eq!(program.send(77, collect), taken);
    frames
}

#[test]
fn a_signature_stands_where_there_is_payload_and_nothing_else_changes() {
    let mut arp = vec![2; 42];
    arp[12..14].copy_from_slice(&[8, 6]);
    for (captured, signed) in [
        (udp_frame(40), true),
        (udp_frame(18), true),
        (udp_frame(17), false),
        (ack(1), false),
        (frame(6, &ack(1)[34..54], 30), true),
        (echo_reply(8), true),
        (echo_reply(3), false),
        (frame(50, &[1; 8], 40), true),
        (frame(132, &[1; 8], 40), false),
        (arp, false),
        (vec![9; 5], false),
    ] {
        let replay = replay(std::slice::from_ref(&captured), true);
        assert_eq!(replay.counts(), (1, u64::from(signed)), "{captured:?}");
        let mut program = FrameProgram::replay(replay, 3, 1);
        let made = sent(&mut program, 1, 1).remove(0);
        assert_eq!(made.len(), captured.len().max(MIN_LEN));
        assert_eq!(matches!(signature::read(&made), Reading::Intact(_)), signed);
        assert!(captured.len() < 14 || verify::checksums_right(&made));
        let kept = captured.len() - if signed { signature::LEN } else { 0 };
        let is_check = |at: usize| matches!(at, 24 | 25 | 36 | 37 | 40 | 41 | 50 | 51);
        for at in (0..kept).filter(|at| !is_check(*at)) {
            assert_eq!(made[at], captured[at], "byte {at} of {captured:?}");
        }
    }
}

#[test]
fn unstamped_frames_keep_their_whole_payload_and_are_all_known_by_their_hash() {
    let frames = [udp_frame(40), udp_frame(41), udp_frame(40)];
    let replay = replay(&frames, false);
    assert_eq!(replay.counts(), (3, 0));
    assert_eq!(replay.unsigned().len(), 2, "two are the same");
    let mut program = FrameProgram::replay(Arc::clone(&replay), 3, 1);
    assert!(!program.is_stamped());
    for (made, captured) in sent(&mut program, 3, 3).iter().zip(&frames) {
        assert_eq!(made[42..], captured[42..]);
        assert!(replay.unsigned().contains(&invariant(made)));
    }
}

#[test]
fn trailers_are_cut_off_and_padding_is_zero() {
    let mut captured = ack(1);
    captured.extend([7; 10]);
    let mut program = FrameProgram::replay(replay(&[captured], true), 3, 1);
    let made = sent(&mut program, 1, 1).remove(0);
    assert_eq!((made.len(), &made[54..]), (60, &[0; 6][..]));
}

#[test]
fn a_frame_with_something_behind_its_datagram_is_sent_as_captured_and_told_by_its_hash() {
    let mut captured = udp_frame(40);
    // The packet has four bytes more than the datagram in it.
    captured[39] -= 4;
    let replay = replay(std::slice::from_ref(&captured), true);
    assert_eq!(replay.counts(), (1, 0));
    let mut program = FrameProgram::replay(Arc::clone(&replay), 3, 1);
    let made = sent(&mut program, 1, 1).remove(0);
    assert_eq!(made, captured);
    assert_eq!(*replay.unsigned(), [invariant(&captured)]);
}

#[test]
fn the_hash_knows_a_frame_without_a_length_whatever_its_padding() {
    let mut arp = vec![2; 42];
    arp[12..14].copy_from_slice(&[8, 6]);
    let mut padded = arp.clone();
    padded.resize(64, 0);
    assert_eq!(invariant(&padded), invariant(&arp));
    padded[41] = 3;
    assert_ne!(invariant(&padded), invariant(&arp));
}

#[test]
fn no_frames_are_no_replay() {
    assert!(Replay::new([], true).is_none());
}

#[test]
fn the_hash_knows_a_frame_that_was_routed_translated_and_tagged() {
    let sent = ack(1);
    let mut arrived = sent.clone();
    arrived[..12].fill(7);
    (arrived[15], arrived[22], arrived[24]) = (8, 63, 1);
    arrived[26..38].fill(3);
    arrived[50..52].fill(1);
    drop(arrived.splice(12..12, [0x81, 0, 0, 5]));
    arrived.extend([0; 2]);
    assert_eq!(invariant(&arrived), invariant(&sent));
    assert_ne!(invariant(&ack(2)), invariant(&sent));
    assert_ne!(invariant(&echo_reply(0)), invariant(&echo_reply(8)));
}

#[test]
fn frames_without_signature_are_counted_where_they_are_expected_and_foreign_elsewhere() {
    let expected = |id: u16, unsigned: Option<Arc<[u64]>>| Expected {
        id,
        rx_ports: vec![1],
        is_expected: true,
        flow_count: None,
        frames: None,
        sender: Sender::Here,
        verify_checksums: false,
        flows: None,
        unsigned,
    };
    let known = replay(&[ack(1)], true).unsigned();
    let settings = Settings {
        epoch: 1,
        latency_every: 1,
        jitter: true,
    };
    let mut account = Account::new(&settings, &[expected(6, None), expected(5, Some(known))], 2);
    for (port, bytes, is_known) in [(1, ack(1), true), (1, ack(2), false), (0, ack(1), false)] {
        assert!(!account.frame(port, &bytes, 0));
        assert_eq!(account.unsigned(port, &bytes), is_known);
    }
    let closed = account.close();
    let received = |k: usize| closed.streams[k].as_ref().unwrap().counts.received;
    assert_eq!((received(0), received(1)), (0, 1));
    let ports = closed
        .ports
        .iter()
        .map(|port| (port.received, port.foreign));
    assert_eq!(ports.collect::<Vec<_>>(), [(0, 1), (1, 1)]);
}

proptest! {
    #[test]
    fn frames_come_in_their_order_again_and_again_however_they_are_sent(
        kinds in proptest::collection::vec(any::<bool>(), 1..9),
        bursts in proptest::collection::vec((1usize..20, 0u64..20), 1..20),
    ) {
        let frame = |(k, data): (usize, &bool)| if *data { udp_frame(40 + k) } else { ack(k as u8) };
        let frames: Vec<_> = kinds.iter().enumerate().map(frame).collect();
        let mut program = FrameProgram::replay(replay(&frames, true), 3, 1);
        let mut signed = 0;
        for (count, taken) in bursts {
            let first = program.next() as usize;
            let taken = taken.min(count as u64);
            for (k, made) in sent(&mut program, count, taken).into_iter().enumerate() {
                let place = (first + k) % frames.len();
                prop_assert_eq!(made.len(), frames[place].len().max(MIN_LEN));
                match signature::read(&made) {
                    Reading::Intact(found) => {
                        prop_assert!(kinds[place]);
                        prop_assert_eq!((found.sequence, found.stream, found.time_ns), (signed, 3, 77));
                        signed += 1;
                    }
                    _ => prop_assert!(!kinds[place]),
                }
            }
            prop_assert_eq!(program.next(), first as u64 + taken);
        }
    }

    #[test]
    fn any_bytes_are_replayed(frames in proptest::collection::vec(
        proptest::collection::vec(any::<u8>(), 0..120), 1..5,
    )) {
        let mut program = FrameProgram::replay(replay(&frames, true), 3, 1);
        for made in sent(&mut program, frames.len(), frames.len() as u64) {
            let _ = invariant(&made);
            prop_assert!(made.len() >= MIN_LEN);
        }
    }
}
