//! A device of known truth between two ports of the engine.

use super::common::{Engine, assert_identities, open, port, run, stream};
use super::{Veth, ip};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Device {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Device {
    /// Between the far ends of the two links.
    fn between(links: [&Veth; 2], options: &[&str]) -> Self {
        let ports = links.map(|link| format!("af_packet:end@{}", link.right));
        let mut command = Command::new(env!("CARGO_BIN_EXE_pinchpoint-engine"));
        command.arg("forward").args(ports).args(options);
        command.args(["--until-eof", "--json"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        let input = child.stdin.take().unwrap();
        Self {
            child,
            input,
            lines,
        }
    }

    fn counters(&mut self) -> Value {
        self.input.write_all(b"counters\n").unwrap();
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
    }
}

/// Sends `rate_fps` for half a second through a device with these options; returns
/// the engine's result and the device's account.
fn through(options: &[&str], rate_fps: f64) -> (Value, Value) {
    let links = [Veth::named("one"), Veth::named("two")];
    // The kernel's own frames would be forwarded and counted too.
    for end in links.iter().flat_map(|link| [&link.left, &link.right]) {
        ip(&format!(
            "netns exec {end} sysctl -qw net.ipv6.conf.end.disable_ipv6=1"
        ));
    }
    let mut device = Device::between([&links[0], &links[1]], options);
    let ports = [("left", &links[0]), ("right", &links[1])].map(|(name, link)| {
        let mut port = port(name, "af_packet", "end");
        port["netns"] = json!(link.left);
        port
    });
    let mut engine = Engine::start();
    assert_eq!(engine.ask(&open(&ports, &[]))["type"], "open");
    let mut request = run(0.5, &[stream(0, "left", "right", json!(rate_fps))]);
    request["drain_s"] = json!(0.5);
    let result = engine.ask(&request);
    assert_identities(&result);
    let account = device.counters();
    engine.bye();
    device.end();
    (result, account)
}

fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no count"))
}

#[test]
#[ignore = "needs root"]
fn what_a_device_drops_is_booked_at_its_place_and_all_of_it_is_missing_behind() {
    let options = [
        "--loss",
        "rx:every=10",
        "--loss",
        "tx:every=7",
        "--hide",
        "tx",
    ];
    // So slowly that the device's ring holds what arrives while it stands still.
    let (result, account) = through(&options, 1_000.0);
    let stream = &result["streams"][0];
    let (claims, truth) = (&account["directions"][0], &account["truth"][0]);
    let received = count(&truth["received"]);
    assert_eq!(count(&stream["sent"]), received, "{account}");
    let rx = received / 10;
    assert_eq!(count(&truth["drops"]["rx"]), rx);
    assert_eq!(count(&truth["drops"]["tx"]), (received - rx) / 7);
    assert_eq!(count(&claims["drops"]["tx"]), 0);
    let drops = rx + (received - rx) / 7 + count(&truth["drops"]["full"]);
    assert_eq!(count(&stream["lost"]), drops, "{stream} {account}");
}

#[test]
#[ignore = "needs root"]
fn a_device_forwards_no_more_than_its_rate_and_drops_the_rest_at_its_ring() {
    // So much slower than it is asked that it is, too, where a busy host keeps frames from being sent.
    let (result, account) = through(&["--rate", "500", "--ring", "64"], 20_000.0);
    let truth = &account["truth"][0];
    assert!(count(&truth["drops"]["ring"]) > 0, "{account}");
    // However late a busy host lets it serve what waits, all came within the drain. 1 %, and a turn.
    let times_s = ["duration_s", "drain_s"].map(|key| result[key].as_f64().unwrap());
    let most = 500.0 * times_s.iter().sum::<f64>() * 1.01 + 65.0;
    assert!(count(&truth["sent"]) as f64 <= most, "{account}");
    let received = &result["streams"][0]["received"];
    assert_eq!(count(received), count(&truth["sent"]));
}
