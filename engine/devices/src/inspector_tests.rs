use super::*;
use pinchpoint_port::mem::{self, MemPort};
use pinchpoint_port::{AnyPort, Port, Sink, Uniform};
use pinchpoint_wire::checksum;
use pinchpoint_worker::{Clock, Idle, Settings, Worker, WorkerPort};
use std::collections::HashMap;

struct Count(usize);

impl Sink for Count {
    fn arrived(&mut self, count: usize) {
        self.0 += count;
    }
    fn frame(&mut self, _frame: &[u8]) {}
}

/// UDP over IPv4 from 10.0.0.`src`:1025 to 10.0.0.`dst`:1025, of `len` bytes, checksums right.
fn frame(src: u8, dst: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    let ip = (len - 14) as u16;
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17]);
    frame[16..18].copy_from_slice(&ip.to_be_bytes());
    frame[26..34].copy_from_slice(&[10, 0, 0, src, 10, 0, 0, dst]);
    let header = checksum::finish(checksum::sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    frame[34..38].copy_from_slice(&[4, 1, 4, 1]);
    frame[38..40].copy_from_slice(&(ip - 20).to_be_bytes());
    frame
}

/// Two ports of an inspector, and what is behind them.
struct Bench {
    behind: [MemPort; 2],
    own: Vec<WorkerPort>,
}

fn bench() -> Bench {
    let (left, right) = (mem::pair(64), mem::pair(64));
    let end = |name: &str, port| WorkerPort {
        index: 0,
        name: name.to_owned(),
        port: AnyPort::Mem(port),
        answers: HashMap::new(),
    };
    Bench {
        behind: [left.0, right.0],
        own: vec![end("left", left.1), end("right", right.1)],
    }
}

/// What is reported of the frames that each port gets, and how many come out behind each.
fn inspected(sent: [&[Vec<u8>]; 2], every: u64, forward: bool) -> (Account, [usize; 2]) {
    let mut bench = bench();
    for (port, frames) in bench.behind.iter_mut().zip(sent) {
        for frame in frames {
            let fill = |_: usize, out: &mut [u8]| out.copy_from_slice(frame);
            assert_eq!(port.send(1, Uniform(frame.len(), fill)), 1);
        }
    }
    let clock = Clock::new();
    let settings = Settings {
        idle: Idle::Next,
        reply_timeout_ns: 0,
    };
    let inspector = Inspector::new(vec![mem::MAX_LEN; 2], every, forward, clock.now_ns());
    let mut worker = Worker::new(&mut bench.own, inspector, settings, &clock);
    for _ in 0..8 {
        assert!(worker.turn());
    }
    let account = worker.close();
    let came = bench.behind.each_mut().map(|port| {
        let mut count = Count(0);
        while port.receive(&mut count) > 0 {}
        count.0
    });
    (account, came)
}

#[test]
fn frames_are_counted_with_their_sizes_flows_and_checksums() {
    let mut wrong = frame(1, 3, 100);
    wrong[25] ^= 1;
    let mut other = frame(1, 2, 60);
    other[12] = 0x88;
    let left = [
        frame(1, 2, 60),
        frame(1, 2, 60),
        frame(1, 3, 200),
        wrong,
        other,
    ];
    let (account, came) = inspected([&left, &[]], 1, false);
    let seen = &account.seen[0];
    assert_eq!((seen.frames, seen.bytes), (5, 60 + 60 + 200 + 100 + 60));
    assert_eq!((seen.shortest, seen.longest), (60, 200));
    assert_eq!((seen.checked, seen.wrong, seen.not_ip), (5, 1, 1));
    assert_eq!((seen.flows, seen.answered), (2, 0));
    assert_eq!(account.seen[1].frames, 0);
    assert_eq!(came, [0, 0]);
    assert!(account.directions.is_empty());
}

#[test]
fn a_flow_whose_reverse_comes_in_elsewhere_is_answered() {
    let left = [frame(1, 2, 60), frame(1, 3, 60), frame(4, 1, 60)];
    let right = [frame(2, 1, 60), frame(3, 1, 60)];
    let (account, _) = inspected([&left, &right], 1, false);
    let answered = account.seen.iter().map(|seen| seen.answered);
    assert_eq!(answered.collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn with_forwarding_each_frame_leaves_through_the_other_port() {
    let left = vec![frame(1, 2, 60); 7];
    let right = vec![frame(2, 1, 90); 3];
    let (account, came) = inspected([&left, &right], 1, true);
    assert_eq!(came, [3, 7]);
    let sent = account.directions.iter().map(|way| way.sent);
    assert_eq!(sent.collect::<Vec<_>>(), [7, 3]);
}

#[test]
fn contents_are_looked_at_in_every_nth_frame_and_all_are_counted() {
    let left: Vec<_> = (1..=12).map(|src| frame(src, 200, 60)).collect();
    let (account, _) = inspected([&left, &[]], 4, false);
    let seen = &account.seen[0];
    assert_eq!((seen.frames, seen.checked, seen.flows), (12, 3, 3));
}

#[test]
fn a_period_knows_how_unevenly_frames_came() {
    let mut even = Periods::default();
    for period in 0..=100 {
        even.add(period, 8);
    }
    assert_eq!((even.count, even.sum, even.most), (100, 800, 8));
    assert_eq!(even.dispersion(), Some(0.0));
    let mut bursts = Periods::default();
    for period in (0..=100).step_by(10) {
        bursts.add(period, 80);
    }
    assert_eq!((bursts.count, bursts.sum, bursts.most), (100, 800, 80));
    assert!(bursts.dispersion().unwrap() > 70.0);
    assert_eq!(Periods::default().dispersion(), None);
    let mut last = Periods::default();
    last.add(0, 1);
    last.add(1, 1000);
    assert_eq!(last.so_far().most, 1000);
}

#[test]
fn a_silence_of_hours_takes_no_time_and_no_memory() {
    let mut periods = Periods::default();
    periods.add(0, 1);
    assert_eq!(periods.add(u64::MAX / 2, 1), Some((1, u64::MAX / 2 - 1)));
}
