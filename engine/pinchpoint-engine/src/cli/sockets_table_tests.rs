//! What people read of a workload's result.

use super::*;
use pinchpoint_sockets::message::Message;

const SOCKETS: &str = include_str!("../../../../protocol/golden/sockets.jsonl");

/// The golden result of a kind.
fn golden(kind: &str) -> SocketsResult {
    let of_kind = format!(r#""kind":"{kind}""#);
    let line = SOCKETS
        .lines()
        .find(|line| line.contains("sockets_result") && line.contains(&of_kind))
        .unwrap();
    match serde_json::from_str(line).unwrap() {
        Message::SocketsResult(result) => *result,
        other => panic!("{other:?}"),
    }
}

fn text(result: &SocketsResult) -> String {
    told(result, Paint(false))
}

#[test]
fn a_rate_that_changed_its_level_is_a_range_and_never_one_number() {
    let mut result = golden("rr");
    let one = text(&result);
    assert!(!one.contains("not stationary"), "{one}");
    let trend = result.runs[0].trend.as_mut().unwrap();
    trend.change = Some(Change {
        at_s: 1.2,
        before_per_s: 14_100.0,
        after_per_s: 300.0,
    });
    let shown = text(&result);
    let head = shown.lines().nth(2).unwrap();
    assert!(head.starts_with("not stationary: "), "{shown}");
    for level in ["300.0 transactions", "14.100 k"] {
        assert!(head.contains(level), "{head}");
    }
    assert!(!shown.contains("in one run"), "{shown}");
    assert!(shown.contains("the rate fell from 14.100 k"), "{shown}");
}

#[test]
fn a_stream_that_changed_its_level_is_told_in_bits() {
    let shown = text(&golden("stream"));
    assert!(
        shown.contains("not stationary: 8.080 Gbit/s to 19.840 Gbit/s"),
        "{shown}"
    );
}

#[test]
fn ports_that_ran_out_are_the_result_and_no_rate_stands_beside_it() {
    let shown = text(&golden("crr"));
    let head = shown.lines().nth(2).unwrap();
    assert!(head.starts_with("limit: source ports"), "{shown}");
    assert!(!shown.contains("in one run"), "{shown}");
}
