//! What a device drops on purpose.

use pinchpoint_traffic::hash::Hash;
use pinchpoint_wire::signature::{self, Reading};
use pinchpoint_wire::tuple::{self, FiveTuple};
use std::net::IpAddr;

/// A planted loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Every n-th frame.
    Every(u64),
    /// Each frame with this probability, 0 to 1.
    Share(f64),
}

/// What a rule looks at; what is none matches every frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Match {
    /// The stream that the frame's signature names, whichever part of it.
    pub stream: Option<u8>,
    /// The IP protocol.
    pub protocol: Option<u8>,
    /// The source address.
    pub src: Option<IpAddr>,
    /// The destination address.
    pub dst: Option<IpAddr>,
    /// The source port.
    pub src_port: Option<u16>,
    /// The destination port.
    pub dst_port: Option<u16>,
}

/// A rule that drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Which frames it is about,
    pub matches: Match,
    /// and which of them it drops: every n-th; 1: all.
    pub every: u64,
}

/// A planted loss under way.
#[derive(Debug, Clone)]
pub(super) struct Planted {
    loss: Option<Loss>,
    hash: Hash,
    seen: u64,
}

impl Planted {
    /// `purpose` distinguishes the numbers drawn from one seed.
    pub(super) fn new(loss: Option<Loss>, seed: u64, purpose: u64) -> Self {
        Self {
            loss,
            hash: Hash::new(seed, purpose),
            seen: 0,
        }
    }

    /// Whether the next frame is lost.
    #[inline]
    pub(super) fn strikes(&mut self) -> bool {
        let Some(loss) = self.loss else {
            return false;
        };
        self.seen += 1;
        match loss {
            Loss::Every(n) => self.seen.is_multiple_of(n),
            // A number below 2^53 is exact as a float.
            Loss::Share(share) => {
                let drawn = self.hash.number(self.seen) >> 11;
                (drawn as f64) < share * (1u64 << 53) as f64
            }
        }
    }
}

/// Rules in their order, and how many frames each has seen.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    rules: Vec<(Rule, u64)>,
}

impl Rules {
    pub(super) fn new(rules: &[Rule]) -> Self {
        Self {
            rules: rules.iter().map(|&rule| (rule, 0)).collect(),
        }
    }

    /// The rule that drops this frame, by its place. The first one that matches
    /// the frame decides.
    #[inline]
    pub(super) fn drops(&mut self, frame: &[u8], tuple: Option<&FiveTuple>) -> Option<usize> {
        let is_match = |(rule, _): &(Rule, u64)| rule.matches.is_met(frame, tuple);
        let place = self.rules.iter().position(is_match)?;
        let (rule, seen) = &mut self.rules[place];
        *seen += 1;
        seen.is_multiple_of(rule.every).then_some(place)
    }

    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }
}

impl Match {
    fn is_met(&self, frame: &[u8], tuple: Option<&FiveTuple>) -> bool {
        let stream = self.stream.is_none_or(|wanted| {
            matches!(signature::read(frame), Reading::Intact(found) if found.stream as u8 == wanted)
        });
        stream && self.is_met_by(tuple)
    }

    fn is_met_by(&self, tuple: Option<&FiveTuple>) -> bool {
        let any = Self {
            stream: self.stream,
            ..Self::default()
        };
        let Some(tuple) = tuple else {
            return *self == any;
        };
        self.protocol.is_none_or(|it| it == tuple.protocol)
            && self.src.is_none_or(|it| it == tuple.src)
            && self.dst.is_none_or(|it| it == tuple.dst)
            && self.src_port.is_none_or(|it| it == tuple.src_port)
            && self.dst_port.is_none_or(|it| it == tuple.dst_port)
    }
}

/// Flows that have been seen: a table of a fixed size, which forgets none.
#[derive(Debug, Clone)]
pub(super) struct Flows {
    /// Hashes of five-tuples; 0: free.
    table: Vec<u64>,
    room: usize,
}

impl Flows {
    /// Room for `flows` flows.
    pub(super) fn new(flows: usize) -> Self {
        Self {
            // Half empty, so that a place is found in a few steps.
            table: vec![0; (2 * flows).next_power_of_two()],
            room: flows,
        }
    }

    /// Whether the flow has not been seen; remembers it.
    pub(super) fn is_new(&mut self, tuple: &FiveTuple) -> bool {
        let hash = hash(tuple);
        let at = self.place(hash);
        if self.table[at] == hash {
            return false;
        }
        if self.room > 0 {
            self.room -= 1;
            self.table[at] = hash;
        }
        true
    }

    /// Whether the flow is remembered.
    pub(super) fn is_known(&self, tuple: &FiveTuple) -> bool {
        let hash = hash(tuple);
        self.table[self.place(hash)] == hash
    }

    /// Where the flow is, or the free place where it would be.
    fn place(&self, hash: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        while self.table[at] != 0 && self.table[at] != hash {
            at = (at + 1) & mask;
        }
        at
    }
}

/// Never 0. Two five-tuples have the same one with a probability of 2^-64.
fn hash(tuple: &FiveTuple) -> u64 {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    let (src, dst) = (bits(tuple.src), bits(tuple.dst));
    let rest = u64::from(tuple.protocol) << 32
        | u64::from(tuple.src_port) << 16
        | u64::from(tuple.dst_port);
    let words = [
        src as u64,
        (src >> 64) as u64,
        dst as u64,
        (dst >> 64) as u64,
    ];
    let mixed = words
        .iter()
        .fold(rest, |seed, &word| Hash::new(seed, word).number(0));
    mixed | 1
}

/// The five-tuple of a frame, if it is IP.
pub(super) fn tuple_of(frame: &[u8]) -> Option<FiveTuple> {
    tuple::read(frame).map(|(tuple, _)| tuple)
}

/// That of a frame's reply.
pub(super) fn reversed(tuple: &FiveTuple) -> FiveTuple {
    FiveTuple {
        src: tuple.dst,
        dst: tuple.src,
        src_port: tuple.dst_port,
        dst_port: tuple.src_port,
        ..*tuple
    }
}
