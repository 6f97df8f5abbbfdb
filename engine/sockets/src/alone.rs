//! A server whose client is another engine's.

use crate::client;
use crate::counters;
use crate::failure::Failure;
use crate::live::Live;
use crate::outcome::{Served, ServedWindow, Status, ThreadFacts};
use crate::record::OverTime;
use crate::run::{failed, place};
use crate::server::{self, Report};
use crate::shared::{Phase, Shared};
use crate::spec::{Kind, Workload};
use pinchpoint_worker::Clock;
use pinchpoint_worker::witness::Disturbance;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// Serves the client of `work`, which is elsewhere, until `live` stops it;
/// `listening` gets the address as soon as a client may connect. The address is
/// one of the server's namespace, never all of them.
///
/// # Errors
/// A [`Failure`] when it cannot listen: a value that cannot be met, a
/// namespace, core or address that is not there.
pub fn serve(
    work: &Workload,
    live: &Live,
    listening: impl FnOnce(SocketAddr),
) -> Result<Served, Failure> {
    work.check()?;
    let clock = Clock::new();
    let shared = &Shared::attended(work, live);
    let clock = &clock;
    let (report, window, address) = thread::scope(|scope| {
        let (ready, address) = mpsc::channel();
        let server = scope.spawn(move || server::run(shared, clock, &ready));
        let address = address.recv().unwrap_or_else(|_| Err(failed("server")))?;
        listening(address);
        let window = attend(shared, clock, &server);
        shared.finish();
        let report = server.join().ok().flatten();
        let report = report.ok_or_else(|| failed("server"))?;
        // Streams end when their client closes them: a `stop` after that is answered, too.
        while !shared.halted() {
            thread::sleep(Duration::from_nanos(shared.slice_ns()));
        }
        Ok((report, window, address))
    })?;
    let reason = shared.trouble();
    Ok(Served {
        status: match reason {
            Some(_) => Status::Aborted,
            None => Status::Stopped,
        },
        reason,
        address,
        server: place(work.server.core),
        window: window.map(|window| account(work, &window, report)),
    })
}

/// A window as it was, but for what the server's thread itself knows.
struct Window {
    start_ns: u64,
    end_ns: u64,
    steal_s: Option<f64>,
    retransmitted_segments: Option<u64>,
}

/// Opens the window and closes it, then waits to be stopped or for the last stream
/// to end; none if that came before the window.
fn attend<T>(shared: &Shared, clock: &Clock, server: &ScopedJoinHandle<'_, T>) -> Option<Window> {
    // What polls for a stop costs the measuring core next to nothing.
    let slice = Duration::from_nanos(shared.slice_ns());
    let goes_on = || !shared.halted() && !server.is_finished();
    let sleep_until = |at_ns: u64| {
        while goes_on() {
            let left_ns = at_ns.saturating_sub(clock.now_ns());
            if left_ns == 0 {
                break;
            }
            thread::sleep(slice.min(Duration::from_nanos(left_ns)));
        }
    };
    let (start_ns, end_ns) = loop {
        if let Some(planned) = shared.planned() {
            break planned;
        }
        if !goes_on() {
            return None;
        }
        thread::park_timeout(slice);
    };
    sleep_until(start_ns);
    if !goes_on() && clock.now_ns() < start_ns {
        return None;
    }
    let read = || {
        let retransmitted = counters::retransmitted(shared.server_tid());
        (Disturbance::now(shared.work.server.core), retransmitted)
    };
    let before = read();
    shared.enter(Phase::Measuring);
    sleep_until(end_ns);
    shared.enter(Phase::After);
    let after = read();
    sleep_until(u64::MAX);
    Some(Window {
        start_ns,
        end_ns,
        steal_s: after.0.since(&before.0).steal_s,
        retransmitted_segments: client::difference(after.1, before.1),
    })
}

fn account(work: &Workload, window: &Window, report: Report) -> ServedWindow {
    let streams = work.kind == Kind::Stream;
    let end_ns = window.end_ns.min(report.ended_ns);
    let duration_ns = end_ns.saturating_sub(window.start_ns);
    let over_time = streams.then_some(&report.over_time);
    ServedWindow {
        duration_ns,
        per_second: over_time.map(OverTime::per_second).unwrap_or_default(),
        trend: over_time.and_then(|one| one.trend(duration_ns)),
        received: if streams { report.received } else { Vec::new() },
        thread: ThreadFacts {
            usage: report.usage,
            steal_s: window.steal_s,
            retransmitted_segments: window.retransmitted_segments,
        },
    }
}
