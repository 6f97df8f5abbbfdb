//! Segments of strangers, of the past, and such as are none.

use super::doubles::*;
use super::end::End;
use super::payload::Request;
use super::plan::Plan;
use super::segment::{ACK, Content, FIN, Incoming, Outgoing, PSH, RST, SYN, Unfit};
use super::server::Server;
use std::net::Ipv4Addr;

#[test]
fn a_stranger_s_segments_are_foreign_and_change_nothing() {
    let mut client = client(plan(), schedule(1));
    client.due(2_000);
    let syn = client.syns().next().unwrap();
    client.opened(1);
    let (ack, ends) = (syn.seq.wrapping_add(1), (service(), syn.src));
    let elsewhere = End::new(Ipv4Addr::new(10, 0, 0, 101), 80);
    let segment = |src, dst, ack, flags| Outgoing {
        src,
        dst,
        ack,
        flags,
        seq: 77,
        content: Content::Nothing,
        ..syn
    };
    let strangers = [
        segment(elsewhere, ends.1, ack, SYN | ACK),
        segment(ends.0, End::new(ends.1.ip(), 1), ack, SYN | ACK),
        segment(ends.0, End::new(LOCAL, ends.1.port), ack, SYN | ACK),
        segment(ends.0, ends.1, ack.wrapping_add(0x1_0000), RST | ACK),
        segment(ends.0, ends.1, ack, SYN),
    ];
    for stranger in &strangers {
        let frame = written(stranger);
        assert_eq!(client.react(&Incoming::read(&frame).unwrap(), 3_000), None);
    }
    assert_eq!(client.counts().foreign, strangers.len() as u64);
    assert_eq!(
        (client.counts().established, client.counts().unfinished),
        (0, 1)
    );
}

#[test]
fn a_repeated_fin_is_acknowledged_after_the_end() {
    let mut net = Net::new(client(plan(), schedule(1)), server(), Wire).run();
    let syn = plan().first_seq(plan().first());
    let fin = Outgoing {
        from: mac(3),
        to: mac(1),
        src: service(),
        dst: plan().tuple(plan().first()),
        seq: 900,
        ack: syn.wrapping_add(1 + 64 + 1),
        flags: FIN | ACK,
        stamp: None,
        content: Content::Nothing,
    };
    let frame = written(&fin);
    let reply = net
        .client
        .react(&Incoming::read(&frame).unwrap(), net.now_ns)
        .unwrap();
    assert_eq!((reply.seq, reply.ack, reply.flags), (fin.ack, 901, ACK));
    assert_eq!(
        (net.client.counts().late, net.client.counts().completed),
        (1, 1)
    );
}

#[test]
fn a_server_says_what_is_not_for_it() {
    let mut server = server();
    let syn = client(plan(), schedule(1)).syns().next().unwrap();
    let react = |server: &mut Server, segment: &Outgoing| {
        let frame = written(segment);
        server.react(&Incoming::read(&frame).unwrap())
    };
    let elsewhere = Outgoing {
        dst: End::new(LOCAL, 80),
        ..syn
    };
    assert_eq!(react(&mut server, &elsewhere), None);
    let answer = react(&mut server, &syn).unwrap();
    let request = Request {
        number: 0,
        before: 0,
        connection: 0,
        tag: 0,
    };
    let asks = |ack, len| Outgoing {
        flags: PSH | ACK,
        ack,
        content: Content::Request(request, len),
        ..syn
    };
    assert_eq!(react(&mut server, &asks(answer.seq, 64)), None);
    assert!(react(&mut server, &asks(answer.seq.wrapping_add(1), 64)).is_some());
    let shut = Outgoing {
        flags: FIN | ACK,
        ack: answer.seq.wrapping_add(5),
        ..syn
    };
    assert_eq!(react(&mut server, &shut), None);
    let strays = server.strays();
    assert_eq!((strays.elsewhere, strays.unacknowledged), (1, 2));
}

#[test]
fn fragments_wrong_checksums_and_other_frames_are_no_segments() {
    let frame = written(&client(plan(), schedule(1)).syns().next().unwrap());
    let spoiled = |at: usize, value: u8| {
        let mut frame = frame.clone();
        frame[at] = value;
        Incoming::read(&frame).map(|_| ()).unwrap_err()
    };
    let payload = frame.len() - 7;
    assert_eq!(spoiled(12, 0x86), Unfit::Other);
    assert_eq!(spoiled(23, 17), Unfit::Other);
    assert_eq!(spoiled(20, 0x20), Unfit::Fragment);
    assert_eq!(spoiled(25, frame[25] ^ 1), Unfit::Checksum);
    assert_eq!(spoiled(payload, frame[payload] ^ 1), Unfit::Checksum);
    assert_eq!(spoiled(14, 0x4f), Unfit::Malformed);
    assert_eq!(
        Incoming::read(&frame[..20]).map(|_| ()).unwrap_err(),
        Unfit::Malformed
    );
}

#[test]
fn who_remembers_an_earlier_connection_of_the_tuple_is_reset() {
    let mut client = client(plan(), schedule(1));
    client.due(2_000);
    let syn = client.syns().next().unwrap();
    client.opened(1);
    for (ack, flags) in [
        (syn.seq, ACK),
        (syn.seq.wrapping_add(7), SYN | ACK),
        (99, PSH | ACK),
    ] {
        let stale = Outgoing {
            src: syn.dst,
            dst: syn.src,
            ack,
            flags,
            ..syn
        };
        let frame = written(&stale);
        let reply = client
            .react(&Incoming::read(&frame).unwrap(), 3_000)
            .unwrap();
        assert_eq!((reply.flags, reply.seq, reply.dst), (RST, ack, service()));
    }
    assert_eq!((client.counts().stale, client.counts().unfinished), (3, 1));
}

#[test]
fn sequence_numbers_of_a_tuple_rise_from_connection_to_connection_and_from_run_to_run() {
    let (plan, later) = (
        plan(),
        Plan {
            first_round: plan().first_round + 1,
            ..plan()
        },
    );
    let rises = |from: u32, to: u32| assert!(to.wrapping_sub(from) < 1 << 31);
    for n in 0..20 * plan.tuples() {
        let (place, next) = (plan.place(n), plan.place(n + plan.tuples()));
        assert_eq!(plan.tuple(place), plan.tuple(next));
        rises(plan.first_seq(place), plan.first_seq(next));
        rises(plan.first_seq(place), later.first_seq(place));
    }
}

#[test]
fn with_one_initial_sequence_number_only_a_tuple_that_is_used_again_has_a_higher_one() {
    let plan = Plan {
        one_isn: true,
        ..plan()
    };
    let first = plan.first_seq(plan.first());
    for n in 0..plan.tuples() {
        assert_eq!(plan.first_seq(plan.place(n)), first);
        let again = plan.first_seq(plan.place(n + plan.tuples()));
        assert_eq!(again.wrapping_sub(first), 1 << 16);
    }
}
