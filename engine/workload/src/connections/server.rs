//! The server: answers every segment from the segment alone, but for answers of several segments.
//!
//! Its first sequence number is a keyed hash of the addresses that it sees, so the
//! acknowledgment of a segment says what the other side has received.

mod transfer;

use super::end::{End, bits};
use super::options::StampClock;
use super::outages::{Manner, Outage, Outages};
use super::payload::{Answer, Request};
use super::plan::mix;
use super::proxied::{self, Told};
use super::segment::{
    ACK, Content, DATAGRAM, FIN, Incoming, MSS, Outgoing, PSH, RST, STAMPED_MSS, SYN,
};
use super::sources::Sources;
use foldhash::fast::RandomState;
use pinchpoint_wire::ethernet::Mac;
use std::collections::HashMap;
use std::net::IpAddr;
use transfer::{Said, Transfers};

/// What one backend did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backend {
    /// SYNs that it answered.
    pub syns: u64,
    /// Requests that it answered.
    pub requests: u64,
    /// FINs that it answered.
    pub fins: u64,
    /// Acknowledgments of its own FIN.
    pub closed: u64,
    /// Resets that it received.
    pub resets: u64,
    /// Requests with a TOA option.
    pub toa: u64,
    /// Segments that came while it was down.
    pub down: u64,
    /// Segments of answers that it sent again.
    pub retransmitted: u64,
    /// SYNs with a time stamp.
    pub stamped: u64,
}

/// What was for no backend, or for none of its connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Strays {
    /// Segments to an address and port of no backend.
    pub elsewhere: u64,
    /// Segments whose acknowledgment fits no connection.
    pub unacknowledged: u64,
    /// Segments whose payload is no request.
    pub wrong_payload: u64,
    /// Answers that did not fit a port's ring.
    pub unsent: u64,
}

impl Backend {
    fn merge(&mut self, other: &Self) {
        let Self {
            syns,
            requests,
            fins,
            closed,
            resets,
            toa,
            down,
            retransmitted,
            stamped,
        } = other;
        self.syns += syns;
        self.requests += requests;
        self.fins += fins;
        self.closed += closed;
        self.resets += resets;
        self.toa += toa;
        self.down += down;
        self.retransmitted += retransmitted;
        self.stamped += stamped;
    }
}

impl Strays {
    fn merge(&mut self, other: &Self) {
        let Self {
            elsewhere,
            unacknowledged,
            wrong_payload,
            unsent,
        } = other;
        self.elsewhere += elsewhere;
        self.unacknowledged += unacknowledged;
        self.wrong_payload += wrong_payload;
        self.unsent += unsent;
    }
}

/// The servers behind one port.
#[derive(Debug, Clone)]
pub struct Server {
    own: Mac,
    /// By number.
    ends: Vec<End>,
    /// By address and port, where there are several.
    numbers: HashMap<End, u16, RandomState>,
    answer_len: u32,
    key: u64,
    /// Requests of a connection, with the answer to the last of which it is closed; none: the client closes first.
    closes_after: Option<u32>,
    /// Of every connection, in the place of a hash.
    same_first_seq: Option<u32>,
    /// Of the time stamps that answer others; none: segments have none.
    clock: Option<StampClock>,
    /// With direct return: the service, to which segments go on after a device has passed them on.
    direct: Option<End>,
    backends: Vec<Backend>,
    outages: Outages,
    strays: Strays,
    sources: Sources,
    told: Told,
    /// Where answers are of several segments.
    transfers: Option<Box<Transfers>>,
}

impl Server {
    /// Backends with numbers from 0 on; their answers have `answer_len` bytes.
    pub fn new(backends: &[End], own: Mac, answer_len: u32, key: u64) -> Self {
        let numbered = backends.iter().enumerate();
        Self {
            own,
            ends: backends.to_vec(),
            numbers: numbered.map(|(number, &at)| (at, number as u16)).collect(),
            answer_len,
            key,
            closes_after: None,
            same_first_seq: None,
            clock: None,
            direct: None,
            backends: vec![Backend::default(); backends.len()],
            outages: Outages::default(),
            strays: Strays::default(),
            sources: Sources::default(),
            told: Told::default(),
            transfers: (answer_len > MSS).then(|| Box::new(Transfers::new())),
        }
    }

    /// The same servers, which begin every connection with this sequence number.
    #[must_use]
    pub fn with_first_seq(self, same: Option<u32>) -> Self {
        Self {
            same_first_seq: same,
            ..self
        }
    }

    /// The same servers, which answer time stamps by those of `clock`; none: they have none. Before
    /// [`with_retry`](Self::with_retry).
    #[must_use]
    pub fn with_stamps(self, clock: Option<StampClock>) -> Self {
        let most = clock.map_or(MSS, |_| STAMPED_MSS);
        let is_long = self.answer_len > most;
        Self {
            clock,
            transfers: (self.transfers).or_else(|| is_long.then(|| Box::new(Transfers::new()))),
            ..self
        }
    }

    /// The same servers, which close a connection with the answer to so many requests.
    #[must_use]
    pub fn with_close(self, closes_after: Option<u32>) -> Self {
        Self {
            closes_after,
            ..self
        }
    }

    /// The same servers, reached by a device that leaves the address and port of `service` in place
    /// (direct return). Backend number n is at the n-th Ethernet address from `own` on.
    #[must_use]
    pub fn with_direct(self, service: Option<End>) -> Self {
        Self {
            direct: service,
            ..self
        }
    }

    /// Whether answers go to the client past the device.
    #[inline(always)]
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// The same servers, which are down at these times.
    #[must_use]
    pub fn with_outages(self, all: Vec<Outage>) -> Self {
        let outages = Outages::new(all);
        Self { outages, ..self }
    }

    /// So much time has passed since the first connection was due.
    #[inline(always)]
    pub fn pass(&mut self, passed_ns: u64) {
        self.outages.pass(passed_ns);
    }

    /// What each backend did.
    pub fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// What was for none.
    pub fn strays(&self) -> &Strays {
        &self.strays
    }

    /// SYNs, and requests in datagrams, by source address.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Where the backend with that address is.
    pub fn mac_of(&self, address: IpAddr) -> Option<Mac> {
        let wanted = bits(address);
        let number = self.ends.iter().position(|end| end.bits == wanted)?;
        Some(match self.direct {
            Some(_) => after(self.own, number as u16),
            None => self.own,
        })
    }

    /// Which backend a segment is for.
    #[inline(always)]
    fn number(&self, segment: &Incoming<'_>) -> Option<u16> {
        let Some(service) = self.direct else {
            return match self.ends[..] {
                [only] => (only == segment.dst).then_some(0),
                _ => self.numbers.get(&segment.dst).copied(),
            };
        };
        let number = number_of(segment.to).wrapping_sub(number_of(self.own));
        let is_known = segment.dst == service && number < self.backends.len() as u64;
        is_known.then_some(number as u16)
    }

    /// Adds what the same servers did on another core.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in self.backends.iter_mut().zip(&other.backends) {
            own.merge(other);
        }
        self.strays.merge(&other.strays);
        self.sources.merge(&other.sources);
    }

    /// The port did not take an answer.
    pub fn unsent(&mut self, count: u64) {
        self.strays.unsent += count;
    }

    /// A segment came; what is to be sent back.
    #[inline]
    pub fn react(&mut self, segment: &Incoming<'_>) -> Option<Outgoing> {
        let Some(number) = self.number(segment) else {
            self.strays.elsewhere += 1;
            return None;
        };
        let backend = &mut self.backends[usize::from(number)];
        if let Some(manner) = self.outages.of(number) {
            backend.down += 1;
            return self.while_down(segment, manner);
        }
        if segment.has(DATAGRAM) {
            return self.on_datagram(segment, number);
        }
        if segment.flags & (SYN | FIN | RST) != 0 {
            self.told.forget(segment.src, number);
        }
        if segment.has(RST) {
            backend.resets += 1;
            self.transfers
                .iter_mut()
                .for_each(|own| own.forget(segment));
            return None;
        }
        let first = (self.same_first_seq).unwrap_or_else(|| first_seq(segment, self.key));
        if segment.has(SYN) {
            backend.syns += 1;
            backend.stamped += u64::from(segment.stamp().is_some());
            self.sources.add(segment.src.bits);
            self.transfers
                .iter_mut()
                .for_each(|own| own.forget(segment));
            return Some(self.reply(segment, first, SYN | ACK, Content::Nothing));
        }
        if let Some(transfers) = &mut self.transfers
            && transfers.acknowledge(segment) == Said::UnderWay
        {
            return None;
        }
        let received = segment.ack.wrapping_sub(first);
        if !segment.payload.is_empty() {
            return self.on_request(segment, number, received);
        }
        let answers_end = received >= 1 && (received - 1).is_multiple_of(self.answer_len);
        if segment.has(FIN) && answers_end {
            backend.fins += 1;
            return Some(self.reply(segment, segment.ack, FIN | ACK, Content::Nothing));
        }
        let after_fin = received >= 2 && (received - 2).is_multiple_of(self.answer_len);
        if segment.has(FIN) && after_fin && self.closes_after.is_some() {
            backend.fins += 1;
            return Some(self.reply(segment, segment.ack, ACK, Content::Nothing));
        }
        backend.closed += u64::from(after_fin && received > 2);
        // An acknowledgment within a long answer may come late.
        let is_stray = !after_fin && !answers_end && self.transfers.is_none();
        self.strays.unacknowledged += u64::from(is_stray);
        None
    }

    /// What a closed port sends, or nothing (RFC 9293 section 3.10.7.1).
    #[inline(never)]
    fn while_down(&self, segment: &Incoming<'_>, manner: Manner) -> Option<Outgoing> {
        if manner == Manner::Silent || segment.has(RST) || segment.has(DATAGRAM) {
            return None;
        }
        Some(if segment.has(ACK) {
            Outgoing {
                ack: 0,
                ..self.reply(segment, segment.ack, RST, Content::Nothing)
            }
        } else {
            self.reply(segment, 0, RST | ACK, Content::Nothing)
        })
    }

    /// A request that stands by itself.
    #[inline(never)]
    fn on_datagram(&mut self, datagram: &Incoming<'_>, number: u16) -> Option<Outgoing> {
        let Some(request) = Request::read(datagram.payload) else {
            self.strays.wrong_payload += 1;
            return None;
        };
        self.backends[usize::from(number)].requests += 1;
        self.sources.add(datagram.src.bits);
        let answer = Answer {
            request,
            backend: number,
            seen: datagram.src,
            toa: None,
        };
        let content = Content::Answer(answer, self.answer_len.min(MSS) as usize);
        Some(self.reply(datagram, 0, DATAGRAM, content))
    }

    fn on_request(
        &mut self,
        segment: &Incoming<'_>,
        number: u16,
        received: u32,
    ) -> Option<Outgoing> {
        let header = proxied::split(segment.payload);
        let (told, payload) = header.unwrap_or((None, segment.payload));
        if payload.is_empty() {
            self.told.note(segment.src, number, told);
            return Some(self.reply(segment, segment.ack, ACK, Content::Nothing));
        }
        let Some(request) = Request::read(payload) else {
            self.strays.wrong_payload += 1;
            return None;
        };
        if u64::from(received) != u64::from(request.number) * u64::from(self.answer_len) + 1 {
            self.strays.unacknowledged += 1;
            return None;
        }
        let toa = segment.toa();
        let backend = &mut self.backends[usize::from(number)];
        backend.requests += 1;
        backend.toa += u64::from(toa.is_some());
        let told = told.or_else(|| self.told.client(segment.src, number));
        let answer = Answer {
            request,
            backend: number,
            seen: segment.src,
            toa: toa.or(told),
        };
        let content = Content::Answer(answer, self.answer_len as usize);
        let is_last = self.closes_after == Some(u32::from(request.number) + 1);
        let flags = if is_last { PSH | ACK | FIN } else { PSH | ACK };
        let reply = self.reply(segment, segment.ack, flags, content);
        if let Some(transfers) = &mut self.transfers {
            transfers.begin(segment, reply, number, self.answer_len);
            return None;
        }
        Some(reply)
    }

    #[inline(always)]
    fn reply(&self, to: &Incoming<'_>, seq: u32, flags: u16, content: Content) -> Outgoing {
        Outgoing {
            from: if self.is_direct() { to.to } else { self.own },
            to: to.from,
            src: to.dst,
            dst: to.src,
            seq,
            ack: to.end(),
            flags,
            stamp: self
                .clock
                .and_then(|clock| Some(clock.stamp(to.stamp()?.value))),
            content,
        }
    }
}

fn number_of(mac: Mac) -> u64 {
    mac.0
        .iter()
        .fold(0, |bits, &byte| bits << 8 | u64::from(byte))
}

/// The n-th Ethernet address from `mac` on.
fn after(mac: Mac, n: u16) -> Mac {
    let [_, _, bytes @ ..] = (number_of(mac) + u64::from(n)).to_be_bytes();
    Mac(bytes)
}

#[inline(always)]
fn first_seq(segment: &Incoming<'_>, key: u64) -> u32 {
    let folded = |end: End| {
        (end.bits >> 64) as u64 ^ (end.bits as u64).rotate_left(16) ^ u64::from(end.port)
    };
    mix(mix(folded(segment.src) ^ key) ^ folded(segment.dst)) as u32
}
