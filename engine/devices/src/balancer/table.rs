//! The connections that are remembered: a table of a fixed size, and three queues in the order
//! in which they will be forgotten.

use super::counts::Tracked;
use super::index::{Index, NONE};
use super::settings::{Spot, Timeouts};
use pinchpoint_traffic::hash::Hash;
use pinchpoint_wire::ethernet::Mac;

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Opening,
    Established,
    Closed,
}

/// A connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connection {
    pub(super) client: Spot,
    /// What the backend sees: a local end, or the client.
    pub(super) seen: Spot,
    /// Its backend's number and end.
    pub(super) backend: u16,
    pub(super) at: Spot,
    /// The number of its local end, or [`NONE`].
    pub(super) local: u32,
    /// Where frames to the client go first.
    pub(super) mac: Mac,
    /// What the client's sequence numbers rise by.
    pub(super) seq_by: u32,
    /// What acknowledges the backend's SYN and no more, once that came.
    pub(super) first_ack: Option<u32>,
    /// FINs of the client (1) and of the backend (2).
    pub(super) fins: u8,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    connection: Connection,
    stage: Stage,
    used_ns: u64,
    older: u32,
    /// The next free entry, if this one is free.
    newer: u32,
}

#[derive(Debug, Clone, Copy)]
struct Queue {
    oldest: u32,
    newest: u32,
    count: u64,
}

#[derive(Debug)]
pub(super) struct Table {
    /// Grows up to its capacity, so that memory is only touched where it is used.
    entries: Vec<Entry>,
    most: usize,
    free: u32,
    by_client: Index,
    by_backend: Index,
    queues: [Queue; 3],
    timeouts: [u64; 3],
    hash: Hash,
    counts: Tracked,
}

impl Table {
    pub(super) fn new(most: usize, timeouts: Timeouts, hash: Hash) -> Self {
        let empty = Queue {
            oldest: NONE,
            newest: NONE,
            count: 0,
        };
        Self {
            entries: Vec::with_capacity(most),
            most,
            free: NONE,
            by_client: Index::new(most),
            by_backend: Index::new(most),
            queues: [empty; 3],
            timeouts: [
                timeouts.opening_ns,
                timeouts.established_ns,
                timeouts.closed_ns,
            ],
            hash,
            counts: Tracked::default(),
        }
    }

    pub(super) fn get(&self, id: u32) -> &Connection {
        &self.entries[id as usize].connection
    }

    pub(super) fn get_mut(&mut self, id: u32) -> &mut Connection {
        &mut self.entries[id as usize].connection
    }

    pub(super) fn stage(&self, id: u32) -> Stage {
        self.entries[id as usize].stage
    }

    pub(super) fn is_full(&self) -> bool {
        self.free == NONE && self.entries.len() == self.most
    }

    #[inline]
    fn hash(&self, one: Spot, other: Spot) -> u32 {
        self.hash.number(one.key() ^ other.key().rotate_left(40)) as u32
    }

    fn client_hash(&self, client: Spot) -> u32 {
        self.hash.number(client.key()) as u32
    }

    /// The connection of a client's end.
    #[inline]
    pub(super) fn of_client(&self, client: Spot) -> Option<u32> {
        let hash = self.client_hash(client);
        self.by_client
            .find(hash, |id| self.get(id).client == client)
    }

    /// The connection between a backend and what it sees.
    #[inline]
    pub(super) fn of_backend(&self, at: Spot, seen: Spot) -> Option<u32> {
        let hash = self.hash(at, seen);
        self.by_backend.find(hash, |id| {
            let one = self.get(id);
            (one.at, one.seen) == (at, seen)
        })
    }

    /// Adds a connection, for which there must be a place. What the backend sends to an end
    /// that is used twice is the later one's.
    pub(super) fn open(&mut self, connection: Connection, now_ns: u64) -> u32 {
        let entry = Entry {
            connection,
            stage: Stage::Opening,
            used_ns: now_ns,
            older: NONE,
            newer: NONE,
        };
        let id = if self.free == NONE {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        } else {
            let id = self.free;
            self.free = self.entries[id as usize].newer;
            self.entries[id as usize] = entry;
            id
        };
        let Connection {
            client, at, seen, ..
        } = connection;
        let hashes = [self.client_hash(client), self.hash(at, seen)];
        let entries = &self.entries;
        let other = |id: u32| entries[id as usize].connection;
        self.by_client
            .put(hashes[0], id, |id| other(id).client == client);
        self.by_backend.put(hashes[1], id, |id| {
            (other(id).at, other(id).seen) == (at, seen)
        });
        self.counts.created += 1;
        self.append(id, Stage::Opening);
        id
    }

    /// A segment of the connection came, after which it is `stage`. Closed ones stay where they are.
    #[inline]
    pub(super) fn touch(&mut self, id: u32, stage: Stage, now_ns: u64) {
        if self.stage(id) == Stage::Closed {
            return;
        }
        self.unlink(id);
        self.entries[id as usize].used_ns = now_ns;
        self.append(id, stage);
    }

    fn append(&mut self, id: u32, stage: Stage) {
        let queue = &mut self.queues[stage as usize];
        let newest = std::mem::replace(&mut queue.newest, id);
        queue.count += 1;
        if newest == NONE {
            queue.oldest = id;
        } else {
            self.entries[newest as usize].newer = id;
        }
        let entry = &mut self.entries[id as usize];
        (entry.stage, entry.older, entry.newer) = (stage, newest, NONE);
    }

    fn unlink(&mut self, id: u32) {
        let Entry {
            stage,
            older,
            newer,
            ..
        } = self.entries[id as usize];
        if older != NONE {
            self.entries[older as usize].newer = newer;
        }
        if newer != NONE {
            self.entries[newer as usize].older = older;
        }
        let queue = &mut self.queues[stage as usize];
        if older == NONE {
            queue.oldest = newer;
        }
        if newer == NONE {
            queue.newest = older;
        }
        queue.count -= 1;
    }

    fn remove(&mut self, id: u32) -> Connection {
        let connection = *self.get(id);
        let Connection {
            client, at, seen, ..
        } = connection;
        let hashes = [self.client_hash(client), self.hash(at, seen)];
        self.by_client.remove(hashes[0], id);
        self.by_backend.remove(hashes[1], id);
        self.unlink(id);
        self.entries[id as usize].newer = std::mem::replace(&mut self.free, id);
        connection
    }

    /// A closed connection makes way for another of its client.
    pub(super) fn replace(&mut self, id: u32) -> Connection {
        self.counts.replaced += 1;
        self.remove(id)
    }

    /// Removes one connection whose time is over.
    pub(super) fn expire(&mut self, now_ns: u64) -> Option<Connection> {
        for stage in [Stage::Closed, Stage::Opening, Stage::Established] {
            let oldest = self.queues[stage as usize].oldest;
            if oldest == NONE {
                continue;
            }
            let used_ns = self.entries[oldest as usize].used_ns;
            if now_ns.saturating_sub(used_ns) < self.timeouts[stage as usize] {
                continue;
            }
            let counts = &mut self.counts;
            *match stage {
                Stage::Opening => &mut counts.expired_opening,
                Stage::Established => &mut counts.expired_established,
                Stage::Closed => &mut counts.expired_closed,
            } += 1;
            return Some(self.remove(oldest));
        }
        None
    }

    /// Removes one connection, whatever its time.
    pub(super) fn flush(&mut self) -> Option<Connection> {
        let oldest = self.queues.iter().map(|queue| queue.oldest);
        let id = oldest.into_iter().find(|&id| id != NONE)?;
        self.counts.flushed += 1;
        Some(self.remove(id))
    }

    pub(super) fn counts(&self) -> Tracked {
        let of = |stage: Stage| self.queues[stage as usize].count;
        Tracked {
            opening: of(Stage::Opening),
            established: of(Stage::Established),
            closed: of(Stage::Closed),
            ..self.counts
        }
    }
}
