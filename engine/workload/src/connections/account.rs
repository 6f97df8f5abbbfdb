//! What is said of an account, and the accounts of several cores as one.

use super::work::{Account, Others};
use pinchpoint_wire::ethernet::Mac;

impl Account {
    /// The Ethernet address to which the client's frames went.
    pub fn next_hop(&self) -> Option<Mac> {
        self.client.as_ref().map(|client| client.sender.macs.1)
    }

    /// Adds what another core with the same ports did, but for how its loop ran.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.client, &other.client) {
            (Some(own), Some(other)) => own.merge(other),
            (own @ None, Some(other)) => *own = Some(other.clone()),
            (_, None) => {}
        }
        if let (Some(own), Some(other)) = (&mut self.server, &other.server) {
            own.merge(other);
        }
        for (own, other) in self.ports.iter_mut().zip(&other.ports) {
            own.merge(other);
        }
        for (own, other) in self.others.iter_mut().zip(&other.others) {
            own.merge(other);
        }
        if let (Some(own), Some(other)) = (&mut self.returned, other.returned) {
            *own += other;
        }
        if let (Some(own), Some(other)) = (&mut self.handed, other.handed) {
            own.segments += other.segments;
            own.lost += other.lost;
        }
    }
}

impl Others {
    fn merge(&mut self, more: &Self) {
        let Self {
            other,
            malformed,
            fragments,
            checksum,
            answered,
            segments,
        } = more;
        self.other += other;
        self.malformed += malformed;
        self.fragments += fragments;
        self.checksum += checksum;
        self.answered += answered;
        self.segments += segments;
    }
}
