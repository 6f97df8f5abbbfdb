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

/// Starts a workload of ten minutes and waits until a sample tells transactions.
fn under_way() -> Engine {
    let mut engine = Engine::start();
    let mut request = workload("rr", 600.0);
    request["sample_interval_s"] = json!(0.05);
    engine.send(&request);
    loop {
        let sample = engine.receive();
        assert_eq!(sample["type"], "sockets_sample", "{sample}");
        if sample["transactions"].as_u64() > Some(0) {
            return engine;
        }
    }
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
    // What a stream brings counts only within the window: that outlasts a pause of the server.
    for (kind, duration_s) in [("rr", 0.1), ("crr", 0.1), ("stream", 1.0)] {
        let result = engine.ask(&workload(kind, duration_s));
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
    engine.send(&json!({"type": "hello", "protocol": 9}));
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

/// A server alone, and its address.
fn listening(kind: &str, duration_s: f64) -> (Engine, Value) {
    let mut server = Engine::start();
    let mut request = workload(kind, duration_s);
    request["client"] = Value::Null;
    let told = server.ask(&request);
    assert_eq!(told["type"], "sockets_listening", "{told}");
    let address = told["address"].clone();
    assert!(address.as_str().unwrap().starts_with("127.0.0.1:"));
    (server, address)
}

#[test]
fn two_engines_have_an_end_each_and_the_server_serves_until_it_is_stopped() {
    let (mut server, address) = listening("stream", 600.0);
    let mut client = Engine::start();
    let mut request = workload("stream", 0.1);
    request["server"] = Value::Null;
    request["target"] = address.clone();
    let result = client.ask(&request);
    assert_eq!(result["status"], "completed", "{result}");
    assert_eq!(
        (&result["server"], &result["runs"][0]["received_bytes"]),
        (&Value::Null, &Value::Null)
    );
    let served = server.ask(&json!({"type": "stop"}));
    assert_eq!(served["type"], "sockets_served", "{served}");
    assert_eq!(
        (&served["status"], &served["address"]),
        (&json!("stopped"), &address)
    );
    let window = &served["window"];
    assert!(window["received_bytes"].as_u64() > Some(0), "{served}");
    client.bye();
    // One that had ended with the last stream answers `stop` with an error as well.
    server.close_input();
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn the_end_of_input_ends_a_server_and_a_client_alone() {
    let (mut server, address) = listening("rr", 600.0);
    let mut client = Engine::start();
    let mut request = workload("rr", 600.0);
    request["server"] = Value::Null;
    request["target"] = address;
    client.send(&request);
    client.close_input();
    let result = end(&mut client);
    // It may have ended before it had connected.
    let told = [&result["reason"], &result["message"]].map(|text| text.as_str().unwrap_or(""));
    assert!(told.concat().contains("ended"), "{result}");
    server.close_input();
    let served = end(&mut server);
    assert_eq!(
        (&served["status"], &served["reason"]),
        (&json!("aborted"), &json!("stdin ended"))
    );
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(client.wait().code(), Some(0));
}

#[test]
fn a_server_that_cannot_listen_names_the_address() {
    let mut server = Engine::start();
    let mut request = workload("rr", 0.1);
    request["client"] = Value::Null;
    request["listen"] = json!("203.0.113.1");
    let refused = server.ask(&request);
    assert_eq!(refused["code"], "port_open", "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("203.0.113.1"), "{message}");
    server.bye();
}
