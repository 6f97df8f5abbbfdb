//! Loads of connections over the ports of a session, asked for over the binary's pipes.

mod common;

use common::{Engine, assert_identities, mem_pair, open, port, run, stream, two_cores};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// However long this machine stands still, none of these connections times out or is not opened.
fn load(trial: &str, count: u64) -> Value {
    json!({"type": "connections", "trial": trial, "ports": ["left", "right"],
           "to": "10.0.0.100:80", "clients": "16.0.0.1-16.0.0.4", "client_ports": "1025-65535",
           "next_hop": null, "rate_cps": 2000, "count": count, "ramp_s": 0.0, "lead_s": 0.0,
           "timeout_s": 60.0, "hold_s": 0.0, "hold_before": 0, "work": "request", "requests": 1,
           "request_bytes": 64, "answer_bytes": 64, "close": "client", "retry": null, "late": true,
           "sequence": null, "seed": 1, "one_isn": false, "sample_interval_s": null,
           "by_tuple": false, "order": false, "direct_return": false, "timestamps": false,
           "mac": null, "server_mac": null, "backends": ["10.0.0.100:80"], "down": []})
}

/// One that lasts ten minutes, with samples.
fn long_load() -> Value {
    let mut request = load("long", 1_200_000);
    request["sample_interval_s"] = json!(0.02);
    request
}

fn opened(request: &Value) -> Engine {
    let mut engine = Engine::start();
    let answer = engine.ask(request);
    assert_eq!(answer["type"], "open", "{answer}");
    engine
}

/// Asks for a load; returns its result and its samples.
fn result(engine: &mut Engine, request: &Value) -> (Value, Vec<Value>) {
    engine.send(request);
    end(engine)
}

/// The first message that is no sample, and the samples before it.
fn end(engine: &mut Engine) -> (Value, Vec<Value>) {
    let mut samples = Vec::new();
    loop {
        let message = engine.receive();
        if message["type"] != "connections_sample" {
            return (message, samples);
        }
        samples.push(message);
    }
}

/// Waits until connections have been opened.
fn await_some(engine: &mut Engine) {
    loop {
        let sample = engine.receive();
        assert_eq!(sample["type"], "connections_sample", "{sample}");
        if sample["opened"].as_u64() > Some(0) {
            return;
        }
    }
}

/// Every connection was opened, answered and closed, and nothing of others came.
fn assert_whole(result: &Value, trial: &str, count: u64) {
    assert_eq!(result["type"], "connections_result", "{result}");
    assert_eq!(
        (&result["trial"], &result["status"], &result["reason"]),
        (&json!(trial), &json!("completed"), &Value::Null),
        "{result}"
    );
    let (client, backend) = (&result["client"], &result["server"]["backends"][0]);
    for key in ["opened", "established", "answered", "completed"] {
        assert_eq!(client[key], count, "{key}: {result}");
    }
    for key in ["shortfall", "stale", "late", "foreign", "duplicated"] {
        assert_eq!(client[key], 0, "{key}: {result}");
    }
    for key in ["syns", "requests", "fins"] {
        assert_eq!(backend[key], count, "{key}: {result}");
    }
    for key in ["elsewhere", "unacknowledged"] {
        assert_eq!(result["server"][key], 0, "{key}: {result}");
    }
}

#[test]
fn loads_and_trials_follow_each_other_in_one_session() {
    let mut engine = opened(&mem_pair(""));
    for trial in ["first", "second"] {
        let (told, samples) = result(&mut engine, &load(trial, 200));
        assert_whole(&told, trial, 200);
        assert!(samples.is_empty());
        assert_eq!(
            (&told["core"], &told["cores"]),
            (&told["core"], &Value::Null)
        );
        assert_eq!(told["idle"], "yield");
        // Neighbours are asked for in each.
        assert!(told["others"][1]["answered"].as_u64() >= Some(1), "{told}");
    }
    let frames = engine.ask(&run(0.05, &[stream(0, "left", "right", json!(1000.0))]));
    assert_identities(&frames);
    assert_eq!(frames["streams"][0]["lost"], 0, "{frames}");
    assert_eq!(frames["ports"][1]["name"], "right");
    assert_whole(&result(&mut engine, &load("third", 50)).0, "third", 50);
    engine.bye();
}

#[test]
fn what_waits_in_a_port_from_earlier_work_is_no_part_of_a_load() {
    let mut engine = opened(&mem_pair(""));
    engine.send(&long_load());
    await_some(&mut engine);
    engine.send(&json!({"type": "stop"}));
    assert_eq!(end(&mut engine).0["status"], "stopped");
    let (told, _) = result(&mut engine, &load("next", 100));
    assert_whole(&told, "next", 100);
    engine.bye();
}

/// Counters of a port are those of the load, not of the session.
#[test]
fn counters_of_ports_begin_with_each_load() {
    let mut engine = opened(&mem_pair(",loss=0.02,seed=3"));
    let mut lossy = load("lossy", 500);
    lossy["timeout_s"] = json!(0.2);
    let lost = |told: &Value| told["ports"][1]["stats"]["fault_lost"].as_u64().unwrap();
    let first = result(&mut engine, &lossy).0;
    assert!(lost(&first) > 0, "{first}");
    let mut few = load("few", 1);
    few["timeout_s"] = json!(0.2);
    let second = result(&mut engine, &few).0;
    assert!(lost(&second) < lost(&first), "{second}");
    engine.bye();
}

#[test]
fn samples_come_while_connections_are_opened_and_at_the_end() {
    let mut engine = opened(&mem_pair(""));
    let mut request = load("sampled", 400);
    request["sample_interval_s"] = json!(0.02);
    let (told, samples) = result(&mut engine, &request);
    assert_whole(&told, "sampled", 400);
    let [first, .., last] = &samples[..] else {
        panic!("{samples:?}")
    };
    assert_eq!(first["trial"], "sampled");
    assert!(first["opened"].as_u64() < Some(400), "{first}");
    for key in ["opened", "answered", "completed", "backends"] {
        assert_eq!(last[key], told["client"][key], "{key}: {last}");
    }
    engine.bye();
}

#[test]
fn several_workers_share_a_load_and_a_trial_may_follow() {
    let mut engine = Engine::start();
    let [one, other] = two_cores(&mut engine);
    let both = json!(["left", "right"]);
    let mut request = mem_pair("");
    request["workers"] = json!([{"core": one, "ports": both}, {"core": other, "ports": both}]);
    assert_eq!(engine.ask(&request)["type"], "open");
    for trial in ["first", "second"] {
        let mut request = load(trial, 300);
        request["sample_interval_s"] = json!(0.02);
        let (told, samples) = result(&mut engine, &request);
        assert_whole(&told, trial, 300);
        let cores = told["cores"].as_array().unwrap();
        let cores: Vec<_> = cores.iter().map(|ran| &ran["core"]).collect();
        assert_eq!(cores, [&one, &other]);
        assert_eq!(told["ports"].as_array().unwrap().len(), 2, "{told}");
        assert_eq!(told["handed"]["lost"], 0, "{told}");
        assert_eq!(samples.last().unwrap()["opened"], 300);
    }
    let frames = engine.ask(&run(0.05, &[stream(0, "left", "right", json!(1000.0))]));
    assert_identities(&frames);
    assert_eq!(frames["streams"][0]["lost"], 0, "{frames}");
    let mut request = load("ordered", 10);
    request["order"] = json!(true);
    let refused = engine.ask(&request);
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("order: "), "{message}");
    engine.bye();
}

/// Ports that a load does not name keep their places among the worker's.
#[test]
fn ports_are_used_in_the_order_of_the_load_and_others_are_left_alone() {
    let ports = [
        port("a", "mem", "pair0"),
        port("right", "mem", "pair1"),
        port("b", "mem", "pair0"),
        port("left", "mem", "pair1"),
    ];
    let mut engine = opened(&open(&ports, &[]));
    for _ in 0..2 {
        let (told, _) = result(&mut engine, &load("named", 50));
        assert_whole(&told, "named", 50);
        let names: Vec<_> = (0..2).map(|place| &told["ports"][place]["name"]).collect();
        assert_eq!(names, ["left", "right"]);
        let streams = [
            stream(0, "a", "b", json!(1000.0)),
            stream(1, "left", "right", json!(1000.0)),
        ];
        let frames = engine.ask(&run(0.02, &streams));
        assert_identities(&frames);
        for (place, name) in ["a", "right", "b", "left"].iter().enumerate() {
            assert_eq!(frames["ports"][place]["name"], *name);
        }
        for stream in frames["streams"].as_array().unwrap() {
            assert_eq!(stream["lost"], 0, "{frames}");
        }
    }
    engine.bye();
}

#[test]
fn stop_ends_a_load_with_its_counts_and_nothing_else_is_accepted_before() {
    let mut engine = opened(&mem_pair(""));
    engine.send(&long_load());
    await_some(&mut engine);
    for message in [
        json!({"type": "hello", "protocol": 9}),
        load("another", 1),
        run(0.01, &[]),
        json!({"type": "go"}),
    ] {
        engine.send(&message);
        assert_eq!(end(&mut engine).0["code"], "state", "{message}");
    }
    engine.send(&json!({"type": "stop"}));
    let (told, _) = end(&mut engine);
    assert_eq!(
        (&told["status"], &told["reason"]),
        (&json!("stopped"), &Value::Null),
        "{told}"
    );
    assert!(told["client"]["opened"].as_u64() > Some(0), "{told}");
    assert_eq!(engine.ask(&json!({"type": "stop"}))["code"], "state");
    engine.bye();
}

#[test]
fn without_a_next_hop_nothing_is_opened_until_it_is_stopped() {
    let mut engine = opened(&mem_pair(""));
    let mut request = load("nowhere", 10);
    request["next_hop"] = json!("10.0.0.99");
    engine.send(&request);
    engine.send(&json!({"type": "stop"}));
    let (told, _) = end(&mut engine);
    assert_eq!(
        (&told["status"], &told["client"]),
        (&json!("stopped"), &Value::Null)
    );
    engine.bye();
}

#[test]
fn bye_ends_a_load_in_order() {
    let mut engine = opened(&mem_pair(""));
    engine.send(&long_load());
    await_some(&mut engine);
    engine.send(&json!({"type": "bye"}));
    assert_eq!(end(&mut engine).0["status"], "stopped");
    assert_eq!(engine.receive(), json!({"type": "bye"}));
    assert_eq!(engine.wait().code(), Some(0));
}

#[test]
fn the_end_of_input_and_sigterm_abort_a_load_with_a_reason() {
    for (reason, status) in [("stdin ended", 0), ("SIGTERM", 143)] {
        let mut engine = opened(&mem_pair(""));
        engine.send(&long_load());
        await_some(&mut engine);
        if reason == "SIGTERM" {
            kill(Pid::from_raw(engine.pid()), Signal::SIGTERM).unwrap();
        } else {
            engine.close_input();
        }
        let (told, _) = end(&mut engine);
        assert_eq!(
            (&told["status"], &told["reason"]),
            (&json!("aborted"), &json!(reason)),
            "{told}"
        );
        assert_eq!(engine.wait().code(), Some(status));
    }
}

#[test]
fn a_load_needs_open_ports() {
    let mut engine = Engine::start();
    let refused = engine.ask(&load("early", 1));
    assert_eq!(refused["code"], "state", "{refused}");
    engine.bye();
}

/// One key each that cannot be.
fn impossible() -> Vec<(Value, &'static str)> {
    let long_name = "x".repeat(257);
    let many: Vec<String> = (0..4097)
        .map(|n| format!("10.1.{}.{}:80", n / 256, n % 256))
        .collect();
    let outage = |backend, from_s, until_s| json!([{"backend": backend, "from_s": from_s, "until_s": until_s, "resets": false}]);
    vec![
        (json!({"trial": long_name}), "trial"),
        (json!({"ports": []}), "ports"),
        (json!({"ports": ["left"]}), "ports"),
        (json!({"ports": ["left", "up"]}), "ports[1]"),
        (json!({"ports": ["left", "left"]}), "ports[1]"),
        (json!({"backends": []}), "backends"),
        (
            json!({"backends": ["10.0.0.1:1", "10.0.0.1:1"]}),
            "backends[1]",
        ),
        (json!({"backends": ["[::ffff:10.0.0.1]:1"]}), "backends[0]"),
        (json!({"backends": many}), "backends"),
        (json!({"to": "10.0.0.100"}), "to"),
        (json!({"to": "10.0.0.0-10.0.0.255:1-1000"}), "to"),
        (json!({"to": "[fd00::1]:80"}), "clients"),
        (
            json!({"to": "[::ffff:10.0.0.1]:80", "clients": "fd00::1"}),
            "to",
        ),
        (json!({"clients": "0.0.0.0-255.255.255.255"}), "clients"),
        (
            json!({"clients": "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}),
            "clients",
        ),
        (json!({"client_ports": "9-8"}), "client_ports"),
        (json!({"next_hop": "gateway"}), "next_hop"),
        (json!({"rate_cps": 0}), "rate_cps"),
        (json!({"rate_cps": u64::MAX}), "rate_cps"),
        (
            json!({"rate_cps": 1_000_000_000, "count": u64::MAX}),
            "rate_cps",
        ),
        (json!({"count": 0}), "count"),
        (json!({"ramp_s": -1.0}), "ramp_s"),
        (json!({"lead_s": 1e300}), "lead_s"),
        (json!({"timeout_s": 1e9}), "timeout_s"),
        (json!({"hold_s": -0.1}), "hold_s"),
        (json!({"hold_before": 1}), "hold_before"),
        (json!({"work": "nap"}), "work"),
        (json!({"work": "udp", "requests": 2}), "work"),
        (json!({"requests": 0}), "requests"),
        (json!({"requests": 4_000_000_000_u32}), "requests"),
        (json!({"request_bytes": 23}), "request_bytes"),
        (
            json!({"request_bytes": 1460, "timestamps": true}),
            "request_bytes",
        ),
        (json!({"answer_bytes": 63}), "answer_bytes"),
        (
            json!({"answer_bytes": 2000, "direct_return": true}),
            "answer_bytes",
        ),
        (
            json!({"retry": {"after_s": 0.1, "times": 101}}),
            "retry.times",
        ),
        (
            json!({"retry": {"after_s": -0.1, "times": 1}}),
            "retry.after_s",
        ),
        (json!({"sequence": [1, 2], "count": 300_000}), "sequence"),
        (json!({"sample_interval_s": 0.001}), "sample_interval_s"),
        (
            json!({"clients": "10.0.0.0/8", "by_tuple": true}),
            "by_tuple",
        ),
        (
            json!({"to": "10.0.0.100:80-81", "direct_return": true}),
            "to",
        ),
        (
            json!({"backends": ["10.1.0.1:81"], "direct_return": true}),
            "backends[0]",
        ),
        (json!({"down": outage(1, 1.0, 2.0)}), "down[0].backend"),
        (json!({"down": outage(0, 2.0, 2.0)}), "down[0].until_s"),
        (json!({"down": outage(0, -2.0, 2.0)}), "down[0].from_s"),
    ]
}

#[test]
fn a_load_that_cannot_be_is_refused_with_its_key_and_leaves_the_ports_open() {
    let mut engine = opened(&mem_pair(""));
    for (changes, key) in impossible() {
        let mut request = load("bad", 10);
        for (name, value) in changes.as_object().unwrap() {
            request[name] = value.clone();
        }
        let refused = engine.ask(&request);
        assert_eq!(refused["code"], "invalid", "{changes}: {refused}");
        let message = refused["message"].as_str().unwrap();
        assert!(
            message.starts_with(&format!("{key}: ")),
            "{changes}: {message}"
        );
    }
    for (name, value) in [
        ("close", json!("nobody")),
        ("mac", json!("02")),
        ("backends", json!(["10.1.0.1"])),
        ("sequence", json!([1, -2])),
    ] {
        let mut request = load("bad", 10);
        request[name] = value;
        let refused = engine.ask(&request);
        assert_eq!(refused["code"], "malformed", "{refused}");
        assert!(
            refused["message"].as_str().unwrap().starts_with(name),
            "{refused}"
        );
    }
    assert_whole(&result(&mut engine, &load("good", 20)).0, "good", 20);
    engine.bye();
}

#[test]
fn a_port_that_not_every_worker_drives_has_no_part_in_a_load() {
    let mut engine = Engine::start();
    let [one, other] = two_cores(&mut engine);
    let ports = [
        port("a", "mem", "pair0"),
        port("b", "mem", "pair0"),
        port("left", "mem", "pair1"),
        port("right", "mem", "pair1"),
    ];
    let mut request = open(&ports, &[]);
    request["workers"] = json!([{"core": one, "ports": ["a", "b", "left", "right"]},
                                {"core": other, "ports": ["left", "right"]}]);
    assert_eq!(engine.ask(&request)["type"], "open");
    assert_whole(&result(&mut engine, &load("whole", 20)).0, "whole", 20);
    let mut request = load("apart", 10);
    request["ports"] = json!(["a", "b"]);
    let refused = engine.ask(&request);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.starts_with("ports[0]: expected a port of every worker"),
        "{message}"
    );
    engine.bye();
}
