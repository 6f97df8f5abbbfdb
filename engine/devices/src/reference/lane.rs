//! One direction of the device.

use super::Truth;
use super::rules::{Flows, Planted, Rules, reversed, tuple_of};
use super::server::Server;
use pinchpoint_port::{BURST, Source};
use pinchpoint_wire::tuple::FiveTuple;
use std::collections::VecDeque;

/// Frames that were dropped, by place and reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drops {
    /// Lost at `rx`.
    pub rx: u64,
    /// Longer than the other port carries.
    pub too_long: u64,
    /// Found the ring full.
    pub ring: u64,
    /// Lost at `table`.
    pub table: u64,
    /// Dropped by each rule.
    pub rules: Vec<u64>,
    /// Lost at `tx`.
    pub tx: u64,
    /// Not taken by the other port.
    pub full: u64,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> u64 {
        let rules: u64 = self.rules.iter().sum();
        self.rx + self.too_long + self.ring + self.table + rules + self.tx + self.full
    }
}

/// What happened in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that left the receive ring of the port.
    pub received: u64,
    /// Their bytes, without check sequence.
    pub received_bytes: u64,
    /// Frames that the other port took.
    pub sent: u64,
    /// Frames that wait, or have been served and not been sent yet.
    pub waiting: u64,
    /// Frames that were dropped.
    pub drops: Drops,
    /// Frames of flows that were new.
    pub new_flows: u64,
    /// Frames that this software served: all that got past the ring and were of no
    /// offloaded flow, whatever the device says of offload.
    pub software_frames: u64,
}

/// What happens to a frame once it is served.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Forward,
    Table,
    Rule(usize),
}

/// A frame that has been let in.
#[derive(Debug, Clone, Copy)]
struct Held {
    slot: usize,
    len: usize,
    served_ns: u64,
    fate: Fate,
}

/// Serves what is offloaded.
#[derive(Debug)]
struct Offload {
    server: Server,
    needs_reply: bool,
}

/// What was looked up for a frame.
struct Looked {
    fate: Fate,
    /// How much longer its service takes.
    extra_ns: u64,
    is_offloaded: bool,
}

#[derive(Debug)]
pub(super) struct Lane {
    server: Server,
    offload: Option<Offload>,
    ring: usize,
    new_flow_ns: u64,
    flows: Option<Flows>,
    rules: Rules,
    rx: Planted,
    table: Planted,
    tx: Planted,
    /// Bytes of frames, in slots of `longest`; free slots are taken last in, first
    /// out, so that few of them are used while few frames wait.
    bytes: Vec<u8>,
    longest: usize,
    free: Vec<usize>,
    held: VecDeque<Held>,
    /// How many of `held` had been served when this was last looked at.
    served: usize,
    /// The turn before this one, and this one: frames that are received now
    /// arrived in between.
    turns_ns: [u64; 2],
    counts: Counts,
}

impl Lane {
    /// The direction from the port number `from`, whose ring holds `port_ring`
    /// frames, to one that carries at most `longest` bytes.
    pub(super) fn new(
        truth: &Truth,
        from: usize,
        port_ring: usize,
        longest: usize,
        now_ns: u64,
    ) -> Self {
        let server = |rate_fps: Option<f64>| {
            let service_ns = rate_fps.map_or(0.0, |rate_fps| 1e9 / rate_fps);
            Server::new(service_ns, truth.pause, now_ns)
        };
        let offload = truth.hardware.map(|hardware| Offload {
            server: server(hardware.rate_fps),
            needs_reply: hardware.needs_reply,
        });
        let remembers = truth.new_flow_ns > 0 || offload.is_some();
        let planted = |loss, place: u64| Planted::new(loss, truth.seed, 2 * place + from as u64);
        // Those that wait, those that were received in one turn, and those of the
        // turn before that are to be sent.
        let slots = truth.ring as usize + 2 * (port_ring + BURST);
        Self {
            server: server(truth.rate_fps),
            offload,
            ring: truth.ring as usize,
            new_flow_ns: truth.new_flow_ns,
            flows: remembers.then(|| Flows::new(truth.flows)),
            rules: Rules::new(&truth.rules),
            rx: planted(truth.rx, 0),
            table: planted(truth.table, 1),
            tx: planted(truth.tx, 2),
            bytes: vec![0; slots * longest],
            longest,
            free: (0..slots).rev().collect(),
            held: VecDeque::with_capacity(slots),
            served: 0,
            turns_ns: [now_ns; 2],
            counts: Counts {
                drops: Drops {
                    rules: vec![0; truth.rules.len()],
                    ..Drops::default()
                },
                ..Counts::default()
            },
        }
    }

    /// A frame has left the ring of the port; the clock says `now_ns`. `opposite` has
    /// the flows of the other direction.
    #[inline]
    pub(super) fn enter(&mut self, frame: &[u8], now_ns: u64, opposite: Option<&Flows>) {
        let counts = &mut self.counts;
        counts.received += 1;
        counts.received_bytes += frame.len() as u64;
        if self.rx.strikes() {
            counts.drops.rx += 1;
            return;
        }
        if frame.len() > self.longest {
            counts.drops.too_long += 1;
            return;
        }
        while self
            .held
            .get(self.served)
            .is_some_and(|held| held.served_ns <= now_ns)
        {
            self.served += 1;
        }
        if self.held.len() - self.served >= self.ring {
            counts.drops.ring += 1;
            return;
        }
        let Some(slot) = self.free.pop() else {
            counts.drops.ring += 1;
            return;
        };
        let begin = slot * self.longest;
        self.bytes[begin..begin + frame.len()].copy_from_slice(frame);
        let looked = self.look_up(frame, opposite);
        let server = match &mut self.offload {
            Some(offload) if looked.is_offloaded => &mut offload.server,
            _ => {
                self.counts.software_frames += 1;
                &mut self.server
            }
        };
        self.held.push_back(Held {
            slot,
            len: frame.len(),
            served_ns: server.serve(self.turns_ns[0], looked.extra_ns),
            fate: looked.fate,
        });
    }

    /// The flows that it has seen; none: it remembers none.
    pub(super) fn flows(&self) -> Option<&Flows> {
        self.flows.as_ref()
    }

    #[inline]
    fn look_up(&mut self, frame: &[u8], opposite: Option<&Flows>) -> Looked {
        let needs_tuple = self.flows.is_some() || self.rules.len() > 0;
        let tuple = needs_tuple.then(|| tuple_of(frame)).flatten();
        let is_new = |flows: &mut Flows| tuple.as_ref().is_some_and(|it| flows.is_new(it));
        let is_new = self.flows.as_mut().is_some_and(is_new);
        self.counts.new_flows += u64::from(is_new);
        let extra_ns = if is_new { self.new_flow_ns } else { 0 };
        let fate = match self.rules.drops(frame, tuple.as_ref()) {
            Some(rule) => Fate::Rule(rule),
            None if self.table.strikes() => Fate::Table,
            None => Fate::Forward,
        };
        let is_answered =
            |tuple: &FiveTuple| opposite.is_some_and(|flows| flows.is_known(&reversed(tuple)));
        let is_offloaded = self.offload.as_ref().is_some_and(|offload| {
            let known = tuple.as_ref().filter(|_| !is_new);
            known.is_some_and(|tuple| !offload.needs_reply || is_answered(tuple))
        });
        Looked {
            fate,
            extra_ns,
            is_offloaded,
        }
    }

    /// A turn begins at `now_ns`: gives the frames that have been served to `send`,
    /// which returns how many of these first ones were taken. Returns how many
    /// bursts were offered.
    #[inline]
    pub(super) fn leave(
        &mut self,
        now_ns: u64,
        mut send: impl FnMut(usize, Served<'_>) -> usize,
    ) -> usize {
        self.turns_ns = [self.turns_ns[1], now_ns];
        let mut bursts = 0;
        let mut burst = [(0, 0); BURST];
        loop {
            let mut count = 0;
            while count < BURST
                && let Some(held) = self.held.front().copied()
                && held.served_ns <= now_ns
            {
                self.held.pop_front();
                self.served = self.served.saturating_sub(1);
                if self.is_forwarded(held.fate) {
                    burst[count] = (held.slot, held.len);
                    count += 1;
                } else {
                    self.free.push(held.slot);
                }
            }
            if count == 0 {
                return bursts;
            }
            let frames = Served {
                bytes: &self.bytes,
                longest: self.longest,
                burst: &burst[..count],
            };
            let taken = send(count, frames);
            self.counts.sent += taken as u64;
            self.counts.drops.full += (count - taken) as u64;
            self.free
                .extend(burst[..count].iter().map(|&(slot, _)| slot));
            bursts += 1;
        }
    }

    /// Whether a frame that has been served goes to the other port; counts it if not.
    fn is_forwarded(&mut self, fate: Fate) -> bool {
        let drops = &mut self.counts.drops;
        let count = match fate {
            Fate::Forward if !self.tx.strikes() => return true,
            Fate::Forward => &mut drops.tx,
            Fate::Table => &mut drops.table,
            Fate::Rule(rule) => &mut drops.rules[rule],
        };
        *count += 1;
        false
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            waiting: self.held.len() as u64,
            ..self.counts.clone()
        }
    }
}

/// Frames that have been served.
pub(super) struct Served<'a> {
    bytes: &'a [u8],
    longest: usize,
    /// The slot and length of each.
    burst: &'a [(usize, usize)],
}

impl Source for Served<'_> {
    #[inline(always)]
    fn len(&self, index: usize) -> usize {
        self.burst[index].1
    }

    #[inline(always)]
    fn frame(&mut self, index: usize, frame: &mut [u8]) {
        let (slot, len) = self.burst[index];
        let begin = slot * self.longest;
        frame.copy_from_slice(&self.bytes[begin..begin + len]);
    }
}
