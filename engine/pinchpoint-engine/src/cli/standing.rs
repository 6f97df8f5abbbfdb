//! Commands that run a workload until somebody says stop.
//!
//! They are no conversation: one thread waits for signals, one runs the
//! workload, and the main one reports.

use super::ports::Ports;
use super::ranges::Side;
use super::standing_args::StandingArgs;
use super::{Failure, print};
use crate::protocol::OpenRequest;
use crate::session::allowed_cores;
use crate::{convert, usage};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use pinchpoint_port::{OpenError, Patience, Port, ThreadGuard, sched};
use pinchpoint_wire::FCS_LEN;
use pinchpoint_worker::standing::{Control, Standing, UntilStopped};
use pinchpoint_worker::{Clock, Settings, Worker, WorkerPort};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Who prints what a workload has to say.
pub(super) trait Report<A> {
    /// An account, of this core.
    fn account(&mut self, account: &A, core: usize, out: &mut File);

    /// Called between accounts, again after the time that it returns; none: never.
    fn meanwhile(&mut self, _out: &mut File) -> Option<Duration> {
        None
    }
}

impl<A, F: FnMut(&A, usize, &mut File)> Report<A> for F {
    fn account(&mut self, account: &A, core: usize, out: &mut File) {
        self(account, core, out);
    }
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
    SoFar(Box<A>),
    /// The work has ended, for this reason if it never began.
    Ended(Result<Box<A>, String>),
}

/// Runs the workload that `make` makes of the open ports and the time, on the core
/// that `args` name, until it is stopped; returns the exit status. `report` gets
/// each account with that core.
///
/// # Errors
/// What is wrong with the command line, or which port could not be opened.
pub(super) fn run<S, A>(
    args: &StandingArgs,
    patience_ns: u64,
    out: &mut File,
    make: impl FnOnce(&[WorkerPort], u64) -> S + Send + 'static,
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
    let mut request = ports.open(&args.engine(), &allowed_cores())?;
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
        patience_ns,
    };
    let core = request.workers[0].core;
    let control = Arc::new(Control::default());
    start(opened, make, settings, core, &control, tell)?;
    print(out, "ready\n");
    attend(&events, &control, &mut report, core, out)
}

/// Prints accounts until the work has ended.
fn attend<A>(
    events: &Receiver<Event<A>>,
    control: &Control,
    report: &mut impl Report<A>,
    core: usize,
    out: &mut File,
) -> Result<u8, Failure> {
    loop {
        let event = match report.meanwhile(out) {
            None => events.recv().map_err(RecvTimeoutError::from),
            Some(wait) => events.recv_timeout(wait),
        };
        match event {
            Ok(Event::Stop) => control.stop(),
            Ok(Event::Ask) => control.ask(),
            Ok(Event::Forget) => control.forget(),
            Ok(Event::SoFar(account)) => report.account(&account, core, out),
            Ok(Event::Ended(Ok(account))) => {
                report.account(&account, core, out);
                return Ok(usage::EXIT_DONE);
            }
            Ok(Event::Ended(Err(why))) => return Err(Failure::failed(why)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::failed(
                    "the thread of the workload failed; its message is above",
                ));
            }
        }
    }
}

/// Opens the ports and waits for their links; none if a signal came first.
fn open(request: &OpenRequest, cancelled: &AtomicBool) -> Result<Option<Vec<WorkerPort>>, Failure> {
    let refused = |error: crate::protocol::ErrorReply| Failure::usage(error.message);
    let (session, specs) = convert::session(request, &allowed_cores()).map_err(refused)?;
    let patience = Patience {
        until: Instant::now() + Duration::from_secs_f64(request.link_timeout_s),
        cancelled,
    };
    let opened = pinchpoint_port::open(&session, &specs, patience);
    if cancelled.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let opened = opened.map_err(missing)?.into_iter().flatten();
    let ports = opened.zip(&request.ports).enumerate();
    let ports = ports.map(|(index, (port, asked))| WorkerPort {
        index,
        name: asked.name.clone(),
        port,
        answers: HashMap::new(),
    });
    let mut ports: Vec<WorkerPort> = ports.collect();
    Ok(await_links(&mut ports, patience)?.then_some(ports))
}

pub(super) fn missing(error: OpenError) -> Failure {
    Failure {
        status: usage::EXIT_MISSING,
        message: error.message,
        hint: error.hint,
    }
}

/// Waits until every link is up; false if a signal came first.
fn await_links(ports: &mut [WorkerPort], patience: Patience<'_>) -> Result<bool, Failure> {
    loop {
        let mut down = ports.iter_mut();
        let Some(down) = down.find_map(|own| (!own.port.link_up()).then_some(&own.name)) else {
            return Ok(true);
        };
        if patience.cancelled.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if patience.is_over() {
            let hint =
                "check that the other end is up; --link-timeout sets how long to wait for it";
            let message = format!("{down}: the link is down");
            return Err(missing(OpenError::link(message).hint(hint)));
        }
        thread::sleep(LINK_POLL);
    }
}

/// Starts the thread of the workload.
fn start<S, A>(
    mut ports: Vec<WorkerPort>,
    make: impl FnOnce(&[WorkerPort], u64) -> S + Send + 'static,
    settings: Settings,
    core: usize,
    control: &Arc<Control>,
    tell: Sender<Event<A>>,
) -> io::Result<()>
where
    S: Standing<Outcome = A>,
    A: Send + 'static,
{
    let control = Arc::clone(control);
    let clock = Clock::new();
    let work = move || {
        let _guard = ThreadGuard::new();
        let ready = sched::pin(core).map_err(|error| format!("cannot pin to core {core}: {error}"));
        let ended = ready.map(|()| {
            // The kernel rounds sleeps up by 50 us otherwise (prctl(2), PR_SET_TIMERSLACK).
            let _ = prctl::set_timerslack(1);
            let workload = UntilStopped {
                workload: make(&ports, clock.now_ns()),
                control: &control,
                report: |account| {
                    let _ = tell.send(Event::SoFar(Box::new(account)));
                },
            };
            let mut worker = Worker::new(&mut ports, workload, settings, &clock);
            worker.run();
            Box::new(worker.close())
        });
        let _ = tell.send(Event::Ended(ended));
    };
    thread::Builder::new()
        .name("workload".to_owned())
        .spawn(work)?;
    Ok(())
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
