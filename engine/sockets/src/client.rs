//! The client's thread: connect, warm up, measure, account.

use crate::counters;
use crate::course::Course;
use crate::datagrams::Datagrams;
use crate::failure::{Failure, FailureKind};
use crate::fault::Fault;
use crate::many::Many;
use crate::place;
use crate::record::{Account, Recorder};
use crate::schedule::Schedule;
use crate::shared::{Shared, nanoseconds};
use crate::single::Single;
use crate::spec::{Kind, Transport};
use crate::stream::Streams;
use crate::usage::Usage;
use nix::sys::prctl::set_timerslack;
use nix::unistd::gettid;
use pinchpoint_port::tcp::retransmits;
use pinchpoint_worker::Clock;
use pinchpoint_worker::witness::Disturbance;
use rustix::fd::{AsFd, OwnedFd};
use rustix::time::{ClockId, clock_gettime};
use std::net::SocketAddr;

/// What the client's thread found.
pub(crate) struct Report {
    pub(crate) account: Account,
    /// Of a stream of datagrams: those that were sent in the window.
    pub(crate) sent: Option<u64>,
    pub(crate) began_ns: u64,
    pub(crate) duration_ns: u64,
    pub(crate) intended: Option<u64>,
    pub(crate) shortfall: Option<u64>,
    pub(crate) unfinished: u64,
    pub(crate) retransmits: Vec<Option<u64>>,
    pub(crate) usage: Usage,
    pub(crate) steal_s: [Option<f64>; 2],
    pub(crate) retransmitted_segments: [Option<u64>; 2],
    pub(crate) time_wait: [Option<u64>; 2],
    pub(crate) source_ports: Option<u64>,
}

/// The ways to work.
enum Worker<'a> {
    Single(Single<'a>),
    Many(Many<'a>),
    Streams(Streams<'a>),
    Datagrams(Datagrams<'a>),
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared<'a>, clock: &Clock, target: SocketAddr) -> Result<Self, Fault> {
        let work = shared.work;
        Ok(match (work.kind, work.connections) {
            (Kind::Stream, _) if work.transport == Transport::Udp => {
                Self::Datagrams(Datagrams::new(shared, clock, target)?)
            }
            (Kind::Stream, _) => Self::Streams(Streams::new(shared, clock, target)?),
            (_, 1) => Self::Single(Single::new(shared, clock, target)?),
            _ => Self::Many(Many::new(shared, clock, target)?),
        })
    }

    fn drive(&mut self, course: &mut Course) {
        match self {
            Self::Single(single) => single.drive(course),
            Self::Many(many) => many.drive(course),
            Self::Streams(streams) => streams.drive(&course.schedule),
            Self::Datagrams(datagrams) => datagrams.drive(&mut course.schedule),
        }
    }

    /// Waits for what is under way; returns how much was left.
    fn drain(&mut self, course: &mut Course) -> u64 {
        match self {
            Self::Many(many) => many.drain(course),
            Self::Datagrams(datagrams) => {
                datagrams.drain();
                0
            }
            Self::Single(_) | Self::Streams(_) => {
                u64::from(course.recorder.last_fault() == Some(Fault::Ended))
            }
        }
    }

    /// Segments sent again, by connection; empty if none stand.
    fn retransmits(&self) -> Vec<Option<u64>> {
        let count = |socket: &OwnedFd| retransmits(socket.as_fd()).ok().map(u64::from);
        match self {
            Self::Single(single) => single.standing().into_iter().map(count).collect(),
            Self::Many(many) => many.standing().map(count).collect(),
            Self::Streams(streams) => streams.sockets().iter().map(count).collect(),
            Self::Datagrams(_) => Vec::new(),
        }
    }

    /// Of a stream of datagrams: how many were sent in the window, and how late the latest was.
    fn sent(&self) -> Option<(u64, u64)> {
        match self {
            Self::Datagrams(datagrams) => Some((datagrams.sent(), datagrams.latest_ns())),
            Self::Single(_) | Self::Many(_) | Self::Streams(_) => None,
        }
    }
}

/// What is read at both ends of the window.
struct Reading {
    /// Of the client's and the server's core; none of an end that is elsewhere.
    disturbance: [Option<Disturbance>; 2],
    retransmitted: [Option<u64>; 2],
    time_wait: Option<u64>,
}

impl Reading {
    fn now(shared: &Shared) -> Self {
        let work = shared.work;
        let own = gettid().as_raw();
        let server = (work.server.core, shared.server_tid());
        let server = work.elsewhere.is_none().then_some(server);
        let ends = [Some((work.client.core, own)), server];
        Self {
            disturbance: ends.map(|end| end.map(|(core, _)| Disturbance::now(core))),
            retransmitted: ends.map(|end| end.and_then(|(_, tid)| counters::retransmitted(tid))),
            time_wait: counters::time_wait(own),
        }
    }
}

/// Runs the client's side of `shared.work` against the server at `server`.
///
/// # Errors
/// Kind `Setup`: its place or its first connections are not to be had.
pub(crate) fn run(shared: &Shared, clock: &Clock, server: SocketAddr) -> Result<Report, Failure> {
    let work = shared.work;
    place::enter(&work.client, "client")?;
    // Sleeps end within the clock's resolution, not 50 us later (prctl(2)).
    let _ = set_timerslack(1);
    let target = work.target.unwrap_or(server);
    let mut worker =
        Worker::new(shared, clock, target).map_err(|fault| no_connection(fault, target))?;
    let now_ns = clock.now_ns();
    let warm_up = Schedule::new(
        now_ns,
        now_ns + nanoseconds(work.warm_up),
        work.rate_tps,
        None,
    );
    let mut course = Course {
        shared,
        schedule: warm_up,
        recorder: Recorder::new(work, shared.live, now_ns),
    };
    worker.drive(&mut course);

    let before = Reading::now(shared);
    let usage = Usage::now();
    let began_ns = machine_ns();
    let start_ns = clock.now_ns();
    let end_ns = start_ns + nanoseconds(work.duration);
    course.schedule = Schedule::new(start_ns, end_ns, work.rate_tps, work.transactions);
    course.recorder.open(start_ns);
    shared.open_window(start_ns, end_ns);
    worker.drive(&mut course);
    let ended_ns = clock.now_ns();
    let usage = Usage::now().since(&usage);
    let unfinished = worker.drain(&mut course);
    Ok(report(
        course,
        &worker,
        &before,
        &Ended {
            began_ns,
            at_ns: ended_ns,
            usage,
            unfinished,
        },
    ))
}

/// Now, on the clock that all processes of this machine share.
fn machine_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// When the window began on the machine's clock, and how it ended.
struct Ended {
    began_ns: u64,
    at_ns: u64,
    usage: Usage,
    unfinished: u64,
}

fn report(course: Course, worker: &Worker, before: &Reading, end: &Ended) -> Report {
    let Course {
        shared,
        schedule,
        recorder,
    } = course;
    let after = Reading::now(shared);
    let start_ns = schedule.start_ns();
    let until_ns = if schedule.at_limit() {
        recorder.last_success_ns()
    } else if shared.halted() {
        end.at_ns.min(schedule.end_ns())
    } else {
        schedule.end_ns()
    };
    let difference = |k: usize| difference(after.retransmitted[k], before.retransmitted[k]);
    let steal = |k: usize| {
        let (now, then) = (
            after.disturbance[k].as_ref()?,
            before.disturbance[k].as_ref()?,
        );
        now.since(then).steal_s
    };
    let mut account = recorder.into_account();
    let sent = worker.sent().map(|(sent, latest_ns)| {
        account.latest_ns = latest_ns;
        sent
    });
    Report {
        intended: schedule.intended(end.at_ns),
        shortfall: schedule.shortfall(end.at_ns),
        account,
        sent,
        began_ns: end.began_ns,
        duration_ns: until_ns.saturating_sub(start_ns),
        unfinished: end.unfinished,
        retransmits: worker.retransmits(),
        usage: end.usage,
        steal_s: [steal(0), steal(1)],
        retransmitted_segments: [difference(0), difference(1)],
        time_wait: [before.time_wait, after.time_wait],
        source_ports: Some(counters::source_ports().len() as u64).filter(|&ports| ports > 0),
    }
}

/// What a counter gained; none if one reading is missing.
pub(crate) fn difference(now: Option<u64>, then: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(then?))
}

fn no_connection(fault: Fault, target: SocketAddr) -> Failure {
    let mut failure = Failure::setup(&format!("cannot connect to {target}"), fault);
    if matches!(fault, Fault::Timeout | Fault::Unreachable | Fault::Refused) {
        failure.kind = FailureKind::Unreachable;
    }
    match fault {
        Fault::AddressUnavailable => {
            failure.hint("make every address of sources one of the client's namespace")
        }
        Fault::Timeout | Fault::Unreachable | Fault::Refused => failure
            .hint("check the path between the two namespaces: ip netns exec NETNS ping ADDRESS"),
        Fault::Other(number) if number == nix::libc::EMFILE => {
            failure.hint("raise the limit of open files: ulimit -n")
        }
        _ => failure,
    }
}
