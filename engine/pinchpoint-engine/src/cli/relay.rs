//! `relay`: ports joined in pairs until somebody says stop.
//!
//! It measures nothing, so it is no conversation: one thread waits for signals,
//! one moves frames, and the main one reports.

use super::ports::Ports;
use super::ranges::Side;
use super::relay_account::Told;
use super::relay_args::{RelayArgs, idle_word};
use super::table::Paint;
use super::{Failure, print, print_json};
use crate::protocol::OpenRequest;
use crate::session::allowed_cores;
use crate::{convert, usage};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use pinchpoint_port::{AnyPort, OpenError, Patience, Port, ThreadGuard, sched};
use pinchpoint_worker::Clock;
use pinchpoint_worker::relay::{self, Account, Control, End, Settings};
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

const LINK_POLL: Duration = Duration::from_millis(10);

/// What reaches the main thread.
enum Event {
    /// A signal, or the end of input, that ends the relay.
    Stop,
    /// Somebody wants the account so far.
    Ask,
    SoFar(Box<Account>),
    /// The relay has ended, for this reason if it never began.
    Ended(Result<Box<Account>, String>),
}

/// Runs `relay`; returns the exit status.
///
/// # Errors
/// What is wrong with the command line, or which port could not be opened.
pub(super) fn run(args: &RelayArgs, out: &mut File) -> Result<u8, Failure> {
    if !args.ports.len().is_multiple_of(2) {
        return Err(Failure::usage(format!(
            "{} ports: expected an even number, since a relay joins ports in pairs",
            args.ports.len()
        )));
    }
    let mut ports = Ports::default();
    for port in &args.ports {
        ports.add(port, Side::From);
    }
    let request = ports.open(&args.engine(), &allowed_cores())?;
    let cancelled = Arc::new(AtomicBool::new(false));
    let (tell, events) = channel();
    watch_signals(tell.clone(), Arc::clone(&cancelled))?;
    if args.until_eof {
        watch_input(tell.clone(), Arc::clone(&cancelled))?;
    }
    let Some(pairs) = open(&request, &cancelled)? else {
        return Ok(usage::EXIT_DONE);
    };
    let settings = Settings {
        idle: args.idle,
        patience_ns: (args.patience * 1e9) as u64,
    };
    let core = request.workers[0].core;
    let control = Arc::new(Control::default());
    start(pairs, settings, core, &control, tell)?;
    print(out, "ready\n");
    let told = |account: &Account| Told::new(account, core, idle_word(args.idle));
    attend(&events, &control, |account| {
        if args.json {
            print_json(out, &told(account));
        } else {
            let paint = Paint::of(out.is_terminal());
            print(out, &told(account).tables(paint));
        }
    })
}

/// Prints accounts until the relay has ended.
fn attend(
    events: &Receiver<Event>,
    control: &Control,
    mut told: impl FnMut(&Account),
) -> Result<u8, Failure> {
    loop {
        match events.recv() {
            Ok(Event::Stop) => control.stop(),
            Ok(Event::Ask) => control.ask(),
            Ok(Event::SoFar(account)) => told(&account),
            Ok(Event::Ended(Ok(account))) => {
                told(&account);
                return Ok(usage::EXIT_DONE);
            }
            Ok(Event::Ended(Err(why))) => return Err(Failure::failed(why)),
            Err(_) => {
                return Err(Failure::failed(
                    "the relay's thread failed; its message is above",
                ));
            }
        }
    }
}

/// Opens the ports and waits for their links; none if a signal came first.
fn open(
    request: &OpenRequest,
    cancelled: &AtomicBool,
) -> Result<Option<Vec<[End<AnyPort>; 2]>>, Failure> {
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
    let ends = opened.zip(&request.ports).map(|(port, asked)| End {
        name: asked.name.clone(),
        port,
    });
    let mut ends: Vec<End<AnyPort>> = ends.collect();
    if !await_links(&mut ends, patience)? {
        return Ok(None);
    }
    let mut ends = ends.into_iter();
    let pair = || Some([ends.next()?, ends.next()?]);
    Ok(Some(std::iter::from_fn(pair).collect()))
}

fn missing(error: OpenError) -> Failure {
    Failure {
        status: usage::EXIT_MISSING,
        message: error.message,
        hint: error.hint,
    }
}

/// Waits until every link is up; false if a signal came first.
fn await_links(ends: &mut [End<AnyPort>], patience: Patience<'_>) -> Result<bool, Failure> {
    loop {
        let mut down = ends.iter_mut();
        let Some(down) = down.find_map(|end| (!end.port.link_up()).then_some(&end.name)) else {
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

/// Starts the thread that moves frames.
fn start(
    pairs: Vec<[End<AnyPort>; 2]>,
    settings: Settings,
    core: usize,
    control: &Arc<Control>,
    tell: Sender<Event>,
) -> io::Result<()> {
    let control = Arc::clone(control);
    let clock = Clock::new();
    let work = move || {
        let _guard = ThreadGuard::new();
        let ready = sched::pin(core).map_err(|error| format!("cannot pin to core {core}: {error}"));
        let ended = ready.map(|()| {
            // The kernel rounds sleeps up by 50 us otherwise (prctl(2), PR_SET_TIMERSLACK).
            let _ = prctl::set_timerslack(1);
            let so_far = |account| {
                let _ = tell.send(Event::SoFar(Box::new(account)));
            };
            Box::new(relay::run(pairs, settings, &clock, &control, so_far))
        });
        let _ = tell.send(Event::Ended(ended));
    };
    thread::Builder::new()
        .name("relay".to_owned())
        .spawn(work)?;
    Ok(())
}

/// Blocks the signals that are for the relay in every thread started later, and
/// tells them.
fn watch_signals(tell: Sender<Event>, cancelled: Arc<AtomicBool>) -> io::Result<()> {
    let mut awaited = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1] {
        awaited.add(signal);
    }
    awaited.thread_block()?;
    let watch = move || {
        while let Ok(signal) = awaited.wait() {
            let event = if signal == Signal::SIGUSR1 {
                Event::Ask
            } else {
                cancelled.store(true, Ordering::Relaxed);
                Event::Stop
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

/// Reports the end of input.
fn watch_input(tell: Sender<Event>, cancelled: Arc<AtomicBool>) -> io::Result<()> {
    let watch = move || {
        let mut bytes = [0; 256];
        while matches!(io::stdin().read(&mut bytes), Ok(count) if count > 0) {}
        cancelled.store(true, Ordering::Relaxed);
        let _ = tell.send(Event::Stop);
    };
    let name = thread::Builder::new().name("stdin".to_owned());
    name.spawn(watch)?;
    Ok(())
}
