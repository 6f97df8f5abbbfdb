//! The command form, run as a user runs it, with ports in memory.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
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

#[test]
fn the_help_lists_every_command_and_its_examples_are_commands() {
    let help = stdout(&output(&["--help"]));
    for command in [
        "send",
        "listen",
        "rr",
        "crr",
        "stream",
        "relay",
        "backends",
        "completions",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        let own = output(&[command, "--help"]);
        assert_eq!(own.status.code(), Some(0));
        assert!(stdout(&own).contains(&format!("Usage: pinchpoint-engine {command}")));
    }
    let mut examples = 0;
    for line in help.replace("\\\n", " ").lines() {
        let Some(args) = line.trim().strip_prefix("pinchpoint-engine ") else {
            continue;
        };
        let mut args: Vec<&str> = args.split_whitespace().collect();
        if args[0] == "send" {
            args.push("--dry-run");
            assert_eq!(output(&args).status.code(), Some(0), "{line}");
        }
        examples += 1;
    }
    assert!(examples >= 5, "{help}");
}

#[test]
fn the_table_has_the_counts_of_the_result() {
    let table = pair(&SLOW);
    assert_eq!(table.status.code(), Some(0), "{}", stderr(&table));
    let row = stdout(&table);
    let row = row
        .lines()
        .find(|line| line.starts_with("0 a > a#2"))
        .unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    let result = json(&pair(&[&SLOW[..], &["--json"]].concat()));
    assert_eq!(result["type"], "result");
    let keys = ["intended", "offered", "sent", "received", "lost"];
    for (k, key) in keys.iter().enumerate() {
        assert_eq!(
            cells[4 + k],
            result["streams"][0][key].to_string(),
            "{key} in {row}"
        );
    }
    assert_eq!(result["streams"][0]["received"], 30);
}

#[test]
fn losses_of_the_path_are_in_the_table() {
    let args = [
        "--from",
        "mem:a",
        "--to",
        "mem:a,loss=1",
        "--rate",
        "100",
        "--time",
        "100ms",
    ];
    let table = output(&[&["send"], &args[..]].concat());
    let text = stdout(&table);
    assert!(text.contains("100.000 %"), "{text}");
    assert!(
        text.contains("nothing of stream 0 arrived at a#2"),
        "{text}"
    );
}

#[test]
fn a_value_that_does_not_fit_is_named_with_its_option() {
    for (args, told) in [
        (
            vec!["--rate", "fast"],
            "'fast' for '--rate <RATE>': expected frames a second",
        ),
        (
            vec!["--size", "63"],
            "--size: streams[0].size.fixed: expected 64 to 9022, got 63",
        ),
        (
            vec!["--time", "0"],
            "--time: duration_s: expected more than 0",
        ),
        (
            vec!["--cores", "99999"],
            "--cores: workers[0].core: core 99999 is not one",
        ),
        (vec!["--cores", "0,1,2"], "--cores: 3 cores for 2 port(s)"),
        (
            vec!["--src", "fd00::1", "--template", "icmp"],
            "--src fd00::1: these headers take IPv4",
        ),
        (
            vec!["--flows", "9", "--dst", "10.0.0.1-10.0.0.8"],
            "--flows 9: expected 1 to 8",
        ),
        (
            vec!["--field", "udp.sauce=list:1"],
            "'udp.sauce' is no field; expected one of",
        ),
        (vec!["--to", "none"], "--to: 2 for 1 --from"),
        (
            vec!["--layers", "/nonexistent"],
            "--layers /nonexistent: No such file",
        ),
        (
            vec!["--pcap", "/nonexistent:2"],
            "--pcap /nonexistent: byte 0: No such file",
        ),
        (
            vec!["--trex", "/nonexistent"],
            "--trex /nonexistent: line 1: No such file",
        ),
        (
            vec!["--tcp-flags", "syn"],
            "--tcp-flags: the frames of this template have no such",
        ),
        (
            vec!["--capture", "/nonexistent/x"],
            "--capture: capture.file: /nonexistent/x: No such",
        ),
        (
            vec!["--burst", "2", "--ramp", "10%"],
            "'--burst <N>' cannot be used with '--ramp",
        ),
    ] {
        let failed = pair(&args);
        assert_eq!(
            failed.status.code(),
            Some(2),
            "{args:?}: {}",
            stderr(&failed)
        );
        assert!(
            stderr(&failed).contains(told),
            "{args:?}: {}",
            stderr(&failed)
        );
        assert!(failed.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_port_that_cannot_be_opened_is_a_missing_requirement() {
    let failed = output(&["send", "--from", "af_packet:pp-none", "--time", "100ms"]);
    assert_eq!(failed.status.code(), Some(3), "{}", stderr(&failed));
    assert!(stderr(&failed).contains("pp-none"));
}

#[test]
fn every_template_is_sent_and_comes_back() {
    for template in [
        "udp", "udp6", "tcp-syn", "tcp6-syn", "icmp", "icmp6", "arp", "vxlan", "geneve", "gre",
        "ethernet",
    ] {
        for vlan in [&[][..], &["--vlan", "5,6"]] {
            let args = [&["--template", template, "--json"], vlan, &SLOW].concat();
            let sent = pair(&args);
            assert_eq!(sent.status.code(), Some(0), "{template}: {}", stderr(&sent));
            assert_eq!(json(&sent)["streams"][0]["received"], 30, "{template}");
        }
    }
}

/// A folder of this test's own, removed at the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pp-cli-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_capture_of_one_trial_is_the_template_of_the_next() {
    let folder = Folder::new("pcap");
    let capture = folder.file("x.pcapng");
    let first = [
        "--capture",
        &capture,
        "--capture-frames",
        "2",
        "--size",
        "100",
    ];
    let told = stdout(&pair(&[&first[..], &SLOW].concat()));
    assert!(
        told.contains("2 frames sent and 2 received are in"),
        "{told}"
    );
    let frame = format!("{capture}:3");
    let again = ["--pcap", &frame, "--dst-mac", "02:00:00:00:00:77"];
    let vary = [
        "--field",
        "udp.src=random:1024-65535:8",
        "--tracked-flows",
        "8",
        "--json",
    ];
    let result = json(&pair(&[&again[..], &vary, &SLOW].concat()));
    let stream = &result["streams"][0];
    assert_eq!(
        (&stream["received"], &stream["bytes_mean"]),
        (&30.into(), &100.0.into())
    );
    assert_eq!(stream["flows"]["tracked"], 8);
    let missing = pair(&["--pcap", &format!("{capture}:5")]);
    assert!(
        stderr(&missing).contains(":5: the capture has frames 1 to 4"),
        "{}",
        stderr(&missing)
    );
}

#[test]
fn a_profile_is_sent_at_its_rates_with_its_pairs_and_told_where_it_differs() {
    let folder = Folder::new("trex");
    let capture = folder.file("x.pcapng");
    pair(&[&["--capture", &capture, "--capture-frames", "1"], &SLOW[..]].concat());
    let profile = folder.file("p.yaml");
    let text = "- duration: 0.3\n  generator:\n    distribution: seq\n    \
                clients_start: 16.0.0.1\n    clients_end: 16.0.0.1\n    \
                servers_start: 48.0.0.1\n    servers_end: 48.0.0.255\n  cap_info:\n    \
                - name: x.pcapng\n      cps: 100\n      ipg: 10000\n      rtt: 10000\n      \
                w: 1\n      limit: 255\n";
    std::fs::write(&profile, text).unwrap();
    let sent = pair(&["--trex", &profile, "--json"]);
    assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
    assert!(
        stderr(&sent).contains("note: x.pcapng: "),
        "{}",
        stderr(&sent)
    );
    let result = json(&sent);
    // The frame was captured twice, where it was sent and where it arrived.
    for k in [0, 1] {
        assert_eq!(result["streams"][k]["intended"], 30, "{result}");
        assert_eq!(result["streams"][k]["received"], 30, "{result}");
    }
}

#[test]
fn headers_of_a_file_are_sent_and_a_wrong_key_is_named() {
    let folder = Folder::new("layers");
    let file = folder.file("l.json");
    let layers = r#"[{"ethernet": {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}},
        {"ipv6": {"src": "fd00::1", "dst": "fd00::2", "hop": 3}}, {"udp": {"src": 1, "dst": 2}}]"#;
    std::fs::write(&file, layers).unwrap();
    let refused = pair(&["--layers", &file]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("l.json: [1].ipv6.hop: unknown field"),
        "{}",
        stderr(&refused)
    );
    std::fs::write(&file, layers.replace("\"hop\"", "\"hop_limit\"")).unwrap();
    let args = ["--layers", &file, "--flows", "16", "--json"];
    let result = json(&pair(&[&args[..], &SLOW].concat()));
    assert_eq!(result["streams"][0]["received"], 30, "{result}");
}

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
    assert!(line.contains("1.0 s") && line.contains("s left"), "{line}");
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
fn workloads_are_told_as_a_table_or_as_the_result_line() {
    for kind in ["rr", "crr", "stream"] {
        let args = [kind, "--time", "100ms", "--warm-up", "0", "--repeats", "2"];
        let table = output(&args);
        assert_eq!(table.status.code(), Some(0), "{}", stderr(&table));
        let text = stdout(&table);
        assert!(text.contains("(95 % confidence), 2 runs"), "{text}");
        assert_eq!(text.contains("p99.99"), kind != "stream", "{text}");
        let result = json(&output(&[&args[..], &["--json"]].concat()));
        assert_eq!(result["type"], "sockets_result");
        assert_eq!(
            (&result["kind"], result["runs"].as_array().unwrap().len()),
            (&kind.into(), 2)
        );
    }
}

#[test]
fn a_workload_that_cannot_be_names_option_or_requirement() {
    for (args, status, told) in [
        (
            vec!["rr", "--time", "0"],
            2,
            "--time: duration_s: expected 0.001",
        ),
        (
            vec!["rr", "--client", "x"],
            2,
            "--address: listen: the client, in another namespace",
        ),
        (vec!["stream", "--udp"], 2, "unexpected argument '--udp'"),
        (
            vec!["crr", "--close", "nobody"],
            2,
            "'nobody' for '--close <WHO>'",
        ),
        (vec!["rr", "--address", "192.0.2.1"], 3, "192.0.2.1"),
    ] {
        let failed = output(&args);
        assert_eq!(
            failed.status.code(),
            Some(status),
            "{args:?}: {}",
            stderr(&failed)
        );
        assert!(
            stderr(&failed).contains(told),
            "{args:?}: {}",
            stderr(&failed)
        );
    }
}

#[test]
fn an_interrupted_workload_is_stopped_in_order_and_told() {
    let stopped = signalled(&["rr", "--time", "10m", "--json"], Signal::SIGINT);
    assert_eq!(stopped.status.code(), Some(130));
    assert_eq!(json(&stopped)["status"], "stopped");
}

#[test]
fn nothing_is_coloured_in_a_pipe_and_quiet_is_quiet() {
    let sent = pair(&["--time", "1100ms", "--rate", "100", "--quiet"]);
    assert!(
        !sent.stdout.contains(&0x1b) && sent.stderr.is_empty(),
        "{}",
        stderr(&sent)
    );
}

#[test]
fn completions_know_the_commands_and_their_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&output(&["completions", shell]));
        for word in ["both-ways", "listen", "tcp-syn"] {
            assert!(script.contains(word), "{word} in {shell}");
        }
    }
}

#[test]
fn the_backends_are_told_as_a_table_or_as_the_hello_line() {
    let table = stdout(&output(&["backends"]));
    assert!(
        table.contains("mem ") && table.contains("two ends in this process"),
        "{table}"
    );
    assert_eq!(json(&output(&["backends", "--json"]))["type"], "hello");
}

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
    assert!(stderr(&refused).contains("3 ports: a relay joins two and two"));
}
