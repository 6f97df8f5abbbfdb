//! The two ends as two engines have them: each knows its own.

use super::{LONG, MS, assert_identities, work};
use pinchpoint_sockets::{
    FailureKind, Kind, Live, Outcome, Served, Side, Status, Transport, Workload, run, serve,
};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Both ends of `work`, the server stopped once the client has ended.
fn apart(work: &Workload) -> (Outcome, Served) {
    let server = Workload {
        elsewhere: Some(Side::Client),
        ..work.clone()
    };
    let live = Live::default();
    thread::scope(|scope| {
        let (told, address) = mpsc::channel();
        let (server, stop) = (&server, &live);
        let served = scope.spawn(move || serve(server, stop, |at| told.send(at).unwrap()).unwrap());
        let client = Workload {
            elsewhere: Some(Side::Server),
            target: Some(address.recv().unwrap()),
            ..work.clone()
        };
        let outcome = run(&client, &Live::default());
        // The client's window may end before the server's does.
        thread::sleep(if work.kind == Kind::Stream {
            Duration::ZERO
        } else {
            work.duration
        });
        live.stop();
        (outcome.unwrap(), served.join().unwrap())
    })
}

#[test]
fn each_end_of_transactions_tells_what_it_alone_can_know() {
    for (kind, transport, connections) in [
        (Kind::Rr, Transport::Tcp, 1),
        (Kind::Rr, Transport::Tcp, 3),
        (Kind::Crr, Transport::Tcp, 1),
        (Kind::Crr, Transport::Tcp, 3),
        (Kind::Rr, Transport::Udp, 1),
    ] {
        let work = Workload {
            connections,
            ..work(kind, transport)
        };
        let (outcome, served) = apart(&work);
        assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.reason);
        let run = &outcome.runs[0];
        assert_identities(&work, run);
        assert!(run.server.is_none() && outcome.server.is_none());
        assert_eq!(run.cache_line_ns, [None, None]);
        assert_eq!(outcome.target, served.address);
        assert_eq!((served.status, served.reason), (Status::Stopped, None));
        let window = served.window.unwrap();
        assert_eq!(window.duration_ns, 100_000_000, "{kind:?}");
        assert!(window.received.is_empty() && window.per_second.is_empty());
        assert!(window.thread.usage.voluntary_switches > 0);
        assert!(window.thread.retransmitted_segments.is_some());
    }
}

#[test]
fn a_server_counts_streams_in_a_window_of_its_own_clock() {
    for connections in [1, 3] {
        let work = Workload {
            connections,
            duration: 300 * MS,
            ..work(Kind::Stream, Transport::Tcp)
        };
        let (outcome, served) = apart(&work);
        assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.reason);
        let run = &outcome.runs[0];
        assert!(
            run.per_second.is_empty() && run.trend.is_none(),
            "not known"
        );
        assert_eq!(run.connections.len(), connections);
        assert!(run.connections.iter().all(|one| one.retransmits.is_some()));
        let window = served.window.unwrap();
        assert!(window.duration_ns > 0 && window.duration_ns <= 300_000_000);
        let all: u64 = window.received.iter().sum();
        assert!(all > 0 && window.received.len() == connections);
        assert_eq!(window.per_second.iter().sum::<u64>(), all);
    }
}

#[test]
fn a_server_that_nobody_connects_to_ends_when_it_is_stopped_without_a_window() {
    let work = Workload {
        elsewhere: Some(Side::Client),
        duration: LONG,
        ..work(Kind::Rr, Transport::Tcp)
    };
    let live = Live::default();
    let served = thread::scope(|scope| {
        let (told, address) = mpsc::channel();
        let (work, stop) = (&work, &live);
        let served = scope.spawn(move || serve(work, stop, |at| told.send(at).unwrap()).unwrap());
        assert!(address.recv().unwrap().ip().is_loopback());
        live.stop();
        served.join().unwrap()
    });
    assert_eq!(served.status, Status::Stopped);
    assert!(served.window.is_none());
}

#[test]
fn a_client_whose_server_does_not_listen_names_the_address() {
    let work = Workload {
        elsewhere: Some(Side::Server),
        // Nothing listens on the first port (RFC 1078 is history).
        target: Some("127.0.0.1:1".parse().unwrap()),
        ..work(Kind::Rr, Transport::Tcp)
    };
    let failure = run(&work, &Live::default()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unreachable);
    assert!(failure.message.contains("127.0.0.1:1"), "{failure}");
}

#[test]
fn one_end_alone_is_asked_for_one_window_with_the_servers_address_at_the_client() {
    let both = work(Kind::Rr, Transport::Tcp);
    let target = Some("127.0.0.1:1".parse().unwrap());
    let cases = [
        ("target: ", Side::Server, None, 1),
        ("target: ", Side::Client, target, 1),
        ("repeats: ", Side::Server, target, 2),
        ("repeats: ", Side::Client, None, 2),
    ];
    for (key, elsewhere, target, repeats) in cases {
        let work = Workload {
            elsewhere: Some(elsewhere),
            target,
            repeats,
            ..both.clone()
        };
        let message = work.check().unwrap_err().message;
        assert!(message.starts_with(key), "{message}");
    }
}
