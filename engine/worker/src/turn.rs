//! The hot loop: one core, one state, run to completion.

use crate::clock::Clock;
use crate::hold::ReleaseAtEnd;
use crate::keep::Recorder;
use crate::live::{Live, Sample};
use crate::outcome::{LoopOutcome, SentPart, Share};
use crate::plan::{Part, Plan, PlannedStream, WorkerPort};
use crate::ports::{self, Baseline, Transmitted, answer, live_number};
use crate::receive::{Outbox, Receiver, Watcher};
use crate::send::{Keeping, Plain};
use crate::slices::Slicer;
use crate::witness::{Disturbance, frequency_hz};
use pinchpoint_port::{AnyPort, BURST, Port, ThreadGuard};
use pinchpoint_traffic::account::{Account, Expected, Sender, Settings};
use pinchpoint_traffic::gaps::GapRecorder;
use std::ops::Range;
use std::sync::Arc;

mod sliced;

/// Frames made at once by the kernel at most: a call costs microseconds beyond
/// them.
const LIVE_BURST: u64 = 2048;
/// How many times its length a drain may last while frames still arrive.
const LONGEST_DRAIN: u64 = 10;
/// How often the counters are published and the ports asked how they are.
const PUBLISH_NS: u64 = 1_000_000;

/// Runs worker number `index` of `plan` with its `ports`.
pub(crate) fn run(
    index: usize,
    ports: &mut [WorkerPort],
    plan: &Plan,
    clock: &Clock,
    live: &Live,
) -> Share {
    let _guard = ThreadGuard::new();
    let baselines: Vec<_> = ports.iter_mut().map(Baseline::of).collect();
    let core = plan.workers[index].core;
    let hold = plan.slices.as_ref().and_then(|slices| slices.hold.clone());
    let _released = hold.map(ReleaseAtEnd);
    let mut worker = Worker::new(index, ports, plan, clock, live);
    worker.begin();
    let disturbance = Disturbance::now(core);
    worker.send_and_receive();
    let slices = worker.end_slices();
    worker.end_sending();
    let sent_ns = worker.now_ns;
    let busy_share = worker.busy_share();
    worker.drain(plan.drain_ns);
    let disturbance = Disturbance::now(core).since(&disturbance);
    let share = worker.close(sent_ns, busy_share, disturbance, baselines);
    Share { slices, ..share }
}

/// One stream under way.
struct Stream {
    planned: PlannedStream,
    /// Its number at its port, if the kernel makes its frames.
    live: Option<usize>,
    refused: u64,
    refused_ns: Option<u64>,
    sent: u64,
}

/// All state of the loop.
struct Worker<'a> {
    index: usize,
    plan: &'a Plan,
    ports: &'a mut [WorkerPort],
    clock: &'a Clock,
    live: &'a Live,
    streams: Vec<Stream>,
    /// Those of `streams` that are sent now.
    active: Range<usize>,
    /// How long these were not sent: their pacers know nothing of that time.
    idle_ns: u64,
    slicer: Option<Slicer<'a>>,
    /// When the slices have something to do, after the start.
    slice_at_ns: u64,
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
            verify_checksums: part.verify_checksums,
            flows: part.flows,
        };
        let expected: Vec<_> = plan.parts.iter().map(expected).collect();
        let settings = Settings {
            epoch: plan.epoch,
            latency_every: plan.latency_every,
            jitter: plan.jitter,
        };
        let account = Account::new(&settings, &expected, ports.len());
        let stream = |planned: PlannedStream| Stream {
            live: live_number(ports, &planned, plan),
            planned,
            refused: 0,
            refused_ns: None,
            sent: 0,
        };
        let streams = plan.workers[index].streams.iter().cloned();
        let mut streams: Vec<Stream> = streams.map(stream).collect();
        let slicer = plan.slices.as_ref().map(|slices| {
            // Those of one group stand together.
            streams.sort_by_key(|stream| slices.groups[stream.planned.part]);
            Slicer::new(&slices.schedule)
        });
        Self {
            index,
            plan,
            clock,
            live,
            active: 0..streams.len(),
            idle_ns: 0,
            slice_at_ns: if slicer.is_some() { 0 } else { u64::MAX },
            slicer,
            streams,
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
                self.cut(elapsed_ns);
                return;
            }
            if elapsed_ns >= self.slice_at_ns {
                self.turn_slices(elapsed_ns);
            }
            if elapsed_ns >= self.plan.duration_ns && self.all_offered() {
                return;
            }
            self.busy = self.receive() | self.transmit(elapsed_ns);
        }
    }

    /// Whether no paced stream has frames left; unpaced ones never had. What a
    /// group did not offer in its slices is not made up for in another's.
    fn all_offered(&self) -> bool {
        let done = |stream: &Stream| {
            let pacer = &stream.planned.pacer;
            !pacer.is_paced() || pacer.is_done()
        };
        self.streams[self.active.clone()].iter().all(done)
    }

    /// Receives until `drain_ns` after the last worker has sent and after the
    /// last frame of this trial has arrived here, but at most
    /// [`LONGEST_DRAIN`] times as long: a queue that still empties is no loss,
    /// and a loop of the device must not keep the trial. Then, if that is any
    /// time at all, what is in the rings: a core that comes late finds there
    /// what had arrived in time.
    fn drain(&mut self, drain_ns: u64) {
        let ring = |own: &WorkerPort| own.port.rings().0 as usize / BURST + 1;
        let mut turns_left = self.ports.iter().map(ring).max().unwrap_or(0);
        let (mut any, mut looked) = (true, false);
        let (mut delivered, mut last_ns) = (self.account.delivered(), 0);
        loop {
            self.begin_turn();
            if self.live.aborted() {
                return;
            }
            let until_ns = self.live.all_sent_ns().map(|sent_ns| {
                let quiet_ns = last_ns.max(sent_ns) + drain_ns;
                quiet_ns.min(sent_ns + LONGEST_DRAIN * drain_ns)
            });
            let over = until_ns.is_some_and(|until_ns| self.now_ns >= until_ns);
            if over {
                if drain_ns == 0 || turns_left == 0 || (looked && !any) {
                    return;
                }
                turns_left -= 1;
            }
            looked = over;
            any = self.receive();
            let now = self.account.delivered();
            if now != delivered {
                // After the burst: the core may have stood still in it.
                (delivered, last_ns) = (now, self.clock.now_ns());
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
        // The kernel numbers also those that the interface refuses: they are overtaken.
        let refused = |stream: &Stream| stream.live.map_or(stream.refused, |_| 0);
        let sample = Sample {
            offered: self.streams.iter().map(offered).sum(),
            sent: self.transmitted.iter().map(|port| port.sent).sum(),
            received: if self.plan.streams == 0 {
                self.account.arrived()
            } else {
                self.account.received()
            },
            lost: self.streams.iter().map(refused).sum::<u64>() + self.account.missing(),
            gaps_ns: self.gaps.over_total_ns(),
            gap_max_ns: self.gaps.take_recent_max_ns(),
        };
        self.live.publish(self.index, sample);
        for own in self.ports.iter_mut() {
            if let Some(why) = own.port.failure() {
                self.live.fail(format!("{}: {why}", own.name));
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
        let over = elapsed_ns == self.plan.duration_ns;
        let mut any = false;
        let elapsed_ns = elapsed_ns.saturating_sub(self.idle_ns);
        for index in self.active.clone() {
            let stream = &mut self.streams[index];
            let pacer = &mut stream.planned.pacer;
            if over && !pacer.is_paced() {
                continue;
            }
            let burst = stream
                .live
                .map_or(self.plan.tx_burst as u64, |_| LIVE_BURST);
            let due = pacer.due(elapsed_ns, burst);
            if due == 0 {
                continue;
            }
            let (offered, sent) = match stream.live {
                None => self.send(index, due),
                Some(number) => self.send_live(index, number, due),
            };
            let stream = &mut self.streams[index];
            if offered > sent {
                stream.refused += offered - sent;
                stream.refused_ns = Some(self.now_ns);
            }
            stream.sent += sent;
            stream.planned.pacer.offer(offered);
            let transmitted = &mut self.transmitted[stream.planned.tx_port];
            transmitted.sent += sent;
            transmitted.refused += offered - sent;
            transmitted.full += u64::from(sent < due);
            any |= offered > 0;
        }
        any
    }

    /// Sends `due` frames of a stream; returns how many were offered, and how
    /// many of them the port took. A frame without a time of its own is not
    /// refused but offered again, as another frame, in a later turn.
    #[inline(always)]
    fn send(&mut self, index: usize, due: u64) -> (u64, u64) {
        let planned = &mut self.streams[index].planned;
        let (part, program) = (planned.part, &mut planned.program);
        let own = &mut self.ports[planned.tx_port];
        let (first, port) = (program.next(), &mut own.port);
        if self.shared {
            // Before the frames can arrive elsewhere.
            self.plan.parts[part].horizon.reach(first + due);
        }
        let time_ns = self.clock.now_ns();
        let taken = if self.recorder.is_open() {
            let recorder = &mut self.recorder;
            recorder.sending(own.index, time_ns);
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
            program.send(time_ns, Plain { port, due })
        };
        self.account.sent(part, first + taken);
        let paced = planned.pacer.is_paced();
        (if paced { due } else { taken }, taken)
    }

    /// Has the kernel make and send `due` frames of the port's stream `number`.
    /// Each has a number of its own, also one that the interface refuses.
    fn send_live(&mut self, index: usize, number: usize, due: u64) -> (u64, u64) {
        let planned = &self.streams[index].planned;
        let Some(port) = self.ports[planned.tx_port].port.live() else {
            return (0, 0);
        };
        let next = port.next_live(number).unwrap_or(0);
        if self.shared {
            self.plan.parts[planned.part].horizon.reach(next + due);
        }
        let made = port.send_live(number, due, || self.clock.now_ns());
        self.account.sent(planned.part, next + made.frames);
        (made.frames, made.frames - made.refused)
    }

    /// Number of the stream's next frame.
    fn next(&self, stream: &Stream) -> u64 {
        match (stream.live, &self.ports[stream.planned.tx_port].port) {
            (Some(number), AnyPort::XdpLive(port)) => port.next_live(number).unwrap_or(0),
            _ => stream.planned.program.next(),
        }
    }

    /// Informs the others that this worker sends no more.
    fn end_sending(&self) {
        for stream in &self.streams {
            self.plan.parts[stream.planned.part]
                .horizon
                .finish(self.next(stream));
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
        let mut closed = self.account.close();
        for port in closed
            .ports
            .iter_mut()
            .filter(|port| port.last_ns.is_some_and(|at| at < sent_ns))
        {
            port.heard(sent_ns);
        }
        let sent = self.streams.into_iter().map(|stream| SentPart {
            part: stream.planned.part,
            refused: stream.refused,
            refused_ns: stream.refused_ns,
            sent: stream.sent,
            mean_len: stream.planned.program.mean_len(),
            // The kernel numbers also those that the interface refuses.
            contiguous: stream.live.is_none() || stream.refused == 0,
            pacer: stream.planned.pacer,
        });
        let ports = self.ports.iter_mut().zip(self.transmitted);
        let ports = ports.zip(closed.ports).zip(baselines);
        let ports = ports.map(|(((own, transmitted), counts), before)| {
            ports::account(own, transmitted, counts, &before)
        });
        Share {
            stopped: self.stopped,
            start_ns: self.start_ns,
            sent_ns,
            end_ns: self.now_ns,
            sent: sent.collect(),
            received: closed.streams,
            slices: Vec::new(),
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
