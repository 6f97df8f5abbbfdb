//! Which backend answered the connections, and from where it saw them.

use super::payload::{Answer, NOBODY};
use super::sources::Sources;

/// Backends that are counted one by one.
pub const MOST_BACKENDS: usize = 256;

/// Connections by the backend that gave the last answer.
#[derive(Debug, Clone)]
pub struct Answered {
    backends: Vec<u64>,
    local: Sources,
    tuples: Tuples,
}

/// Whether a tuple's next connection is answered by the same backend.
#[derive(Debug, Clone, Default)]
struct Tuples {
    /// Who answered each last, or [`NOBODY`]; empty where that is not to be known.
    last: Vec<u16>,
    kept: Vec<u64>,
    left: Vec<u64>,
}

impl Answered {
    /// Nothing has been answered; two bytes are kept of each of `tuples` tuples.
    pub fn new(tuples: u64) -> Self {
        let size = if tuples > 0 { MOST_BACKENDS } else { 0 };
        Self {
            backends: vec![0; MOST_BACKENDS],
            local: Sources::default(),
            tuples: Tuples {
                last: vec![NOBODY; tuples as usize],
                kept: vec![0; size],
                left: vec![0; size],
            },
        }
    }

    /// A connection of this tuple has its last answer.
    #[inline(always)]
    pub fn add(&mut self, answer: &Answer, tuple: u64) {
        let backend = usize::from(answer.backend).min(MOST_BACKENDS - 1);
        self.backends[backend] += 1;
        self.local.add(answer.seen.bits);
        if let Some(last) = self.tuples.last.get_mut(tuple as usize) {
            let before = std::mem::replace(last, backend as u16);
            if before != NOBODY {
                let counts = if usize::from(before) == backend {
                    &mut self.tuples.kept
                } else {
                    &mut self.tuples.left
                };
                counts[usize::from(before)] += 1;
            }
        }
    }

    /// Adds what another core's connections had, which have tuples of their own.
    pub fn merge(&mut self, other: &Self) {
        add(&mut self.backends, &other.backends);
        self.local.merge(&other.local);
        add(&mut self.tuples.kept, &other.tuples.kept);
        add(&mut self.tuples.left, &other.tuples.left);
    }

    /// Connections by backend, up to the last that answered any; the last of
    /// [`MOST_BACKENDS`] has those of all beyond it.
    pub fn backends(&self) -> &[u64] {
        used(&self.backends)
    }

    /// Connections by the source address that the backend saw.
    pub fn local(&self) -> &Sources {
        &self.local
    }

    /// Connections that the same backend answered as the one before of the same tuple, by that backend.
    pub fn kept(&self) -> &[u64] {
        used(&self.tuples.kept)
    }

    /// Connections that another backend answered than the one before of the same tuple, by the one before.
    pub fn left(&self) -> &[u64] {
        used(&self.tuples.left)
    }
}

/// Adds counts place by place; there may be more of them than before.
pub(super) fn add(sums: &mut Vec<u64>, counts: &[u64]) {
    sums.resize(sums.len().max(counts.len()), 0);
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
}

fn used(counts: &[u64]) -> &[u64] {
    let last = counts.iter().rposition(|&count| count > 0);
    &counts[..last.map_or(0, |last| last + 1)]
}

#[cfg(test)]
mod tests {
    use super::super::end::End;
    use super::super::payload::Request;
    use super::*;
    use std::net::Ipv4Addr;

    fn answer(backend: u16) -> Answer {
        Answer {
            request: Request {
                number: 0,
                before: NOBODY,
                connection: 0,
                tag: 0,
            },
            backend,
            seen: End::new(Ipv4Addr::LOCALHOST, 1),
            toa: None,
        }
    }

    #[test]
    fn a_tuple_is_kept_or_left_by_the_backend_that_it_had() {
        let mut answered = Answered::new(2);
        for (tuple, backend) in [(0, 0), (1, 2), (0, 0), (1, 0), (1, 0)] {
            answered.add(&answer(backend), tuple);
        }
        assert_eq!(answered.backends(), [4, 0, 1]);
        assert_eq!(
            (answered.kept(), answered.left()),
            (&[2][..], &[0, 0, 1][..])
        );
    }

    #[test]
    fn without_memory_of_tuples_only_backends_are_counted() {
        let mut answered = Answered::new(0);
        answered.add(&answer(1), 0);
        answered.add(&answer(0), 0);
        assert_eq!(answered.backends(), [1, 1]);
        assert!(answered.kept().is_empty() && answered.left().is_empty());
    }
}
