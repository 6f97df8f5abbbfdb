use super::*;
use crate::convert::KnownPort;
use pinchpoint_port::Stamps;
use serde_json::{Value, json};
use std::collections::HashSet;

const RING: u32 = 1024;

fn known(ports: &[&str]) -> Known {
    let port = |(place, name): (usize, &&str)| KnownPort {
        name: (*name).to_owned(),
        backend: Backend::Mem,
        max_len: 9216,
        rx_ring: RING,
        smallest_ring: RING,
        stamps: Stamps::Engine,
        speed_bps: None,
        workers: vec![(0, place)],
    };
    Known {
        ports: ports.iter().enumerate().map(port).collect(),
        cores: vec![0],
    }
}

fn stream(id: usize, tx: &str, rate_fps: f64) -> Value {
    json!({"id": id, "tx_port": tx, "rx_port": "right", "rate": {"fps": rate_fps},
           "shape": {"steady": {}}, "size": {"fixed": 64},
           "template": {"layers": [
               {"ethernet": {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}},
               {"ipv4": {"src": "16.0.0.1", "dst": "48.0.0.1"}},
               {"udp": {"src": 1025, "dst": 12}}]},
           "stamped": true, "wrong_checksums": [], "seed": 1, "flows": 1, "fields": [],
           "tracked_flows": 0})
}

fn planned(streams: &[Value]) -> Result<Plan, ErrorReply> {
    planned_in(&known(&["left", "other", "right"]), streams)
}

fn planned_in(known: &Known, streams: &[Value]) -> Result<Plan, ErrorReply> {
    let request = json!({"trial": "t", "epoch": 1, "duration_s": 10.0, "drain_s": 0.1,
        "sample_interval_s": null, "probe_cores":[], "quiet_within_s": 0.0,
        "verify_checksums": true, "tx_burst": 64, "latency_every": 1, "loopback": false,
        "capture": null, "slices": null, "streams": streams});
    let request: RunRequest = serde_json::from_value(request).unwrap();
    plan(&request, known, &[0])
}

/// Ports of which the first has this many queues.
fn known_with_queues(queues: usize) -> Known {
    let mut known = known(&["left", "right"]);
    known.ports[0].workers = (0..queues).map(|worker| (worker, 0)).collect();
    known.cores = (0..queues).collect();
    known
}

#[test]
fn five_streams_of_64_queues_have_an_id_for_each_part() {
    let streams: Vec<_> = (0..5).map(|id| stream(id, "left", 1e6)).collect();
    let plan = planned_in(&known_with_queues(64), &streams).unwrap();
    let ids: HashSet<_> = plan.parts.iter().map(|part| part.id).collect();
    assert_eq!((plan.parts.len(), ids.len()), (320, 320));
    assert_eq!(plan.parts[0].frames, Some(156_250));
    let own = |part: &Part| usize::from(part.id & 0xff) == part.stream;
    assert!(plan.parts.iter().all(own));
}

#[test]
fn more_queues_than_parts_can_have_are_refused() {
    let told = planned_in(&known_with_queues(256), &[stream(0, "left", 1e6)]);
    let told = told.err().unwrap().message;
    assert!(told.starts_with("streams[0].tx_port: "), "{told}");
    assert!(
        told.contains("at most 255 workers, 'left' has 256"),
        "{told}"
    );
}

/// What each stream offers when the engine comes back after a second.
fn caught_up(streams: &[Value]) -> Vec<u64> {
    let mut plan = planned(streams).unwrap();
    let pacers = plan.workers[0].streams.iter_mut();
    pacers
        .map(|stream| stream.pacer.due(1_000_000_000, u64::MAX))
        .collect()
}

#[test]
fn the_streams_of_a_port_share_what_it_may_catch_up_with() {
    let one = caught_up(&[stream(0, "left", 4e6)]);
    assert_eq!(one, [u64::from(RING / 4)]);
    let four: Vec<_> = (0..4).map(|id| stream(id, "left", 1e6)).collect();
    assert_eq!(caught_up(&four), [64; 4]);
}

#[test]
fn a_share_follows_the_rate_and_another_port_has_a_budget_of_its_own() {
    let streams = [
        stream(0, "left", 3e6),
        stream(1, "left", 1e6),
        stream(2, "left", 10.0),
        stream(3, "other", 1e6),
    ];
    assert_eq!(caught_up(&streams), [191, 63, 1, 256]);
}

#[test]
fn a_shape_without_a_rate_is_refused_and_a_replay_is_told_that_it_needs_one() {
    for shape in [json!({"captured": {}}), json!({"poisson": {}})] {
        let mut unpaced = stream(0, "left", 1.0);
        unpaced["rate"] = Value::Null;
        unpaced["shape"] = shape;
        let told = planned(&[unpaced]).err().unwrap().message;
        assert!(told.starts_with("streams[0].shape: "), "{told}");
        assert!(
            told.contains("a replay at the capture's times, needs one"),
            "{told}"
        );
    }
}
