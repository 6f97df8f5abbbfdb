//! The engine agrees with the golden files: it reads every line and writes it
//! back as the same JSON value.

use pinchpoint_engine::parse;
use pinchpoint_engine::protocol::Reply;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn lines(name: &str) -> Vec<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../protocol/golden").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(str::to_owned).collect()
}

fn value(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn requests_are_read_and_written_back_equal() {
    for line in lines("lab_to_engine.jsonl") {
        let request = parse::request(&line).unwrap();
        assert_eq!(serde_json::to_value(&request).unwrap(), value(&line));
    }
}

#[test]
fn replies_are_read_and_written_back_equal() {
    for line in lines("engine_to_lab.jsonl") {
        let reply: Reply = serde_json::from_str(&line).unwrap();
        assert_eq!(serde_json::to_value(&reply).unwrap(), value(&line));
    }
}

/// Requests and replies of workloads stand in one file.
#[test]
fn messages_of_workloads_are_read_and_written_back_equal() {
    let mut requests = 0;
    for line in lines("sockets.jsonl") {
        if value(&line)["type"] == "sockets" {
            let request = parse::request(&line).unwrap();
            assert_eq!(serde_json::to_value(&request).unwrap(), value(&line));
            requests += 1;
        } else {
            let reply: Reply = serde_json::from_str(&line).unwrap();
            assert_eq!(serde_json::to_value(&reply).unwrap(), value(&line));
        }
    }
    assert!(requests > 0);
}

/// Those of loads, too.
#[test]
fn messages_of_loads_are_read_and_written_back_equal() {
    let mut requests = 0;
    for line in lines("connections.jsonl") {
        let mut message = value(&line);
        if message["type"] == "connections" {
            let request = parse::request(&line).unwrap();
            assert_eq!(serde_json::to_value(&request).unwrap(), message);
            requests += 1;
        } else {
            let reply: Reply = serde_json::from_str(&line).unwrap();
            assert_eq!(serde_json::to_value(&reply).unwrap(), message);
            message["surprise"] = Value::Null;
            assert!(serde_json::from_value::<Reply>(message).is_err());
        }
    }
    assert!(requests > 0);
}

#[test]
fn an_unknown_key_is_refused_in_every_request() {
    let of_loads = lines("connections.jsonl").into_iter();
    let of_loads = of_loads.filter(|line| value(line)["type"] == "connections");
    for line in lines("lab_to_engine.jsonl").into_iter().chain(of_loads) {
        let mut request = value(&line);
        request["surprise"] = Value::Null;
        let error = parse::request(&request.to_string()).unwrap_err();
        assert!(error.message.contains("surprise"), "{}", error.message);
    }
}
