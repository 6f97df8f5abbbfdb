//! The segments that a client sends of a connection.

use super::options::StampClock;
use super::payload::{NOBODY, Request};
use super::plan::{Place, Plan};
use super::segment::{ACK, Content, DATAGRAM, FIN, Outgoing, PSH, SYN};
use pinchpoint_port::Source;
use pinchpoint_wire::ethernet::Mac;

/// Writes them.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    /// The connections.
    pub plan: Plan,
    /// The client's Ethernet address and that of its next hop.
    pub macs: (Mac, Mac),
    /// Of the time stamps; none: segments have none.
    pub clock: Option<StampClock>,
}

impl Sender {
    /// What request `number` of a connection carries; `before` answered the one before.
    #[inline(always)]
    pub fn asked(&self, place: Place, number: u16, before: u16) -> Request {
        Request {
            number,
            before,
            connection: place.n,
            tag: self.plan.tag(place.n),
        }
    }

    /// Request `number` of a connection.
    #[inline(always)]
    pub fn request(&self, place: Place, number: u16, before: u16, ack: u32) -> Outgoing {
        let len = self.plan.requests.len;
        let content = Content::Request(self.asked(place, number, before), len as usize);
        let seq = self
            .plan
            .first_seq(place)
            .wrapping_add(1 + u32::from(number) * len);
        let flags = if self.plan.mix.is_datagrams() {
            DATAGRAM
        } else {
            PSH | ACK
        };
        self.segment(place, seq, ack, flags, content)
    }

    /// The SYN of a connection, or its one request.
    #[inline(always)]
    pub fn syn(&self, place: Place) -> Outgoing {
        if self.plan.mix.is_datagrams() {
            return self.request(place, 0, NOBODY, 0);
        }
        self.segment(place, self.plan.first_seq(place), 0, SYN, Content::Nothing)
    }

    /// The FIN of a connection, which acknowledges `received`.
    #[inline(always)]
    pub fn fin(&self, place: Place, received: u32) -> Outgoing {
        let seq = self
            .plan
            .first_seq(place)
            .wrapping_add(self.plan.all_sent());
        self.segment(place, seq, received, FIN | ACK, Content::Nothing)
    }

    /// Any segment of a connection.
    #[inline(always)]
    pub fn segment(
        &self,
        place: Place,
        seq: u32,
        ack: u32,
        flags: u16,
        content: Content,
    ) -> Outgoing {
        Outgoing {
            from: self.macs.0,
            to: self.macs.1,
            src: self.plan.tuple(place),
            dst: self.plan.service_of(place),
            seq,
            ack,
            flags,
            stamp: self.clock.map(|clock| clock.stamp(0)),
            content,
        }
    }
}

/// The SYNs of connections in their order, without end.
#[derive(Debug, Clone)]
pub struct Syns<'a> {
    sender: &'a Sender,
    next: Place,
}

impl<'a> Syns<'a> {
    /// From the connection `next` on.
    pub fn new(sender: &'a Sender, next: Place) -> Self {
        Self { sender, next }
    }
}

impl Iterator for Syns<'_> {
    type Item = Outgoing;

    #[inline(always)]
    fn next(&mut self) -> Option<Outgoing> {
        let syn = self.sender.syn(self.next);
        self.next = self.sender.plan.after(self.next);
        Some(syn)
    }
}

/// Segments that a port is to send.
pub(super) struct Listed<'a>(pub(super) &'a [Outgoing]);

impl Source for Listed<'_> {
    #[inline(always)]
    fn len(&self, index: usize) -> usize {
        self.0[index].frame_len()
    }

    #[inline(always)]
    fn frame(&mut self, index: usize, frame: &mut [u8]) {
        self.0[index].write(frame);
    }
}
