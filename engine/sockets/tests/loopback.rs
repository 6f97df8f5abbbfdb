//! What workloads promise, on loopback in this namespace.

use pinchpoint_sockets::{
    Close, FailureKind, Kind, Live, Outcome, Run, Status, Transport, Wait, Workload, run,
};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// A short one.
fn work(kind: Kind, transport: Transport) -> Workload {
    Workload {
        warm_up: 20 * MS,
        duration: 100 * MS,
        ..Workload::loopback(kind, transport)
    }
}

fn outcome(work: &Workload) -> Outcome {
    run(work, &Live::default()).unwrap()
}

/// Runs it to its end without any failure.
fn completed(work: &Workload) -> Run {
    let outcome = outcome(work);
    assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.reason);
    assert_eq!(outcome.runs.len(), 1);
    let run = outcome.runs.into_iter().next().unwrap();
    assert_eq!(
        (run.faults.total(), run.unfinished),
        (0, 0),
        "{:?}",
        run.faults
    );
    run
}

/// What must hold of every run of transactions.
fn assert_identities(work: &Workload, run: &Run) {
    assert!(run.transactions > 0, "{work:?}");
    assert_eq!(run.latency.len(), run.transactions);
    assert_eq!(
        run.received_bytes,
        run.transactions * work.request_bytes as u64
    );
    assert_eq!(run.failed_share(), Some(0.0));
    let counted: u64 = run.per_second.iter().sum();
    // Transactions that began in the window may end after its last second.
    assert!(counted <= run.transactions && counted > 0);
    if work.kind == Kind::Rr {
        let each = run.connections.iter().map(|one| one.transactions.unwrap());
        assert_eq!(each.sum::<u64>(), run.transactions);
        assert_eq!(run.connections.len(), work.connections);
    } else {
        assert!(run.connections.is_empty());
    }
}

#[test]
fn transactions_of_every_kind_transport_and_concurrency_all_succeed() {
    for kind in [Kind::Rr, Kind::Crr] {
        for transport in [Transport::Tcp, Transport::Udp] {
            for connections in [1, 7] {
                let work = Workload {
                    connections,
                    ..work(kind, transport)
                };
                assert_identities(&work, &completed(&work));
            }
        }
    }
}

#[test]
fn messages_of_any_length_arrive_whole() {
    for (request_bytes, response_bytes) in [(1, 40_000), (40_000, 1), (1_000_000, 1_000_000)] {
        for connections in [1, 3] {
            for kind in [Kind::Rr, Kind::Crr] {
                let work = Workload {
                    request_bytes,
                    response_bytes,
                    connections,
                    timeout: Duration::from_secs(10),
                    ..work(kind, Transport::Tcp)
                };
                assert_identities(&work, &completed(&work));
            }
        }
    }
    for (request_bytes, response_bytes) in [(3, 60_000), (60_000, 3)] {
        let work = Workload {
            request_bytes,
            response_bytes,
            ..work(Kind::Rr, Transport::Udp)
        };
        assert_identities(&work, &completed(&work));
    }
}

#[test]
fn a_connection_is_closed_by_the_side_that_was_asked() {
    for connections in [1, 4] {
        for close in [Close::Client, Close::Server, Close::Reset] {
            let work = Workload {
                close,
                connections,
                ..work(Kind::Crr, Transport::Tcp)
            };
            assert_identities(&work, &completed(&work));
        }
    }
}

#[test]
fn a_number_of_transactions_ends_a_run_before_its_time() {
    for connections in [1, 5] {
        let work = Workload {
            transactions: Some(100),
            connections,
            duration: Duration::from_secs(600),
            ..work(Kind::Rr, Transport::Tcp)
        };
        let run = completed(&work);
        assert_eq!(run.transactions, 100);
        assert!(run.duration_ns < 600_000_000_000);
    }
}

#[test]
fn a_planned_rate_is_accounted_for_to_the_last_transaction() {
    for connections in [1, 4] {
        let work = Workload {
            rate_tps: Some(1000.0),
            connections,
            ..work(Kind::Rr, Transport::Tcp)
        };
        let run = completed(&work);
        assert_eq!(run.intended, Some(100));
        assert_eq!(run.transactions + run.shortfall.unwrap(), 100);
        assert_eq!(run.duration_ns, 100_000_000);
        assert_eq!(run.service.len(), run.transactions);
        assert!(run.latency.max() >= run.service.max());
    }
}

#[test]
fn a_stall_is_charged_to_every_transaction_that_was_planned_meanwhile() {
    // A server that holds one response back for 100 ms; 100 transactions of
    // the planned 1000 a second were due meanwhile.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let echo = thread::spawn(move || {
        let (mut socket, _) = server.accept().unwrap();
        let mut byte = [0];
        let mut served = 0;
        while socket.read_exact(&mut byte).is_ok() && socket.write_all(&byte).is_ok() {
            served += 1;
            if served == 50 {
                thread::sleep(100 * MS);
            }
        }
    });
    let work = Workload {
        target: Some(target),
        rate_tps: Some(1000.0),
        warm_up: Duration::ZERO,
        duration: 400 * MS,
        ..Workload::loopback(Kind::Rr, Transport::Tcp)
    };
    let run = completed(&work);
    echo.join().unwrap();
    let slow = |histogram: &hdrhistogram::Histogram<u64>| {
        histogram
            .iter_recorded()
            .filter(|step| step.value_iterated_to() > 40_000_000)
            .map(|step| step.count_since_last_iteration())
            .sum::<u64>()
    };
    assert!(slow(&run.latency) >= 50, "{}", slow(&run.latency));
    assert!(slow(&run.latency) > slow(&run.service));
    assert!(run.latest_ns.unwrap() >= 90_000_000);
}

#[test]
fn streams_are_counted_where_they_arrive() {
    for connections in [1, 3] {
        let work = Workload {
            connections,
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
fn sources_are_taken_in_turn() {
    let sources: Vec<IpAddr> = (2..5)
        .map(|k| IpAddr::V4(Ipv4Addr::new(127, 0, 0, k)))
        .collect();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let echo = thread::spawn(move || {
        let mut byte = [0];
        (0..6)
            .map(|_| {
                let (len, from) = server.recv_from(&mut byte).unwrap();
                server.send_to(&byte[..len], from).unwrap();
                from.ip()
            })
            .collect::<Vec<_>>()
    });
    let work = Workload {
        sources: sources.clone(),
        target: Some(target),
        warm_up: Duration::ZERO,
        transactions: Some(6),
        ..work(Kind::Crr, Transport::Udp)
    };
    assert_eq!(completed(&work).transactions, 6);
    let seen = echo.join().unwrap();
    assert_eq!(seen[..3], seen[3..]);
    assert!(
        sources.iter().all(|source| seen[..3].contains(source)),
        "{seen:?}"
    );
    let tcp = Workload {
        sources,
        ..self::work(Kind::Crr, Transport::Tcp)
    };
    assert_identities(&tcp, &completed(&tcp));
}

#[test]
fn ipv6_works_like_ipv4() {
    if UdpSocket::bind("[::1]:0").is_err() {
        return; // a kernel without IPv6
    }
    for kind in [Kind::Rr, Kind::Crr] {
        for transport in [Transport::Tcp, Transport::Udp] {
            let work = Workload {
                listen: Some("::1".parse().unwrap()),
                sources: vec!["::1".parse().unwrap()],
                ..work(kind, transport)
            };
            assert_identities(&work, &completed(&work));
        }
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

/// A server that answers `answers` requests on its first connection, then
/// does `then` with it.
fn vanishing(answers: u32, then: fn()) -> (SocketAddr, thread::JoinHandle<()>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let handle = thread::spawn(move || {
        let (mut socket, _) = server.accept().unwrap();
        drop(server);
        let mut byte = [0];
        for _ in 0..answers {
            socket.read_exact(&mut byte).unwrap();
            socket.write_all(&byte).unwrap();
        }
        then();
    });
    (target, handle)
}

#[test]
fn a_peer_that_closes_aborts_the_run_and_keeps_its_counts() {
    let (target, server) = vanishing(100, || {});
    let work = Workload {
        target: Some(target),
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(600),
        ..Workload::loopback(Kind::Rr, Transport::Tcp)
    };
    let outcome = outcome(&work);
    server.join().unwrap();
    assert_eq!(outcome.status, Status::Aborted);
    let reason = outcome.reason.unwrap();
    assert!(reason.starts_with("the connection was lost: "), "{reason}");
    assert_eq!(outcome.runs[0].transactions, 100);
    assert_eq!(outcome.runs[0].faults.total(), 1);
}

#[test]
fn a_peer_that_falls_silent_is_a_timeout() {
    let (target, server) = vanishing(100, || thread::sleep(400 * MS));
    let work = Workload {
        target: Some(target),
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(600),
        timeout: 100 * MS,
        ..Workload::loopback(Kind::Rr, Transport::Tcp)
    };
    let outcome = outcome(&work);
    server.join().unwrap();
    assert_eq!(outcome.status, Status::Aborted);
    assert_eq!(outcome.runs[0].transactions, 100);
    assert_eq!(outcome.runs[0].faults.timeout, 1);
}

#[test]
fn datagrams_that_nobody_answers_time_out_until_the_run_gives_up() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (kind, connections) in [(Kind::Rr, 1), (Kind::Rr, 3), (Kind::Crr, 1), (Kind::Crr, 3)] {
        let work = Workload {
            target: Some(silent.local_addr().unwrap()),
            connections,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(600),
            timeout: 50 * MS,
            ..Workload::loopback(kind, Transport::Udp)
        };
        let outcome = outcome(&work);
        assert_eq!(outcome.status, Status::Aborted);
        let run = &outcome.runs[0];
        assert_eq!(run.transactions, 0);
        assert!(run.faults.timeout >= 2, "{:?}", run.faults);
        assert_eq!(run.failed_share(), Some(1.0));
        assert!(
            outcome
                .reason
                .unwrap()
                .contains("no transaction succeeded for 0.15 s")
        );
    }
}

#[test]
fn a_late_answer_is_not_taken_for_the_next_one() {
    // Every answer is that to the request before.
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    server.set_read_timeout(Some(500 * MS)).unwrap();
    let stale = thread::spawn(move || {
        let mut last = [0; 8];
        let mut now = [0; 8];
        while let Ok((_, from)) = server.recv_from(&mut now) {
            server.send_to(&last, from).unwrap();
            last = now;
        }
    });
    for connections in [1, 2] {
        let work = Workload {
            target: Some(target),
            request_bytes: 8,
            response_bytes: 8,
            connections,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(600),
            timeout: 20 * MS,
            ..Workload::loopback(Kind::Rr, Transport::Udp)
        };
        let outcome = outcome(&work);
        assert_eq!(outcome.status, Status::Aborted);
        assert_eq!(outcome.runs[0].transactions, 0);
    }
    stale.join().unwrap();
}

/// An address of this host where nobody listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

#[test]
fn refused_connections_are_counted_by_that_name() {
    for connections in [1, 3] {
        let work = Workload {
            target: Some(nobody()),
            timeout: 50 * MS,
            connections,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(600),
            ..Workload::loopback(Kind::Crr, Transport::Tcp)
        };
        let outcome = outcome(&work);
        assert_eq!(outcome.status, Status::Aborted);
        let faults = outcome.runs[0].faults;
        assert!(
            faults.refused > 0 && faults.refused == faults.total(),
            "{faults:?}"
        );
    }
}

#[test]
fn a_first_connection_that_fails_is_a_failure_that_says_where() {
    let target = nobody();
    for connections in [1, 3] {
        let work = Workload {
            target: Some(target),
            connections,
            ..Workload::loopback(Kind::Rr, Transport::Tcp)
        };
        let failure = run(&work, &Live::default()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Setup);
        assert_eq!(
            failure.message,
            format!("connecting to {target}: connection refused")
        );
        assert!(failure.hint.is_some());
    }
}

#[test]
fn an_address_that_is_not_there_is_named() {
    let work = Workload {
        listen: Some("192.0.2.1".parse().unwrap()),
        ..Workload::loopback(Kind::Rr, Transport::Tcp)
    };
    let failure = run(&work, &Live::default()).unwrap_err();
    assert!(
        failure.message.starts_with("listen: 192.0.2.1:0: "),
        "{failure}"
    );
    let work = Workload {
        sources: vec!["192.0.2.1".parse().unwrap()],
        timeout: 20 * MS,
        ..work_on_loopback()
    };
    let outcome = outcome(&work);
    assert!(outcome.runs[0].faults.address_unavailable > 0);
    assert!(outcome.hint.unwrap().contains("sources"));
}

fn work_on_loopback() -> Workload {
    Workload {
        warm_up: Duration::ZERO,
        ..Workload::loopback(Kind::Crr, Transport::Tcp)
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
    if nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0))
        .is_ok_and(|set| !set.is_set(1).unwrap_or(false))
    {
        return; // a single core
    }
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
        let run = completed(&work);
        assert!(run.received_bytes > 0);
        assert!(run.client.usage.voluntary_switches < 20, "{:?}", run.client);
        assert!(run.cache_line_ns[0].is_some() || run.cache_line_ns[1].is_some());
    }
}

#[test]
fn nothing_stays_open() {
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    // Other tests run beside this one, so the count is taken where it can
    // only be too low by chance: over many connections.
    let before = files();
    let work = Workload {
        connections: 500,
        ..work(Kind::Rr, Transport::Tcp)
    };
    completed(&work);
    let begun = Instant::now();
    while files() > before + 200 && begun.elapsed() < Duration::from_secs(10) {
        thread::sleep(10 * MS);
    }
    assert!(files() <= before + 200);
}
