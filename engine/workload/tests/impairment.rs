//! The account of frames that went through a device whose faults are known
//! equals those faults, number by number.

use pinchpoint_port::fault::{Faults, Faulty, Truth};
use pinchpoint_port::impair::{Clock, Impairment};
use pinchpoint_port::{Port, Sink, Uniform, mem};
use pinchpoint_traffic::account::{Account, Expected, Sender, Settings};
use pinchpoint_traffic::counts::{Closed, StreamAccount, StreamCounts};
use pinchpoint_traffic::flows::FlowMap;
use pinchpoint_wire::checksum;
use pinchpoint_wire::signature::{LEN, Stamper};
use proptest::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

const FRAME_LEN: usize = 60;
const FLOWS: u64 = 32;

/// A clock that stands still until it is set.
#[derive(Clone, Default)]
struct Manual(Rc<Cell<u64>>);

impl Clock for Manual {
    fn now_ns(&self) -> u64 {
        self.0.get()
    }
}

struct Receiver<'a> {
    account: &'a mut Account,
    now_ns: u64,
}

impl Sink for Receiver<'_> {
    fn arrived(&mut self, _count: usize) {}

    fn frame(&mut self, frame: &[u8]) {
        self.account.frame(0, frame, self.now_ns);
    }
}

/// UDP over IPv4, all checksums right; a signature does not change them.
fn template() -> [u8; FRAME_LEN] {
    let mut frame = [0; FRAME_LEN];
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    let header = checksum::finish(checksum::sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    frame[34..40].copy_from_slice(&[4, 0, 4, 1, 0, 26]);
    let pseudo_header = checksum::sum(&frame[26..34]) + 17 + 26;
    let datagram = checksum::finish(pseudo_header + checksum::sum(&frame[34..42]));
    frame[40..42].copy_from_slice(&datagram.to_be_bytes());
    frame
}

/// What one turn sends: so many frames of each stream, so long after the one
/// before.
#[derive(Debug, Clone)]
struct Turn {
    frames: Vec<usize>,
    wait_ns: u64,
}

/// What was sent of each stream, what the device did, what was counted.
struct Outcome {
    sent: Vec<u64>,
    truth: Truth,
    closed: Closed,
}

impl Outcome {
    fn accounts(&self) -> impl Iterator<Item = &StreamAccount> {
        self.closed.streams.iter().flatten()
    }

    fn sum(&self, count: impl Fn(&StreamCounts) -> u64) -> u64 {
        self.accounts().map(|account| count(&account.counts)).sum()
    }
}

fn account(streams: usize) -> Account {
    let expected = |id: usize| Expected {
        id: id as u16,
        rx_ports: vec![0],
        is_expected: true,
        flow_count: None,
        frames: None,
        sender: Sender::Here,
        verify_checksums: true,
        flows: Some((
            FlowMap {
                first: 0,
                flows: FLOWS,
            },
            FLOWS as usize,
        )),
        unsigned: None,
    };
    let expected: Vec<_> = (0..streams).map(expected).collect();
    let settings = Settings {
        epoch: 1,
        latency_every: 1,
        jitter: true,
    };
    Account::new(&settings, &expected, 1)
}

/// Sends turn after turn through a device with `faults`, then waits until
/// nothing is left in it.
fn drive(faults: Faults, turns: &[Turn]) -> Outcome {
    let streams = turns.first().map_or(0, |turn| turn.frames.len());
    let clock = Manual::default();
    let (mut left, right) = mem::pair(1024);
    let mut right = Faulty::with_clock(right, faults, clock.clone());
    let mut account = account(streams);
    let mut sent = vec![0u64; streams];
    let template = template();
    let mut receive = |account: &mut Account, now_ns: u64| {
        clock.0.set(now_ns);
        while right.receive(&mut Receiver { account, now_ns }) > 0 {}
        (right.waiting(), right.truth())
    };
    let mut now_ns = 0;
    for turn in turns {
        now_ns += turn.wait_ns;
        for (id, (&count, next)) in turn.frames.iter().zip(&mut sent).enumerate() {
            let stamper = Stamper::new(1, id as u16, now_ns);
            let first = *next;
            let write = |index: usize, frame: &mut [u8]| {
                frame.copy_from_slice(&template);
                let tail: &mut [u8; LEN] = frame.last_chunk_mut().expect("60 bytes");
                stamper.emit(first + index as u64, tail);
            };
            *next += left.send(count, Uniform(FRAME_LEN, write)) as u64;
            account.sent(id, *next);
        }
        receive(&mut account, now_ns);
    }
    loop {
        now_ns += 1_000_000;
        let (waiting, truth) = receive(&mut account, now_ns);
        if waiting == 0 {
            let closed = account.close();
            return Outcome {
                sent,
                truth,
                closed,
            };
        }
    }
}

fn turns(streams: usize) -> impl Strategy<Value = Vec<Turn>> {
    let frames = proptest::collection::vec(0usize..=64, streams);
    let turn = (frames, 0u64..50_000).prop_map(|(frames, wait_ns)| Turn { frames, wait_ns });
    proptest::collection::vec(turn, 1..60)
}

fn impairments() -> impl Strategy<Value = Impairment> {
    let capacity_fps = proptest::option::of(1e5f64..1e7);
    let bounds = (capacity_fps, 1u32..200, 0u64..100_000, 0u64..20_000);
    bounds.prop_map(|(capacity_fps, queue, delay_ns, jitter_ns)| Impairment {
        capacity_fps,
        queue,
        delay_ns,
        jitter_ns,
    })
}

fn faults() -> impl Strategy<Value = Faults> {
    let share = || prop_oneof![Just(0.0), 0.0f64..0.25];
    let shares = (share(), share(), share(), share());
    let impairment = prop_oneof![Just(Impairment::default()), impairments()];
    (shares, 1u32..40, any::<u64>(), impairment).prop_map(
        |((loss, duplicate, reorder, corrupt), reorder_by, seed, impairment)| Faults {
            loss,
            duplicate,
            reorder,
            corrupt,
            reorder_by,
            impairment,
            seed,
        },
    )
}

proptest! {
    #[test]
    fn every_count_equals_the_truth(
        faults in faults(),
        turns in (1usize..4).prop_flat_map(turns),
    ) {
        let outcome = drive(faults, &turns);
        let Truth { lost, duplicated, reordered, reorder_distance_max, corrupt, queue_dropped } =
            outcome.truth;
        let sent: u64 = outcome.sent.iter().sum();
        let received = outcome.sum(|counts| counts.received);
        prop_assert_eq!(sent - received, lost + corrupt + queue_dropped);
        prop_assert_eq!(outcome.sum(|counts| counts.duplicated), duplicated);
        prop_assert_eq!(outcome.sum(|counts| counts.reordered), reordered);
        prop_assert_eq!(outcome.sum(|counts| counts.corrupt), corrupt);
        prop_assert_eq!(outcome.sum(|counts| counts.late), 0);
        let farthest = outcome.accounts().map(|account| account.counts.reorder_distance_max);
        prop_assert_eq!(farthest.max(), Some(reorder_distance_max));
        let port = outcome.closed.ports[0];
        prop_assert_eq!(port.received, received + duplicated + corrupt);
        prop_assert_eq!((port.foreign, port.late), (0, 0));
        for (account, &sent) in outcome.accounts().zip(&outcome.sent) {
            let counts = account.counts;
            let distances = counts.reorder_distances.pairs();
            let all: u64 = distances.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(all, counts.reordered);
            let flows = account.flows.as_ref().unwrap().totals(sent);
            prop_assert_eq!((flows.sent, flows.received), (sent, counts.received));
            let latencies = account.latency.clone().unwrap().into_latencies();
            prop_assert_eq!(latencies.latency.len(), counts.received);
            let jitter = latencies.jitter.unwrap();
            prop_assert_eq!(jitter.len(), counts.received.saturating_sub(1));
        }
    }

    #[test]
    fn a_slow_device_loses_what_its_queue_does_not_hold(
        queue in 1u32..=64,
        burst in 1usize..=64,
        bursts in 1u64..50,
    ) {
        // Served whole between two bursts.
        let impairment = Impairment { capacity_fps: Some(1e6), queue, ..Impairment::default() };
        let faults = Faults { impairment, ..Faults::default() };
        let turn = Turn { frames: vec![burst], wait_ns: 64_000 };
        let outcome = drive(faults, &vec![turn; bursts as usize]);
        let each = (burst as u64).min(u64::from(queue));
        prop_assert_eq!(outcome.sum(|counts| counts.received), each * bursts);
        prop_assert_eq!(outcome.truth.queue_dropped, (burst as u64 - each) * bursts);
        let dropped = burst as u64 - each;
        let jump = outcome.accounts().next().unwrap().counts.largest_jump;
        let largest = if bursts > 1 { dropped } else { 0 };
        prop_assert_eq!(jump.map_or(0, |jump| jump.missing), largest);
    }

    #[test]
    fn latency_is_the_delay_and_jitter_its_change(delay_us in 1u64..30) {
        let faults = Faults::parse(&format!("delay_us={delay_us}")).unwrap();
        // A turn each microsecond, a frame each second turn.
        let turn = |k: usize| Turn { frames: vec![k % 2], wait_ns: 1000 };
        let turns: Vec<_> = (0..200).map(turn).chain((0..31).map(|_| turn(0))).collect();
        let outcome = drive(faults, &turns);
        let account = outcome.accounts().next().unwrap();
        let latencies = account.latency.clone().unwrap().into_latencies();
        let histogram = latencies.latency;
        prop_assert_eq!(histogram.count_at(delay_us * 1000), 100);
        prop_assert_eq!(histogram.len(), 100);
        prop_assert_eq!(latencies.jitter.unwrap().count_at(0), 99);
    }
}
