//! What a client does without being asked for.

use super::Client;
use super::stamps::stamped;
use crate::connections::outstanding::{Progress, State};
use crate::connections::segment::Outgoing;
use crate::connections::timers::{Action, Timer};

impl Client {
    /// Adds the segments that are due without being asked for to `out`, up to `most`.
    #[inline(always)]
    pub fn timed(&mut self, now_ns: u64, most: usize, out: &mut Vec<Outgoing>) {
        for at in 0..self.timers.len() {
            self.elapse(at, now_ns, most, out);
        }
    }

    /// Gives up the next `excess` connections, at no cost for each without timers, which walk over
    /// them: a client that is asked for more than it can open does not open fewer for that.
    #[inline(never)]
    pub(super) fn skip(&mut self, excess: u64) {
        let skipped = excess.min(self.outstanding.room());
        self.counts.shortfall += skipped;
        self.outstanding.skip(skipped);
        self.next = self.sender.plan.place(self.outstanding.next());
    }

    #[inline(always)]
    pub(super) fn expire(&mut self, now_ns: u64) {
        let lasting_ns = self.schedule.lasting_ns();
        while let Some((n, state)) = self.outstanding.oldest() {
            if state == State::Ended {
                self.outstanding.pop_ended();
                continue;
            }
            if now_ns < self.planned_ns(n) + lasting_ns {
                return;
            }
            self.counts.unfinished -= 1;
            *match state {
                State::Opened => &mut self.counts.timed_out_connecting,
                State::Established => &mut self.counts.timed_out_answering,
                _ => &mut self.counts.timed_out_closing,
            } += 1;
            self.forget_download(n);
            self.outstanding.pop();
        }
    }

    fn elapse(&mut self, at: usize, now_ns: u64, most: usize, out: &mut Vec<Outgoing>) {
        let Timer {
            after_ns,
            action,
            mut next,
        } = self.timers[at];
        while next < self.outstanding.next()
            && out.len() < most
            && now_ns >= self.planned_ns(next) + after_ns
        {
            let state = self.outstanding.state(next);
            // Where the backend closes first, its FIN is what is waited for.
            let has_more = state != State::Answered || !self.schedule.server_closes;
            let has_more = has_more && !self.is_downloading(next);
            if action.is_for(state) && has_more && (action != Action::Release || self.is_held(next))
            {
                out.push(self.timely(next, action));
                self.counts.retransmitted += u64::from(action != Action::Release);
            }
            next += 1;
        }
        self.timers[at].next = next;
    }

    /// Whether connection `n` has come to the request that it is held before.
    fn is_held(&self, n: u64) -> bool {
        self.outstanding.progress(n).answers == self.schedule.hold_before
    }

    /// What connection `n` sends when a timer elapses.
    fn timely(&self, n: u64, action: Action) -> Outgoing {
        let (sender, place) = (&self.sender, self.sender.plan.place(n));
        let Progress {
            received,
            answers,
            backend,
            heard,
        } = self.outstanding.progress(n);
        match (action, self.outstanding.state(n)) {
            (Action::RepeatSyn, _) => sender.syn(place),
            (_, State::Answered) => stamped(sender.fin(place, received), heard),
            _ => stamped(sender.request(place, answers, backend, received), heard),
        }
    }

    /// Whether connection `n` need not be held before request `number`.
    pub(super) fn may_ask(&self, n: u64, number: u16) -> bool {
        if number != self.schedule.hold_before {
            return true;
        }
        let mut timers = self.timers.iter();
        let release = timers.find(|timer| timer.action == Action::Release);
        release.is_none_or(|timer| n < timer.next)
    }
}
