//! Ports of the kernel: packet sockets, AF_XDP, live frames.

use super::common::{Engine, assert_identities, open, run, stream};
use super::{Veth, ip};
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

/// Sends both ways between the ports and expects every frame back.
fn carries_both_directions(ports: &[Value; 2], mode: &str, sizes: [usize; 2]) {
    let mut engine = Engine::start();
    let answer = engine.ask(&open(ports, &[]));
    let found = answer["ports"][0]["mode"].as_str().unwrap_or_default();
    assert!(found.starts_with(mode), "{answer}");
    let mut there = stream(0, "left", "right", json!(2_000.0));
    there["size"] = json!({"fixed": sizes[0]});
    let mut back = stream(1, "right", "left", json!(2_000.0));
    back["size"] = json!({"fixed": sizes[1]});
    let mut request = run(0.5, &[there, back]);
    request["drain_s"] = json!(1.0);
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

/// Begins a trial of ten minutes and waits until some of its frames have arrived.
fn send_long(engine: &mut Engine) {
    let mut request = run(600.0, &[stream(0, "left", "right", json!(5000.0))]);
    request["sample_interval_s"] = json!(0.1);
    engine.send(&request);
    engine.await_some("received");
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
        send_long(&mut engine);
        ip(&format!("-n {} link del end", veth.left));
        let result = engine.answer();
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
        assert!(result["duration_s"].as_f64().unwrap() < 300.0);
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
        send_long(&mut engine);
        ip(&format!("-n {} link set end down", veth.left));
        let result = engine.answer();
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
        let begun = Instant::now();
        loop {
            let neighbours = Command::new("ip")
                .args(["-n", &veth.left, "neigh", "show", address])
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&neighbours.stdout).into_owned();
            if text.contains(mac) {
                break;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "{address}: '{text}'"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
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
