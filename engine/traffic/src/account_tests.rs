//! What becomes of each frame that arrives.

use super::*;
use crate::counts::{Jump, Silence, merged};
use crate::sent_bound::LEAD;

const SETTINGS: Settings = Settings {
    epoch: 1,
    latency_every: 1,
    jitter: true,
};

fn frame(epoch: u8, stream: u16, sequence: u64) -> [u8; 60] {
    let signature = Signature {
        epoch,
        stream,
        sequence,
        time_ns: 0,
    };
    let mut frame = [0; 60];
    signature.emit(frame.last_chunk_mut().unwrap());
    frame
}

fn here(id: u16, rx_port: usize) -> Expected {
    Expected {
        id,
        rx_ports: vec![rx_port],
        is_expected: true,
        flow_count: None,
        frames: None,
        sender: Sender::Here,
        verify_checksums: false,
        flows: None,
        unsigned: None,
    }
}

fn elsewhere(id: u16, sent_bound: &Arc<SentBound>) -> Expected {
    Expected {
        sender: Sender::Elsewhere(Arc::clone(sent_bound)),
        ..here(id, 0)
    }
}

fn account() -> Account {
    let mut account = Account::new(&SETTINGS, &[here(5, 1), here(6, 0)], 2);
    account.sent(0, 100);
    account.sent(1, 100);
    account
}

/// The counts of the only stream.
fn counts(closed: &Closed) -> StreamCounts {
    closed.streams[0].as_ref().unwrap().counts
}

#[test]
fn every_frame_ends_in_exactly_one_count() {
    let mut account = account();
    let mut damaged = frame(1, 5, 9);
    damaged[50] ^= 4;
    for bytes in [
        &frame(1, 5, 0)[..],
        &frame(1, 5, 2),
        &frame(1, 5, 1),
        &frame(1, 5, 1),
        &frame(0, 5, 7),
        &frame(0, 6, 7),
        &frame(0, 9, 7),
        &frame(1, 9, 7),
        &frame(1, 6, 7),
        &frame(1, 5, 100),
        &damaged,
        &[0; 60],
        &[0; 3],
    ] {
        account.frame(1, bytes, 10);
    }
    let closed = account.close();
    let mut expected = StreamCounts {
        received: 3,
        sequence_sum: 3,
        duplicated: 1,
        corrupt: 1,
        late: 1,
        largest_jump: Some(Jump {
            missing: 1,
            at_ns: 10,
        }),
        passed_over: 1,
        last_jump_ns: Some(10),
        shares: 1,
        ..StreamCounts::default()
    };
    expected.reordered(1);
    assert_eq!(counts(&closed), expected);
    let other = closed.streams[1].as_ref().unwrap().counts;
    assert_eq!(other, StreamCounts::default());
    let expected = PortCounts {
        received: 5,
        late: 3,
        foreign: 5,
        misdelivered: 1,
        ..PortCounts::default()
    };
    assert_eq!(closed.ports[1], expected);
}

#[test]
fn a_frame_is_missing_once_it_is_overtaken_and_until_it_comes() {
    let mut account = account();
    let mut seen = Vec::new();
    for (sequence, at_ns) in [(0, 10), (3, 20), (2, 30), (4, 40), (6, 50)] {
        account.frame(1, &frame(1, 5, sequence), at_ns);
        seen.push(account.missing());
    }
    assert_eq!(seen, [0, 2, 1, 1, 2]);
    assert_eq!(counts(&account.close()).last_jump_ns, Some(50));
}

#[test]
fn the_longest_silence_lies_between_two_bursts_and_no_queue_tells_another_s() {
    let mut account = account();
    for now_ns in [100, 300, 900, 1000] {
        account.burst(1, now_ns);
    }
    let mut port = account.close().ports.remove(1);
    assert_eq!(
        port.silence,
        Some(Silence {
            at_ns: 300,
            len_ns: 600
        })
    );
    port.heard(9000);
    assert_eq!(
        port.silence,
        Some(Silence {
            at_ns: 1000,
            len_ns: 8000
        })
    );
    port.merge(&PortCounts::default());
    assert_eq!(port.silence, None);
}

#[test]
fn a_damaged_stream_id_is_charged_to_the_port_s_own_stream() {
    let mut account = account();
    let mut damaged = frame(1, 5, 3);
    damaged[60 - signature::LEN + 3] ^= 0x80;
    account.frame(1, &damaged, 0);
    let closed = account.close();
    assert_eq!((counts(&closed).corrupt, closed.ports[1].received), (1, 1));
}

#[test]
fn parts_of_a_stream_are_told_apart_by_the_high_byte_of_their_ids() {
    let expected = [here(0x3f06, 0), here(5, 0), here(0x3f05, 0)];
    let mut account = Account::new(&SETTINGS, &expected, 1);
    for index in 0..3 {
        account.sent(index, 1);
    }
    for id in [5, 0x3f05, 0x4005] {
        account.frame(0, &frame(1, id, 0), 0);
    }
    let mut damaged = frame(1, 5, 0);
    damaged[60 - signature::LEN + 10] ^= 0x80;
    account.frame(0, &damaged, 0);
    let closed = account.close();
    let of = |k: usize| closed.streams[k].as_ref().unwrap().counts;
    let counts = [0, 1, 2].map(|k| (of(k).received, of(k).corrupt));
    let counted = (counts, closed.ports[0].foreign);
    assert_eq!(counted, ([(0, 0), (1, 1), (1, 0)], 1));
}

#[test]
fn wrong_checksums_are_corrupt_only_when_verified() {
    for (verify_checksums, corrupt) in [(true, 1), (false, 0)] {
        let expected = Expected {
            verify_checksums,
            ..here(5, 0)
        };
        let mut account = Account::new(&SETTINGS, &[expected], 1);
        account.sent(0, 1);
        let mut bytes = frame(1, 5, 0);
        bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
        account.frame(0, &bytes, 0);
        assert_eq!(counts(&account.close()).corrupt, corrupt);
    }
}

#[test]
fn of_a_stream_that_no_port_expects_nothing_is_told_and_its_frames_are_foreign() {
    let unsigned = Expected {
        rx_ports: Vec::new(),
        is_expected: false,
        ..here(7, 0)
    };
    let mut account = Account::new(&SETTINGS, &[unsigned, here(5, 0)], 1);
    account.sent(0, 10);
    account.sent(1, 10);
    for bytes in [&[0; 60], &frame(1, 7, 0), &frame(1, 5, 0)] {
        account.frame(0, bytes, 0);
    }
    let closed = account.close();
    assert!(closed.streams[0].is_none());
    assert_eq!(closed.streams[1].as_ref().unwrap().counts.received, 1);
    let ports = (closed.ports[0].received, closed.ports[0].foreign);
    assert_eq!(ports, (1, 2));
}

#[test]
fn the_largest_jump_stands_although_its_frames_come_later() {
    let mut account = account();
    for (sequence, now_ns) in [
        (0, 10),
        (4, 20),
        (1, 30),
        (2, 40),
        (3, 50),
        (6, 60),
        (7, 70),
    ] {
        account.frame(1, &frame(1, 5, sequence), now_ns);
    }
    let counts = counts(&account.close());
    let jump = Jump {
        missing: 3,
        at_ns: 20,
    };
    assert_eq!((counts.received, counts.reordered), (7, 3));
    assert_eq!(counts.largest_jump, Some(jump));
    assert_eq!(counts.reorder_distances.pairs(), [(1, 1), (2, 1), (4, 1)]);
}

#[test]
fn parts_of_a_stream_have_their_latencies_together() {
    let parts = [here(5, 0), here(6, 0), here(7, 0)];
    let mut account = Account::of_parts(&SETTINGS, &parts, &[0, 1, 0], 1);
    for (part, id) in [5, 6, 7].into_iter().enumerate() {
        account.sent(part, 1);
        account.frame(0, &frame(1, id, 0), 100 * u64::from(id));
    }
    let streams = account.close().streams.into_iter().flatten();
    let found = streams.map(|stream| {
        let latency = stream.latency.map(LatencyRecorder::into_histogram);
        let latency = latency.map(|latency| (latency.len(), latency.min(), latency.max()));
        (stream.counts.received, latency)
    });
    let expected = [
        (1, Some((2, 500, 700))),
        (1, Some((1, 600, 600))),
        (1, None),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn only_some_latencies_are_recorded_when_sampling_but_all_jitter() {
    let settings = Settings {
        latency_every: 3,
        ..SETTINGS
    };
    let mut account = Account::new(&settings, &[here(5, 0)], 1);
    account.sent(0, 10);
    for sequence in 0..10 {
        account.frame(0, &frame(1, 5, sequence), 100 + sequence);
    }
    let [Some(stream)] = &account.close().streams[..] else {
        panic!("one stream");
    };
    let latencies = stream.latency.clone().unwrap().into_latencies();
    assert_eq!((latencies.latency.len(), latencies.latency.max()), (4, 109));
    assert_eq!(latencies.jitter.unwrap().count_at(1), 9);
}

#[test]
fn a_stream_sent_elsewhere_is_received_as_far_as_its_bound() {
    let sent_bound = Arc::new(SentBound::new());
    let mut account = Account::new(&SETTINGS, &[elsewhere(5, &sent_bound)], 1);
    account.frame(0, &frame(1, 5, 0), 0);
    sent_bound.reach(10);
    account.frame(0, &frame(1, 5, 9), 0);
    account.frame(0, &frame(1, 5, 10 + LEAD), 0);
    let closed = account.close();
    assert_eq!(counts(&closed).received, 1);
    assert_eq!(closed.ports[0].foreign, 2);
}

#[test]
fn frames_never_sent_are_foreign_once_the_sender_has_ended() {
    let sent_bound = Arc::new(SentBound::new());
    let expected = Expected {
        flows: Some((FlowMap { first: 0, flows: 4 }, 4)),
        ..elsewhere(5, &sent_bound)
    };
    let mut account = Account::new(&SETTINGS, &[expected], 1);
    sent_bound.reach(10);
    for sequence in [0, 1, 9, 10, 14] {
        account.frame(0, &frame(1, 5, sequence), 0);
    }
    sent_bound.finish(10);
    let closed = account.close();
    assert_eq!(counts(&closed).received, 3);
    let ports = (closed.ports[0].received, closed.ports[0].foreign);
    assert_eq!(ports, (3, 2));
    let [Some(stream)] = &closed.streams[..] else {
        panic!("one stream");
    };
    let totals = stream.flows.as_ref().unwrap().totals(10);
    assert_eq!((totals.sent, totals.received), (10, 3));
}

/// Four queues take frames by their flow; one worker sends, four account.
#[test]
fn accounts_of_several_queues_add_up_to_the_account_of_one() {
    let (flows, queues, sent) = (64, 4, 20_000u64);
    let sent_bound = Arc::new(SentBound::new());
    let expected = Expected {
        flows: Some((FlowMap { first: 0, flows }, 64)),
        ..elsewhere(5, &sent_bound)
    };
    let new = || Account::new(&SETTINGS, std::slice::from_ref(&expected), 1);
    let (mut whole, mut parts) = (new(), [new(), new(), new(), new()]);
    sent_bound.reach(sent);
    for sequence in (0..sent).filter(|sequence| sequence % 97 != 5) {
        let copies = if sequence % 89 == 3 { 2 } else { 1 };
        for _ in 0..copies {
            let bytes = frame(1, 5, sequence);
            let queue = (sequence % flows % queues) as usize;
            whole.frame(0, &bytes, 1000 + sequence);
            parts[queue].frame(0, &bytes, 1000 + sequence);
        }
    }
    sent_bound.finish(sent);
    let whole = whole.close();
    let parts = parts.map(Account::close);
    let mut port = PortCounts::default();
    for part in &parts {
        port.merge(&part.ports[0]);
    }
    assert_eq!(port, whole.ports[0]);
    let sum = merged(parts.into_iter().flat_map(|part| part.streams)).unwrap();
    let [Some(whole)] = &whole.streams[..] else {
        panic!("one stream");
    };
    let wanted = StreamCounts {
        largest_jump: None,
        last_jump_ns: None,
        // Within each queue: more than were lost.
        passed_over: sum.counts.passed_over,
        shares: queues,
        ..whole.counts
    };
    assert_eq!(sum.counts, wanted);
    let losses = |account: &StreamAccount| -> Vec<_> {
        account.flows.as_ref().unwrap().losses(sent).collect()
    };
    assert!(!losses(whole).is_empty());
    assert_eq!(losses(&sum), losses(whole));
    let latency = |account: &StreamAccount| account.latency.clone().unwrap().into_histogram();
    assert_eq!(latency(&sum), latency(whole));
}

#[test]
fn more_distinct_frames_than_were_sent_are_copies_at_different_queues() {
    let mut counts = StreamCounts {
        received: 12,
        duplicated: 1,
        ..StreamCounts::default()
    };
    counts.at_most(10, true);
    assert_eq!((counts.received, counts.duplicated), (10, 3));
}

/// What two queues receive of the frames `0..sent`: one all but `lost`, the
/// other a copy of each of `copied`.
fn at_two_queues(sent: u64, lost: &[u64], copied: &[u64]) -> StreamCounts {
    let sent_bound = Arc::new(SentBound::new());
    let expected = elsewhere(5, &sent_bound);
    let new = || Account::new(&SETTINGS, std::slice::from_ref(&expected), 1);
    let (mut one, mut other) = (new(), new());
    sent_bound.reach(sent);
    for sequence in (0..sent).filter(|sequence| !lost.contains(sequence)) {
        one.frame(0, &frame(1, 5, sequence), 0);
    }
    for &sequence in copied {
        other.frame(0, &frame(1, 5, sequence), 0);
    }
    sent_bound.finish(sent);
    let parts = [one, other].map(Account::close);
    let sum = merged(parts.into_iter().flat_map(|part| part.streams));
    let mut counts = sum.unwrap().counts;
    counts.at_most(sent, true);
    counts
}

#[test]
fn a_copy_at_another_queue_hides_no_loss() {
    for sent in [2, 7, 1000] {
        let counts = at_two_queues(sent, &[1], &[0]);
        assert_eq!((counts.received, counts.duplicated), (sent - 1, 1));
    }
    let many = at_two_queues(1000, &[3, 4, 5], &[900, 901, 902]);
    assert_eq!((many.received, many.duplicated), (999, 1), "at least one");
}

#[test]
fn without_copies_or_losses_the_counts_stay_as_they_are() {
    let whole = at_two_queues(1000, &[], &[]);
    assert_eq!((whole.received, whole.duplicated), (1000, 0));
    let lossy = at_two_queues(1000, &[3, 4], &[]);
    assert_eq!((lossy.received, lossy.duplicated), (998, 0));
    let copied = at_two_queues(1000, &[], &[7, 8]);
    assert_eq!((copied.received, copied.duplicated), (1000, 2));
}

/// What is counted of these sequence numbers, in the order of their arrival.
fn arrived(flow_count: Option<u64>, sequences: &[u64]) -> StreamCounts {
    let expected = Expected {
        flow_count,
        ..here(5, 0)
    };
    let mut account = Account::new(&SETTINGS, &[expected], 1);
    account.sent(0, 100);
    for &sequence in sequences {
        account.frame(0, &frame(1, 5, sequence), 0);
    }
    counts(&account.close())
}

#[test]
fn a_frame_is_reordered_in_its_flow_only_behind_a_later_one_of_it() {
    let order = [1, 0, 6, 2, 3, 5, 4, 9];
    let found = arrived(Some(4), &order);
    // Of the five that came late, 2 was overtaken by 6; 0, 3, 4 and 5 by other flows.
    assert_eq!((found.reordered, found.reordered_in_flow), (5, Some(1)));
    let found = arrived(Some(1), &order);
    assert_eq!((found.reordered, found.reordered_in_flow), (5, Some(5)));
    let found = arrived(Some(1 << 40), &order);
    assert_eq!((found.reordered, found.reordered_in_flow), (5, Some(0)));
    let found = arrived(None, &order);
    assert_eq!((found.reordered, found.reordered_in_flow), (5, None));
}

#[test]
fn a_frame_that_another_port_expects_is_misdelivered() {
    let unexpected = Expected {
        rx_ports: Vec::new(),
        is_expected: false,
        ..here(7, 0)
    };
    let at_another_worker = Expected {
        is_expected: true,
        id: 8,
        ..unexpected.clone()
    };
    let expected = [here(5, 0), unexpected, at_another_worker];
    let mut account = Account::new(&SETTINGS, &expected, 2);
    account.sent(0, 100);
    for (port, id) in [(0, 5), (1, 5), (1, 5), (1, 7), (1, 8), (1, 9)] {
        account.frame(port, &frame(1, id, 0), 0);
    }
    account.frame(1, &[0; 60], 0);
    account.frame(1, &frame(2, 5, 0), 0);
    let closed = account.close();
    assert_eq!(closed.misdelivered, [2, 0, 1]);
    let port = closed.ports[1];
    assert_eq!((port.foreign, port.misdelivered, port.late), (6, 3, 1));
    assert_eq!(
        (closed.ports[0].received, closed.ports[0].misdelivered),
        (1, 0)
    );
}

#[test]
fn any_port_of_a_set_may_deliver_a_frame_and_a_copy_at_another_is_a_copy() {
    let set = Expected {
        rx_ports: vec![0, 2],
        ..here(5, 0)
    };
    let mut account = Account::new(&SETTINGS, &[set], 3);
    account.sent(0, 100);
    for (port, sequence) in [(0, 0), (2, 1), (0, 2), (2, 2), (1, 3)] {
        account.frame(port, &frame(1, 5, sequence), 0);
    }
    let closed = account.close();
    let found = counts(&closed);
    assert_eq!(
        (found.received, found.duplicated, found.reordered),
        (3, 1, 0)
    );
    let ports = closed
        .ports
        .iter()
        .map(|port| (port.received, port.misdelivered));
    assert_eq!(ports.collect::<Vec<_>>(), [(2, 0), (0, 1), (2, 0)]);
}
