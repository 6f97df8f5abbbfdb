//! Source ports of connections that do not stand, chosen here and in turn.
//!
//! The kernel's own choice at connect() begins anywhere in the range and walks
//! over every pair in TIME_WAIT that it meets: once half of the range is in
//! that state, the walk costs more than the connection. In turn, the pair
//! unused for longest comes first. A port that was bound before connect() may
//! also take the place of a pair in TIME_WAIT at once, if that connection had
//! time stamps (RFC 7323; `tcp_twsk_unique` of the kernel).

use crate::counters;
use crate::fault::Fault;
use crate::shared::Shared;
use crate::socket::{self, Refused};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

/// Pairs of source address and port, each taken once before any is taken again.
pub(crate) struct Ports {
    sources: Vec<IpAddr>,
    numbers: Vec<u16>,
    /// The pair to try next.
    next: usize,
    /// Pairs that were not tried yet: another process may occupy any of them.
    untried: usize,
    /// Pairs that connections under way may occupy.
    under_way: usize,
}

impl Ports {
    /// The ports that the kernel itself would choose from, for each of the
    /// workload's sources, or for the address from which `target` is reached.
    pub(crate) fn new(shared: &Shared, target: &SocketAddr) -> Result<Self, Fault> {
        let mut sources = shared.work.sources.clone();
        if sources.is_empty() {
            sources.push(socket::source_towards(target)?);
        }
        Ok(Self::of(
            sources,
            counters::source_ports(),
            shared.work.connections,
            somewhere(),
        ))
    }

    fn of(sources: Vec<IpAddr>, numbers: Vec<u16>, under_way: usize, begin: usize) -> Self {
        let pairs = sources.len() * numbers.len();
        Self {
            sources,
            numbers,
            next: begin % pairs.max(1),
            untried: pairs,
            under_way,
        }
    }

    /// The first socket that `connect` makes from one of the pairs, in turn.
    ///
    /// # Errors
    /// [`Fault::AddressUnavailable`] when every pair is occupied. Once each was
    /// tried, the next one is the one unused for longest: if it and as many as
    /// there are connections are occupied, so are all, and none is walked over.
    pub(crate) fn connect(
        &mut self,
        mut connect: impl FnMut(SocketAddr) -> Result<OwnedFd, Refused>,
    ) -> Result<OwnedFd, Fault> {
        let begin = self.next;
        let mut occupied = 0;
        for _ in 0..self.pairs() {
            let from = self.take();
            match connect(from) {
                Ok(socket) => return Ok(socket),
                Err(Refused::Port) => {}
                Err(Refused::Pair) => occupied += usize::from(self.untried == 0),
                Err(Refused::Otherwise(fault)) => return Err(fault),
            }
            if occupied > self.under_way {
                break;
            }
        }
        self.next = begin;
        Err(Fault::AddressUnavailable)
    }

    fn pairs(&self) -> usize {
        self.sources.len() * self.numbers.len()
    }

    fn take(&mut self) -> SocketAddr {
        let sources = self.sources.len();
        let from = SocketAddr::new(
            self.sources[self.next % sources],
            self.numbers[self.next / sources],
        );
        self.next = (self.next + 1) % self.pairs();
        self.untried = self.untried.saturating_sub(1);
        from
    }
}

/// Where to begin: processes of one namespace should not follow each other.
fn somewhere() -> usize {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.subsec_nanos() as usize)
}

impl From<Errno> for Refused {
    fn from(error: Errno) -> Self {
        Self::Otherwise(error.into())
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Otherwise(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::os::fd::OwnedFd as StdFd;

    fn file() -> OwnedFd {
        StdFd::from(std::fs::File::open("/dev/null").unwrap())
    }

    fn ports(under_way: usize, begin: usize) -> Ports {
        let sources = [1, 2].map(|k| IpAddr::from([10, 0, 0, k]));
        Ports::of(sources.to_vec(), vec![5000, 5001, 5003], under_way, begin)
    }

    #[test]
    fn every_pair_is_taken_once_before_any_is_taken_again() {
        let mut ports = ports(1, 4_000_000_001);
        let mut taken = Vec::new();
        for _ in 0..12 {
            ports
                .connect(|from| {
                    taken.push(from);
                    Ok(file())
                })
                .unwrap();
        }
        assert_eq!(taken[..6].iter().collect::<BTreeSet<_>>().len(), 6);
        assert_eq!(taken[..6], taken[6..]);
    }

    #[test]
    fn pairs_of_others_are_passed_over() {
        let mut ports = ports(1, 0);
        let free = SocketAddr::from(([10, 0, 0, 2], 5003));
        for _ in 0..2 {
            let only_one = |from| {
                if from == free {
                    return Ok(file());
                }
                Err(Refused::Port)
            };
            assert!(ports.connect(only_one).is_ok());
        }
    }

    #[test]
    fn once_all_are_occupied_none_is_walked_over() {
        let mut ports = ports(2, 0);
        let mut tried = Vec::new();
        for _ in 0..3 {
            let result = ports.connect(|from| {
                tried.push(from);
                Err(Refused::Pair)
            });
            assert_eq!(result.unwrap_err(), Fault::AddressUnavailable);
        }
        // Six of the first walk, then the oldest and the two that other connections may hold.
        assert_eq!(tried.len(), 6 + 3 + 3);
        assert_eq!(tried[6..9], tried[9..12]);
        assert_eq!(ports.take(), tried[0]);
    }

    #[test]
    fn a_failure_of_another_kind_is_no_want_of_ports() {
        let result = ports(1, 0).connect(|_| Err(Refused::Otherwise(Fault::Refused)));
        assert_eq!(result.unwrap_err(), Fault::Refused);
    }
}
