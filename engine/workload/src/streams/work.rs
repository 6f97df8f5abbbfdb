//! The streams of one worker.

use super::hold::ReleaseAtEnd;
use super::keep::Recorder;
use super::live::{Live, Sample};
use super::outcome::{LoopOutcome, SentPart, Share};
use super::plan::{Part, Plan, PlannedStream};
use super::ports::{self, Baseline, Every, Transmitted, live_number};
use super::send::{Keeping, Plain};
use super::slices::Slicer;
use super::stage::{AllSent, Stage};
use pinchpoint_port::{Port, ThreadGuard};
use pinchpoint_traffic::account::{Account, Expected, Sender, Settings as AccountSettings};
use pinchpoint_wire::answer;
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_worker::replies::Offer;
use pinchpoint_worker::witness::{Disturbance, frequency_hz};
use pinchpoint_worker::{Clock, Core, Idle, Replies, Settings, Step, Worker, WorkerPort, Workload};
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

/// Frames made at once by the kernel at most: a call costs microseconds beyond
/// them.
const LIVE_BURST: u64 = 2048;
/// The loop never waits: the core belongs to it alone. An answer that its port
/// does not take is dropped, and the neighbour asks again.
const LOOP: Settings = Settings {
    idle: Idle::Next,
    reply_timeout_ns: 0,
};

/// Runs worker number `index` of `plan` with its `ports`.
pub(super) fn run(
    index: usize,
    ports: &mut [WorkerPort],
    plan: &Plan,
    clock: &Clock,
    (live, tell): (&Live, &dyn Fn(Stage)),
) -> Share {
    let _guard = ThreadGuard::new();
    let baselines: Vec<_> = ports.iter_mut().map(Baseline::of).collect();
    let core = plan.workers[index].core;
    let hold = plan.slices.as_ref().and_then(|slices| slices.hold.clone());
    let _released = hold.map(ReleaseAtEnd);
    let mut streams = Streams::new(index, ports, plan, (live, tell), baselines);
    // All workers start at the same instant.
    let start_ns = live.await_start(|| clock.now_ns());
    streams.start_ns = start_ns.unwrap_or_else(|| clock.now_ns());
    let mut worker = Worker::new(ports, streams, LOOP, clock);
    let disturbance = Disturbance::now(core);
    worker.run();
    let disturbance = Disturbance::now(core).since(&disturbance);
    let mut share = worker.close();
    share.worker.disturbance = disturbance;
    share
}

/// One stream under way.
pub(super) struct Stream {
    pub(super) planned: PlannedStream,
    /// Its number at its port, if the kernel makes its frames.
    pub(super) live: Option<usize>,
    pub(super) refused: u64,
    refused_ns: Option<u64>,
    sent: u64,
}

/// The streams of one worker, and what it received of all.
pub(super) struct Streams<'a> {
    pub(super) index: usize,
    pub(super) plan: &'a Plan,
    pub(super) live: &'a Live,
    pub(super) tell: &'a dyn Fn(Stage),
    pub(super) own: Vec<Stream>,
    /// Those of `own` that are sent now.
    pub(super) active: Range<usize>,
    /// How long these were not sent: their pacers know nothing of that time.
    pub(super) idle_ns: u64,
    pub(super) slicer: Option<Slicer<'a>>,
    /// When the slices have something to do, after the start.
    pub(super) slice_at_ns: u64,
    /// By port of this worker.
    transmitted: Vec<Transmitted>,
    baselines: Vec<Baseline>,
    pub(super) account: Account,
    recorder: Recorder,
    /// By port of this worker: its number in the session, and for which
    /// addresses it answers.
    numbers: Vec<usize>,
    answers: Vec<HashMap<IpAddr, Mac>>,
    pub(super) start_ns: u64,
    /// Whether sending waits for `go`.
    waits: bool,
    stopped: bool,
    /// Whether the ports' links are up.
    asks: Every,
    /// Whether another worker may receive what this one sends.
    shared: bool,
    /// What is known once sending is over.
    pub(super) sent: Option<AllSent>,
}

impl<'a> Streams<'a> {
    fn new(
        index: usize,
        ports: &[WorkerPort],
        plan: &'a Plan,
        (live, tell): (&'a Live, &'a dyn Fn(Stage)),
        baselines: Vec<Baseline>,
    ) -> Self {
        let place = |wanted: usize| ports.iter().position(|own| own.index == wanted);
        let expected = |part: &Part| Expected {
            id: part.id,
            rx_ports: part.rx_ports.iter().copied().filter_map(place).collect(),
            is_expected: !part.rx_ports.is_empty(),
            flow_count: part.flow_count,
            frames: part.frames,
            sender: if part.worker == Some(index) {
                Sender::Here
            } else {
                Sender::Elsewhere(Arc::clone(&part.sent_bound))
            },
            verify_checksums: part.verify_checksums,
            flows: part.flows,
            unsigned: part.unsigned.clone(),
        };
        let expected: Vec<_> = plan.parts.iter().map(expected).collect();
        let settings = AccountSettings {
            epoch: plan.epoch,
            latency_every: plan.latency_every,
            jitter: plan.jitter,
        };
        let streams: Vec<usize> = plan.parts.iter().map(|part| part.stream).collect();
        let account = Account::of_parts(&settings, &expected, &streams, ports.len());
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
            live,
            tell,
            waits: plan.peer_timeout_ns.is_some(),
            active: 0..streams.len(),
            idle_ns: 0,
            slice_at_ns: if slicer.is_some() { 0 } else { u64::MAX },
            slicer,
            own: streams,
            transmitted: vec![Transmitted::default(); ports.len()],
            baselines,
            account,
            recorder: Recorder::new(plan.capture),
            numbers: ports.iter().map(|own| own.index).collect(),
            answers: ports.iter().map(|own| own.answers.clone()).collect(),
            start_ns: 0,
            stopped: false,
            asks: Every::new(ports::ASK_NS),
            shared: plan.workers.len() > 1,
            sent: None,
        }
    }

    /// What of each part this worker has sent and received.
    fn publish_parts(&self) {
        for stream in &self.own {
            let part = stream.planned.part;
            self.live.publish_sent(self.index, part, stream.sent);
        }
        for part in 0..self.plan.parts.len() {
            let received = self.account.received_of(part);
            self.live.publish_received(self.index, part, received);
        }
    }

    /// Ends the trial where a port has failed.
    fn ask_ports(&self, core: &mut Core<'_>) {
        for own in core.ports.iter_mut() {
            if let Some(why) = own.port.failure() {
                self.live.fail(format!("{}: {why}", own.name));
            }
        }
    }

    /// Whether sending still has to wait. The time of the trial begins with it; what
    /// was received before is of the trial, how the loop went is not.
    #[cold]
    #[inline(never)]
    fn awaits_go(&mut self, core: &mut Core<'_>) -> bool {
        let go_ns = self.live.go_ns().filter(|&at| core.now_ns >= at);
        let stopped_ns = self.live.stopped().then_some(core.now_ns);
        let Some(start_ns) = go_ns.or(stopped_ns) else {
            self.wait(core.now_ns - self.start_ns, "go");
            return true;
        };
        self.start_ns = start_ns;
        core.begin_anew(start_ns);
        self.waits = false;
        false
    }

    /// Ends the trial if it has waited too long to hear `word`.
    pub(super) fn wait(&self, waited_ns: u64, word: &str) {
        let most_ns = self.plan.peer_timeout_ns.unwrap_or(u64::MAX);
        if waited_ns > most_ns {
            let waited_s = waited_ns / 1_000_000_000;
            self.live
                .fail(format!("it waited for `{word}` for {waited_s} s"));
        }
    }

    /// Sends what is due; false if sending is over.
    #[inline(always)]
    fn sends(&mut self, core: &mut Core<'_>) -> Option<usize> {
        let elapsed_ns = core.now_ns - self.start_ns;
        if self.live.stopped() {
            self.stopped = true;
            self.cut(elapsed_ns);
            return None;
        }
        if elapsed_ns >= self.slice_at_ns {
            self.turn_slices(core, elapsed_ns);
        }
        if elapsed_ns >= self.plan.duration_ns && self.all_offered() {
            return None;
        }
        Some(self.transmit(core, elapsed_ns))
    }

    /// Whether no paced stream has frames left; unpaced ones never had. What a
    /// group did not offer in its slices is not made up for in another's.
    fn all_offered(&self) -> bool {
        let done = |stream: &Stream| {
            let pacer = &stream.planned.pacer;
            !pacer.is_paced() || pacer.is_done()
        };
        self.own[self.active.clone()].iter().all(done)
    }

    #[inline(always)]
    fn transmit(&mut self, core: &mut Core<'_>, elapsed_ns: u64) -> usize {
        let elapsed_ns = elapsed_ns.min(self.plan.duration_ns);
        let over = elapsed_ns == self.plan.duration_ns;
        let mut bursts = 0;
        let elapsed_ns = elapsed_ns.saturating_sub(self.idle_ns);
        for index in self.active.clone() {
            let stream = &mut self.own[index];
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
                None => self.send(core, index, due),
                Some(number) => self.send_live(core, index, number, due),
            };
            let stream = &mut self.own[index];
            if offered > sent {
                stream.refused += offered - sent;
                stream.refused_ns = Some(core.now_ns);
            }
            stream.sent += sent;
            stream.planned.pacer.offer(offered);
            let transmitted = &mut self.transmitted[stream.planned.tx_port];
            transmitted.sent += sent;
            transmitted.refused += offered - sent;
            transmitted.full += u64::from(sent < due);
            bursts += usize::from(offered > 0);
        }
        bursts
    }

    /// Sends `due` frames of a stream; returns how many were offered, and how
    /// many of them the port took. A frame without a time of its own is not
    /// refused but offered again, as another frame, in a later turn.
    #[inline(always)]
    fn send(&mut self, core: &mut Core<'_>, index: usize, due: u64) -> (u64, u64) {
        let planned = &mut self.own[index].planned;
        let (part, program) = (planned.part, &mut planned.program);
        let own = &mut core.ports[planned.tx_port];
        let (first, port) = (program.next(), &mut own.port);
        if self.shared {
            // Before the frames can arrive elsewhere.
            self.plan.parts[part].sent_bound.reach(first + due);
        }
        let time_ns = core.clock.now_ns();
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
        let again = planned.pacer.offers_again();
        (if again { taken } else { due }, taken)
    }

    /// Has the kernel make and send `due` frames of the port's stream `number`.
    /// Each has a number of its own, also one that the interface refuses.
    fn send_live(
        &mut self,
        core: &mut Core<'_>,
        index: usize,
        number: usize,
        due: u64,
    ) -> (u64, u64) {
        let planned = &self.own[index].planned;
        let clock = core.clock;
        let Some(port) = core.ports[planned.tx_port].port.live() else {
            return (0, 0);
        };
        let next = port.next_live(number).unwrap_or(0);
        if self.shared {
            self.plan.parts[planned.part].sent_bound.reach(next + due);
        }
        let made = port.send_live(number, due, || clock.now_ns());
        self.account.sent(planned.part, next + made.frames);
        (made.frames, made.frames - made.refused)
    }

    /// A frame without the engine's signature, which `port` delivered: counts
    /// it if it is of a replay, answers it if it asks for one of the port's
    /// addresses.
    #[cold]
    #[inline(never)]
    fn foreign(&mut self, port: usize, frame: &[u8], replies: &mut Replies) {
        if self.account.unsigned(port, frame) {
            return;
        }
        let Some(target) = answer::target(frame) else {
            return;
        };
        let Some(&mac) = self.answers[port].get(&target) else {
            return;
        };
        let mut out = [0; answer::MAX_LEN];
        let Some(len) = answer::reply(frame, (target, mac), &mut out) else {
            return;
        };
        if replies.push(port, len, |reply| reply.copy_from_slice(&out[..len])) {
            self.account.not_foreign(port);
        }
    }
}

impl Workload for Streams<'_> {
    type Outcome = Share;

    fn longest_reply(&self, core: &Core<'_>, port: usize) -> usize {
        if core.ports[port].answers.is_empty() {
            return 0;
        }
        answer::MAX_LEN
    }

    #[inline(always)]
    fn poll(&mut self, core: &mut Core<'_>) -> Step {
        if self.waits && self.awaits_go(core) {
            return Step::Sent(0);
        }
        if self.sent.is_none() {
            if let Some(bursts) = self.sends(core) {
                return Step::Sent(bursts);
            }
            self.end_sending(core);
        }
        if self.drains(core) {
            Step::Sent(0)
        } else {
            Step::End
        }
    }

    #[inline(always)]
    fn on_burst(&mut self, port: usize, _count: usize, now_ns: u64) {
        self.account.burst(port, now_ns);
    }

    #[inline(always)]
    fn on_frame(&mut self, port: usize, frame: &[u8], now_ns: u64, replies: &mut Replies) {
        if self.recorder.is_open() {
            self.recorder.received(self.numbers[port], now_ns, frame);
        }
        if !self.account.frame(port, frame, now_ns) {
            self.foreign(port, frame, replies);
        }
    }

    fn on_replies(&mut self, port: usize, offer: Offer, _fresh: bool) {
        self.transmitted[port].answered += offer.sent;
    }

    #[inline(never)]
    fn publish(&mut self, core: &mut Core<'_>) {
        let offered = |stream: &Stream| stream.planned.pacer.offered();
        // The kernel numbers also those that the interface refuses: they are overtaken.
        let refused = |stream: &Stream| stream.live.map_or(stream.refused, |_| 0);
        let sample = Sample {
            offered: self.own.iter().map(offered).sum(),
            sent: self.transmitted.iter().map(|port| port.sent).sum(),
            received: if self.plan.streams == 0 {
                self.account.arrived()
            } else {
                self.account.received()
            },
            lost: self.own.iter().map(refused).sum::<u64>() + self.account.missing(),
            gaps_ns: core.gaps.over_total_ns(),
            gap_max_ns: core.gaps.take_recent_max_ns(),
        };
        if !self.waits {
            self.live.publish(self.index, sample);
            self.publish_parts();
        }
        if self.asks.is_due(core.now_ns) {
            self.ask_ports(core);
        }
    }

    fn close(self, core: Core<'_>) -> Share {
        let (sent_ns, busy_share, slices) = match self.sent {
            Some(sent) => (sent.at_ns, sent.busy_share, sent.slices),
            None => (core.now_ns, 0.0, Vec::new()),
        };
        let mut closed = self.account.close();
        for port in closed
            .ports
            .iter_mut()
            .filter(|port| port.last_ns.is_some_and(|at| at < sent_ns))
        {
            port.heard(sent_ns);
        }
        let sent = self.own.into_iter().map(|stream| SentPart {
            part: stream.planned.part,
            refused: stream.refused,
            refused_ns: stream.refused_ns,
            sent: stream.sent,
            mean_len: stream.planned.program.mean_len(),
            // The kernel numbers also those that the interface refuses.
            contiguous: (stream.live.is_none() || stream.refused == 0)
                && stream.planned.program.is_contiguous(),
            pacer: stream.planned.pacer,
        });
        let ports = core.ports.iter_mut().zip(self.transmitted);
        let ports = ports.zip(closed.ports).zip(self.baselines);
        let ports = ports.zip(core.received);
        let ports = ports.map(|((((own, transmitted), counts), before), received)| {
            ports::account(own, transmitted, (counts, received), &before)
        });
        let number = self.plan.workers[self.index].core;
        Share {
            stopped: self.stopped,
            start_ns: self.start_ns,
            sent_ns,
            end_ns: core.now_ns,
            sent: sent.collect(),
            received: closed.streams,
            misdelivered: closed.misdelivered,
            slices,
            ports: ports.collect(),
            worker: LoopOutcome {
                core: number,
                start_ns: self.start_ns,
                turns: core.turns,
                busy_share,
                gaps: core.gaps,
                disturbance: Disturbance::NONE,
                frequency_hz: frequency_hz(number),
            },
            captured: self.recorder.close(),
        }
    }
}
