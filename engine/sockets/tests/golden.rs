//! The crate agrees with the golden file: it reads every line and writes it
//! back as the same JSON value.

use pinchpoint_sockets::message::{Message, SocketsRequest};
use pinchpoint_sockets::{FailureKind, Kind, Live, Side, Status, Transport, Workload, result, run};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

fn lines() -> Vec<Value> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../protocol/golden/sockets.jsonl");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn request() -> Value {
    let mut request = lines().remove(0);
    request.as_object_mut().unwrap().remove("type");
    request
}

/// The message of the failure that `key` with `value` brings.
fn refused(key: &str, value: Value) -> String {
    let mut request = request();
    request[key] = value;
    let request: SocketsRequest = serde_json::from_value(request).unwrap();
    let failure = request.workload().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Invalid);
    failure.message
}

#[test]
fn every_message_is_read_and_written_back_equal() {
    let lines = lines();
    for line in &lines {
        let message: Message = serde_json::from_value(line.clone()).unwrap();
        assert_eq!(&serde_json::to_value(&message).unwrap(), line);
    }
    let types: Vec<&str> = lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    for kind in [
        "sockets",
        "sockets_sample",
        "sockets_result",
        "sockets_listening",
        "sockets_served",
    ] {
        assert!(types.contains(&kind), "{kind} has no example");
    }
}

#[test]
fn unknown_and_missing_keys_are_refused_in_every_message() {
    for line in lines() {
        let mut more = line.clone();
        more["surprise"] = Value::Null;
        let error = serde_json::from_value::<Message>(more).unwrap_err();
        assert!(error.to_string().contains("surprise"), "{error}");
        let keys: Vec<String> = line.as_object().unwrap().keys().cloned().collect();
        for key in keys {
            let mut less = line.clone();
            less.as_object_mut().unwrap().remove(&key);
            let error = serde_json::from_value::<Message>(less).unwrap_err();
            assert!(error.to_string().contains(&key), "{key}: {error}");
        }
    }
}

#[test]
fn every_golden_request_can_be_met() {
    for line in lines() {
        if let Message::Sockets(request) = serde_json::from_value(line).unwrap() {
            request.workload().unwrap();
        }
    }
}

#[test]
fn a_value_that_cannot_be_met_is_refused_by_its_key() {
    let cases = [
        ("duration_s", json!(0.0)),
        ("duration_s", json!(-1.0)),
        ("duration_s", json!(1e300)),
        ("warm_up_s", json!(90_000.0)),
        ("timeout_s", json!(0.0)),
        ("rate_tps", json!(0.0)),
        ("rate_tps", json!(1e9)),
        ("connections", json!(0)),
        ("connections", json!(1_000_000)),
        ("request_bytes", json!(0)),
        ("response_bytes", json!(0)),
        ("response_bytes", json!(1_u64 << 40)),
        ("transactions", json!(0)),
        ("repeats", json!(0)),
        ("listen", json!("0.0.0.0")),
        ("listen", json!("127.0.0.1")),
        ("listen", json!(null)),
        ("target", json!("10.0.0.9:0")),
        ("sample_interval_s", json!(0.0)),
        ("trial", json!("x".repeat(300))),
    ];
    for (key, value) in cases {
        let message = refused(key, value.clone());
        assert!(
            message.starts_with(&format!("{key}: ")),
            "{value}: {message}"
        );
    }
    assert!(refused("sources", json!(["10.1.0.1", "::1"])).starts_with("sources[1]: "));
    let mut request = request();
    request["client"] = Value::Null;
    let one_end = |request: &Value| -> String {
        let request: SocketsRequest = serde_json::from_value(request.clone()).unwrap();
        request.workload().unwrap_err().message
    };
    assert!(one_end(&request).starts_with("sample_interval_s: "));
    request["server"] = Value::Null;
    assert!(one_end(&request).starts_with("client: "));
    let same_core = json!({"netns": "lab-a", "core": 1});
    request["client"] = same_core.clone();
    request["server"] = json!({"netns": "lab-b", "core": 1});
    request["wait"] = json!("spin");
    let request: SocketsRequest = serde_json::from_value(request).unwrap();
    assert!(
        request
            .workload()
            .unwrap_err()
            .message
            .starts_with("wait: ")
    );
}

#[test]
fn a_server_has_all_addresses_only_of_a_named_namespace_and_behind_a_target() {
    let mut request = request();
    request["listen"] = json!("0.0.0.0");
    request["target"] = json!("10.0.0.100:80");
    let read =
        |request: &Value| -> SocketsRequest { serde_json::from_value(request.clone()).unwrap() };
    read(&request).workload().unwrap();
    request["server"]["netns"] = Value::Null;
    let failure = read(&request).workload().unwrap_err();
    assert!(failure.message.starts_with("listen: "), "{failure:?}");
}

#[test]
fn a_thread_that_moves_has_its_core_among_its_cores() {
    for side in ["client", "server"] {
        let place = json!({"netns": "lab-a", "core": 2, "cpus": [0, 1]});
        let message = refused(side, place);
        assert!(message.starts_with(&format!("{side}.core: ")), "{message}");
    }
}

#[test]
fn a_stream_has_neither_responses_nor_a_number_and_only_datagrams_have_a_rate() {
    let stream = Workload::loopback(Kind::Stream, Transport::Tcp);
    stream.check().unwrap();
    let datagrams = Workload {
        rate_tps: Some(1.0),
        ..Workload::loopback(Kind::Stream, Transport::Udp)
    };
    datagrams.check().unwrap();
    let cases: [(&str, Workload); 5] = [
        (
            "response_bytes",
            Workload {
                response_bytes: 1,
                ..stream.clone()
            },
        ),
        (
            "rate_tps",
            Workload {
                rate_tps: Some(1.0),
                ..stream.clone()
            },
        ),
        (
            "transactions",
            Workload {
                transactions: Some(1),
                ..stream.clone()
            },
        ),
        (
            "request_bytes",
            Workload {
                request_bytes: 4,
                ..datagrams.clone()
            },
        ),
        (
            "transport",
            Workload {
                elsewhere: Some(Side::Client),
                ..datagrams
            },
        ),
    ];
    for (key, work) in cases {
        let message = work.check().unwrap_err().message;
        assert!(message.starts_with(&format!("{key}: ")), "{message}");
    }
}

#[test]
fn an_outcome_becomes_a_message_that_can_be_read() {
    let work = Workload {
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(50),
        ..Workload::loopback(Kind::Rr, Transport::Tcp)
    };
    let outcome = run(&work, &Live::default()).unwrap();
    assert_eq!(outcome.status, Status::Completed);
    let message = Message::SocketsResult(Box::new(result("t".to_owned(), &work, &outcome)));
    let text = serde_json::to_string(&message).unwrap();
    assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), message);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["close"], Value::Null);
    assert_eq!(
        value["runs"][0]["latency"]["count"],
        value["runs"][0]["transactions"]
    );
    assert_eq!(value["runs"][0]["service"], Value::Null);
}
