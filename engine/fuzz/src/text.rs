//! Targets of what is read from stdin and from files.

use pinchpoint_engine::convert::{Known, KnownPort};
use pinchpoint_engine::input::{Event, MAX_LINE, read_lines};
use pinchpoint_engine::protocol::Request;
use pinchpoint_engine::{convert, parse};
use pinchpoint_import::{pcap as captures, replay, trex as profiles};
use pinchpoint_port::{Backend, Stamps};
use pinchpoint_traffic::recorded::Recorded;
use pinchpoint_traffic::replay::Replay;
use std::collections::HashSet;
use std::io::BufReader;
use std::sync::mpsc::channel;

/// The input is what the lab writes to the engine's stdin: lines come whole
/// and trimmed, the end comes last, errors say something on one line, and a
/// request that is understood reads back the same after it was written.
pub fn protocol(input: &[u8]) {
    let mut events = Vec::new();
    // A small buffer, so that lines are put together from pieces.
    read_lines(BufReader::with_capacity(32, input), |event| {
        events.push(event);
        true
    });
    assert_eq!(events.pop(), Some(Event::End));
    for event in events {
        let line = match event {
            Event::Line(line) => line,
            Event::BadLine(why) => {
                assert!(!why.is_empty());
                continue;
            }
            other => panic!("{other:?} without an end"),
        };
        assert!(!line.is_empty() && line.len() <= MAX_LINE && !line.contains('\n'));
        match parse::request(&line) {
            Ok(request) => {
                let written = serde_json::to_string(&request).expect("a request can be written");
                assert_eq!(parse::request(&written), Ok(request.clone()), "{written}");
                open(&request);
                run(&request);
                connections(&request);
            }
            Err(error) => assert!(!error.message.is_empty()),
        }
    }
}

/// What would be opened fits the request, or the error says why not.
fn open(request: &Request) {
    let Request::Open(open) = request else {
        return;
    };
    match convert::session(open, &[0, 1]) {
        Ok((_, ports)) => assert_eq!(ports.len(), open.ports.len()),
        Err(error) => assert!(!error.message.is_empty()),
    }
}

/// What would be sent is finite and as asked for, or the error says why not.
fn run(request: &Request) {
    let Request::Run(run) = request else {
        return;
    };
    let known = known();
    match convert::plan(run, &known, &[0, 1]) {
        Ok(plan) => {
            // One for each worker that sends it; what another engine sends is received as one.
            let parts = run
                .streams
                .iter()
                .map(|one| if one.tx_port.is_some() { 2 } else { 1 });
            assert_eq!(plan.parts.len(), parts.sum::<usize>());
            let ids: HashSet<_> = plan.parts.iter().map(|part| part.id).collect();
            assert_eq!(ids.len(), plan.parts.len(), "every part has its own id");
            if let Some(slices) = &plan.slices {
                assert_eq!(slices.groups.len(), plan.parts.len());
                let last = slices.schedule.windows().last().expect("a slice");
                assert_eq!(last.end_ns, plan.duration_ns);
            }
        }
        Err(error) => assert!(!error.message.is_empty()),
    }
}

/// What would be opened has a workload for each worker, or the error says why not.
fn connections(request: &Request) {
    let Request::Connections(load) = request else {
        return;
    };
    match convert::connections(load, &known()) {
        Ok((work, ports)) => {
            assert_eq!(ports.len(), load.ports.len());
            assert_eq!(work.makers(&channel().0).len(), 2);
        }
        Err(error) => assert!(!error.message.is_empty()),
    }
}

/// Two ports in memory, which two workers drive.
fn known() -> Known {
    let port = |name: &str| KnownPort {
        name: name.to_owned(),
        backend: Backend::Mem,
        max_len: 9216,
        rx_ring: 1024,
        smallest_ring: 1024,
        stamps: Stamps::Engine,
        speed_bps: Some(10_000_000_000),
        workers: vec![(0, 0), (1, 0)],
    };
    Known {
        ports: vec![port("left"), port("right")],
        cores: vec![0, 1],
    }
}

/// Small enough for inputs of a few kilobytes to reach them.
const LIMITS: captures::Options = captures::Options {
    frames: 20,
    bytes: 4_096,
    file_bytes: 1 << 20,
    pad_truncated: false,
};

/// The input is a packet capture: what is read keeps the limits and is whole,
/// padding only adds to what is read, and an error stays on one line. What is
/// whole can be replayed, or the error says why not.
pub fn pcap(input: &[u8]) {
    let padded = captures::Options {
        pad_truncated: true,
        ..LIMITS
    };
    let whole = captures::parse("input", input, &LIMITS);
    let padded = captures::parse("input", input, &padded);
    for frames in [&whole, &padded].into_iter().flatten() {
        assert!(frames.len() <= LIMITS.frames);
        let bytes: usize = frames.iter().map(|frame| frame.bytes.len()).sum();
        assert!(bytes <= LIMITS.bytes);
        for frame in frames {
            assert_eq!(frame.bytes.len(), frame.original_len as usize);
        }
    }
    match whole {
        Ok(frames) => {
            replayed(frames.clone());
            assert_eq!(padded, Ok(frames));
        }
        Err(error) => {
            assert!(error.offset <= input.len());
            one_line(&error.to_string());
        }
    }
}

fn replayed(captured: Vec<captures::CapturedFrame>) {
    match replay::side("input", captured, None, false) {
        Ok(side) => {
            let frames = side.frames.iter().map(Vec::as_slice);
            let replay = Replay::new(frames, true).expect("there is a frame");
            assert_eq!(replay.counts().0, side.frames.len() as u64);
            let times = Recorded::new(side.offsets_ns, side.period_ns);
            assert!(times.is_none() || side.period_ns > 0);
        }
        Err(error) => one_line(&error),
    }
}

/// The capture that every profile gets: one UDP datagram and its reply.
const CAPTURE: &[u8] = include_bytes!("../corpus/pcap/udp-two-ways");

/// The input is a TRex profile: its streams have frames, a rate and flows
/// within the pairs of their addresses; an error names a line of the profile.
pub fn trex(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let profile = match profiles::import("input", text, |_| Ok(CAPTURE.to_vec())) {
        Ok(profile) => profile,
        Err(error) => {
            // The end of the file counts as a line of its own; YAML breaks
            // lines at a lone carriage return too.
            let lines = text.matches(['\n', '\r']).count() + 1;
            assert!((1..=lines).contains(&error.line), "{error}");
            return one_line(&error.to_string());
        }
    };
    assert!(!profile.streams.is_empty());
    for stream in profile.streams {
        assert!(stream.rate_fps > 0.0 && stream.rate_fps.is_finite());
        assert_eq!((stream.frames.len(), stream.replies.len()), (1, 1));
        let pairs = u128::from(stream.clients.count()) * u128::from(stream.servers.count());
        assert!(stream.flows >= 1 && u128::from(stream.flows) <= pairs);
        for index in [0, 1, stream.flows - 1, u64::MAX] {
            let (client, server) = stream.pair(index);
            assert!((stream.clients.first..=stream.clients.last).contains(&client));
            assert!((stream.servers.first..=stream.servers.last).contains(&server));
        }
        stream.warnings.iter().for_each(|text| one_line(text));
    }
}

/// Errors and warnings end as one line for the user.
fn one_line(text: &str) {
    assert!(!text.is_empty() && !text.contains(['\n', '\r']), "{text:?}");
}
