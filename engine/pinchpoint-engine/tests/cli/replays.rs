//! Captures that are replayed.

use super::{json, pair, stderr};

/// A capture of these frames, each with its time in nanoseconds.
fn pcap(link_type: u32, frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    // Little endian, nanoseconds, version 2.4.
    for word in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, link_type] {
        file.extend(word.to_le_bytes());
    }
    for (time_ns, bytes) in frames {
        let len = bytes.len() as u32;
        for word in [1_000_000, *time_ns, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend_from_slice(bytes);
    }
    file
}

/// A packet from 10.0.0.`from` with this header behind IPv4.
fn frame(from: u8, protocol: u8, header: &[u8], payload: usize) -> Vec<u8> {
    let len = (20 + header.len() + payload) as u16;
    let mut bytes = vec![2; 12];
    bytes.extend([8, 0, 0x45, 0]);
    bytes.extend(len.to_be_bytes());
    bytes.extend([0, 9, 0, 0, 64, protocol, 0, 0]);
    bytes.extend([10, 0, 0, from, 10, 0, 0, 3 - from]);
    bytes.extend_from_slice(header);
    bytes.resize(14 + usize::from(len), 0xa5);
    bytes
}

fn udp(from: u8, payload: u16) -> Vec<u8> {
    let [high, low] = (8 + payload).to_be_bytes();
    frame(
        from,
        17,
        &[4, 0, 0, 53, high, low, 1, 1],
        usize::from(payload),
    )
}

fn ack(from: u8) -> Vec<u8> {
    let header = [
        4, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 9, 9, 0, 0,
    ];
    frame(from, 6, &header, 0)
}

/// A question, its answer and an acknowledgment; again after 30 ms.
fn dialog() -> Vec<(u32, Vec<u8>)> {
    vec![
        (0, udp(1, 40)),
        (10_000_000, udp(2, 60)),
        (20_000_000, ack(1)),
    ]
}

/// A file of this test's own, removed at the end.
struct Capture(String);

impl Capture {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let name = format!("pp-replay-{name}-{}.pcap", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        Self(path.display().to_string())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn both_sides_of_a_capture_are_replayed_at_its_times_and_every_frame_is_counted() {
    let capture = Capture::new("both", &pcap(1, &dialog()));
    let replay = [
        "--pcap",
        &capture.0,
        "--replay",
        "--source",
        "10.0.0.1",
        "--both-ways",
    ];
    let result = json(&pair(
        &[&replay[..], &["--rate", "10x", "--time", "300ms", "--json"]].concat(),
    ));
    for (k, intended) in [(0, 200), (1, 100)] {
        let stream = &result["streams"][k];
        assert_eq!(stream["intended"], intended, "{stream}");
        assert!(stream["received"].as_u64() > Some(0), "{stream}");
        assert_eq!(
            (&stream["received"], &stream["lost"]),
            (&stream["sent"], &0.into())
        );
        assert_eq!(result["ports"][k]["foreign"], 0, "{result}");
    }
    // The acknowledgment carries no signature.
    let answered = |k: usize| result["streams"][k]["latency"]["count"].as_u64().unwrap();
    assert!(answered(0) <= 100 && answered(1) <= 100, "{result}");
}

#[test]
fn a_replay_lasts_as_long_as_its_capture_and_has_its_sizes() {
    let capture = Capture::new("once", &pcap(1, &dialog()));
    let replay = ["--pcap", &capture.0, "--replay", "--json"];
    let result = json(&pair(&replay));
    let stream = &result["streams"][0];
    assert_eq!(stream["intended"], 3, "{stream}");
    let mean = stream["bytes_mean"].as_f64().unwrap();
    assert!((mean - (86.0 + 106.0 + 64.0) / 3.0).abs() < 1e-9, "{mean}");
    let steady = json(&pair(
        &[&replay[..], &["--rate", "100", "--time", "300ms"]].concat(),
    ));
    assert_eq!(steady["streams"][0]["intended"], 30, "{steady}");
}

#[test]
fn payloads_of_unstamped_replays_stay_and_their_frames_are_counted_all_the_same() {
    let capture = Capture::new("plain", &pcap(1, &dialog()));
    let replay = ["--pcap", &capture.0, "--replay", "--unstamped", "--json"];
    let result = json(&pair(
        &[&replay[..], &["--rate", "10x", "--time", "300ms"]].concat(),
    ));
    let stream = &result["streams"][0];
    assert_eq!(
        (&stream["lost"], &stream["received"]),
        (&0.into(), &stream["sent"])
    );
    assert!(stream["latency"].is_null(), "{stream}");
}

#[test]
fn what_cannot_be_replayed_is_told_in_one_line_with_its_frame_and_nothing_is_sent() {
    let whole = pcap(1, &dialog());
    let mut backwards = dialog();
    backwards[1].0 = 30_000_000;
    let long = vec![(0, udp(1, 10_000)), (5, ack(1))];
    let alone = vec![(0, udp(1, 40))];
    for (name, bytes, told) in [
        ("cut", whole[..whole.len() - 5].to_vec(), "frame 3 at byte "),
        ("cooked", pcap(113, &dialog()), "byte 20: link type 113"),
        (
            "back",
            pcap(1, &backwards),
            "frame 3: captured 10000000 ns before frame 2",
        ),
        (
            "long",
            pcap(1, &long),
            "frame 1 of 10046 bytes: its ports carry",
        ),
        ("empty", pcap(1, &[]), "the capture holds no frame"),
        (
            "alone",
            pcap(1, &alone),
            "only a capture of frames at different times",
        ),
    ] {
        let capture = Capture::new(name, &bytes);
        let failed = pair(&["--pcap", &capture.0, "--replay"]);
        assert_eq!(failed.status.code(), Some(2), "{name}: {}", stderr(&failed));
        let lines = stderr(&failed);
        let errors = lines.lines().filter(|line| line.contains(told));
        assert_eq!(errors.count(), 1, "{name}: {lines}");
        assert!(failed.stdout.is_empty(), "{name}");
    }
}

#[test]
fn sides_that_nobody_has_or_that_are_not_told_apart_are_refused() {
    let capture = Capture::new("sides", &pcap(1, &dialog()));
    let replay = ["--pcap", &capture.0, "--replay"];
    for (more, told) in [
        (
            vec!["--both-ways"],
            "--both-ways: --source says which frames",
        ),
        (
            vec!["--source", "10.0.0.0/33"],
            "--source: expected an IP address or network",
        ),
        (
            vec!["--source", "10.9.0.0/16"],
            "holds no frame of that side",
        ),
        (vec!["--flows", "5"], "cannot be used with"),
    ] {
        let failed = pair(&[&replay[..], &more].concat());
        assert_eq!(failed.status.code(), Some(2), "{more:?}");
        assert!(
            stderr(&failed).contains(told),
            "{more:?}: {}",
            stderr(&failed)
        );
    }
}
