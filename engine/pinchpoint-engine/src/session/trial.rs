//! A trial of frames that the session watches.

use crate::capture::Capture;
use crate::protocol::{CacheLine, Loopback, RunRequest, Sample, StreamSample};
use pinchpoint_worker::Clock;
use pinchpoint_workload::streams::hold::ReleaseAtEnd;
use pinchpoint_workload::streams::{Live, Running};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A trial under way.
pub(super) struct Trial {
    pub(super) request: RunRequest,
    pub(super) capture: Option<Capture>,
    pub(super) loopback: Option<Loopback>,
    pub(super) running: Running,
    pub(super) live: Arc<Live>,
    pub(super) clock: Clock,
    /// Whether that is the system's time of day, which may be set meanwhile.
    pub(super) is_wall: bool,
    pub(super) begun: Instant,
    /// Whether every port has one queue, so that a frame that is overtaken is late or lost.
    pub(super) one_queue: bool,
    pub(super) sample_interval: Option<Duration>,
    pub(super) next_sample: Option<Instant>,
    pub(super) cache_lines: Vec<CacheLine>,
    /// The workers do the same; this is for a session that ends without them.
    pub(super) _released: Option<ReleaseAtEnd>,
}

impl Trial {
    /// Begins the sending of a trial that waits for it, and with it the time of the
    /// samples; false if it does not wait.
    pub(super) fn go(&mut self) -> bool {
        if !self.request.on_go || !self.live.go(self.clock.now_ns()) {
            return false;
        }
        self.begun = Instant::now();
        self.next_sample = self.sample_interval.map(|interval| self.begun + interval);
        true
    }

    /// Its totals; the next ones are due an interval later.
    pub(super) fn sample(&mut self) -> Sample {
        self.next_sample = self
            .next_sample
            .zip(self.sample_interval)
            .map(|(at, interval)| at + interval);
        let totals = self.live.sample();
        let streams = self.request.streams.iter().zip(self.running.streams());
        let streams = streams.map(|(stream, (sent, received))| StreamSample {
            id: stream.id,
            sent,
            received,
        });
        Sample {
            trial: self.request.trial.clone(),
            elapsed_s: self.begun.elapsed().as_secs_f64(),
            offered: totals.offered,
            sent: totals.sent,
            received: totals.received,
            lost: self.one_queue.then_some(totals.lost),
            gaps_ns: totals.gaps_ns,
            gap_max_ns: totals.gap_max_ns,
            streams: streams.collect(),
        }
    }
}
