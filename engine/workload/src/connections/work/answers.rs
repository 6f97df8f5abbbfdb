//! Answers of several segments, and time stamps.

use super::{ClientEnd, Connections};
use crate::connections::options::StampClock;
use crate::connections::sender::Listed;
use crate::connections::server::Server;
use pinchpoint_port::{BURST, Port};
use pinchpoint_worker::Core;

impl ClientEnd {
    /// The same client, whose answers have `len` bytes each.
    #[must_use]
    pub fn with_answers(self, len: u32) -> Self {
        Self {
            answer_len: len,
            ..self
        }
    }

    /// The same client, whose segments have the time stamps of `clock`; none: they have none.
    #[must_use]
    pub fn with_stamps(self, clock: Option<StampClock>) -> Self {
        Self { clock, ..self }
    }
}

impl Connections {
    /// Sends what is due of answers; how many bursts that took.
    #[inline(always)]
    pub(super) fn continue_answers(&mut self, core: &mut Core<'_>) -> usize {
        if self.server.as_ref().is_some_and(Server::has_long_answers) {
            self.send_answers(core)
        } else {
            0
        }
    }

    #[inline(never)]
    fn send_answers(&mut self, core: &mut Core<'_>) -> usize {
        let Some(server) = &mut self.server else {
            return 0;
        };
        self.timed.clear();
        let port = server.send(core.now_ns, BURST, &mut self.timed);
        if self.timed.is_empty() {
            return 0;
        }
        let port = &mut core.ports[port].port;
        let taken = port.send(self.timed.len(), Listed(&self.timed));
        server.sent(&self.timed, taken);
        usize::from(taken > 0)
    }
}
