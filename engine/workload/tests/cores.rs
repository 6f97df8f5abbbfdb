//! Connections of one client on several cores, behind a NIC that gives every frame to a queue by
//! chance: each has one outcome, and the accounts of the cores add up.

use pinchpoint_port::{AnyPort, Port, Sink, Uniform, mem};
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_worker::{Clock, Idle, Settings, Worker, WorkerPort};
use pinchpoint_workload::connections::end::End;
use pinchpoint_workload::connections::parts::Part;
use pinchpoint_workload::connections::plan::{Mix, Plan, Requests, mix};
use pinchpoint_workload::connections::schedule::Schedule;
use pinchpoint_workload::connections::server::Server;
use pinchpoint_workload::connections::timers::Retry;
use pinchpoint_workload::connections::work::{Account, ClientEnd, Connections, NextHop};
use std::collections::HashMap;
use std::net::Ipv4Addr;

const RING: usize = 4096;
const COUNT: u64 = 5_000;
const LOOP: Settings = Settings {
    idle: Idle::Next,
    reply_timeout_ns: 0,
};
const SERVER: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn service() -> End {
    End::new(Ipv4Addr::new(10, 0, 0, 100), 80)
}

fn plan() -> Plan {
    Plan {
        clients: Ipv4Addr::new(16, 0, 0, 1).into(),
        client_count: 8,
        ports: 1025,
        port_count: 101,
        service: service(),
        service_addresses: 1,
        service_ports: 1,
        mix: Mix::new([0, 0, 1, 9]).expect("weights"),
        requests: Requests { count: 2, len: 64 },
        key: 7,
        first_round: 1,
        one_isn: false,
        same_first_seq: None,
    }
}

/// However long the host stands still, each is opened and none times out.
fn schedule() -> Schedule {
    Schedule {
        rate: 100_000.0,
        ramp_ns: 0,
        count: COUNT,
        timeout_ns: 60_000_000_000,
        hold_ns: 0,
        hold_before: 0,
        retry: Retry::default(),
        server_closes: false,
        opens_late: true,
    }
}

fn port(name: &str, port: mem::MemPort) -> WorkerPort {
    WorkerPort {
        index: 0,
        name: name.to_owned(),
        port: AnyPort::Mem(port),
        answers: HashMap::new(),
    }
}

#[derive(Default)]
struct Taken(Vec<Vec<u8>>);

impl Sink for Taken {
    fn arrived(&mut self, _count: usize) {}

    fn frame(&mut self, frame: &[u8]) {
        self.0.push(frame.to_vec());
    }
}

/// Queues towards the clients and towards the servers.
struct Nic {
    sides: [Vec<mem::MemPort>; 2],
    random: u64,
}

impl Nic {
    fn pass(&mut self) {
        for side in [0, 1] {
            let mut taken = Taken::default();
            for queue in &mut self.sides[side] {
                while queue.receive(&mut taken) > 0 {}
            }
            let others = &mut self.sides[1 - side];
            for frame in &taken.0 {
                self.random = mix(self.random);
                let queue = self.random as usize % others.len();
                let write = |_: usize, out: &mut [u8]| out.copy_from_slice(frame);
                assert_eq!(others[queue].send(1, Uniform(frame.len(), write)), 1);
            }
        }
    }
}

/// The ports of each core, then its links to the others, and what is behind the ports.
fn bench(cores: usize) -> (Vec<Vec<WorkerPort>>, Nic) {
    let mut sides = [Vec::new(), Vec::new()];
    let mut workers: Vec<Vec<WorkerPort>> = Vec::new();
    for _ in 0..cores {
        let ports = sides.iter_mut().map(|side| {
            let (own, behind) = mem::pair(RING);
            side.push(behind);
            port("own", own)
        });
        workers.push(ports.collect());
    }
    for one in 0..cores {
        for other in one + 1..cores {
            let (there, back) = mem::pair_of(RING, 1514);
            workers[one].push(port("link", there));
            workers[other].push(port("link", back));
        }
    }
    (workers, Nic { sides, random: 1 })
}

fn run(cores: u32, server: &Server, next_hop: NextHop) -> Vec<Account> {
    let clock = Clock::new();
    let (mut ports, mut nic) = bench(cores as usize);
    let parts = Part::all(&plan(), cores).expect("enough ports");
    let mut workers: Vec<_> = ports
        .iter_mut()
        .zip(parts)
        .map(|(ports, part)| {
            let client = ClientEnd::new(plan(), schedule(), Mac([2, 0, 0, 0, 0, 1]), next_hop);
            let (client, server) = (client.with_part(part), server.clone());
            let work = Connections::new(Some(client), Some(server), 2, clock.now_ns());
            Worker::new(ports, work, LOOP, &clock)
        })
        .collect();
    let mut running = true;
    while running {
        running = false;
        for worker in &mut workers {
            running |= worker.turn();
        }
        nic.pass();
    }
    workers.into_iter().map(Worker::close).collect()
}

fn merged(accounts: &[Account]) -> Account {
    let mut whole = accounts[0].clone();
    for other in &accounts[1..] {
        whole.merge(other);
    }
    whole
}

fn check(accounts: &[Account]) -> Account {
    let whole = merged(accounts);
    let client = whole.client.as_ref().expect("a client");
    let counts = client.counts();
    assert_eq!(
        (counts.opened, counts.completed),
        (COUNT, COUNT),
        "{counts:?}"
    );
    assert_eq!((counts.foreign, counts.shortfall), (0, 0), "{counts:?}");
    assert_eq!(client.times().connect.clone().into_histogram().len(), COUNT);
    let server = whole.server.as_ref().expect("a server");
    let [backend] = server.backends() else {
        panic!("one backend: {:?}", server.backends());
    };
    assert_eq!(backend.syns, COUNT);
    // The last ones may not have arrived.
    assert!(backend.resets <= COUNT - counts.answered);
    assert_eq!(backend.requests, 2 * counts.answered);
    assert_eq!(client.answered().backends(), [counts.answered]);
    let sources = server.sources().sorted();
    assert_eq!(sources.iter().map(|(_, count)| count).sum::<u64>(), COUNT);
    assert_eq!(sources.len(), 8);
    let handed = whole.handed.expect("several cores");
    assert_eq!(handed.lost, 0);
    assert!(handed.segments > COUNT / 2, "{handed:?}");
    assert_eq!(whole.ports.len(), 2, "links are no ports");
    whole
}

#[test]
fn every_connection_has_one_outcome_on_whichever_core_its_answers_arrive() {
    for cores in [2, 3, 4] {
        let server = Server::new(&[service()], SERVER, 64, 11);
        let accounts = run(cores, &server, NextHop::Of(service().ip()));
        assert_eq!(accounts.len(), cores as usize);
        for account in &accounts {
            let own = account.client.as_ref().expect("a client").counts();
            assert!(
                own.opened.abs_diff(COUNT / u64::from(cores)) <= 1,
                "{own:?}"
            );
        }
        let whole = check(&accounts);
        assert!(whole.others[1].answered >= 1, "the next hop was asked for");
    }
}

#[test]
fn what_backends_return_past_the_device_reaches_the_core_that_has_the_connection() {
    let backend = End::new(Ipv4Addr::new(10, 1, 0, 1), 80);
    let server = Server::new(&[backend], SERVER, 64, 11).with_direct(Some(service()));
    let whole = check(&run(3, &server, NextHop::At(SERVER)));
    let segments: u64 = whole.others.iter().map(|port| port.segments).sum();
    assert_eq!(
        whole.others[0].segments, 0,
        "nothing came back through the device"
    );
    assert!(whole.returned > Some(COUNT) && whole.returned < Some(segments));
}
