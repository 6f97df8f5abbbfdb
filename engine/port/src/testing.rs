//! Network namespaces for tests, joined by a veth pair.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Two namespaces whose names carry the process id, each with its end `v0` of
/// one veth pair, up; removed with the value.
pub(crate) struct Bench {
    pub(crate) near: String,
    pub(crate) far: String,
}

/// Runs `ip` with arguments parted by spaces.
pub(crate) fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(status.unwrap().success(), "ip {arguments}");
}

/// What `ip` prints, with arguments parted by spaces.
pub(crate) fn ip_output(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

impl Bench {
    /// `link` goes behind `ip link add`'s own words for the near end.
    pub(crate) fn new(link: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("ppxdp{}-{number}{end}", std::process::id());
        let bench = Self {
            near: name("a"),
            far: name("b"),
        };
        ip(&format!("netns add {}", bench.near));
        ip(&format!("netns add {}", bench.far));
        ip(&format!(
            "link add v0 netns {}{link} type veth peer name v0 netns {}{link}",
            bench.near, bench.far
        ));
        for end in [&bench.near, &bench.far] {
            ip(&format!("-n {end} link set v0 up"));
        }
        bench
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for end in [&self.near, &self.far] {
            let _ = Command::new("ip").args(["netns", "del", end]).status();
        }
    }
}
