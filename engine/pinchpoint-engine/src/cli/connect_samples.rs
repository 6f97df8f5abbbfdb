//! What `connect` and `serve` print, and when: accounts, and the samples of `connect --sample`.

use super::connect_account::Told;
use super::standing::Report;
use super::standing_args::{StandingArgs, idle_word};
use super::table::Paint;
use super::{print, print_json};
use pinchpoint_workload::connections::samples::{Joined, Sample};
use pinchpoint_workload::connections::work::Account;
use serde::Serialize;
use std::fs::File;
use std::io::IsTerminal;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// How often it is looked whether there are samples.
const LOOK: Duration = Duration::from_millis(10);
const SECOND_NS: f64 = 1e9;

/// Prints samples as they come, and accounts, each of all cores.
pub(super) struct Printed {
    /// Those of each core; none if nobody sends any.
    samples: Option<Receiver<Sample>>,
    joined: Joined,
    /// What the loop does when nothing has arrived.
    idle: String,
    json: bool,
}

impl Report<Account> for Printed {
    fn accounts(&mut self, accounts: &[Account], cores: &[usize], out: &mut File) {
        self.drain(out);
        let Some(told) = Told::new(accounts, cores, &self.idle) else {
            return;
        };
        if self.json {
            print_json(out, &told);
        } else {
            print(out, &told.tables(Paint::of(out.is_terminal())));
        }
    }

    fn meanwhile(&mut self, out: &mut File) -> Option<Duration> {
        self.samples.is_some().then(|| {
            self.drain(out);
            LOOK
        })
    }
}

impl Printed {
    /// For this many cores; `samples` of all of them, if any are taken.
    pub(super) fn new(
        args: &StandingArgs,
        cores: usize,
        samples: Option<Receiver<Sample>>,
    ) -> Self {
        Self {
            samples,
            joined: Joined::new(cores),
            idle: idle_word(args.idle),
            json: args.json,
        }
    }

    fn drain(&mut self, out: &mut File) {
        let samples = self.samples.iter().flat_map(Receiver::try_iter);
        for sample in samples {
            if let Some(sample) = self.joined.add(sample) {
                print_json(out, &SampleTold::new(sample));
            }
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
