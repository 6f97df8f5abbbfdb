//! The command form, run as a user runs it, with ports in memory.

mod connections;
mod ends;
mod files;
mod forward;
mod help;
mod lines;
mod relay;
mod replays;
mod sending;
mod workloads;

use serde_json::Value;
use std::process::{Command, Output, Stdio};

const PAIR: [&str; 5] = ["send", "--from", "mem:a", "--to", "mem:a"];

fn engine(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinchpoint-engine"));
    command.args(args).stdin(Stdio::null());
    command
}

fn output(args: &[&str]) -> Output {
    engine(args).output().unwrap()
}

fn pair(args: &[&str]) -> Output {
    output(&[&PAIR, args].concat())
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A stall of this machine must not make a difference: few frames, long time.
const SLOW: [&str; 4] = ["--rate", "100", "--time", "300ms"];
