//! Answers of several segments: what a server keeps of each until all of it is acknowledged.
//!
//! Segments of [`MSS`] go out within the peer's window and a window of the server's own: ten
//! segments at first (RFC 6928), one more for each acknowledgment of new bytes. There is no other
//! congestion control. Where nothing new is acknowledged for the time of a [`Retry`], the answer is
//! sent again from the last acknowledged byte on, with a window of ten segments.

use super::Server;
use crate::connections::end::End;
use crate::connections::payload::ANSWER_LEN;
use crate::connections::plan::MOST_SENT;
use crate::connections::segment::{ACK, Content, FIN, Incoming, MSS, Outgoing, STAMPED_MSS};
use crate::connections::timers::Retry;
use foldhash::fast::RandomState;
use std::collections::{HashMap, VecDeque};

const FIRST_WINDOW: u32 = 10 * MSS;
const MOST_WINDOW: u32 = 0xffff;
/// Linux' shortest time-out, three seconds in all.
const RETRY: Retry = Retry {
    after_ns: 200_000_000,
    times: 15,
};

/// How often a time-out is looked for while it runs: one is late by a quarter at most.
const CHECKS: u64 = 4;

/// The client's end as the backend sees it, and the backend's.
type Ends = (End, End);

/// The answers that are under way.
#[derive(Debug, Clone)]
pub(super) struct Transfers {
    retry: Retry,
    open: HashMap<Ends, Transfer, RandomState>,
    /// Those that may send; some may have ended.
    ready: VecDeque<Ends>,
    /// When each is looked at next, in order of time, with the transfer's number.
    checks: VecDeque<(u64, Ends, u64)>,
    /// Transfers so far.
    count: u64,
    /// The port of the segment that is being answered.
    port: usize,
    now_ns: u64,
}

/// One answer.
#[derive(Debug, Clone)]
struct Transfer {
    number: u64,
    port: usize,
    /// All of it as if it were one segment.
    whole: Outgoing,
    backend: u16,
    /// Its bytes.
    len: u32,
    /// Offsets from its first byte; the FIN has the last one.
    acknowledged: u32,
    next: u32,
    /// Behind the last that a port took.
    highest: u32,
    window: u32,
    /// The peer's window.
    offered: u32,
    /// Time-outs since the last acknowledgment.
    tries: u32,
    since_ns: u64,
    is_ready: bool,
}

/// What a segment says of an answer that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// There is none, or it has all arrived.
    Over,
    /// Some of it is missing.
    UnderWay,
}

impl Transfer {
    /// The offset behind all of it.
    fn end(&self) -> u32 {
        self.len + u32::from(self.whole.flags & FIN != 0)
    }

    /// Bytes of the longest segment.
    fn most(&self) -> u32 {
        self.whole.stamp.map_or(MSS, |_| STAMPED_MSS)
    }

    /// Bytes that the next segment may have; none if it has to wait.
    fn room(&self) -> Option<u32> {
        if self.next >= self.end() {
            return None;
        }
        let left = self.len.saturating_sub(self.next).min(self.most());
        let flying = self.next.saturating_sub(self.acknowledged);
        let free = self.window.min(self.offered).saturating_sub(flying);
        if free >= left {
            return Some(left);
        }
        // Short segments only where nothing else would bring an acknowledgment; the first holds the answer's head.
        let is_enough = free > 0 && (self.next > 0 || free >= ANSWER_LEN as u32);
        (flying == 0 && is_enough).then_some(free)
    }

    /// The segment of `len` bytes from offset `at` on.
    fn segment(&self, at: u32, len: u32) -> Outgoing {
        let content = match self.whole.content {
            Content::Answer(answer, _) if at == 0 => Content::Answer(answer, len as usize),
            _ => Content::Zeros(len as usize),
        };
        Outgoing {
            seq: self.whole.seq.wrapping_add(at),
            flags: if at + len >= self.len {
                self.whole.flags
            } else {
                ACK
            },
            content,
            ..self.whole
        }
    }

    fn send(&mut self, most: usize, out: &mut Vec<Outgoing>) {
        while out.len() < most
            && let Some(len) = self.room()
        {
            out.push(self.segment(self.next, len));
            self.next += len;
            if self.next >= self.len {
                self.next = self.end();
            }
        }
    }

    /// Continues from the last acknowledged byte on. The head of an answer is not divided.
    fn go_back(&mut self) {
        self.next = self.acknowledged;
        if self.next < ANSWER_LEN as u32 {
            self.next = 0;
        }
        self.window = FIRST_WINDOW;
        // The segment that opened the peer's window may be lost.
        self.offered = self.offered.max(MSS);
    }
}

impl Transfers {
    pub(super) fn new() -> Self {
        Self {
            retry: RETRY,
            open: HashMap::default(),
            ready: VecDeque::new(),
            checks: VecDeque::new(),
            count: 0,
            port: 0,
            now_ns: 0,
        }
    }

    /// Begins to send `whole`, the answer of `len` bytes to `request`.
    pub(super) fn begin(
        &mut self,
        request: &Incoming<'_>,
        whole: Outgoing,
        backend: u16,
        len: u32,
    ) {
        let ends = (request.src, request.dst);
        self.count += 1;
        let transfer = Transfer {
            number: self.count,
            port: self.port,
            whole,
            backend,
            len,
            acknowledged: 0,
            next: 0,
            highest: 0,
            window: FIRST_WINDOW,
            offered: request.window.into(),
            tries: 0,
            since_ns: self.now_ns,
            is_ready: true,
        };
        self.open.insert(ends, transfer);
        self.ready.push_back(ends);
        let at_ns = self.now_ns + self.retry.after_ns.div_ceil(CHECKS);
        self.checks.push_back((at_ns, ends, self.count));
    }

    /// Forgets the answer to the segment's source.
    pub(super) fn forget(&mut self, segment: &Incoming<'_>) {
        self.open.remove(&(segment.src, segment.dst));
    }

    /// Takes the acknowledgment of a segment.
    pub(super) fn acknowledge(&mut self, segment: &Incoming<'_>) -> Said {
        let ends = (segment.src, segment.dst);
        let Some(transfer) = self.open.get_mut(&ends) else {
            return Said::Over;
        };
        let offset = segment.ack.wrapping_sub(transfer.whole.seq);
        // Beyond what was sent of it: an older one, or none of this connection's; or a request came
        // twice, the second time when its answer had arrived, which is then told to an answer begun anew.
        let is_same = segment.seq.wrapping_sub(transfer.whole.ack) < MOST_SENT;
        let is_later = offset < 1 << 31 && is_same;
        if offset > transfer.highest && !is_later {
            return Said::UnderWay;
        }
        if offset >= transfer.end() {
            self.open.remove(&ends);
            return Said::Over;
        }
        transfer.highest = transfer.highest.max(offset);
        if offset > transfer.acknowledged {
            transfer.acknowledged = offset;
            transfer.next = transfer.next.max(offset);
            transfer.window = (transfer.window + MSS).min(MOST_WINDOW);
            (transfer.tries, transfer.since_ns) = (0, self.now_ns);
        }
        if offset == transfer.acknowledged {
            transfer.offered = segment.window.into();
        }
        if let Some((own, heard)) = transfer.whole.stamp.as_mut().zip(segment.stamp()) {
            own.echo = heard.value;
        }
        if !transfer.is_ready && transfer.room().is_some() {
            transfer.is_ready = true;
            self.ready.push_back(ends);
        }
        Said::UnderWay
    }

    /// Goes back in those that have waited too long, and gives up those that have done so too often.
    fn check(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        let Retry { after_ns, times } = self.retry;
        while let Some(&(_, ends, number)) = (self.checks.front()).filter(|at| at.0 <= now_ns) {
            self.checks.pop_front();
            let own = self.open.get_mut(&ends);
            let Some(transfer) = own.filter(|transfer| transfer.number == number) else {
                continue;
            };
            if now_ns >= transfer.since_ns + after_ns {
                if transfer.tries == times {
                    self.open.remove(&ends);
                    continue;
                }
                transfer.tries += 1;
                transfer.since_ns = now_ns;
                transfer.go_back();
                if !transfer.is_ready {
                    transfer.is_ready = true;
                    self.ready.push_back(ends);
                }
            }
            let at_ns = now_ns + after_ns.div_ceil(CHECKS);
            self.checks.push_back((at_ns, ends, number));
        }
    }
}

impl Server {
    /// The same servers, which repeat answers of several segments so.
    #[must_use]
    pub fn with_retry(mut self, retry: Option<Retry>) -> Self {
        if let Some((transfers, retry)) = self.transfers.as_mut().zip(retry) {
            transfers.retry = retry;
        }
        self
    }

    /// Whether answers are of several segments, which [`send`](Self::send) returns.
    #[inline(always)]
    pub fn has_long_answers(&self) -> bool {
        self.transfers.is_some()
    }

    /// A segment came to a port; what is to be sent back at once.
    #[inline(always)]
    pub fn react_at(
        &mut self,
        port: usize,
        segment: &Incoming<'_>,
        now_ns: u64,
    ) -> Option<Outgoing> {
        if let Some(clock) = &mut self.clock {
            clock.set(now_ns);
        }
        if let Some(transfers) = &mut self.transfers {
            (transfers.port, transfers.now_ns) = (port, now_ns);
        }
        self.react(segment)
    }

    /// Adds segments of answers that are due to `out`, up to `most`; returns the port that is to send
    /// them all. [`sent`](Self::sent) has to follow.
    pub fn send(&mut self, now_ns: u64, most: usize, out: &mut Vec<Outgoing>) -> usize {
        let Some(transfers) = self.transfers.as_deref_mut() else {
            return 0;
        };
        transfers.check(now_ns);
        self.clock.iter_mut().for_each(|clock| clock.set(now_ns));
        let mut port = 0;
        while out.len() < most
            && let Some(&ends) = transfers.ready.front()
        {
            if let Some(transfer) = transfers.open.get_mut(&ends) {
                if !out.is_empty() && transfer.port != port {
                    break;
                }
                if self.outages.of(transfer.backend).is_some() {
                    transfers.open.remove(&ends);
                } else {
                    port = transfer.port;
                    let own = transfer.whole.stamp.zip(self.clock);
                    transfer.whole.stamp = own.map(|(own, clock)| clock.stamp(own.echo));
                    transfer.send(most, out);
                    if transfer.room().is_some() {
                        break;
                    }
                    transfer.is_ready = false;
                }
            }
            transfers.ready.pop_front();
        }
        port
    }

    /// The port took the first `taken` of these segments; the others will be due again.
    pub fn sent(&mut self, segments: &[Outgoing], taken: usize) {
        let Some(transfers) = self.transfers.as_deref_mut() else {
            return;
        };
        for (number, segment) in segments.iter().enumerate() {
            let ends = (segment.dst, segment.src);
            let Some(transfer) = transfers.open.get_mut(&ends) else {
                continue;
            };
            let at = segment.seq.wrapping_sub(transfer.whole.seq);
            if number >= taken {
                transfer.next = transfer.next.min(at);
                if !transfer.is_ready {
                    transfer.is_ready = true;
                    transfers.ready.push_back(ends);
                }
                continue;
            }
            if at < transfer.highest {
                self.backends[usize::from(transfer.backend)].retransmitted += 1;
            }
            let behind = segment.next_seq().wrapping_sub(transfer.whole.seq);
            transfer.highest = transfer.highest.max(behind);
        }
    }
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
mod tests;
