//! A trial: one thread for each worker, and their parts put together.

use super::live::Live;
use super::merge::merge;
use super::outcome::{Outcome, Share};
use super::plan::Plan;
use super::stage::Stage;
use super::{ports, work};
use pinchpoint_port::sched;
use pinchpoint_worker::{Clock, WorkerPort};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// What a worker's thread gives back: its ports, and its share unless it had
/// no core to run on.
type Returned = (Vec<WorkerPort>, Result<Share, String>);

/// A trial under way.
pub struct Running {
    plan: Arc<Plan>,
    live: Arc<Live>,
    threads: Vec<JoinHandle<Returned>>,
}

/// Ports, by worker, that a trial gives back.
pub type WorkersPorts = Vec<Vec<WorkerPort>>;

impl Running {
    /// Waits for the end; gives the ports back with the account. None if a
    /// worker died, and its ports with it.
    pub fn join(self) -> Option<(WorkersPorts, Result<Outcome, String>)> {
        let joined = self.threads.into_iter().map(JoinHandle::join);
        let returned: Result<Vec<Returned>, _> = joined.collect();
        let (ports, shares): (Vec<_>, Vec<_>) = returned.ok()?.into_iter().unzip();
        let shares: Result<Vec<Share>, String> = shares.into_iter().collect();
        let failure = self.live.failure();
        Some((
            ports,
            shares.map(|shares| merge(&self.plan, shares, failure)),
        ))
    }
}

impl Running {
    /// Frames of each stream sent and received so far, as last published.
    pub fn streams(&self) -> Vec<(u64, u64)> {
        let mut totals = vec![(0, 0); self.plan.streams];
        for (index, part) in self.plan.parts.iter().enumerate() {
            let (sent, received) = self.live.part(index);
            let total = &mut totals[part.stream];
            *total = (total.0 + sent, total.1 + received);
        }
        totals
    }
}

/// Calls what it holds when it goes, also when a panic unwinds past it.
struct Finally<F: FnMut()>(F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Starts a trial: a thread for each worker, pinned to its core. `ports` are
/// those of each worker, in the order of the plan. `tell` is called once for each
/// stage, in the thread of the last worker to reach it.
///
/// # Errors
/// The system's, if it makes no thread; the trial is ended and the ports are
/// closed.
pub fn start(
    ports: WorkersPorts,
    plan: Plan,
    clock: &Clock,
    live: &Arc<Live>,
    tell: impl Fn(Stage) + Send + Sync + 'static,
) -> std::io::Result<Running> {
    let plan = Arc::new(plan);
    let tell = Arc::new(tell);
    let left = Arc::new(AtomicUsize::new(plan.workers.len()));
    let mut threads = Vec::new();
    for (index, mut ports) in ports.into_iter().enumerate() {
        let (plan, watched, clock) = (Arc::clone(&plan), Arc::clone(live), clock.clone());
        let (tell, left) = (Arc::clone(&tell), Arc::clone(&left));
        let run = move || {
            let _ended = Finally(|| {
                if std::thread::panicking() {
                    watched.fail(format!("worker {index} failed; its message is on stderr"));
                }
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    tell(Stage::Ended);
                }
            });
            let share = pin(plan.workers[index].core)
                .and_then(|()| ports::load(index, &mut ports, &plan))
                .map(|()| work::run(index, &mut ports, &plan, &clock, (&watched, &*tell)));
            if let Err(reason) = &share {
                watched.fail(reason.clone());
            }
            (ports, share)
        };
        let thread = std::thread::Builder::new().name(format!("worker-{index}"));
        match thread.spawn(run) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                live.abort();
                for thread in threads {
                    drop(thread.join());
                }
                return Err(error);
            }
        }
    }
    Ok(Running {
        plan,
        live: Arc::clone(live),
        threads,
    })
}

fn pin(core: usize) -> Result<(), String> {
    sched::pin(core).map_err(|error| format!("cannot pin the worker to core {core}: {error}"))
}
