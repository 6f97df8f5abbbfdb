//! A request and its answer as datagrams: the payload alone says to which connection they belong.

use super::{Arrived, Client};
use crate::connections::payload::Answer;
use crate::connections::plan::Place;
use crate::connections::segment::Incoming;

impl Client {
    /// The connection that an answer belongs to. Nobody else knows its tag.
    pub(super) fn find_datagram(&self, datagram: &Incoming<'_>) -> Option<(Place, u32)> {
        let plan = &self.sender.plan;
        let request = Answer::read(datagram.payload)?.request;
        let n = request.connection;
        if !plan.mix.is_datagrams() || n >= self.next.n || request.tag != plan.tag(n) {
            return None;
        }
        let place = plan.place(n);
        (plan.tuple(place) == datagram.dst).then_some((place, 0))
    }

    /// The one answer came: the connection ends with it.
    pub(super) fn on_datagram(&mut self, arrived: &Arrived<'_, '_>) {
        let (n, now_ns) = (arrived.place.n, arrived.now_ns);
        let Some(answer) = self.checked(arrived, 0) else {
            return;
        };
        self.delivered.add(arrived.segment.payload.len(), now_ns);
        self.note_first(n, &answer, arrived.segment);
        self.note_last(&answer, arrived);
        self.counts.answered += 1;
        self.times.answer.record(n, self.planned_ns(n), now_ns);
        self.complete(n);
    }
}
