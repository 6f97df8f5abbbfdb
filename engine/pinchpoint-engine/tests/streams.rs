//! Streams of every kind over ports in memory, told by the binary itself.

#![allow(clippy::needless_pass_by_value)] // literals are passed

mod common;

use common::{Engine, assert_identities, core, mem_pair, open, port, run, stream, two_cores};
use pinchpoint_import::pcap;
use serde_json::{Value, json};
use std::path::PathBuf;

fn opened(request: &Value) -> Engine {
    let mut engine = Engine::start();
    let answer = engine.ask(request);
    assert_eq!(answer["type"], "open", "{answer}");
    engine
}

fn ethernet() -> Value {
    json!({"ethernet": {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}})
}

fn with_layers(id: u8, layers: Value, size: Value) -> Value {
    let mut stream = stream(id, "left", "right", json!(20_000.0));
    stream["template"] = json!({"layers": layers});
    stream["size"] = size;
    stream["flows"] = json!(1);
    stream["fields"] = json!([]);
    stream
}

/// Headers of each kind, with sizes of each kind, come back whole.
#[test]
fn frames_of_any_headers_and_sizes_come_back_intact() {
    let ipv4 = json!({"ipv4": {"src": "16.0.0.1", "dst": "48.0.0.1", "options": "01010101"}});
    let ipv6 = json!({"ipv6": {"src": "fd00::1", "dst": "fd00::2",
        "extensions": [{"kind": 60, "data": "010400000000"}]}});
    let udp = json!({"udp": {"src": 1025, "dst": 12}});
    let vlan = |id: u16, tpid: u16| json!({"vlan": {"id": id, "tpid": tpid}});
    let echo = json!({"type": 8, "identifier": 7});
    let streams = [
        with_layers(
            0,
            json!([
                ethernet(),
                vlan(5, 0x88a8),
                vlan(6, 0x8100),
                ipv4.clone(),
                udp.clone()
            ]),
            json!({"imix": "simple"}),
        ),
        with_layers(
            1,
            json!([ethernet(), ipv6.clone(), udp.clone()]),
            json!({"random": [100, 1518]}),
        ),
        with_layers(
            2,
            json!([ethernet(), ipv4.clone(), {"tcp": {"src": 1, "dst": 80}}]),
            json!({"list": [[80, 1], [512, 3]]}),
        ),
        with_layers(
            3,
            json!([ethernet(), ipv4.clone(), {"icmp": echo}]),
            json!({"fixed": 128}),
        ),
        with_layers(
            4,
            json!([ethernet(), ipv4.clone(), {"udp": {"src": 49152, "dst": 4789}},
                   {"vxlan": {"vni": 7}}, ethernet(), ipv4, udp]),
            json!({"fixed": 256}),
        ),
        with_layers(
            5,
            json!([ethernet(), ipv6, {"gre": {"key": 3}}, ethernet()]),
            json!({"fixed": 300}),
        ),
    ];
    // Two tags and options leave no room for a signature in 64 bytes.
    let mut streams = streams;
    streams[0]["size"] = json!({"list": [[84, 7], [594, 4], [1518, 1]]});
    let mut engine = opened(&mem_pair(""));
    let result = engine.ask(&run(0.2, &streams));
    assert_identities(&result);
    for account in result["streams"].as_array().unwrap() {
        assert!(account["received"].as_u64().unwrap() > 0, "{account}");
        for key in ["lost", "corrupt", "duplicated", "reordered", "late"] {
            assert_eq!(account[key], 0, "{key}: {account}");
        }
    }
    engine.bye();
}

#[test]
fn a_frame_too_short_for_its_signature_is_refused_and_says_what_fits() {
    let mut engine = opened(&mem_pair(""));
    let layers = json!([ethernet(), {"ipv4": {"src": "16.0.0.1", "dst": "48.0.0.1"}},
                        {"tcp": {"src": 1, "dst": 80}}]);
    let tcp = with_layers(0, layers, json!({"fixed": 64}));
    let answer = engine.ask(&run(0.1, std::slice::from_ref(&tcp)));
    let message = answer["message"].as_str().unwrap();
    assert!(message.starts_with("streams[0].size.fixed: "), "{message}");
    assert!(message.contains("76"), "{message}");
    let mut bare = tcp;
    bare["stamped"] = json!(false);
    let result = engine.ask(&run(0.1, &[bare]));
    let account = &result["streams"][0];
    assert!(account["sent"].as_u64().unwrap() > 0);
    for key in ["received", "lost", "duplicated", "latency", "late"] {
        assert!(account[key].is_null(), "{key} is not countable: {account}");
    }
    assert_eq!(result["ports"][1]["foreign"], account["sent"]);
    engine.bye();
}

#[test]
fn the_rate_in_bits_and_bursts_and_ramps_and_poisson_arrivals_are_kept() {
    let mut engine = opened(&mem_pair(""));
    let mut l1 = stream(0, "left", "right", Value::Null);
    l1["rate"] = json!({"bps_l1": 84.0 * 8.0 * 10_000.0});
    let mut l2 = stream(1, "left", "right", Value::Null);
    l2["rate"] = json!({"bps_l2": 64.0 * 8.0 * 10_000.0});
    l2["shape"] = json!({"bursts": {"frames": 50}});
    let mut ramp = stream(2, "left", "right", json!(10_000.0));
    ramp["shape"] = json!({"ramp": {"from_share": 0.0}});
    let mut poisson = stream(3, "left", "right", json!(10_000.0));
    poisson["shape"] = json!({"poisson": {}});
    let result = engine.ask(&run(0.5, &[l1, l2, ramp, poisson]));
    assert_identities(&result);
    let intended = |k: usize| result["streams"][k]["intended"].as_u64().unwrap();
    assert_eq!([0, 1, 2, 3].map(intended), [5000, 5000, 2500, 5000]);
    assert!(result["pacing"]["largest_burst"].as_u64().unwrap() >= 50);
    engine.bye();
}

/// At a rate that no engine reaches there is always more to catch up with than may be.
#[test]
fn catching_up_fits_the_smallest_ring_behind_the_port() {
    for (behind, most) in [(json!(64), 64 / 4), (Value::Null, 1024 / 4)] {
        let mut request = mem_pair("");
        request["ports"][0]["ring_behind"] = behind;
        let mut engine = opened(&request);
        let result = engine.ask(&run(0.1, &[stream(0, "left", "right", json!(1e9))]));
        assert_eq!(result["pacing"]["largest_burst"], most, "{result}");
        engine.bye();
    }
}

/// The pair plays a slow device with a queue; it knows what it dropped. However little of its
/// time the engine gets, a tenth of each flow is lost, and a burst is longer than the queue.
#[test]
fn losses_of_every_flow_are_those_of_the_device() {
    let device = ",capacity_fps=20000,queue=8,loss=0.1,seed=5";
    let mut engine = opened(&mem_pair(device));
    let mut request = stream(0, "left", "right", json!(30_000.0));
    request["flows"] = json!(32);
    request["tracked_flows"] = json!(32);
    let mut request = run(0.5, &[request]);
    request["drain_s"] = json!(0.2);
    let result = engine.ask(&request);
    assert_identities(&result);
    let (account, stats) = (&result["streams"][0], &result["ports"][1]["stats"]);
    let truth = |key: &str| stats[key].as_u64().unwrap();
    let lost = truth("fault_lost") + truth("fault_queue_dropped");
    assert!(truth("fault_queue_dropped") > 0, "{stats}");
    assert_eq!(account["lost"], lost);
    let flows = &account["flows"];
    assert_eq!(
        (&flows["tracked"], &flows["lossy"]),
        (&json!(32), &json!(32))
    );
    let losses = flows["losses"].as_array().unwrap().iter();
    let sum: u64 = losses
        .map(|flow| flow[1].as_u64().unwrap() - flow[2].as_u64().unwrap())
        .sum();
    assert_eq!(sum, lost);
    engine.bye();
}

/// The account of 0.5 s towards a device whose queue empties at 500 frames a
/// second: 2 s for all of them.
fn emptying(drain_s: f64) -> Value {
    let mut engine = opened(&mem_pair(",capacity_fps=500,queue=1000"));
    let mut request = run(0.5, &[stream(0, "left", "right", json!(2000.0))]);
    request["drain_s"] = json!(drain_s);
    let result = engine.ask(&request);
    assert_identities(&result);
    engine.bye();
    result
}

#[test]
fn a_queue_that_still_empties_is_waited_for() {
    let result = emptying(0.5);
    let account = &result["streams"][0];
    assert_eq!(account["lost"], 0, "{account}");
    // Less the time of the trial, and as much again that a busy core may stand still.
    let emptied_s = account["sent"].as_f64().unwrap() / 500.0 - 1.0;
    assert!(result["drain_s"].as_f64().unwrap() > emptied_s, "{account}");
}

#[test]
fn a_device_that_does_not_stop_sending_is_waited_for_ten_times_the_drain() {
    let result = emptying(0.01);
    assert!(result["streams"][0]["lost"].as_u64() > Some(0));
    let drain_s = result["drain_s"].as_f64().unwrap();
    assert!((0.1..5.0).contains(&drain_s), "{drain_s}");
}

#[test]
fn latency_of_every_tenth_frame_and_the_engines_own_share() {
    let mut engine = opened(&mem_pair(",delay_us=300"));
    let mut request = run(0.3, &[stream(0, "left", "right", json!(10_000.0))]);
    request["latency_every"] = json!(10);
    request["loopback"] = json!(true);
    let result = engine.ask(&request);
    let account = &result["streams"][0];
    let received = account["received"].as_u64().unwrap();
    let sampled = account["latency"]["count"].as_u64().unwrap();
    assert!(
        sampled.abs_diff(received / 10) <= 1,
        "{sampled} of {received}"
    );
    assert!(account["latency"]["min_ns"].as_u64().unwrap() >= 300_000);
    assert_eq!(account["jitter"]["count"], received - 1);
    let own = &result["witness"]["loopback"];
    assert!(own["frames"].as_u64().unwrap() > 10, "{own}");
    assert!(own["p50_ns"].as_u64().unwrap() < 300_000, "{own}");
    engine.bye();
}

#[test]
fn the_first_frames_are_kept_in_a_new_file() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("capture-{}.pcapng", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let mut engine = opened(&mem_pair(""));
    let mut request = run(0.1, &[stream(0, "left", "right", json!(10_000.0))]);
    request["capture"] = json!({"file": file, "frames": 25});
    let result = engine.ask(&request);
    assert_identities(&result);
    let kept = &result["capture"];
    assert_eq!((&kept["sent"], &kept["received"]), (&json!(25), &json!(25)));
    let frames = pcap::read(&file, &pcap::Options::default()).unwrap();
    assert_eq!(frames.len(), 50);
    assert!(frames.iter().all(|frame| frame.bytes.len() == 60));
    assert!(frames.is_sorted_by_key(|frame| frame.time_ns));
    let again = engine.ask(&request);
    assert_eq!(again["code"], "invalid", "{again}");
    assert!(again["message"].as_str().unwrap().contains("capture-"));
    std::fs::remove_file(&file).unwrap();
    engine.bye();
}

/// Two workers, each with both ports: a stream in two parts, one queue each.
#[test]
fn several_workers_share_a_stream_and_their_account_closes() {
    let mut engine = Engine::start();
    let [one, other] = two_cores(&mut engine);
    let mut request = mem_pair("");
    request["workers"] = json!([
        {"core": one, "ports": ["left", "right"]}, {"core": other, "ports": ["right", "left"]}]);
    let answer = engine.ask(&request);
    assert_eq!(answer["ports"][0]["queues"], 2, "{answer}");
    let mut there = stream(0, "left", "right", json!(40_000.0));
    there["tracked_flows"] = json!(10);
    let mut back = stream(1, "right", "left", json!(10_000.0));
    back["flows"] = json!(1);
    let result = engine.ask(&run(0.3, &[there, back]));
    assert_identities(&result);
    for (k, intended) in [(0, 12_000), (1, 3000)] {
        assert_eq!(result["streams"][k]["intended"], intended);
        assert_eq!(result["streams"][k]["lost"], 0);
    }
    assert_eq!(result["streams"][0]["flows"]["tracked"], 10);
    assert_eq!(
        result["ports"][1]["received"],
        result["streams"][0]["received"]
    );
    assert_eq!(result["witness"]["workers"].as_array().unwrap().len(), 2);
    engine.bye();
}

/// One worker sends, the other receives: what arrives is never foreign.
#[test]
fn a_worker_accounts_for_what_another_one_sends() {
    let mut engine = Engine::start();
    let [one, other] = two_cores(&mut engine);
    let mut request = mem_pair(",loss=0.01,seed=3");
    request["workers"] =
        json!([{"core": one, "ports": ["left"]}, {"core": other, "ports": ["right"]}]);
    assert_eq!(engine.ask(&request)["type"], "open");
    for epoch in 1..4 {
        let mut request = run(0.2, &[stream(0, "left", "right", json!(200_000.0))]);
        request["epoch"] = json!(epoch);
        let result = engine.ask(&request);
        assert_identities(&result);
        assert_eq!(result["ports"][1]["foreign"], 0);
        let truth = &result["ports"][1]["stats"]["fault_lost"];
        assert_eq!(&result["streams"][0]["lost"], truth);
    }
    engine.bye();
}

#[test]
fn a_pair_without_a_worker_each_is_refused() {
    let mut request = open(&[port("left", "mem", "p"), port("right", "mem", "p")], &[]);
    request["workers"] = json!([{"core": core(), "ports": ["left"]}]);
    let mut engine = Engine::start();
    let answer = engine.ask(&request);
    assert_eq!(answer["code"], "invalid");
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .starts_with("ports[1].name: ")
    );
    engine.bye();
}

#[test]
fn checksums_that_are_wrong_on_purpose_are_no_damage() {
    let mut engine = opened(&mem_pair(""));
    let mut wrong = stream(0, "left", "right", json!(10_000.0));
    wrong["wrong_checksums"] = json!(["ipv4", "l4"]);
    let right = stream(1, "left", "right", json!(10_000.0));
    let result = engine.ask(&run(0.1, &[wrong, right]));
    assert_identities(&result);
    for account in result["streams"].as_array().unwrap() {
        assert_eq!(
            (&account["lost"], &account["corrupt"]),
            (&json!(0), &json!(0))
        );
    }
    engine.bye();
}

/// Nothing that was measured is zero only because it could not be.
#[test]
fn a_calibration_that_cannot_be_is_null() {
    let mut engine = opened(&mem_pair(""));
    let mut bare = stream(0, "left", "right", json!(10_000.0));
    bare["stamped"] = json!(false);
    for (stream, told) in [
        (bare, false),
        (stream(0, "left", "right", json!(5.0)), true),
    ] {
        let mut request = run(0.05, &[stream]);
        request["loopback"] = json!(true);
        let result = engine.ask(&request);
        let own = &result["witness"]["loopback"];
        assert_eq!(!own.is_null(), told, "{own}");
        assert!(!told || own["min_ns"].as_u64().unwrap() > 0, "{own}");
    }
    engine.bye();
}

#[test]
fn a_capture_never_writes_over_what_exists() {
    let mut engine = opened(&mem_pair(""));
    let mut request = run(0.05, &[stream(0, "left", "right", json!(10_000.0))]);
    request["capture"] = json!({"file": "/dev/full", "frames": 5});
    assert_eq!(engine.ask(&request)["code"], "invalid");
    request["capture"] = Value::Null;
    assert_identities(&engine.ask(&request));
    engine.bye();
}

#[test]
fn two_workers_cannot_follow_fewer_flows_than_they_are() {
    let mut engine = Engine::start();
    let [one, other] = two_cores(&mut engine);
    let mut request = mem_pair("");
    request["workers"] = json!([
        {"core": one, "ports": ["left", "right"]}, {"core": other, "ports": ["right", "left"]}]);
    assert_eq!(engine.ask(&request)["type"], "open");
    let mut single = stream(0, "left", "right", json!(1000.0));
    single["flows"] = json!(1);
    single["tracked_flows"] = json!(1);
    let answer = engine.ask(&run(0.1, &[single]));
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.starts_with("streams[0].tracked_flows: "),
        "{message}"
    );
    engine.bye();
}

/// Two pairs in memory: what is sent at `left` comes out at `right`, and what is sent
/// at `left2` at `right2`.
fn two_pairs() -> Engine {
    let ports = [
        port("left", "mem", "pair0"),
        port("right", "mem", "pair0"),
        port("left2", "mem", "pair1"),
        port("right2", "mem", "pair1"),
    ];
    opened(&open(&ports, &[]))
}

#[test]
fn frames_that_come_out_of_the_wrong_port_are_misdelivered_and_lost() {
    let mut engine = two_pairs();
    let streams = [
        stream(0, "left", "right2", json!(10_000.0)),
        stream(1, "left2", "right2", json!(10_000.0)),
    ];
    let result = engine.ask(&run(0.1, &streams));
    assert_identities(&result);
    let [wrong, right] = &result["streams"].as_array().unwrap()[..] else {
        panic!("{result}")
    };
    assert_eq!(
        (&wrong["received"], &wrong["lost"]),
        (&json!(0), &wrong["sent"])
    );
    assert_eq!(wrong["misdelivered"], wrong["sent"]);
    assert_eq!(
        (&right["misdelivered"], &right["lost"]),
        (&json!(0), &json!(0))
    );
    let port = &result["ports"][1];
    assert_eq!(
        (&port["misdelivered"], &port["foreign"]),
        (&wrong["sent"], &wrong["sent"])
    );
    assert_eq!(result["ports"][3]["misdelivered"], 0);
    engine.bye();
}

#[test]
fn a_stream_may_have_several_receivers_and_reorder_between_flows() {
    let mut engine = two_pairs();
    let mut streams =
        [0, 1].map(|id| stream(id, ["left", "left2"][id as usize], "", json!(10_000.0)));
    for stream in &mut streams {
        stream["rx_port"] = Value::Null;
        stream["rx_ports"] = json!(["right", "right2"]);
    }
    let result = engine.ask(&run(0.1, &streams));
    assert_identities(&result);
    for account in result["streams"].as_array().unwrap() {
        assert_eq!(account["rx_ports"], json!(["right", "right2"]));
        for key in ["lost", "misdelivered", "reordered", "reordered_in_flow"] {
            assert_eq!(account[key], 0, "{key}: {account}");
        }
    }
    for (rx_port, rx_ports, expected) in [
        (
            json!("right"),
            json!(["right2"]),
            "streams[0].rx_ports: expected an empty list",
        ),
        (
            Value::Null,
            json!(["right", "right"]),
            "streams[0].rx_ports[1]: expected another",
        ),
        (
            Value::Null,
            json!(["nowhere"]),
            "streams[0].rx_ports[0]: no open port",
        ),
    ] {
        streams[0]["rx_port"] = rx_port;
        streams[0]["rx_ports"] = rx_ports;
        let refused = engine.ask(&run(0.1, &streams));
        let message = refused["message"].as_str().unwrap();
        assert!(message.starts_with(expected), "{message}");
    }
    engine.bye();
}

#[test]
fn reordering_between_flows_is_not_reordering_within_them() {
    for (flows, in_flow) in [(65_536, false), (1, true)] {
        let mut engine = opened(&mem_pair(",reorder=0.05,reorder_by=3"));
        let mut stream = stream(0, "left", "right", json!(50_000.0));
        stream["flows"] = json!(flows);
        let result = engine.ask(&run(0.3, &[stream]));
        let account = &result["streams"][0];
        assert!(account["reordered"].as_u64().unwrap() > 0, "{account}");
        let expected = if in_flow {
            &account["reordered"]
        } else {
            &json!(0)
        };
        assert_eq!(&account["reordered_in_flow"], expected);
        engine.bye();
    }
}
