//! What people read of a result: the golden one, and what a bad one adds.

use super::*;
use crate::cli::warnings::warnings;
use crate::protocol::{CacheLine, Reply, Request};

fn golden<T: serde::de::DeserializeOwned>(text: &str, kind: &str) -> T {
    let start = format!(r#"{{"type":"{kind}""#);
    let line = text.lines().find(|line| line.starts_with(&start)).unwrap();
    serde_json::from_str(line).unwrap()
}

const REPLIES: &str = include_str!("../../../../protocol/golden/engine_to_lab.jsonl");
const REQUESTS: &str = include_str!("../../../../protocol/golden/lab_to_engine.jsonl");

fn result() -> TrialResult {
    match golden(REPLIES, "result") {
        Reply::Result(result) => *result,
        other => panic!("{other:?}"),
    }
}

fn request() -> RunRequest {
    let lines = REQUESTS
        .lines()
        .map(|line| crate::parse::request(line).unwrap());
    let mut runs = lines.filter_map(|request| match request {
        Request::Run(run) => Some(run),
        _ => None,
    });
    runs.next().unwrap()
}

fn shown(result: &TrialResult) -> String {
    let opened = match golden(REPLIES, "open") {
        Reply::Open(opened) => opened,
        other => panic!("{other:?}"),
    };
    account(result, &request(), &opened, Paint(false))
}

fn cells(text: &str, start: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.starts_with(start));
    let line = line.unwrap_or_else(|| panic!("no line '{start}' in\n{text}"));
    let cells = line[start.len()..].split("  ").map(str::trim);
    cells
        .filter(|cell| !cell.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn counts_rates_and_times_are_those_of_the_result() {
    let text = shown(&result());
    assert_eq!(
        cells(&text, "0 left > right"),
        [
            "1,500,000",
            "1,500,000",
            "1,499,990",
            "1,499,900",
            "90",
            "0",
            "12",
            "0",
            "0.006 %"
        ]
    );
    // 1,499,990 frames of 84 bytes on the wire, 64 of them the frame, in 1.000001 s.
    assert_eq!(cells(&text, "sent "), ["1.499989", "1.007992", "0.767994"]);
    assert_eq!(
        cells(&text, "latency 0 left > right"),
        [
            "3.10 us",
            "6.50 us",
            "12.00 us",
            "41.00 us",
            "210.00 us",
            "1,499,900"
        ]
    );
    assert_eq!(
        cells(&text, "of latency, the engine's own"),
        ["90 ns", "210 ns", "480 ns", "-", "2.10 us", "5,000"]
    );
    assert_eq!(
        cells(&text, "0 "),
        [
            "left > right",
            "1,500,000",
            "1,500,000",
            "1,499,990",
            "1,499,900",
            "90",
            "0",
            "12",
            "0",
            "0.006 %"
        ]
    );
}

#[test]
fn only_counters_that_are_not_zero_are_listed() {
    let text = shown(&result());
    assert_eq!(cells(&text, "left   "), ["sent", "1,499,990"]);
    assert!(text.contains("\nleft   refused"), "{text}");
    assert!(
        !text.contains("foreign") && !text.contains("rx_missed"),
        "{text}"
    );
}

#[test]
fn what_was_not_counted_is_a_dash_and_never_zero() {
    let mut result = result();
    let stream = &mut result.streams[0];
    (stream.received, stream.lost, stream.rx_port) = (None, None, None);
    let text = shown(&result);
    assert_eq!(cells(&text, "0 left > nobody")[3..5], ["-", "-"]);
    assert_eq!(cells(&text, "received "), ["-", "-", "-"]);
}

#[test]
fn several_streams_have_a_total() {
    let mut result = result();
    result.streams.push(result.streams[0].clone());
    let text = shown(&result);
    assert_eq!(
        cells(&text, "total")[2..5],
        ["2,999,980", "2,999,800", "180"]
    );
}

/// The warnings of a result that `spoil` has spoilt.
fn warned(spoil: impl FnOnce(&mut TrialResult)) -> String {
    let mut result = result();
    result.ports[0].refused = 0;
    result.streams[0].largest_jump = None;
    spoil(&mut result);
    warnings(&result, &request()).join("\n")
}

#[test]
fn a_trial_as_it_should_be_has_no_warnings() {
    assert_eq!(warned(|_| ()), "");
}

#[test]
fn a_generator_that_was_too_slow_says_by_how_much_and_why() {
    let shown = warned(|result| {
        result.streams[0].offered = 500_000;
        result.witness.workers[0].busy_share = 1.0;
    });
    let expected = "offered 500.000 kfps of 1.500 Mfps; core 0 was 100 % busy and stood still for \
                    66.00 us in 3 gaps; use more cores";
    assert!(shown.contains(expected), "{shown}");
    let shown = warned(|result| result.streams[0].offered = 500_000);
    assert!(
        shown.ends_with("use a core that nothing else runs on (--cores)"),
        "{shown}"
    );
}

#[test]
fn losses_that_may_be_ours_are_told_apart() {
    let shown = warned(|result| result.ports[1].rx_missed = Some(7));
    assert!(
        shown.starts_with(
            "7 frames were lost in the engine's own receive ring of right, not in the path"
        ),
        "{shown}"
    );
    // The golden result's largest jump is at the time of its longest gap.
    let jump = result().streams[0].largest_jump.clone();
    let shown = warned(|result| result.streams[0].largest_jump = jump.clone());
    let expected = "64 in a row were missing at 0.4012 s, when core 0 of the engine stood still for \
                    30.10 us";
    assert!(shown.contains(expected), "{shown}");
    let shown = warned(|result| {
        result.streams[0].largest_jump = jump;
        result.witness.workers[0].gaps_longest.clear();
    });
    assert_eq!(shown, "");
}

#[test]
fn frames_with_our_signature_are_nothing_odd_to_a_listener() {
    let shown = warned(|result| {
        result.streams.clear();
        result.ports[1].late = 3;
    });
    assert_eq!(shown, "");
}

#[test]
fn silence_refusals_late_frames_steal_and_distance_are_told() {
    for (spoil, shown) in [
        (
            (|result| result.streams[0].received = Some(0)) as fn(&mut TrialResult),
            "no frame of stream 0 arrived at right",
        ),
        (
            |result| result.ports[0].refused = 10,
            "10 frames were not sent because the transmit",
        ),
        (
            |result| result.ports[1].late = 3,
            "3 frames of an earlier trial arrived at right",
        ),
        (
            |result| result.witness.workers[0].steal_s = Some(0.02),
            "the host took core 0 away for 20.00 ms",
        ),
        (
            |result| {
                result.witness.cache_lines = vec![CacheLine {
                    cores: [0, 1],
                    before_ns: Some(30.0),
                    after_ns: Some(160.0),
                    ipc_before: [Some(3.4), Some(3.4)],
                    ipc_after: [Some(3.4), Some(2.1)],
                    occupied_ns: [0, 0],
                }];
            },
            "cores 0 and 1 are far apart (a cache line takes 160 ns)",
        ),
    ] {
        let warned = warned(spoil);
        assert!(warned.starts_with(shown), "{warned}");
    }
}
