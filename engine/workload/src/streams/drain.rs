//! What follows once everything is sent.

use super::stage::{AllSent, Stage};
use super::work::{Stream, Streams};
use pinchpoint_port::{AnyPort, BURST, Port};
use pinchpoint_worker::{Core, Idle, WorkerPort};
use std::time::Duration;

/// How many times its length a drain may last while frames still arrive.
const LONGEST_DRAIN: u64 = 10;
/// The part of a drain's length for which a core is given away at once while
/// nothing arrives: what arrives then has waited for half the drain at least, so
/// that its latency is wrong by less than a hundredth.
const REST: u64 = 256;

impl Streams<'_> {
    /// Sending is over: informs the other workers.
    #[cold]
    pub(super) fn end_sending(&mut self, core: &mut Core<'_>) {
        let slices = self.end_slices(core);
        for stream in &self.own {
            let sent_bound = &self.plan.parts[stream.planned.part].sent_bound;
            sent_bound.finish(next(core.ports, stream));
        }
        let elapsed_ns = core.now_ns - self.start_ns;
        let ring = |own: &WorkerPort| own.port.rings().0 as usize / BURST + 1;
        self.sent = Some(AllSent {
            at_ns: core.now_ns,
            busy_share: core.busy_ns as f64 / elapsed_ns.max(1) as f64,
            slices,
            turns_left: core.ports.iter().map(ring).max().unwrap_or(0),
            delivered: self.account.delivered(),
            last_ns: 0,
            looked: false,
            released_ns: None,
            rested: false,
        });
        if self.live.sending_ended(core.now_ns) {
            (self.tell)(Stage::Sent);
        }
    }

    /// When the drain began: once the last worker had sent, and where other engines
    /// take part, once they have too. None before.
    fn drained_since(&mut self, now_ns: u64) -> Option<u64> {
        let sent_ns = self.live.all_sent_ns()?;
        if self.plan.peer_timeout_ns.is_none() {
            return Some(sent_ns);
        }
        if !self.live.stopped() {
            self.wait(now_ns.saturating_sub(sent_ns), "stop");
            return None;
        }
        let released_ns = &mut self.sent.as_mut()?.released_ns;
        Some(*released_ns.get_or_insert(now_ns))
    }

    /// Whether the drain continues: until `drain_ns` after it began and after the last frame of this trial has arrived here, but at most
    /// [`LONGEST_DRAIN`] times as long: a queue that still empties is no loss,
    /// and a loop of the device must not keep the trial. Then, if that is any
    /// time at all, until the rings are empty: a core that comes late finds there
    /// what had arrived in time.
    ///
    /// For the second half of that time the core is given away, and once at least:
    /// while this worker polls, the kernel or a device on the same core may be
    /// unable to hand frames over.
    pub(super) fn drains(&mut self, core: &mut Core<'_>) -> bool {
        if self.live.aborted() {
            return false;
        }
        let since_ns = self.drained_since(core.now_ns);
        let (Some(sent), drain_ns) = (&mut self.sent, self.plan.drain_ns) else {
            return true;
        };
        let delivered = self.account.delivered();
        if delivered != sent.delivered {
            (sent.delivered, sent.last_ns) = (delivered, core.now_ns);
        }
        let Some(sent_ns) = since_ns else {
            return true;
        };
        let quiet_since_ns = sent.last_ns.max(sent_ns);
        let until_ns = (quiet_since_ns + drain_ns).min(sent_ns + LONGEST_DRAIN * drain_ns);
        let over = core.now_ns >= until_ns;
        let is_empty = sent.looked && !core.any_received;
        if over {
            if drain_ns == 0 || sent.turns_left == 0 || (is_empty && sent.rested) {
                return false;
            }
            sent.turns_left -= 1;
        }
        sent.looked = over;
        sent.rested = core.now_ns >= quiet_since_ns + drain_ns / 2 && !core.any_received;
        if sent.rested {
            core.give_away(Idle::Sleep(Duration::from_nanos(drain_ns / REST)));
        }
        true
    }
}

/// Number of the stream's next frame.
fn next(ports: &[WorkerPort], stream: &Stream) -> u64 {
    match (stream.live, &ports[stream.planned.tx_port].port) {
        (Some(number), AnyPort::XdpLive(port)) => port.next_live(number).unwrap_or(0),
        _ => stream.planned.program.next(),
    }
}
