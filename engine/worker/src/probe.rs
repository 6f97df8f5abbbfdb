//! How far two cores are apart: half the round trip of one cache line.
//!
//! In a virtual machine the same two cores may be near or far, changing within
//! seconds and without any other sign; everything that crosses them follows.
//! So the distance is measured before and after a trial, never during it, and
//! with it what each core has to give ([`width`]).

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use pinchpoint_port::{sched, width};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const BATCHES: usize = 11;
const ROUND_TRIPS: u32 = 200;
/// A probe that takes longer gives up: a core is not to be had.
const DEADLINE: Duration = Duration::from_millis(20);
/// How long a side may take to run at all.
const GIVE_UP: Duration = Duration::from_millis(200);
/// Share of the most that a core was seen to execute: probes of a core that
/// nobody else uses differ by less.
const WHOLE: f64 = 0.95;
/// A neighbour stays for a tenth of a second and longer, and each probe takes
/// some time of whatever polls there.
const BETWEEN_PROBES: Duration = Duration::from_millis(20);

/// The line that is bounced, alone on its (doubled) cache line. The asking
/// side writes odd numbers, the other answers with the next even one.
#[repr(align(128))]
struct Line(AtomicU32);

struct Shared {
    line: Line,
    end: AtomicBool,
    /// Sides that are on their cores.
    placed: Mutex<u32>,
    arrival: Condvar,
}

/// What a probe found, and what it cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distance {
    /// One way, in nanoseconds: half the round trip, the median of several
    /// batches. None if a core could not be used or did not answer in 20 ms.
    pub one_way_ns: Option<f64>,
    /// Instructions a cycle that each core executed, None if it could not be used.
    pub ipc: [Option<f64>; 2],
    /// Processor time the probe took on each core: whatever polls there had
    /// to wait for as long.
    pub occupied_ns: [u64; 2],
}

/// The distance between `cores`.
///
/// The two threads run under `SCHED_FIFO` where allowed, so that they get
/// their turn on a core where a poll-mode thread never sleeps. On a core that
/// cannot be had at all they are left behind, and end once they run.
pub fn distance(cores: [usize; 2]) -> Distance {
    let nothing = Distance {
        one_way_ns: None,
        ipc: [None, None],
        occupied_ns: [0, 0],
    };
    if cores[0] == cores[1] {
        return nothing;
    }
    let shared = Arc::new(Shared {
        line: Line(AtomicU32::new(0)),
        end: AtomicBool::new(false),
        placed: Mutex::new(0),
        arrival: Condvar::new(),
    });
    let asked = side(&shared, cores[0], ask);
    let echoed = side(&shared, cores[1], |shared| {
        echo(shared);
        None
    });
    let answers = [asked, echoed].map(|side| side?.recv_timeout(GIVE_UP).ok());
    shared.end.store(true, Ordering::Release);
    let [Some(asking), Some(echoing)] = answers else {
        return nothing;
    };
    Distance {
        one_way_ns: asking.one_way_ns,
        ipc: [asking.ipc, echoing.ipc],
        occupied_ns: [asking.occupied_ns, echoing.occupied_ns],
    }
}

/// The most instructions a cycle that each core was seen to execute.
#[derive(Debug, Default)]
pub struct Widest(BTreeMap<usize, f64>);

impl Widest {
    /// Takes note of what a probe saw; whether none of the core was missing.
    /// It is if nobody saw it, since waiting would not help.
    fn is_whole(&mut self, core: usize, ipc: Option<f64>) -> bool {
        let Some(ipc) = ipc else { return true };
        let most = self.0.entry(core).or_insert(ipc);
        *most = most.max(ipc);
        ipc >= WHOLE * *most
    }
}

/// The distance between `cores` in the first moment, within `wait`, in
/// which nobody else uses the second one; after that as it is. What all
/// probes took is in `occupied_ns`.
pub fn quiet_distance(cores: [usize; 2], wait: Duration, widest: &mut Widest) -> Distance {
    let begun = Instant::now();
    let mut occupied_ns = [0, 0];
    let mut one_way_ns = None;
    loop {
        let found = distance(cores);
        one_way_ns = found.one_way_ns.or(one_way_ns);
        for (sum, ns) in occupied_ns.iter_mut().zip(found.occupied_ns) {
            *sum += ns;
        }
        if widest.is_whole(cores[1], found.ipc[1]) || begun.elapsed() >= wait {
            return Distance {
                one_way_ns,
                occupied_ns,
                ..found
            };
        }
        std::thread::sleep(BETWEEN_PROBES.min(wait));
    }
}

/// What one side found.
struct Answer {
    one_way_ns: Option<f64>,
    ipc: Option<f64>,
    occupied_ns: u64,
}

/// Has a thread on `core` do its part once the other side is there too.
fn side(
    shared: &Arc<Shared>,
    core: usize,
    part: fn(&Shared) -> Option<f64>,
) -> Option<Receiver<Answer>> {
    let (sender, receiver) = channel();
    let shared = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("probe".to_owned());
    let run = move || {
        let is_there = meets(&shared, core);
        let one_way_ns = is_there.then(|| part(&shared)).flatten();
        // One side after the other: two hardware threads of one core would
        // slow each other. The echo ends at the end flag.
        let ipc = is_there.then(width::instructions_per_cycle).flatten();
        // Without an answer the other side waits no longer.
        if one_way_ns.is_some() {
            shared.end.store(true, Ordering::Release);
        }
        let _ = sched::leave_realtime();
        let _ = sender.send(Answer {
            one_way_ns,
            ipc,
            occupied_ns: thread_time_ns(),
        });
    };
    thread.spawn(run).ok().map(|_| receiver)
}

/// Goes to `core`; whether the other side got to its own in time. Waits
/// asleep: the other side may need this very core to get started.
fn meets(shared: &Shared, core: usize) -> bool {
    if !place(core) {
        return false;
    }
    let Ok(mut placed) = shared.placed.lock() else {
        return false;
    };
    *placed += 1;
    shared.arrival.notify_all();
    let alone = |placed: &mut u32| *placed < 2;
    let waited = shared.arrival.wait_timeout_while(placed, DEADLINE, alone);
    waited.is_ok_and(|(placed, _)| *placed == 2)
}

/// Processor time of the calling thread, which lives for one probe only.
fn thread_time_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    let nanoseconds = time.map_or(0, |time| time.num_nanoseconds());
    u64::try_from(nanoseconds).unwrap_or(0)
}

fn place(core: usize) -> bool {
    let pinned = sched::pin(core).is_ok();
    // Without the right to real-time scheduling the probe still works on an
    // idle core, and says nothing about a busy one.
    let _ = sched::enter_realtime();
    pinned
}

fn ask(shared: &Shared) -> Option<f64> {
    let line = &shared.line.0;
    let begun = Instant::now();
    let mut batches = [0.0; BATCHES];
    let mut value = 0;
    for batch in &mut batches {
        let start = Instant::now();
        for _ in 0..ROUND_TRIPS {
            line.store(value + 1, Ordering::Release);
            value += 2;
            if !await_value(line, value, begun) {
                return None;
            }
        }
        *batch = start.elapsed().as_nanos() as f64 / f64::from(ROUND_TRIPS) / 2.0;
    }
    batches.sort_by(f64::total_cmp);
    Some(batches[BATCHES / 2])
}

fn await_value(line: &AtomicU32, value: u32, begun: Instant) -> bool {
    let mut spins = 0u32;
    while line.load(Ordering::Acquire) != value {
        spins += 1;
        if spins.is_multiple_of(1024) && begun.elapsed() > DEADLINE {
            return false;
        }
        std::hint::spin_loop();
    }
    true
}

fn echo(shared: &Shared) {
    let line = &shared.line.0;
    let mut spins = 0u32;
    let begun = Instant::now();
    loop {
        let value = line.load(Ordering::Acquire);
        if value % 2 == 1 {
            line.store(value + 1, Ordering::Release);
            continue;
        }
        spins += 1;
        if spins.is_multiple_of(256)
            && (shared.end.load(Ordering::Acquire) || begun.elapsed() > DEADLINE)
        {
            return;
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_have_a_distance_and_it_costs_time() {
        let cores = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        let usable = |core: &usize| cores.is_set(*core).unwrap_or(false);
        let usable: Vec<_> = (0..nix::sched::CpuSet::count()).filter(usable).collect();
        let [one, other, ..] = usable[..] else {
            return; // a machine with one core has no distances
        };
        // From one of the two cores, which a side that spins would take away.
        // A core may be gone for a while: one of several probes is enough.
        let probes = move || {
            sched::pin(one).expect("a core of ours");
            let found = (0..50).map(|_| distance([one, other]));
            found.into_iter().find(|found| found.one_way_ns.is_some())
        };
        let found = std::thread::spawn(probes).join().expect("no panic");
        let found = found.expect("a distance");
        assert!(found.one_way_ns.is_some_and(|ns| ns > 0.0));
        if cfg!(target_arch = "x86_64") {
            assert!(found.ipc.iter().all(|ipc| ipc.is_some_and(|ipc| ipc > 1.0)));
        }
        assert!(found.occupied_ns.iter().all(|ns| *ns > 0));
    }

    #[test]
    fn a_core_is_whole_while_it_executes_as_much_as_it_ever_did() {
        let mut widest = Widest::default();
        assert!(widest.is_whole(1, Some(2.4)), "nothing else was seen");
        assert!(widest.is_whole(1, Some(4.0)));
        assert!(!widest.is_whole(1, Some(2.4)));
        assert!(widest.is_whole(1, Some(3.9)));
        assert!(widest.is_whole(2, Some(2.4)), "another core");
        assert!(widest.is_whole(1, None), "nobody can tell");
    }

    #[test]
    fn the_wait_has_an_end() {
        let mut widest = Widest(BTreeMap::from([(1, f64::INFINITY)]));
        let begun = Instant::now();
        let wait = Duration::from_millis(30);
        let found = quiet_distance([0, 1], wait, &mut widest);
        // Where the cores cannot be probed there is nothing to wait for.
        assert!(found.ipc[1].is_none() || begun.elapsed() >= wait);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_core_has_no_distance_to_itself_and_a_missing_one_none() {
        assert_eq!(distance([0, 0]).one_way_ns, None);
        assert_eq!(distance([0, 1023]).one_way_ns, None);
    }
}
