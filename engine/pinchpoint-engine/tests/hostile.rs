//! Whatever is sent, the answer is an `error` that says where, and the session
//! goes on.

mod common;

use common::{Engine, mem_pair, open, port, run, stream};
use proptest::prelude::*;
use serde_json::{Value, json};

fn error_of(engine: &mut Engine, request: &Value) -> (String, String) {
    let answer = engine.ask(request);
    assert_eq!(answer["type"], "error", "{request} -> {answer}");
    let text = |key: &str| answer[key].as_str().unwrap().to_owned();
    (text("code"), text("message"))
}

#[test]
#[allow(clippy::too_many_lines)] // a table
fn a_value_that_cannot_be_met_is_named() {
    let mut engine = Engine::start();
    assert_eq!(engine.ask(&mem_pair(""))["type"], "open");
    let cases = [
        ("/streams/0/rate/fps", json!(0.0), "streams[0].rate"),
        ("/streams/0/rate/fps", json!(-1), "streams[0].rate"),
        (
            "/streams/0/rate",
            json!({"line_share": 0.5}),
            "streams[0].rate",
        ),
        ("/streams/0/rate", json!({"fpm": 1}), "streams[0].rate"),
        (
            "/streams/0/shape",
            json!({"bursts": {"frames": 0}}),
            "streams[0].shape",
        ),
        (
            "/streams/0/shape",
            json!({"ramp": {"from_share": 2}}),
            "streams[0].shape",
        ),
        ("/streams/0/size/fixed", json!(63), "streams[0].size.fixed"),
        (
            "/streams/0/size/fixed",
            json!(9023),
            "streams[0].size.fixed",
        ),
        (
            "/streams/0/size",
            json!({"imix": "mine"}),
            "streams[0].size.imix",
        ),
        (
            "/streams/0/template",
            json!({"frame": "?"}),
            "streams[0].template.frame",
        ),
        (
            "/streams/0/tracked_flows",
            json!(1 << 20),
            "streams[0].tracked_flows",
        ),
        ("/tx_burst", json!(0), "tx_burst"),
        ("/tx_burst", json!(65), "tx_burst"),
        ("/latency_every", json!(0), "latency_every"),
        (
            "/capture",
            json!({"file": "/no/such/folder/x", "frames": 1}),
            "capture.file",
        ),
        (
            "/capture",
            json!({"file": "x", "frames": 0}),
            "capture.frames",
        ),
        ("/streams/0/flows", json!(0), "streams[0].flows"),
        ("/streams/0/flows", json!(16_711_426), "streams[0].flows"),
        ("/streams/0/tx_port", json!("middle"), "streams[0].tx_port"),
        ("/streams/0/rx_port", json!(""), "streams[0].rx_port"),
        (
            "/streams/0/template/layers/1/ipv4/dst",
            json!("48.0.0"),
            "streams[0].template.layers[1].ipv4.dst",
        ),
        (
            "/streams/0/template/layers/1/ipv4",
            json!({"src": "1.1.1.1", "dst": "1.1.1.2", "dscp": 64}),
            "streams[0].template.layers[1].ipv4.dscp",
        ),
        (
            "/streams/0/template/layers/0/ethernet/src",
            json!("02:00"),
            "streams[0].template.layers[0].ethernet.src",
        ),
        (
            "/streams/0/template/layers/2/udp/src",
            json!(65_536),
            "streams[0].template.layers[2].udp.src",
        ),
        (
            "/streams/0/fields/1/op/increment/count",
            json!(0),
            "streams[0].fields[1].op.increment.count",
        ),
        (
            "/streams/0/fields/0/op",
            json!({"spin": {}}),
            "streams[0].fields[0].op",
        ),
        (
            "/streams/0/fields/0/field",
            json!("ipv5.src"),
            "streams[0].fields[0].field",
        ),
        ("/streams/0/id", json!(256), "streams[0].id"),
        ("/duration_s", json!(0), "duration_s"),
        ("/duration_s", json!(1e9), "duration_s"),
        ("/drain_s", json!(-0.1), "drain_s"),
        ("/sample_interval_s", json!(0), "sample_interval_s"),
        ("/probe_cores", json!([[0, 4095]]), "probe_cores[0][1]"),
        ("/probe_cores", json!([[0, 1], [0, 0]]), "probe_cores[1]"),
        ("/probe_cores", json!(vec![[0, 1]; 65]), "probe_cores"),
        ("/epoch", json!(256), "epoch"),
    ];
    for (pointer, value, key) in cases {
        let mut request = run(0.01, &[stream(0, "left", "right", json!(1000.0))]);
        *request.pointer_mut(pointer).unwrap() = value;
        let (_, message) = error_of(&mut engine, &request);
        assert!(
            message.starts_with(&format!("{key}: ")),
            "{pointer}: {message}"
        );
    }
    engine.bye();
}

#[test]
fn ports_that_cannot_be_opened_are_named() {
    let mut engine = Engine::start();
    let cases = [
        (vec![], "invalid", "ports"),
        (vec![port("a", "mem", "p")], "port_open", "a"),
        (
            vec![port("a", "mem", "p"), port("a", "mem", "p")],
            "invalid",
            "ports[1].name",
        ),
        (
            vec![port("a", "mem", "p,loss=2"), port("b", "mem", "p")],
            "port_open",
            "a",
        ),
        (
            vec![port("a", "af_packet", "no-such-interface")],
            "port_open",
            "a",
        ),
        (
            vec![port("a", "af_packet", "")],
            "invalid",
            "ports[0].device",
        ),
    ];
    for (ports, code, at) in cases {
        let (found, message) = error_of(&mut engine, &open(&ports, &[]));
        assert_eq!(found, code, "{message}");
        assert!(message.starts_with(&format!("{at}: ")), "{message}");
    }
    let cases = [
        ("/workers", json!([]), "workers"),
        ("/workers/0/core", json!(4095), "workers[0].core"),
        ("/workers/0/ports", json!(["left"]), "ports[1].name"),
        (
            "/workers/0/ports",
            json!(["left", "right", "left"]),
            "workers[0].ports[2]",
        ),
        (
            "/workers/0/ports",
            json!(["left", "right", "up"]),
            "workers[0].ports[2]",
        ),
    ];
    for (pointer, value, key) in cases {
        let mut request = mem_pair("");
        *request.pointer_mut(pointer).unwrap() = value;
        let (_, message) = error_of(&mut engine, &request);
        assert!(message.starts_with(&format!("{key}: ")), "{message}");
    }
    let mut request = mem_pair("");
    request["longest_frame_bytes"] = json!(63);
    let (_, message) = error_of(&mut engine, &request);
    assert!(message.starts_with("longest_frame_bytes: "), "{message}");
    request["longest_frame_bytes"] = json!(64);
    assert_eq!(engine.ask(&request)["type"], "open");
    engine.bye();
}

#[test]
fn requests_out_of_order_are_refused() {
    let mut engine = Engine::start();
    let trial = run(0.01, &[stream(0, "left", "right", json!(1.0))]);
    assert_eq!(error_of(&mut engine, &trial).0, "state");
    assert_eq!(error_of(&mut engine, &json!({"type": "stop"})).0, "state");
    let hello = json!({"type": "hello", "protocol": 1});
    assert_eq!(error_of(&mut engine, &hello).0, "protocol");
    engine.bye();
}

#[test]
fn a_line_too_long_or_not_text_is_an_error_and_no_more() {
    let mut engine = Engine::start();
    engine.send_line(&vec![b'{'; (1 << 20) + 10]);
    assert_eq!(engine.receive()["code"], "malformed");
    engine.send_line(b"\xff\xfe");
    assert_eq!(engine.receive()["code"], "malformed");
    engine.send_line("[".repeat(100_000).as_bytes());
    assert_eq!(engine.receive()["code"], "malformed");
    engine.bye();
}

/// A request with one value somewhere replaced by another.
fn mutated() -> impl Strategy<Value = String> {
    let request = prop_oneof![
        Just(json!({"type": "hello", "protocol": 9})),
        Just(mem_pair("")),
        Just(run(0.001, &[stream(0, "left", "right", json!(1000.0))])),
        Just(in_slices()),
    ];
    let replacement = prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        Just(json!([])),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    (request, any::<prop::sample::Index>(), replacement).prop_map(|(mut request, at, new)| {
        let mut pointers = Vec::new();
        collect_pointers(&request, String::new(), &mut pointers);
        let pointer = at.get(&pointers);
        // A trial must stay short, and `type` must not become `bye`.
        if pointer != "/duration_s" && pointer != "/drain_s" {
            *request.pointer_mut(pointer).unwrap() = new;
        }
        request.to_string()
    })
}

/// It holds no process: a changed number would name a process of another owner.
fn in_slices() -> Value {
    let mut request = run(0.001, &[stream(0, "left", "right", json!(1000.0))]);
    request["slices"] = json!({"groups": [[0]], "order": [0, 0], "length_ns": 1_000_000,
        "settle_ns": 1000, "discard_ns": 1000, "hold": null});
    request
}

fn collect_pointers(value: &Value, at: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(keys) => {
            for (key, inner) in keys {
                collect_pointers(inner, format!("{at}/{key}"), pointers);
            }
        }
        Value::Array(items) => {
            for (k, inner) in items.iter().enumerate() {
                collect_pointers(inner, format!("{at}/{k}"), pointers);
            }
        }
        _ => {}
    }
    pointers.push(at);
}

#[test]
fn arbitrary_lines_are_answered_and_kill_nothing() {
    let mut engine = Engine::start();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let lines = prop_oneof!["[^\n\r]{1,80}", mutated()];
    let engine = std::cell::RefCell::new(&mut engine);
    runner
        .run(&lines, |line| {
            if line.trim().is_empty() {
                return Ok(());
            }
            let mut engine = engine.borrow_mut();
            engine.send_line(line.as_bytes());
            loop {
                match engine.receive()["type"].as_str() {
                    Some("sample") => {}
                    Some(_) => return Ok(()),
                    None => return Err(TestCaseError::fail("the engine died")),
                }
            }
        })
        .unwrap();
}
