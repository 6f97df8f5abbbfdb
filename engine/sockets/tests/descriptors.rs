//! What runs leave open. Alone in its process: descriptors are counted for all of it.

mod common;

use common::completed;
use pinchpoint_sockets::{Close, Kind, Live, Transport, Workload, run};
use std::time::Duration;

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn nothing_stays_open() {
    let work = |kind, transport, connections| Workload {
        connections,
        warm_up: Duration::from_millis(20),
        duration: Duration::from_millis(100),
        // Fifty connections on a busy core wait long for their turn.
        timeout: Duration::from_secs(60),
        ..Workload::loopback(kind, transport)
    };
    // What the process opens once, such as the random numbers of the library.
    completed(&work(Kind::Rr, Transport::Tcp, 1));
    let before = open_files();
    for connections in [1, 50] {
        for (kind, transport) in [
            (Kind::Rr, Transport::Tcp),
            (Kind::Rr, Transport::Udp),
            (Kind::Crr, Transport::Tcp),
            (Kind::Crr, Transport::Udp),
            (Kind::Stream, Transport::Tcp),
        ] {
            completed(&work(kind, transport, connections));
            assert_eq!(open_files(), before, "{kind:?} {transport:?} {connections}");
        }
    }
    for close in [Close::Server, Close::Reset] {
        completed(&Workload {
            close,
            ..work(Kind::Crr, Transport::Tcp, 7)
        });
        assert_eq!(open_files(), before, "{close:?}");
    }
    let refused = Workload {
        target: Some("127.0.0.1:1".parse().unwrap()),
        connections: 3,
        ..Workload::loopback(Kind::Rr, Transport::Tcp)
    };
    assert!(run(&refused, &Live::default()).is_err());
    assert_eq!(open_files(), before, "after a run that could not begin");
}
