//! The hot loop.

use crate::clock::Clock;
use crate::outcome::{LoopOutcome, Outcome, PortOutcome, StreamOutcome};
use crate::plan::{Live, Plan, PlannedStream, Sample, TX_BURST};
use crate::witness::Disturbance;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use pinchpoint_port::{AnyPort, Port, Sink, Source, ThreadGuard};
use pinchpoint_traffic::account::Account;
use pinchpoint_traffic::gaps::GapRecorder;
use pinchpoint_traffic::program::{BurstSender, FrameWriter};
use std::sync::Arc;
use std::thread::JoinHandle;

/// How often the counters are published.
const PUBLISH_NS: u64 = 1_000_000;

/// A trial under way.
pub struct Running {
    thread: JoinHandle<(Vec<AnyPort>, Result<Outcome, String>)>,
}

impl Running {
    /// Whether [`join`](Self::join) would not wait.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end; gives the ports back with the account. None if the
    /// worker died, and the ports with it.
    pub fn join(self) -> Option<(Vec<AnyPort>, Result<Outcome, String>)> {
        self.thread.join().ok()
    }
}

/// Calls what it holds when it goes, also when a panic unwinds past it.
struct Finally<F: FnMut()>(F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Starts a trial in a thread of its own, pinned to the plan's core; `done` is
/// called there when the trial has ended, however it ended.
///
/// # Errors
/// The system's, if it makes no thread.
pub fn start(
    ports: Vec<AnyPort>,
    plan: Plan,
    clock: Clock,
    live: Arc<Live>,
    done: impl FnMut() + Send + 'static,
) -> std::io::Result<Running> {
    let thread = std::thread::Builder::new()
        .name("worker".to_owned())
        .spawn(move || {
            let _done = Finally(done);
            let mut ports = ports;
            let outcome = pin(plan.core).map(|()| run(&mut ports, plan, &clock, &live));
            (ports, outcome)
        })?;
    Ok(Running { thread })
}

fn pin(core: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|error| format!("pin the worker to core {core}: {error}"))
}

/// Counters of a port read before the trial, to take differences from.
struct Baseline {
    rx_missed: Option<u64>,
    stats: Vec<(String, u64)>,
}

fn run(ports: &mut [AnyPort], plan: Plan, clock: &Clock, live: &Live) -> Outcome {
    let _guard = ThreadGuard::new();
    let baseline = |port: &mut AnyPort| Baseline {
        rx_missed: port.rx_missed(),
        stats: port.stats(),
    };
    let baselines: Vec<_> = ports.iter_mut().map(baseline).collect();
    let (core, drain_ns) = (plan.core, plan.drain_ns);
    let disturbance = Disturbance::now(core);
    let mut worker = Worker::new(ports, plan, clock, live);
    worker.send_and_receive();
    let sent_ns = worker.now_ns;
    let busy_share = worker.busy_share();
    worker.drain(sent_ns.saturating_add(drain_ns));
    let disturbance = Disturbance::now(core).since(&disturbance);
    worker.close(sent_ns, busy_share, core, disturbance, baselines)
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
}

/// All state of the loop.
struct Worker<'a> {
    ports: &'a mut [AnyPort],
    clock: &'a Clock,
    live: &'a Live,
    streams: Vec<Stream>,
    transmitted: Vec<Transmitted>,
    account: Account,
    gaps: GapRecorder,
    start_ns: u64,
    duration_ns: u64,
    /// The clock at the beginning of this turn.
    now_ns: u64,
    publish_at_ns: u64,
    turns: u64,
    busy: bool,
    busy_ns: u64,
    stopped: bool,
}

/// Accounts the frames of one burst.
struct Receiver<'a> {
    account: &'a mut Account,
    clock: &'a Clock,
    port: usize,
    now_ns: u64,
}

impl Sink for Receiver<'_> {
    #[inline(always)]
    fn arrived(&mut self, _count: usize) {
        self.now_ns = self.clock.now_ns();
    }

    #[inline(always)]
    fn frame(&mut self, frame: &[u8]) {
        self.account.frame(self.port, frame, self.now_ns);
    }
}

/// Offers one burst to a port.
struct Offer<'a> {
    port: &'a mut AnyPort,
    count: usize,
}

impl BurstSender for Offer<'_> {
    #[inline(always)]
    fn send<W: FrameWriter>(self, writer: &mut W) -> u64 {
        self.port.send(self.count, Writer(writer)) as u64
    }
}

/// The frames of a program as a port asks for them.
struct Writer<'a, W>(&'a mut W);

impl<W: FrameWriter> Source for Writer<'_, W> {
    #[inline(always)]
    fn len(&self, index: usize) -> usize {
        self.0.len(index)
    }

    #[inline(always)]
    fn frame(&mut self, index: usize, frame: &mut [u8]) {
        self.0.write(index, frame);
    }
}

impl<'a> Worker<'a> {
    fn new(ports: &'a mut [AnyPort], plan: Plan, clock: &'a Clock, live: &'a Live) -> Self {
        let expected: Vec<_> = plan.streams.iter().map(|s| (s.id, s.rx_port)).collect();
        let account = Account::new(plan.epoch, plan.verify_checksums, &expected, ports.len());
        let stream = |planned| Stream {
            planned,
            refused: 0,
        };
        let streams: Vec<_> = plan.streams.into_iter().map(stream).collect();
        let transmitted = vec![Transmitted::default(); ports.len()];
        let start_ns = clock.now_ns();
        Self {
            ports,
            clock,
            live,
            streams,
            transmitted,
            account,
            gaps: GapRecorder::new(start_ns),
            start_ns,
            duration_ns: plan.duration_ns,
            now_ns: start_ns,
            publish_at_ns: start_ns,
            turns: 0,
            busy: false,
            busy_ns: 0,
            stopped: false,
        }
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
            if elapsed_ns >= self.duration_ns && self.all_offered() {
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

    fn drain(&mut self, until_ns: u64) {
        loop {
            self.receive();
            self.begin_turn();
            if self.now_ns >= until_ns || self.live.aborted() {
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
        self.live.publish(Sample {
            offered: self.streams.iter().map(offered).sum(),
            sent: self.transmitted.iter().map(|port| port.sent).sum(),
            received: self.account.received(),
        });
    }

    #[inline(always)]
    fn receive(&mut self) -> bool {
        let mut any = false;
        for (index, port) in self.ports.iter_mut().enumerate() {
            let mut receiver = Receiver {
                account: &mut self.account,
                clock: self.clock,
                port: index,
                now_ns: 0,
            };
            any |= port.receive(&mut receiver) > 0;
        }
        any
    }

    #[inline(always)]
    fn transmit(&mut self, elapsed_ns: u64) -> bool {
        let elapsed_ns = elapsed_ns.min(self.duration_ns);
        let mut any = false;
        for (index, stream) in self.streams.iter_mut().enumerate() {
            let PlannedStream {
                program,
                pacer,
                tx_port,
                ..
            } = &mut stream.planned;
            if elapsed_ns == self.duration_ns && !pacer.is_paced() {
                continue;
            }
            let due = pacer.due(elapsed_ns, TX_BURST as u64);
            if due == 0 {
                continue;
            }
            let first = program.next();
            let time_ns = self.clock.now_ns();
            let port = &mut self.ports[*tx_port];
            let count = due as usize;
            let taken = program.send(time_ns, Offer { port, count });
            let transmitted = &mut self.transmitted[*tx_port];
            transmitted.sent += taken;
            if taken < due {
                transmitted.full += 1;
            }
            // A frame without a time of its own is not refused but offered
            // again, as another frame, in a later turn.
            let refused = if pacer.is_paced() { due - taken } else { 0 };
            stream.refused += refused;
            transmitted.refused += refused;
            pacer.offer(taken + refused);
            self.account.sent(index, first + taken);
            any |= taken + refused > 0;
        }
        any
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
        core: usize,
        disturbance: Disturbance,
        baselines: Vec<Baseline>,
    ) -> Outcome {
        let (stream_accounts, port_counts) = self.account.close();
        let streams = self.streams.into_iter().zip(stream_accounts);
        let streams = streams.map(|(stream, (counts, latency))| StreamOutcome {
            id: stream.planned.id,
            tx_port: stream.planned.tx_port,
            rx_port: stream.planned.rx_port,
            refused: stream.refused,
            sent: stream.planned.program.next(),
            pacer: stream.planned.pacer,
            counts,
            latency,
        });
        let ports = self.ports.iter_mut().zip(self.transmitted);
        let ports = ports.zip(port_counts).zip(baselines);
        let ports = ports.map(|(((port, transmitted), counts), before)| PortOutcome {
            sent: transmitted.sent,
            refused: transmitted.refused,
            full: transmitted.full,
            counts,
            rx_missed: difference(port.rx_missed(), before.rx_missed),
            stats: stats_since(port.stats(), &before.stats),
        });
        Outcome {
            stopped: self.stopped,
            duration_ns: sent_ns - self.start_ns,
            drain_ns: self.now_ns - sent_ns,
            streams: streams.collect(),
            ports: ports.collect(),
            worker: LoopOutcome {
                core,
                start_ns: self.start_ns,
                turns: self.turns,
                busy_share,
                gaps: self.gaps,
                disturbance,
            },
        }
    }
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
