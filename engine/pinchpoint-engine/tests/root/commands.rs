//! The command form between namespaces.

use super::common::core;
use super::common::kernel_threads::kernel_threads;
use super::{Veth, ip};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// The last line that the command form prints.
fn command(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_pinchpoint-engine"))
        .args(args)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Checks that `listen` at a port counts what `send` sends, which returns how many frames.
fn listens_while(port: &str, send: impl FnOnce() -> u64) {
    let mut listening = Command::new(env!("CARGO_BIN_EXE_pinchpoint-engine"))
        .args(["listen", port, "--time", "60s", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(listening.stderr.take().unwrap()).lines();
    let mut arrived = || -> u64 {
        let line = progress.next().unwrap().unwrap();
        let (before, _) = line.split_once(" so far").unwrap();
        let count = before.rsplit(' ').next().unwrap();
        count.replace(',', "").parse().unwrap()
    };
    arrived(); // it listens
    let sent = send();
    assert!(sent > 0);
    // Neighbours' own frames may come on top.
    while arrived() < sent {}
    kill(Pid::from_raw(listening.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = listening.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let heard: Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |key: &str| heard["ports"][0][key].as_u64().unwrap();
    assert!(count("late") + count("foreign") >= sent, "{heard}");
}

#[test]
#[ignore = "needs root"]
fn commands_send_listen_and_transact_between_namespaces() {
    let veth = Veth::new().addressed();
    let left = format!("af_packet:end@{}", veth.left);
    let right = format!("af_packet:end@{}", veth.right);
    let path = ["send", "--from", &left, "--to", &right, "--both-ways"];
    let load = ["--rate", "1k", "--time", "500ms", "--flows", "100"];
    let result = command(&[&path[..], &load, &["--drain", "1s", "--json"]].concat());
    for k in [0, 1] {
        assert_eq!(result["streams"][k]["lost"], 0, "{result}");
        assert!(result["streams"][k]["received"].as_u64() > Some(0));
    }
    listens_while(&right, || {
        let sent = command(&[&["send", "--from", &left, "--json"], &load[..]].concat());
        sent["streams"][0]["sent"].as_u64().unwrap()
    });
    let places = ["--client", &veth.left, "--server", &veth.right];
    let rr = ["rr", "--address", "10.78.0.2", "--time", "200ms", "--json"];
    let result = command(&[&rr[..], &places].concat());
    assert_eq!(result["runs"][0]["failed"], 0, "{result}");
}

#[test]
#[ignore = "needs root"]
fn a_relay_joins_two_links_for_frames_of_every_size_and_for_tcp() {
    let (one, two) = (Veth::named("one"), Veth::named("two"));
    let outer = [&one, &two].map(|veth| format!("af_packet:end@{}", veth.right));
    let inner = [&one, &two].map(|veth| format!("af_packet:end@{}", veth.left));
    let mut child = Command::new(env!("CARGO_BIN_EXE_pinchpoint-engine"))
        .args(["relay", &outer[0], &outer[1], "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let path = [
        "send",
        "--from",
        &inner[0],
        "--to",
        &inner[1],
        "--both-ways",
    ];
    let load = ["--rate", "2k", "--time", "500ms", "--size", "64-1518"];
    let result = command(&[&path[..], &load, &["--drain", "1s", "--json"]].concat());
    for k in [0, 1] {
        assert_eq!(result["streams"][k]["lost"], 0, "{result}");
        assert_eq!(result["streams"][k]["reordered"], 0, "{result}");
        assert_eq!(result["streams"][k]["corrupt"], 0, "{result}");
    }
    for (veth, host) in [(&one, 1), (&two, 2)] {
        let netns = &veth.left;
        ip(&format!("-n {netns} address add 10.78.1.{host}/24 dev end"));
        let words = ["netns", "exec", netns, "ethtool", "-K", "end", "tx", "off"];
        let mut ethtool = Command::new("ip");
        let status = ethtool.args(words).stdout(Stdio::null()).status();
        assert!(status.unwrap().success());
    }
    let places = ["--client", &one.left, "--server", &two.left];
    let crr = ["crr", "--address", "10.78.1.2", "--time", "200ms", "--json"];
    let connected = command(&[&crr[..], &places].concat());
    assert_eq!(connected["runs"][0]["failed"], 0, "{connected}");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    let account: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let directions = account["directions"].as_array().unwrap();
    for (k, way) in directions.iter().enumerate() {
        // All frames of that way, and those of TCP.
        let sent = result["streams"][k]["sent"].as_u64();
        assert!(way["sent"].as_u64() > sent, "{account}");
        assert_eq!(way["received"], way["sent"], "{account}");
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
#[ignore = "needs root"]
fn connections_cross_a_link_between_namespaces() {
    let veth = Veth::new();
    let [client, server] = [&veth.left, &veth.right].map(|ns| format!("af_packet:end@{ns}"));
    let path = ["connect", &client, &server, "--to", "10.0.0.100:80"];
    let load = [
        "--rate",
        "1k",
        "--count",
        "500",
        "--timeout",
        "60s",
        "--requests",
        "2",
    ];
    let ends = [
        "--clients",
        "10.0.1.1-10.0.1.9",
        "--backend",
        "10.0.0.100:80",
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_pinchpoint-engine"))
        .args([&path[..], &load, &ends, &["--json"]].concat())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let told: Value = serde_json::from_str(text.strip_prefix("ready\n").unwrap()).unwrap();
    let client = &told["client"];
    let opened = client["opened"].as_u64().unwrap();
    assert!(opened > 0, "{told}");
    assert_eq!(client["completed"], opened, "{told}");
    assert_eq!(
        told["server"]["backends"][0]["requests"],
        2 * opened,
        "{told}"
    );
}

/// Has one thread of the kernel, on the core, hand over what arrives at the
/// right end; a process of real-time priority there keeps it from running.
fn hand_over_by_a_thread(veth: &Veth, core: usize) {
    let threaded = "ethtool -K end gro on && echo 1 >/sys/class/net/end/threaded";
    for (namespace, script) in [
        (&veth.left, "ethtool -K end tso off"), // what TSO sends is not queued for the thread
        (&veth.right, threaded),
    ] {
        let status = Command::new("ip")
            .args(["netns", "exec", namespace, "sh", "-c", script])
            .status()
            .unwrap();
        assert!(status.success(), "{script}");
    }
    let mut cores = CpuSet::new();
    cores.set(core).unwrap();
    for thread in kernel_threads("napi/end-").unwrap() {
        sched_setaffinity(Pid::from_raw(thread), &cores).unwrap();
    }
}

#[test]
#[ignore = "needs root"]
fn frames_that_the_kernel_could_not_hand_over_while_the_engine_polled_are_received() {
    if kernel_threads("kthreadd").is_none() {
        return;
    }
    let veth = Veth::named("starved");
    let core = core();
    hand_over_by_a_thread(&veth, core);
    let (left, right) = (
        format!("af_packet:end@{}", veth.left),
        format!("af_packet:end@{}", veth.right),
    );
    let path = [
        "send",
        "--from",
        &left,
        "--to",
        &right,
        "--cores",
        &core.to_string(),
    ];
    // Shorter than the second of which the kernel gives 5 % to other threads, and so few frames
    // that all are sent after a pause of the host.
    let load = ["--rate", "300", "--time", "100ms", "--drain", "600ms"];
    let output = Command::new("chrt")
        .args(["-f", "1", env!("CARGO_BIN_EXE_pinchpoint-engine")])
        .args([&path[..], &load, &["--json"]].concat())
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let account = &result["streams"][0];
    assert_eq!(account["sent"], 30, "{result}");
    assert_eq!(account["received"], 30, "{result}");
}
