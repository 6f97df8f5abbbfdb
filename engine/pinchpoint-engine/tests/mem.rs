//! The binary, spoken to over its pipes, with ports in memory.

mod common;

use base64::Engine as _;
use common::{Engine, assert_identities, mem_pair, run, stream, two_cores};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn opened(request: &Value) -> Engine {
    let mut engine = Engine::start();
    let answer = engine.ask(request);
    assert_eq!(answer["type"], "open", "{answer}");
    engine
}

#[test]
fn a_paced_trial_accounts_for_every_intended_frame() {
    let mut engine = opened(&mem_pair(""));
    let result = engine.ask(&run(0.2, &[stream(0, "left", "right", json!(100_000.0))]));
    assert_identities(&result);
    let stream = &result["streams"][0];
    assert_eq!(stream["intended"], 20_000);
    assert_eq!(stream["lost"], 0);
    assert_eq!(result["status"], "completed");
    assert_eq!(result["ports"][0]["sent"], stream["sent"]);
    assert_eq!(result["ports"][1]["received"], stream["received"]);
    engine.bye();
}

#[test]
fn two_directions_are_accounted_apart() {
    let mut engine = opened(&mem_pair(""));
    let there = stream(3, "left", "right", json!(50_000.0));
    let back = stream(9, "right", "left", json!(20_000.0));
    let result = engine.ask(&run(0.1, &[there, back]));
    assert_identities(&result);
    for (k, intended) in [(0, 5000), (1, 2000)] {
        assert_eq!(result["streams"][k]["intended"], intended);
        assert_eq!(result["streams"][k]["lost"], 0);
    }
    engine.bye();
}

#[test]
fn an_unpaced_trial_has_no_schedule_to_fall_behind() {
    let mut engine = opened(&mem_pair(""));
    let result = engine.ask(&run(0.1, &[stream(0, "left", "right", Value::Null)]));
    assert_identities(&result);
    let stream = &result["streams"][0];
    for key in ["intended", "shortfall"] {
        assert!(stream[key].is_null(), "{key}");
    }
    assert_eq!(
        (&stream["refused"], &stream["lost"]),
        (&json!(0), &json!(0))
    );
    assert!(result["pacing"]["latest_ns"].is_null());
    engine.bye();
}

/// The injector knows what it did; the account must say the same.
#[test]
fn the_account_equals_the_truth_of_the_fault_injector() {
    let faults = ",loss=0.02,duplicate=0.03,reorder=0.02,corrupt=0.01,seed=7";
    let mut engine = opened(&mem_pair(faults));
    for epoch in 1..4 {
        let mut request = run(0.3, &[stream(0, "left", "right", Value::Null)]);
        request["epoch"] = json!(epoch);
        let result = engine.ask(&request);
        assert_identities(&result);
        let (account, port) = (&result["streams"][0], &result["ports"][1]);
        let truth = |key: &str| port["stats"][key].as_u64().unwrap();
        assert_eq!(account["duplicated"], truth("fault_duplicated"));
        assert_eq!(account["reordered"], truth("fault_reordered"));
        assert_eq!(account["corrupt"], truth("fault_corrupt"));
        assert_eq!(
            account["lost"],
            truth("fault_lost") + truth("fault_corrupt")
        );
        assert!(truth("fault_reordered") > 0, "no faults were injected");
        assert_eq!((&port["foreign"], &port["late"]), (&json!(0), &json!(0)));
    }
    engine.bye();
}

/// Without a drain, what is on its way when sending ends arrives in the next trial. The delay is
/// longer than the pauses of a busy host, in which frames of a short delay would arrive.
const LONG_WAY: &str = ",delay_us=500000";

#[test]
fn frames_of_an_earlier_trial_are_late() {
    let mut engine = opened(&mem_pair(LONG_WAY));
    let mut first = run(0.05, &[stream(0, "left", "right", json!(10_000.0))]);
    first["drain_s"] = json!(0.0);
    let first = engine.ask(&first);
    assert_identities(&first);
    let left_over = first["streams"][0]["lost"].as_u64().unwrap();
    assert!(left_over > 0, "nothing was left to arrive");
    let mut second = run(0.05, &[stream(0, "left", "right", json!(10_000.0))]);
    second["epoch"] = json!(2);
    second["drain_s"] = json!(0.6);
    let second = engine.ask(&second);
    assert_eq!(second["ports"][1]["late"], left_over);
    assert_eq!(second["streams"][0]["lost"], 0);
    engine.bye();
}

#[test]
fn a_run_without_streams_counts_whatever_arrives_as_foreign() {
    let mut engine = opened(&mem_pair(LONG_WAY));
    let streams = [0, 1, 2, 3].map(|id| stream(id, "left", "right", json!(10_000.0)));
    let mut first = run(0.05, &streams);
    first["drain_s"] = json!(0.0);
    let first = engine.ask(&first);
    let streams = first["streams"].as_array().unwrap();
    let lost = streams
        .iter()
        .map(|stream| stream["lost"].as_u64().unwrap());
    let left_over = lost.sum::<u64>();
    assert!(left_over > 0, "nothing was left to arrive");
    let mut listen = run(600.0, &[]);
    listen["sample_interval_s"] = json!(0.1);
    engine.send(&listen);
    sampled_until(&mut engine, |sample| sample["received"] == left_over);
    let result = engine.ask(&json!({"type": "stop"}));
    assert_eq!(
        (&result["type"], &result["streams"]),
        (&json!("result"), &json!([]))
    );
    assert_eq!(result["ports"][1]["foreign"], left_over);
    engine.bye();
}

#[test]
fn jumbo_frames_pass_and_the_histogram_is_the_standard_encoding() {
    let mut engine = opened(&mem_pair(""));
    let mut jumbo = stream(0, "left", "right", json!(10_000.0));
    jumbo["size"] = json!({"fixed": 9022});
    let result = engine.ask(&run(0.1, &[jumbo]));
    assert_identities(&result);
    let latency = &result["streams"][0]["latency"];
    let encoded = latency["histogram"].as_str().unwrap();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(encoded)
        .unwrap();
    let mut decoder = hdrhistogram::serialization::Deserializer::new();
    let histogram: hdrhistogram::Histogram<u64> = decoder.deserialize(&mut &bytes[..]).unwrap();
    assert_eq!(latency["count"], histogram.len());
    assert_eq!(latency["p99_ns"], histogram.value_at_quantile(0.99));
    engine.bye();
}

/// Samples, up to the first of which that holds: it may be late where the core is not to be had.
fn sampled_until(engine: &mut Engine, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut samples = Vec::new();
    while !samples.last().is_some_and(&is_last) {
        let message = engine.receive();
        assert_eq!(message["type"], "sample", "{message}");
        samples.push(message);
    }
    samples
}

#[test]
fn samples_come_at_their_interval_and_rise() {
    let mut engine = opened(&mem_pair(""));
    let mut request = run(600.0, &[stream(0, "left", "right", json!(10_000.0))]);
    request["sample_interval_s"] = json!(0.1);
    engine.send(&request);
    let sent = |sample: &Value| sample["sent"].as_u64().unwrap();
    let samples = sampled_until(&mut engine, |sample| sent(sample) > 1_000);
    assert!(samples.iter().map(sent).is_sorted(), "{samples:?}");
    let times = samples.iter().map(|sample| sample["elapsed_s"].as_f64());
    assert!(
        times.is_sorted_by(|before, after| before < after),
        "{samples:?}"
    );
    let result = engine.ask(&json!({"type": "stop"}));
    assert_eq!(result["status"], "stopped");
    engine.bye();
}

#[test]
fn a_rate_that_steps_down_sends_what_both_parts_ask_for() {
    let mut engine = opened(&mem_pair(""));
    let mut sending = stream(0, "left", "right", json!(20_000.0));
    sending["shape"] = json!({"step": {"after_s": 0.2, "to_share": 0.25}});
    let result = engine.ask(&run(0.4, &[sending.clone()]));
    assert_identities(&result);
    assert_eq!(result["streams"][0]["intended"], 5_000);
    assert!(result["streams"][0]["last_loss_s"].is_null());
    let silence = &result["ports"][1]["longest_silence"];
    assert!(silence["ns"].as_u64().unwrap() >= 150_000, "{silence}");
    sending["shape"] = json!({"step": {"after_s": 0.5, "to_share": 0.25}});
    let refused = engine.ask(&run(0.4, &[sending]));
    assert_eq!(refused["code"], "invalid");
    engine.bye();
}

#[test]
fn samples_and_the_result_tell_what_was_lost_and_when() {
    let mut engine = opened(&mem_pair(",loss=0.01"));
    let mut request = run(600.0, &[stream(0, "left", "right", json!(20_000.0))]);
    request["sample_interval_s"] = json!(0.1);
    let begun = Instant::now();
    engine.send(&request);
    let lost = |sample: &Value| sample["lost"].as_u64().unwrap();
    let samples = sampled_until(&mut engine, |sample| lost(sample) > 0);
    assert!(samples.iter().map(lost).is_sorted(), "{samples:?}");
    assert!(samples.iter().all(|sample| sample["gaps_ns"].is_u64()));
    let result = engine.ask(&json!({"type": "stop"}));
    let stream = &result["streams"][0];
    let all = stream["lost"].as_u64().unwrap() + stream["refused"].as_u64().unwrap();
    let told = lost(samples.last().unwrap());
    assert!(told <= all, "{told} of {all}");
    let last_s = stream["last_loss_s"].as_f64().unwrap();
    let passed_s = begun.elapsed().as_secs_f64();
    assert!(last_s > 0.0 && last_s < passed_s, "{last_s} of {passed_s}");
    engine.bye();
}

#[test]
fn stop_ends_the_trial_with_a_closed_account() {
    let mut engine = opened(&mem_pair(""));
    engine.send(&run(600.0, &[stream(0, "left", "right", json!(50_000.0))]));
    std::thread::sleep(Duration::from_millis(100));
    let busy = engine.ask(&json!({"type": "hello", "protocol": 9}));
    assert_eq!(busy["code"], "state");
    let result = engine.ask(&json!({"type": "stop"}));
    assert_identities(&result);
    assert_eq!(result["status"], "stopped");
    assert!(result["duration_s"].as_f64().unwrap() < 60.0);
    engine.bye();
}

#[test]
fn bye_during_a_trial_brings_its_result_first() {
    let mut engine = opened(&mem_pair(""));
    engine.send(&run(600.0, &[stream(0, "left", "right", json!(50_000.0))]));
    let result = engine.ask(&json!({"type": "bye"}));
    assert_eq!(result["status"], "stopped");
    assert_eq!(engine.receive(), json!({"type": "bye"}));
    assert_eq!(engine.wait().code(), Some(0));
}

#[test]
fn the_end_of_input_ends_a_running_trial() {
    let mut engine = opened(&mem_pair(""));
    let mut request = run(600.0, &[stream(0, "left", "right", json!(50_000.0))]);
    request["drain_s"] = json!(60.0);
    engine.send(&request);
    engine.close_input();
    assert_eq!(engine.wait().code(), Some(0));
}

#[test]
fn sigint_is_left_to_the_lab_and_sigterm_ends_the_engine() {
    let mut engine = opened(&mem_pair(""));
    let pid = Pid::from_raw(engine.pid());
    engine.send(&run(600.0, &[stream(0, "left", "right", json!(50_000.0))]));
    kill(pid, Signal::SIGINT).unwrap();
    let still_there = engine.ask(&json!({"type": "hello", "protocol": 9}));
    assert_eq!(still_there["code"], "state");
    kill(pid, Signal::SIGTERM).unwrap();
    let result = engine.receive();
    assert_eq!(
        (&result["status"], &result["reason"]),
        (&json!("aborted"), &json!("SIGTERM"))
    );
    assert_identities(&result);
    assert_eq!(engine.wait().code(), Some(143));
}

/// Whether each figure of a probe is known; those that are must be possible.
fn is_complete(probe: &Value) -> bool {
    let distances = ["before_ns", "after_ns"].map(|key| probe[key].as_f64());
    let ipc = ["ipc_before", "ipc_after"].map(|key| probe[key].as_array().unwrap().clone());
    let ipc: Vec<_> = ipc.iter().flatten().map(Value::as_f64).collect();
    assert_eq!(ipc.len(), 4);
    assert!(distances.iter().flatten().all(|ns| *ns > 0.0), "{probe}");
    assert!(ipc.iter().flatten().all(|ipc| *ipc > 0.1), "{probe}");
    let executes = cfg!(not(target_arch = "x86_64")) || ipc.iter().all(Option::is_some);
    distances.iter().all(Option::is_some) && executes
}

#[test]
fn each_cache_line_probe_tells_the_distance_and_what_each_core_executes() {
    let mut engine = opened(&mem_pair(""));
    let [one, other] = two_cores(&mut engine);
    let mut request = run(0.01, &[stream(0, "left", "right", json!(1000.0))]);
    request["probe_cores"] = json!([[one, other], [other, one]]);
    // A probe gives up on a core that it cannot have within 20 ms: others may have it now.
    let complete = (1..=200).any(|epoch| {
        request["epoch"] = json!(epoch);
        let result = engine.ask(&request);
        let probes = result["witness"]["cache_lines"].as_array().unwrap().clone();
        let cores: Vec<_> = probes.iter().map(|probe| probe["cores"].clone()).collect();
        assert_eq!(cores, [json!([one, other]), json!([other, one])]);
        probes.iter().all(is_complete)
    });
    assert!(complete, "none of 200 probes was complete");
    engine.bye();
}
