//! Workloads between two namespaces. These tests need root:
//!
//! ```text
//! cargo test -p pinchpoint-sockets --test root -- --ignored
//! ```

mod common;

use common::completed;
use pinchpoint_sockets::{Close, Kind, Live, Status, Transport, Workload, run};
use std::net::IpAddr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

static PAIRS: AtomicU32 = AtomicU32::new(0);

fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// Two namespaces joined by a veth pair, 10.77.0.1 and .2, removed at the end.
struct Pair {
    client: String,
    server: String,
}

impl Pair {
    fn new() -> Self {
        let number = PAIRS.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("pps-{}-{number}-{end}", std::process::id());
        let pair = Self {
            client: name("c"),
            server: name("s"),
        };
        let Self { client, server } = &pair;
        ip(&format!("netns add {client}"));
        ip(&format!("netns add {server}"));
        ip(&format!(
            "-n {client} link add end type veth peer name end netns {server}"
        ));
        for (namespace, host) in [(client, 1), (server, 2)] {
            ip(&format!(
                "-n {namespace} address add 10.77.0.{host}/24 dev end"
            ));
            ip(&format!("-n {namespace} link set end up"));
        }
        pair.joined();
        pair
    }

    /// Waits until the server is reached: links come up, and neighbours are
    /// found, some time after they were asked to.
    fn joined(&self) {
        let one = Workload {
            transactions: Some(1),
            warm_up: Duration::ZERO,
            ..self.work(Kind::Rr, Transport::Tcp)
        };
        let reached = (0..20).any(|_| run(&one, &Live::default()).is_ok());
        assert!(reached, "the server cannot be reached");
    }

    fn work(&self, kind: Kind, transport: Transport) -> Workload {
        let mut work = Workload {
            listen: Some("10.77.0.2".parse().unwrap()),
            warm_up: Duration::from_millis(20),
            duration: Duration::from_millis(300),
            ..Workload::loopback(kind, transport)
        };
        work.client.netns = Some(self.client.clone());
        work.server.netns = Some(self.server.clone());
        work
    }

    /// Narrows the ports that the client may choose from.
    fn few_ports(&self) {
        self.set("net.ipv4.ip_local_port_range=40000 40099");
    }

    /// Without them no pair in TIME_WAIT can be taken again.
    fn no_time_stamps(&self) {
        self.set("net.ipv4.tcp_timestamps=0");
    }

    /// Sets a kernel setting in the client's namespace.
    fn set(&self, setting: &str) {
        let arguments = ["netns", "exec", &self.client, "sysctl", "-qw", setting];
        let status = Command::new("ip").args(arguments).status().unwrap();
        assert!(status.success(), "{setting}");
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for namespace in [&self.client, &self.server] {
            let _ = Command::new("ip")
                .args(["netns", "del", namespace])
                .status();
        }
    }
}

#[test]
#[ignore = "needs root"]
fn every_kind_crosses_a_veth_pair() {
    let pair = Pair::new();
    for connections in [1, 4] {
        for (kind, transport) in [
            (Kind::Rr, Transport::Tcp),
            (Kind::Rr, Transport::Udp),
            (Kind::Crr, Transport::Tcp),
            (Kind::Crr, Transport::Udp),
            (Kind::Stream, Transport::Tcp),
        ] {
            let mut work = Workload {
                connections,
                ..pair.work(kind, transport)
            };
            if kind == Kind::Stream {
                // So long that a pause of the host leaves time for some bytes.
                work.duration = Duration::from_secs(1);
            }
            let run = completed(&work);
            assert_eq!(run.faults.total(), 0, "{:?}", run.faults);
            assert!(run.received_bytes > 0);
            assert!(run.client.retransmitted_segments.is_some());
            assert!(run.server.unwrap().retransmitted_segments.is_some());
        }
    }
}

#[test]
#[ignore = "needs root"]
fn the_callers_thread_stays_in_its_own_namespace() {
    let pair = Pair::new();
    let here = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let before = here();
    completed(&pair.work(Kind::Rr, Transport::Tcp));
    assert_eq!(here(), before);
}

#[test]
#[ignore = "needs root"]
fn ports_that_run_out_are_named_with_what_mends_it() {
    let pair = Pair::new();
    pair.few_ports();
    pair.no_time_stamps();
    for connections in [1, 4] {
        let work = Workload {
            connections,
            duration: Duration::from_secs(30),
            // Longer than a pause of the host: no connection is given up, all end in TIME_WAIT.
            timeout: Duration::from_millis(500),
            ..pair.work(Kind::Crr, Transport::Tcp)
        };
        let outcome = run(&work, &Live::default()).unwrap();
        assert_eq!(outcome.status, Status::Aborted);
        assert!(outcome.reason.unwrap().contains("EADDRNOTAVAIL"));
        assert_eq!(outcome.source_ports, Some(100));
        let last = &outcome.runs[0];
        assert!(last.faults.address_unavailable > 0);
        assert!(last.time_wait[1].unwrap() >= 99, "{:?}", last.time_wait);
        let hint = outcome.hint.unwrap();
        for remedy in [
            "sources",
            "ip_local_port_range",
            "TIME_WAIT",
            "tcp_timestamps",
        ] {
            assert!(hint.contains(remedy), "{hint}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_port_in_time_wait_is_taken_again_without_a_search() {
    for connections in [1, 8] {
        let pair = Pair::new();
        pair.few_ports();
        let work = Workload {
            connections,
            transactions: Some(2000),
            duration: Duration::from_secs(60),
            ..pair.work(Kind::Crr, Transport::Tcp)
        };
        let run = completed(&work);
        assert_eq!((run.transactions, run.faults.total()), (2000, 0));
        // The 100 pairs, and what `joined` left.
        assert!(run.time_wait[1].unwrap() <= 120, "{:?}", run.time_wait);
    }
}

#[test]
#[ignore = "needs root"]
fn a_port_that_another_socket_holds_is_passed_over() {
    let pair = Pair::new();
    pair.set("net.ipv4.ip_local_port_range=40000 40009");
    let name = pair.client.clone();
    let held = thread::spawn(move || {
        let file = std::fs::File::open(format!("/run/netns/{name}")).unwrap();
        nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        std::net::TcpListener::bind("0.0.0.0:40004").unwrap()
    });
    let _held = held.join().unwrap();
    let work = Workload {
        transactions: Some(100),
        duration: Duration::from_secs(60),
        ..pair.work(Kind::Crr, Transport::Tcp)
    };
    let run = completed(&work);
    assert_eq!((run.transactions, run.faults.total()), (100, 0));
}

#[test]
#[ignore = "needs root"]
fn more_sources_or_a_reset_mend_it() {
    let pair = Pair::new();
    pair.few_ports();
    pair.no_time_stamps();
    let reset = Workload {
        close: Close::Reset,
        transactions: Some(1000),
        duration: Duration::from_secs(30),
        warm_up: Duration::ZERO,
        ..pair.work(Kind::Crr, Transport::Tcp)
    };
    let run = completed(&reset);
    assert_eq!((run.transactions, run.faults.total()), (1000, 0));
    let sources: Vec<IpAddr> = (10..20).map(|k| IpAddr::from([10, 77, 0, k])).collect();
    for source in &sources {
        ip(&format!(
            "-n {} address add {source}/24 dev end",
            pair.client
        ));
    }
    let many = Workload {
        close: Close::Client,
        transactions: Some(900),
        sources,
        ..reset
    };
    let run = completed(&many);
    assert_eq!((run.transactions, run.faults.total()), (900, 0));
    // The last one may still wait for the server's end of stream.
    assert!(run.time_wait[1].unwrap() >= 899, "{:?}", run.time_wait);
}

#[test]
#[ignore = "needs root"]
fn a_path_that_goes_down_aborts_the_run() {
    let pair = Pair::new();
    for (kind, connections) in [
        (Kind::Rr, 1),
        (Kind::Rr, 4),
        (Kind::Crr, 1),
        (Kind::Crr, 4),
        (Kind::Stream, 2),
    ] {
        ip(&format!("-n {} link set end up", pair.server));
        pair.joined();
        let work = Workload {
            connections,
            duration: Duration::from_secs(600),
            // Longer than a pause of the host, which would end the run before the path does.
            timeout: Duration::from_millis(500),
            close: Close::Reset,
            ..pair.work(kind, Transport::Tcp)
        };
        let live = Live::default();
        let outcome = thread::scope(|scope| {
            let runs = scope.spawn(|| run(&work, &live).unwrap());
            let begun = || live.sample().transactions + live.sample().received_bytes >= 10;
            while !begun() && !runs.is_finished() {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(100));
            ip(&format!("-n {} link set end down", pair.server));
            runs.join().unwrap()
        });
        assert_eq!(outcome.status, Status::Aborted, "{kind:?} {connections}");
        assert!(outcome.runs[0].received_bytes > 0);
    }
}

#[test]
#[ignore = "needs root"]
fn a_closed_client_leaves_time_wait_where_it_was_asked_to() {
    let pair = Pair::new();
    let waiting = |close| {
        let work = Workload {
            close,
            transactions: Some(50),
            duration: Duration::from_secs(60),
            warm_up: Duration::ZERO,
            ..pair.work(Kind::Crr, Transport::Tcp)
        };
        let [before, after] = completed(&work).time_wait;
        after.unwrap() - before.unwrap()
    };
    assert_eq!(waiting(Close::Reset), 0);
    assert_eq!(waiting(Close::Server), 0);
    assert!(waiting(Close::Client) >= 49);
}
