//! The protocol's lines, as the command form shows them.

use super::{SLOW, engine, output, pair, stdout};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

#[test]
fn a_dry_run_prints_lines_that_the_engine_takes() {
    let args = [
        "--both-ways",
        "--flows",
        "65536",
        "--size",
        "imix",
        "--dry-run",
    ];
    let lines = stdout(&pair(&[&args[..], &SLOW].concat()));
    let parsed: Vec<Value> = lines.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(parsed[0]["longest_frame_bytes"], 1518);
    assert_eq!(parsed[1]["streams"][1]["tx_port"], "a#2");
    let fields = |k: usize| parsed[1]["streams"][k]["fields"].to_string();
    assert!(fields(0).starts_with(r#"[{"field":"ipv4.dst","op":{"increment":{"count":65535"#));
    assert!(fields(1).starts_with(r#"[{"field":"ipv4.src","op":{"increment":{"count":65535"#));
    let replies = converse(&lines);
    assert_eq!(replies[0]["type"], "open");
    assert_eq!(replies[1]["status"], "completed", "{}", replies[1]);
}

#[test]
fn the_example_of_the_protocol_can_be_piped_in() {
    let told = stdout(&output(&["--help-protocol"]));
    let lines: Vec<&str> = told.lines().filter(|line| line.starts_with('{')).collect();
    let replies = converse(&lines.join("\n"));
    assert_eq!(replies[1]["status"], "completed", "{}", replies[1]);
}

/// The replies to `lines`, which end in a result.
fn converse(lines: &str) -> Vec<Value> {
    let mut child = engine(&[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{lines}").unwrap();
    let mut replies = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let reply: Value = line.unwrap().parse().unwrap();
        let last = ["result", "error"].contains(&reply["type"].as_str().unwrap());
        if reply["type"] != "sample" {
            replies.push(reply);
        }
        if last {
            break;
        }
    }
    drop(input);
    child.wait().unwrap();
    replies
}
