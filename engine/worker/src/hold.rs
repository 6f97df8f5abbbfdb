//! Processes that are stopped while others are measured, and continued again.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, pidfd_send_signal, test_kill_process,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The processes of each group. None is left stopped when this goes.
#[derive(Debug)]
pub struct Hold {
    groups: Vec<Vec<Held>>,
    state: Mutex<State>,
}

/// One process, by a descriptor: its number may be another's once it has ended.
#[derive(Debug)]
struct Held {
    pid: i32,
    process: OwnedFd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was stopped yet.
    Idle,
    /// All but this group are stopped.
    Running(usize),
    /// All run, for good.
    Released,
}

/// A process that cannot be held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldError {
    /// Its group,
    pub group: usize,
    /// its place there,
    pub place: usize,
    /// and why.
    pub what: String,
}

impl Hold {
    /// Takes the processes with these numbers, by group; stops none.
    ///
    /// # Errors
    /// If there is no such process, it may not be signalled, or it is this one
    /// or its parent.
    pub fn new(groups: &[Vec<i32>]) -> Result<Self, HoldError> {
        let mut held = Vec::new();
        for (group, pids) in groups.iter().enumerate() {
            let take = |(place, &pid): (usize, &i32)| {
                take(pid).map_err(|what| HoldError { group, place, what })
            };
            let taken: Result<Vec<Held>, HoldError> = pids.iter().enumerate().map(take).collect();
            held.push(taken?);
        }
        Ok(Self {
            groups: held,
            state: Mutex::new(State::Idle),
        })
    }

    /// Sees to it that the processes of `group` run and all others are stopped;
    /// returns whether that took a signal. Those to stop are stopped first:
    /// threads that poll on one core shall not meet there.
    ///
    /// # Errors
    /// That a process has ended.
    pub fn turn_to(&self, group: usize) -> Result<bool, String> {
        let mut state = self.state();
        let stops: &mut dyn Iterator<Item = usize> = match *state {
            State::Idle => &mut (0..self.groups.len()).filter(|&other| other != group),
            State::Running(other) if other != group => &mut std::iter::once(other),
            State::Running(_) | State::Released => return self.check().map(|()| false),
        };
        *state = State::Running(group);
        for stopped in stops {
            self.signal(stopped, Signal::STOP);
        }
        self.signal(group, Signal::CONT);
        self.check().map(|()| true)
    }

    /// That all processes are there.
    ///
    /// # Errors
    /// Which one has ended.
    pub fn check(&self) -> Result<(), String> {
        for (group, held) in self.groups.iter().enumerate() {
            if let Some(held) = held.iter().find(|held| held.has_ended()) {
                let pid = held.pid;
                return Err(format!("process {pid} of slices.hold[{group}] has ended"));
            }
        }
        Ok(())
    }

    /// Continues all processes; none is stopped from now on.
    pub fn release(&self) {
        let mut state = self.state();
        if *state != State::Released {
            *state = State::Released;
            for group in 0..self.groups.len() {
                self.signal(group, Signal::CONT);
            }
        }
    }

    /// A panic while it was locked changes nothing about whom to continue.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal(&self, group: usize, signal: Signal) {
        for held in &self.groups[group] {
            // It fails for a process that has ended; `check` reports those.
            let _ = pidfd_send_signal(&held.process, signal);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}

/// Releases what it holds when it goes, also when a panic unwinds past it.
#[derive(Debug)]
pub struct ReleaseAtEnd(pub Arc<Hold>);

impl Drop for ReleaseAtEnd {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Held {
    /// Also if its parent has not yet taken note of it.
    fn has_ended(&self) -> bool {
        let now = Timespec::default();
        let mut watched = [PollFd::new(&self.process, PollFlags::IN)];
        poll(&mut watched, Some(&now)).is_ok_and(|ended| ended > 0)
    }
}

fn take(pid: i32) -> Result<Held, String> {
    let number = Some(pid).filter(|&pid| pid > 1).and_then(Pid::from_raw);
    let number = number.ok_or_else(|| {
        format!("{pid} is not a process that may be stopped; expected a process id above 1")
    })?;
    if number == getpid() || Some(number) == getppid() {
        return Err(format!(
            "process {pid} is this engine or its parent, which must not be stopped"
        ));
    }
    let refused = |errno: Errno| match errno {
        Errno::SRCH => format!("process {pid} does not exist"),
        // What the kernel answers for a thread that does not lead its process.
        Errno::INVAL | Errno::NOENT => format!("{pid} is a thread, not a process"),
        _ => format!("process {pid}: {errno}"),
    };
    let process = pidfd_open(number, PidfdFlags::empty()).map_err(refused)?;
    test_kill_process(number).map_err(refused)?;
    let held = Held { pid, process };
    if held.has_ended() {
        return Err(format!("process {pid} has ended"));
    }
    Ok(held)
}

#[cfg(test)]
#[path = "hold_device.rs"]
mod device;

#[cfg(test)]
#[path = "hold_tests.rs"]
mod tests;
