//! The parts of a trial put together.
//!
//! A stream that several workers send is several sequences, each with its own
//! id; frames that several queues receive are accounted where they arrive. So
//! counts add up, latencies are merged, and reordering is told within what one
//! queue received of one part: between queues there is no order to keep.

use crate::outcome::{Outcome, Part, PortOutcome, StreamOutcome};
use crate::plan::Plan;

/// The account of a trial from its workers' parts, in the order of the plan.
pub(crate) fn merge(plan: &Plan, parts: Vec<Part>, failure: Option<String>) -> Outcome {
    let start_ns = parts.iter().map(|part| part.start_ns).min().unwrap_or(0);
    let sent_ns = parts.iter().map(|part| part.sent_ns).max().unwrap_or(0);
    let end_ns = parts.iter().map(|part| part.end_ns).max().unwrap_or(0);
    let mut outcome = Outcome {
        stopped: parts.iter().any(|part| part.stopped),
        failure,
        duration_ns: sent_ns.saturating_sub(start_ns),
        drain_ns: end_ns.saturating_sub(sent_ns),
        streams: (0..plan.streams).map(|_| StreamOutcome::default()).collect(),
        ports: Vec::new(),
        workers: Vec::new(),
        captured: Vec::new(),
        start_ns,
    };
    let mut ports = vec![None; plan.ports];
    for part in parts {
        add(&mut outcome, &mut ports, part);
    }
    outcome.ports = ports.into_iter().map(Option::unwrap_or_default).collect();
    outcome.captured.sort_by_key(|frame| frame.at_ns);
    outcome
}

fn add(outcome: &mut Outcome, ports: &mut [Option<PortOutcome>], part: Part) {
    for sent in part.sent {
        let stream = &mut outcome.streams[sent.stream];
        stream.pacers.push(sent.pacer);
        stream.refused += sent.refused;
        stream.sent += sent.sent;
    }
    for received in part.received {
        let stream = &mut outcome.streams[received.stream];
        match &mut stream.received {
            Some((counts, latency)) => {
                counts.merge(&received.counts);
                latency.merge(received.latency);
            }
            none => *none = Some((received.counts, received.latency)),
        }
    }
    for (index, queue) in part.ports {
        match &mut ports[index] {
            Some(port) => add_queue(port, queue),
            none => *none = Some(queue),
        }
    }
    outcome.workers.push(part.worker);
    outcome.captured.extend(part.captured);
}

/// Adds a further queue's account. What one queue cannot tell, its port cannot.
fn add_queue(port: &mut PortOutcome, queue: PortOutcome) {
    let missed = port.rx_missed.zip(queue.rx_missed);
    port.rx_missed = missed.map(|(one, other)| one + other);
    port.sent += queue.sent;
    port.refused += queue.refused;
    port.full += queue.full;
    port.answered += queue.answered;
    port.counts.merge(&queue.counts);
    for (name, value) in queue.stats {
        match port.stats.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += value,
            None => port.stats.push((name, value)),
        }
    }
}
