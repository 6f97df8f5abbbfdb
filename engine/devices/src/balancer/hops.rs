//! Where backends are: their Ethernet addresses, asked for by ARP or neighbour discovery.

use super::settings::Spot;
use pinchpoint_wire::ask;
use pinchpoint_wire::ethernet::Mac;
use std::net::IpAddr;

/// How long a question waits before it is repeated.
const ASK_AGAIN_NS: u64 = 100_000_000;

#[derive(Debug)]
struct Hop {
    address: IpAddr,
    mac: Option<Mac>,
    asked_ns: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Hops {
    all: Vec<Hop>,
    /// By backend: its hop's number.
    of: Vec<u16>,
    unknown: usize,
}

impl Hops {
    pub(super) fn new(backends: &[Spot]) -> Self {
        let mut hops = Vec::<Hop>::new();
        let number = |spot: &Spot| {
            let known = hops.iter().position(|hop| hop.address == spot.ip());
            known.unwrap_or_else(|| {
                hops.push(Hop {
                    address: spot.ip(),
                    mac: None,
                    asked_ns: None,
                });
                hops.len() - 1
            }) as u16
        };
        let of: Vec<u16> = backends.iter().map(number).collect();
        Self {
            unknown: hops.len(),
            of,
            all: hops,
        }
    }

    #[inline]
    pub(super) fn mac(&self, backend: u16) -> Option<Mac> {
        self.all[usize::from(self.of[usize::from(backend)])].mac
    }

    /// Addresses that nobody has told yet.
    pub(super) fn unknown(&self) -> usize {
        self.unknown
    }

    /// Writes the next question that is due, from `own`; returns its bytes.
    pub(super) fn question(
        &mut self,
        own: (IpAddr, Mac),
        now_ns: u64,
        out: &mut [u8; ask::MAX_LEN],
    ) -> Option<usize> {
        if self.unknown == 0 {
            return None;
        }
        let is_due =
            |asked: Option<u64>| asked.is_none_or(|ns| now_ns.saturating_sub(ns) >= ASK_AGAIN_NS);
        let mut hops = self.all.iter_mut();
        let hop = hops.find(|hop| hop.mac.is_none() && is_due(hop.asked_ns))?;
        hop.asked_ns = Some(now_ns);
        ask::question(hop.address, own, out)
    }

    /// Takes what a frame tells; whether that is where a backend is.
    pub(super) fn told(&mut self, frame: &[u8]) -> bool {
        let mut is_told = false;
        for hop in &mut self.all {
            if let Some(mac) = ask::told(frame, hop.address) {
                self.unknown -= usize::from(hop.mac.is_none());
                hop.mac = Some(mac);
                is_told = true;
            }
        }
        is_told
    }
}
