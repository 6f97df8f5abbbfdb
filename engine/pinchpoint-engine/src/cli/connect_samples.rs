//! What `connect --sample` prints between its start and its account.

use super::connect_account::Told;
use super::print_json;
use super::standing::Report;
use pinchpoint_workload::connections::samples::Sample;
use pinchpoint_workload::connections::work::Account;
use serde::Serialize;
use std::fs::File;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// How often it is looked whether there are samples.
const LOOK: Duration = Duration::from_millis(10);
const SECOND_NS: f64 = 1e9;

/// Prints samples as they come, and accounts.
pub(super) struct Sampled {
    /// Where they come from.
    pub samples: Receiver<Sample>,
    /// What the loop does when nothing has arrived.
    pub idle: String,
}

impl Report<Account> for Sampled {
    fn account(&mut self, account: &Account, core: usize, out: &mut File) {
        self.drain(out);
        print_json(out, &Told::new(account, core, self.idle.clone()));
    }

    fn meanwhile(&mut self, out: &mut File) -> Option<Duration> {
        self.drain(out);
        Some(LOOK)
    }
}

impl Sampled {
    fn drain(&self, out: &mut File) {
        for sample in self.samples.try_iter() {
            print_json(out, &SampleTold::new(sample));
        }
    }
}

/// Counts since the start; `type` is `sample`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "sample")]
struct SampleTold {
    /// Since the first connection was due.
    elapsed_s: f64,
    opened: u64,
    shortfall: u64,
    established: u64,
    answered: u64,
    completed: u64,
    refused: u64,
    reset: u64,
    timed_out_connecting: u64,
    timed_out_answering: u64,
    timed_out_closing: u64,
    wrong_backend: u64,
    backends: Vec<u64>,
    kept: Vec<u64>,
    left: Vec<u64>,
    down: Vec<u64>,
}

impl SampleTold {
    fn new(sample: Sample) -> Self {
        let counts = sample.counts;
        Self {
            elapsed_s: sample.passed_ns as f64 / SECOND_NS,
            opened: counts.opened,
            shortfall: counts.shortfall,
            established: counts.established,
            answered: counts.answered,
            completed: counts.completed,
            refused: counts.refused,
            reset: counts.reset,
            timed_out_connecting: counts.timed_out_connecting,
            timed_out_answering: counts.timed_out_answering,
            timed_out_closing: counts.timed_out_closing,
            wrong_backend: counts.wrong_backend,
            backends: sample.backends,
            kept: sample.kept,
            left: sample.left,
            down: sample.down,
        }
    }
}
