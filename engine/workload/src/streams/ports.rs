//! What a worker's ports do beside carrying frames: what they count, the
//! neighbours they answer, the frames they have the kernel make.

use super::outcome::PortOutcome;
use super::plan::{Plan, PlannedStream};
use pinchpoint_port::{AnyPort, Port};
use pinchpoint_traffic::counts::PortCounts;
pub(super) use pinchpoint_worker::watched::Baseline;
use pinchpoint_worker::{Received, WorkerPort};

/// What a port's transmit side has done.
#[derive(Default, Clone, Copy)]
pub(crate) struct Transmitted {
    pub(crate) sent: u64,
    pub(crate) refused: u64,
    pub(crate) full: u64,
    pub(crate) answered: u64,
}

/// The port's account since `before`, with its index in the session.
pub(crate) fn account(
    own: &mut WorkerPort,
    transmitted: Transmitted,
    (counts, received): (PortCounts, Received),
    before: &Baseline,
) -> (usize, PortOutcome) {
    let mut stats = before.stats(own.port.stats());
    let unsent = own.port.unsent().min(transmitted.sent);
    if unsent > 0 {
        stats.push(("engine_tx_unsent".to_owned(), unsent));
    }
    let outcome = PortOutcome {
        sent: transmitted.sent,
        refused: transmitted.refused,
        full: transmitted.full,
        answered: transmitted.answered,
        counts,
        full_receives: received.full_bursts,
        cut_receives: received.cut_turns,
        rx_missed: before.missed(own.port.rx_missed()),
        stats,
    };
    (own.index, outcome)
}

/// The number that a stream has at the port that has the kernel make it.
pub(crate) fn live_number(
    ports: &[WorkerPort],
    planned: &PlannedStream,
    plan: &Plan,
) -> Option<usize> {
    match &ports[planned.tx_port].port {
        AnyPort::XdpLive(port) => port.live_stream(plan.parts[planned.part].id),
        _ => None,
    }
}

/// Gives the ports that have the kernel make frames their streams.
///
/// # Errors
/// What the kernel says of a stream's program, with the port's name.
pub(crate) fn load(index: usize, ports: &mut [WorkerPort], plan: &Plan) -> Result<(), String> {
    let streams = &plan.workers[index].streams;
    for (place, own) in ports.iter_mut().enumerate() {
        if let AnyPort::XdpLive(port) = &mut own.port {
            let of_port = streams.iter().filter(|stream| stream.tx_port == place);
            let live: Vec<_> = of_port.filter_map(|stream| stream.live.clone()).collect();
            port.load(&live)
                .map_err(|error| format!("{}: {error}", own.name))?;
        }
    }
    Ok(())
}

/// Between two questions for the ports' links: each is a system call, or a
/// register of a NIC across its bus, on the core that sends and receives.
pub(super) const ASK_NS: u64 = 50_000_000;

/// What is done now and then.
pub(super) struct Every {
    period_ns: u64,
    due_ns: u64,
}

impl Every {
    pub(super) fn new(period_ns: u64) -> Self {
        Self {
            period_ns,
            due_ns: 0,
        }
    }

    /// Whether a period has passed since this was last true.
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns >= self.due_ns;
        if is_due {
            self.due_ns = now_ns + self.period_ns;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker publishes each millisecond.
    #[test]
    fn links_are_asked_for_twenty_times_a_second() {
        let mut asks = Every::new(ASK_NS);
        let second = 5_000_000_000..6_000_000_000_u64;
        let asked = second.step_by(1_000_000).filter(|&now| asks.is_due(now));
        assert_eq!(asked.count(), 20);
    }
}
