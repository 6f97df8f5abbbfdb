//! The hot loop: one core, one state, run to completion.

use crate::clock::Clock;
use crate::keep::Recorder;
use crate::live::{Live, Sample};
use crate::outcome::{LoopOutcome, PortOutcome, SentPart, Share};
use crate::plan::{Part, Plan, PlannedStream, WorkerPort};
use crate::receive::{Outbox, Receiver, Watcher};
use crate::send::{Keeping, Plain};
use crate::witness::{Disturbance, frequency_hz};
use pinchpoint_port::{AnyPort, Port, ThreadGuard, Uniform};
use pinchpoint_traffic::account::{Account, Expected, Sender, Settings};
use pinchpoint_traffic::gaps::GapRecorder;
use std::sync::Arc;

/// How often the counters are published and the ports asked how they are.
const PUBLISH_NS: u64 = 1_000_000;

/// Counters of a port read before the trial, to take differences from.
struct Baseline {
    rx_missed: Option<u64>,
    stats: Vec<(String, u64)>,
}

/// Runs worker number `index` of `plan` with its `ports`.
pub(crate) fn run(
    index: usize,
    ports: &mut [WorkerPort],
    plan: &Plan,
    clock: &Clock,
    live: &Live,
) -> Share {
    let _guard = ThreadGuard::new();
    let baseline = |own: &mut WorkerPort| Baseline {
        rx_missed: own.port.rx_missed(),
        stats: own.port.stats(),
    };
    let baselines: Vec<_> = ports.iter_mut().map(baseline).collect();
    let core = plan.workers[index].core;
    let mut worker = Worker::new(index, ports, plan, clock, live);
    let disturbance = Disturbance::now(core);
    worker.begin();
    worker.send_and_receive();
    worker.end_sending();
    let sent_ns = worker.now_ns;
    let busy_share = worker.busy_share();
    worker.drain(plan.drain_ns);
    let disturbance = Disturbance::now(core).since(&disturbance);
    worker.close(sent_ns, busy_share, disturbance, baselines)
}

/// One stream under way.
struct Stream {
    planned: PlannedStream,
    refused: u64,
}

/// What a port's transmit side has done.
#[derive(Default, Clone, Copy)]
struct Transmitted {
    sent: u64,
    refused: u64,
    full: u64,
    answered: u64,
}

/// All state of the loop.
struct Worker<'a> {
    index: usize,
    plan: &'a Plan,
    ports: &'a mut [WorkerPort],
    clock: &'a Clock,
    live: &'a Live,
    streams: Vec<Stream>,
    /// By port of this worker.
    transmitted: Vec<Transmitted>,
    account: Account,
    recorder: Recorder,
    outbox: Outbox,
    gaps: GapRecorder,
    start_ns: u64,
    /// The clock at the beginning of this turn.
    now_ns: u64,
    publish_at_ns: u64,
    turns: u64,
    busy: bool,
    busy_ns: u64,
    stopped: bool,
    /// Whether another worker may receive what this one sends.
    shared: bool,
}

impl<'a> Worker<'a> {
    fn new(
        index: usize,
        ports: &'a mut [WorkerPort],
        plan: &'a Plan,
        clock: &'a Clock,
        live: &'a Live,
    ) -> Self {
        let place = |wanted: usize| ports.iter().position(|own| own.index == wanted);
        let expected = |part: &Part| Expected {
            id: part.id,
            rx_port: part.rx_port.and_then(place),
            sender: if part.worker == index {
                Sender::Here
            } else {
                Sender::Elsewhere(Arc::clone(&part.horizon))
            },
            flows: part.flows,
        };
        let expected: Vec<_> = plan.parts.iter().map(expected).collect();
        let settings = Settings {
            epoch: plan.epoch,
            verify_checksums: plan.verify_checksums,
            latency_every: plan.latency_every,
            jitter: plan.jitter,
        };
        let account = Account::new(&settings, &expected, ports.len());
        let stream = |planned| Stream {
            planned,
            refused: 0,
        };
        let streams = plan.workers[index].streams.iter().cloned();
        Self {
            index,
            plan,
            clock,
            live,
            streams: streams.map(stream).collect(),
            transmitted: vec![Transmitted::default(); ports.len()],
            ports,
            account,
            recorder: Recorder::new(plan.capture),
            outbox: Outbox::default(),
            gaps: GapRecorder::new(0),
            start_ns: 0,
            now_ns: 0,
            publish_at_ns: 0,
            turns: 0,
            busy: false,
            busy_ns: 0,
            stopped: false,
            shared: plan.workers.len() > 1,
        }
    }

    /// Waits for the other workers; all start at the same instant.
    fn begin(&mut self) {
        let start_ns = self.live.start_together(|| self.clock.now_ns());
        self.start_ns = start_ns.unwrap_or_else(|| self.clock.now_ns());
        self.now_ns = self.clock.now_ns();
        self.publish_at_ns = self.start_ns + PUBLISH_NS;
        self.gaps = GapRecorder::new(self.now_ns);
    }

    fn send_and_receive(&mut self) {
        loop {
            self.begin_turn();
            let elapsed_ns = self.now_ns - self.start_ns;
            if self.live.stopped() {
                self.stopped = true;
                for stream in &mut self.streams {
                    stream.planned.pacer.cut(elapsed_ns);
                }
                return;
            }
            if elapsed_ns >= self.plan.duration_ns && self.all_offered() {
                return;
            }
            self.busy = self.receive() | self.transmit(elapsed_ns);
        }
    }

    /// Whether no paced stream has frames left; unpaced ones never had.
    fn all_offered(&self) -> bool {
        let done = |stream: &Stream| {
            let pacer = &stream.planned.pacer;
            !pacer.is_paced() || pacer.is_done()
        };
        self.streams.iter().all(done)
    }

    /// Receives until `drain_ns` after the last worker has sent.
    fn drain(&mut self, drain_ns: u64) {
        loop {
            self.receive();
            self.begin_turn();
            let until_ns = self.live.all_sent_ns().map(|sent_ns| sent_ns + drain_ns);
            if until_ns.is_some_and(|until_ns| self.now_ns >= until_ns) || self.live.aborted() {
                return;
            }
        }
    }

    #[inline(always)]
    fn begin_turn(&mut self) {
        self.now_ns = self.clock.now_ns();
        let gap_ns = self.gaps.tick(self.now_ns, self.busy);
        self.turns += 1;
        if self.busy {
            self.busy_ns += gap_ns;
        }
        if self.now_ns >= self.publish_at_ns {
            self.publish();
        }
    }

    #[inline(never)]
    fn publish(&mut self) {
        self.publish_at_ns = self.now_ns + PUBLISH_NS;
        let offered = |stream: &Stream| stream.planned.pacer.offered();
        let sample = Sample {
            offered: self.streams.iter().map(offered).sum(),
            sent: self.transmitted.iter().map(|port| port.sent).sum(),
            received: if self.plan.streams == 0 {
                self.account.arrived()
            } else {
                self.account.received()
            },
        };
        self.live.publish(self.index, sample);
        for own in self.ports.iter_mut() {
            if let Some(why) = own.port.failure() {
                self.live.fail(format!("port {}: {why}", own.index));
            }
        }
    }

    #[inline(always)]
    fn receive(&mut self) -> bool {
        let watching = self.recorder.is_open();
        let mut any = false;
        for (index, own) in self.ports.iter_mut().enumerate() {
            let mut receiver = Receiver::new(&mut self.account, self.clock, index);
            if watching || !own.answers.is_empty() {
                let mut watcher = Watcher {
                    receiver,
                    recorder: &mut self.recorder,
                    port: own.index,
                    answers: &own.answers,
                    outbox: &mut self.outbox,
                };
                any |= own.port.receive(&mut watcher) > 0;
                if !self.outbox.is_empty() {
                    let answered = answer(&mut own.port, &mut self.outbox);
                    self.transmitted[index].answered += answered;
                }
            } else {
                any |= own.port.receive(&mut receiver) > 0;
            }
        }
        any
    }

    #[inline(always)]
    fn transmit(&mut self, elapsed_ns: u64) -> bool {
        let elapsed_ns = elapsed_ns.min(self.plan.duration_ns);
        let keeping = self.recorder.is_open();
        let mut any = false;
        for index in 0..self.streams.len() {
            let Stream { planned, refused } = &mut self.streams[index];
            let pacer = &mut planned.pacer;
            if elapsed_ns == self.plan.duration_ns && !pacer.is_paced() {
                continue;
            }
            let due = pacer.due(elapsed_ns, self.plan.tx_burst as u64);
            if due == 0 {
                continue;
            }
            let time_ns = self.clock.now_ns();
            let own = &mut self.ports[planned.tx_port];
            let program = &mut planned.program;
            let first = program.next();
            if self.shared {
                // Before the frames can arrive elsewhere.
                self.plan.parts[planned.part].horizon.reach(first + due);
            }
            let taken = if keeping {
                self.recorder.sending(own.index, time_ns);
                let recorder = &mut self.recorder;
                let port = &mut own.port;
                let taken = program.send(
                    time_ns,
                    Keeping {
                        port,
                        due,
                        recorder,
                    },
                );
                self.recorder.sent(taken);
                taken
            } else {
                let port = &mut own.port;
                program.send(time_ns, Plain { port, due })
            };
            let transmitted = &mut self.transmitted[planned.tx_port];
            transmitted.sent += taken;
            if taken < due {
                transmitted.full += 1;
            }
            // A frame without a time of its own is not refused but offered
            // again, as another frame, in a later turn.
            let lost = if pacer.is_paced() { due - taken } else { 0 };
            *refused += lost;
            transmitted.refused += lost;
            pacer.offer(taken + lost);
            self.account.sent(planned.part, first + taken);
            any |= taken + lost > 0;
        }
        any
    }

    /// Tells the others that nothing more comes from here.
    fn end_sending(&self) {
        for stream in &self.streams {
            let planned = &stream.planned;
            self.plan.parts[planned.part]
                .horizon
                .finish(planned.program.next());
        }
        self.live.sending_ended(self.now_ns);
    }

    fn busy_share(&self) -> f64 {
        let elapsed_ns = self.now_ns - self.start_ns;
        if elapsed_ns == 0 {
            return 0.0;
        }
        self.busy_ns as f64 / elapsed_ns as f64
    }

    fn close(
        self,
        sent_ns: u64,
        busy_share: f64,
        disturbance: Disturbance,
        baselines: Vec<Baseline>,
    ) -> Share {
        let core = self.plan.workers[self.index].core;
        let closed = self.account.close();
        let sent = self.streams.into_iter().map(|stream| SentPart {
            part: stream.planned.part,
            refused: stream.refused,
            sent: stream.planned.program.next(),
            mean_len: stream.planned.program.mean_len(),
            pacer: stream.planned.pacer,
        });
        let ports = self.ports.iter_mut().zip(self.transmitted);
        let ports = ports.zip(closed.ports).zip(baselines);
        let ports = ports.map(|(((own, transmitted), counts), before)| {
            let outcome = PortOutcome {
                sent: transmitted.sent,
                refused: transmitted.refused,
                full: transmitted.full,
                answered: transmitted.answered,
                counts,
                rx_missed: difference(own.port.rx_missed(), before.rx_missed),
                stats: stats_since(own.port.stats(), &before.stats),
            };
            (own.index, outcome)
        });
        Share {
            stopped: self.stopped,
            start_ns: self.start_ns,
            sent_ns,
            end_ns: self.now_ns,
            sent: sent.collect(),
            received: closed.streams,
            ports: ports.collect(),
            worker: LoopOutcome {
                core,
                start_ns: self.start_ns,
                turns: self.turns,
                busy_share,
                gaps: self.gaps,
                disturbance,
                frequency_hz: frequency_hz(core),
            },
            captured: self.recorder.close(),
        }
    }
}

/// Sends the answers; returns how many the port took. What it does not take is
/// asked for again by the neighbour.
#[cold]
fn answer(port: &mut AnyPort, outbox: &mut Outbox) -> u64 {
    let mut answered = 0;
    for frame in outbox.take() {
        let write = |_: usize, out: &mut [u8]| out.copy_from_slice(&frame);
        answered += port.send(1, Uniform(frame.len(), write)) as u64;
    }
    answered
}

fn difference(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(before?))
}

/// The increase of every counter; one that was not there before began at zero.
fn stats_since(now: Vec<(String, u64)>, before: &[(String, u64)]) -> Vec<(String, u64)> {
    let since = |(name, value): (String, u64)| {
        let earlier = before.iter().find(|(known, _)| *known == name);
        let value = value.saturating_sub(earlier.map_or(0, |(_, value)| *value));
        (name, value)
    };
    now.into_iter().map(since).collect()
}
