//! How far the client has come, as its server sees it.

use crate::shared::{Phase, Shared};
use crate::spec::{Kind, Side, Transport};
use crate::usage::Usage;
use pinchpoint_worker::Clock;

/// Follows the client's phases and counts for them.
pub(crate) struct Watch<'a> {
    pub(crate) shared: &'a Shared<'a>,
    clock: Clock,
    phase: Phase,
    usage: Usage,
    /// In the window, once that is over.
    used: Option<Usage>,
    /// How many more connections (datagrams) it takes until a client that is
    /// elsewhere has begun; 0 once it has.
    awaited: usize,
}

impl<'a> Watch<'a> {
    /// From the warm-up on.
    pub(crate) fn new(shared: &'a Shared<'a>, clock: Clock) -> Self {
        let work = shared.work;
        let stands = work.kind != Kind::Crr && work.transport == Transport::Tcp;
        let awaited = if stands { work.connections } else { 1 };
        let is_alone = work.elsewhere == Some(Side::Client);
        Self {
            shared,
            clock,
            phase: Phase::WarmUp,
            usage: Usage::now(),
            used: None,
            awaited: if is_alone { awaited } else { 0 },
        }
    }

    /// Whether there is more to do; called in every turn.
    #[inline]
    pub(crate) fn goes_on(&mut self) -> bool {
        let phase = self.shared.phase();
        if phase != self.phase {
            if self.phase == Phase::Measuring {
                self.used = Some(Usage::now().since(&self.usage));
            }
            self.phase = phase;
            if phase == Phase::Measuring {
                self.usage = Usage::now();
            }
        }
        phase != Phase::Done
    }

    /// A connection was accepted, or a datagram came: one that is elsewhere
    /// connects all that stand, then begins.
    #[inline]
    pub(crate) fn greet(&mut self) {
        if self.awaited > 0 {
            self.awaited -= 1;
            if self.awaited == 0 {
                self.shared.begun(self.clock.now_ns());
            }
        }
    }

    /// What the server used in the window, or since it began.
    pub(crate) fn used(&self) -> Usage {
        self.used.unwrap_or_else(|| Usage::now().since(&self.usage))
    }
}
