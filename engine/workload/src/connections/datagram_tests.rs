//! Requests and answers as datagrams.

use super::counts::Counts;
use super::doubles::*;
use super::outages::{Manner, Outage};
use super::plan::{Mix, Plan};
use super::schedule::Schedule;
use super::segment::{Content, Incoming, Outgoing, Unfit};
use super::server::{Server, Strays};
use super::timers::Retry;

/// Bytes in front of a datagram's payload, over IPv4: Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;

fn datagrams(plan: Plan) -> Plan {
    Plan {
        mix: Mix::datagrams(),
        ..plan
    }
}

#[test]
fn each_request_has_its_answer_and_ends_with_it() {
    for plan in [plan(), plan_v6()].map(datagrams) {
        let server = Server::new(&[plan.service], mac(3), ANSWER_LEN, 11);
        let net = Net::new(client(plan, schedule(1_000)), server, Wire).run();
        let counts = net.client.counts();
        let expected = Counts {
            opened: 1_000,
            answered: 1_000,
            completed: 1_000,
            most_open: counts.most_open,
            ..Counts::default()
        };
        assert_eq!(*counts, expected);
        let backend = net.server.backends()[0];
        assert_eq!((backend.requests, backend.syns), (1_000, 0));
        assert_eq!(*net.server.strays(), Strays::default());
        assert_eq!(net.server.sources().sorted().len(), 4);
        assert_eq!(net.client.answered().backends(), [1_000]);
        let times = net.client.times().clone();
        assert_eq!(times.answer.into_histogram().len(), 1_000);
        assert_eq!(times.connect.into_histogram().len(), 0);
    }
}

#[test]
fn what_is_lost_is_asked_again_or_times_out_waiting_for_its_answer() {
    let careless = || Careless {
        random: 5,
        lost: 0.3,
        doubled: 0.2,
    };
    let plan = datagrams(plan());
    let once = Net::new(client(plan, schedule(1_000)), server(), careless()).run();
    let counts = once.client.counts();
    assert_eq!(counts.opened, counts.completed + counts.timed_out());
    assert_eq!(counts.timed_out(), counts.timed_out_answering);
    assert!(counts.timed_out() > 0 && counts.late > 0, "{counts:?}");
    let again = Schedule {
        retry: Retry {
            after_ns: 100_000,
            times: 3,
        },
        ..schedule(1_000)
    };
    let net = Net::new(client(plan, again), server(), careless()).run();
    let repeated = net.client.counts();
    assert!(repeated.retransmitted > 0, "{repeated:?}");
    assert!(repeated.completed > counts.completed, "{repeated:?}");
}

#[test]
fn a_backend_that_is_down_answers_no_datagram() {
    let outage = |manner| Outage {
        backend: 0,
        from_ns: 0,
        until_ns: u64::MAX,
        manner,
    };
    for manner in [Manner::Silent, Manner::Reset] {
        let server = server().with_outages(vec![outage(manner)]);
        let plan = datagrams(plan());
        let net = Net::new(client(plan, schedule(10)), server, Wire).run();
        assert_eq!(net.client.counts().timed_out_answering, 10);
        assert_eq!(net.server.backends()[0].down, 10);
    }
}

#[test]
fn an_answer_with_another_tag_belongs_to_nobody() {
    let mut client = client(datagrams(plan()), schedule(1));
    let request = client.syns().next().unwrap();
    assert_eq!(client.due(0), 1);
    client.opened(1);
    let right = server().react(&Incoming::read(&written(&request)).unwrap());
    let right = right.unwrap();
    let Content::Answer(mut answer, len) = right.content else {
        panic!("{right:?}");
    };
    answer.request.tag ^= 1;
    let wrong = Outgoing {
        content: Content::Answer(answer, len),
        ..right
    };
    for (one, foreign, completed) in [(wrong, 1, 0), (right, 1, 1)] {
        let frame = written(&one);
        assert_eq!(client.react(&Incoming::read(&frame).unwrap(), 10), None);
        let counts = client.counts();
        assert_eq!((counts.foreign, counts.completed), (foreign, completed));
    }
}

#[test]
fn datagrams_of_others_are_no_segments() {
    let frame = written(
        &client(datagrams(plan()), schedule(1))
            .syns()
            .next()
            .unwrap(),
    );
    assert_eq!(frame.len(), HEADERS + 64);
    let changed = |at: usize| {
        let mut frame = frame.clone();
        frame[at] ^= 1;
        Incoming::read(&frame).map(|_| ()).unwrap_err()
    };
    assert_eq!(changed(HEADERS), Unfit::Other);
    assert_eq!(changed(HEADERS + 20), Unfit::Checksum);
    assert_eq!(
        changed(HEADERS - 4),
        Unfit::Malformed,
        "a length that does not fit"
    );
}
