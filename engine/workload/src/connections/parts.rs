//! The connections of one client on several cores.
//!
//! Each core has its share of the client's ports, or addresses, and opens every n-th connection. A
//! NIC spreads answers over the queues as it likes, so a core hands those of another's connections
//! to that core. Servers need none of this: they answer a segment from the segment alone.

use super::end::End;
use super::plan::Plan;
use super::schedule::Schedule;
use pinchpoint_wire::ethernet::Mac;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// From when one core knows the next hop until the first connection is due: the other cores know it,
/// too, and have their memory.
const LEAD_NS: u64 = 10_000_000;

/// What the cores have in common.
#[derive(Debug)]
struct Common {
    /// By core.
    plans: Vec<Plan>,
    /// The Ethernet address of the next hop, and when the first connection is due.
    begin: OnceLock<(Mac, u64)>,
    /// Cores some of whose connections have not ended.
    running: AtomicUsize,
}

/// What one core has of the connections.
#[derive(Debug, Clone)]
pub struct Part {
    core: usize,
    common: Arc<Common>,
    has_ended: bool,
}

/// Segments that arrived at another core than that of their connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handed {
    /// Those that were handed to the right one.
    pub segments: u64,
    /// Those that were not, since it had not read what was handed to it before.
    pub lost: u64,
}

impl Part {
    /// The parts of all cores, by number; none if there are fewer ports, and fewer addresses, than
    /// cores.
    pub fn all(plan: &Plan, cores: u32) -> Option<Vec<Self>> {
        let plans: Option<Vec<Plan>> = (0..cores).map(|core| plan.part(core, cores)).collect();
        let common = Arc::new(Common {
            plans: plans?,
            begin: OnceLock::new(),
            running: AtomicUsize::new(cores as usize),
        });
        let part = |core| Self {
            core,
            common: Arc::clone(&common),
            has_ended: false,
        };
        Some((0..cores as usize).map(part).collect())
    }

    /// This core's connections.
    pub fn plan(&self) -> Plan {
        self.common.plans[self.core]
    }

    /// When this core opens them.
    pub fn schedule(&self, whole: &Schedule) -> Schedule {
        whole.part(self.core as u32, self.cores() as u32)
    }

    /// Where its turn is between two connections of the first core.
    pub(super) fn phase(&self) -> f64 {
        self.core as f64 / self.cores() as f64
    }

    fn cores(&self) -> usize {
        self.common.plans.len()
    }

    /// The next hop is at `mac`, as one core learned at `now_ns`; returns what holds for all, since
    /// several may learn it.
    pub(super) fn begin(&self, mac: Mac, now_ns: u64) -> (Mac, u64) {
        *(self.common.begin).get_or_init(|| (mac, now_ns + LEAD_NS))
    }

    /// The next hop and the time of the first connection, once any core has learned them.
    pub(super) fn begun(&self) -> Option<(Mac, u64)> {
        self.common.begin.get().copied()
    }

    /// Whether a client of any core has that address.
    pub(super) fn has_client(&self, address: IpAddr) -> bool {
        let mut plans = self.common.plans.iter();
        plans.any(|plan| plan.has_client(address))
    }

    /// The link, by its place among this core's, to the core that has the client's end `at`; none if
    /// this one has it, or none.
    pub(super) fn link_to(&self, at: End) -> Option<usize> {
        let plans = &self.common.plans;
        if plans[self.core].has_end(at) {
            return None;
        }
        let core = plans.iter().position(|plan| plan.has_end(at))?;
        Some(core - usize::from(core > self.core))
    }

    /// Every connection of this core has ended; returns whether those of all cores have.
    pub(super) fn end(&mut self) -> bool {
        if !self.has_ended {
            self.has_ended = true;
            self.common.running.fetch_sub(1, Ordering::AcqRel);
        }
        self.common.running.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::doubles::{mac, plan, plan_of, schedule};
    use super::*;
    use std::collections::HashSet;

    /// The five-tuples of a plan.
    fn tuples(plan: &Plan) -> Vec<(u128, u16)> {
        let all = (0..plan.tuples()).map(|n| plan.tuple(plan.place(n)));
        all.map(|end| (end.bits, end.port)).collect()
    }

    #[test]
    fn each_tuple_belongs_to_one_core_which_the_others_find() {
        let few_ports = Plan {
            client_count: 7,
            port_count: 2,
            ..plan()
        };
        for whole in [plan(), plan_of(5), few_ports] {
            for cores in 1..6 {
                let parts = Part::all(&whole, cores).unwrap();
                let mut all = HashSet::new();
                for (owner, part) in parts.iter().enumerate() {
                    let own = part.plan();
                    for (bits, port) in tuples(&own) {
                        assert!(all.insert((bits, port)), "{port} twice");
                        for (core, other) in parts.iter().enumerate() {
                            let mut links = (0..parts.len()).filter(|&one| one != core);
                            let link = links.position(|one| one == owner);
                            assert_eq!(other.link_to(End { bits, port }), link);
                        }
                    }
                    assert!(part.has_client(whole.clients));
                }
                let expected: HashSet<_> = tuples(&whole).into_iter().collect();
                assert_eq!(all, expected);
            }
        }
        assert!(Part::all(&plan_of(3), 4).is_none());
    }

    #[test]
    fn an_end_that_no_core_has_belongs_to_none() {
        let parts = Part::all(&plan(), 3).unwrap();
        let stranger = End {
            port: 1,
            ..plan().tuple(plan().first())
        };
        assert!(parts.iter().all(|part| part.link_to(stranger).is_none()));
    }

    #[test]
    fn all_cores_begin_as_the_first_one_that_knows_the_next_hop_says() {
        let parts = Part::all(&plan(), 2).unwrap();
        assert_eq!(parts[0].begun(), None);
        let begun = parts[1].begin(mac(2), 5);
        assert_eq!(begun, (mac(2), 5 + LEAD_NS));
        assert_eq!(parts[0].begin(mac(3), 7), begun);
        assert_eq!(parts[0].begun(), Some(begun));
    }

    #[test]
    fn the_work_is_over_when_every_core_has_ended() {
        let mut parts = Part::all(&plan(), 2).unwrap();
        assert!(!parts[0].end() && !parts[0].end());
        assert!(parts[1].end() && parts[0].end());
    }

    #[test]
    fn cores_open_as_many_connections_as_one_would() {
        let parts = Part::all(&plan(), 3).unwrap();
        let counts = parts.iter().map(|part| part.schedule(&schedule(100)).count);
        assert_eq!(counts.collect::<Vec<_>>(), [34, 33, 33]);
        assert!((parts[2].phase() - 2.0 / 3.0).abs() < 1e-9);
    }
}
