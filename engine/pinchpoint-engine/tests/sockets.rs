//! Workloads over kernel sockets, asked for over the binary's pipes; on
//! loopback.

mod common;

use common::{Engine, core, mem_pair, run, stream};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

fn workload(kind: &str, duration_s: f64) -> Value {
    let place = json!({"netns": null, "core": core()});
    let (request, response) = if kind == "stream" {
        (65_536, 0)
    } else {
        (1, 1)
    };
    json!({"type": "sockets", "trial": "w", "kind": kind, "transport": "tcp", "client": place,
           "server": place, "sources": [], "listen": null, "port": 0, "target": null,
           "connections": 1, "request_bytes": request, "response_bytes": response,
           "rate_tps": null, "warm_up_s": 0.0, "duration_s": duration_s, "transactions": null,
           "timeout_s": 5.0, "close": "client", "wait": "block", "repeats": 1,
           "sample_interval_s": null})
}

/// Starts a workload of ten minutes and waits until it has told a sample.
fn under_way() -> Engine {
    let mut engine = Engine::start();
    let mut request = workload("rr", 600.0);
    request["sample_interval_s"] = json!(0.05);
    engine.send(&request);
    let sample = engine.receive();
    assert_eq!(sample["type"], "sockets_sample", "{sample}");
    engine
}

/// The first message that is no sample.
fn end(engine: &mut Engine) -> Value {
    loop {
        let message = engine.receive();
        if message["type"] != "sockets_sample" {
            return message;
        }
    }
}

#[test]
fn a_workload_needs_no_ports_and_leaves_the_session_as_it_was() {
    let mut engine = Engine::start();
    assert_eq!(engine.ask(&mem_pair(""))["type"], "open");
    for kind in ["rr", "crr", "stream"] {
        let result = engine.ask(&workload(kind, 0.1));
        assert_eq!(result["type"], "sockets_result", "{result}");
        assert_eq!(
            (&result["status"], &result["kind"]),
            (&json!("completed"), &json!(kind))
        );
        assert!(
            result["runs"][0]["received_bytes"].as_u64() > Some(0),
            "{result}"
        );
    }
    let result = engine.ask(&run(0.05, &[stream(0, "left", "right", json!(1000.0))]));
    assert_eq!(result["status"], "completed", "{result}");
    engine.bye();
}

#[test]
fn stop_ends_a_workload_with_its_counts_and_nothing_else_is_accepted_before() {
    let mut engine = under_way();
    engine.send(&json!({"type": "hello", "protocol": 7}));
    assert_eq!(end(&mut engine)["code"], "state");
    engine.send(&workload("rr", 0.1));
    assert_eq!(end(&mut engine)["code"], "state");
    engine.send(&json!({"type": "stop"}));
    let result = end(&mut engine);
    assert_eq!(result["status"], "stopped", "{result}");
    assert!(result["runs"][0]["transactions"].as_u64() > Some(0));
    assert_eq!(engine.ask(&json!({"type": "stop"}))["code"], "state");
    engine.bye();
}

#[test]
fn bye_ends_a_workload_in_order() {
    let mut engine = under_way();
    engine.send(&json!({"type": "bye"}));
    assert_eq!(end(&mut engine)["status"], "stopped");
    assert_eq!(engine.receive(), json!({"type": "bye"}));
    assert_eq!(engine.wait().code(), Some(0));
}

#[test]
fn the_end_of_input_and_sigterm_abort_a_workload_with_a_reason() {
    let mut engine = under_way();
    engine.close_input();
    let result = end(&mut engine);
    assert_eq!(
        (&result["status"], &result["reason"]),
        (&json!("aborted"), &json!("stdin ended"))
    );
    assert_eq!(engine.wait().code(), Some(0));

    let mut engine = under_way();
    kill(Pid::from_raw(engine.pid()), Signal::SIGTERM).unwrap();
    let result = end(&mut engine);
    assert_eq!(
        (&result["status"], &result["reason"]),
        (&json!("aborted"), &json!("SIGTERM"))
    );
    assert_eq!(engine.wait().code(), Some(143));
}

#[test]
fn a_workload_that_cannot_be_is_refused_with_its_key() {
    let mut engine = Engine::start();
    let mut request = workload("rr", 0.1);
    request["repeats"] = json!(0);
    let refused = engine.ask(&request);
    assert_eq!(refused["code"], "invalid");
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .starts_with("repeats: "),
        "{refused}"
    );
    let mut request = workload("rr", 0.1);
    request["client"]["netns"] = json!("pp-no-such-namespace");
    request["server"]["netns"] = json!("pp-no-such-namespace");
    assert_eq!(engine.ask(&request)["code"], "port_open");
    engine.bye();
}
