//! The threads of a workload that runs until it has ended or somebody stops it: one for each worker.

use nix::sys::prctl;
use pinchpoint_port::{AnyPort, Port, Sink, ThreadGuard, mem, sched};
use pinchpoint_worker::standing::{Control, Standing, UntilStopped};
use pinchpoint_worker::watched::Baseline;
use pinchpoint_worker::{Clock, Settings, Worker, WorkerPort};
use pinchpoint_workload::streams::WorkersPorts;
use std::collections::HashMap;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread;

/// Frames that wait for another core at most.
const LINK_FRAMES: usize = 1024;

/// What a worker says.
pub enum Told<A> {
    /// Its account so far.
    SoFar(usize, Box<A>),
    /// Its work has ended, or failed for this reason: its ports are then closed.
    Ended(usize, Result<Box<Done<A>>, String>),
}

/// What a worker leaves behind.
pub struct Done<A> {
    /// Its account.
    pub account: A,
    /// Its own ports.
    pub ports: Vec<WorkerPort>,
    /// Their counters before the work began.
    pub before: Vec<Baseline>,
}

/// Workers that begin together.
pub struct Crew<M> {
    /// Their cores; one may come again.
    pub cores: Vec<usize>,
    /// The ports of each.
    pub ports: WorkersPorts,
    /// What makes the workload of each, of its own ports and the time.
    pub make: Vec<M>,
    /// What each is asked.
    pub controls: Vec<Arc<Control>>,
    /// Whether they hand frames to one another: behind its own ports, each then has one to every
    /// other, in their order.
    pub linked: bool,
    /// Whether frames that wait already are thrown away: they are of earlier work.
    pub drained: bool,
    /// How their loops run.
    pub settings: Settings,
    /// Their clock.
    pub clock: Clock,
}

/// What a worker's thread has.
struct Assigned<M> {
    core: usize,
    ports: Vec<WorkerPort>,
    /// How many of the ports are its own; the others lead to other workers.
    own: usize,
    make: M,
    control: Arc<Control>,
    drained: bool,
    settings: Settings,
    clock: Clock,
    start: Arc<Start>,
}

/// When all workers are ready, the time begins for all.
struct Start {
    ready: Barrier,
    now_ns: OnceLock<u64>,
}

/// Throws frames away.
struct Nobody;

impl Sink for Nobody {
    fn arrived(&mut self, _count: usize) {}
    fn frame(&mut self, _frame: &[u8]) {}
}

impl<M> Crew<M> {
    /// Starts a thread for each worker. `tell` gets accounts as they are asked for, and once from each
    /// worker that it has ended.
    ///
    /// # Errors
    /// The system's, if it makes no thread; the ports are closed.
    pub fn start<S, A>(mut self, tell: impl Fn(Told<A>) + Clone + Send + 'static) -> io::Result<()>
    where
        M: FnOnce(&[WorkerPort], u64) -> S + Send + 'static,
        S: Standing<Outcome = A>,
        A: Send + 'static,
    {
        let own: Vec<usize> = self.ports.iter().map(Vec::len).collect();
        if self.linked {
            link(&mut self.ports, S::LONGEST_FRAME.unwrap_or(mem::MAX_LEN));
        }
        let workers = 0..self.ports.len();
        let threads = workers.map(|worker| spawn(worker, tell.clone()));
        // None has anything to do before there are all.
        let threads: Vec<Sender<Assigned<M>>> = threads.collect::<io::Result<_>>()?;
        let start = Arc::new(Start {
            ready: Barrier::new(threads.len()),
            now_ns: OnceLock::new(),
        });
        let workers = self.ports.into_iter().zip(self.make).enumerate();
        for ((worker, (ports, make)), thread) in workers.zip(threads) {
            let assigned = Assigned {
                core: self.cores[worker],
                ports,
                own: own[worker],
                make,
                control: Arc::clone(&self.controls[worker]),
                drained: self.drained,
                settings: self.settings,
                clock: self.clock.clone(),
                start: Arc::clone(&start),
            };
            // It waits for nothing else.
            let _ = thread.send(assigned);
        }
        Ok(())
    }
}

/// Gives each worker a port to every other, in their order, behind its own.
fn link(workers: &mut [Vec<WorkerPort>], longest: usize) {
    let port = |to: usize, port| WorkerPort {
        index: usize::MAX,
        name: format!("worker {to}"),
        port: AnyPort::Mem(port),
        answers: HashMap::new(),
    };
    for first in 0..workers.len() {
        for second in first + 1..workers.len() {
            let (there, back) = mem::pair_of(LINK_FRAMES, longest);
            workers[first].push(port(second, there));
            workers[second].push(port(first, back));
        }
    }
}

/// Starts a thread that waits for its assignment, then works.
fn spawn<M, S, A>(
    worker: usize,
    tell: impl Fn(Told<A>) + Send + 'static,
) -> io::Result<Sender<Assigned<M>>>
where
    M: FnOnce(&[WorkerPort], u64) -> S + Send + 'static,
    S: Standing<Outcome = A>,
    A: Send + 'static,
{
    let (give, assigned): (_, Receiver<Assigned<M>>) = channel();
    let work = move || {
        if let Ok(assigned) = assigned.recv() {
            let _guard = ThreadGuard::new();
            let ended = assigned.work(|account| tell(Told::SoFar(worker, Box::new(account))));
            tell(Told::Ended(worker, ended.map(Box::new)));
        }
    };
    let thread = thread::Builder::new().name("workload".to_owned());
    thread.spawn(work)?;
    Ok(give)
}

impl<M> Assigned<M> {
    fn work<S, A>(mut self, report: impl Fn(A)) -> Result<Done<A>, String>
    where
        M: FnOnce(&[WorkerPort], u64) -> S,
        S: Standing<Outcome = A>,
    {
        let core = self.core;
        let before = caught(core, || self.prepare());
        // The others wait for this one, whatever became of it.
        self.start.ready.wait();
        let before = before??;
        let now_ns = *self.start.now_ns.get_or_init(|| self.clock.now_ns());
        let account = caught(core, || {
            let workload = UntilStopped {
                workload: (self.make)(&self.ports[..self.own], now_ns),
                control: &self.control,
                report,
            };
            let mut running = Worker::new(&mut self.ports, workload, self.settings, &self.clock);
            running.run();
            running.close()
        })?;
        self.ports.truncate(self.own);
        Ok(Done {
            account,
            ports: self.ports,
            before,
        })
    }

    /// Takes the core, and makes the ports ready; returns their counters.
    fn prepare(&mut self) -> Result<Vec<Baseline>, String> {
        let core = self.core;
        sched::pin(core).map_err(|error| format!("cannot pin to core {core}: {error}"))?;
        // The kernel rounds sleeps up by 50 us otherwise (prctl(2), PR_SET_TIMERSLACK).
        let _ = prctl::set_timerslack(1);
        let own = &mut self.ports[..self.own];
        if self.drained {
            for port in &mut *own {
                // Whatever a burst holds, a full ring is empty after as many bursts as it has places.
                let mut bursts = (0..port.port.rings().0).map(|_| port.port.receive(&mut Nobody));
                bursts.any(|frames| frames == 0);
            }
        }
        Ok(own.iter_mut().map(Baseline::of).collect())
    }
}

/// Does it; a panic is an error.
fn caught<T>(core: usize, work: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work))
        .map_err(|_| format!("the worker on core {core} panicked"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::allowed_cores;
    use pinchpoint_worker::Idle;
    use pinchpoint_workload::connections::work::Connections;

    type Maker = fn(&[WorkerPort], u64) -> Connections;

    /// What workers on these cores tell.
    fn told(cores: &[usize], make: Maker) -> Vec<(usize, Result<(), String>)> {
        let crew = Crew {
            cores: cores.to_vec(),
            ports: cores.iter().map(|_| Vec::new()).collect(),
            make: cores.iter().map(|_| make).collect(),
            controls: cores.iter().map(|_| Arc::default()).collect(),
            linked: false,
            drained: true,
            settings: Settings {
                idle: Idle::Next,
                reply_timeout_ns: 0,
            },
            clock: Clock::new(),
        };
        let controls = crew.controls.clone();
        let (tell, events) = channel();
        crew.start(move |told| tell.send(told).unwrap()).unwrap();
        for control in controls {
            control.stop();
        }
        let ended = events.iter().map(|event| match event {
            Told::Ended(worker, ended) => (worker, ended.map(|_| ())),
            Told::SoFar(..) => panic!("nobody asked"),
        });
        let mut ended: Vec<_> = ended.collect();
        ended.sort();
        ended
    }

    #[test]
    fn a_worker_that_panics_has_ended() {
        let core = allowed_cores()[0];
        let expected = format!("the worker on core {core} panicked");
        let ended = told(&[core], |_, _| panic!("planted"));
        assert_eq!(ended, [(0, Err(expected))]);
    }

    #[test]
    fn nobody_waits_for_a_worker_that_has_no_core() {
        let core = allowed_cores()[0];
        let ended = told(&[core, 1 << 20], |ports, now_ns| {
            Connections::new(None, None, ports.len(), now_ns)
        });
        assert_eq!(ended[0], (0, Ok(())));
        let (1, Err(why)) = &ended[1] else {
            panic!("{ended:?}")
        };
        assert!(why.starts_with("cannot pin to core 1048576"), "{why}");
    }
}
