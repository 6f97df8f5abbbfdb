//! Which flows of a stream lost frames.

/// Most flows that can be followed one by one.
pub const MAX_TRACKED: usize = 1 << 16;

/// Which flow a frame belongs to: `first + sequence mod flows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowMap {
    /// Number of the flow that frame 0 belongs to.
    pub first: u64,
    /// Flows of the stream; 0 counts as 1.
    pub flows: u64,
}

/// Counts the distinct frames received of the first flows of a stream.
#[derive(Debug, Clone)]
pub struct FlowTracker {
    map: FlowMap,
    received: Vec<u64>,
    /// The flow, counted from the first, of frame `next`: sequence numbers
    /// mostly follow one another, and then need no division.
    next: u64,
    at: u64,
}

/// One flow that lost frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowLoss {
    /// Number of the flow.
    pub flow: u64,
    /// Frames the port took.
    pub sent: u64,
    /// Distinct intact frames that came back.
    pub received: u64,
}

/// All flows followed, taken together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowTotals {
    /// Flows followed of which frames were sent.
    pub flows: u64,
    /// Frames sent of them.
    pub sent: u64,
    /// Distinct intact frames of them that came back.
    pub received: u64,
    /// Flows that lost frames.
    pub with_loss: u64,
    /// Flows of which nothing came back.
    pub silent: u64,
}

impl FlowTracker {
    /// Follows the first `tracked` flows, at most [`MAX_TRACKED`]; allocates
    /// their counters.
    pub fn new(map: FlowMap, tracked: usize) -> Self {
        let flows = map.flows.max(1);
        let tracked = tracked
            .min(MAX_TRACKED)
            .min(usize::try_from(flows).unwrap_or(MAX_TRACKED));
        Self {
            map: FlowMap { flows, ..map },
            received: vec![0; tracked],
            next: 0,
            at: 0,
        }
    }

    /// Counts a first copy of frame `sequence`.
    #[inline(always)]
    pub fn record(&mut self, sequence: u64) {
        if sequence != self.next {
            self.at = sequence % self.map.flows;
        }
        if let Some(count) = self.received.get_mut(self.at as usize) {
            *count += 1;
        }
        self.next = sequence + 1;
        self.at += 1;
        if self.at == self.map.flows {
            self.at = 0;
        }
    }

    /// Takes back the count of frame `sequence`.
    pub(crate) fn take_back(&mut self, sequence: u64) {
        let at = (sequence % self.map.flows) as usize;
        if let Some(count) = self.received.get_mut(at) {
            *count -= 1;
        }
    }

    /// Adds the counts of `other`, which follows the same flows.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.map, other.map, "of one stream");
        for (count, more) in self.received.iter_mut().zip(&other.received) {
            *count += more;
        }
    }

    /// The flows that lost frames, in their order, when the stream's frames
    /// below `sent` were sent.
    pub fn losses(&self, sent: u64) -> impl Iterator<Item = FlowLoss> + '_ {
        self.counts(sent).filter(|flow| flow.received < flow.sent)
    }

    /// The flows followed taken together, when the stream's frames below
    /// `sent` were sent.
    pub fn totals(&self, sent: u64) -> FlowTotals {
        let mut totals = FlowTotals::default();
        for flow in self.counts(sent).filter(|flow| flow.sent > 0) {
            totals.flows += 1;
            totals.sent += flow.sent;
            totals.received += flow.received;
            totals.with_loss += u64::from(flow.received < flow.sent);
            totals.silent += u64::from(flow.received == 0);
        }
        totals
    }

    fn counts(&self, sent: u64) -> impl Iterator<Item = FlowLoss> + '_ {
        let (each, more) = (sent / self.map.flows, sent % self.map.flows);
        let count = move |(at, &received): (usize, &u64)| FlowLoss {
            flow: self.map.first + at as u64,
            sent: each + u64::from((at as u64) < more),
            received,
        };
        self.received.iter().enumerate().map(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn losses_are_those_of_counting_flow_by_flow(
            flows in 1u64..40,
            tracked in 0usize..50,
            sent in 0u64..300,
            lost in proptest::collection::hash_set(0u64..300, 0..40),
            split in 0u64..300,
        ) {
            let map = FlowMap { first: 1000, flows };
            let mut trackers = [FlowTracker::new(map, tracked), FlowTracker::new(map, tracked)];
            let mut truth: HashMap<u64, (u64, u64)> = HashMap::new();
            for sequence in 0..sent {
                let flow = sequence % flows;
                if flow >= tracked as u64 {
                    continue;
                }
                let counts = truth.entry(1000 + flow).or_default();
                counts.0 += 1;
                counts.1 += u64::from(!lost.contains(&sequence));
            }
            for sequence in (0..sent).filter(|sequence| !lost.contains(sequence)) {
                trackers[usize::from(sequence < split)].record(sequence);
            }
            let [mut all, more] = trackers;
            all.merge(&more);
            let mut wanted: Vec<_> = truth
                .iter()
                .filter(|(_, (sent, received))| received < sent)
                .map(|(&flow, &(sent, received))| FlowLoss { flow, sent, received })
                .collect();
            wanted.sort_by_key(|loss| loss.flow);
            prop_assert_eq!(all.losses(sent).collect::<Vec<_>>(), wanted);
            let totals = all.totals(sent);
            prop_assert_eq!(totals.flows, truth.len() as u64);
            prop_assert_eq!(totals.sent, truth.values().map(|counts| counts.0).sum::<u64>());
            prop_assert_eq!(totals.received, truth.values().map(|counts| counts.1).sum::<u64>());
            let silent = truth.values().filter(|counts| counts.1 == 0).count();
            prop_assert_eq!(totals.silent, silent as u64);
        }
    }

    #[test]
    fn no_more_flows_are_followed_than_there_is_room_for() {
        let map = FlowMap {
            first: 0,
            flows: 1 << 40,
        };
        let tracker = FlowTracker::new(map, usize::MAX);
        assert_eq!(tracker.totals(1 << 41).flows, MAX_TRACKED as u64);
    }
}
