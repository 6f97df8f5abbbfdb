//! Peers that close, fall silent, refuse or are not there.

use super::{MS, outcome};
use pinchpoint_sockets::{FailureKind, Kind, Live, Status, Transport, Workload, run};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

/// A server that answers `answers` requests on its first connection, then
/// does `then` with it.
fn vanishing(answers: u32, then: fn(TcpStream)) -> (SocketAddr, thread::JoinHandle<()>) {
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
        then(socket);
    });
    (target, handle)
}

/// Answers nothing until the client hangs up.
fn read_on(mut socket: TcpStream) {
    while socket.read(&mut [0]).is_ok_and(|bytes| bytes > 0) {}
}

#[test]
fn a_peer_that_closes_aborts_the_run_and_keeps_its_counts() {
    let (target, server) = vanishing(100, drop);
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
    let (target, server) = vanishing(100, read_on);
    let work = Workload {
        target: Some(target),
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(600),
        // Longer than the answering server waits for its core.
        timeout: 1_000 * MS,
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
    let target = Some(silent.local_addr().unwrap());
    let given_up = |kind, connections| {
        let work = Workload {
            target,
            connections,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(600),
            // The run gives up after 0.6 s: after a pause there is still time for a second one.
            timeout: 200 * MS,
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
                .contains("no transaction succeeded for 0.6 s")
        );
    };
    thread::scope(|scope| {
        for kind in [Kind::Rr, Kind::Crr] {
            for connections in [1, 3] {
                scope.spawn(move || given_up(kind, connections));
            }
        }
    });
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

/// An address of this host where nobody listens, for as long as the socket is
/// held: a port that is only free may be given to another program meanwhile,
/// or to the very connection that tries it, which then answers itself.
fn nobody() -> (SocketAddr, OwnedFd) {
    let held = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    (getsockname(&held).unwrap().try_into().unwrap(), held)
}

#[test]
fn refused_connections_are_counted_by_that_name() {
    let (target, _held) = nobody();
    for connections in [1, 3] {
        let work = Workload {
            target: Some(target),
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
    let (target, _held) = nobody();
    for connections in [1, 3] {
        let work = Workload {
            target: Some(target),
            connections,
            ..Workload::loopback(Kind::Rr, Transport::Tcp)
        };
        let failure = run(&work, &Live::default()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unreachable);
        assert_eq!(
            failure.message,
            format!("cannot connect to {target}: connection refused")
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
        failure
            .message
            .starts_with("cannot listen on 192.0.2.1:0: "),
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
