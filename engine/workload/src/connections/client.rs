//! The client: opens connections as they are due and accounts for each.

mod closing;
mod cores;
mod datagram;
mod download;
mod stamps;
mod timed;

use super::answered::Answered;
use super::counts::{Counts, Delivered, Times};
use super::order::Order;
use super::outstanding::{Outstanding, Progress, State};
use super::payload::{Answer, NOBODY};
use super::plan::{Place, Plan, Work};
use super::reuse::Reuse;
use super::schedule::Schedule;
use super::segment::{ACK, Content, DATAGRAM, FIN, Incoming, Outgoing, RST, SYN};
use super::sender::{Sender, Syns};
use super::timers::{Timer, timers};
use download::Downloads;
use pinchpoint_traffic::pace::Pace;
use pinchpoint_wire::ethernet::Mac;
use stamps::stamped;

/// The client's end.
#[derive(Debug, Clone)]
pub struct Client {
    pub(super) sender: Sender,
    pub(super) schedule: Schedule,
    start_ns: u64,
    outstanding: Outstanding,
    /// The next connection to be opened.
    next: Place,
    pace: Pace,
    timers: Vec<Timer>,
    counts: Counts,
    times: Times,
    delivered: Delivered,
    answered: Answered,
    /// Where connections are held after an answer that says what the backend saw.
    reuse: Option<Reuse>,
    /// Where that is to be known.
    order: Option<Order>,
    /// Where answers are of several segments.
    downloads: Option<Box<Downloads>>,
}

/// A segment that belongs to a connection that has not ended.
struct Arrived<'a, 'b> {
    segment: &'a Incoming<'b>,
    /// The connection.
    place: Place,
    state: State,
    /// Sequence numbers of the connection that it acknowledges.
    sent: u32,
    now_ns: u64,
}

impl Client {
    /// A client whose time begins at `start_ns`; `macs` are its own and that of its
    /// next hop.
    pub fn new(plan: Plan, schedule: Schedule, macs: (Mac, Mac), start_ns: u64) -> Self {
        let timers = timers(schedule.hold_ns, schedule.retry);
        Self {
            sender: Sender {
                plan,
                macs,
                clock: None,
            },
            schedule,
            start_ns,
            outstanding: Outstanding::new(schedule.outstanding(), !timers.is_empty()),
            next: plan.first(),
            pace: Pace::new(schedule.rate, schedule.ramp_ns),
            timers,
            counts: Counts::default(),
            times: Times::default(),
            delivered: Delivered::default(),
            answered: Answered::new(0),
            reuse: (schedule.hold_ns > 0 && schedule.hold_before > 0).then(Reuse::new),
            order: None,
            downloads: None,
        }
    }

    /// What became of the connections.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How long they took.
    pub fn times(&self) -> &Times {
        &self.times
    }

    /// What arrived of answers.
    pub fn delivered(&self) -> Delivered {
        self.delivered
    }

    /// Connections answered, by who did it.
    pub fn answered(&self) -> &Answered {
        &self.answered
    }

    /// When the first connection was due.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Keeps in mind from now on which backend answered each tuple last.
    pub fn remember_tuples(&mut self) {
        self.answered = Answered::new(self.sender.plan.tuples());
    }

    /// Keeps in mind from now on which backend each connection reaches.
    pub fn remember_order(&mut self) {
        self.order = Some(Order::new(self.schedule.count));
    }

    /// Which backend each connection reached; none where that was not to be known.
    pub fn order(&self) -> Option<&Order> {
        self.order.as_ref()
    }

    /// Connections whose backend saw the address and port of another one that was open; none
    /// where they are not held after an answer.
    pub fn reused(&self) -> Option<u64> {
        self.reuse.as_ref().map(|reuse| reuse.count)
    }

    /// Whether every connection has ended.
    pub fn is_done(&self) -> bool {
        self.outstanding.next() >= self.schedule.count && self.outstanding.oldest().is_none()
    }

    /// Ends what has lasted too long; returns how many connections are to be opened now.
    #[inline(always)]
    pub fn due(&mut self, now_ns: u64) -> u64 {
        self.set_clock(now_ns);
        self.expire(now_ns);
        let Some(passed_ns) = now_ns.checked_sub(self.start_ns) else {
            return 0;
        };
        let due = self.pace.due(passed_ns);
        let due = due.min(self.schedule.count);
        let backlog = due.saturating_sub(self.outstanding.next());
        let excess = backlog.saturating_sub(self.schedule.catch_up());
        if excess > 0 && !self.schedule.opens_late {
            self.skip(excess);
        }
        due.saturating_sub(self.outstanding.next())
            .min(self.outstanding.room())
    }

    /// The SYNs of the connections that are next, without end.
    #[inline(always)]
    pub fn syns(&self) -> Syns<'_> {
        Syns::new(&self.sender, self.next)
    }

    /// Bytes of the frame of each.
    #[inline(always)]
    pub fn syn_len(&self) -> usize {
        self.sender.syn(self.next).frame_len()
    }

    /// The port took the SYNs of the next `count` connections.
    #[inline(always)]
    pub fn opened(&mut self, count: u64) {
        self.counts.open(count);
        // One that has sent its datagram waits for nothing but the answer.
        let state = if self.sender.plan.mix.is_datagrams() {
            State::Established
        } else {
            State::Opened
        };
        for _ in 0..count {
            self.outstanding.push(state);
            self.next = self.sender.plan.after(self.next);
        }
    }

    /// The port did not take `count` segments.
    pub fn unsent(&mut self, count: u64) {
        self.counts.unsent += count;
    }

    #[inline(always)]
    fn planned_ns(&self, n: u64) -> u64 {
        self.start_ns + self.pace.planned_ns(n)
    }

    /// When the request that connection `n` is held before is due.
    fn asks_ns(&self, n: u64) -> u64 {
        self.planned_ns(n) + self.schedule.hold_ns
    }

    /// A segment came; what is to be sent back.
    #[inline]
    pub fn react(&mut self, segment: &Incoming<'_>, now_ns: u64) -> Option<Outgoing> {
        let reply = self.reply(segment, now_ns)?;
        Some(stamped(reply, self.heard(segment)))
    }

    #[inline(always)]
    fn reply(&mut self, segment: &Incoming<'_>, now_ns: u64) -> Option<Outgoing> {
        let Some((place, sent)) = self.find(segment) else {
            return self.on_foreign(segment);
        };
        let state = self.outstanding.state(place.n);
        let arrived = Arrived {
            segment,
            place,
            state,
            sent,
            now_ns,
        };
        if state == State::Ended {
            return self.after_the_end(&arrived);
        }
        if segment.has(DATAGRAM) {
            self.on_datagram(&arrived);
            return None;
        }
        if segment.has(RST) {
            self.end(place.n);
            let refused = state == State::Opened;
            *(if refused {
                &mut self.counts.refused
            } else {
                &mut self.counts.reset
            }) += 1;
            return None;
        }
        if segment.has(SYN) {
            self.on_syn(&arrived)
        } else {
            self.on_segment(&arrived)
        }
    }

    /// The connection of a segment, and how much of it the segment acknowledges.
    #[inline(always)]
    fn find(&self, segment: &Incoming<'_>) -> Option<(Place, u32)> {
        let plan = &self.sender.plan;
        let found = if segment.has(ACK) {
            plan.find(segment.dst, segment.ack, self.next)
        } else if segment.has(DATAGRAM) {
            self.find_datagram(segment)
        } else {
            // A reset without an acknowledgment says only whose it is.
            let place = plan.newest_of(segment.dst, self.next);
            place.filter(|_| segment.has(RST)).map(|place| (place, 0))
        };
        found.filter(|&(place, _)| segment.src == plan.service_of(place))
    }

    /// A segment that acknowledges nothing of ours.
    fn on_foreign(&mut self, segment: &Incoming<'_>) -> Option<Outgoing> {
        let plan = &self.sender.plan;
        let newest = plan.newest_of(segment.dst, self.next);
        let place = newest.filter(|&place| segment.src == plan.service_of(place));
        match place.filter(|place| self.outstanding.state(place.n) == State::Opened) {
            Some(place) if segment.has(ACK) && !segment.has(RST) => {
                Some(self.on_stale(segment, place))
            }
            _ => {
                self.counts.foreign += 1;
                None
            }
        }
    }

    fn acknowledge(&self, arrived: &Arrived<'_, '_>) -> Outgoing {
        let &Arrived { segment, place, .. } = arrived;
        self.sender
            .segment(place, segment.ack, segment.end(), ACK, Content::Nothing)
    }

    fn on_syn(&mut self, arrived: &Arrived<'_, '_>) -> Option<Outgoing> {
        let &Arrived {
            segment,
            place,
            state,
            sent,
            now_ns,
        } = arrived;
        if sent != 1 {
            return self.on_foreign(segment);
        }
        if state != State::Opened {
            self.counts.duplicated += 1;
            return None;
        }
        let n = place.n;
        self.counts.established += 1;
        self.counts.stamped += u64::from(self.heard(segment) != 0);
        self.times.connect.record(n, self.planned_ns(n), now_ns);
        let work = self.sender.plan.work(n);
        if work == Work::Request {
            return Some(self.on_established(arrived));
        }
        self.complete(n);
        match work {
            Work::Abandon => Some(self.acknowledge(arrived)),
            Work::Reset => Some(
                self.sender
                    .segment(place, segment.ack, 0, RST, Content::Nothing),
            ),
            _ => None,
        }
    }

    /// The first request, unless it has to wait.
    #[inline(always)]
    fn on_established(&mut self, arrived: &Arrived<'_, '_>) -> Outgoing {
        let &Arrived { segment, place, .. } = arrived;
        let received = segment.end();
        self.outstanding.set(place.n, State::Established);
        self.outstanding.note(
            place.n,
            Progress {
                received,
                heard: self.heard(segment),
                ..Progress::default()
            },
        );
        // A proxy may keep the window shut until it is connected itself.
        if segment.window > 0 && self.may_ask(place.n, 0) {
            self.sender.request(place, 0, NOBODY, received)
        } else {
            self.acknowledge(arrived)
        }
    }

    fn on_segment(&mut self, arrived: &Arrived<'_, '_>) -> Option<Outgoing> {
        let &Arrived {
            segment,
            place,
            state,
            sent,
            ..
        } = arrived;
        let all_sent = self.sender.plan.all_sent();
        if state == State::Opened {
            return Some(self.on_stale(segment, place));
        }
        if sent == all_sent + 1 {
            return self.on_fin_acknowledged(arrived);
        }
        if segment.payload.is_empty() {
            return self.on_empty(arrived);
        }
        if self.downloads.is_some() {
            return self.on_part(arrived);
        }
        let len = self.sender.plan.requests.len;
        let answered = (sent - 1) / len;
        let is_whole = (sent - 1).is_multiple_of(len) && answered > 0;
        if sent > all_sent || !is_whole {
            self.counts.early += 1;
            return None;
        }
        let known = u32::from(self.outstanding.progress(place.n).answers);
        if state == State::Answered || answered <= known {
            self.counts.duplicated += 1;
            return None;
        }
        Some(self.on_answer(arrived, answered as u16))
    }

    /// The answer to the last of the first `answers` requests.
    fn on_answer(&mut self, arrived: &Arrived<'_, '_>, answers: u16) -> Outgoing {
        let answer = self.checked(arrived, answers - 1);
        if answer.is_some() {
            let bytes = arrived.segment.payload.len();
            self.delivered.add(bytes, arrived.now_ns);
        }
        self.on_whole(arrived, answers, answer)
    }

    /// All of that answer has come; `answer` says who gave it.
    fn on_whole(
        &mut self,
        arrived: &Arrived<'_, '_>,
        answers: u16,
        answer: Option<Answer>,
    ) -> Outgoing {
        let &Arrived {
            segment,
            place,
            now_ns,
            ..
        } = arrived;
        let n = place.n;
        let backend = answer.map_or(NOBODY, |answer| answer.backend);
        let received = segment.end();
        let progress = Progress {
            received,
            answers,
            backend,
            heard: self.heard(segment),
        };
        self.outstanding.note(n, progress);
        if let Some(answer) = answer.filter(|_| answers == 1) {
            self.note_first(n, &answer, segment);
        }
        if u32::from(answers) < self.sender.plan.requests.count {
            if !self.may_ask(n, answers) {
                return self.acknowledge(arrived);
            }
            return self.sender.request(place, answers, backend, received);
        }
        if let Some(answer) = answer {
            self.note_last(&answer, arrived);
        }
        self.counts.answered += 1;
        self.times.answer.record(n, self.asks_ns(n), now_ns);
        self.outstanding.set(n, State::Answered);
        if segment.has(FIN) {
            self.close(n, now_ns);
        } else if self.schedule.server_closes {
            return self.acknowledge(arrived);
        }
        self.sender.fin(place, received)
    }

    /// The answer that a segment carries, if it is the one to request `number`.
    fn checked(&mut self, arrived: &Arrived<'_, '_>, number: u16) -> Option<Answer> {
        let expected = self.sender.asked(arrived.place, number, NOBODY);
        let answer = Answer::read(arrived.segment.payload);
        let Some(answer) = answer.filter(|one| one.request.is_same(&expected)) else {
            self.counts.wrong_payload += 1;
            return None;
        };
        let is_other = answer.request.before != NOBODY && answer.request.before != answer.backend;
        self.counts.wrong_backend += u64::from(is_other);
        Some(answer)
    }

    /// A balancer may tell the client's end only with the first request.
    fn note_first(&mut self, n: u64, answer: &Answer, segment: &Incoming<'_>) {
        if let Some(reuse) = &mut self.reuse {
            let outstanding = &self.outstanding;
            let is_open = |n| outstanding.state(n) != State::Ended;
            reuse.note(n, answer.backend, answer.seen, is_open);
        }
        if let Some(order) = &mut self.order {
            order.note(n, answer.backend);
        }
        match answer.toa {
            Some(toa) if toa == segment.dst => self.counts.toa_right += 1,
            Some(_) => self.counts.toa_wrong += 1,
            None => {}
        }
    }

    fn note_last(&mut self, answer: &Answer, arrived: &Arrived<'_, '_>) {
        let tuple = self.sender.plan.tuple_number(arrived.place);
        self.answered.add(answer, tuple);
    }

    /// A segment without payload before the FIN is acknowledged.
    fn on_empty(&mut self, arrived: &Arrived<'_, '_>) -> Option<Outgoing> {
        let &Arrived {
            segment,
            place,
            state,
            sent,
            now_ns,
        } = arrived;
        if segment.has(FIN) && sent == self.sender.plan.all_sent() && state == State::Answered {
            self.close(place.n, now_ns);
            if self.schedule.server_closes {
                return Some(self.sender.fin(place, segment.end()));
            }
            // The other side closes on its own: its FIN crossed ours.
            let seq = segment.ack.wrapping_add(1);
            return Some(
                self.sender
                    .segment(place, seq, segment.end(), ACK, Content::Nothing),
            );
        }
        let opens = sent == 1 && segment.window > 0 && state == State::Established;
        let asks = opens && self.may_ask(place.n, 0);
        asks.then(|| self.sender.request(place, 0, NOBODY, segment.end()))
    }

    #[inline(always)]
    fn end(&mut self, n: u64) {
        self.counts.unfinished -= 1;
        self.forget_download(n);
        self.outstanding.set(n, State::Ended);
    }
}
