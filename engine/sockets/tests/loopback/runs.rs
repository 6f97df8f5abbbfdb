//! Runs as a whole: streams, stops, repeats, threads, what they leave open.

use super::{LONG, MS, completed, outcome, work};
use pinchpoint_sockets::{Kind, Live, Run, Status, Transport, Wait, Workload, run};
use std::thread;
use std::time::Duration;

#[test]
fn streams_are_counted_where_they_arrive() {
    for connections in [1, 3] {
        let work = Workload {
            connections,
            // So long that a pause of the host leaves time for each of them.
            duration: 1_000 * MS,
            ..work(Kind::Stream, Transport::Tcp)
        };
        let run = completed(&work);
        assert_eq!(run.transactions, 0);
        assert!(run.connections.iter().all(|one| one.received_bytes > 0));
        let each = run.connections.iter().map(|one| one.received_bytes);
        assert_eq!(each.sum::<u64>(), run.received_bytes);
        assert_eq!(run.per_second.iter().sum::<u64>(), run.received_bytes);
        assert!(run.connections.iter().all(|one| one.retransmits.is_some()));
        assert!(run.goodput_bps() > 0.0);
    }
}

#[test]
fn datagrams_of_a_stream_arrive_or_are_lost() {
    for (connections, rate_tps) in [(1, Some(1_000.0)), (3, Some(500.0)), (3, None)] {
        let work = Workload {
            connections,
            rate_tps,
            request_bytes: 100,
            ..work(Kind::Stream, Transport::Udp)
        };
        let outcome = outcome(&work);
        assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.reason);
        let run = &outcome.runs[0];
        let each = run.connections.iter().map(|one| one.received_bytes);
        assert_eq!(each.sum::<u64>(), run.received_bytes);
        assert_eq!(run.received_bytes, 100 * run.transactions);
        assert_eq!(run.faults.total(), run.faults.timeout);
        assert!(run.transactions > 0 && run.latency.is_empty());
        let Some(intended) = run.intended else {
            continue;
        };
        // So few that all fit into the receiver's buffer, however long it stands still.
        let sent = intended - run.shortfall.unwrap();
        assert_eq!((run.transactions, run.faults.timeout), (sent, 0));
        assert_eq!(run.failed_share(), Some(0.0));
    }
}

#[test]
fn a_stop_ends_every_kind_at_once_with_the_counts_so_far() {
    for (kind, connections) in [
        (Kind::Rr, 1),
        (Kind::Rr, 4),
        (Kind::Crr, 1),
        (Kind::Crr, 4),
        (Kind::Stream, 2),
    ] {
        let work = Workload {
            connections,
            duration: Duration::from_secs(600),
            ..work(kind, Transport::Tcp)
        };
        let live = Live::default();
        let outcome = thread::scope(|scope| {
            let runs = scope.spawn(|| run(&work, &live).unwrap());
            let begun = || live.sample().transactions + live.sample().received_bytes >= 10;
            while !begun() && !runs.is_finished() {
                thread::yield_now();
            }
            thread::sleep(50 * MS);
            live.stop();
            runs.join().unwrap()
        });
        assert_eq!(outcome.status, Status::Stopped);
        assert!(outcome.runs[0].duration_ns < 600_000_000_000);
    }
}

#[test]
fn repeats_have_an_interval() {
    let work = Workload {
        repeats: 3,
        warm_up: Duration::ZERO,
        duration: 20 * MS,
        ..Workload::loopback(Kind::Rr, Transport::Tcp)
    };
    let outcome = outcome(&work);
    assert_eq!(outcome.runs.len(), 3);
    let summary = outcome.transactions_per_s.unwrap();
    assert_eq!(summary.n, 3);
    let rates = outcome.runs.iter().map(Run::transactions_per_s);
    assert!((summary.mean - rates.sum::<f64>() / 3.0).abs() < 1e-6);
    assert!(summary.ci95.unwrap() > 0.0);
    for pair in outcome.runs.windows(2) {
        let end_ns = pair[0].began_ns + pair[0].duration_ns;
        assert!(pair[0].began_ns > 0 && pair[1].began_ns >= end_ns);
    }
}

#[test]
fn threads_that_spin_do_not_sleep() {
    // With one core they cannot spin, and the test would show nothing.
    let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
    assert!(allowed.is_set(1).unwrap(), "this test needs cores 0 and 1");
    for (kind, connections) in [
        (Kind::Rr, 1),
        (Kind::Rr, 3),
        (Kind::Crr, 1),
        (Kind::Stream, 1),
    ] {
        let mut work = Workload {
            wait: Wait::Spin,
            connections,
            ..work(kind, Transport::Tcp)
        };
        work.server.core = 1;
        if kind != Kind::Stream {
            work.transactions = Some(500);
            work.duration = LONG;
        }
        // Whoever shares the cores may keep a probe or a whole stream from its turn, or a packet
        // in the kernel's thread; one that sleeps does so in every run.
        let quiet = (0..20).any(|_| {
            let run = completed(&work);
            let measured = run.cache_line_ns.iter().any(Option::is_some) && run.received_bytes > 0;
            measured && run.client.usage.voluntary_switches < 20
        });
        assert!(quiet, "{kind:?} {connections}");
    }
}
