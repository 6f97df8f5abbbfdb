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
