//! The device of known truth, and the reflector.

use super::{engine, output, stderr};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

#[test]
fn a_device_answers_each_request_for_its_counters_and_ends_with_its_input() {
    let args = [
        "forward", "mem:a", "mem:a", "--rate", "500k", "--ring", "64",
    ];
    let more = ["--offloaded", "--loss", "tx:every=10", "--drop", "stream=3"];
    let command = [&args[..], &more[..], &["--until-eof", "--json"]].concat();
    let mut command = engine(&command);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    assert_eq!(line(), "ready");
    input.write_all(b"counters\ncounters\n").unwrap();
    let accounts: Vec<Value> = (0..2)
        .map(|_| serde_json::from_str(&line()).unwrap())
        .collect();
    for account in &accounts {
        assert_eq!(
            (&account["type"], &account["offloaded"]),
            (&"forward".into(), &true.into())
        );
        for directions in ["directions", "truth"] {
            let [there, back] = &account[directions].as_array().unwrap()[..] else {
                panic!("{account}")
            };
            assert_eq!([&there["from"], &there["to"]], ["a", "a#2"]);
            assert_eq!([&back["from"], &back["to"]], ["a#2", "a"]);
            assert_eq!(there["drops"]["rules"], serde_json::json!([0]));
        }
    }
    drop(input);
    let last: Value = serde_json::from_str(&line()).unwrap();
    assert_eq!(last["type"], "forward");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_device_refuses_what_it_cannot_be() {
    for (args, expected) in [
        (
            &["mem:a", "mem:a", "mem:b", "mem:b"][..],
            "4 ports: expected two",
        ),
        (
            &["mem:a", "mem:a", "--drop", "color=red"],
            "'color=red': expected stream=",
        ),
        (
            &["mem:a", "mem:a", "--loss", "ring:every=2"],
            "expected rx, table or tx",
        ),
        (
            &["mem:a", "mem:a", "--pause", "1ms:2ms"],
            "the period the longer one",
        ),
    ] {
        let refused = output(&[&["forward"], args].concat());
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(stderr(&refused).contains(expected), "{}", stderr(&refused));
    }
}

const BALANCE: [&str; 7] = [
    "balance",
    "mem:a",
    "mem:a",
    "--service",
    "10.0.0.100:80",
    "--backend",
    "10.1.0.1:8080",
];

#[test]
fn a_balancer_answers_for_its_counters_and_forgets_when_told_to() {
    let more = [
        "--local",
        "10.1.0.240-10.1.0.241",
        "--local-ports",
        "1025-2024",
    ];
    let command = [&BALANCE[..], &more[..], &["--until-eof", "--json"]].concat();
    let mut command = engine(&command);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    assert_eq!(line(), "ready");
    input.write_all(b"flush\ncounters\n").unwrap();
    let account: Value = serde_json::from_str(&line()).unwrap();
    assert_eq!(account["type"], "balance");
    assert_eq!(
        account["local_ends"],
        serde_json::json!({"size": 2000, "used": 0})
    );
    assert_eq!(
        account["table"],
        serde_json::json!({"size": 65536, "used": 0})
    );
    assert_eq!(account["closed_timeout_s"], 7.0);
    assert_eq!(account["connections"]["flushed"], 0);
    assert_eq!(account["directions"][0]["drops"]["table_full"], 0);
    drop(input);
    let last: Value = serde_json::from_str(&line()).unwrap();
    assert_eq!(last["dealt"], serde_json::json!([0]));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_balancer_refuses_what_it_cannot_be() {
    for (args, expected) in [
        (&["mem:b", "mem:b"][..], "4 ports: expected two"),
        (&["--backend", "10.1.0.1:8080"], "there are two"),
        (&["--connections", "5M"], "expected 1 to 4194304"),
        (&["--weights", "1,2"], "--weights: expected 1 numbers"),
        (&["--weights", "0"], "not only zeros"),
        (
            &["--slow-backend", "1:5ms"],
            "--slow-backend 1: expected at most 0",
        ),
        (&["--toa"], "--local"),
        (&["--local", "fd00::1"], "expected the family of --service"),
        (
            &["--backend", "[fd00::1]:80"],
            "expected the family of --service",
        ),
        (&["--direct", "--local", "10.1.0.2"], "cannot be used with"),
        (&["--local", "10.0.0.0/16"], "expected at most 268435456"),
    ] {
        let refused = output(&[&BALANCE[..], args].concat());
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(stderr(&refused).contains(expected), "{}", stderr(&refused));
    }
}

#[test]
fn a_reflector_says_when_it_is_ready_and_what_it_sent_back() {
    let args = [
        "reflect",
        "mem:a",
        "mem:a",
        "--swap",
        "ip",
        "--until-eof",
        "--json",
    ];
    let mut command = engine(&args);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    drop(child.stdin.take());
    let account: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(account["type"], "reflect");
    assert_eq!(account["reflected"][1]["port"], "a#2");
}

#[test]
fn an_inspector_says_what_came_to_each_port() {
    let args = [
        "inspect",
        "mem:a",
        "mem:a",
        "--forward",
        "--until-eof",
        "--json",
    ];
    let mut command = engine(&args);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    drop(child.stdin.take());
    let account: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(account["type"], "inspect");
    assert_eq!(account["seen"][1]["port"], "a#2");
    assert_eq!(account["seen"][1]["frames"], 0);
    assert_eq!(account["seen"][1]["first_s"], Value::Null);
    let refused = output(&["inspect", "mem:a", "--forward"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("even number with --forward"));
}
