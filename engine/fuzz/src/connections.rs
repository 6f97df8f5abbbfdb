//! The target of what arrives at the ends of connections.

use pinchpoint_wire::ethernet::Mac;
use pinchpoint_workload::connections::client::Client;
use pinchpoint_workload::connections::end::End;
use pinchpoint_workload::connections::options::StampClock;
use pinchpoint_workload::connections::plan::{Mix, Plan, Requests};
use pinchpoint_workload::connections::schedule::Schedule;
use pinchpoint_workload::connections::segment::{Incoming, Outgoing};
use pinchpoint_workload::connections::server::Server;
use pinchpoint_workload::connections::timers::Retry;
use std::collections::VecDeque;
use std::net::Ipv4Addr;

const OPENED: u64 = 20;
const TIMEOUT_NS: u64 = 1_000_000;
const STEP_NS: u64 = 10_000;
/// Bytes of answers of one segment, and of three.
const ANSWER_LENS: [u32; 2] = [64, 4_000];
/// Segments of answers that are sent at once.
const MOST_SENT: usize = 16;

/// Both ends, and the segments between them, with where they go.
struct Ends {
    client: Client,
    server: Server,
    flying: VecDeque<(Outgoing, bool)>,
    now_ns: u64,
}

/// The input is what happens to segments between a client and its server. Every
/// connection ends exactly once, and within its time. Of its first byte, 1 makes answers
/// long, and 2 gives segments time stamps. Then come events:
///
/// | first byte modulo 4 | then |
/// |---|---|
/// | 0 | to whom, length, that many bytes: a frame arrives |
/// | 1 | the oldest segment arrives |
/// | 2 | flags, sequence number (2), acknowledgment (2): the oldest arrives with these added |
/// | 3 | steps: time passes |
pub fn connections(input: &[u8]) {
    let Some((&ways, mut rest)) = input.split_first() else {
        return;
    };
    let mut ends = Ends::new(
        input.len(),
        ANSWER_LENS[usize::from(ways & 1)],
        ways & 2 != 0,
    );
    while let Some((&kind, after)) = rest.split_first() {
        let Some(after) = ends.happens(kind % 4, after) else {
            break;
        };
        rest = after;
        ends.check();
    }
    // All are due within the first millisecond, and each ends within its time.
    for _ in 0..4 * TIMEOUT_NS / STEP_NS {
        ends.pass(1);
    }
    ends.check();
    assert!(ends.client.is_done(), "{:?}", ends.client.counts());
    assert_eq!(ends.client.counts().unfinished, 0);
}

impl Ends {
    fn new(seed: usize, answer_len: u32, has_stamps: bool) -> Self {
        let service = End::new(Ipv4Addr::new(10, 0, 0, 100), 80);
        let plan = Plan {
            clients: Ipv4Addr::new(16, 0, 0, 1).into(),
            client_count: 1,
            ports: 1025,
            port_count: 8,
            service,
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
            retry: Retry {
                after_ns: 200_000,
                times: 2,
            },
            server_closes: false,
            opens_late: false,
        };
        let macs = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let clock = has_stamps.then(|| StampClock::new(u32::MAX));
        let client = Client::new(plan, schedule, macs, 0).with_stamps(clock);
        Self {
            client: client.with_answers(answer_len),
            server: Server::new(&[service], macs.1, answer_len, 3).with_stamps(clock),
            flying: VecDeque::new(),
            now_ns: 0,
        }
    }

    /// One event; the rest of the input, or none at its end.
    fn happens<'a>(&mut self, kind: u8, input: &'a [u8]) -> Option<&'a [u8]> {
        match kind {
            0 => {
                let ([to, len], after) = input.split_first_chunk()?;
                let (frame, after) = after.split_at(usize::from(*len).min(after.len()));
                self.arrive(frame, to % 2 == 0);
                Some(after)
            }
            1 => {
                if let Some((segment, to_server)) = self.flying.pop_front() {
                    self.arrive(&written(&segment), to_server);
                }
                Some(input)
            }
            2 => {
                let ([flags, s0, s1, a0, a1], after) = input.split_first_chunk()?;
                if let Some((mut segment, to_server)) = self.flying.pop_front() {
                    segment.flags ^= u16::from(*flags);
                    segment.seq = segment
                        .seq
                        .wrapping_add(u16::from_be_bytes([*s0, *s1]).into());
                    segment.ack = segment
                        .ack
                        .wrapping_add(u16::from_be_bytes([*a0, *a1]).into());
                    self.arrive(&written(&segment), to_server);
                }
                Some(after)
            }
            _ => {
                let (&steps, after) = input.split_first()?;
                self.pass(u64::from(steps));
                Some(after)
            }
        }
    }

    fn pass(&mut self, steps: u64) {
        self.now_ns += steps * STEP_NS;
        let due = self.client.due(self.now_ns);
        let mut sent: Vec<_> = self.client.syns().take(due as usize).collect();
        self.client.opened(due);
        self.client.timed(self.now_ns, OPENED as usize, &mut sent);
        let mut answers = Vec::new();
        self.server.send(self.now_ns, MOST_SENT, &mut answers);
        self.server.sent(&answers, answers.len());
        let answers = answers.into_iter().map(|segment| (segment, false));
        let sent = sent.into_iter().map(|segment| (segment, true));
        self.flying.extend(sent.chain(answers));
    }

    fn arrive(&mut self, frame: &[u8], to_server: bool) {
        let Ok(segment) = Incoming::read(frame) else {
            return;
        };
        let reply = if to_server {
            self.server.react_at(0, &segment, self.now_ns)
        } else {
            self.client.react(&segment, self.now_ns)
        };
        if let Some(reply) = reply {
            self.flying.push_back((reply, !to_server));
        }
    }

    fn check(&self) {
        let counts = self.client.counts();
        let ended = counts.completed + counts.refused + counts.reset + counts.timed_out();
        assert_eq!(counts.opened, ended + counts.unfinished, "{counts:?}");
        assert!(counts.opened + counts.shortfall <= OPENED, "{counts:?}");
        assert!(counts.answered <= counts.established && counts.established <= counts.opened);
    }
}

fn written(segment: &Outgoing) -> Vec<u8> {
    let mut frame = vec![0; segment.frame_len()];
    segment.write(&mut frame);
    frame
}
