use super::super::{Known, KnownPort};
use super::*;
use serde_json::{Value, json};

/// A load of the golden file, with these changes.
fn request(changes: &Value) -> ConnectionsRequest {
    let golden = include_str!("../../../../protocol/golden/connections.jsonl");
    let mut request: Value = serde_json::from_str(golden.lines().next().unwrap()).unwrap();
    let keys = request.as_object_mut().unwrap();
    keys.remove("type");
    keys.extend(changes.as_object().unwrap().clone());
    serde_json::from_value(request).unwrap()
}

/// Two ports that two workers drive.
fn known(max_len: usize) -> Known {
    let port = |name: &str| KnownPort {
        name: name.to_owned(),
        backend: Backend::Mem,
        max_len,
        rx_ring: 1024,
        smallest_ring: 1024,
        stamps: Stamps::Engine,
        speed_bps: None,
        workers: vec![(0, 0), (1, 0)],
    };
    Known {
        ports: vec![port("left"), port("right")],
        cores: vec![3, 4],
    }
}

fn refusal(request: &ConnectionsRequest, known: &Known) -> String {
    connections(request, known).unwrap_err().message
}

#[test]
fn a_load_has_frames_as_long_as_what_it_asks_and_is_answered() {
    for (changes, longest) in [
        (json!({}), 118),
        (json!({"work": "syn"}), 60),
        (json!({"work": "udp", "request_bytes": 100}), 154),
        (json!({"request_bytes": 1460}), 1514),
        (json!({"answer_bytes": 1 << 20}), 1494),
        (json!({"answer_bytes": 1 << 20, "timestamps": true}), 1494),
        (json!({"backends": ["[fd00::1]:80"]}), 138),
        (
            json!({"work": "syn", "to": "[fd00::1]:80", "clients": "fd00::2"}),
            94,
        ),
    ] {
        let load = Load::new(&request(&changes), 1).unwrap();
        assert_eq!(load.longest_frame(), longest, "{changes}");
    }
}

#[test]
fn a_load_fits_the_frames_of_its_ports() {
    let request = request(&json!({}));
    let (load, ports) = connections(&request, &known(118)).unwrap();
    assert_eq!((load.parts.len(), ports), (2, vec![0, 1]));
    let told = refusal(&request, &known(117));
    assert!(
        told.starts_with(
            "ports[0]: 'left' carries frames of up to 121 bytes, this load has some of 122;"
        ),
        "{told}"
    );
}

#[test]
fn a_port_of_a_load_receives_and_has_the_engines_clock() {
    let request = request(&json!({}));
    let changed = |change: fn(&mut KnownPort)| {
        let mut known = known(9018);
        change(&mut known.ports[1]);
        refusal(&request, &known)
    };
    for (told, expected) in [
        (changed(|port| port.rx_ring = 0), "sends and receives"),
        (
            changed(|port| port.backend = Backend::XdpLive),
            "sends and receives",
        ),
        (changed(|port| port.stamps = Stamps::Nic), "stamps="),
        (changed(|port| port.workers.truncate(1)), "of every worker"),
    ] {
        assert!(
            told.starts_with("ports[1]: ") && told.contains(expected),
            "{told}"
        );
    }
}

#[test]
fn no_number_is_taken_that_is_none() {
    for key in [
        "ramp_s",
        "lead_s",
        "timeout_s",
        "hold_s",
        "sample_interval_s",
    ] {
        for value in [f64::NAN, f64::INFINITY, -0.1, 1e18] {
            let mut request = request(&json!({}));
            match key {
                "ramp_s" => request.ramp_s = value,
                "lead_s" => request.lead_s = value,
                "timeout_s" => request.timeout_s = value,
                "hold_s" => request.hold_s = value,
                _ => request.sample_interval_s = Some(value),
            }
            let told = refusal(&request, &known(9018));
            assert!(told.starts_with(key), "{value}: {told}");
        }
    }
}
