//! TCP connections over frames, between two ports in memory.

use super::{engine, output, stderr, stdout};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

const PAIR: [&str; 7] = [
    "connect",
    "mem:a",
    "mem:a",
    "--to",
    "10.0.0.100:80",
    "--backend",
    "10.0.0.100:80",
];
/// However long this machine stands still, none of these times out.
const SLOW: [&str; 6] = ["--rate", "1k", "--count", "200", "--timeout", "60s"];

fn connect(args: &[&str]) -> Output {
    output(&[&PAIR[..], &SLOW, args].concat())
}

fn account(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    let text = stdout(output);
    let line = text.strip_prefix("ready\n").unwrap();
    serde_json::from_str(line).unwrap()
}

/// Four workers on two cores, or on the only one.
fn four_workers() -> String {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let cores = (0..CpuSet::count()).filter(|&core| set.is_set(core).unwrap());
    let cores: Vec<usize> = cores.take(2).collect();
    let core = |worker: usize| cores[worker % cores.len()].to_string();
    (0..4).map(core).collect::<Vec<_>>().join(",")
}

#[test]
fn four_workers_account_together_for_every_connection() {
    let cores = four_workers();
    let several = ["--cores", &cores, "--clients", "16.0.0.1-16.0.0.4"];
    let told = account(&connect(&[&several[..], &["--late", "--json"]].concat()));
    let (client, server) = (&told["client"], &told["server"]);
    for key in ["opened", "established", "answered", "completed"] {
        assert_eq!(client[key], 200, "{key}: {told}");
    }
    for key in ["connect_ns", "answer_ns", "close_ns"] {
        assert_eq!(client[key]["count"], 200, "{key}: {told}");
    }
    for key in ["syns", "requests", "fins"] {
        assert_eq!(server["backends"][0][key], 200, "{key}: {told}");
    }
    assert_eq!(client["backends"], serde_json::json!([200]));
    let sources = server["sources"]["listed"].as_array().unwrap();
    assert_eq!(sources.len(), 4, "{told}");
    assert_eq!(client["reused"], Value::Null);
    assert_eq!(told["cores"].as_array().unwrap().len(), 4);
    assert_eq!(told["ports"].as_array().unwrap().len(), 2);
    assert_eq!(told["handed"]["lost"], 0, "{told}");
}

#[test]
fn samples_of_several_workers_are_those_of_all() {
    let cores = four_workers();
    let sampled = ["--cores", &cores, "--late", "--sample", "50ms", "--json"];
    let output = connect(&sampled);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let lines = text.strip_prefix("ready\n").unwrap().lines();
    let told: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [.., last, account] = &told[..] else {
        panic!("{text}");
    };
    assert_eq!(
        (&last["type"], &last["opened"]),
        (&"sample".into(), &200.into())
    );
    for key in ["answered", "completed", "backends"] {
        assert_eq!(last[key], account["client"][key], "{key}: {last}");
    }
}

#[test]
fn connections_are_opened_answered_and_closed_from_one_port_to_another() {
    let told = account(&connect(&["--clients", "16.0.0.1-16.0.0.4", "--json"]));
    let (client, backend) = (&told["client"], &told["server"]["backends"][0]);
    let opened = client["opened"].as_u64().unwrap();
    assert_eq!(opened + client["shortfall"].as_u64().unwrap(), 200);
    for key in ["established", "answered", "completed"] {
        assert_eq!(client[key], opened, "{key}: {told}");
    }
    for key in ["syns", "requests", "fins", "closed"] {
        assert_eq!(backend[key], opened, "{key}: {told}");
    }
    assert_eq!(client["backends"], serde_json::json!([opened]));
    assert_eq!(client["local"]["listed"].as_array().unwrap().len(), 4);
    for key in ["connect_ns", "answer_ns", "close_ns"] {
        assert_eq!(client[key]["count"], opened, "{key}: {told}");
    }
    // The next hop was found by an ARP request.
    assert!(told["others"][1]["answered"].as_u64() >= Some(1), "{told}");
}

#[test]
fn the_backend_of_each_connection_is_listed_where_that_was_asked_for() {
    let told = account(&connect(&["--order", "--json"]));
    let client = &told["client"];
    let order = client["order"].as_array().unwrap();
    let answered = order.iter().filter(|backend| **backend == 0).count();
    assert_eq!(order.len(), 200);
    assert_eq!(client["answered"], answered, "{client}");
    let plain = account(&connect(&["--json"]));
    assert_eq!(plain["client"]["order"], Value::Null);
}

#[test]
fn over_ipv6_the_next_hop_is_solicited() {
    let path = ["connect", "mem:a", "mem:a", "--to", "[fd00:1::64]:80"];
    let ends = ["--backend", "[fd00:1::64]:80", "--ramp", "100ms", "--json"];
    let told = account(&output(&[&path[..], &SLOW, &ends].concat()));
    assert_eq!(
        told["client"]["completed"], told["client"]["opened"],
        "{told}"
    );
    assert_eq!(told["client"]["local"]["listed"][0]["address"], "fd00::1");
    assert!(told["others"][1]["answered"].as_u64() >= Some(1), "{told}");
}

#[test]
fn connections_go_to_each_of_several_virtual_servers() {
    let path = [
        "connect",
        "mem:a",
        "mem:a",
        "--to",
        "10.0.0.100-10.0.0.101:80-81",
    ];
    let ends = ["100:80", "101:80", "100:81", "101:81"].map(|end| format!("10.0.0.{end}"));
    let backends = ends.iter().flat_map(|end| ["--backend", end.as_str()]);
    let args: Vec<&str> = path
        .into_iter()
        .chain(backends)
        .chain(SLOW)
        .chain(["--json"])
        .collect();
    let told = account(&output(&args));
    let client = &told["client"];
    assert_eq!(client["completed"], client["opened"], "{told}");
    let by_backend = client["backends"].as_array().unwrap();
    assert_eq!(by_backend.len(), 4);
    assert!(
        by_backend.iter().all(|count| count.as_u64() > Some(0)),
        "{client}"
    );
}

#[test]
fn nothing_is_opened_and_no_time_passes_before_the_lead_is_over() {
    let sampled = ["--lead", "300ms", "--sample", "100ms", "--json"];
    let output = output(&[&PAIR[..], &SLOW, &sampled].concat());
    let text = stdout(&output);
    let lines = text.strip_prefix("ready\n").unwrap().lines();
    let told: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let account = told.last().unwrap();
    assert_eq!(
        account["client"]["completed"], account["client"]["opened"],
        "{account}"
    );
    assert!(account["elapsed_s"].as_f64() > Some(0.3), "{account}");
}

#[test]
fn a_backend_may_close_first() {
    let told = account(&connect(&[
        "--close",
        "backend",
        "--requests",
        "2",
        "--json",
    ]));
    let (client, backend) = (&told["client"], &told["server"]["backends"][0]);
    assert_eq!(client["completed"], client["opened"], "{told}");
    for key in ["syns", "fins"] {
        assert_eq!(backend[key], client["opened"], "{key}: {told}");
    }
    assert_eq!(client["late"].as_u64(), Some(0), "{told}");
}

#[test]
fn samples_show_when_a_backend_was_down() {
    // The outage is longer than this machine stands still: what is due meanwhile is not opened.
    let load = ["--rate", "100", "--count", "200", "--timeout", "60s"];
    let down = ["--backend-down", "0@500ms-1500ms:reset"];
    let tuples = ["--client-ports", "1025-1044", "--by-tuple"];
    let sampled = ["--sample", "100ms", "--json"];
    let output = output(&[&PAIR[..], &load, &down, &tuples, &sampled].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let lines = text.strip_prefix("ready\n").unwrap().lines();
    let mut told: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let account = told.pop().unwrap();
    assert_eq!(account["type"], "connections");
    let client = &account["client"];
    assert!(client["refused"].as_u64() > Some(0), "{account}");
    for sample in &told {
        assert_eq!(sample["type"], "sample");
        let is_before = sample["elapsed_s"].as_f64() < Some(0.5);
        assert!(!is_before || sample["refused"] == 0, "{sample}");
    }
    let last = told.last().unwrap();
    for key in ["opened", "answered", "refused"] {
        assert_eq!(last[key], client[key], "{key}: {last}");
    }
    assert_eq!(last["left"], serde_json::json!([]), "there is one backend");
    assert!(last["kept"][0].as_u64() > Some(0), "{last}");
}

#[test]
fn requests_in_datagrams_are_counted_by_the_backend_that_answered() {
    let told = account(&connect(&["--work", "udp", "--late", "--json"]));
    let (client, backend) = (&told["client"], &told["server"]["backends"][0]);
    for key in ["opened", "answered", "completed"] {
        assert_eq!(client[key], 200, "{key}: {told}");
    }
    assert_eq!(client["backends"], serde_json::json!([200]));
    assert_eq!(
        (&backend["requests"], &backend["syns"]),
        (&200.into(), &0.into())
    );
    assert_eq!(client["answer_ns"]["count"], 200);
    assert_eq!(client["connect_ns"], Value::Null);
}

#[test]
fn an_answer_of_several_segments_arrives_whole() {
    let told = account(&connect(&["--answer-size", "65536", "--late", "--json"]));
    let (client, backend) = (&told["client"], &told["server"]["backends"][0]);
    for key in ["opened", "answered", "completed"] {
        assert_eq!(client[key], 200, "{key}: {told}");
    }
    assert_eq!(client["delivered_bytes"], 200 * 65536, "{told}");
    assert!(client["goodput_bps"].as_f64() > Some(0.0), "{told}");
    let (first, last) = (&client["first_byte_ns"], &client["answer_ns"]);
    assert_eq!(
        (&first["count"], &last["count"]),
        (&200.into(), &200.into())
    );
    assert!(first["p50"].as_u64() < last["p50"].as_u64(), "{told}");
    assert_eq!(backend["requests"], 200, "{told}");
    let short = account(&connect(&["--json"]));
    assert_eq!(short["client"]["first_byte_ns"], Value::Null);
}

#[test]
fn the_account_is_a_table_for_people() {
    let text = stdout(&connect(&[
        "--requests",
        "3",
        "--work",
        "request:9,reset:1",
    ]));
    for told in [
        "completed",
        "connected",
        "backend 0",
        "seen from 16.0.0.1",
        "core 0:",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
}

#[test]
fn without_an_answer_connections_time_out_where_they_wait() {
    let path = ["connect", "mem:a", "mem:a", "--to", "10.0.0.100:80"];
    let nobody = [
        "--backend",
        "10.0.0.101:80",
        "--next-hop",
        "02:00:00:00:00:09",
    ];
    let load = [
        "--rate",
        "1k",
        "--count",
        "50",
        "--timeout",
        "50ms",
        "--json",
    ];
    let told = account(&output(&[&path[..], &nobody, &load].concat()));
    let client = &told["client"];
    assert_eq!(client["timed_out_connecting"], client["opened"], "{told}");
    assert_eq!(
        (&client["completed"], &client["connect_ns"]),
        (&0.into(), &Value::Null)
    );
    assert_eq!(told["server"]["elsewhere"], client["opened"]);
}

#[test]
fn without_a_next_hop_nothing_is_opened_until_it_is_stopped() {
    let args = [&PAIR[..], &["--next-hop", "10.0.0.99", "--json"]].concat();
    let mut child = engine(&args).stdout(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    kill(pid, Signal::SIGTERM).unwrap();
    let told: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(told["client"], Value::Null);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn servers_by_themselves_say_what_they_answered() {
    let cores = four_workers();
    let args = [
        "serve",
        "mem:a",
        "mem:a",
        "--backend",
        "10.1.0.1:80",
        "--until-eof",
        "--json",
        "--cores",
        &cores,
    ];
    let mut command = engine(&args);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    drop(child.stdin.take());
    let told: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(told["client"], Value::Null);
    assert_eq!(told["server"]["backends"][0]["syns"], 0);
    assert_eq!(told["cores"].as_array().unwrap().len(), 4);
    assert_eq!(told["handed"], Value::Null, "servers need not");
}

#[test]
fn what_cannot_be_opened_names_the_option() {
    for (args, told) in [
        (vec!["--rate", "0"], "--rate: expected 1 to 1000000000"),
        (
            vec!["--work", "nap"],
            "expected syn, abandon, reset or request",
        ),
        (
            vec!["--requests", "2000"],
            "--requests: 2000 of --request-size 64",
        ),
        (vec!["--request-size", "10"], "expected 24 to 1460"),
        (
            vec!["--clients", "fd00::1"],
            "same family as --to 10.0.0.100:80",
        ),
        (vec!["--answer-size", "63"], "expected 64 to 1048576"),
        (
            vec!["--work", "udp", "--answer-size", "2000"],
            "--answer-size: 2000; expected at most 1440 with --work udp",
        ),
        (vec!["--retry", "1s"], "expected TIME:TIMES"),
        (vec!["--retry", "1s:101"], "--retry: expected 1 to 100"),
        (
            vec!["--backend-down", "0@6s-3s"],
            "expected an end after 6 s",
        ),
        (vec!["--backend-down", "0@1s"], "as in 2@3s-6s:reset"),
        (
            vec!["--backend-down", "1@1s-2s"],
            "--backend-down: 1: there is no such backend",
        ),
        (vec!["--sample", "100ms"], "--json"),
        (
            vec!["--json", "--sample", "1ms"],
            "--sample: expected at least 0.01 s",
        ),
        (
            vec!["--next-hop", "gateway"],
            "expected an Ethernet address",
        ),
        (vec!["--backend", "10.0.0.100:80"], "there are two"),
        (
            vec!["--work", "udp", "--requests", "2"],
            "--work: udp is one request each; leave out --requests, --hold",
        ),
        (vec!["--cores", "3-1"], "as in 0-3 or 0,2"),
        (vec!["--cores", "0", "--core", "0"], "cannot be used with"),
        (
            vec!["--cores", "0,0", "--order", "--json"],
            "in order by one core only; --cores has 2",
        ),
        (
            vec!["--cores", "0,0", "--client-ports", "1025"],
            "2 cores for 1 client ports and 1 addresses",
        ),
        (
            vec![
                "--cores",
                "0,0",
                "--client-ports",
                "1025-1027",
                "--sequence",
                "1:2",
                "--count",
                "3",
            ],
            "add --clients or --client-ports",
        ),
        (
            vec!["--rate", "1G", "--timeout", "1s", "--count", "1G"],
            "shorten --timeout",
        ),
    ] {
        let failed = output(&[&PAIR[..], &args].concat());
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
    }
    let alone = output(&[
        "connect",
        "mem:a",
        "--to",
        "10.0.0.100:80",
        "--backend",
        "10.1.0.1:80",
    ]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(stderr(&alone).contains("PORT: --backend needs a second port"));
    let empty = output(&["serve", "mem:a"]);
    assert!(stderr(&empty).contains("add --backend"));
}
