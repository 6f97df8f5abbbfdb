//! Ports of the kernel and of DPDK. These tests need root, and those of DPDK
//! 256 free hugepages of 2 MiB (`sysctl vm.nr_hugepages=256`); run them one at
//! a time:
//!
//! ```text
//! cargo test --release --features dpdk --test root -- --ignored --test-threads 1
//! ```

mod commands;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "dpdk")]
mod dpdk;
mod forward;
mod kernel;

use common::port;
use serde_json::{Value, json};
use std::process::Command;

fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// Two namespaces joined by a veth pair, removed at the end.
struct Veth {
    left: String,
    right: String,
}

impl Veth {
    fn new() -> Self {
        Self::named("")
    }

    /// One of several.
    fn named(which: &str) -> Self {
        let name = |end| format!("pp-test-{}-{which}{end}", std::process::id());
        let veth = Self {
            left: name("left"),
            right: name("right"),
        };
        let Self { left, right } = &veth;
        ip(&format!("netns add {left}"));
        ip(&format!("netns add {right}"));
        ip(&format!(
            "-n {left} link add end type veth peer name end netns {right}"
        ));
        for namespace in [left, right] {
            ip(&format!("-n {namespace} link set end up"));
        }
        veth
    }

    /// Gives the ends 10.78.0.1 and .2.
    fn addressed(self) -> Self {
        for (namespace, host) in [(&self.left, 1), (&self.right, 2)] {
            ip(&format!(
                "-n {namespace} address add 10.78.0.{host}/24 dev end"
            ));
        }
        self
    }

    fn ports(&self) -> [Value; 2] {
        self.ports_of("af_packet")
    }

    fn ports_of(&self, backend: &str) -> [Value; 2] {
        [("left", &self.left), ("right", &self.right)].map(|(name, namespace)| {
            let mut port = port(name, backend, "end");
            port["netns"] = json!(namespace);
            port
        })
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        for namespace in [&self.left, &self.right] {
            let _ = Command::new("ip")
                .args(["netns", "del", namespace])
                .status();
        }
    }
}
