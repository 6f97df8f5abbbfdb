//! Commands that run a workload until somebody says stop.
//!
//! They are no conversation: one thread waits for signals, one for each core runs the
//! workload, and the main one reports.

use super::engine_args::EngineArgs;
use super::ports::Ports;
use super::ranges::Side;
use super::standing_args::StandingArgs;
use super::{Failure, print};
use crate::protocol::OpenRequest;
use crate::session::allowed_cores;
use crate::standing::{Crew, Told};
use crate::{convert, usage};
use nix::sys::signal::{SigSet, Signal};
use pinchpoint_port::{Deadline, OpenError, Port, Stamps};
use pinchpoint_wire::FCS_LEN;
use pinchpoint_worker::standing::{Control, Standing};
use pinchpoint_worker::{Clock, Settings, WorkerPort};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Who prints what a workload has to say.
pub(super) trait Report<A> {
    /// The accounts of all cores, and which cores these are.
    fn accounts(&mut self, accounts: &[A], cores: &[usize], out: &mut File);

    /// Called between accounts, again after the time that it returns; none: never.
    fn meanwhile(&mut self, _out: &mut File) -> Option<Duration> {
        None
    }
}

impl<A, F: FnMut(&A, usize, &mut File)> Report<A> for F {
    fn accounts(&mut self, accounts: &[A], cores: &[usize], out: &mut File) {
        for (account, &core) in accounts.iter().zip(cores) {
            self(account, core, out);
        }
    }
}

/// The cores of a workload that may have several, with a queue of every port each.
pub(super) struct Cores<'a> {
    /// Their numbers, one for each worker; one number may come again.
    pub numbers: &'a [usize],
    /// Whether they hand frames to one another: behind its own ports, each then has one to every
    /// other, in their order.
    pub linked: bool,
}

const LINK_POLL: Duration = Duration::from_millis(10);
/// The line on stdin that asks for the account so far.
const COUNTERS: &str = "counters";
/// The line on stdin that has a workload forget what it remembers, if it remembers anything.
const FLUSH: &str = "flush";

/// What reaches the main thread.
enum Event<A> {
    /// A signal, or the end of input, that ends the work.
    Stop,
    /// Somebody wants the account so far.
    Ask,
    /// Somebody wants it to forget.
    Forget,
    /// A worker's words.
    Worker(Told<A>),
}

/// Runs the workload that `make` makes of the open ports and the time, on the core
/// that `args` name, until it is stopped; returns the exit status. `report` gets
/// each account with that core.
///
/// # Errors
/// What is wrong with the command line, or which port could not be opened.
pub(super) fn run<S, A>(
    args: &StandingArgs,
    reply_timeout_ns: u64,
    out: &mut File,
    make: impl FnOnce(&[WorkerPort], u64) -> S + Send + 'static,
    report: impl Report<A>,
) -> Result<u8, Failure>
where
    S: Standing<Outcome = A>,
    A: Send + 'static,
{
    let cores = Cores {
        numbers: args.core.as_slice(),
        linked: false,
    };
    run_on(args, &cores, reply_timeout_ns, out, vec![make], report)
}

/// The same on several cores, or the one that there is: `make` has as many elements.
///
/// # Errors
/// What is wrong with the command line, or which port could not be opened.
pub(super) fn run_on<S, A>(
    args: &StandingArgs,
    cores: &Cores<'_>,
    reply_timeout_ns: u64,
    out: &mut File,
    make: Vec<impl FnOnce(&[WorkerPort], u64) -> S + Send + 'static>,
    mut report: impl Report<A>,
) -> Result<u8, Failure>
where
    S: Standing<Outcome = A>,
    A: Send + 'static,
{
    let mut ports = Ports::default();
    for port in &args.ports {
        ports.add(port, Side::From);
    }
    let engine = EngineArgs {
        cores: cores.numbers.to_vec(),
        queues: true,
        ..args.engine()
    };
    let mut request = ports.open(&engine, &allowed_cores())?;
    request.longest_frame_bytes = S::LONGEST_FRAME.map(|bytes| bytes + FCS_LEN);
    let cancelled = Arc::new(AtomicBool::new(false));
    let (tell, events) = channel();
    watch_signals(tell.clone(), Arc::clone(&cancelled), S::FORGETS)?;
    if args.until_eof {
        watch_input(tell.clone(), Arc::clone(&cancelled), S::FORGETS)?;
    }
    let Some(opened) = open(&request, &cancelled)? else {
        return Ok(usage::EXIT_DONE);
    };
    let settings = Settings {
        idle: args.idle,
        reply_timeout_ns,
    };
    let numbers: Vec<usize> = request.workers.iter().map(|worker| worker.core).collect();
    let controls: Vec<Arc<Control>> = numbers.iter().map(|_| Arc::default()).collect();
    let crew = Crew {
        ports: opened,
        make,
        controls: controls.clone(),
        linked: cores.linked,
        drained: false,
        settings,
        clock: Clock::new().in_order(&numbers),
        cores: numbers.clone(),
    };
    crew.start(move |told| {
        // The main thread is there until all have ended.
        let _ = tell.send(Event::Worker(told));
    })?;
    print(out, "ready\n");
    attend(&events, &controls, &mut report, &numbers, out)
}

/// Prints accounts until the work has ended on all cores.
fn attend<A>(
    events: &Receiver<Event<A>>,
    controls: &[Arc<Control>],
    report: &mut impl Report<A>,
    cores: &[usize],
    out: &mut File,
) -> Result<u8, Failure> {
    let mut so_far: Vec<VecDeque<A>> = cores.iter().map(|_| VecDeque::new()).collect();
    let mut ended: Vec<Option<A>> = cores.iter().map(|_| None).collect();
    let ask = |what: fn(&Control)| {
        for control in controls {
            what(control);
        }
    };
    loop {
        let event = match report.meanwhile(out) {
            None => events.recv().map_err(RecvTimeoutError::from),
            Some(wait) => events.recv_timeout(wait),
        };
        match event {
            Ok(Event::Stop) => ask(Control::stop),
            Ok(Event::Ask) => ask(Control::ask),
            Ok(Event::Forget) => ask(Control::forget),
            Ok(Event::Worker(Told::SoFar(worker, account))) => {
                so_far[worker].push_back(*account);
                if so_far.iter().all(|own| !own.is_empty()) {
                    let accounts = so_far.iter_mut().filter_map(VecDeque::pop_front);
                    report.accounts(&accounts.collect::<Vec<A>>(), cores, out);
                }
            }
            Ok(Event::Worker(Told::Ended(worker, Ok(done)))) => {
                ended[worker] = Some(done.account);
                if ended.iter().all(Option::is_some) {
                    let accounts: Vec<A> = ended.into_iter().flatten().collect();
                    report.accounts(&accounts, cores, out);
                    return Ok(usage::EXIT_DONE);
                }
            }
            Ok(Event::Worker(Told::Ended(_, Err(why)))) => return Err(Failure::failed(why)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::failed(
                    "the thread of the workload failed; its message is above",
                ));
            }
        }
    }
}

/// Opens the ports and waits for their links; returns each worker's queues, none if a signal came
/// first.
fn open(
    request: &OpenRequest,
    cancelled: &AtomicBool,
) -> Result<Option<Vec<Vec<WorkerPort>>>, Failure> {
    let refused = |error: crate::protocol::ErrorReply| Failure::usage(error.message);
    let (session, specs) = convert::shared_session(request, &allowed_cores()).map_err(refused)?;
    let deadline = Deadline {
        until: Instant::now() + Duration::from_secs_f64(request.link_timeout_s),
        cancelled,
    };
    let opened = pinchpoint_port::open(&session, &specs, deadline);
    if cancelled.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let opened = opened.map_err(missing)?.into_iter().zip(&request.ports);
    let mut workers: Vec<Vec<WorkerPort>> = request.workers.iter().map(|_| Vec::new()).collect();
    for (index, (queues, asked)) in opened.enumerate() {
        if queues.iter().any(|queue| queue.stamps() != Stamps::Engine) {
            let message = format!("{}: only send and listen take stamps=", asked.name);
            return Err(Failure::usage(message));
        }
        for (own, port) in workers.iter_mut().zip(queues) {
            own.push(WorkerPort {
                index,
                name: asked.name.clone(),
                port,
                answers: HashMap::new(),
            });
        }
    }
    Ok(await_links(&mut workers, deadline)?.then_some(workers))
}

pub(super) fn missing(error: OpenError) -> Failure {
    Failure {
        status: usage::EXIT_MISSING,
        message: error.message,
        hint: error.hint,
    }
}

/// Waits until every link is up; false if a signal came first.
fn await_links(workers: &mut [Vec<WorkerPort>], deadline: Deadline<'_>) -> Result<bool, Failure> {
    loop {
        let mut down = workers.iter_mut().flatten();
        let Some(down) = down.find_map(|own| (!own.port.link_up()).then_some(&own.name)) else {
            return Ok(true);
        };
        if deadline.cancelled.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if deadline.is_over() {
            let hint =
                "check that the other end is up; --link-timeout sets how long to wait for it";
            let message = format!("{down}: the link is down");
            return Err(missing(OpenError::link(message).hint(hint)));
        }
        thread::sleep(LINK_POLL);
    }
}

/// Blocks the signals that are for the workload in every thread started later, and
/// reports them.
fn watch_signals<A: Send + 'static>(
    tell: Sender<Event<A>>,
    cancelled: Arc<AtomicBool>,
    forgets: bool,
) -> io::Result<()> {
    let mut awaited = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1] {
        awaited.add(signal);
    }
    if forgets {
        awaited.add(Signal::SIGUSR2);
    }
    awaited.thread_block()?;
    let watch = move || {
        while let Ok(signal) = awaited.wait() {
            let event = match signal {
                Signal::SIGUSR1 => Event::Ask,
                Signal::SIGUSR2 => Event::Forget,
                _ => {
                    cancelled.store(true, Ordering::Relaxed);
                    Event::Stop
                }
            };
            if tell.send(event).is_err() {
                return;
            }
        }
    };
    let name = thread::Builder::new().name("signals".to_owned());
    name.spawn(watch)?;
    Ok(())
}

/// Reports the lines of input and its end.
fn watch_input<A: Send + 'static>(
    tell: Sender<Event<A>>,
    cancelled: Arc<AtomicBool>,
    forgets: bool,
) -> io::Result<()> {
    let watch = move || {
        for line in io::stdin().lock().split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line);
            if line.trim() == COUNTERS {
                let _ = tell.send(Event::Ask);
            } else if forgets && line.trim() == FLUSH {
                let _ = tell.send(Event::Forget);
            } else if !line.trim().is_empty() {
                let line = line.trim();
                eprintln!("pinchpoint-engine: stdin: '{line}': expected '{COUNTERS}'");
            }
        }
        cancelled.store(true, Ordering::Relaxed);
        let _ = tell.send(Event::Stop);
    };
    let name = thread::Builder::new().name("stdin".to_owned());
    name.spawn(watch)?;
    Ok(())
}
