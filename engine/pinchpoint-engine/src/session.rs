//! The conversation: what the engine holds, and what it does with each event.

use crate::convert::{self, Known};
use crate::input::{Event, Events};
use crate::protocol::{
    Empty, ErrorCode, ErrorReply, OpenReply, OpenRequest, Reply, Request, VERSION,
};
use crate::{parse, report, usage};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use pinchpoint_port::{Deadline, OpenError, OpenErrorKind, Port};
use pinchpoint_worker::{Clock, probe};
use pinchpoint_workload::streams::WorkersPorts;
use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

mod connections;
mod trial;
mod workload;

use connections::UnderWay;
use trial::Trial;
use workload::Workload;

const LINK_POLL: Duration = Duration::from_millis(10);

/// Ports and the workers that drive them.
struct OpenSession {
    link_timeout: Duration,
    known: Known,
    /// By worker; empty while a trial has them.
    ports: WorkersPorts,
}

/// Why the engine is about to exit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    Bye,
    End,
    Terminated,
}

struct Session {
    events: Events,
    out: File,
    clock: Clock,
    cores: Vec<usize>,
    open: Option<OpenSession>,
    trial: Option<Trial>,
    workload: Option<Workload>,
    load: Option<UnderWay>,
    leave: Option<Leave>,
    widest: probe::Widest,
}

/// Runs the conversation to its end; returns the exit status.
///
/// # Errors
/// The system's, when stdout is lost. A running trial is ended first.
pub fn run(events: Events, out: File) -> io::Result<u8> {
    let mut session = Session {
        events,
        out,
        clock: Clock::new(),
        cores: allowed_cores(),
        open: None,
        trial: None,
        workload: None,
        load: None,
        leave: None,
        widest: probe::Widest::default(),
    };
    let result = session.converse();
    if let Some(trial) = session.trial.take() {
        trial.live.abort();
        trial.running.join();
    }
    if let Some(workload) = session.workload.take() {
        workload.stop();
        // Its outcome can no longer be reported.
        let _ = workload.join();
    }
    if let Some(load) = session.load.take() {
        load.abandon();
    }
    result
}

/// The cores this process may use.
pub fn allowed_cores() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    let is_set = |&core: &usize| set.is_set(core).unwrap_or(false);
    (0..CpuSet::count()).filter(is_set).collect()
}

fn error(code: ErrorCode, message: impl Into<String>, hint: Option<&str>) -> ErrorReply {
    ErrorReply {
        code,
        message: message.into(),
        hint: hint.map(str::to_owned),
    }
}

fn open_error(failure: OpenError) -> ErrorReply {
    error(
        match failure.kind {
            OpenErrorKind::Port => ErrorCode::PortOpen,
            OpenErrorKind::Link => ErrorCode::LinkDown,
            OpenErrorKind::Memory => ErrorCode::NoMemory,
        },
        failure.message,
        failure.hint.as_deref(),
    )
}

/// Waits until every link is up. Asking is also what lets a vhost-user server
/// port notice that its client has come back.
fn await_links(
    ports: &mut WorkersPorts,
    known: &Known,
    deadline: Deadline<'_>,
) -> Result<(), ErrorReply> {
    loop {
        let queues = ports.iter_mut().flatten();
        let mut down: Vec<&str> = queues
            .filter_map(|own| (!own.port.link_up()).then_some(own.index))
            .map(|index| known.ports[index].name.as_str())
            .collect();
        down.dedup();
        if down.is_empty() {
            return Ok(());
        }
        if deadline.is_over() {
            return Err(error(
                ErrorCode::LinkDown,
                format!("{}: the link is down", down.join(", ")),
                Some("check that the other end is up; link_timeout_s sets how long to wait for it"),
            ));
        }
        std::thread::sleep(LINK_POLL);
    }
}

impl Session {
    fn converse(&mut self) -> io::Result<u8> {
        loop {
            match self.next_event() {
                Some(event) => self.react(event)?,
                None => self.sample()?,
            }
            if !self.is_busy()
                && let Some(leave) = self.leave
            {
                return self.part(leave);
            }
        }
    }

    /// The next event, or none when a sample is due first.
    fn next_event(&self) -> Option<Event> {
        let of_trial = self.trial.as_ref().and_then(|trial| trial.next_sample);
        let of_workload = self.workload.as_ref().and_then(Workload::next_sample);
        let of_load = self.load.as_ref().and_then(UnderWay::next_look);
        let next_sample = of_trial.or(of_workload).or(of_load);
        let Some(at) = next_sample else {
            return Some(self.events.receiver.recv().unwrap_or(Event::End));
        };
        let wait = at.saturating_duration_since(Instant::now());
        match self.events.receiver.recv_timeout(wait) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Event::End),
        }
    }

    fn react(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Line(line) => {
                let answer = parse::request(&line).and_then(|request| self.answer(request));
                match answer {
                    Ok(Some(reply)) => self.write(&reply),
                    Ok(None) => Ok(()),
                    Err(failure) => self.write(&Reply::Error(failure)),
                }
            }
            Event::BadLine(why) => {
                self.write(&Reply::Error(error(ErrorCode::Malformed, why, None)))
            }
            Event::End => {
                self.depart(Leave::End);
                Ok(())
            }
            Event::Terminated => {
                self.depart(Leave::Terminated);
                Ok(())
            }
            Event::TrialSent => self.tell_sent(),
            Event::TrialEnded if self.workload.is_some() => self.finish_workload(),
            Event::TrialEnded if self.load.is_some() => self.finish_load(),
            Event::TrialEnded => self.finish_trial(),
            Event::Listening(address) => self.tell_listening(address),
        }
    }

    fn depart(&mut self, leave: Leave) {
        // The end of input after `bye` says nothing new.
        if self.leave.is_some() && leave == Leave::End {
            return;
        }
        self.leave = Some(leave);
        let reason = match leave {
            Leave::Bye => None,
            Leave::End => Some("stdin ended"),
            Leave::Terminated => Some("SIGTERM"),
        };
        if let Some(trial) = &self.trial {
            match reason {
                None => trial.live.stop(),
                Some(reason) => trial.live.fail(reason.to_owned()),
            }
        }
        if let Some(workload) = &mut self.workload {
            workload.end(reason);
        }
        if let Some(load) = &mut self.load {
            load.end(reason);
        }
    }

    /// Whether a trial, a workload or a load is running.
    fn is_busy(&self) -> bool {
        self.trial.is_some() || self.workload.is_some() || self.load.is_some()
    }

    fn part(&mut self, leave: Leave) -> io::Result<u8> {
        self.open = None;
        match leave {
            Leave::Bye => {
                self.write(&Reply::Bye(Empty {}))?;
                Ok(usage::EXIT_DONE)
            }
            Leave::End => Ok(usage::EXIT_DONE),
            Leave::Terminated => Ok(usage::EXIT_TERMINATED),
        }
    }

    fn write(&mut self, reply: &Reply) -> io::Result<()> {
        let mut line = serde_json::to_vec(reply)?;
        line.push(b'\n');
        self.out.write_all(&line)
    }

    fn answer(&mut self, request: Request) -> Result<Option<Reply>, ErrorReply> {
        match request {
            Request::Bye(_) => {
                self.depart(Leave::Bye);
                Ok(None)
            }
            Request::Stop(_) => self.stop().map(|()| None),
            Request::Go(_) if self.trial.as_mut().is_some_and(Trial::go) => Ok(None),
            Request::Go(_) => Err(error(ErrorCode::State, "go: no trial waits for it", None)),
            _ if self.is_busy() => Err(error(
                ErrorCode::State,
                "a trial is running",
                Some("wait for its result, or send stop"),
            )),
            Request::Hello(hello) if hello.protocol != VERSION => Err(error(
                ErrorCode::Protocol,
                format!(
                    "protocol: this engine speaks {VERSION}, not {}",
                    hello.protocol
                ),
                Some("use a lab and an engine of the same release"),
            )),
            Request::Hello(_) => {
                let backends = pinchpoint_port::availability();
                let hello = report::hello(backends, self.cores.clone(), self.clock.hz());
                Ok(Some(Reply::Hello(hello)))
            }
            Request::Open(request) => self.open(&request).map(|open| Some(Reply::Open(open))),
            Request::Run(request) => {
                self.start_trial(&request)?;
                Ok(request.on_go.then(|| self.await_begin(request.trial)))
            }
            Request::Sockets(request) => {
                let ended = self.events.sender.clone();
                self.workload = Some(Workload::start(&request, ended)?);
                Ok(None)
            }
            Request::Connections(request) => self.start_load(&request).map(|()| None),
        }
    }

    /// Ends what runs before its time.
    fn stop(&self) -> Result<(), ErrorReply> {
        match (&self.trial, &self.workload, &self.load) {
            (Some(trial), _, _) => trial.live.stop(),
            (_, Some(workload), _) => workload.stop(),
            (_, _, Some(load)) => load.stop(),
            (None, None, None) => {
                return Err(error(ErrorCode::State, "stop: no trial is running", None));
            }
        }
        Ok(())
    }

    /// Opens the ports and waits for their links. A session that was open
    /// before is closed first.
    fn open(&mut self, request: &OpenRequest) -> Result<OpenReply, ErrorReply> {
        let (session, specs) = convert::session(request, &self.cores)?;
        self.open = None;
        let link_timeout = Duration::from_secs_f64(request.link_timeout_s);
        let deadline = Deadline {
            until: Instant::now() + link_timeout,
            cancelled: &self.events.leaving,
        };
        let mut queues = pinchpoint_port::open(&session, &specs, deadline).map_err(open_error)?;
        let known = Known::new(request, &specs, &mut queues);
        known.check_answers(request)?;
        let opened = report::opened(&specs, &mut queues);
        let mut ports = known.hand_out(request, queues);
        await_links(&mut ports, &known, deadline)?;
        self.clock = self.clock.in_order(&session.worker_cores);
        self.open = Some(OpenSession {
            link_timeout,
            known,
            ports,
        });
        Ok(opened)
    }

    fn sample(&mut self) -> io::Result<()> {
        if self.load.is_some() {
            return self.tell_samples();
        }
        if let Some(workload) = &mut self.workload {
            let sample = workload.sample();
            return self.write(&Reply::SocketsSample(sample));
        }
        let Some(trial) = &mut self.trial else {
            return Ok(());
        };
        let sample = trial.sample();
        self.write(&Reply::Sample(sample))
    }
}
