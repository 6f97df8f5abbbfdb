//! Ports of DPDK.

use super::common::{Engine, assert_identities, open, port, run, stream, two_cores};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

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
    let log = std::env::temp_dir().join(format!("pp-test-{}.log", std::process::id()));
    let mut engine = Engine::start_with(std::fs::File::create(&log).unwrap().into());
    let mut request = open(&ports, &EAL);
    request["longest_frame_bytes"] = json!(1518);
    let answer = engine.ask(&request);
    assert_eq!(answer["ports"][1]["rx_ring"], 1024, "{answer}");
    let carried = answer["ports"][1]["max_frame_bytes"].as_u64().unwrap();
    assert!((1518..=2002).contains(&carried), "{answer}");
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
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    assert!(
        text.contains("\n0 packet buffers were not given back"),
        "{text}"
    );
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

/// A switch under load may drop the connection in the handshake, and connects again.
#[test]
#[ignore = "needs root and hugepages"]
fn a_client_that_hangs_up_in_the_handshake_is_waited_for_again() {
    let socket = std::env::temp_dir().join(format!("pp-again-{}.sock", std::process::id()));
    let path = socket.display().to_string();
    let guest = format!("net_virtio_user0,path={path},server=1,queues=1,queue_size=1024");
    let switch = format!("net_vhost0,iface={path},client=1");
    let mut engine = Engine::start();
    let mut request = open(&[dpdk_port("guest", &guest)], &EAL);
    request["link_timeout_s"] = json!(30.0);
    engine.send(&request);
    for _ in 0..2 {
        drop(connected(&path));
        std::thread::sleep(Duration::from_millis(200));
    }
    let mut peer = Engine::start();
    assert_eq!(
        peer.ask(&open(&[dpdk_port("switch", &switch)], &EAL))["type"],
        "open"
    );
    assert_eq!(engine.receive()["type"], "open");
    peer.bye();
    engine.bye();
}

/// A switch that is stopped takes the connection and never answers.
#[test]
#[ignore = "needs root"]
fn a_device_whose_other_end_does_not_answer_keeps_neither_limit_nor_end_waiting() {
    let eal = ["--no-pci", "--no-huge", "-m", "256"];
    for (server, signal) in [(false, false), (true, true)] {
        let socket = std::env::temp_dir().join(format!("pp-mute-{}.sock", std::process::id()));
        let path = socket.display().to_string();
        let _ = std::fs::remove_file(&socket);
        let listener = (!server).then(|| UnixListener::bind(&socket).unwrap());
        let role = if server { ",server=1" } else { "" };
        let device = format!("net_virtio_user0,path={path},queue_size=1024{role}");
        let mut request = open(&[dpdk_port("left", &device)], &eal);
        request["link_timeout_s"] = json!(0.3);
        let mut engine = Engine::start();
        let begun = Instant::now();
        engine.send(&request);
        // The other end is there, and mute.
        let _mute = match &listener {
            Some(listener) => listener.accept().unwrap().0,
            None => connected(&path),
        };
        let answer = engine.receive();
        assert_eq!(answer["code"], "link_down", "{answer}");
        assert!(begun.elapsed() < Duration::from_secs(60));
        if !server {
            let message = answer["message"].as_str().unwrap();
            assert!(message.contains("its driver has not returned"), "{message}");
            let again = engine.ask(&request);
            assert_eq!(again["code"], "port_open", "{again}");
        }
        if signal {
            kill(Pid::from_raw(engine.pid()), Signal::SIGTERM).unwrap();
        } else {
            engine.close_input();
        }
        let expected = if signal { 143 } else { 0 };
        assert_eq!(engine.wait().code(), Some(expected));
        let _ = std::fs::remove_file(&socket);
    }
}

#[test]
#[ignore = "needs root"]
fn the_end_of_input_ends_a_device_that_waits_long_before_its_limit() {
    let socket = std::env::temp_dir().join(format!("pp-left-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&socket).unwrap();
    let device = format!("net_virtio_user0,path={},queue_size=1024", socket.display());
    let mut request = open(
        &[dpdk_port("left", &device)],
        &["--no-pci", "--no-huge", "-m", "256"],
    );
    request["link_timeout_s"] = json!(600.0);
    let mut engine = Engine::start();
    engine.send(&request);
    let _mute = listener.accept().unwrap();
    engine.close_input();
    assert_eq!(engine.wait().code(), Some(0));
    std::fs::remove_file(&socket).unwrap();
}

/// A connection to `path`, as soon as a process listens there.
/// Within a minute: an engine that could not open its port, for lack of hugepages say, listens never.
fn connected(path: &str) -> UnixStream {
    for _ in 0..6_000 {
        if let Ok(stream) = UnixStream::connect(path) {
            return stream;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{path}: nobody listens")
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
            .starts_with("left: cannot attach net_nothing0: ")
    );
    engine.bye();
}

/// `net_ring` with two workers: each has a queue of its own.
#[test]
#[ignore = "needs root and hugepages"]
fn two_workers_drive_two_queues_of_one_device() {
    let mut engine = Engine::start();
    let [one, other] = two_cores(&mut engine);
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
    let mut request = run(600.0, &[out]);
    request["sample_interval_s"] = json!(0.1);
    engine.send(&request);
    engine.await_some("sent");
    peer.bye();
    let result = engine.answer();
    assert_eq!(
        (&result["status"], &result["reason"]),
        (&json!("aborted"), &json!("guest: its link went down"))
    );
    assert_identities(&result);
    engine.bye();
}
