//! A balancer between both ends of connections, in a time of its own.

use super::nat::Why;
use super::settings::{LocalEnds, Scheduler, Spot, Timeouts, Wrongs};
use super::*;
use crate::connections::counts::Counts as Outcomes;
use crate::connections::doubles::{
    ANSWER_LEN, Between, Careless, Net, STEP_NS, backends, client, mac, plan, plan_of, plan_v6,
    schedule, service,
};
use crate::connections::end::End;
use crate::connections::plan::{Mix, Plan, Requests};
use crate::connections::schedule::Schedule;
use crate::connections::server::Server;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const MS: u64 = 1_000_000;

fn spot(end: End) -> Spot {
    Spot::new(end.ip(), end.port)
}

fn local(port_count: u32) -> LocalEnds {
    LocalEnds {
        first: Ipv4Addr::new(10, 1, 0, 240).into(),
        count: 2,
        port: 1025,
        port_count,
    }
}

/// Full-NAT to three backends.
fn settings() -> Settings {
    Settings {
        local: Some(local(1_000)),
        timeouts: Timeouts {
            opening_ns: 2 * MS,
            established_ns: 20 * MS,
            closed_ns: MS,
        },
        ..Settings::new(spot(service()), backends(3).into_iter().map(spot).collect())
    }
}

/// A balancer between the ends; what it drops, by reason.
struct Balanced {
    nat: Nat,
    drops: [counts::Drops; 2],
    now_ns: u64,
    careless: Careless,
}

impl Balanced {
    fn new(settings: &Settings) -> Self {
        Self {
            nat: Nat::new(settings, [mac(2), mac(4)], [1514; 2]),
            drops: [counts::Drops::default(); 2],
            now_ns: 0,
            careless: Careless {
                random: 1,
                lost: 0.0,
                doubled: 0.0,
            },
        }
    }

    fn check(&self) {
        let tracked = self.nat.tracked();
        let expired =
            tracked.expired_opening + tracked.expired_established + tracked.expired_closed;
        assert_eq!(
            tracked.created,
            tracked.live() + expired + tracked.replaced + tracked.flushed,
            "{tracked:?}"
        );
        assert_eq!(self.nat.dealt().iter().sum::<u64>(), tracked.created);
        let used = self.nat.local_ends().map_or(0, |(used, _)| used);
        let is_exact =
            self.nat.settings().local.is_some() && self.nat.settings().wrongs.reuse_after.is_none();
        assert!(!is_exact || used == tracked.live(), "{used}: {tracked:?}");
    }
}

impl Between for Balanced {
    fn pass(&mut self, frame: Vec<u8>, to_server: bool) -> Vec<(Vec<u8>, bool)> {
        // Each crossing of the double takes a step; so does a frame here.
        self.now_ns += STEP_NS / 8;
        self.nat.expire(self.now_ns, 64);
        let mut out = Vec::new();
        for (frame, _) in self.careless.pass(frame, to_server) {
            let side = if to_server {
                Side::Clients
            } else {
                Side::Servers
            };
            let mut sent = vec![0; 1514];
            match self.nat.translate(side, &frame, self.now_ns, &mut sent) {
                Ok(passed) => {
                    sent.truncate(passed.len);
                    out.push((sent, to_server));
                }
                Err(why) => self.drops[usize::from(!to_server)].add(why),
            }
        }
        self.check();
        out
    }
}

fn through(settings: &Settings, plan: Plan, schedule: Schedule) -> Net<Balanced> {
    let server = Server::new(&backends(3), mac(3), ANSWER_LEN, 11);
    Net::new(client(plan, schedule), server, Balanced::new(settings)).run()
}

fn all_well(net: &Net<Balanced>, count: u64) -> Outcomes {
    Outcomes {
        opened: count,
        established: count,
        answered: count,
        completed: count,
        most_open: net.client.counts().most_open,
        ..Outcomes::default()
    }
}

#[test]
fn an_honest_balancer_deals_in_turn_and_every_connection_completes() {
    let net = through(&settings(), plan(), schedule(300));
    assert_eq!(*net.client.counts(), all_well(&net, 300));
    assert_eq!(net.client.answered().backends(), [100, 100, 100]);
    let locals = [240, 241].map(|last| (Ipv4Addr::new(10, 1, 0, last).into(), 150));
    assert_eq!(net.client.answered().local().sorted(), locals);
    assert_eq!(net.between.drops, [counts::Drops::default(); 2]);
    let tracked = net.between.nat.tracked();
    assert_eq!((tracked.created, tracked.opening), (300, 0));
    assert_eq!(
        tracked.closed + tracked.expired_closed + tracked.replaced,
        300
    );
}

#[test]
fn backends_learn_the_client_s_end_and_numbers_are_rewritten() {
    let settings = Settings {
        toa: true,
        rewrites_seq: true,
        ..settings()
    };
    let several = Plan {
        requests: Requests { count: 3, len: 64 },
        ..plan()
    };
    let net = through(&settings, several, schedule(300));
    let expected = Outcomes {
        toa_right: 300,
        ..all_well(&net, 300)
    };
    assert_eq!(*net.client.counts(), expected);
    assert_eq!(net.between.nat.tracked().toa_omitted, 0);
}

#[test]
fn a_service_of_ipv6_is_balanced_as_one_of_ipv4() {
    let ip = |last| Ipv6Addr::new(0xfd00, 2, 0, 0, 0, 0, 0, last);
    let at: Vec<End> = (1..=3).map(|last| End::new(ip(last), 8080)).collect();
    let settings = Settings {
        local: Some(LocalEnds {
            first: ip(0xf0).into(),
            ..local(1_000)
        }),
        toa: true,
        rewrites_seq: true,
        service: spot(plan_v6().service),
        backends: at.iter().copied().map(spot).collect(),
        ..settings()
    };
    let server = Server::new(&at, mac(3), ANSWER_LEN, 11);
    let client = client(plan_v6(), schedule(300));
    let net = Net::new(client, server, Balanced::new(&settings)).run();
    let expected = Outcomes {
        toa_right: 300,
        ..all_well(&net, 300)
    };
    assert_eq!(*net.client.counts(), expected);
    assert_eq!(net.client.answered().backends(), [100, 100, 100]);
    let locals = [0xf0, 0xf1].map(|last| (ip(last).into(), 150));
    assert_eq!(net.client.answered().local().sorted(), locals);
}

/// Answers cross no balancer.
struct PastIt(Balanced);

impl Between for PastIt {
    fn pass(&mut self, frame: Vec<u8>, to_server: bool) -> Vec<(Vec<u8>, bool)> {
        if !to_server {
            return vec![(frame, false)];
        }
        let mut passed = self.0.pass(frame, true);
        for (frame, _) in &mut passed {
            // As its backends' addresses are known: here all are the first one.
            frame[..6].copy_from_slice(&mac(3).0);
        }
        passed
    }
}

#[test]
fn with_direct_return_it_sees_the_client_s_half_of_each_connection_and_changes_no_address() {
    let settings = Settings {
        local: None,
        direct: true,
        ..settings()
    };
    let server = Server::new(&backends(3), mac(3), ANSWER_LEN, 11).with_direct(Some(service()));
    let between = PastIt(Balanced::new(&settings));
    let net = Net::new(client(plan(), schedule(300)), server, between).run();
    assert_eq!(net.client.counts().completed, 300);
    // The one at the first Ethernet address; clients' own addresses.
    assert_eq!(net.client.answered().backends(), [300]);
    assert_eq!(net.client.answered().local().sorted().len(), 4);
    let nat = &net.between.0.nat;
    assert_eq!(nat.dealt(), [100, 100, 100]);
    assert_eq!((nat.tracked().created, nat.tracked().opening), (300, 0));
    assert_eq!(net.between.0.drops, [counts::Drops::default(); 2]);
}

#[test]
fn without_local_ends_backends_see_the_client() {
    let settings = Settings {
        local: None,
        ..settings()
    };
    let net = through(&settings, plan(), schedule(300));
    assert_eq!(*net.client.counts(), all_well(&net, 300));
    assert_eq!(net.client.answered().local().sorted().len(), 4);
}

#[test]
fn a_hash_sends_a_client_s_end_to_the_same_backend_again() {
    let settings = Settings {
        scheduler: Scheduler::Hash,
        ..settings()
    };
    let dealt = |count| {
        let net = through(&settings, plan(), schedule(count));
        assert_eq!(net.client.counts().completed, count);
        net.client.answered().backends().to_vec()
    };
    // 256 five-tuples.
    let (once, twice) = (dealt(256), dealt(512));
    assert_eq!(
        twice,
        once.iter().map(|count| 2 * count).collect::<Vec<_>>()
    );
    assert!(once.iter().all(|&count| count > 50), "{once:?}");
}

#[test]
fn an_unfair_balancer_deals_by_its_weights() {
    let weights = |weights: &[u16]| {
        let wrongs = Wrongs {
            weights: weights.to_vec(),
            ..Wrongs::default()
        };
        let net = through(
            &Settings {
                wrongs,
                ..settings()
            },
            plan(),
            schedule(70),
        );
        net.client.answered().backends().to_vec()
    };
    assert_eq!(weights(&[5, 1, 1]), [50, 10, 10]);
    assert_eq!(weights(&[1, 0, 0]), [70]);
}

#[test]
fn a_full_table_refuses_and_says_so_until_places_become_free() {
    let settings = Settings {
        connections: 40,
        ..settings()
    };
    let slow = Schedule {
        rate: 1e5,
        ..schedule(200)
    };
    let full = through(&settings, plan(), schedule(200));
    let refused = full.between.drops[0].table_full;
    assert_eq!(refused, 160);
    assert_eq!(full.client.counts().timed_out_connecting, refused);
    // At a tenth of the rate places are forgotten in time.
    let mut patient = settings;
    patient.timeouts.closed_ns = 1_000;
    let net = through(&patient, plan(), slow);
    assert_eq!(net.client.counts().completed, 200);
}

#[test]
fn a_pool_of_local_ends_bounds_each_backend_s_connections() {
    let settings = Settings {
        local: Some(local(10)),
        ..settings()
    };
    let net = through(&settings, plan(), schedule(200));
    // Twenty for each of three backends.
    assert_eq!(net.client.counts().completed, 60);
    assert_eq!(net.between.drops[0].no_local_port, 140);
}

#[test]
fn a_balancer_that_leaks_forgets_nothing() {
    let mut settings = Settings {
        wrongs: Wrongs {
            leaks: true,
            ..Wrongs::default()
        },
        ..settings()
    };
    settings.timeouts.closed_ns = 1;
    let net = through(&settings, plan(), schedule(200));
    assert_eq!(net.between.nat.tracked().closed, 200);
    settings.wrongs.leaks = false;
    let mut net = through(&settings, plan(), schedule(200));
    net.between.nat.expire(u64::MAX, 300);
    assert_eq!(net.between.nat.tracked().live(), 0);
}

#[test]
fn an_end_that_is_reused_too_early_is_noticed_by_the_client() {
    let wrongs = Wrongs {
        reuse_after: Some(50),
        ..Wrongs::default()
    };
    let held = Schedule {
        hold_ns: MS,
        hold_before: 1,
        ..schedule(300)
    };
    let twice = Plan {
        requests: Requests { count: 2, len: 64 },
        ..plan_of(300)
    };
    let honest = through(&settings(), twice, held);
    assert_eq!(honest.client.reused(), Some(0));
    assert_eq!(honest.client.counts().completed, 300);
    let wrong = through(
        &Settings {
            wrongs,
            ..settings()
        },
        twice,
        held,
    );
    // The first fifty of each backend are those of no other.
    assert_eq!(wrong.client.reused(), Some(150));
    assert!(wrong.client.counts().completed < 300);
}

#[test]
fn a_broken_payload_is_the_client_s_to_find_and_a_dropped_syn_too() {
    let wrongs = Wrongs {
        break_every: Some(10),
        drop_syn_every: Some(4),
        ..Wrongs::default()
    };
    let net = through(
        &Settings {
            wrongs,
            ..settings()
        },
        plan(),
        schedule(400),
    );
    let counts = net.client.counts();
    assert_eq!((counts.timed_out_connecting, counts.answered), (100, 300));
    assert_eq!((counts.wrong_payload, counts.completed), (30, 300));
    assert_eq!(net.between.drops[0].planted, 100);
    assert_eq!(net.between.nat.tracked().broken, 30);
}

#[test]
fn a_flood_of_syns_without_answers_fills_the_table_and_is_forgotten() {
    let settings = Settings {
        connections: 1_000,
        ..settings()
    };
    let mut balanced = Balanced::new(&settings);
    let flood = client(plan_of(5_000), schedule(5_000));
    for syn in flood.syns().take(5_000) {
        let mut frame = vec![0; syn.frame_len()];
        syn.write(&mut frame);
        balanced.pass(frame, true);
    }
    assert_eq!(balanced.drops[0].table_full, 4_000);
    assert_eq!(balanced.nat.tracked().opening, 1_000);
    balanced.nat.expire(balanced.now_ns + 2 * MS, 1_000);
    balanced.check();
    assert_eq!(balanced.nat.tracked().expired_opening, 1_000);
}

#[test]
fn what_belongs_to_no_connection_goes_no_further() {
    let mut nat = Nat::new(&settings(), [mac(2), mac(4)], [1514; 2]);
    let mut out = vec![0; 1514];
    let client = client(plan(), schedule(1));
    let mut syn = client.syns().next().unwrap();
    let mut translated = |segment: &crate::connections::segment::Outgoing, side| {
        let mut frame = vec![0; segment.frame_len()];
        segment.write(&mut frame);
        nat.translate(side, &frame, 0, &mut out).map(|_| ())
    };
    syn.flags = crate::connections::segment::ACK;
    assert_eq!(translated(&syn, Side::Clients), Err(Why::NoConnection));
    syn.dst.port = 81;
    assert_eq!(translated(&syn, Side::Clients), Err(Why::Other));
    assert_eq!(translated(&syn, Side::Servers), Err(Why::Other));
    syn.src = backends(1)[0];
    assert_eq!(translated(&syn, Side::Servers), Err(Why::NoConnection));
}

#[test]
fn a_flush_forgets_all_and_gives_their_ends_back() {
    let mut net = through(&settings(), plan(), schedule(300));
    net.between.nat.flush();
    net.between.check();
    assert_eq!(net.between.nat.tracked().live(), 0);
    assert_eq!(net.between.nat.local_ends(), Some((0, 6_000)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Lost, doubled and overtaken segments, small tables and pools: all accounts close.
    #[test]
    fn every_connection_has_one_outcome_on_both_sides(
        random: u64,
        lost in 0.0..0.2f64,
        doubled in 0.0..0.2f64,
        spread in 1..50u64,
        connections in 1..400usize,
        ports in 1..200u32,
        weights in prop::array::uniform4(0..3u32).prop_filter("a mix", |all| all.iter().sum::<u32>() > 0),
        full_nat: bool,
    ) {
        let settings = Settings {
            connections,
            local: full_nat.then(|| local(ports)),
            toa: true,
            rewrites_seq: true,
            ..settings()
        };
        let plan = Plan { mix: Mix::new(weights).unwrap(), ..plan() };
        let server = Server::new(&backends(3), mac(3), ANSWER_LEN, 11);
        let mut balanced = Balanced::new(&settings);
        balanced.careless = Careless { random, lost, doubled };
        let mut net = Net::new(client(plan, schedule(1_000)), server, balanced);
        net.spread = spread;
        let net = net.run();
        let counts = net.client.counts();
        let ended = counts.completed + counts.refused + counts.reset + counts.timed_out();
        prop_assert_eq!((counts.opened, ended), (1_000, 1_000));
        prop_assert_eq!((counts.wrong_payload, counts.toa_wrong), (0, 0));
    }
}
