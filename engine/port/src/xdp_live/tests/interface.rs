//! What the interface takes, refuses and counts.

use super::*;
use crate::testing::{Bench, ip};
use crate::xdp_sink::XdpDropSink;
use std::time::Instant;

#[test]
#[ignore = "needs root"]
fn an_interface_that_is_down_or_gone_is_a_failure_said_as_such() {
    let bench = Bench::new("");
    let _sink = XdpDropSink::attach("v0", Some(&bench.far)).unwrap();
    for device in ["v0", "v0,rx=1"] {
        let mut port = live_port(device, &bench.near);
        port.load(&[live(&spec(60, 1, &[]))]).unwrap();
        assert_eq!(port.send_live(0, 10, || 0).refused, 0);
        ip(&format!("-n {} link set v0 down", bench.near));
        let mut sent = Sent::default();
        for _ in 0..FUTILE_CALLS {
            sent = port.send_live(0, 10, || 0);
        }
        assert_eq!(sent.frames, sent.refused);
        assert_eq!(port.failure().as_deref(), Some("interface v0 is down"));
        ip(&format!("-n {} link set v0 up", bench.near));
        assert_eq!(port.send_live(0, 10, || 0).refused, 0);
        assert_eq!(port.failure(), None);
    }
    let mut port = live_port("v0", &bench.near);
    port.load(&[live(&spec(60, 1, &[]))]).unwrap();
    ip(&format!("-n {} link del v0", bench.near));
    for _ in 0..FUTILE_CALLS {
        port.send_live(0, 10, || 0);
    }
    assert_eq!(port.failure().as_deref(), Some("interface v0 is gone"));
}

#[test]
#[ignore = "needs root"]
fn a_port_that_does_not_receive_has_no_receive_ring_and_counts_no_missed_frames() {
    let bench = Bench::new("");
    let mut port = live_port("v0", &bench.near);
    assert_eq!((port.rings(), port.rx_missed()), ((0, 512), None));
    drop(port);
    let mut port = live_port("v0,rx=1", &bench.near);
    assert_eq!((port.rings(), port.rx_missed()), ((4_096, 512), Some(0)));
}

#[test]
#[ignore = "needs root"]
fn sent_frames_are_those_the_far_end_counts() {
    let bench = Bench::new("");
    let sink = XdpDropSink::attach("v0", Some(&bench.far)).unwrap();
    let mut port = live_port("v0", &bench.near);
    let stream = live(&spec(60, 1, &[]));
    port.load(&[stream.clone(), LiveStream { id: 8, ..stream }])
        .unwrap();
    assert_eq!(port.live_stream(8), Some(1));
    let before = sink.dropped();
    let mut sent = 0;
    for _ in 0..100 {
        let one = port.send_live(0, 1_000, || 0);
        let other = port.send_live(1, 500, || 0);
        sent += one.frames - one.refused + other.frames - other.refused;
    }
    let start = Instant::now();
    while sink.dropped() - before < sent && start.elapsed() < TIMEOUT {
        std::thread::yield_now();
    }
    // The kernel may have sent a frame or two of its own.
    assert!((sent..sent + 20).contains(&(sink.dropped() - before)));
    assert_eq!(port.next_live(0), Some(100_000));
    assert_eq!(port.next_live(1), Some(50_000));
    let stats = port.stats();
    assert!(stats.contains(&("live_accepted".to_owned(), sent)));
}

#[test]
#[ignore = "needs root"]
fn what_the_interface_does_not_take_is_refused_and_said() {
    let bench = Bench::new("");
    // The far end has neither a program nor GRO.
    let mut port = live_port("v0", &bench.near);
    port.load(&[live(&spec(60, 1, &[]))]).unwrap();
    let sent = port.send_live(0, 100, || 0);
    assert_eq!(
        sent,
        Sent {
            frames: 100,
            refused: 100
        }
    );
    assert_eq!(port.failure(), None);
    for _ in 0..FUTILE_CALLS {
        port.send_live(0, 1, || 0);
    }
    let failure = port.failure().unwrap();
    assert!(failure.contains("ethtool -K PEER gro on"), "{failure}");
    // Once it has a program, frames pass.
    let _sink = XdpDropSink::attach("v0", Some(&bench.far)).unwrap();
    assert_eq!(port.send_live(0, 100, || 0).refused, 0);
    assert_eq!(port.failure(), None);
}

#[test]
#[ignore = "needs root"]
fn the_longest_frame_passes() {
    let bench = Bench::new(" mtu 3400");
    let _sink = XdpDropSink::attach("v0", Some(&bench.far)).unwrap();
    let mut port = live_port("v0", &bench.near);
    assert_eq!(port.max_len(), MAX_LEN);
    port.load(&[live(&spec(MAX_LEN, 1, &[]))]).unwrap();
    let sent = port.send_live(0, 100, || 0);
    assert_eq!(
        sent,
        Sent {
            frames: 100,
            refused: 0
        }
    );
}

#[test]
#[ignore = "needs root"]
fn loading_again_starts_with_frame_zero() {
    let bench = Bench::new("");
    let _sink = XdpDropSink::attach("v0", Some(&bench.far)).unwrap();
    let mut port = live_port("v0", &bench.near);
    let stream = live(&spec(60, 1, &[]));
    for _ in 0..2 {
        port.load(std::slice::from_ref(&stream)).unwrap();
        assert_eq!(port.next_live(0), Some(0));
        port.send_live(0, 20, || 0);
        assert_eq!(port.next_live(0), Some(20));
    }
    assert_eq!(port.send_live(1, 20, || 0), Sent::default());
    let refused = |error: OpenError| error.message;
    let bad = LiveStream {
        flows: 0,
        ..stream.clone()
    };
    let error = port.load(&[stream.clone(), bad]).map_err(refused);
    let expected = "v0: live stream 7: 0 flows from number 0 on; expected at least 1 and none beyond the \
                    1 tuples";
    assert_eq!(error, Err(expected.to_owned()));
    let error = port.load(&vec![stream; MAX_STREAMS + 1]).map_err(refused);
    assert_eq!(error, Err("v0: 33 live streams".to_owned()));
}
