//! Pools of packet buffers.
#![allow(unsafe_code)]

use super::ffi::{self, Mempool};
use super::numa::{self, Node};
use super::warn;
use crate::{OpenError, PortSpec, SessionSpec};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;

/// Buffers a worker keeps at hand without touching the shared pool; the most
/// that DPDK allows.
const CACHE: u32 = 512;
/// Bytes of data a buffer holds: the longest frame, or else a standard one.
pub(super) const ROOMS: [u16; 2] = [9216, STANDARD_ROOM];
pub(super) const STANDARD_ROOM: u16 = 2048;
/// Of a heap's bytes, what ends of pages and the ring of the pool leave to buffers.
const USABLE: f64 = 0.98;
/// Bytes of a buffer that frames leave to a driver's own header and to tags.
const RESERVE: u16 = 64;
/// Bytes of the Ethernet header, which an MTU does not count.
pub(super) const ETHERNET_HEADER: u16 = 14;
/// Largest MTU asked for: that of a frame of 9,022 bytes with its FCS.
pub(super) const MAX_MTU: u16 = 9004;
/// Where a pool lies that need not lie on one node.
const ANY_NODE: c_int = -1;

/// The buffers of a session, or of those of its queues that are on one node.
pub(super) struct Pool {
    pub(super) raw: *mut Mempool,
    pub(super) room: u16,
}

// SAFETY: a mempool may be used by any thread that is registered or goes
// through its lock-free ring; the handle itself is only read.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// A pool of `mbufs` buffers, on `node` if there is memory, otherwise anywhere.
    pub(super) fn new(node: Node, mbufs: u32, longest: Option<usize>) -> Result<Self, OpenError> {
        for room in rooms(mbufs, longest) {
            for place in [node, None] {
                let place = place.map_or(ANY_NODE, |node| node as c_int);
                // SAFETY: DPDK is initialised; what it returns is looked at.
                let raw = unsafe { ffi::pp_pool_create(place, mbufs, CACHE, room) };
                if raw.is_null() {
                    continue;
                }
                if let (Some(node), ANY_NODE) = (node, place) {
                    warn(&numa::without_memory(node));
                }
                return Ok(Self { raw, room });
            }
        }
        Err(
            OpenError::new(format!("not enough memory for {mbufs} packet buffers")).hint(
                "raise -m in eal_args, and reserve as many hugepages: sysctl vm.nr_hugepages=N",
            ),
        )
    }
}

/// A pool for each node, with enough buffers to fill every ring of its queues, a cache for each
/// worker and the main thread, and the bursts in hand.
pub(super) fn of_nodes(
    session: &SessionSpec,
    specs: &[&PortSpec],
    nodes: &[Vec<Node>],
) -> Result<BTreeMap<Node, Arc<Pool>>, OpenError> {
    let mut rings: BTreeMap<Node, u32> = BTreeMap::new();
    for (spec, nodes) in specs.iter().zip(nodes) {
        for &node in nodes {
            *rings.entry(node).or_default() += spec.rx_ring + spec.tx_ring;
        }
    }
    let caches = (session.worker_cores.len() as u32 + 1) * CACHE;
    let pool = |(node, rings): (Node, u32)| {
        let pool = Pool::new(node, rings + caches + 1024, session.longest_frame)?;
        Ok((node, Arc::new(pool)))
    };
    rings.into_iter().map(pool).collect()
}

/// The rooms to try: a standard one where no frame is longer, since large buffers spread frames
/// over more pages; otherwise the largest that fits into the memory that the EAL was given.
///
/// Where none fits, as without `-m`, DPDK takes more hugepages, and the largest for which
/// there are enough is used. It is not so where one fits: another program of the bench
/// may be about to take those pages.
pub(super) fn rooms(mbufs: u32, longest: Option<usize>) -> Vec<u16> {
    if longest.is_some_and(|longest| longest <= max_len(mtu(STANDARD_ROOM))) {
        return vec![STANDARD_ROOM];
    }
    // SAFETY: DPDK is initialised.
    let usable = unsafe { ffi::pp_heap_free() } as f64 * USABLE;
    // SAFETY: plain arithmetic.
    let fits = |room: &u16| unsafe { ffi::pp_pool_bytes(mbufs, *room) } as f64 <= usable;
    match ROOMS.into_iter().find(fits) {
        Some(room) => vec![room],
        None => ROOMS.to_vec(),
    }
}

/// The MTU of a port whose buffers have this room.
pub(super) fn mtu(room: u16) -> u16 {
    MAX_MTU.min(room - RESERVE)
}

/// Bytes of the longest frame within an MTU.
pub(super) fn max_len(mtu: u16) -> usize {
    usize::from(mtu + ETHERNET_HEADER)
}

#[cfg(debug_assertions)]
impl Pool {
    /// Buffers that are in use.
    pub(super) fn in_use(&self) -> u32 {
        // SAFETY: the pool exists.
        unsafe { ffi::pp_pool_in_use(self.raw) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        eprintln!("{} packet buffers were not given back", self.in_use());
        // SAFETY: the last port that held buffers of this pool is closed.
        unsafe { ffi::pp_pool_free(self.raw) }
    }
}
