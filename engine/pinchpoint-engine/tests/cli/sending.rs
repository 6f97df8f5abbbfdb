//! Frames sent and counted, and options that do not fit.

use super::{SLOW, json, output, pair, stderr, stdout};

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
        text.contains("no frame of stream 0 arrived at a#2"),
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
            "unknown field 'udp.sauce'; expected one of",
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
        (
            vec!["--poisson", "--ramp", "10%"],
            "'--poisson' cannot be used with '--ramp",
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
