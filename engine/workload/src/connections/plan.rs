//! Connection number *n*: its tuple and its first sequence number. Both are computed;
//! nothing is stored.

use super::end::{End, bits, ip};
use std::net::IpAddr;

/// What is done with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A SYN; the answer to it is the end, and is not acknowledged.
    Syn,
    /// A handshake, and nothing after it.
    Abandon,
    /// A handshake, then a reset.
    Reset,
    /// A handshake, requests with their answers, one after the other, and FINs from
    /// both sides.
    Request,
    /// One request and its answer, as datagrams: what DNS does.
    Datagram,
}

/// Which share of the connections is treated how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// Up to where, of 2^32, the hash of a connection makes it what [`KINDS`] says.
    ends: [u64; KINDS.len()],
    /// What all are, if they are all the same.
    only: Option<Work>,
}

/// What a [`Mix`] is made of, in its order; datagrams do not mix.
pub const KINDS: [Work; 4] = [Work::Syn, Work::Abandon, Work::Reset, Work::Request];

impl Mix {
    /// Of weights in the order of [`KINDS`]; none if they are all 0.
    pub fn new(weights: [u32; KINDS.len()]) -> Option<Self> {
        let total: u64 = weights.iter().copied().map(u64::from).sum();
        let whole = 1u64 << 32;
        let mut sum = 0;
        let ends = weights.map(|weight| {
            sum += u64::from(weight);
            (u128::from(whole) * u128::from(sum))
                .checked_div(total.into())
                .unwrap_or(0) as u64
        });
        let mut used = KINDS
            .into_iter()
            .zip(weights)
            .filter(|(_, weight)| *weight > 0);
        let (first, _) = used.next()?;
        let only = used.next().is_none().then_some(first);
        Some(Self { ends, only })
    }

    /// All are datagrams.
    pub fn datagrams() -> Self {
        Self {
            ends: [0; KINDS.len()],
            only: Some(Work::Datagram),
        }
    }

    /// Whether all are datagrams; otherwise none is.
    #[inline(always)]
    pub fn is_datagrams(&self) -> bool {
        self.only == Some(Work::Datagram)
    }

    /// Whether any has a request.
    pub fn has_requests(&self) -> bool {
        let has = |work| matches!(work, Work::Request | Work::Datagram);
        self.only.is_none_or(has)
    }

    #[inline(always)]
    fn of(&self, hash: u64) -> Work {
        self.only.unwrap_or_else(|| {
            let part = self.ends.iter().position(|&end| hash >> 32 < end);
            part.map_or(Work::Request, |part| KINDS[part])
        })
    }
}

/// Requests of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requests {
    /// How many, at least 1.
    pub count: u32,
    /// Bytes of each.
    pub len: u32,
}

/// The connections of a client.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The first client address.
    pub clients: IpAddr,
    /// How many there are, at least 1.
    pub client_count: u32,
    /// The first client port.
    pub ports: u16,
    /// How many there are of each address, at least 1.
    pub port_count: u32,
    /// The virtual server; of several the first.
    pub service: End,
    /// Addresses in a row that are virtual servers, at least 1.
    pub service_addresses: u32,
    /// Ports in a row of each that are, at least 1.
    pub service_ports: u32,
    /// What is done with the connections.
    pub mix: Mix,
    /// The requests of those that have any.
    pub requests: Requests,
    /// Makes sequence numbers hard to guess.
    pub key: u64,
    /// Of the sequence numbers of each tuple's first connection, the upper half. It rises from run
    /// to run, or a device that remembers the last run's connections takes these for old ones.
    pub first_round: u16,
    /// Whether the first sequence numbers of a round are all the same. A device that gives up a closed
    /// connection for one with a higher number then has no reason to.
    pub one_isn: bool,
    /// The first sequence number of every connection instead: others can continue the
    /// connections without having seen them. Each tuple is then used once.
    pub same_first_seq: Option<u32>,
}

/// Where a connection stands in a [`Plan`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// Its number.
    pub n: u64,
    /// How often its tuple was used before.
    pub round: u64,
    /// Its client address, from the first.
    address: u32,
    /// Its client port, from the first.
    port: u32,
}

/// Largest [`Plan::most_sent`]: what is left of 2^16 is the room for hashes.
pub const MOST_SENT: u32 = 0xf000;

impl Plan {
    /// Different five-tuples.
    pub fn tuples(&self) -> u64 {
        u64::from(self.client_count) * u64::from(self.port_count)
    }

    /// What core number `core` of `cores` has of this plan: its share of the client's ports, or
    /// of the addresses where there are too few ports; none if there are too few of both.
    pub fn part(&self, core: u32, cores: u32) -> Option<Self> {
        let share = |count: u32| {
            let before = |core: u32| (u64::from(count) * u64::from(core) / u64::from(cores)) as u32;
            (before(core), before(core + 1) - before(core))
        };
        // Connections of one number differ from core to core.
        let key = mix(self.key.wrapping_add(core.into()));
        if self.port_count >= cores {
            let (first, port_count) = share(self.port_count);
            let ports = self.ports.wrapping_add(first as u16);
            Some(Self {
                ports,
                port_count,
                key,
                ..*self
            })
        } else if self.client_count >= cores {
            let (first, client_count) = share(self.client_count);
            let clients = ip(bits(self.clients).wrapping_add(first.into()));
            Some(Self {
                clients,
                client_count,
                key,
                ..*self
            })
        } else {
            None
        }
    }

    /// Connection number 0.
    pub fn first(&self) -> Place {
        Place::default()
    }

    /// The connection after `place`: addresses change fastest.
    #[inline(always)]
    pub fn after(&self, place: Place) -> Place {
        let Place {
            n,
            round,
            address,
            port,
        } = place;
        let (n, is_last) = (n + 1, port + 1 == self.port_count);
        if address + 1 < self.client_count {
            Place {
                n,
                address: address + 1,
                ..place
            }
        } else if is_last {
            Place {
                n,
                round: round + 1,
                address: 0,
                port: 0,
            }
        } else {
            Place {
                n,
                round,
                address: 0,
                port: port + 1,
            }
        }
    }

    /// Connection number `n`, by division.
    pub fn place(&self, n: u64) -> Place {
        let number = n % self.tuples();
        let count = u64::from(self.client_count);
        Place {
            n,
            round: n / self.tuples(),
            address: (number % count) as u32,
            port: (number / count) as u32,
        }
    }

    /// The number of a connection's tuple, from 0 to [`tuples`](Self::tuples).
    #[inline(always)]
    pub fn tuple_number(&self, place: Place) -> u64 {
        u64::from(place.port) * u64::from(self.client_count) + u64::from(place.address)
    }

    /// The client's end of a connection.
    #[inline(always)]
    pub fn tuple(&self, place: Place) -> End {
        End {
            bits: bits(self.clients).wrapping_add(place.address.into()),
            port: self.ports.wrapping_add(place.port as u16),
        }
    }

    /// The virtual server of a connection: of several each client has another, and the next one with
    /// its next port.
    #[inline(always)]
    pub fn service_of(&self, place: Place) -> End {
        let count = self.service_addresses * self.service_ports;
        if count == 1 {
            return self.service;
        }
        let number = place.address.wrapping_add(place.port) % count;
        let (address, port) = (
            number % self.service_addresses,
            number / self.service_addresses,
        );
        End {
            bits: self.service.bits.wrapping_add(address.into()),
            port: self.service.port.wrapping_add(port as u16),
        }
    }

    /// The client's first sequence number of a connection. It rises from one
    /// connection of a tuple to the next, so that a device that keeps the old one in
    /// TIME-WAIT accepts the new one (RFC 6191).
    #[inline(always)]
    pub fn first_seq(&self, place: Place) -> u32 {
        if let Some(same) = self.same_first_seq {
            return same;
        }
        // The whole connection lies within one round: no acknowledgment carries into the next.
        let room = if self.one_isn {
            1
        } else {
            0x1_0000 - self.most_sent()
        };
        let round = (place.round as u16).wrapping_add(self.first_round);
        u32::from(round) << 16 | ((u32::from(self.tag(place.n) as u16) * room) >> 16)
    }

    /// Sequence numbers of a connection before its FIN: the SYN and the requests.
    #[inline(always)]
    pub fn all_sent(&self) -> u32 {
        1 + self.requests.count * self.requests.len
    }

    /// Sequence numbers of a connection with its FIN.
    #[inline(always)]
    pub fn most_sent(&self) -> u32 {
        self.all_sent() + 1
    }

    /// What is done with connection `n`.
    #[inline(always)]
    pub fn work(&self, n: u64) -> Work {
        self.mix.of(self.tag(n))
    }

    /// A keyed hash of `n`, which nobody else can compute.
    #[inline(always)]
    pub fn tag(&self, n: u64) -> u64 {
        mix(n ^ self.key)
    }

    /// The connection before `next` that an acknowledgment at a client's end belongs to,
    /// and how many sequence numbers of it are acknowledged. A stranger's is taken for
    /// one with a chance of [`most_sent`](Self::most_sent) in 2^16.
    #[inline(always)]
    pub fn find(&self, at: End, ack: u32, next: Place) -> Option<(Place, u32)> {
        let place = if self.same_first_seq.is_some() {
            self.known(at, 0, next)?
        } else {
            let newest = (next.round as u16).wrapping_add(self.first_round);
            let ago = newest.wrapping_sub((ack >> 16) as u16);
            let round = next.round.checked_sub(u64::from(ago))?;
            self.known(at, round, next)?
        };
        let sent = ack.wrapping_sub(self.first_seq(place));
        (1..=self.most_sent())
            .contains(&sent)
            .then_some((place, sent))
    }

    /// The newest connection before `next` with the client's end `at`.
    pub fn newest_of(&self, at: End, next: Place) -> Option<Place> {
        let before = || self.known(at, next.round.checked_sub(1)?, next);
        self.known(at, next.round, next).or_else(before)
    }

    /// Whether one of its tuples has this client's end.
    #[inline(always)]
    pub fn has_end(&self, at: End) -> bool {
        let address = at.bits.wrapping_sub(bits(self.clients));
        let port = u32::from(at.port.wrapping_sub(self.ports));
        address < self.client_count.into() && port < self.port_count
    }

    /// Whether a client has that address.
    pub fn has_client(&self, address: IpAddr) -> bool {
        bits(address).wrapping_sub(bits(self.clients)) < self.client_count.into()
    }

    /// The connection before `next` with the client's end `at` in a round.
    #[inline(always)]
    fn known(&self, at: End, round: u64, next: Place) -> Option<Place> {
        let address = at.bits.wrapping_sub(bits(self.clients));
        let port = u32::from(at.port.wrapping_sub(self.ports));
        if address >= self.client_count.into() || port >= self.port_count {
            return None;
        }
        let address = address as u32;
        let number = u64::from(port) * u64::from(self.client_count) + u64::from(address);
        let n = round * self.tuples() + number;
        (n < next.n).then_some(Place {
            n,
            round,
            address,
            port,
        })
    }
}

/// The finalizer of `SplitMix64`: every bit of the result depends on every bit of `x`.
#[inline(always)]
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
