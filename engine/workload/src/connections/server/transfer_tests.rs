//! Answers of several segments, between both ends.

use crate::connections::client::Client;
use crate::connections::doubles::*;
use crate::connections::plan::{Plan, Requests};
use crate::connections::schedule::Schedule;
use crate::connections::segment::{ACK, Content, FIN, Incoming, MSS, Outgoing, PSH};
use crate::connections::server::Server;
use crate::connections::timers::Retry;
use proptest::prelude::*;

const LEN: u32 = 64 << 10;
const SOON: Retry = Retry {
    after_ns: 200_000,
    times: 100,
};

fn serves(len: u32) -> Server {
    Server::new(&[service()], mac(3), len, 11).with_retry(Some(SOON))
}

fn asks(requests: u32, count: u64, retry: Retry, len: u32) -> Client {
    let plan = Plan {
        requests: Requests {
            count: requests,
            len: 64,
        },
        ..plan()
    };
    let patient = Schedule {
        timeout_ns: 20_000_000,
        retry,
        ..schedule(count)
    };
    client(plan, patient).with_answers(len)
}

/// What a server sends until it has to wait.
fn sent(server: &mut Server, now_ns: u64) -> Vec<Outgoing> {
    let mut segments = Vec::new();
    server.send(now_ns, 1_000, &mut segments);
    server.sent(&segments, segments.len());
    segments
}

/// A server that has been asked for `len` bytes, and the request.
fn asked(len: u32) -> (Server, Outgoing) {
    let (mut server, client) = (serves(len), asks(1, 1, Retry::default(), len));
    let syn = client.syns().next().unwrap();
    let answer = server.react(&Incoming::read(&written(&syn)).unwrap());
    let (place, received) = (client.sender.plan.first(), answer.unwrap().next_seq());
    let request = client.sender.request(place, 0, u16::MAX, received);
    assert_eq!(ask(&mut server, &request), None);
    (server, request)
}

fn ask(server: &mut Server, segment: &Outgoing) -> Option<Outgoing> {
    server.react(&Incoming::read(&written(segment)).unwrap())
}

/// The client acknowledges `bytes` bytes of the answer.
fn acknowledging(request: &Outgoing, bytes: u32) -> Outgoing {
    Outgoing {
        ack: request.ack.wrapping_add(bytes),
        flags: ACK,
        content: Content::Nothing,
        ..*request
    }
}

#[test]
fn every_byte_of_a_long_answer_arrives_and_no_segment_twice() {
    for (len, requests) in [(MSS + 1, 1), (LEN, 3), (1 << 20, 1)] {
        let client = asks(requests, 50, Retry::default(), len);
        let net = Net::new(client, serves(len), Wire).run();
        let counts = net.client.counts();
        assert_eq!((counts.answered, counts.completed), (50, 50), "{len}");
        let bytes = 50 * u64::from(len) * u64::from(requests);
        assert_eq!(net.client.delivered().bytes, bytes);
        assert_eq!((counts.duplicated, counts.early, counts.late), (0, 0, 0));
        let backend = net.server.backends()[0];
        assert_eq!((backend.retransmitted, backend.fins), (0, 50));
        assert_eq!(net.client.answered().backends(), [50]);
    }
}

#[test]
fn the_first_byte_comes_before_the_last() {
    let net = Net::new(asks(1, 50, Retry::default(), LEN), serves(LEN), Wire).run();
    let times = net.client.times().clone();
    let (first, last) = (
        times.first_byte.into_histogram(),
        times.answer.into_histogram(),
    );
    assert_eq!((first.len(), last.len()), (50, 50));
    assert!(first.max() < last.min(), "{} {}", first.max(), last.min());
}

#[test]
fn ten_segments_go_out_at_first_and_one_more_for_each_acknowledgment() {
    let (mut server, request) = asked(LEN);
    let first = sent(&mut server, 0);
    assert_eq!(first.len(), 10);
    assert!(matches!(first[0].content, Content::Answer(_, 1440)));
    assert!(
        first[1..]
            .iter()
            .all(|one| one.content == Content::Zeros(1440))
    );
    assert!(sent(&mut server, 0).is_empty());
    assert_eq!(ask(&mut server, &acknowledging(&request, 2 * MSS)), None);
    let more = sent(&mut server, 0);
    assert_eq!(more.len(), 3);
    assert_eq!(more[0].seq, first[9].seq.wrapping_add(MSS));
}

#[test]
fn no_more_is_under_way_than_the_peer_s_window() {
    let (mut server, request) = asked(1 << 20);
    let (mut acknowledged, mut under_way) = (0, sent(&mut server, 0).len() as u32);
    for _ in 0..300 {
        acknowledged += MSS;
        assert_eq!(
            ask(&mut server, &acknowledging(&request, acknowledged)),
            None
        );
        under_way = under_way - 1 + sent(&mut server, 0).len() as u32;
        assert!(under_way * MSS <= 0xffff, "{under_way}");
    }
    assert_eq!(under_way, 0xffff / MSS);
}

#[test]
fn what_a_port_does_not_take_is_sent_later_and_is_no_repetition() {
    let (mut server, _) = asked(LEN);
    let mut segments = Vec::new();
    server.send(0, 64, &mut segments);
    server.sent(&segments, 4);
    assert_eq!(sent(&mut server, 0), segments[4..]);
    assert_eq!(server.backends()[0].retransmitted, 0);
}

#[test]
fn what_is_not_acknowledged_is_sent_again_until_it_is_given_up() {
    let (mut server, request) = asked(LEN);
    sent(&mut server, 0);
    ask(&mut server, &acknowledging(&request, MSS));
    sent(&mut server, 0);
    let mut again = Vec::new();
    for now_ns in (0..30_000_000).step_by(10_000) {
        again.extend(sent(&mut server, now_ns));
    }
    assert_eq!(again[0].seq, request.ack.wrapping_add(MSS));
    assert_eq!(again.len(), 10 * SOON.times as usize);
    let counted = server.backends()[0].retransmitted;
    assert_eq!(counted, again.len() as u64);
}

#[test]
fn a_loss_delays_an_answer_and_takes_nothing_from_it() {
    let between = Careless {
        random: 3,
        lost: 0.03,
        doubled: 0.0,
    };
    let net = Net::new(asks(1, 50, SOON, LEN), serves(LEN), between).run();
    let counts = net.client.counts();
    assert_eq!((counts.answered, counts.completed), (50, 50), "{counts:?}");
    assert_eq!(net.client.delivered().bytes, 50 * u64::from(LEN));
    assert!(net.server.backends()[0].retransmitted > 0);
}

#[test]
fn the_last_segment_says_so() {
    let (mut server, request) = asked(2 * MSS + 5);
    let segments = sent(&mut server, 0);
    let flags: Vec<u16> = segments.iter().map(|one| one.flags).collect();
    assert_eq!(flags, [ACK, ACK, PSH | ACK]);
    assert_eq!(segments[2].content, Content::Zeros(5));
    assert_eq!(
        segments[2].next_seq(),
        request.ack.wrapping_add(2 * MSS + 5)
    );
}

#[test]
fn a_request_that_comes_again_after_its_answer_delays_nothing() {
    let (mut server, request) = asked(LEN);
    let acknowledging_all = Outgoing {
        seq: request.next_seq(),
        ..acknowledging(&request, LEN)
    };
    let mut acknowledged = 0;
    while acknowledged < LEN {
        acknowledged = (acknowledged + sent(&mut server, 0).len() as u32 * MSS).min(LEN);
        ask(&mut server, &acknowledging(&request, acknowledged));
    }
    ask(&mut server, &request);
    assert_eq!(sent(&mut server, 0).len(), 10);
    let older = Outgoing {
        seq: request.seq.wrapping_sub(1 << 16),
        ..acknowledging_all
    };
    ask(&mut server, &older);
    assert_eq!(
        sent(&mut server, 250_000).len(),
        10,
        "of another connection"
    );
    ask(&mut server, &acknowledging_all);
    assert!(sent(&mut server, 600_000).is_empty());
    let fin = Outgoing {
        flags: FIN | ACK,
        ..acknowledging_all
    };
    assert!(ask(&mut server, &fin).is_some());
}

#[test]
fn the_shortest_time_out_ends() {
    let retry = Retry {
        after_ns: 1,
        times: 3,
    };
    let (server, request) = asked(LEN);
    let mut server = server.with_retry(Some(retry));
    sent(&mut server, 0);
    for now_ns in 0..200_000 {
        sent(&mut server, now_ns);
    }
    ask(&mut server, &request);
    assert_eq!(sent(&mut server, 200_000).len(), 10, "it was given up");
}

#[test]
fn a_request_s_number_beyond_all_sequence_numbers_is_a_stray() {
    let (mut server, client) = (serves(1 << 20), asks(1, 1, Retry::default(), 1 << 20));
    let syn = client.syns().next().unwrap();
    let answer = server.react(&Incoming::read(&written(&syn)).unwrap());
    let (place, received) = (client.sender.plan.first(), answer.unwrap().next_seq());
    let request = client.sender.request(place, 1 << 12, u16::MAX, received);
    assert_eq!(ask(&mut server, &request), None);
    assert!(sent(&mut server, 0).is_empty());
    assert_eq!(server.strays().unacknowledged, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is lost, doubled or overtaken: no byte counts twice, and none is missing of an answer
    /// that counts.
    #[test]
    fn bytes_that_count_are_those_that_were_sent(
        random: u64,
        lost in 0.0..0.2f64,
        doubled in 0.0..0.2f64,
        spread in 1..30u64,
        len in MSS + 1..60_000u32,
        requests in 1..4u32,
        closes: bool,
        asks_again: bool,
    ) {
        let retry = if asks_again { SOON } else { Retry::default() };
        let mut client = asks(requests, 20, retry, len);
        client.schedule.server_closes = closes;
        let server = serves(len).with_close(closes.then_some(requests));
        let mut net = Net::new(client, server, Careless { random, lost, doubled });
        net.spread = spread;
        let net = net.run();
        let (counts, bytes) = (net.client.counts(), net.client.delivered().bytes);
        prop_assert_eq!((counts.opened, counts.unfinished), (20, 0));
        let each = u64::from(len) * u64::from(requests);
        prop_assert!((counts.answered * each..=20 * each).contains(&bytes), "{} {:?}", bytes, counts);
        prop_assert_eq!((counts.wrong_payload, counts.wrong_backend), (0, 0));
        prop_assert_eq!(net.client.answered().backends().iter().sum::<u64>(), counts.answered);
    }
}
