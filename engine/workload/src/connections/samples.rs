//! Counts at regular times while connections are opened.

use super::client::Client;
use super::counts::Counts;
use super::server::Server;
use std::sync::mpsc::Sender;

/// What has been counted until some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
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
    every_ns: u64,
    next_ns: u64,
    to: Sender<Sample>,
}

impl Samples {
    /// One every `every_ns`.
    pub fn new(every_ns: u64, to: Sender<Sample>) -> Self {
        Self {
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
            self.next_ns = (passed_ns / self.every_ns + 1) * self.every_ns;
            self.take(client, server, now_ns);
        }
    }

    /// Takes one.
    pub(super) fn take(&self, client: &Client, server: Option<&Server>, now_ns: u64) {
        let answered = client.answered();
        // Nobody has to be there to read it.
        let _ = self.to.send(Sample {
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
