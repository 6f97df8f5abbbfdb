//! Answers of several segments: what a client keeps of each until its last byte.
//!
//! Bytes count in order and once, of answers that are right: what is beyond the next byte is not
//! kept, since the server sends it again, and what came before is not counted again. Every second
//! segment is acknowledged. The last one, one out of order and one with PSH are acknowledged at
//! once (RFC 9293 section 3.8.6.3).

use super::{Arrived, Client};
use crate::connections::outstanding::{Outstanding, Progress, State};
use crate::connections::payload::Answer;
use crate::connections::segment::{ACK, Content, Incoming, MSS, Outgoing, PSH, STAMPED_MSS};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The answers of which some bytes have come, by connection.
#[derive(Debug, Clone)]
pub(super) struct Downloads {
    /// Bytes of each answer.
    len: u32,
    open: HashMap<u64, Download, RandomState>,
}

#[derive(Debug, Clone, Default)]
struct Download {
    bytes: u32,
    /// Whether the last segment was not acknowledged.
    owes: bool,
    /// What its first bytes say; none if they are not of this answer.
    head: Option<Answer>,
}

impl Client {
    /// The same client, whose answers have `len` bytes each; after [`with_stamps`](Self::with_stamps).
    #[must_use]
    pub fn with_answers(mut self, len: u32) -> Self {
        let most = self.sender.clock.map_or(MSS, |_| STAMPED_MSS);
        if len > most && !self.sender.plan.mix.is_datagrams() {
            let open = HashMap::default();
            self.downloads = Some(Box::new(Downloads { len, open }));
            self.outstanding = Outstanding::new(self.schedule.outstanding(), true);
        }
        self
    }

    #[inline(always)]
    pub(super) fn forget_download(&mut self, n: u64) {
        if let Some(downloads) = &mut self.downloads {
            downloads.open.remove(&n);
        }
    }

    /// Whether the answer to connection `n`'s last request has begun to arrive.
    pub(super) fn is_downloading(&self, n: u64) -> bool {
        let downloads = self.downloads.as_ref();
        downloads.is_some_and(|downloads| downloads.open.contains_key(&n))
    }

    /// A segment that is not needed any more: says what has been received.
    pub(super) fn again(&self, arrived: &Arrived<'_, '_>) -> Option<Outgoing> {
        let is_data = self.downloads.is_some() && !arrived.segment.payload.is_empty();
        let known = self.outstanding.remembered(arrived.place.n);
        known
            .filter(|_| is_data)
            .map(|known| self.received(arrived, known.received))
    }

    fn received(&self, arrived: &Arrived<'_, '_>, received: u32) -> Outgoing {
        let seq = arrived.segment.ack;
        self.sender
            .segment(arrived.place, seq, received, ACK, Content::Nothing)
    }

    /// A segment with bytes of an answer.
    pub(super) fn on_part(&mut self, arrived: &Arrived<'_, '_>) -> Option<Outgoing> {
        let &Arrived { segment, place, .. } = arrived;
        let known = self.outstanding.progress(place.n);
        let before = known.received.wrapping_sub(segment.seq) as i32;
        if before < 0 {
            self.counts.early += 1;
            return Some(self.received(arrived, known.received));
        }
        let fresh = segment.payload.get(before as usize..).unwrap_or_default();
        if arrived.state == State::Answered || fresh.is_empty() {
            self.counts.duplicated += 1;
            return Some(self.received(arrived, known.received));
        }
        let asked = 1 + (u32::from(known.answers) + 1) * self.sender.plan.requests.len;
        if arrived.sent != asked {
            self.counts.early += 1;
            return None;
        }
        let fresh = Incoming {
            seq: known.received,
            payload: fresh,
            ..*segment
        };
        let segment = &fresh;
        self.on_bytes(
            &Arrived {
                segment,
                ..*arrived
            },
            known,
        )
    }

    /// The next bytes of an answer came.
    fn on_bytes(&mut self, arrived: &Arrived<'_, '_>, known: Progress) -> Option<Outgoing> {
        let &Arrived {
            segment,
            place,
            now_ns,
            ..
        } = arrived;
        let n = place.n;
        let mut download = self.take_download(n);
        let (had, count) = (download.bytes, segment.payload.len());
        let len = self.downloads.as_ref().map_or(0, |all| all.len);
        if count as u64 > u64::from(len - had) {
            self.counts.wrong_payload += 1;
            self.keep_download(n, download);
            return Some(self.received(arrived, known.received));
        }
        download.bytes += count as u32;
        if had == 0 {
            download.head = self.checked(arrived, known.answers);
            if known.answers == 0 {
                let is_held = self.schedule.hold_before == 0;
                let due_ns = if is_held {
                    self.asks_ns(n)
                } else {
                    self.planned_ns(n)
                };
                self.times.first_byte.record(n, due_ns, now_ns);
            }
        }
        if download.head.is_some() {
            self.delivered.add(count, now_ns);
        }
        if download.bytes == len {
            return Some(self.on_whole(arrived, known.answers + 1, download.head));
        }
        let received = segment.seq.wrapping_add(count as u32);
        let heard = self.heard(segment);
        let progress = Progress {
            received,
            heard,
            ..known
        };
        self.outstanding.note(n, progress);
        download.owes = !download.owes && !segment.has(PSH);
        let owes = download.owes;
        self.keep_download(n, download);
        (!owes).then(|| self.received(arrived, received))
    }

    fn take_download(&mut self, n: u64) -> Download {
        let downloads = self.downloads.as_mut();
        let known = downloads.and_then(|downloads| downloads.open.remove(&n));
        known.unwrap_or_default()
    }

    fn keep_download(&mut self, n: u64, download: Download) {
        if let Some(downloads) = &mut self.downloads {
            downloads.open.insert(n, download);
        }
    }
}
