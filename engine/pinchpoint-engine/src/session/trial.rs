//! A trial of frames that the session watches.

use super::{Session, await_links, error};
use crate::capture::Capture;
use crate::convert::{self, KnownPort};
use crate::input::Event;
use crate::protocol::{
    CacheLine, ErrorCode, ErrorReply, Loopback, OfTrial, Reply, RunRequest, Sample, StreamSample,
};
use crate::report::{self, Beside};
use pinchpoint_port::{Deadline, Stamps};
use pinchpoint_worker::Clock;
use pinchpoint_workload::streams::hold::ReleaseAtEnd;
use pinchpoint_workload::streams::{self, Live, Running, Stage, loopback};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BEGIN_POLL: Duration = Duration::from_micros(100);

/// A trial under way.
pub(super) struct Trial {
    pub(super) request: RunRequest,
    pub(super) capture: Option<Capture>,
    pub(super) loopback: Option<Loopback>,
    pub(super) running: Running,
    pub(super) live: Arc<Live>,
    pub(super) clock: Clock,
    /// Whether that is the system's time of day, which may be set meanwhile.
    pub(super) is_wall: bool,
    pub(super) begun: Instant,
    /// Whether every port has one queue, so that a frame that is overtaken is late or lost.
    pub(super) one_queue: bool,
    pub(super) sample_interval: Option<Duration>,
    pub(super) next_sample: Option<Instant>,
    pub(super) cache_lines: Vec<CacheLine>,
    /// The workers do the same; this is for a session that ends without them.
    pub(super) _released: Option<ReleaseAtEnd>,
}

impl Trial {
    /// Begins the sending of a trial that waits for it, and with it the time of the
    /// samples; false if it does not wait.
    pub(super) fn go(&mut self) -> bool {
        if !self.request.on_go || !self.live.go(self.clock.now_ns()) {
            return false;
        }
        self.begun = Instant::now();
        self.next_sample = self.sample_interval.map(|interval| self.begun + interval);
        true
    }

    /// Its totals; the next ones are due an interval later.
    pub(super) fn sample(&mut self) -> Sample {
        self.next_sample = self
            .next_sample
            .zip(self.sample_interval)
            .map(|(at, interval)| at + interval);
        let totals = self.live.sample();
        let streams = self.request.streams.iter().zip(self.running.streams());
        let streams = streams.map(|(stream, (sent, received))| StreamSample {
            id: stream.id,
            sent,
            received,
        });
        Sample {
            trial: self.request.trial.clone(),
            elapsed_s: self.begun.elapsed().as_secs_f64(),
            offered: totals.offered,
            sent: totals.sent,
            received: totals.received,
            lost: self.one_queue.then_some(totals.lost),
            gaps_ns: totals.gaps_ns,
            gap_max_ns: totals.gap_max_ns,
            streams: streams.collect(),
        }
    }
}

impl Session {
    pub(super) fn start_trial(&mut self, request: &RunRequest) -> Result<(), ErrorReply> {
        let Some(open) = &mut self.open else {
            return Err(error(
                ErrorCode::State,
                "run: no ports are open",
                Some("send open first"),
            ));
        };
        let mut plan = convert::plan(request, &open.known, &self.cores)?;
        let hold = convert::hold(request)?;
        if let Some(slices) = &mut plan.slices {
            slices.hold.clone_from(&hold);
        }
        let deadline = Deadline {
            until: Instant::now() + open.link_timeout,
            cancelled: &self.events.leaving,
        };
        await_links(&mut open.ports, &open.known, deadline)?;
        let capture = request.capture.as_ref().map(Capture::create).transpose()?;
        let loopback = request
            .loopback
            .then(|| loopback::measure(&plan, &self.clock));
        let quiet_within = Duration::from_secs_f64(request.quiet_within_s);
        let cache_lines =
            report::cache_lines_before(&request.probe_cores, quiet_within, &mut self.widest);
        let live = Arc::new(Live::new(plan.workers.len(), plan.parts.len()));
        let ended = self.events.sender.clone();
        let one_queue = open.known.ports.iter().all(|port| port.workers.len() < 2);
        let ports = std::mem::take(&mut open.ports);
        // What others stamp is stamped by the system's time of day.
        let is_stamped = |port: &KnownPort| port.stamps != Stamps::Engine;
        let is_wall = request.wall_clock || open.known.ports.iter().any(is_stamped);
        let clock = if is_wall {
            Clock::wall()
        } else {
            self.clock.clone()
        };
        let waits = request.on_go;
        let tell = move |stage| {
            let _ = match stage {
                Stage::Sent if !waits => Ok(()),
                Stage::Sent => ended.send(Event::TrialSent),
                Stage::Ended => ended.send(Event::TrialEnded),
            };
        };
        let running = streams::start(ports, plan, &clock, &live, tell);
        let Ok(running) = running else {
            self.open = None;
            return Err(error(
                ErrorCode::Internal,
                "run: the thread of the trial could not be started",
                None,
            ));
        };
        let begun = Instant::now();
        let sample_interval = request.sample_interval_s.map(Duration::from_secs_f64);
        self.trial = Some(Trial {
            request: request.clone(),
            capture,
            loopback: loopback.flatten().map(report::loopback),
            running,
            live,
            clock,
            is_wall,
            begun,
            one_queue,
            sample_interval,
            next_sample: sample_interval
                .filter(|_| !waits)
                .map(|interval| begun + interval),
            cache_lines,
            _released: hold.map(ReleaseAtEnd),
        });
        Ok(())
    }

    /// Waits until the workers receive: the other engine may send from then on.
    pub(super) fn await_begin(&self, trial: String) -> Reply {
        while self
            .trial
            .as_ref()
            .is_some_and(|trial| !trial.live.has_begun())
        {
            std::thread::sleep(BEGIN_POLL);
        }
        Reply::Begun(OfTrial { trial })
    }

    pub(super) fn tell_sent(&mut self) -> io::Result<()> {
        let Some(trial) = &mut self.trial else {
            return Ok(());
        };
        trial.next_sample = None;
        let trial = trial.request.trial.clone();
        self.write(&Reply::Sent(OfTrial { trial }))
    }

    pub(super) fn finish_trial(&mut self) -> io::Result<()> {
        let Some(trial) = self.trial.take() else {
            return Ok(());
        };
        let reply = match (trial.running.join(), &mut self.open) {
            (Some((ports, Ok(mut outcome))), Some(open)) => {
                open.ports = ports;
                let set = trial.is_wall.then(|| trial.clock.was_set()).flatten();
                let why =
                    set.map(|by| format!("the system's time of day was set by {by:?} meanwhile"));
                outcome.failure = outcome.failure.or(why);
                let cache_lines = report::cache_lines_after(trial.cache_lines, &mut self.widest);
                let capture = trial.capture;
                let beside = Beside {
                    cache_lines,
                    loopback: trial.loopback,
                    capture: capture.map(|file| file.write(&outcome, &open.known, &trial.clock)),
                };
                let result = report::result(&trial.request, outcome, &open.known, beside);
                Reply::Result(Box::new(result))
            }
            (Some((_, Err(message))), _) => {
                self.open = None;
                Reply::Error(error(ErrorCode::Internal, message, Some("send open again")))
            }
            _ => {
                self.open = None;
                let message = format!("trial {}: a worker thread failed", trial.request.trial);
                let hint = Some("its message is on stderr; send open again");
                Reply::Error(error(ErrorCode::Internal, message, hint))
            }
        };
        self.write(&reply)
    }
}
