//! A stream that another engine sends: a memory port holds frames of an earlier trial back until this one.

mod common;

use common::{Engine, mem_pair, run, stream};
use serde_json::{Value, json};

/// Sends frames that nobody waits for, then receives them in a trial of their own that is stopped.
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
    let mut second = run(60.0, &[expected]);
    second["wall_clock"] = json!(wall_clock);
    second["drain_s"] = json!(1.0);
    let begun = engine.ask(&second);
    assert_eq!(begun, json!({"type": "begun", "trial": "t"}));
    let result = engine.ask(&json!({"type": "stop"}));
    engine.bye();
    let count = |value: &Value| value.as_u64().unwrap();
    let early = count(&first["ports"][1]["foreign"]);
    (count(&first["streams"][0]["sent"]), early, result)
}

#[test]
fn its_frames_are_accounted_for_and_what_only_the_sender_knows_is_null() {
    let (sent, early, result) = received(false);
    assert_eq!(result["status"], "stopped");
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
    let mut sliced = run(1.0, &[nobody.clone()]);
    sliced["slices"] = json!({"groups": [[0]], "order": [0], "length_ns": 10_000_000,
        "settle_ns": 0, "discard_ns": 0, "hold": null});
    assert!(
        engine.ask(&sliced)["message"]
            .as_str()
            .unwrap()
            .starts_with("slices")
    );
    nobody["rx_port"] = Value::Null;
    let answer = engine.ask(&run(1.0, &[nobody]));
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .starts_with("streams[0].tx_port"),
        "{answer}"
    );
    engine.bye();
}
