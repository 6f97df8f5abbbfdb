//! The workers' shares of a trial put together.
//!
//! A stream that several workers send has a part for each, with an id and
//! sequence numbers of its own; frames of a part that several queues receive
//! are accounted where they arrive. So first what is known of each part is
//! merged, then the parts of each stream.

use super::outcome::{Outcome, PortOutcome, Received, SentPart, Share, StreamOutcome};
use super::plan::Plan;
use super::slices::SliceCounts;
use pinchpoint_traffic::counts::{StreamAccount, merged};
use pinchpoint_traffic::flows::FlowTotals;
use pinchpoint_traffic::latency::LatencyRecorder;

/// The account of a trial from its workers' shares, in the order of the plan.
pub(crate) fn merge(plan: &Plan, mut shares: Vec<Share>, failure: Option<String>) -> Outcome {
    let start_ns = shares.iter().map(|share| share.start_ns).min().unwrap_or(0);
    let sent_ns = shares.iter().map(|share| share.sent_ns).max().unwrap_or(0);
    let end_ns = shares.iter().map(|share| share.end_ns).max().unwrap_or(0);
    let streams = streams(plan, &mut shares);
    let mut ports = vec![None; plan.ports];
    let mut captured = Vec::new();
    let mut slices: Vec<SliceCounts> = Vec::new();
    let mut workers = Vec::new();
    let stopped = shares.iter().any(|share| share.stopped);
    for share in shares {
        for (index, queue) in share.ports {
            match &mut ports[index] {
                Some(port) => add_queue(port, queue),
                none => *none = Some(queue),
            }
        }
        let known = slices.len().min(share.slices.len());
        for (slice, other) in slices.iter_mut().zip(&share.slices) {
            slice.add(other);
        }
        slices.extend_from_slice(&share.slices[known..]);
        workers.push(share.worker);
        captured.extend(share.captured);
    }
    captured.sort_by_key(|frame| frame.at_ns);
    Outcome {
        stopped,
        failure,
        duration_ns: sent_ns.saturating_sub(start_ns),
        drain_ns: end_ns.saturating_sub(sent_ns),
        streams,
        slices,
        ports: ports.into_iter().map(Option::unwrap_or_default).collect(),
        workers,
        captured,
        start_ns,
    }
}

fn streams(plan: &Plan, shares: &mut [Share]) -> Vec<StreamOutcome> {
    let mut streams: Vec<StreamOutcome> = Vec::new();
    streams.resize_with(plan.streams, StreamOutcome::default);
    let mut sent: Vec<SentPart> = Vec::new();
    for share in shares.iter_mut() {
        sent.append(&mut share.sent);
    }
    sent.sort_by_key(|part| part.part);
    let mut take = |part: usize| {
        let accounts = shares.iter_mut().map(|share| share.received[part].take());
        let account = merged(accounts);
        let misdelivered = shares.iter().map(|share| share.misdelivered[part]);
        (account, misdelivered.sum::<u64>())
    };
    for part in sent {
        let (account, misdelivered) = take(part.part);
        let stream = &mut streams[plan.parts[part.part].stream];
        stream.misdelivered += misdelivered;
        add_part(stream, part, account);
    }
    let elsewhere = plan.parts.iter().enumerate();
    for (index, part) in elsewhere.filter(|(_, part)| part.worker.is_none()) {
        let (account, misdelivered) = take(index);
        let stream = &mut streams[part.stream];
        stream.misdelivered += misdelivered;
        // How many were sent, and of which flows, is known where they are sent.
        stream.received = account.map(|account| Received {
            counts: account.counts,
            latency: account.latency.unwrap_or_else(nothing),
            flows: None,
            losses: Vec::new(),
        });
    }
    streams
}

fn add_part(stream: &mut StreamOutcome, part: SentPart, account: Option<StreamAccount>) {
    stream.pacers.push(part.pacer);
    stream.refused += part.refused;
    stream.refused_ns = stream.refused_ns.max(part.refused_ns);
    stream.sent += part.sent;
    // The parts have the sizes of the stream, in the same proportions.
    stream.mean_len = part.mean_len;
    let Some(account) = account else {
        return;
    };
    let mut counts = account.counts;
    counts.at_most(part.sent, part.contiguous);
    let tracker = account.flows.filter(|_| part.contiguous);
    let flows = tracker.as_ref().map(|flows| flows.totals(part.sent));
    let losses = tracker.iter().flat_map(|flows| flows.losses(part.sent));
    let losses = losses.collect();
    match &mut stream.received {
        Some(received) => {
            received.counts.merge(&counts);
            if let Some(latency) = account.latency {
                received.latency.merge(latency);
            }
            received.flows = received
                .flows
                .zip(flows)
                .map(|(one, other)| add(one, other));
            received.losses.extend(losses);
        }
        none => {
            *none = Some(Received {
                counts,
                latency: account.latency.unwrap_or_else(nothing),
                flows,
                losses,
            });
        }
    }
}

/// Where the first part of a stream, with which latencies are, was not told.
fn nothing() -> LatencyRecorder {
    LatencyRecorder::new(1, false)
}

fn add(one: FlowTotals, other: FlowTotals) -> FlowTotals {
    FlowTotals {
        flows: one.flows + other.flows,
        sent: one.sent + other.sent,
        received: one.received + other.received,
        with_loss: one.with_loss + other.with_loss,
        silent: one.silent + other.silent,
    }
}

/// Adds a further queue's account. What one queue cannot tell, its port cannot.
fn add_queue(port: &mut PortOutcome, queue: PortOutcome) {
    let missed = port.rx_missed.zip(queue.rx_missed);
    port.rx_missed = missed.map(|(one, other)| one + other);
    port.sent += queue.sent;
    port.refused += queue.refused;
    port.full += queue.full;
    port.answered += queue.answered;
    port.full_receives += queue.full_receives;
    port.cut_receives += queue.cut_receives;
    port.counts.merge(&queue.counts);
    for (name, value) in queue.stats {
        match port.stats.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += value,
            None => port.stats.push((name, value)),
        }
    }
}
