//! Connections through a balancer, with losses and repetitions in between: opened is the sum of
//! the outcomes, exactly, and so are the accounts of the balancer and of what lies in between.

use pinchpoint_devices::balancer::settings::{LocalEnds, Settings, Spot, Timeouts};
use pinchpoint_devices::balancer::{self, Attached, Balancer};
use pinchpoint_port::fault::{Faults, Faulty};
use pinchpoint_port::{AnyPort, mem};
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_worker::standing::{Control, UntilStopped};
use pinchpoint_worker::{Clock, Idle, Settings as Loop, Worker, WorkerPort};
use pinchpoint_workload::connections::end::End;
use pinchpoint_workload::connections::plan::{Mix, Plan, Requests};
use pinchpoint_workload::connections::schedule::Schedule;
use pinchpoint_workload::connections::server::Server;
use pinchpoint_workload::connections::timers::Retry;
use pinchpoint_workload::connections::work::{self, ClientEnd, Connections, NextHop};
use std::collections::HashMap;
use std::net::Ipv4Addr;

const RING: usize = 4096;
const LOOP: Loop = Loop {
    idle: Idle::Next,
    reply_timeout_ns: 0,
};
const SECOND_NS: u64 = 1_000_000_000;

fn port(name: &str, port: AnyPort) -> WorkerPort {
    WorkerPort {
        index: 0,
        name: name.to_owned(),
        port,
        answers: HashMap::new(),
    }
}

/// One receive side that loses and repeats a hundredth of its frames each.
fn faulty(inner: mem::MemPort, seed: u64) -> AnyPort {
    let faults = Faults {
        loss: 0.01,
        duplicate: 0.01,
        seed,
        ..Faults::default()
    };
    AnyPort::FaultyMem(Box::new(Faulty::new(inner, faults)))
}

/// Joined ports: the ends', and the balancer's.
fn ports() -> (Vec<WorkerPort>, Vec<WorkerPort>) {
    let (client, left) = mem::pair(RING);
    let (right, server) = mem::pair(RING);
    let ends = vec![
        port("clients", faulty(client, 1)),
        port("servers", faulty(server, 2)),
    ];
    let balancer = vec![
        port("left", faulty(left, 3)),
        port("right", faulty(right, 4)),
    ];
    (ends, balancer)
}

fn backends() -> Vec<(Ipv4Addr, u16)> {
    (1..=3)
        .map(|last| (Ipv4Addr::new(10, 1, 0, last), 8080))
        .collect()
}

fn connections(count: u64, rate: f64, now_ns: u64) -> Connections {
    let service: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);
    let plan = Plan {
        clients: Ipv4Addr::new(16, 0, 0, 1).into(),
        client_count: 64,
        ports: 1025,
        port_count: 60_000,
        service: End::new(service, 80),
        service_addresses: 1,
        service_ports: 1,
        mix: Mix::new([1, 1, 1, 97]).expect("weights"),
        requests: Requests { count: 1, len: 64 },
        key: 7,
        first_round: 1,
        one_isn: false,
        same_first_seq: None,
    };
    let schedule = Schedule {
        rate,
        ramp_ns: 0,
        count,
        timeout_ns: SECOND_NS,
        hold_ns: 0,
        hold_before: 0,
        server_closes: false,
        opens_late: false,
        retry: Retry::default(),
    };
    let client = ClientEnd::new(
        plan,
        schedule,
        Mac([2, 0, 0, 0, 0, 1]),
        NextHop::Of(service.into()),
    );
    let ends: Vec<_> = backends()
        .into_iter()
        .map(|(ip, port)| End::new(ip, port))
        .collect();
    let mac = Mac([2, 0, 0, 0, 0, 2]);
    Connections::new(
        Some(client),
        Some(Server::new(&ends, mac, 64, 11)),
        2,
        now_ns,
    )
}

fn settings() -> Settings {
    let spot = |(ip, port): (Ipv4Addr, u16)| Spot::new(ip, port);
    Settings {
        local: Some(LocalEnds {
            first: Ipv4Addr::new(10, 1, 0, 240).into(),
            count: 16,
            port: 1025,
            port_count: 64_511,
        }),
        connections: 1 << 21,
        timeouts: Timeouts {
            opening_ns: SECOND_NS,
            established_ns: 2 * SECOND_NS,
            closed_ns: SECOND_NS,
        },
        ring: 1 << 15,
        toa: true,
        rewrites_seq: true,
        ..Settings::new(
            spot((Ipv4Addr::new(10, 0, 0, 100), 80)),
            backends().into_iter().map(spot).collect(),
        )
    }
}

/// Both ends and the balancer on one core, in turn.
fn run(count: u64, rate: f64) -> (work::Account, balancer::Account) {
    let (clock, control) = (Clock::new(), Control::default());
    let (mut ends, mut own) = ports();
    let attached = [0u8, 1].map(|number| Attached {
        mac: Mac([2, 0, 0, 0, 1, number]),
        ring: RING as u32,
        longest: 1514,
    });
    let balancer = UntilStopped {
        workload: Balancer::new(&settings(), attached, clock.now_ns()),
        control: &control,
        report: |_| {},
    };
    let connections = connections(count, rate, clock.now_ns());
    let mut balancing = Worker::new(&mut own, balancer, LOOP, &clock);
    let mut connecting = Worker::new(&mut ends, connections, LOOP, &clock);
    while connecting.turn() {
        balancing.turn();
    }
    // What was under way arrives.
    for _ in 0..1_000 {
        balancing.turn();
    }
    (connecting.close(), balancing.close())
}

fn check(count: u64, told: &work::Account, balanced: &balancer::Account) {
    let client = told.client.as_ref().expect("a next hop");
    let one = client.counts();
    let ended = one.completed + one.refused + one.reset + one.timed_out();
    assert_eq!(one.opened, ended, "{one:?}");
    assert_eq!((one.opened + one.shortfall, one.unfinished), (count, 0));
    assert_eq!((one.wrong_payload, one.wrong_backend), (0, 0), "{one:?}");
    assert_eq!((one.toa_wrong, one.toa_right), (0, one.answered), "{one:?}");
    assert_eq!(
        client.answered().backends().iter().sum::<u64>(),
        one.answered
    );
    let tracked = balanced.tracked;
    let expired = tracked.expired_opening + tracked.expired_established + tracked.expired_closed;
    assert_eq!(
        tracked.created,
        tracked.live() + expired + tracked.replaced,
        "{tracked:?}"
    );
    assert_eq!(balanced.dealt.iter().sum::<u64>(), tracked.created);
    let most = balanced.dealt.iter().max().copied().unwrap_or_default();
    assert!(balanced.dealt.iter().all(|&dealt| most - dealt <= 1));
    assert!(one.established <= tracked.created && tracked.created <= one.opened);
    for way in balanced.directions {
        let drops = way.drops.total();
        assert_eq!(
            way.received,
            way.sent + way.consumed + way.waiting + drops,
            "{way:?}"
        );
        assert_eq!(way.waiting, 0);
    }
    println!("{one:?}\n{tracked:?}\n{:?}", balanced.directions);
}

/// What a port says of its faults.
fn fault(account: &[pinchpoint_worker::watched::PortAccount], port: usize, name: &str) -> u64 {
    let stats = &account[port].stats;
    let found = stats.iter().find(|(one, _)| one == name);
    found.map_or(0, |(_, count)| *count)
}

#[test]
fn every_connection_has_one_outcome_under_losses_and_repetitions() {
    let (told, balanced) = run(20_000, 20_000.0);
    check(20_000, &told, &balanced);
    let one = told.client.as_ref().expect("a client").counts();
    assert!(one.timed_out() > 0, "nothing was lost");
    for ports in [&told.ports, &balanced.ports] {
        for port in 0..2 {
            assert!(fault(ports, port, "fault_lost") > 0);
            assert!(fault(ports, port, "fault_duplicated") > 0);
        }
    }
}

/// How many are opened at least: by `PINCHPOINT_LEDGER=10000000 cargo test --release -p pinchpoint-devices --test ledger`
/// ten million, in some minutes. In rounds, since what is due while the host takes the core away is not opened.
#[test]
fn as_many_connections_as_are_asked_for_have_one_outcome_each() {
    const ROUND: u64 = 2_500_000;
    let asked = std::env::var("PINCHPOINT_LEDGER").ok();
    let wanted: u64 = asked.map_or(10_000, |text| {
        text.parse().expect("PINCHPOINT_LEDGER: a number")
    });
    let mut opened = 0;
    while opened < wanted {
        let count = ROUND.min(wanted);
        let (told, balanced) = run(count, 150_000.0);
        check(count, &told, &balanced);
        opened += told.client.map_or(0, |client| client.counts().opened);
    }
}
