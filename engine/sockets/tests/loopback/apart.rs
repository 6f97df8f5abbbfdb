//! The two ends as two engines have them: each knows its own.

use super::{LONG, MS, assert_identities, counted, work};
use pinchpoint_sockets::{
    FailureKind, Kind, Live, Outcome, Served, Side, Status, Transport, Workload, run, serve,
};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Both ends. The client is stopped where `is_enough` says so of the bytes that the server has
/// received, and the server `after` the client has ended.
fn apart(
    server: &Workload,
    client: &Workload,
    mut is_enough: impl FnMut(u64) -> bool,
    after: Duration,
) -> (Outcome, Served) {
    let server = Workload {
        elsewhere: Some(Side::Client),
        ..server.clone()
    };
    let (serving, asking) = (Live::default(), Live::default());
    thread::scope(|scope| {
        let (told, address) = mpsc::channel();
        let (server, serving, asking) = (&server, &serving, &asking);
        let served =
            scope.spawn(move || serve(server, serving, |at| told.send(at).unwrap()).unwrap());
        let client = Workload {
            elsewhere: Some(Side::Server),
            target: Some(address.recv().unwrap()),
            ..client.clone()
        };
        let ran = scope.spawn(move || run(&client, asking));
        while !ran.is_finished() {
            if is_enough(serving.sample().received_bytes) {
                asking.stop();
            }
            thread::sleep(MS);
        }
        thread::sleep(after);
        assert!(!served.is_finished(), "it serves until it is stopped");
        serving.stop();
        (ran.join().unwrap().unwrap(), served.join().unwrap())
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
        let server = Workload {
            connections,
            ..work(kind, transport)
        };
        let client = Workload {
            connections,
            ..counted(kind, transport, 100)
        };
        // The server's window begins before the client ends.
        let window = server.warm_up + server.duration;
        let (outcome, served) = apart(&server, &client, |_| false, window);
        assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.reason);
        let run = &outcome.runs[0];
        assert_identities(&client, run);
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
            duration: LONG,
            ..work(Kind::Stream, Transport::Tcp)
        };
        // The window is open once the warm-up has passed since the first byte came.
        let (mut first, mut before) = (None, None);
        let has_counted = |received: u64| {
            received > 0
                && first.get_or_insert_with(Instant::now).elapsed() >= work.warm_up
                && received > *before.get_or_insert(received)
        };
        let (outcome, served) = apart(&work, &work, has_counted, 200 * MS);
        assert_eq!(outcome.status, Status::Stopped, "{:?}", outcome.reason);
        let run = &outcome.runs[0];
        assert!(
            run.per_second.is_empty() && run.trend.is_none(),
            "not known"
        );
        assert_eq!(run.connections.len(), connections);
        assert!(run.connections.iter().all(|one| one.retransmits.is_some()));
        let window = served.window.unwrap();
        assert!(window.duration_ns > 0 && u128::from(window.duration_ns) < LONG.as_nanos());
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
