//! A workload over kernel sockets under way.

use super::{Session, error};
use crate::input::Event;
use crate::protocol::{ErrorCode, ErrorReply, Reply};
use pinchpoint_sockets::message::{self, SocketsRequest, SocketsSample};
use pinchpoint_sockets::{Failure, FailureKind, Live, Outcome, Served, Side};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// One workload and the thread that waits for it.
pub(super) struct Workload {
    trial: String,
    work: pinchpoint_sockets::Workload,
    live: Arc<Live>,
    thread: JoinHandle<Result<Found, Failure>>,
    begun: Instant,
    sample_interval: Option<Duration>,
    next_sample: Option<Instant>,
    /// Why it was ended before its time, if not by the lab.
    reason: Option<&'static str>,
}

/// What its thread found: of the workload, or of a server whose client is
/// another engine's.
enum Found {
    Ran(Outcome),
    Served(Served),
}

/// Reports to the session that the workload has ended, also when its thread panics.
struct Ended(Sender<Event>);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.send(Event::TrialEnded);
    }
}

impl Workload {
    /// Starts what `request` asks for; `ended` gets an event when it is over.
    pub(super) fn start(
        request: &SocketsRequest,
        ended: Sender<Event>,
    ) -> Result<Self, ErrorReply> {
        let work = request.workload().map_err(refused)?;
        let live = Arc::new(Live::default());
        let (wanted, watched) = (work.clone(), Arc::clone(&live));
        let begun = Instant::now();
        let thread = thread::Builder::new().name("workload".to_owned());
        let thread = thread.spawn(move || {
            let ended = Ended(ended);
            if wanted.elsewhere != Some(Side::Client) {
                return pinchpoint_sockets::run(&wanted, &watched).map(Found::Ran);
            }
            let listening = |address| {
                let _ = ended.0.send(Event::Listening(address));
            };
            pinchpoint_sockets::serve(&wanted, &watched, listening).map(Found::Served)
        });
        let thread = thread.map_err(|_| {
            error(
                ErrorCode::Internal,
                "sockets: the thread of the workload could not be started",
                None,
            )
        })?;
        let sample_interval = request.sample_interval_s.map(Duration::from_secs_f64);
        Ok(Self {
            trial: request.trial.clone(),
            work,
            live,
            thread,
            begun,
            sample_interval,
            next_sample: sample_interval.map(|interval| begun + interval),
            reason: None,
        })
    }

    /// When the next sample is due.
    pub(super) fn next_sample(&self) -> Option<Instant> {
        self.next_sample
    }

    /// The totals so far.
    pub(super) fn sample(&mut self) -> SocketsSample {
        let due = self.next_sample.zip(self.sample_interval);
        self.next_sample = due.map(|(at, interval)| at + interval);
        let elapsed_s = self.begun.elapsed().as_secs_f64();
        pinchpoint_sockets::sample(self.trial.clone(), elapsed_s, self.live.sample())
    }

    /// Ends it before its time.
    pub(super) fn stop(&self) {
        self.live.stop();
    }

    /// The same; for a `reason`, if any, other than the lab's wish.
    pub(super) fn end(&mut self, reason: Option<&'static str>) {
        self.reason = reason;
        self.stop();
    }

    /// Its account, once it has ended.
    pub(super) fn join(self) -> Result<Reply, ErrorReply> {
        let died = |_| {
            let message = format!("trial {}: the workload's thread failed", self.trial);
            error(
                ErrorCode::Internal,
                message,
                Some("its message is on stderr"),
            )
        };
        let found = self.thread.join().map_err(died)?.map_err(refused)?;
        let ended_by = |status: &mut message::Status, told: &mut Option<String>| {
            if let Some(reason) = self.reason
                && *status == message::Status::Stopped
            {
                *status = message::Status::Aborted;
                *told = Some(reason.to_owned());
            }
        };
        Ok(match found {
            Found::Ran(outcome) => {
                let mut result = pinchpoint_sockets::result(self.trial, &self.work, &outcome);
                ended_by(&mut result.status, &mut result.reason);
                Reply::SocketsResult(Box::new(result))
            }
            Found::Served(served) => {
                let mut served = pinchpoint_sockets::served(self.trial, &served);
                ended_by(&mut served.status, &mut served.reason);
                Reply::SocketsServed(Box::new(served))
            }
        })
    }
}

impl Session {
    pub(super) fn finish_workload(&mut self) -> io::Result<()> {
        let Some(workload) = self.workload.take() else {
            return Ok(());
        };
        self.write(&workload.join().unwrap_or_else(Reply::Error))
    }

    /// That a client may connect to the workload's server.
    pub(super) fn tell_listening(&mut self, address: SocketAddr) -> io::Result<()> {
        let Some(workload) = &self.workload else {
            return Ok(());
        };
        let trial = workload.trial.clone();
        self.write(&Reply::SocketsListening(pinchpoint_sockets::listening(
            trial, address,
        )))
    }
}

fn refused(failure: Failure) -> ErrorReply {
    ErrorReply {
        code: match failure.kind {
            FailureKind::Invalid => ErrorCode::Invalid,
            FailureKind::Setup => ErrorCode::PortOpen,
            FailureKind::Unreachable => ErrorCode::LinkDown,
            FailureKind::Internal => ErrorCode::Internal,
        },
        message: failure.message,
        hint: failure.hint,
    }
}
