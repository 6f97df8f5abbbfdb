//! A balancer between clients and backends whose truth is known: TCP over IPv4 or IPv6, in full-NAT,
//! destination NAT or direct return.
//!
//! The first port is among the clients, the second among the backends. At both it answers
//! questions for its own addresses (ARP, neighbour discovery). Frames pass four places:
//!
//! | place | what happens |
//! |---|---|
//! | `ring` | frames wait for service; those that find [`Settings::ring`] frames waiting are dropped |
//! | `check` | headers that do not fit, fragments, what is not of the service |
//! | `table` | the connection is found or opened, and its addresses, ports and numbers are rewritten |
//! | `tx` | frames go to the other port, once they are served at [`Settings::rate_fps`] |
//!
//! It is one server for both directions, as one core is. Service is paced by the clock, as that
//! of the [reference device](crate::reference): what the host takes away from the loop is made
//! up for. An opening SYN takes [`Settings::new_connection_ns`] longer.
//!
//! Checksums change by what changed (RFC 1624), so that a wrong one stays wrong. Places of the
//! table and local ends are released when a time-out is over and not before. All memory is taken at the
//! beginning.
//!
//! | module | what it is |
//! |---|---|
//! | [`settings`] | what is true of it, and what it does wrong on purpose |
//! | [`counts`] | what it counts |
//! | [`nat`] | what it makes of a frame |
//! | `packet` | segments, rewritten |
//! | `table`, `index` | the connections |
//! | `pool` | backends in turn, and local ends |
//! | `hops` | where backends are |
//! | `queue` | frames that wait for service |

pub mod counts;
mod hops;
mod index;
pub mod nat;
mod packet;
mod pool;
mod queue;
pub mod settings;
mod table;

use crate::reference::server::Server;
use counts::{Counts, Tracked};
use hops::Hops;
use nat::{Nat, Passed, Side};
use pinchpoint_port::{Port, Uniform};
use pinchpoint_wire::ethernet::{self, Mac};
use pinchpoint_wire::{answer, ask, ipv4};
use pinchpoint_worker::replies::Offer;
use pinchpoint_worker::standing::Standing;
use pinchpoint_worker::watched::{LoopAccount, PortAccount, Watched};
use pinchpoint_worker::{Core, Replies, Step, Workload};
use queue::{Held, Queue};
use settings::Settings;

/// Of IPv6 behind an Ethernet header (RFC 8200 section 3).
const NEXT_HEADER_AT: usize = ethernet::HEADER_LEN + 6;
const CLIENTS: usize = 0;
const SERVERS: usize = 1;
/// Connections that are forgotten in a turn at most: the loop has other things to do.
const MOST_EXPIRED: usize = 64;

/// What a balancer has done since it started.
#[derive(Debug, Clone)]
pub struct Account {
    /// How its loop ran.
    pub ran: LoopAccount,
    /// How its ports were.
    pub ports: Vec<PortAccount>,
    /// What came from the clients, and what came from the backends.
    pub directions: [Counts; 2],
    /// What became of connections.
    pub tracked: Tracked,
    /// Places of the table.
    pub places: u64,
    /// Local ends in use and in all, with full-NAT.
    pub local_ends: Option<(u64, u64)>,
    /// Connections opened, by backend.
    pub dealt: Vec<u64>,
    /// Backends' addresses that nobody has told yet.
    pub unknown_hops: u64,
}

/// What a port is like.
#[derive(Debug, Clone, Copy)]
pub struct Attached {
    /// Its Ethernet address.
    pub mac: Mac,
    /// Frames in its receive ring.
    pub ring: u32,
    /// Bytes of the longest frame that it carries.
    pub longest: usize,
}

/// The workload.
#[derive(Debug)]
pub struct Balancer {
    nat: Nat,
    hops: Hops,
    server: Server,
    queue: Queue,
    /// The turn before this one, and this one: frames received now arrived in between.
    turns_ns: [u64; 2],
    counts: [Counts; 2],
    watched: Watched,
}

impl Balancer {
    /// A balancer of which `settings` hold, with a port among the clients and one among the
    /// backends. It starts at `now_ns`.
    pub fn new(settings: &Settings, ports: [Attached; 2], now_ns: u64) -> Self {
        let service_ns = settings.rate_fps.map_or(0.0, |rate_fps| 1e9 / rate_fps);
        let longest = ports.map(|port| port.longest);
        let rings: u32 = ports.iter().map(|port| port.ring).sum();
        let is_slow = settings.wrongs.slow.is_some();
        let most = longest[0].max(longest[1]);
        Self {
            nat: Nat::new(settings, ports.map(|port| port.mac), longest),
            hops: Hops::new(&settings.backends),
            server: Server::new(service_ns, None, now_ns),
            queue: Queue::new(settings.ring as usize, rings as usize, most, is_slow),
            turns_ns: [now_ns; 2],
            counts: [Counts::default(); 2],
            watched: Watched::new(2, now_ns),
        }
    }

    /// A question where an address is, or the answer to one that the device asked.
    #[inline(never)]
    fn on_neighbour(&mut self, port: usize, frame: &[u8], now_ns: u64, replies: &mut Replies) {
        let counts = &mut self.counts[port];
        if port == SERVERS && self.hops.told(frame) {
            counts.consumed += 1;
            self.release(now_ns);
            return;
        }
        let own = self.nat.mac(port);
        let Some(asked) = answer::target(frame) else {
            counts.drops.other += 1;
            return;
        };
        let mut buffer = [0; answer::MAX_LEN];
        let is_own = self.nat.has(asked);
        let len = answer::reply(frame, (asked, own), &mut buffer).filter(|_| is_own);
        if let Some(len) = len {
            counts.consumed += 1;
            replies.push(port, len, |out| out.copy_from_slice(&buffer[..len]));
        } else {
            counts.drops.other += 1;
        }
    }

    fn release(&mut self, now_ns: u64) {
        let dropped = self.queue.release(&self.hops, now_ns);
        self.counts[CLIENTS].drops.no_next_hop += dropped;
    }

    /// Holds a frame that was translated, until it has been served.
    #[inline]
    fn hold(&mut self, port: usize, slot: usize, passed: Passed, now_ns: u64) {
        let settings = self.nat.settings();
        let extra_ns = if passed.is_new {
            settings.new_connection_ns
        } else {
            0
        };
        let slow = settings.wrongs.slow;
        let mut held = Held {
            slot,
            len: passed.len,
            due_ns: self.server.serve(self.turns_ns[0], extra_ns),
            to: 1 - port,
        };
        if port == SERVERS {
            return self.queue.hold(held);
        }
        let drops = &mut self.counts[port].drops;
        let Some(mac) = self.hops.mac(passed.backend) else {
            held.due_ns = now_ns;
            drops.no_next_hop += u64::from(!self.queue.hold_waiting(passed.backend, held));
            return;
        };
        self.queue.slot(slot)[..6].copy_from_slice(&mac.0);
        match slow {
            Some((backend, delay_ns)) if backend == passed.backend => {
                held.due_ns += delay_ns;
                drops.ring += u64::from(!self.queue.hold_slow(held));
            }
            _ => self.queue.hold(held),
        }
    }

    /// Asks where a backend is, if that is due; whether it did.
    #[inline]
    fn ask(&mut self, core: &mut Core<'_>) -> bool {
        if self.hops.unknown() == 0 {
            return false;
        }
        let own = (self.nat.asks_from().ip(), self.nat.mac(SERVERS));
        let mut frame = [0; ask::MAX_LEN];
        let Some(len) = self.hops.question(own, core.now_ns, &mut frame) else {
            return false;
        };
        let write = |_: usize, out: &mut [u8]| out.copy_from_slice(&frame[..len]);
        core.ports[SERVERS].port.send(1, Uniform(len, write)) > 0
    }
}

/// ARP, or ICMPv6, of which neighbour discovery is a part.
#[inline(always)]
fn is_neighbour(frame: &[u8]) -> bool {
    const ARP: [u8; 2] = ethernet::ETHERTYPE_ARP.to_be_bytes();
    const IPV6: [u8; 2] = ethernet::ETHERTYPE_IPV6.to_be_bytes();
    match frame.get(12..14) {
        Some(ethertype) if *ethertype == ARP => true,
        Some(ethertype) if *ethertype == IPV6 => {
            frame.get(NEXT_HEADER_AT) == Some(&ipv4::PROTOCOL_ICMPV6)
        }
        _ => false,
    }
}

impl Workload for Balancer {
    type Outcome = Account;

    /// Answers to questions where an address is; all else is sent when it is served.
    fn longest_reply(&self, _core: &Core<'_>, _port: usize) -> usize {
        answer::MAX_LEN
    }

    #[inline(always)]
    fn poll(&mut self, core: &mut Core<'_>) -> Step {
        self.turns_ns = [self.turns_ns[1], core.now_ns];
        let left = self.queue.leave(core.now_ns, |to, count, frames| {
            core.ports[to].port.send(count, frames)
        });
        for to in [CLIENTS, SERVERS] {
            let counts = &mut self.counts[1 - to];
            counts.sent += left.sent[to];
            counts.drops.full += left.full[to];
        }
        self.nat.expire(core.now_ns, MOST_EXPIRED);
        let asked = self.ask(core);
        Step::Sent(left.bursts + usize::from(asked))
    }

    #[inline(always)]
    fn on_burst(&mut self, _port: usize, _count: usize, _now_ns: u64) {}

    #[inline(always)]
    fn on_frame(&mut self, port: usize, frame: &[u8], now_ns: u64, replies: &mut Replies) {
        self.counts[port].received += 1;
        if is_neighbour(frame) {
            return self.on_neighbour(port, frame, now_ns, replies);
        }
        let Some(slot) = self.queue.admit(now_ns) else {
            self.counts[port].drops.ring += 1;
            return;
        };
        let side = if port == CLIENTS {
            Side::Clients
        } else {
            Side::Servers
        };
        let out = self.queue.slot(slot);
        match self.nat.translate(side, frame, now_ns, out) {
            Ok(passed) => self.hold(port, slot, passed, now_ns),
            Err(why) => {
                self.queue.give_back(slot);
                self.server.serve(self.turns_ns[0], 0);
                self.counts[port].drops.add(why);
            }
        }
    }

    fn on_replies(&mut self, _port: usize, _offer: Offer, _fresh: bool) {}

    fn publish(&mut self, core: &mut Core<'_>) {
        self.watched.look(core);
        self.release(core.now_ns);
    }

    fn close(mut self, mut core: Core<'_>) -> Account {
        self.account(&mut core)
    }
}

impl Standing for Balancer {
    const FORGETS: bool = true;

    fn account(&mut self, core: &mut Core<'_>) -> Account {
        let waiting = |from: usize| Counts {
            waiting: self.queue.count(1 - from),
            ..self.counts[from]
        };
        Account {
            ran: self.watched.ran(core),
            directions: [waiting(CLIENTS), waiting(SERVERS)],
            ports: self.watched.ports(core),
            tracked: self.nat.tracked(),
            places: self.nat.settings().connections as u64,
            local_ends: self.nat.local_ends(),
            dealt: self.nat.dealt().to_vec(),
            unknown_hops: self.hops.unknown() as u64,
        }
    }

    fn forget(&mut self) {
        self.nat.flush();
    }
}

#[cfg(test)]
mod tests;
