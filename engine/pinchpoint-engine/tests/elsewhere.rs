//! Trials in which other engines take part. What another engine sends comes from a memory port, which holds frames of an
//! earlier trial back until this one.

mod common;

use common::{Engine, assert_identities, mem_pair, run, stream};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Begins a trial that waits for `go`.
fn begin(engine: &mut Engine, mut request: Value) {
    request["on_go"] = json!(true);
    let begun = engine.ask(&request);
    assert_eq!(begun, json!({"type": "begun", "trial": "t"}));
}

/// Sends frames that nobody waits for, then receives them in a trial of their own.
/// (frames sent, frames that came in the first trial, the second one's result)
fn received(wall_clock: bool) -> (u64, u64, Value) {
    let mut engine = Engine::start();
    let opened = engine.ask(&mem_pair(",delay_us=500000"));
    assert_eq!(opened["type"], "open", "{opened}");
    let mut sent = stream(7, "left", "right", json!(10_000.0));
    let mut expected = sent.clone();
    sent["rx_port"] = Value::Null;
    expected["tx_port"] = Value::Null;
    let mut first = run(0.05, &[sent]);
    first["drain_s"] = json!(0.0);
    first["wall_clock"] = json!(wall_clock);
    let first = engine.ask(&first);
    let mut second = run(0.05, &[expected]);
    second["wall_clock"] = json!(wall_clock);
    second["drain_s"] = json!(1.0);
    begin(&mut engine, second);
    let sent = engine.ask(&json!({"type": "go"}));
    assert_eq!(sent, json!({"type": "sent", "trial": "t"}));
    let result = engine.ask(&json!({"type": "stop"}));
    engine.bye();
    let count = |value: &Value| value.as_u64().unwrap();
    let early = count(&first["ports"][1]["foreign"]);
    (count(&first["streams"][0]["sent"]), early, result)
}

#[test]
fn its_frames_are_accounted_for_and_what_only_the_sender_knows_is_null() {
    let (sent, early, result) = received(false);
    assert_eq!(result["status"], "completed");
    let stream = &result["streams"][0];
    assert!(stream["received"].as_u64().unwrap() > 0, "{result}");
    assert_eq!(stream["received"].as_u64().unwrap() + early, sent);
    // Between each and the one before it.
    let pairs = stream["received"].as_u64().unwrap() - 1;
    assert_eq!(stream["jitter"]["count"], pairs);
    for key in [
        "tx_port",
        "intended",
        "shortfall",
        "lost",
        "latency",
        "flows",
    ] {
        assert!(stream[key].is_null(), "{key}: {stream}");
    }
    assert_eq!(result["ports"][1]["foreign"], 0);
}

#[test]
fn by_the_time_of_day_its_latency_is_known() {
    let (_, _, result) = received(true);
    let stream = &result["streams"][0];
    assert_eq!(stream["latency"]["count"], stream["received"]);
    assert!(
        stream["latency"]["min_ns"].as_u64().unwrap() >= 400_000_000,
        "{stream}"
    );
}

#[test]
fn one_that_nobody_here_receives_or_that_takes_turns_is_refused() {
    let mut engine = Engine::start();
    engine.ask(&mem_pair(""));
    let mut nobody = stream(0, "left", "right", json!(1000.0));
    nobody["tx_port"] = Value::Null;
    let unasked = engine.ask(&run(1.0, &[nobody.clone()]));
    assert!(
        unasked["message"]
            .as_str()
            .unwrap()
            .starts_with("streams[0].tx_port"),
        "{unasked}"
    );
    let mut sliced = run(1.0, &[nobody.clone()]);
    sliced["on_go"] = json!(true);
    sliced["slices"] = json!({"groups": [[0]], "order": [0], "length_ns": 10_000_000,
        "settle_ns": 0, "discard_ns": 0, "hold": null});
    assert!(
        engine.ask(&sliced)["message"]
            .as_str()
            .unwrap()
            .starts_with("slices")
    );
    nobody["rx_port"] = Value::Null;
    let mut unheard = run(1.0, &[nobody]);
    unheard["on_go"] = json!(true);
    let answer = engine.ask(&unheard);
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .starts_with("streams[0].tx_port"),
        "{answer}"
    );
    engine.bye();
}

/// A trial of 1,000 frames within the engine.
fn thousand() -> Value {
    run(0.1, &[stream(0, "left", "right", json!(10_000.0))])
}

#[test]
fn it_sends_nothing_before_go_its_time_begins_with_it_and_it_receives_until_stop() {
    let mut engine = Engine::start();
    engine.ask(&mem_pair(""));
    let mut request = thousand();
    request["sample_interval_s"] = json!(0.02);
    begin(&mut engine, request);
    std::thread::sleep(Duration::from_millis(300));
    let gone = Instant::now();
    engine.send(&json!({"type": "go"}));
    let mut message = engine.receive();
    while message["type"] == "sample" {
        // The time of a sample before go would have begun earlier.
        let sampled_s = message["elapsed_s"].as_f64().unwrap();
        assert!(sampled_s <= gone.elapsed().as_secs_f64(), "{message}");
        message = engine.receive();
    }
    assert_eq!(message["type"], "sent");
    let most_s = gone.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_millis(300));
    let result = engine.ask(&json!({"type": "stop"}));
    assert_identities(&result);
    let stream = &result["streams"][0];
    assert_eq!(result["status"], "completed");
    assert_eq!(stream["intended"], 1000);
    assert_eq!(stream["sent"], stream["received"]);
    let (sent_s, after_s) = (&result["duration_s"], &result["drain_s"]);
    let sent_s = sent_s.as_f64().unwrap();
    // Of two clocks, the engine's and this test's.
    assert!(sent_s >= 0.1 && sent_s < most_s + 0.01, "{sent_s}");
    assert!(
        after_s.as_f64().unwrap() >= 0.3,
        "it received until stop: {result}"
    );
    engine.bye();
}

#[test]
fn a_stop_before_go_or_while_it_sends_ends_it_early_with_its_account() {
    let mut engine = Engine::start();
    engine.ask(&mem_pair(""));
    for goes in [false, true] {
        let mut long = thousand();
        long["duration_s"] = json!(600.0);
        long["sample_interval_s"] = json!(0.02);
        begin(&mut engine, long);
        if goes {
            engine.send(&json!({"type": "go"}));
            engine.await_some("sent");
        }
        assert_eq!(engine.ask(&json!({"type": "stop"}))["type"], "sent");
        let result = engine.receive();
        assert_identities(&result);
        assert_eq!(result["status"], "stopped");
        let sent = result["streams"][0]["sent"].as_u64().unwrap();
        assert_eq!(sent > 0, goes, "{result}");
    }
    engine.bye();
}

#[test]
fn a_go_that_no_trial_waits_for_is_told_and_the_end_of_input_ends_one_that_waits() {
    let mut engine = Engine::start();
    engine.ask(&mem_pair(""));
    assert_eq!(engine.ask(&json!({"type": "go"}))["code"], "state");
    let mut long = thousand();
    long["duration_s"] = json!(600.0);
    begin(&mut engine, long);
    engine.send(&json!({"type": "go"}));
    assert_eq!(engine.ask(&json!({"type": "go"}))["code"], "state");
    assert_eq!(engine.ask(&json!({"type": "stop"}))["type"], "sent");
    assert_eq!(engine.receive()["type"], "result");
    begin(&mut engine, thousand());
    engine.close_input();
    assert_eq!(engine.receive()["type"], "sent");
    let result = engine.receive();
    assert_eq!(result["status"], "aborted");
    assert_eq!(result["reason"], "stdin ended");
    assert_eq!(engine.wait().code(), Some(0));
}
