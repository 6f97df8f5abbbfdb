//! Workloads over kernel sockets.

use super::{json, output, stderr, stdout};

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
fn a_stream_of_datagrams_tells_what_was_lost() {
    let args = ["stream", "--udp", "--rate", "1k", "--time", "100ms"];
    let table = output(&args);
    assert_eq!(table.status.code(), Some(0), "{}", stderr(&table));
    assert!(stdout(&table).contains("lost share"), "{}", stdout(&table));
    let result = json(&output(&[&args[..], &["--json"]].concat()));
    let run = &result["runs"][0];
    let count = |key: &str| run[key].as_u64().unwrap();
    let sent = count("intended") - count("shortfall");
    assert_eq!(count("transactions") + count("failed"), sent);
    assert_eq!(run["failures"]["timeout"], run["failed"]);
    assert_eq!(count("received_bytes"), 1472 * count("transactions"));
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
            "--address: listen: expected an address that the client can reach",
        ),
        (vec!["stream", "--rate", "5"], 2, "--udp"),
        (
            vec!["stream", "--udp", "--write", "4"],
            2,
            "expected 5 to 65507",
        ),
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
