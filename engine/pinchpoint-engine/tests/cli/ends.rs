//! Trials and workloads that are interrupted.

use super::{PAIR, engine, json};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

/// Starts a trial of ten minutes, sends `signal` once it has told a line, and
/// returns what came of it.
fn signalled(args: &[&str], signal: Signal) -> Output {
    let mut child = engine(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.contains("s left"), "{line}");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn an_interrupted_trial_is_stopped_in_order_and_told() {
    let args = [&PAIR[..], &["--time", "10m", "--rate", "100", "--json"]].concat();
    let stopped = signalled(&args, Signal::SIGINT);
    assert_eq!(stopped.status.code(), Some(130));
    let result = json(&stopped);
    assert_eq!(result["status"], "stopped");
    assert_eq!(result["streams"][0]["lost"], 0);
}

#[test]
fn a_terminated_trial_is_aborted_and_told() {
    let args = [&PAIR[..], &["--time", "10m", "--rate", "100", "--json"]].concat();
    let aborted = signalled(&args, Signal::SIGTERM);
    assert_eq!(aborted.status.code(), Some(143));
    assert_eq!(json(&aborted)["status"], "aborted");
}

#[test]
fn listening_ends_in_order_when_interrupted() {
    let stopped = signalled(&["listen", "mem:a", "mem:a"], Signal::SIGINT);
    assert_eq!(stopped.status.code(), Some(130));
    let text = String::from_utf8(stopped.stdout).unwrap();
    assert!(
        text.starts_with("stopped after ") && text.contains("\nport  arrived  fps\n"),
        "{text}"
    );
}

#[test]
fn an_interrupted_workload_is_stopped_in_order_and_told() {
    let stopped = signalled(&["rr", "--time", "10m", "--json"], Signal::SIGINT);
    assert_eq!(stopped.status.code(), Some(130));
    assert_eq!(json(&stopped)["status"], "stopped");
}
