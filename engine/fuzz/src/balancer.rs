//! The target of what arrives at a balancer.

use pinchpoint_devices::balancer::counts::Drops;
use pinchpoint_devices::balancer::nat::{Nat, Side};
use pinchpoint_devices::balancer::settings::{LocalEnds, Settings, Spot, Timeouts};
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_workload::connections::client::Client;
use pinchpoint_workload::connections::end::End;
use pinchpoint_workload::connections::plan::{Mix, Plan, Requests};
use pinchpoint_workload::connections::schedule::Schedule;
use pinchpoint_workload::connections::segment::{Incoming, Outgoing};
use pinchpoint_workload::connections::server::Server;
use pinchpoint_workload::connections::timers::Retry;
use std::collections::VecDeque;
use std::net::Ipv4Addr;

const OPENED: u64 = 20;
const STEP_NS: u64 = 10_000;
const TIMEOUT_NS: u64 = 1_000_000;
const LONGEST: usize = 1514;
const OWN: [Mac; 2] = [Mac([2, 0, 0, 0, 1, 0]), Mac([2, 0, 0, 0, 1, 1])];

/// Both ends, the balancer between them, and the frames under way, with where they go.
struct Path {
    client: Client,
    server: Server,
    nat: Nat,
    drops: Drops,
    flying: VecDeque<(Vec<u8>, Side)>,
    now_ns: u64,
    translated: u64,
    passed: u64,
}

/// The input is what happens to frames between a client, a balancer and its backends. What goes
/// through is counted once, places and local ends are as many as connections, and what an
/// undamaged segment becomes has right checksums.
///
/// | first byte modulo 5 | then |
/// |---|---|
/// | 0 | from whom, length, that many bytes: a frame arrives at the balancer |
/// | 1 | the oldest frame arrives there |
/// | 2 | place, bits: the oldest arrives with these flipped |
/// | 3 | steps: time passes |
/// | 4 | the oldest arrives twice |
///
/// The length of the input says what the balancer does.
pub fn balancer(input: &[u8]) {
    let mut path = Path::new(input.len());
    let mut rest = input;
    while let Some((&kind, after)) = rest.split_first() {
        let Some(after) = path.happens(kind % 5, after) else {
            break;
        };
        rest = after;
        path.check();
    }
    path.nat.expire(u64::MAX, usize::MAX);
    path.check();
    assert_eq!(path.nat.tracked().live(), 0);
    assert!(path.nat.local_ends().is_none_or(|(used, _)| used == 0));
}

fn backend() -> (Ipv4Addr, u16) {
    (Ipv4Addr::new(10, 1, 0, 1), 8080)
}

fn settings(seed: usize) -> Settings {
    let spot = |(ip, port): (Ipv4Addr, u16)| Spot::new(ip, port);
    let local = LocalEnds {
        first: Ipv4Addr::new(10, 1, 0, 240).into(),
        count: 2,
        port: 65_530,
        port_count: 1 + (seed % 6) as u32,
    };
    Settings {
        local: (!seed.is_multiple_of(3)).then_some(local),
        connections: 1 + seed % 20,
        timeouts: Timeouts {
            opening_ns: 200_000,
            established_ns: TIMEOUT_NS,
            closed_ns: 50_000,
        },
        toa: true,
        rewrites_seq: seed.is_multiple_of(2),
        ..Settings::new(
            spot((Ipv4Addr::new(10, 0, 0, 100), 80)),
            vec![spot(backend())],
        )
    }
}

impl Path {
    fn new(seed: usize) -> Self {
        let plan = Plan {
            clients: Ipv4Addr::new(16, 0, 0, 1).into(),
            client_count: 1,
            ports: 1025,
            port_count: 8,
            service: End::new(Ipv4Addr::new(10, 0, 0, 100), 80),
            service_addresses: 1,
            service_ports: 1,
            mix: Mix::new([0, 0, 1, 3]).expect("weights"),
            requests: Requests { count: 2, len: 24 },
            key: seed as u64,
            first_round: 0,
            one_isn: false,
            same_first_seq: None,
        };
        let schedule = Schedule {
            rate: 1e5,
            ramp_ns: 0,
            count: OPENED,
            timeout_ns: TIMEOUT_NS,
            hold_ns: 0,
            hold_before: 0,
            retry: Retry::default(),
            server_closes: false,
            opens_late: false,
        };
        let (ip, port) = backend();
        Self {
            client: Client::new(plan, schedule, (Mac([2, 0, 0, 0, 0, 1]), OWN[0]), 0),
            server: Server::new(&[End::new(ip, port)], Mac([2, 0, 0, 0, 0, 2]), 64, 3),
            nat: Nat::new(&settings(seed), OWN, [LONGEST; 2]),
            drops: Drops::default(),
            flying: VecDeque::new(),
            now_ns: 0,
            translated: 0,
            passed: 0,
        }
    }

    /// One event; the rest of the input, or none at its end.
    fn happens<'a>(&mut self, kind: u8, input: &'a [u8]) -> Option<&'a [u8]> {
        match kind {
            0 => {
                let ([from, len], after) = input.split_first_chunk()?;
                let (frame, after) = after.split_at(usize::from(*len).min(after.len()));
                let from = if from % 2 == 0 {
                    Side::Clients
                } else {
                    Side::Servers
                };
                self.arrive(frame, from);
                return Some(after);
            }
            2 => {
                let ([place, bits], after) = input.split_first_chunk()?;
                if let Some((mut frame, from)) = self.flying.pop_front() {
                    let place = usize::from(*place) % frame.len();
                    frame[place] ^= bits;
                    self.arrive(&frame, from);
                }
                return Some(after);
            }
            3 => {
                let (&steps, after) = input.split_first()?;
                self.pass(u64::from(steps));
                return Some(after);
            }
            _ => {}
        }
        if let Some((frame, from)) = self.flying.pop_front() {
            for _ in 0..if kind == 4 { 2 } else { 1 } {
                self.arrive(&frame, from);
            }
        }
        Some(input)
    }

    fn pass(&mut self, steps: u64) {
        self.now_ns += steps * STEP_NS;
        self.nat.expire(self.now_ns, 4);
        let due = self.client.due(self.now_ns);
        let sent: Vec<_> = self.client.syns().take(due as usize).collect();
        self.client.opened(due);
        for segment in sent {
            self.flying.push_back((written(&segment), Side::Clients));
        }
    }

    fn arrive(&mut self, frame: &[u8], from: Side) {
        let mut out = vec![0xaa; LONGEST];
        self.translated += 1;
        let passed = match self.nat.translate(from, frame, self.now_ns, &mut out) {
            Ok(passed) => passed,
            Err(why) => return self.drops.add(why),
        };
        self.passed += 1;
        let (came, goes) = (Incoming::read(frame), Incoming::read(&out[..passed.len]));
        assert_eq!(came.is_ok(), goes.is_ok(), "{came:?} became {goes:?}");
        let Ok(segment) = goes else {
            return;
        };
        let (reply, from) = match from {
            Side::Clients => (self.server.react(&segment), Side::Servers),
            Side::Servers => (self.client.react(&segment, self.now_ns), Side::Clients),
        };
        if let Some(reply) = reply {
            self.flying.push_back((written(&reply), from));
        }
    }

    fn check(&self) {
        assert_eq!(self.translated, self.passed + self.drops.total());
        let tracked = self.nat.tracked();
        let expired =
            tracked.expired_opening + tracked.expired_established + tracked.expired_closed;
        let known = tracked.live() + expired + tracked.replaced;
        assert_eq!(tracked.created, known, "{tracked:?}");
        let used = self.nat.local_ends().map(|(used, _)| used);
        assert!(
            used.is_none_or(|used| used == tracked.live()),
            "{used:?}: {tracked:?}"
        );
    }
}

fn written(segment: &Outgoing) -> Vec<u8> {
    let mut frame = vec![0; segment.frame_len()];
    segment.write(&mut frame);
    frame
}
