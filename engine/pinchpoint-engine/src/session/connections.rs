//! A load of connections under way.

use super::{OpenSession, Session, await_links, error};
use crate::convert::{self, Known};
use crate::input::Event;
use crate::protocol::connections::{ConnectionsAccount, ConnectionsCounts};
use crate::protocol::{
    ConnectionsRequest, ConnectionsResult, ConnectionsSample, ErrorCode, ErrorReply, Reply, Status,
};
use crate::report::standing::idle_word;
use crate::standing::{Crew, Done, Told};
use pinchpoint_port::Deadline;
use pinchpoint_worker::standing::Control;
use pinchpoint_worker::{Idle, Settings, WorkerPort};
use pinchpoint_workload::connections::client::Client;
use pinchpoint_workload::connections::samples::{Joined, Sample};
use pinchpoint_workload::connections::work::Account;
use pinchpoint_workload::streams::WorkersPorts;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How often it is looked whether there are samples.
const LOOK: Duration = Duration::from_millis(10);
const SETTINGS: Settings = Settings {
    idle: Idle::Yield,
    // A reply that does not fit is lost, as in a device: nothing waits for it.
    reply_timeout_ns: 0,
};

/// One load and what its workers tell.
pub(super) struct UnderWay {
    trial: String,
    /// By worker.
    cores: Vec<usize>,
    controls: Vec<Arc<Control>>,
    told: Receiver<Told<Account>>,
    samples: Option<Receiver<Sample>>,
    joined: Joined,
    next_look: Option<Instant>,
    /// Why it was ended before its time, if not by the lab.
    reason: Option<&'static str>,
}

impl UnderWay {
    /// When it is to be looked whether there are samples.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// Ends it before its time.
    pub(super) fn stop(&self) {
        for control in &self.controls {
            control.stop();
        }
    }

    /// The same; for a `reason`, if any, other than the lab's wish.
    pub(super) fn end(&mut self, reason: Option<&'static str>) {
        self.reason = reason;
        self.stop();
    }

    /// Ends it and waits for its workers. Its account is dropped.
    pub(super) fn abandon(self) {
        self.stop();
        // They end with their senders.
        self.told.iter().for_each(drop);
    }

    /// The samples that have come since it was looked last.
    fn samples(&mut self) -> Vec<Reply> {
        self.next_look = self.next_look.map(|_| Instant::now() + LOOK);
        let own = self.samples.iter().flat_map(Receiver::try_iter);
        let all = own.filter_map(|sample| self.joined.add(sample));
        let told = all.map(|sample| {
            Reply::ConnectionsSample(ConnectionsSample {
                trial: self.trial.clone(),
                counts: ConnectionsCounts::new(sample),
            })
        });
        told.collect()
    }

    /// What each worker left behind, once all have ended.
    fn ended(&self) -> Result<Vec<Done<Account>>, String> {
        let ended = self.told.iter().filter_map(|told| match told {
            Told::Ended(worker, done) => Some(done.map(|done| (worker, *done))),
            Told::SoFar(..) => None,
        });
        let mut ended: Vec<(usize, Done<Account>)> = ended.collect::<Result<_, _>>()?;
        ended.sort_by_key(|(worker, _)| *worker);
        Ok(ended.into_iter().map(|(_, done)| done).collect())
    }

    /// Its account, of these of its workers.
    fn result(self, accounts: &[Account]) -> Result<ConnectionsResult, String> {
        let is_done = |account: &Account| account.client.as_ref().is_some_and(Client::is_done);
        let status = match self.reason {
            _ if accounts.iter().all(is_done) => Status::Completed,
            None => Status::Stopped,
            Some(_) => Status::Aborted,
        };
        let account = ConnectionsAccount::new(accounts, &self.cores, &idle_word(SETTINGS.idle));
        Ok(ConnectionsResult {
            trial: self.trial,
            status,
            reason: self
                .reason
                .filter(|_| status == Status::Aborted)
                .map(str::to_owned),
            account: account.ok_or("it had no workers")?,
        })
    }
}

impl OpenSession {
    /// Takes the ports with these numbers from every worker, in this order.
    fn take(&mut self, numbers: &[usize]) -> WorkersPorts {
        let of_worker = |own: &mut Vec<WorkerPort>| {
            let one = |number: &usize| {
                let place = own.iter().position(|port| port.index == *number)?;
                Some(own.remove(place))
            };
            numbers.iter().filter_map(one).collect()
        };
        self.ports.iter_mut().map(of_worker).collect()
    }

    /// Puts the ports of a worker back in their places.
    fn give_back(&mut self, worker: usize, ports: Vec<WorkerPort>) {
        let Known { ports: known, .. } = &self.known;
        let place = |port: &WorkerPort| {
            let mut workers = known[port.index].workers.iter();
            workers.find_map(|&(one, place)| (one == worker).then_some(place))
        };
        self.ports[worker].extend(ports);
        self.ports[worker].sort_by_key(place);
    }
}

impl Session {
    pub(super) fn start_load(&mut self, request: &ConnectionsRequest) -> Result<(), ErrorReply> {
        let Some(open) = &mut self.open else {
            return Err(error(
                ErrorCode::State,
                "connections: no ports are open",
                Some("send open first"),
            ));
        };
        let (load, ports) = convert::connections(request, &open.known)?;
        let deadline = Deadline {
            until: Instant::now() + open.link_timeout,
            cancelled: &self.events.leaving,
        };
        await_links(&mut open.ports, &open.known, deadline)?;
        let cores = open.known.cores.clone();
        let (to, samples) = channel();
        let samples = load.is_sampled().then_some(samples);
        let controls: Vec<Arc<Control>> = cores.iter().map(|_| Arc::default()).collect();
        let crew = Crew {
            ports: open.take(&ports),
            make: load.makers(&to),
            controls: controls.clone(),
            linked: cores.len() > 1,
            drained: true,
            settings: SETTINGS,
            clock: self.clock.clone(),
            cores: cores.clone(),
        };
        let (tell, told) = channel();
        let started = crew.start(teller(tell, controls.clone(), self.events.sender.clone()));
        if started.is_err() {
            self.open = None;
            return Err(error(
                ErrorCode::Internal,
                "connections: the threads of the load could not be started",
                Some("send open again"),
            ));
        }
        self.load = Some(UnderWay {
            trial: request.trial.clone(),
            joined: Joined::new(cores.len()),
            cores,
            controls,
            told,
            next_look: samples.is_some().then(|| Instant::now() + LOOK),
            samples,
            reason: None,
        });
        Ok(())
    }

    pub(super) fn tell_samples(&mut self) -> io::Result<()> {
        let samples = self.load.as_mut().map(UnderWay::samples);
        for sample in samples.unwrap_or_default() {
            self.write(&sample)?;
        }
        Ok(())
    }

    pub(super) fn finish_load(&mut self) -> io::Result<()> {
        self.tell_samples()?;
        let Some(load) = self.load.take() else {
            return Ok(());
        };
        let trial = load.trial.clone();
        let ended = match (load.ended(), &mut self.open) {
            (Ok(ended), Some(open)) => load.result(&accounts(ended, open)),
            (Err(why), _) => Err(why),
            (_, None) => Err("its ports are closed".to_owned()),
        };
        let reply = ended.map_or_else(
            |why| {
                self.open = None;
                let message = format!("trial {trial}: {why}");
                Reply::Error(error(ErrorCode::Internal, message, Some("send open again")))
            },
            |result| Reply::ConnectionsResult(Box::new(result)),
        );
        self.write(&reply)
    }
}

/// Gives the session back its ports; returns what was counted at them since the load began.
fn accounts(ended: Vec<Done<Account>>, open: &mut OpenSession) -> Vec<Account> {
    let of_worker = |(worker, done): (usize, Done<Account>)| {
        open.give_back(worker, done.ports);
        let ports = done.account.ports.into_iter().zip(&done.before);
        Account {
            ports: ports.map(|(port, before)| port.since(before)).collect(),
            ..done.account
        }
    };
    ended.into_iter().enumerate().map(of_worker).collect()
}

/// Hands on what workers tell. One that fails ends the others; the last one to end is an event.
fn teller(
    tell: Sender<Told<Account>>,
    controls: Vec<Arc<Control>>,
    events: Sender<Event>,
) -> impl Fn(Told<Account>) + Clone + Send + 'static {
    let running = Arc::new(AtomicUsize::new(controls.len()));
    move |told| {
        let has_ended = matches!(told, Told::Ended(..));
        let has_failed = matches!(told, Told::Ended(_, Err(_)));
        // A session that has gone needs neither.
        let _ = tell.send(told);
        if has_failed {
            for control in &controls {
                control.stop();
            }
        }
        if has_ended && running.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = events.send(Event::TrialEnded);
        }
    }
}
