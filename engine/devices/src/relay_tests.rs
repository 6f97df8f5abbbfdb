use super::*;
use pinchpoint_port::mem::{self, MemPort};
use pinchpoint_port::{AnyPort, Port, Sink, Source, Uniform};
use pinchpoint_worker::standing::{Control, UntilStopped};
use pinchpoint_worker::{Clock, Idle, Settings, Worker, WorkerPort};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const REPLY_TIMEOUT_NS: u64 = 1_000;
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Collect(Vec<Vec<u8>>);

impl Sink for Collect {
    fn arrived(&mut self, _count: usize) {}
    fn frame(&mut self, frame: &[u8]) {
        self.0.push(frame.to_vec());
    }
}

/// Frames of different lengths and content, by number.
fn frame(number: usize) -> Vec<u8> {
    (0..14 + number * 37 % 1500)
        .map(|at| (at + number) as u8)
        .collect()
}

struct Frames(usize);

impl Source for Frames {
    fn len(&self, index: usize) -> usize {
        frame(self.0 + index).len()
    }
    fn frame(&mut self, index: usize, out: &mut [u8]) {
        out.copy_from_slice(&frame(self.0 + index));
    }
}

fn put(port: &mut MemPort, first: usize, count: usize) {
    assert_eq!(port.send(count, Frames(first)), count);
}

fn taken(port: &mut MemPort) -> Vec<Vec<u8>> {
    let mut seen = Collect::default();
    while port.receive(&mut seen) > 0 {}
    seen.0
}

/// A host, the relay's two ports, and a switch whose ring holds `room` frames.
struct Path {
    host: MemPort,
    switch: MemPort,
    ports: Vec<WorkerPort>,
}

impl Path {
    fn new(room: usize) -> Self {
        let (host, near) = mem::pair(256);
        let (far, switch) = mem::pair(room);
        Self {
            host,
            switch,
            ports: vec![end("host", near), end("switch", far)],
        }
    }
}

fn end(name: &str, port: MemPort) -> WorkerPort {
    WorkerPort {
        index: 0,
        name: name.to_owned(),
        port: AnyPort::Mem(port),
        answers: HashMap::new(),
    }
}

fn settings(reply_timeout_ns: u64) -> Settings {
    Settings {
        idle: Idle::Yield,
        reply_timeout_ns,
    }
}

/// Longer than any test lasts.
const PATIENT: u64 = u64::MAX;

/// A relay whose second port carries frames of at most `max_len` bytes.
fn relay<'a>(
    ports: &'a mut [WorkerPort],
    max_len: usize,
    reply_timeout_ns: u64,
    clock: &'a Clock,
) -> Worker<'a, Relay> {
    let relay = Relay::new(vec![mem::MAX_LEN, max_len], clock.now_ns());
    Worker::new(ports, relay, settings(reply_timeout_ns), clock)
}

fn turns(worker: &mut Worker<'_, Relay>, count: usize) {
    for _ in 0..count {
        assert!(worker.turn(), "a relay does not end by itself");
    }
}

/// What the relay did with what came from the host.
fn balanced(worker: Worker<'_, Relay>) -> Direction {
    let counts = worker.close().directions[0];
    assert_eq!(
        counts.received,
        counts.sent + counts.dropped + counts.too_long + counts.waiting
    );
    counts
}

#[test]
fn frames_keep_their_order_length_and_content() {
    let mut path = Path::new(256);
    let clock = Clock::new();
    put(&mut path.host, 0, 60);
    put(&mut path.host, 60, 40);
    let mut worker = relay(&mut path.ports, mem::MAX_LEN, PATIENT, &clock);
    turns(&mut worker, 4);
    let counts = balanced(worker);
    let expected: Vec<_> = (0..100).map(frame).collect();
    assert_eq!(taken(&mut path.switch), expected);
    assert_eq!(
        (counts.received, counts.sent, counts.largest_burst),
        (100, 100, 64)
    );
    let bytes: usize = expected.iter().map(Vec::len).sum();
    assert_eq!(counts.received_bytes, bytes as u64);
}

#[test]
fn what_the_other_end_has_no_room_for_waits_and_follows_in_order() {
    let mut path = Path::new(4);
    let clock = Clock::new();
    put(&mut path.host, 0, 10);
    let mut worker = relay(&mut path.ports, mem::MAX_LEN, PATIENT, &clock);
    turns(&mut worker, 2);
    put(&mut path.host, 10, 1);
    let mut seen = Vec::new();
    while seen.len() < 11 {
        let now = taken(&mut path.switch);
        assert!(!now.is_empty());
        seen.extend(now);
        turns(&mut worker, 2);
    }
    assert_eq!(seen, (0..11).map(frame).collect::<Vec<_>>());
    let counts = balanced(worker);
    assert_eq!((counts.dropped, counts.held), (0, 1));
}

#[test]
fn while_frames_wait_nothing_more_is_received() {
    let mut path = Path::new(4);
    let clock = Clock::new();
    put(&mut path.host, 0, 10);
    let mut worker = relay(&mut path.ports, mem::MAX_LEN, PATIENT, &clock);
    turns(&mut worker, 1);
    put(&mut path.host, 10, 5);
    turns(&mut worker, 3);
    let counts = balanced(worker);
    assert_eq!((counts.received, counts.sent, counts.waiting), (10, 4, 6));
}

#[test]
fn what_waits_too_long_is_dropped_and_counted_and_the_next_gets_through() {
    let mut path = Path::new(4);
    let clock = Clock::new();
    put(&mut path.host, 0, 10);
    let mut worker = relay(&mut path.ports, mem::MAX_LEN, REPLY_TIMEOUT_NS, &clock);
    turns(&mut worker, 1);
    std::thread::sleep(Duration::from_nanos(2 * REPLY_TIMEOUT_NS));
    turns(&mut worker, 1);
    assert_eq!(taken(&mut path.switch).len(), 4);
    put(&mut path.host, 10, 1);
    turns(&mut worker, 1);
    assert_eq!(taken(&mut path.switch), [frame(10)]);
    let counts = balanced(worker);
    assert_eq!((counts.sent, counts.dropped, counts.waiting), (5, 6, 0));
}

#[test]
fn a_frame_longer_than_the_other_end_carries_is_counted_and_passed_over() {
    let mut path = Path::new(64);
    let clock = Clock::new();
    for len in [100, 101, 60] {
        let fill = |_: usize, out: &mut [u8]| out.fill(7);
        assert_eq!(path.host.send(1, Uniform(len, fill)), 1);
    }
    let mut worker = relay(&mut path.ports, 100, PATIENT, &clock);
    turns(&mut worker, 1);
    let counts = balanced(worker);
    let lens: Vec<_> = taken(&mut path.switch).iter().map(Vec::len).collect();
    assert_eq!(lens, [100, 60]);
    assert_eq!((counts.too_long, counts.received_bytes), (1, 261));
}

#[test]
fn a_running_relay_moves_both_ways_tells_when_asked_and_ends_when_told() {
    let (mut host, near) = mem::pair(256);
    let (far, mut switch) = mem::pair(256);
    let control = Arc::new(Control::default());
    let (told, accounts) = channel();
    let running = {
        let control = Arc::clone(&control);
        std::thread::spawn(move || {
            let (mut ports, clock) = ([end("host", near), end("switch", far)], Clock::new());
            let workload = UntilStopped {
                workload: Relay::new(vec![mem::MAX_LEN; 2], clock.now_ns()),
                control: &control,
                report: move |account| told.send(account).unwrap(),
            };
            let mut worker = Worker::new(&mut ports, workload, settings(REPLY_TIMEOUT_NS), &clock);
            worker.run();
            worker.close()
        })
    };
    put(&mut host, 0, 50);
    put(&mut switch, 50, 30);
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while there.len() + back.len() < 80 {
        there.extend(taken(&mut switch));
        back.extend(taken(&mut host));
        assert!(start.elapsed() < LIMIT);
        std::thread::yield_now();
    }
    assert_eq!(there, (0..50).map(frame).collect::<Vec<_>>());
    assert_eq!(back, (50..80).map(frame).collect::<Vec<_>>());
    control.ask();
    let so_far = accounts.recv_timeout(LIMIT).unwrap();
    control.stop();
    let account = running.join().unwrap();
    for account in [so_far, account] {
        let counts = account.directions.iter();
        let counts: Vec<_> = counts.map(|d| (d.from, d.to, d.received, d.sent)).collect();
        assert_eq!(counts, [(0, 1, 50, 50), (1, 0, 30, 30)]);
        let names = account.ports.iter().map(|port| port.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["host", "switch"]);
        let ran = account.ran;
        assert!(ran.busy_ns + ran.away_ns <= ran.elapsed_ns);
        assert!(ran.busy_ns > 0 && ran.away_ns > 0);
    }
}
