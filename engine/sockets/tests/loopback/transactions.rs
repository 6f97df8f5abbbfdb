//! Transactions: how many, of whom, how fast.

use super::{MS, assert_identities, completed, counted, work};
use pinchpoint_sockets::{Close, Kind, Transport, Workload};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::thread;
use std::time::Duration;

#[test]
fn transactions_of_every_kind_transport_and_concurrency_all_succeed() {
    for kind in [Kind::Rr, Kind::Crr] {
        for transport in [Transport::Tcp, Transport::Udp] {
            for connections in [1, 7] {
                let work = Workload {
                    connections,
                    ..counted(kind, transport, 100)
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
                    ..counted(kind, Transport::Tcp, 10)
                };
                assert_identities(&work, &completed(&work));
            }
        }
    }
    for (request_bytes, response_bytes) in [(3, 60_000), (60_000, 3)] {
        let work = Workload {
            request_bytes,
            response_bytes,
            ..counted(Kind::Rr, Transport::Udp, 10)
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
                ..counted(Kind::Crr, Transport::Tcp, 100)
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
        // Counted: all are begun, however late the first ones end.
        ..counted(Kind::Rr, Transport::Tcp, 400)
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
        ..counted(Kind::Crr, Transport::Udp, 6)
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
        ..counted(Kind::Crr, Transport::Tcp, 30)
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
                ..counted(kind, transport, 100)
            };
            assert_identities(&work, &completed(&work));
        }
    }
}
