//! Counts at regular times while connections are opened.

use super::answered::add;
use super::client::Client;
use super::counts::Counts;
use super::server::Server;
use std::collections::VecDeque;
use std::sync::mpsc::Sender;

/// The time of each core's last sample, whenever that is.
pub const LAST: u64 = u64::MAX;

/// What has been counted until some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Which of several cores took it.
    pub core: usize,
    /// Which of the regular times it is of; the one at the end is of [`LAST`].
    pub time: u64,
    /// Since the first connection was due.
    pub passed_ns: u64,
    /// What became of the connections.
    pub counts: Counts,
    /// Connections answered, by backend.
    pub backends: Vec<u64>,
    /// Of them, those that stayed with the backend of their tuple's connection before, by that backend.
    pub kept: Vec<u64>,
    /// And those that did not.
    pub left: Vec<u64>,
    /// Segments that came to each backend while it was down.
    pub down: Vec<u64>,
}

/// When samples are taken, and where they go.
#[derive(Debug)]
pub struct Samples {
    core: usize,
    every_ns: u64,
    next_ns: u64,
    to: Sender<Sample>,
}

impl Samples {
    /// One every `every_ns`, of one of several cores.
    pub fn new(core: usize, every_ns: u64, to: Sender<Sample>) -> Self {
        Self {
            core,
            every_ns,
            next_ns: 0,
            to,
        }
    }

    /// Takes one if it is due. Those that were missed are not made up for.
    pub(super) fn look(&mut self, client: &Client, server: Option<&Server>, now_ns: u64) {
        let Some(passed_ns) = now_ns.checked_sub(client.start_ns()) else {
            return;
        };
        if passed_ns >= self.next_ns {
            let time = passed_ns / self.every_ns;
            self.next_ns = (time + 1) * self.every_ns;
            self.take(time, client, server, now_ns);
        }
    }

    /// Takes the last one.
    pub(super) fn end(&self, client: &Client, server: Option<&Server>, now_ns: u64) {
        self.take(LAST, client, server, now_ns);
    }

    fn take(&self, time: u64, client: &Client, server: Option<&Server>, now_ns: u64) {
        let answered = client.answered();
        // Nobody has to be there to read it.
        let _ = self.to.send(Sample {
            core: self.core,
            time,
            passed_ns: now_ns.saturating_sub(client.start_ns()),
            counts: client.counts().clone(),
            backends: answered.backends().to_vec(),
            kept: answered.kept().to_vec(),
            left: answered.left().to_vec(),
            down: server.map_or_else(Vec::new, |server| {
                server.backends().iter().map(|one| one.down).collect()
            }),
        });
    }
}

/// The samples of several cores, joined to those of all.
#[derive(Debug)]
pub struct Joined {
    /// By core: those of times at which not all have taken one yet.
    waiting: Vec<VecDeque<Sample>>,
}

impl Joined {
    /// Of this many cores.
    pub fn new(cores: usize) -> Self {
        Self {
            waiting: vec![VecDeque::new(); cores],
        }
    }

    /// Adds a core's sample; returns that of all cores once each has taken one of the same time. A
    /// time that one of them missed is left out.
    pub fn add(&mut self, sample: Sample) -> Option<Sample> {
        self.waiting[sample.core].push_back(sample);
        loop {
            let times = self.waiting.iter().map(|own| Some(own.front()?.time));
            let newest = times.collect::<Option<Vec<_>>>()?.into_iter().max()?;
            let mut is_same = true;
            for own in &mut self.waiting {
                while own.front().is_some_and(|sample| sample.time < newest) {
                    own.pop_front();
                    is_same = false;
                }
            }
            if is_same {
                let mut all = self.waiting.iter_mut().filter_map(VecDeque::pop_front);
                let first = all.next()?;
                return Some(all.fold(first, |sum, other| sum.with(&other)));
            }
        }
    }
}

impl Sample {
    /// With what another core has counted until the same time, to a millisecond.
    fn with(mut self, other: &Self) -> Self {
        self.passed_ns = self.passed_ns.max(other.passed_ns);
        self.counts.merge(&other.counts);
        add(&mut self.backends, &other.backends);
        add(&mut self.kept, &other.kept);
        add(&mut self.left, &other.left);
        add(&mut self.down, &other.down);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(core: usize, time: u64, opened: u64, backends: &[u64]) -> Sample {
        Sample {
            core,
            time,
            passed_ns: 10 * time.min(100) + core as u64,
            counts: Counts {
                opened,
                ..Counts::default()
            },
            backends: backends.to_vec(),
            kept: Vec::new(),
            left: Vec::new(),
            down: Vec::new(),
        }
    }

    #[test]
    fn samples_of_one_time_are_added_up_and_a_time_that_a_core_missed_is_left_out() {
        let mut joined = Joined::new(2);
        let all = [
            sample(0, 0, 1, &[1]),
            sample(0, 1, 2, &[2]),
            sample(1, 0, 10, &[0, 5]),
            sample(0, 2, 3, &[]),
            sample(1, 2, 20, &[7]),
            sample(1, LAST, 30, &[8]),
            sample(0, LAST, 4, &[4]),
        ];
        let found = all.into_iter().filter_map(|sample| joined.add(sample));
        let found: Vec<_> = found
            .map(|one| (one.time, one.counts.opened, one.backends, one.passed_ns))
            .collect();
        let expected = [
            (0, 11, vec![1, 5], 1),
            (2, 23, vec![7], 21),
            (LAST, 34, vec![12], 1001),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_samples_of_one_core_are_those_of_all() {
        let mut joined = Joined::new(1);
        for time in [0, 1, LAST] {
            let own = sample(0, time, 3, &[1]);
            assert_eq!(joined.add(own.clone()), Some(own));
        }
    }
}
