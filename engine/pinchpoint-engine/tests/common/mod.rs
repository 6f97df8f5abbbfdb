//! Talks to the real binary.
// Each test file uses a part, and passes literals.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::needless_pass_by_value
)]

pub mod kernel_threads;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

pub struct Engine {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Engine {
    pub fn start() -> Self {
        Self::start_with(Stdio::null())
    }

    /// With its log in a file, or nowhere.
    pub fn start_with(log: Stdio) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pinchpoint-engine"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            input,
            output,
        }
    }

    pub fn send_line(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        self.send_line(message.to_string().as_bytes());
    }

    /// The next message; null at the end of output.
    pub fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        if line.is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e} in {line}"))
    }

    /// Sends and returns the first answer that is not a sample.
    pub fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.answer()
    }

    /// The next message that is not a sample.
    pub fn answer(&mut self) -> Value {
        loop {
            let answer = self.receive();
            if answer["type"] != "sample" {
                return answer;
            }
        }
    }

    /// Waits for a sample in which this count is above zero.
    pub fn await_some(&mut self, count: &str) {
        loop {
            let sample = self.receive();
            assert_eq!(sample["type"], "sample", "{sample}");
            if sample[count].as_u64().unwrap() > 0 {
                return;
            }
        }
    }

    pub fn close_input(&mut self) {
        self.input = None;
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// `bye`, checked to the exit status.
    pub fn bye(mut self) {
        assert_eq!(self.ask(&json!({"type": "bye"})), json!({"type": "bye"}));
        assert_eq!(self.receive(), Value::Null);
        assert_eq!(self.wait().code(), Some(0));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn port(name: &str, backend: &str, device: &str) -> Value {
    json!({"name": name, "backend": backend, "device": device, "netns": null,
           "rx_ring": 1024, "tx_ring": 1024, "answers": []})
}

/// The first core this process may use.
pub fn core() -> usize {
    let mut engine = Engine::start();
    let hello = engine.ask(&json!({"type": "hello", "protocol": 9}));
    let core = hello["cores"][0].as_u64().unwrap();
    usize::try_from(core).unwrap()
}

/// Two cores for two workers. With one core a test of them would show nothing, so it fails.
pub fn two_cores(engine: &mut Engine) -> [Value; 2] {
    let hello = engine.ask(&json!({"type": "hello", "protocol": 9}));
    match &hello["cores"].as_array().unwrap()[..] {
        [one, other, ..] => [one.clone(), other.clone()],
        cores => panic!("this test needs two cores, and may use {cores:?}"),
    }
}

/// One worker for all ports.
pub fn open(ports: &[Value], eal_args: &[&str]) -> Value {
    let mut names: Vec<_> = ports.iter().map(|port| &port["name"]).collect();
    names.dedup();
    json!({"type": "open", "workers": [{"core": core(), "ports": names}],
           "eal_args": eal_args, "ports": ports, "link_timeout_s": 5.0})
}

pub fn mem_pair(faults: &str) -> Value {
    let right = format!("pair0{faults}");
    open(
        &[port("left", "mem", "pair0"), port("right", "mem", &right)],
        &[],
    )
}

pub fn stream(id: u8, tx: &str, rx: &str, rate_fps: Value) -> Value {
    let rate = match rate_fps {
        Value::Null => Value::Null,
        rate_fps => json!({"fps": rate_fps}),
    };
    json!({"id": id, "tx_port": tx, "rx_port": rx, "rate": rate, "shape": {"steady": {}},
           "size": {"fixed": 64},
           "template": {"layers": [
               {"ethernet": {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}},
               {"ipv4": {"src": "16.0.0.1", "dst": "48.0.0.1"}},
               {"udp": {"src": 1025, "dst": 12}}]},
           "stamped": true, "wrong_checksums": [], "seed": 1, "flows": 65536,
           "fields": [
               {"field": "ipv4.dst", "op": {"increment": {"step": 1, "count": 65535}}},
               {"field": "ipv4.src", "op": {"increment": {"step": 1, "count": 255}}}],
           "tracked_flows": 0})
}

pub fn run(duration_s: f64, streams: &[Value]) -> Value {
    json!({"type": "run", "trial": "t", "epoch": 1, "duration_s": duration_s, "drain_s": 0.1,
           "sample_interval_s": null, "probe_cores":[], "quiet_within_s": 0.0, "verify_checksums": true,
           "tx_burst": 64, "latency_every": 1, "loopback": false, "capture": null, "slices": null,
           "streams": streams})
}

/// Checks what holds for every result, whatever happened.
pub fn assert_identities(result: &Value) {
    assert_identities_sampled(result, 1);
}

/// The same where latency is recorded of one frame in `every`.
pub fn assert_identities_sampled(result: &Value, every: u64) {
    assert_eq!(result["type"], "result", "{result}");
    for stream in result["streams"].as_array().unwrap() {
        let count = |key: &str| stream[key].as_u64().unwrap();
        assert_eq!(count("offered"), count("sent") + count("refused"));
        if let Some(intended) = stream["intended"].as_u64() {
            assert_eq!(intended, count("offered") + count("shortfall"));
        }
        let Some(received) = stream["received"].as_u64() else {
            assert!(stream["lost"].is_null() && stream["latency"].is_null());
            continue;
        };
        assert_eq!(count("lost"), count("sent") - received);
        if received > 0 && every == 1 {
            assert_eq!(stream["latency"]["count"].as_u64(), Some(received));
        }
        if received == 0 {
            assert!(stream["latency"].is_null());
        }
    }
}
