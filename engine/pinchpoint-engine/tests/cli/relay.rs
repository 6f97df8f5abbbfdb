//! The relay between two ports.

use super::{engine, output, stderr};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn a_relay_says_when_it_is_ready_tells_when_asked_and_ends_in_order() {
    let args = ["relay", "mem:a", "mem:a", "--json"];
    let mut child = engine(&args).stdout(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    assert_eq!(line(), "ready");
    for signal in [Signal::SIGUSR1, Signal::SIGTERM] {
        kill(pid, signal).unwrap();
        let account: Value = serde_json::from_str(&line()).unwrap();
        assert_eq!(account["type"], "relay");
        let directions = account["directions"].as_array().unwrap();
        let ways = directions.iter().map(|way| [&way["from"], &way["to"]]);
        assert_eq!(ways.collect::<Vec<_>>(), [["a", "a#2"], ["a#2", "a"]]);
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_relay_ends_with_its_input_if_it_is_told_to() {
    let args = ["relay", "mem:a", "mem:a", "--until-eof"];
    let mut command = engine(&args);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    drop(child.stdin.take());
    let table: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(table[0].starts_with("direction  received  sent  dropped"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_relay_refuses_ports_that_make_no_pairs() {
    let refused = output(&["relay", "mem:a", "mem:a", "mem:b"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("3 ports: expected an even number"));
}
