//! The segments that a client sends of connection number *n*.

use super::payload::Request;
use super::plan::Plan;
use super::segment::{ACK, Content, Outgoing, PSH, SYN};
use pinchpoint_wire::ethernet::Mac;

/// Writes them.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    /// The connections.
    pub plan: Plan,
    /// The client's Ethernet address and that of its next hop.
    pub macs: (Mac, Mac),
}

impl Sender {
    /// What request `number` of connection `n` carries; `before` answered the one before.
    pub fn asked(&self, n: u64, number: u16, before: u16) -> Request {
        Request {
            number,
            before,
            connection: n,
            tag: self.plan.tag(n),
        }
    }

    /// Request `number` of connection `n`.
    pub fn request(&self, n: u64, number: u16, before: u16, ack: u32) -> Outgoing {
        let len = self.plan.requests.len;
        let content = Content::Request(self.asked(n, number, before), len as usize);
        let seq = self
            .plan
            .first_seq(n)
            .wrapping_add(1 + u32::from(number) * len);
        self.segment(n, seq, ack, PSH | ACK, content)
    }

    /// The SYN of connection `n`.
    #[inline(always)]
    pub fn syn(&self, n: u64) -> Outgoing {
        self.segment(n, self.plan.first_seq(n), 0, SYN, Content::Nothing)
    }

    /// Any segment of connection `n`.
    #[inline(always)]
    pub fn segment(&self, n: u64, seq: u32, ack: u32, flags: u16, content: Content) -> Outgoing {
        Outgoing {
            from: self.macs.0,
            to: self.macs.1,
            src: self.plan.tuple(n),
            dst: self.plan.service,
            seq,
            ack,
            flags,
            content,
        }
    }
}
