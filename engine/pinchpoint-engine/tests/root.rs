//! Ports of the kernel and of DPDK. These tests need root, and those of DPDK
//! 256 free hugepages of 2 MiB (`sysctl vm.nr_hugepages=256`); run them one at
//! a time:
//!
//! ```text
//! cargo test --release --features dpdk --test root -- --ignored --test-threads 1
//! ```

mod common;

use common::{Engine, assert_identities, open, port, run, stream};
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
        let name = |end| format!("pp-test-{}-{end}", std::process::id());
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
        [("left", &self.left), ("right", &self.right)].map(|(name, namespace)| {
            let mut port = port(name, "af_packet", "end");
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

/// The last line that the command form prints.
fn command(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_pinchpoint-engine"))
        .args(args)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[ignore = "needs root"]
fn commands_send_listen_and_transact_between_namespaces() {
    let veth = Veth::new().addressed();
    let left = format!("af_packet:end@{}", veth.left);
    let right = format!("af_packet:end@{}", veth.right);
    let path = ["send", "--from", &left, "--to", &right, "--both-ways"];
    let load = ["--rate", "1k", "--time", "500ms", "--flows", "100"];
    let result = command(&[&path[..], &load, &["--json"]].concat());
    for k in [0, 1] {
        assert_eq!(result["streams"][k]["lost"], 0, "{result}");
        assert!(result["streams"][k]["received"].as_u64() > Some(0));
    }
    let listen = ["listen", &right, "--time", "1s", "--json"];
    let heard = std::thread::scope(|scope| {
        let listening = scope.spawn(|| command(&listen));
        std::thread::sleep(std::time::Duration::from_millis(300));
        command(&[&["send", "--from", &left, "--json"], &load[..]].concat());
        listening.join().unwrap()
    });
    assert!(heard["ports"][0]["foreign"].as_u64() > Some(0), "{heard}");
    let places = ["--client", &veth.left, "--server", &veth.right];
    let rr = ["rr", "--address", "10.78.0.2", "--time", "200ms", "--json"];
    let result = command(&[&rr[..], &places].concat());
    assert_eq!(result["runs"][0]["failed"], 0, "{result}");
}

#[test]
#[ignore = "needs root"]
fn af_packet_carries_both_directions_between_namespaces() {
    let veth = Veth::new();
    let mut engine = Engine::start();
    let answer = engine.ask(&open(&veth.ports(), &[]));
    assert_eq!(answer["ports"][0]["mode"], "af_packet", "{answer}");
    let there = stream(0, "left", "right", json!(20_000.0));
    let mut back = stream(1, "right", "left", json!(20_000.0));
    back["size"] = json!({"fixed": 1518});
    let mut request = run(0.5, &[there, back]);
    request["drain_s"] = json!(0.2);
    let result = engine.ask(&request);
    assert_identities(&result);
    for k in [0, 1] {
        let stream = &result["streams"][k];
        assert!(stream["sent"].as_u64().unwrap() > 0);
        for key in ["lost", "corrupt", "duplicated", "reordered"] {
            assert_eq!(stream[key], 0, "{key}");
        }
        assert_eq!(result["ports"][k]["rx_missed"], 0);
    }
    engine.bye();
}

#[test]
#[ignore = "needs root"]
fn af_packet_names_what_is_missing() {
    let veth = Veth::new();
    let mut engine = Engine::start();
    let mut ports = veth.ports();
    ports[0]["device"] = json!("nothing");
    let answer = engine.ask(&open(&ports, &[]));
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.starts_with("left: nothing interface: "),
        "{message}"
    );
    ports[0]["netns"] = json!("no-such-namespace");
    let answer = engine.ask(&open(&ports, &[]));
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("no-such-namespace")
    );
    ip(&format!("-n {} link set end down", veth.right));
    let mut request = open(&veth.ports(), &[]);
    request["link_timeout_s"] = json!(0.1);
    assert_eq!(engine.ask(&request)["code"], "link_down");
    engine.bye();
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use super::*;

    const EAL: [&str; 5] = [
        "--no-pci",
        "--in-memory",
        "--single-file-segments",
        "-m",
        "256",
    ];

    fn dpdk_port(name: &str, device: &str) -> Value {
        port(name, "dpdk", device)
    }

    #[test]
    #[ignore = "needs root and hugepages"]
    fn net_null_takes_everything_and_says_so() {
        let mut engine = Engine::start();
        let ports = [dpdk_port("left", "net_null0,no-rx=1")];
        let answer = engine.ask(&open(&ports, &EAL));
        assert_eq!(answer["ports"][0]["mode"], "net_null", "{answer}");
        let result = engine.ask(&run(0.2, &[stream(0, "left", "left", Value::Null)]));
        assert_identities(&result);
        let sent = &result["streams"][0]["sent"];
        assert_eq!(&result["ports"][0]["stats"]["tx_good_packets"], sent);
        assert!(result["ports"][0]["rx_missed"].is_null());
        engine.bye();
    }

    #[test]
    #[ignore = "needs root and hugepages"]
    fn net_ring_brings_every_frame_back_in_order_and_intact() {
        let mut engine = Engine::start();
        assert_eq!(
            engine.ask(&open(&[dpdk_port("loop", "net_ring0")], &EAL))["type"],
            "open"
        );
        for (epoch, frame_bytes, rate) in [(1, 64, Value::Null), (2, 1518, json!(1e5))] {
            let mut stream = stream(0, "loop", "loop", rate);
            stream["size"] = json!({"fixed": frame_bytes});
            let mut request = run(0.2, &[stream]);
            request["epoch"] = json!(epoch);
            let result = engine.ask(&request);
            assert_identities(&result);
            let account = &result["streams"][0];
            for key in ["lost", "corrupt", "duplicated", "reordered"] {
                assert_eq!(account[key], 0, "{key}");
            }
        }
        engine.bye();
    }

    /// A vhost-user switch in the engine's own process: DPDK's vhost driver is
    /// the client of the server port. What one sends the other receives.
    #[test]
    #[ignore = "needs root and hugepages"]
    fn vhost_user_meets_virtio_user() {
        let socket = std::env::temp_dir().join(format!("pp-test-{}.sock", std::process::id()));
        let socket = socket.display();
        let ports = [
            dpdk_port("switch", &format!("net_vhost0,iface={socket},client=1")),
            dpdk_port(
                "guest",
                &format!("net_virtio_user0,path={socket},server=1,queues=1,queue_size=1024"),
            ),
        ];
        let mut engine = Engine::start();
        let answer = engine.ask(&open(&ports, &EAL));
        assert_eq!(answer["ports"][1]["rx_ring"], 1024, "{answer}");
        let there = stream(0, "guest", "switch", json!(100_000.0));
        let back = stream(1, "switch", "guest", json!(100_000.0));
        let result = engine.ask(&run(0.2, &[there, back]));
        assert_identities(&result);
        for k in [0, 1] {
            let account = &result["streams"][k];
            assert!(account["received"].as_u64().unwrap() > 0, "{account}");
            for key in ["lost", "corrupt", "duplicated", "reordered"] {
                assert_eq!(account[key], 0, "{key}");
            }
        }
        engine.bye();
    }

    #[test]
    #[ignore = "needs root and hugepages"]
    fn a_server_port_without_a_client_gives_up_in_time_and_cleans_up() {
        let socket = std::env::temp_dir().join(format!("pp-alone-{}.sock", std::process::id()));
        let device = format!("net_virtio_user0,path={},server=1", socket.display());
        let mut engine = Engine::start();
        let mut request = open(&[dpdk_port("left", &device)], &EAL);
        request["link_timeout_s"] = json!(0.3);
        for _ in 0..2 {
            let answer = engine.ask(&request);
            assert_eq!(answer["code"], "link_down", "{answer}");
            assert!(!socket.exists());
        }
        engine.send(&request);
        engine.close_input();
        assert_eq!(engine.wait().code(), Some(0));
    }

    #[test]
    #[ignore = "needs root and hugepages"]
    fn a_device_that_does_not_exist_is_named() {
        let mut engine = Engine::start();
        let answer = engine.ask(&open(&[dpdk_port("left", "net_nothing0")], &EAL));
        assert_eq!(answer["code"], "port_open");
        assert!(
            answer["message"]
                .as_str()
                .unwrap()
                .starts_with("left: attach net_nothing0: ")
        );
        engine.bye();
    }
}
