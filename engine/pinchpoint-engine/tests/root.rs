//! Ports of the kernel and of DPDK. These tests need root, and those of DPDK
//! 256 free hugepages of 2 MiB (`sysctl vm.nr_hugepages=256`); run them one at
//! a time:
//!
//! ```text
//! cargo test --release --features dpdk --test root -- --ignored --test-threads 1
//! ```

mod common;

use common::{Engine, assert_identities, open, port, run, stream};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

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
    let listen = ["listen", &right, "--time", "2s", "--json"];
    let heard = std::thread::scope(|scope| {
        let listening = scope.spawn(|| command(&listen));
        std::thread::sleep(std::time::Duration::from_millis(300));
        let sent = command(&[&["send", "--from", &left, "--json"], &load[..]].concat());
        (sent, listening.join().unwrap())
    });
    let (sent, heard) = heard;
    // Neighbours' own frames may come on top.
    let count = |key: &str| heard["ports"][0][key].as_u64().unwrap();
    let sent = sent["streams"][0]["sent"].as_u64().unwrap();
    assert!(
        sent > 0 && count("late") + count("foreign") >= sent,
        "{heard}"
    );
    let places = ["--client", &veth.left, "--server", &veth.right];
    let rr = ["rr", "--address", "10.78.0.2", "--time", "200ms", "--json"];
    let result = command(&[&rr[..], &places].concat());
    assert_eq!(result["runs"][0]["failed"], 0, "{result}");
}

#[test]
#[ignore = "needs root"]
fn a_relay_joins_two_links_for_frames_of_every_size_and_for_tcp() {
    let (one, two) = (Veth::named("one"), Veth::named("two"));
    let outer = [&one, &two].map(|veth| format!("af_packet:end@{}", veth.right));
    let inner = [&one, &two].map(|veth| format!("af_packet:end@{}", veth.left));
    let mut child = Command::new(env!("CARGO_BIN_EXE_pinchpoint-engine"))
        .args(["relay", &outer[0], &outer[1], "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let path = [
        "send",
        "--from",
        &inner[0],
        "--to",
        &inner[1],
        "--both-ways",
    ];
    let load = ["--rate", "2k", "--time", "500ms", "--size", "64-1518"];
    let result = command(&[&path[..], &load, &["--drain", "1s", "--json"]].concat());
    for k in [0, 1] {
        assert_eq!(result["streams"][k]["lost"], 0, "{result}");
        assert_eq!(result["streams"][k]["reordered"], 0, "{result}");
        assert_eq!(result["streams"][k]["corrupt"], 0, "{result}");
    }
    for (veth, host) in [(&one, 1), (&two, 2)] {
        let netns = &veth.left;
        ip(&format!("-n {netns} address add 10.78.1.{host}/24 dev end"));
        let words = ["netns", "exec", netns, "ethtool", "-K", "end", "tx", "off"];
        let mut ethtool = Command::new("ip");
        let status = ethtool.args(words).stdout(Stdio::null()).status();
        assert!(status.unwrap().success());
    }
    let places = ["--client", &one.left, "--server", &two.left];
    let crr = ["crr", "--address", "10.78.1.2", "--time", "200ms", "--json"];
    let result = command(&[&crr[..], &places].concat());
    assert_eq!(result["runs"][0]["failed"], 0, "{result}");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    let account: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    for way in account["directions"].as_array().unwrap() {
        assert!(way["sent"].as_u64() > Some(900), "{account}");
        assert_eq!(way["received"], way["sent"], "{account}");
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Sends both ways between the ports and expects every frame back.
fn carries_both_directions(ports: &[Value; 2], mode: &str, sizes: [usize; 2]) {
    let mut engine = Engine::start();
    let answer = engine.ask(&open(ports, &[]));
    let found = answer["ports"][0]["mode"].as_str().unwrap_or_default();
    assert!(found.starts_with(mode), "{answer}");
    let mut there = stream(0, "left", "right", json!(20_000.0));
    there["size"] = json!({"fixed": sizes[0]});
    let mut back = stream(1, "right", "left", json!(20_000.0));
    back["size"] = json!({"fixed": sizes[1]});
    let mut request = run(0.5, &[there, back]);
    request["drain_s"] = json!(0.2);
    let result = engine.ask(&request);
    assert_identities(&result);
    for k in [0, 1] {
        let stream = &result["streams"][k];
        assert!(stream["received"].as_u64().unwrap() > 0);
        for key in ["lost", "corrupt", "duplicated", "reordered"] {
            assert_eq!(stream[key], 0, "{key}: {}", result["ports"]);
        }
        assert_eq!(result["ports"][k]["rx_missed"], 0);
    }
    engine.bye();
}

#[test]
#[ignore = "needs root"]
fn af_packet_carries_both_directions_between_namespaces() {
    let veth = Veth::new();
    carries_both_directions(&veth.ports(), "af_packet", [64, 1518]);
}

#[test]
#[ignore = "needs root"]
fn af_xdp_carries_both_directions_between_namespaces() {
    let veth = Veth::new();
    carries_both_directions(&veth.ports_of("af_xdp"), "af_xdp native", [64, 1518]);
}

#[test]
#[ignore = "needs root"]
fn live_frames_of_the_kernel_arrive_at_an_af_xdp_port() {
    let veth = Veth::new();
    let mut ports = veth.ports_of("xdp_live");
    for port in &mut ports {
        port["device"] = json!("end,rx=1");
    }
    carries_both_directions(&ports, "xdp_live and af_xdp", [64, 1024]);
}

#[test]
#[ignore = "needs root"]
fn an_interface_that_goes_ends_the_trial_as_aborted_with_its_counts() {
    for backend in ["af_packet", "af_xdp"] {
        let veth = Veth::new();
        let mut engine = Engine::start();
        assert_eq!(
            engine.ask(&open(&veth.ports_of(backend), &[]))["type"],
            "open"
        );
        engine.send(&run(60.0, &[stream(0, "left", "right", json!(5000.0))]));
        std::thread::sleep(std::time::Duration::from_millis(300));
        ip(&format!("-n {} link del end", veth.left));
        let result = engine.receive();
        assert_identities(&result);
        assert_eq!(result["status"], "aborted", "{backend}: {result}");
        let reason = result["reason"].as_str().unwrap();
        assert!(
            ["left: ", "right: "]
                .iter()
                .any(|name| reason.starts_with(name)),
            "{reason}"
        );
        assert!(result["streams"][0]["received"].as_u64().unwrap() > 0);
        assert!(result["duration_s"].as_f64().unwrap() < 30.0);
        engine.bye();
    }
}

#[test]
#[ignore = "needs root"]
fn an_interface_that_goes_down_ends_the_trial_as_aborted() {
    for backend in ["af_packet", "af_xdp"] {
        let veth = Veth::new();
        let mut engine = Engine::start();
        assert_eq!(
            engine.ask(&open(&veth.ports_of(backend), &[]))["type"],
            "open"
        );
        engine.send(&run(60.0, &[stream(0, "left", "right", json!(5000.0))]));
        std::thread::sleep(std::time::Duration::from_millis(300));
        ip(&format!("-n {} link set end down", veth.left));
        let result = engine.receive();
        assert_identities(&result);
        assert_eq!(result["status"], "aborted", "{backend}: {result}");
        let reason = result["reason"].as_str().unwrap();
        assert!(reason.ends_with(" is down"), "{reason}");
        engine.bye();
    }
}

#[test]
#[ignore = "needs root"]
fn a_port_that_only_sends_expects_and_answers_nothing() {
    let veth = Veth::new();
    let mut engine = Engine::start();
    let mut ports = veth.ports_of("xdp_live");
    assert_eq!(engine.ask(&open(&ports, &[]))["type"], "open");
    let answer = engine.ask(&run(0.1, &[stream(0, "left", "right", json!(1000.0))]));
    let message = answer["message"].as_str().unwrap();
    assert!(message.starts_with("streams[0].rx_port: "), "{message}");
    let mut shared = stream(0, "left", "left", json!(1000.0));
    shared["rx_port"] = Value::Null;
    shared["fields"] = json!([
        {"field": "ipv4.dscp", "op": {"increment": {"step": 1, "count": 2}}},
        {"field": "ipv4.ttl", "op": {"random": {"min": 1, "max": 9, "count": 2}}}]);
    shared["flows"] = json!(4);
    let answer = engine.ask(&run(0.1, &[shared]));
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.starts_with("streams[0].fields[1].op: "),
        "{message}"
    );
    ports[0]["answers"] = json!([{"ip": "10.9.0.2", "mac": "02:00:00:00:09:02"}]);
    let answer = engine.ask(&open(&ports, &[]));
    let message = answer["message"].as_str().unwrap();
    assert!(message.starts_with("ports[0].answers: "), "{message}");
    engine.bye();
}

/// The kernel of the left namespace asks for an address of the right port.
#[test]
#[ignore = "needs root"]
fn neighbours_learn_the_addresses_of_a_port() {
    let veth = Veth::new();
    ip(&format!("-n {} addr add 10.9.0.1/24 dev end", veth.left));
    ip(&format!(
        "-n {} addr add fd09::1/64 dev end nodad",
        veth.left
    ));
    let mac = "02:00:00:00:09:02";
    let mut right = veth.ports()[1].clone();
    right["answers"] = json!([{"ip": "10.9.0.2", "mac": mac}, {"ip": "fd09::2", "mac": mac}]);
    let mut engine = Engine::start();
    assert_eq!(engine.ask(&open(&[right], &[]))["type"], "open");
    let mut beacon = stream(0, "right", "right", json!(10.0));
    beacon["rx_port"] = Value::Null;
    engine.send(&run(30.0, &[beacon]));
    for address in ["10.9.0.2", "fd09::2"] {
        // A datagram makes the kernel ask who has the address.
        let datagram = format!("echo > /dev/udp/{address}/9");
        let _ = Command::new("ip")
            .args(["netns", "exec", &veth.left, "bash", "-c", &datagram])
            .output()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        let neighbours = Command::new("ip")
            .args(["-n", &veth.left, "neigh", "show", address])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&neighbours.stdout).into_owned();
        assert!(text.contains(mac), "{address}: '{text}'");
    }
    let result = engine.ask(&json!({"type": "stop"}));
    assert!(
        result["ports"][0]["answered"].as_u64().unwrap() >= 2,
        "{result}"
    );
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

    /// `net_ring` with two workers: each has a queue of its own.
    #[test]
    #[ignore = "needs root and hugepages"]
    fn two_workers_drive_two_queues_of_one_device() {
        let mut engine = Engine::start();
        let hello = engine.ask(&json!({"type": "hello", "protocol": 3}));
        let [one, other, ..] = &hello["cores"].as_array().unwrap()[..] else {
            return;
        };
        let mut request = open(&[dpdk_port("null", "net_null0,no-rx=1")], &EAL);
        request["workers"] =
            json!([{"core": one, "ports": ["null"]}, {"core": other, "ports": ["null"]}]);
        let answer = engine.ask(&request);
        assert_eq!(answer["ports"][0]["queues"], 2, "{answer}");
        let mut sink = stream(0, "null", "null", Value::Null);
        sink["rx_port"] = Value::Null;
        let result = engine.ask(&run(0.2, &[sink]));
        assert_identities(&result);
        let sent = &result["streams"][0]["sent"];
        assert_eq!(&result["ports"][0]["stats"]["tx_good_packets"], sent);
        let workers = result["witness"]["workers"].as_array().unwrap();
        assert!(
            workers
                .iter()
                .all(|worker| worker["busy_share"].as_f64().unwrap() > 0.5)
        );
        engine.bye();
    }

    #[test]
    #[ignore = "needs root"]
    fn no_hugepages_are_needed() {
        let mut engine = Engine::start();
        let eal = ["--no-pci", "--no-huge", "-m", "256"];
        let answer = engine.ask(&open(&[dpdk_port("loop", "net_ring0")], &eal));
        assert_eq!(answer["type"], "open", "{answer}");
        let result = engine.ask(&run(0.1, &[stream(0, "loop", "loop", json!(50_000.0))]));
        assert_identities(&result);
        assert_eq!(result["streams"][0]["lost"], 0);
        engine.bye();
    }

    /// The other end hangs up in the middle of a trial.
    #[test]
    #[ignore = "needs root and hugepages"]
    fn a_peer_that_hangs_up_ends_the_trial_as_aborted() {
        let socket = std::env::temp_dir().join(format!("pp-gone-{}.sock", std::process::id()));
        let path = socket.display();
        let guest = format!("net_virtio_user0,path={path},server=1,queues=1,queue_size=1024");
        let switch = format!("net_vhost0,iface={path},client=1");
        let mut peer = Engine::start();
        let mut engine = Engine::start();
        engine.send(&open(&[dpdk_port("guest", &guest)], &EAL));
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert_eq!(
            peer.ask(&open(&[dpdk_port("switch", &switch)], &EAL))["type"],
            "open"
        );
        assert_eq!(engine.receive()["type"], "open");
        let mut out = stream(0, "guest", "guest", json!(1000.0));
        out["rx_port"] = Value::Null;
        engine.send(&run(30.0, &[out]));
        std::thread::sleep(std::time::Duration::from_millis(300));
        peer.bye();
        let result = engine.receive();
        assert_eq!(
            (&result["status"], &result["reason"]),
            (&json!("aborted"), &json!("guest: its link went down"))
        );
        assert_identities(&result);
        engine.bye();
    }
}
