//! Sends every frame back through the port that delivered it, with source and
//! destination swapped. Checksums stay right: they do not depend on the order of
//! what they cover.

use pinchpoint_wire::tuple;
use pinchpoint_worker::replies::Offer;
use pinchpoint_worker::standing::Standing;
use pinchpoint_worker::watched::{LoopAccount, PortAccount, Watched};
use pinchpoint_worker::{Core, Replies, Step, Workload};

/// Up to which header source and destination are swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Swap {
    /// The Ethernet addresses.
    Mac,
    /// These and the IP addresses.
    Ip,
    /// These and the ports of TCP, UDP and SCTP.
    Ports,
}

/// What happened to the frames of one port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reflected {
    /// Frames that left its receive ring.
    pub received: u64,
    /// Frames that it took back.
    pub sent: u64,
    /// Frames that it did not take back.
    pub dropped: u64,
    /// Frames too short for an Ethernet header, or longer than the port carries.
    pub unfit: u64,
}

/// What a reflector has done since it started.
#[derive(Debug, Clone)]
pub struct Account {
    /// How its loop ran.
    pub ran: LoopAccount,
    /// How its ports were.
    pub ports: Vec<PortAccount>,
    /// By port.
    pub reflected: Vec<Reflected>,
}

/// The workload.
#[derive(Debug)]
pub struct Reflector {
    swap: Swap,
    longest: Vec<usize>,
    reflected: Vec<Reflected>,
    watched: Watched,
}

/// Bytes of both Ethernet addresses.
const MACS: usize = 12;

impl Reflector {
    /// A reflector over ports that carry frames of at most `longest` bytes, which
    /// starts at `now_ns`.
    pub fn new(swap: Swap, longest: Vec<usize>, now_ns: u64) -> Self {
        Self {
            swap,
            reflected: vec![Reflected::default(); longest.len()],
            watched: Watched::new(longest.len(), now_ns),
            longest,
        }
    }
}

/// Swaps source and destination of `frame`, which has an Ethernet header.
fn turn_round(frame: &mut [u8], swap: Swap) {
    let place = tuple::read(frame).map(|(_, place)| place);
    swap_halves(&mut frame[..MACS]);
    let Some(place) = place.filter(|_| swap >= Swap::Ip) else {
        return;
    };
    swap_halves(&mut frame[place.addresses..][..2 * place.address_len]);
    if let Some(ports) = place.ports.filter(|_| swap == Swap::Ports) {
        swap_halves(&mut frame[ports..][..4]);
    }
}

fn swap_halves(bytes: &mut [u8]) {
    let (one, other) = bytes.split_at_mut(bytes.len() / 2);
    one.swap_with_slice(other);
}

impl Workload for Reflector {
    type Outcome = Account;

    fn longest_reply(&self, _core: &Core<'_>, port: usize) -> usize {
        self.longest[port]
    }

    #[inline(always)]
    fn poll(&mut self, _core: &mut Core<'_>) -> Step {
        Step::Sent(0)
    }

    #[inline(always)]
    fn on_burst(&mut self, port: usize, count: usize, _now_ns: u64) {
        self.reflected[port].received += count as u64;
    }

    #[inline(always)]
    fn on_frame(&mut self, port: usize, frame: &[u8], _now_ns: u64, replies: &mut Replies) {
        let swap = self.swap;
        let write = |out: &mut [u8]| {
            out.copy_from_slice(frame);
            turn_round(out, swap);
        };
        if frame.len() < MACS || !replies.push(port, frame.len(), write) {
            self.reflected[port].unfit += 1;
        }
    }

    #[inline(always)]
    fn on_replies(&mut self, port: usize, offer: Offer, _fresh: bool) {
        self.reflected[port].sent += offer.sent;
        self.reflected[port].dropped += offer.dropped;
    }

    fn publish(&mut self, core: &mut Core<'_>) {
        self.watched.look(core);
    }

    fn close(mut self, mut core: Core<'_>) -> Account {
        self.account(&mut core)
    }
}

impl Standing for Reflector {
    fn account(&mut self, core: &mut Core<'_>) -> Account {
        Account {
            ran: self.watched.ran(core),
            ports: self.watched.ports(core),
            reflected: self.reflected.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinchpoint_port::{AnyPort, Port, Sink, Uniform, mem};
    use pinchpoint_wire::checksum;
    use pinchpoint_wire::verify::checksums_right;
    use pinchpoint_worker::{Clock, Idle, Settings, Worker, WorkerPort};
    use std::collections::HashMap;

    #[derive(Default)]
    struct Collect(Vec<Vec<u8>>);

    impl Sink for Collect {
        fn arrived(&mut self, _count: usize) {}
        fn frame(&mut self, frame: &[u8]) {
            self.0.push(frame.to_vec());
        }
    }

    /// UDP over IPv4 from 10.0.0.1:1025 to 10.0.0.2:12, all checksums right.
    fn frame() -> [u8; 60] {
        let mut frame = [0; 60];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let header = checksum::finish(checksum::sum(&frame[14..34]));
        frame[24..26].copy_from_slice(&header.to_be_bytes());
        frame[34..40].copy_from_slice(&[4, 1, 0, 12, 0, 26]);
        let pseudo_header = checksum::sum(&frame[26..34]) + 17 + 26;
        let datagram = checksum::finish(pseudo_header + checksum::sum(&frame[34..42]));
        frame[40..42].copy_from_slice(&datagram.to_be_bytes());
        frame
    }

    /// What comes back in the turn in which `sent` arrives, and the account.
    fn reflected(swap: Swap, sent: &[u8]) -> (Vec<Vec<u8>>, Reflected) {
        let (mut peer, own) = mem::pair(64);
        let fill = |_: usize, out: &mut [u8]| out.copy_from_slice(sent);
        assert_eq!(peer.send(1, Uniform(sent.len(), fill)), 1);
        let mut ports = [WorkerPort {
            index: 0,
            name: "port".to_owned(),
            port: AnyPort::Mem(own),
            answers: HashMap::new(),
        }];
        let settings = Settings {
            idle: Idle::Next,
            reply_timeout_ns: 0,
        };
        let clock = Clock::new();
        let reflector = Reflector::new(swap, vec![mem::MAX_LEN], clock.now_ns());
        let mut worker = Worker::new(&mut ports, reflector, settings, &clock);
        assert!(worker.turn());
        let mut seen = Collect::default();
        peer.receive(&mut seen);
        (seen.0, worker.close().reflected[0])
    }

    #[test]
    fn a_frame_comes_back_in_the_same_turn_with_its_ends_swapped() {
        for (swap, addresses, ports) in [
            (Swap::Mac, [1, 2], [4, 1, 0, 12]),
            (Swap::Ip, [2, 1], [4, 1, 0, 12]),
            (Swap::Ports, [2, 1], [0, 12, 4, 1]),
        ] {
            let (seen, counts) = reflected(swap, &frame());
            let [back] = &seen[..] else {
                panic!("{seen:?}")
            };
            assert_eq!(back[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
            assert_eq!([back[29], back[33]], addresses);
            assert_eq!(back[34..38], ports);
            assert!(checksums_right(back));
            assert_eq!((counts.received, counts.sent), (1, 1));
        }
    }

    #[test]
    fn what_is_no_ip_has_its_ethernet_addresses_swapped_and_a_stub_is_counted() {
        let mut other = frame();
        other[12] = 0x88;
        let (seen, _) = reflected(Swap::Ports, &other);
        assert_eq!(seen[0][12..], other[12..]);
        let (seen, counts) = reflected(Swap::Mac, &[0; 11]);
        assert!(seen.is_empty());
        assert_eq!((counts.received, counts.unfit), (1, 1));
    }
}
