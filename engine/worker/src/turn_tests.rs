use super::*;
use pinchpoint_port::Uniform;
use pinchpoint_port::mem::{self, MemPort};

/// Says that it sent this many bursts in each turn, and counts what it gets.
struct Counting {
    bursts: usize,
    frames: usize,
}

impl Workload for Counting {
    type Outcome = (usize, Received);

    fn longest_reply(&self, _core: &Core<'_>, _port: usize) -> usize {
        0
    }

    fn poll(&mut self, _core: &mut Core<'_>) -> Step {
        Step::Sent(self.bursts)
    }

    fn on_burst(&mut self, _port: usize, _count: usize, _now_ns: u64) {}

    fn on_frame(&mut self, _port: usize, _frame: &[u8], _now_ns: u64, replies: &mut Replies) {
        assert!(!replies.push(0, 1, |_| ()), "no room was asked for");
        self.frames += 1;
    }

    fn on_replies(&mut self, _port: usize, _offer: Offer, _fresh: bool) {}

    fn publish(&mut self, _core: &mut Core<'_>) {}

    fn close(self, core: Core<'_>) -> Self::Outcome {
        (self.frames, core.received[0])
    }
}

/// A port whose ring of `ring` frames holds `waiting`, and its other end.
fn filled(ring: usize, waiting: usize) -> ([WorkerPort; 1], MemPort) {
    let (mut peer, own) = mem::pair(ring);
    let write = |_: usize, frame: &mut [u8]| frame.fill(0);
    assert_eq!(peer.send(waiting, Uniform(60, write)), waiting);
    let own = WorkerPort {
        index: 0,
        name: "own".to_owned(),
        port: AnyPort::Mem(own),
        answers: HashMap::new(),
    };
    ([own], peer)
}

/// What one turn receives that sent this many bursts.
fn one_turn(bursts: usize, ring: usize, waiting: usize) -> (usize, Received) {
    let (mut ports, _peer) = filled(ring, waiting);
    let clock = Clock::new();
    let settings = Settings {
        idle: Idle::Next,
        reply_timeout_ns: 0,
    };
    let counting = Counting { bursts, frames: 0 };
    let mut worker = Worker::new(&mut ports, counting, settings, &clock);
    assert!(worker.turn());
    worker.close()
}

#[test]
fn a_turn_receives_until_a_burst_is_short_and_counts_the_full_ones() {
    let (frames, received) = one_turn(0, 1024, 3 * BURST + 1);
    assert_eq!(frames, 3 * BURST + 1);
    assert_eq!((received.full_bursts, received.cut_turns), (3, 0));
}

#[test]
fn a_turn_receives_at_most_a_quarter_of_the_ring_and_as_much_as_it_sent() {
    let (frames, received) = one_turn(0, 512, 512);
    assert_eq!((frames, received.cut_turns), (2 * BURST, 1));
    let (frames, received) = one_turn(4, 512, 512);
    assert_eq!(
        (frames, received.full_bursts, received.cut_turns),
        (6 * BURST, 6, 1)
    );
    let (frames, _) = one_turn(0, BURST, BURST);
    assert_eq!(frames, BURST, "a small ring");
}
