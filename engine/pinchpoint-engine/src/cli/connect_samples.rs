//! What `connect` and `serve` print, and when: accounts, and the samples of `connect --sample`.

use super::standing::Report;
use super::standing_args::StandingArgs;
use super::table::Paint;
use super::{print, print_json};
use crate::protocol::connections::{ConnectionsAccount, ConnectionsCounts};
use crate::report::standing::idle_word;
use pinchpoint_workload::connections::samples::{Joined, Sample};
use pinchpoint_workload::connections::work::Account;
use serde::Serialize;
use std::fs::File;
use std::io::IsTerminal;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// How often it is looked whether there are samples.
const LOOK: Duration = Duration::from_millis(10);

/// A line of JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "type")]
enum Line<'a> {
    /// The account.
    #[serde(rename = "connections")]
    Account(&'a ConnectionsAccount),
    /// Counts since the start.
    #[serde(rename = "sample")]
    Sample(&'a ConnectionsCounts),
}

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
        let Some(told) = ConnectionsAccount::new(accounts, cores, &self.idle) else {
            return;
        };
        if self.json {
            print_json(out, &Line::Account(&told));
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
                print_json(out, &Line::Sample(&ConnectionsCounts::new(sample)));
            }
        }
    }
}
