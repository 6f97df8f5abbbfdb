//! How connections end at a client.

use super::{Arrived, Client};
use crate::connections::outstanding::State;
use crate::connections::plan::Place;
use crate::connections::segment::{Content, FIN, Incoming, Outgoing, RST};

impl Client {
    /// The device knows an earlier connection of this tuple: a reset ends that, and a
    /// repeated SYN is new.
    pub(super) fn on_stale(&mut self, segment: &Incoming<'_>, place: Place) -> Outgoing {
        self.counts.stale += 1;
        self.sender
            .segment(place, segment.ack, 0, RST, Content::Nothing)
    }

    /// A repeated FIN is acknowledged, or a kernel would go on repeating it.
    pub(super) fn after_the_end(&mut self, arrived: &Arrived<'_, '_>) -> Option<Outgoing> {
        let most = self.sender.plan.most_sent();
        let is_last = self.schedule.server_closes && arrived.sent == most;
        self.counts.late += u64::from(!is_last);
        if arrived.segment.has(RST) {
            return None;
        }
        if arrived.segment.has(FIN) {
            return Some(self.acknowledge(arrived));
        }
        self.again(arrived)
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

#[cfg(test)]
mod tests {
    use crate::connections::doubles::*;
    use crate::connections::schedule::Schedule;
    use crate::connections::timers::Retry;

    fn waits_for_the_backend(count: u64) -> Schedule {
        Schedule {
            server_closes: true,
            retry: Retry {
                after_ns: 100_000,
                times: 3,
            },
            ..schedule(count)
        }
    }

    #[test]
    fn a_backend_closes_with_its_last_answer() {
        let client = client(plan(), waits_for_the_backend(100));
        let net = Net::new(client, server().with_close(Some(1)), Wire).run();
        let counts = net.client.counts();
        assert_eq!((counts.answered, counts.completed), (100, 100));
        let others = [counts.late, counts.early, counts.duplicated];
        assert_eq!((others, counts.retransmitted), ([0; 3], 0));
        assert_eq!(net.server.backends()[0].fins, 100);
    }

    #[test]
    fn a_client_that_waits_for_the_backend_to_close_never_does_so_first() {
        let client = client(plan(), waits_for_the_backend(10));
        let net = Net::new(client, server(), Wire).run();
        let counts = net.client.counts();
        assert_eq!((counts.answered, counts.timed_out_closing), (10, 10));
        assert_eq!(counts.retransmitted, 0);
        assert_eq!(net.server.backends()[0].fins, 0);
    }
}
