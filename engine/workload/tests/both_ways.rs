//! Two engines that send each other a stream, each with an end of one link.

use pinchpoint_port::fault::{Faults, Faulty};
use pinchpoint_port::{AnyPort, mem};
use pinchpoint_traffic::pacer::Pacer;
use pinchpoint_traffic::program::FrameProgram;
use pinchpoint_traffic::sent_bound::SentBound;
use pinchpoint_traffic::spec::{Layer, Sizes, StreamSpec, Template, Wrong};
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_worker::{Clock, WorkerPort};
use pinchpoint_workload::streams::plan::Part;
use pinchpoint_workload::streams::{
    self, Live, Outcome, Plan, PlannedStream, Running, Stage, WorkerPlan,
};
use rustix::thread::CpuSet;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const RING: usize = 4096;
const RATE_FPS: f64 = 10_000.0;
const SECOND_NS: u64 = 1_000_000_000;

/// Part number `own` of two is sent here, the other one elsewhere.
fn plan(own: u16, duration_s: f64, peer_timeout_ns: u64) -> Plan {
    let part = |id: u16| Part {
        stream: usize::from(id),
        id,
        worker: (id == own).then_some(0),
        rx_ports: if id == own { Vec::new() } else { vec![0] },
        flow_count: Some(1),
        frames: None,
        verify_checksums: true,
        sent_bound: Arc::new(if id == own {
            SentBound::default()
        } else {
            SentBound::endless()
        }),
        flows: None,
        unsigned: None,
    };
    let spec = StreamSpec {
        id: own,
        epoch: 1,
        seed: 0,
        part: 0,
        stamped: true,
        sizes: Sizes::Fixed(60),
        template: Template::Layers(vec![Layer::Ethernet {
            src: Mac([2, 0, 0, 0, 0, 1]),
            dst: Mac([2, 0, 0, 0, 0, 2]),
            ethertype: Some(0x88b5),
        }]),
        wrong: Wrong::default(),
        flows: 1,
        first_flow: 0,
        fields: Vec::new(),
        together: false,
    };
    Plan {
        epoch: 1,
        duration_ns: (duration_s * 1e9) as u64,
        drain_ns: SECOND_NS / 10,
        peer_timeout_ns: Some(peer_timeout_ns),
        tx_burst: 64,
        latency_every: 1,
        jitter: true,
        capture: 0,
        slices: None,
        streams: 2,
        ports: 1,
        parts: vec![part(0), part(1)],
        workers: vec![WorkerPlan {
            core: first_core(),
            streams: vec![PlannedStream {
                part: usize::from(own),
                program: FrameProgram::new(&spec).expect("a frame"),
                pacer: Pacer::paced(RATE_FPS, duration_s, 0.0).within(RING as u32, 1.0),
                rate_fps: Some(RATE_FPS),
                tx_port: 0,
                live: None,
            }],
        }],
    }
}

/// An engine under way.
struct Engine {
    live: Arc<Live>,
    clock: Clock,
    running: Running,
    stages: Receiver<Stage>,
}

impl Engine {
    fn start(port: AnyPort, plan: Plan) -> Self {
        Self::start_watched(port, plan, Live::new(1, 2), Clock::new())
    }

    fn start_watched(port: AnyPort, plan: Plan, live: Live, clock: Clock) -> Self {
        let live = Arc::new(live);
        let port = WorkerPort {
            index: 0,
            name: "link".to_owned(),
            port,
            answers: HashMap::new(),
        };
        let (sender, stages) = channel();
        let tell = move |stage| sender.send(stage).expect("somebody listens");
        let running =
            streams::start(vec![vec![port]], plan, &clock, &live, tell).expect("a thread");
        Self {
            live,
            clock,
            running,
            stages,
        }
    }

    fn go(&self) {
        assert!(self.live.go(self.clock.now_ns()));
    }

    fn await_stage(&self, stage: Stage) {
        let told = self.stages.recv_timeout(Duration::from_secs(60));
        assert_eq!(told, Ok(stage));
    }

    fn account(self) -> Outcome {
        self.await_stage(Stage::Ended);
        let (_, outcome) = self.running.join().expect("no worker died");
        outcome.expect("a core to run on")
    }
}

/// (sent by the one, received of that by the other, and back)
fn counts(accounts: &[Outcome; 2]) -> [(u64, u64); 2] {
    [(0, 1), (1, 0)].map(|(from, to): (usize, usize)| {
        let came = accounts[to].streams[from].received.as_ref();
        let came = came.expect("it is expected there").counts.received;
        (accounts[from].streams[from].sent, came)
    })
}

#[test]
fn each_direction_has_its_own_account_and_its_own_losses() {
    let (one, other) = mem::pair(RING);
    // However few frames two engines on one core get to send, some are lost.
    let faults = Faults {
        loss: 0.5,
        ..Faults::default()
    };
    let lossy = AnyPort::FaultyMem(Box::new(Faulty::new(other, faults)));
    let engines = [
        Engine::start(AnyPort::Mem(one), plan(0, 0.2, 600 * SECOND_NS)),
        Engine::start(lossy, plan(1, 0.2, 600 * SECOND_NS)),
    ];
    engines.iter().for_each(Engine::go);
    for engine in &engines {
        engine.await_stage(Stage::Sent);
    }
    for engine in &engines {
        engine.live.stop();
    }
    let accounts = engines.map(Engine::account);
    assert!(
        accounts
            .iter()
            .all(|one| !one.stopped && one.failure.is_none())
    );
    let [(forth, came), (back, came_back)] = counts(&accounts);
    assert!(forth > 0 && came < forth, "{came} of {forth}");
    assert!(back > 0 && came_back == back, "{came_back} of {back}");
}

#[test]
fn what_comes_before_its_own_go_is_received_and_it_receives_until_it_is_stopped() {
    let (one, other) = mem::pair(RING);
    let early = Engine::start(AnyPort::Mem(one), plan(0, 0.1, 600 * SECOND_NS));
    let late = Engine::start(AnyPort::Mem(other), plan(1, 0.1, 600 * SECOND_NS));
    early.go();
    early.await_stage(Stage::Sent);
    late.go();
    late.await_stage(Stage::Sent);
    late.live.stop();
    early.live.stop();
    let accounts = [early.account(), late.account()];
    assert_eq!(accounts[0].streams[0].pacers[0].intended(), Some(1000));
    for (sent, came) in counts(&accounts) {
        assert!(sent > 0 && came == sent, "{came} of {sent}");
    }
}

#[test]
fn one_that_hears_nothing_ends_by_itself_with_the_reason() {
    for (goes, word) in [(false, "`go`"), (true, "`stop`")] {
        let (one, _other) = mem::pair(RING);
        let (live, clock) = (Live::new(1, 2), Clock::new());
        if goes {
            live.go(clock.now_ns());
        }
        let plan = plan(0, 0.01, SECOND_NS / 100);
        let engine = Engine::start_watched(AnyPort::Mem(one), plan, live, clock);
        engine.await_stage(Stage::Sent);
        let reason = engine.account().failure.expect("it gave up");
        assert!(reason.contains(word), "{reason}");
    }
}

/// The first core this process may use.
fn first_core() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).expect("the system's");
    (0..CpuSet::MAX_CPU)
        .find(|&core| allowed.is_set(core))
        .expect("one")
}
