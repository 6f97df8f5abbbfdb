//! Captures, profiles and headers from files.

use super::{SLOW, json, pair, stderr, stdout};

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

/// The frames of a capture, in its order.
fn captured(capture: &str) -> Vec<Vec<u8>> {
    let options = pinchpoint_import::pcap::Options::default();
    let path = std::path::Path::new(capture);
    let captured = pinchpoint_import::pcap::read(path, &options).unwrap();
    captured.into_iter().map(|frame| frame.bytes).collect()
}

/// The last byte of each frame's IPv4 destination.
fn destinations(frames: &[Vec<u8>]) -> Vec<u8> {
    frames.iter().map(|bytes| bytes[33]).collect()
}

/// The frames of a capture in the order in which they were sent: each was captured twice, where it
/// was sent and, later, where it arrived.
fn sent_order(capture: &str) -> Vec<Vec<u8>> {
    let captured = captured(capture);
    let mut sent: Vec<Vec<u8>> = Vec::new();
    for frame in &captured {
        if !sent.contains(frame) {
            sent.push(frame.clone());
        }
    }
    assert_eq!(2 * sent.len(), captured.len());
    sent
}

#[test]
fn all_frames_of_a_capture_are_sent_in_their_order_at_one_rate() {
    let folder = Folder::new("frames");
    let (first, again) = (folder.file("x.pcapng"), folder.file("y.pcapng"));
    let three = ["--dst", "10.0.0.1-10.0.0.3", "--capture-frames", "3"];
    pair(&[&three[..], &["--capture", &first], &SLOW].concat());
    assert_eq!(destinations(&sent_order(&first)), [1, 2, 3]);
    let sent = |rate: &str, more: &[&str]| {
        let load = ["--rate", rate, "--time", "100ms", "--json"];
        pair(&[&load[..], &["--pcap", &first], more].concat())
    };
    let result = json(&sent("600", &[]));
    let streams = result["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 6);
    assert!(
        streams.iter().all(|stream| stream["received"] == 10),
        "{result}"
    );
    // One frame of each stream: a pause does not make two of one due before one of the next.
    let sent = sent("60", &["--capture", &again, "--capture-frames", "6"]);
    let order = destinations(&captured(&first));
    assert_eq!(destinations(&sent_order(&again)), order);
    let told = stderr(&sent);
    assert!(
        told.contains("x.pcapng: its 6 frames are a stream each, in their order at low rates"),
        "{told}"
    );
    for load in [["--rate", "max"], ["--burst", "4"]] {
        let dry = pair(&[&load[..], &["--pcap", &first, "--dry-run"]].concat());
        let told = stderr(&dry);
        assert!(told.ends_with("are a stream each\n"), "{told}");
    }
}

#[test]
fn frames_of_a_capture_share_a_rate_in_bits_by_their_bytes() {
    let folder = Folder::new("bits");
    let capture = folder.file("x.pcapng");
    let sizes = ["--size", "100,400", "--capture-frames", "2"];
    pair(&[&sizes[..], &["--capture", &capture], &SLOW].concat());
    let dry = ["--pcap", &capture, "--rate", "2160bit-l2", "--dry-run"];
    let lines = stdout(&pair(&dry));
    let run: serde_json::Value = lines.lines().nth(1).unwrap().parse().unwrap();
    let streams = run["streams"].as_array().unwrap().iter();
    let mut sizes = Vec::new();
    for stream in streams {
        let bytes = stream["size"]["fixed"].as_u64().unwrap();
        let rate = stream["rate"]["bps_l2"].as_f64().unwrap();
        assert!((rate / bytes as f64 - 2.16).abs() < 1e-6, "{lines}");
        sizes.push(bytes);
    }
    // Each was captured twice, in an order that pauses of the host may change.
    sizes.sort_unstable();
    assert_eq!(sizes, [100, 100, 400, 400]);
}

#[test]
fn a_capture_with_more_frames_than_streams_is_refused_with_what_to_do() {
    let folder = Folder::new("many");
    let capture = folder.file("x.pcapng");
    // All of them are due at once: a pause does not make the engine give up frames of a burst.
    let many = ["--burst", "129", "--rate", "10k", "--time", "50ms"];
    let kept = ["--capture", &capture, "--capture-frames", "129"];
    pair(&[&many[..], &kept].concat());
    let refused = pair(&["--pcap", &capture]);
    assert_eq!(refused.status.code(), Some(2));
    let told = stderr(&refused);
    assert!(
        told.contains("258 frames, expected at most 256") && told.contains("x.pcapng:N sends"),
        "{told}"
    );
}

#[test]
fn both_ways_of_a_profile_are_its_clients_and_its_servers_frames() {
    let folder = Folder::new("ways");
    let capture = folder.file("x.pcapng");
    let both = [
        "--both-ways",
        "--capture",
        &capture,
        "--capture-frames",
        "2",
    ];
    // One frame each way: a pause does not make two of one way due before one of the other.
    pair(&[&both[..], &["--rate", "10", "--time", "100ms"]].concat());
    let profile = folder.file("p.yaml");
    let text = "- duration: 0.3\n  generator:\n    distribution: seq\n    \
                clients_start: 16.0.0.1\n    clients_end: 16.0.0.3\n    \
                servers_start: 48.0.0.1\n    servers_end: 48.0.0.5\n  cap_info:\n    \
                - name: x.pcapng\n      cps: 100\n      ipg: 10000\n      rtt: 10000\n      \
                w: 1\n      limit: 15\n";
    std::fs::write(&profile, text).unwrap();
    let one = pair(&["--trex", &profile, "--json"]);
    assert!(
        stderr(&one).contains("2 of 4 frames go from server to client and are not sent"),
        "{}",
        stderr(&one)
    );
    let two = pair(&["--trex", &profile, "--both-ways", "--json"]);
    assert!(!stderr(&two).contains("are not sent"), "{}", stderr(&two));
    let result = json(&two);
    for (k, port) in ["a", "a", "a#2", "a#2"].into_iter().enumerate() {
        assert_eq!(result["streams"][k]["tx_port"], port, "{result}");
        assert_eq!(result["streams"][k]["received"], 30, "{result}");
    }
    let dry = pair(&["--trex", &profile, "--both-ways", "--dry-run", "--json"]);
    let lines: Vec<serde_json::Value> = stdout(&dry)
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    let note = lines[0]["notes"][0].as_str().unwrap();
    assert!(note.starts_with("x.pcapng: "), "{note}");
    let fields = |k: usize| lines[2]["streams"][k]["fields"][0]["field"].clone();
    assert_eq!(fields(0), "ipv4.dst");
    assert_eq!(fields(2), "ipv4.src");
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
