//! Times and sources as `connect` and `serve` print them.

use pinchpoint_traffic::latency::LatencyRecorder;
use pinchpoint_workload::connections::sources::Sources;
use serde::Serialize;
use std::net::IpAddr;

/// Addresses that are listed; the rest are summed up.
const MOST_LISTED: usize = 256;

#[derive(Debug, Serialize)]
pub(super) struct TimesTold {
    pub(super) count: u64,
    pub(super) min: u64,
    pub(super) mean: f64,
    pub(super) p50: u64,
    pub(super) p90: u64,
    pub(super) p99: u64,
    pub(super) p999: u64,
    pub(super) max: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct SourcesTold {
    pub(super) listed: Vec<SourceTold>,
    /// Addresses that are not listed, as far as they were counted one by one.
    pub(super) unlisted: usize,
    /// What came from addresses that are not listed.
    pub(super) others: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct SourceTold {
    pub(super) address: IpAddr,
    pub(super) count: u64,
}

impl TimesTold {
    pub(super) fn new(times: &LatencyRecorder) -> Option<Self> {
        let found = times.clone().into_histogram();
        (!found.is_empty()).then(|| Self {
            count: found.len(),
            min: found.min(),
            mean: found.mean(),
            p50: found.value_at_quantile(0.5),
            p90: found.value_at_quantile(0.9),
            p99: found.value_at_quantile(0.99),
            p999: found.value_at_quantile(0.999),
            max: found.max(),
        })
    }
}

impl SourcesTold {
    pub(super) fn new(sources: &Sources) -> Self {
        let mut sorted = sources.sorted();
        let rest = sorted.split_off(sorted.len().min(MOST_LISTED));
        Self {
            listed: sorted
                .into_iter()
                .map(|(address, count)| SourceTold { address, count })
                .collect(),
            unlisted: rest.len(),
            others: sources.others + rest.iter().map(|(_, count)| count).sum::<u64>(),
        }
    }
}
