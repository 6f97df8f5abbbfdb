//! Groups of streams take turns within one trial, and devices are stopped
//! while others are measured.

mod common;
#[path = "../../workload/src/streams/hold_device.rs"]
mod device;

use common::{Engine, assert_identities, core, open, port, run, stream};
use device::Device;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Two pairs of ports, `left_a` to `right_a` and `left_b` to `right_b`.
fn two_pairs(faults_b: &str) -> Value {
    let right_b = format!("pair_b{faults_b}");
    open(
        &[
            port("left_a", "mem", "pair_a"),
            port("right_a", "mem", "pair_a"),
            port("left_b", "mem", "pair_b"),
            port("right_b", "mem", &right_b),
        ],
        &[],
    )
}

fn opened(request: &Value) -> Engine {
    let mut engine = Engine::start();
    let reply = engine.ask(request);
    assert_eq!(reply["type"], "open", "{reply}");
    engine
}

/// A trial whose two streams take turns: A B B A, 10 ms each.
fn duet(duration_s: f64, rates_fps: [Value; 2]) -> Value {
    let [rate_a, rate_b] = rates_fps;
    let streams = [
        stream(0, "left_a", "right_a", rate_a),
        stream(1, "left_b", "right_b", rate_b),
    ];
    let mut request = run(duration_s, &streams);
    request["slices"] = json!({"groups": [[0], [1]], "order": [0, 1, 1, 0], "length_ns": 10_000_000,
        "settle_ns": 1_000_000, "discard_ns": 3_000_000, "hold": null});
    request
}

/// One that holds two processes, with slices long enough to look at them.
fn held(duration_s: f64, devices: &[Device; 2]) -> Value {
    let mut request = duet(duration_s, [json!(10_000.0), json!(10_000.0)]);
    request["slices"]["length_ns"] = json!(200_000_000);
    request["slices"]["hold"] = json!([[devices[0].pid()], [devices[1].pid()]]);
    request
}

fn two_devices() -> [Device; 2] {
    [Device::start(), Device::start()]
}

fn sum(slices: &[Value], group: u64, key: &str) -> u64 {
    let own = slices.iter().filter(|slice| slice["group"] == group);
    own.map(|slice| slice[key].as_u64().unwrap()).sum()
}

/// Where nothing is discarded, a frame is offered in a slice of its group. Only
/// an engine that sleeps beyond the last slice offers the last frames after it.
fn assert_every_offer_is_in_a_slice(result: &Value) {
    let slices = result["slices"].as_array().unwrap();
    let last = slices.last().unwrap();
    for (group, stream) in result["streams"].as_array().unwrap().iter().enumerate() {
        let group = group as u64;
        if last["group"] != group || last["length_ns"] != 0 {
            assert_eq!(stream["offered"], sum(slices, group, "offered"));
            assert_eq!(stream["refused"], sum(slices, group, "refused"));
        }
        // What was under way when a slice ended came in another's time.
        assert!(sum(slices, group, "received") <= stream["received"].as_u64().unwrap());
    }
}

#[test]
fn groups_take_turns_and_each_has_its_load_in_its_own_time() {
    let mut engine = opened(&two_pairs(",loss=0.5,seed=3"));
    let result = engine.ask(&duet(1.0, [json!(100_000.0), json!(20_000.0)]));
    assert_identities(&result);
    let streams = result["streams"].as_array().unwrap();
    // Each has half of 100 slices, and settles in every other; A in the first too.
    assert_eq!(streams[0]["intended"], 100_000 * (500 - 26) / 1_000);
    assert_eq!(streams[1]["intended"], 20_000 * (500 - 25) / 1_000);
    let slices = result["slices"].as_array().unwrap();
    let groups: Vec<_> = slices
        .iter()
        .map(|s| s["group"].as_u64().unwrap())
        .collect();
    assert_eq!(groups, [0, 1, 1, 0].repeat(25));
    for (k, slice) in slices.iter().enumerate() {
        let count = |key: &str| slice[key].as_u64().unwrap();
        let changes = if matches!(k % 4, 1 | 3) || k == 0 {
            4_000_000
        } else {
            0
        };
        assert!(
            count("start_ns") >= k as u64 * 10_000_000 + changes,
            "{slice}"
        );
        assert!(slice["switch_ns"].is_null());
        // What fell due in the other group's time is neither made up for nor missed.
        let rate_fps = [100_000.0, 20_000.0][groups[k] as usize];
        let due = |ns: u64| rate_fps * ns as f64 / 1e9;
        let awake_ns = count("length_ns").saturating_sub(count("gap_ns"));
        let offered = count("offered") as f64;
        assert!(offered <= 1.1 * due(count("length_ns")) + 60.0, "{slice}");
        assert!(offered >= 0.9 * due(awake_ns) - 60.0, "{slice}");
    }
    for (group, stream) in streams.iter().enumerate() {
        let whole = |key: &str| stream[key].as_u64().unwrap();
        for key in ["offered", "refused", "received"] {
            assert!(
                sum(slices, group as u64, key) <= whole(key),
                "{key}: {result}"
            );
        }
    }
    // A group's loss is counted in its own stream alone.
    assert_eq!(streams[0]["lost"], 0);
    assert!(streams[1]["lost"].as_u64().unwrap() > 0);
    engine.bye();
}

#[test]
fn a_slice_without_a_discarded_part_counts_every_frame_of_its_group() {
    let mut engine = opened(&two_pairs(""));
    for rate_fps in [json!(50_000.0), Value::Null] {
        let mut request = duet(0.1, [rate_fps.clone(), rate_fps]);
        request["slices"]["settle_ns"] = json!(0);
        request["slices"]["discard_ns"] = json!(0);
        let result = engine.ask(&request);
        assert_identities(&result);
        assert_every_offer_is_in_a_slice(&result);
    }
    engine.bye();
}

#[test]
fn one_group_in_short_slices_is_a_time_series_of_the_trial() {
    let mut engine = opened(&two_pairs(""));
    let mut request = run(0.1, &[stream(0, "left_a", "right_a", json!(50_000.0))]);
    request["slices"] = json!({"groups": [[0]], "order": [0], "length_ns": 1_000_000,
        "settle_ns": 0, "discard_ns": 0, "hold": null});
    let result = engine.ask(&request);
    assert_identities(&result);
    let slices = result["slices"].as_array().unwrap();
    assert_eq!(slices.len(), 100);
    assert_eq!(result["streams"][0]["intended"], 5_000);
    assert_every_offer_is_in_a_slice(&result);
    engine.bye();
}

#[test]
fn several_workers_agree_on_the_slices() {
    let mut engine = Engine::start();
    let hello = engine.ask(&json!({"type": "hello", "protocol": 9}));
    let Some(other) = hello["cores"].get(1) else {
        return;
    };
    let mut request = two_pairs("");
    request["workers"] = json!([
        {"core": core(), "ports": ["left_a", "right_b"]},
        {"core": other, "ports": ["left_b", "right_a"]}
    ]);
    assert_eq!(engine.ask(&request)["type"], "open");
    let mut request = duet(0.2, [json!(20_000.0), json!(20_000.0)]);
    request["slices"]["settle_ns"] = json!(0);
    request["slices"]["discard_ns"] = json!(0);
    let result = engine.ask(&request);
    assert_identities(&result);
    assert_eq!(result["slices"].as_array().unwrap().len(), 20);
    assert_every_offer_is_in_a_slice(&result);
    engine.bye();
}

/// Waits until one device runs while the other is stopped.
fn await_alone(running: &Device, stopped: &Device) {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let asked = Instant::now();
        let looks = [stopped, running, stopped].map(Device::is_stopped);
        // Looks that took as long as a slice are not of one instant.
        if looks == [true, false, true] && asked.elapsed() < Duration::from_millis(100) {
            return;
        }
        assert!(Instant::now() < patience, "{looks:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_device_that_is_not_measured_is_stopped_and_runs_again_in_the_end() {
    let devices = two_devices();
    let mut engine = opened(&two_pairs(""));
    engine.send(&held(600.0, &devices));
    for turn in [0, 1, 0, 1] {
        await_alone(&devices[turn], &devices[1 - turn]);
    }
    let result = engine.ask(&json!({"type": "stop"}));
    assert_identities(&result);
    // A core that stood still passes over whole slices, which then have no length.
    let slices = result["slices"].as_array().unwrap().iter();
    let mut running = Value::Null;
    for slice in slices.filter(|slice| slice["length_ns"] != 0) {
        let changes = slice["group"] != running;
        assert!(slice["switch_ns"].is_null() || changes, "{slice}");
        running = slice["group"].clone();
    }
    for device in &devices {
        device.await_stopped(false);
    }
    engine.bye();
}

#[test]
fn whatever_ends_a_trial_continues_what_it_had_stopped() {
    type End = fn(&mut Engine);
    let ends: [(&str, End); 4] = [
        ("stop", |engine| {
            let result = engine.ask(&json!({"type": "stop"}));
            assert_eq!(result["status"], "stopped");
            assert_identities(&result);
        }),
        ("bye", |engine| engine.send(&json!({"type": "bye"}))),
        ("the end of input", |engine| engine.close_input()),
        ("SIGTERM", |engine| {
            kill(Pid::from_raw(engine.pid()), Signal::SIGTERM).unwrap();
            let result = engine.receive();
            assert_eq!(result["reason"], "SIGTERM");
            assert_identities(&result);
        }),
    ];
    for (name, end) in ends {
        let devices = two_devices();
        let mut engine = opened(&two_pairs(""));
        let mut request = held(600.0, &devices);
        request["slices"]["length_ns"] = json!(60_000_000_000_u64);
        engine.send(&request);
        devices[1].await_stopped(true);
        assert!(!devices[0].is_stopped(), "{name}");
        end(&mut engine);
        devices[1].await_stopped(false);
        if name != "stop" {
            engine.wait();
            assert!(!devices[1].is_stopped(), "{name}");
        }
    }
}

#[test]
fn a_device_that_ends_aborts_the_trial_and_is_named() {
    for victim in [0, 1] {
        let mut devices = two_devices();
        let mut engine = opened(&two_pairs(""));
        engine.send(&held(600.0, &devices));
        devices[1].await_stopped(true);
        // It is a zombie until it is waited for, and can still be signalled.
        devices[victim].0.kill().unwrap();
        let result = engine.receive();
        assert_eq!(result["status"], "aborted", "{result}");
        let pid = devices[victim].pid();
        let reason = format!("process {pid} of slices.hold[{victim}] has ended");
        assert_eq!(result["reason"], reason);
        assert_identities(&result);
        devices[1 - victim].await_stopped(false);
        engine.bye();
    }
}

#[test]
fn slices_that_cannot_be_are_named_and_stop_no_process() {
    let devices = two_devices();
    let [one, other] = [0, 1].map(|k: usize| devices[k].pid());
    let mut engine = opened(&two_pairs(""));
    let (own, parent) = (engine.pid(), std::process::id());
    let cases = [
        ("groups", json!([]), "slices.groups"),
        ("groups", json!([[0], []]), "slices.groups[1]"),
        ("groups", json!([[0], [7]]), "slices.groups[1]"),
        ("groups", json!([[0], [0]]), "slices.groups[1]"),
        ("groups", json!([[0, 0], [1]]), "slices.groups[0]"),
        ("groups", json!([[0]]), "slices.groups"),
        ("groups", json!([[0], [256]]), "slices.groups[1][0]"),
        ("order", json!([]), "slices.order"),
        ("order", json!([0, 2, 1]), "slices.order"),
        ("order", json!([0, 0]), "slices.order"),
        ("order", json!([0, -1]), "slices.order[1]"),
        ("order", json!(vec![0; 257]), "slices.order"),
        ("length_ns", json!(999_999), "slices.length_ns"),
        ("length_ns", json!(60_000_000_001_u64), "slices.length_ns"),
        ("length_ns", json!(1e7), "slices.length_ns"),
        ("settle_ns", json!(7_000_000), "slices.discard_ns"),
        ("settle_ns", json!(u64::MAX), "slices.discard_ns"),
        ("discard_ns", json!(-1), "slices.discard_ns"),
        ("hold", json!([[one]]), "slices.hold"),
        ("hold", json!([[one], [one]]), "slices.hold[1]"),
        ("hold", json!([[one, one], [other]]), "slices.hold[0]"),
        ("hold", json!([[one], [1]]), "slices.hold[1]"),
        ("hold", json!([[one], [0]]), "slices.hold[1]"),
        ("hold", json!([[one], [-other]]), "slices.hold[1]"),
        ("hold", json!([[one], [own]]), "slices.hold[1][0]"),
        ("hold", json!([[one], [other, parent]]), "slices.hold[1][1]"),
        ("hold", json!([[one], [i32::MAX]]), "slices.hold[1][0]"),
        ("hold", json!([[one], [1_u64 << 31]]), "slices.hold[1][0]"),
        ("hold", json!([[one], vec![2; 65]]), "slices.hold[1]"),
        ("colour", json!("red"), "slices.colour"),
    ];
    for (key, value, at) in cases {
        let mut request = duet(0.01, [json!(1_000.0), json!(1_000.0)]);
        request["slices"][key] = value;
        let answer = engine.ask(&request);
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(&format!("{at}: ")), "{key}: {answer}");
    }
    let mut request = duet(86_400.0, [json!(1.0), json!(1.0)]);
    let answer = engine.ask(&request);
    assert_eq!(answer["code"], "invalid", "{answer}");
    request = duet(0.01, [json!(1_000.0), json!(1_000.0)]);
    request["streams"][1]["shape"] = json!({"bursts": {"frames": 4}});
    let answer = engine.ask(&request);
    let message = answer["message"].as_str().unwrap();
    assert!(message.starts_with("streams[1].shape: "), "{answer}");
    assert!(devices.iter().all(|device| !device.is_stopped()));
    engine.bye();
}
