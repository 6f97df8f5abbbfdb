//! How connections end at a client.

use super::{Arrived, Client};
use crate::connections::outstanding::State;
use crate::connections::segment::{FIN, Outgoing, RST};

impl Client {
    /// A repeated FIN is acknowledged, or a kernel would go on repeating it.
    pub(super) fn after_the_end(&mut self, arrived: &Arrived<'_, '_>) -> Option<Outgoing> {
        let most = self.sender.plan.most_sent();
        let is_last = self.schedule.server_closes && arrived.sent == most;
        self.counts.late += u64::from(!is_last);
        let asks = arrived.segment.has(FIN) && !arrived.segment.has(RST);
        asks.then(|| self.acknowledge(arrived))
    }

    /// Our FIN has arrived; theirs comes with that, or before.
    pub(super) fn on_fin_acknowledged(&mut self, arrived: &Arrived<'_, '_>) -> Option<Outgoing> {
        if arrived.state != State::Answered {
            self.counts.early += 1;
            return None;
        }
        if !arrived.segment.has(FIN) {
            return None;
        }
        self.close(arrived.place.n, arrived.now_ns);
        Some(self.acknowledge(arrived))
    }

    /// Both sides have closed connection `n`.
    pub(super) fn close(&mut self, n: u64, now_ns: u64) {
        self.times.close.record(n, self.asks_ns(n), now_ns);
        self.complete(n);
    }

    /// All that was to be done with connection `n` is done.
    pub(super) fn complete(&mut self, n: u64) {
        self.counts.completed += 1;
        self.end(n);
    }
}
