//! Whether two connections that are open at the same time look the same to a backend: a
//! balancer may give a local address and port to one at a time.

use super::end::End;
use super::plan::mix;

/// Connections that are remembered: 1 MiB. One is forgotten when another takes its place, which
/// can hide a reuse and never feigns one.
const MOST: usize = 1 << 16;

/// The connections that backends saw last, by what they saw.
#[derive(Debug, Clone)]
pub(super) struct Reuse {
    /// A hash of what a backend saw, and the connection's number.
    seen: Vec<(u64, u64)>,
    pub(super) count: u64,
}

impl Reuse {
    pub(super) fn new() -> Self {
        Self {
            seen: vec![(0, u64::MAX); MOST],
            count: 0,
        }
    }

    /// Backend number `backend` saw connection `n` come from `from`; counts if it saw another
    /// come from there of which `is_open` is true. Two ends have the same hash with a
    /// probability of 2^-64.
    pub(super) fn note(&mut self, n: u64, backend: u16, from: End, is_open: impl Fn(u64) -> bool) {
        let ends = u64::from(from.port) << 16 | u64::from(backend);
        let hash = mix(mix(from.bits as u64 ^ (from.bits >> 64) as u64) ^ ends);
        let place = &mut self.seen[hash as usize % MOST];
        let (other, before) = *place;
        self.count += u64::from(other == hash && before != n && is_open(before));
        *place = (hash, n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn an_end_that_two_open_connections_have_at_one_backend_is_counted() {
        let end = |port| End::new(Ipv4Addr::new(10, 1, 0, 240), port);
        let mut reuse = Reuse::new();
        let closed = |_| false;
        for (n, backend, port) in [(0, 0, 1025), (1, 1, 1025), (2, 0, 1026)] {
            reuse.note(n, backend, end(port), |_| true);
        }
        reuse.note(3, 0, end(1025), closed);
        assert_eq!(reuse.count, 0);
        reuse.note(4, 0, end(1025), |n| n == 3);
        assert_eq!(reuse.count, 1);
    }
}
