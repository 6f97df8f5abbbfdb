//! DPDK's environment layer: once per process, and a registration per thread.

use super::{ffi, strerror};
use crate::{OpenError, SessionSpec};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::ffi::{CString, c_char};
use std::sync::Mutex;

/// What the environment layer was initialised with; none before. It cannot be
/// undone within a process, and this is the only record of it.
static INITIALISED: Mutex<Option<Vec<String>>> = Mutex::new(None);
/// The device whose driver was left waiting, with DPDK's locks in its hands.
static STUCK: Mutex<Option<String>> = Mutex::new(None);

/// Takes note that the driver of `device` still waits, in a thread of its own.
pub(super) fn leave_waiting(device: &str) {
    if let Ok(mut stuck) = STUCK.lock() {
        *stuck = Some(device.to_owned());
    }
}

/// Initialises the environment layer for the first session that needs it. The
/// calling thread becomes DPDK's main thread but keeps its cores.
pub(super) fn init(session: &SessionSpec) -> Result<(), OpenError> {
    let stuck = STUCK.lock().ok().and_then(|stuck| stuck.clone());
    if let Some(device) = stuck {
        return Err(OpenError::new(format!(
            "the driver of {device} has not returned from an earlier open"
        ))
        .hint("restart the engine: DPDK can open no further device in this process"));
    }
    let mut initialised = INITIALISED
        .lock()
        .map_err(|_| OpenError::new("an earlier initialisation of DPDK failed"))?;
    match &*initialised {
        Some(args) if *args == session.eal_args => return Ok(()),
        Some(_) => {
            return Err(
                OpenError::new("eal_args differ from those of the first session")
                    .hint("restart the engine: DPDK is initialised once per process"),
            );
        }
        None => {}
    }
    let before = sched_getaffinity(Pid::from_raw(0)).ok();
    let result = init_with(&arguments(session, before.as_ref()));
    if let Some(cores) = &before {
        // Failing leaves this thread on the main lcore: slower, not wrong.
        let _ = sched_setaffinity(Pid::from_raw(0), cores);
    }
    result?;
    *initialised = Some(session.eal_args.clone());
    Ok(())
}

fn init_with(args: &[String]) -> Result<(), OpenError> {
    let owned: Result<Vec<_>, _> = args.iter().map(|arg| CString::new(arg.as_str())).collect();
    let owned = owned.map_err(|_| OpenError::new("eal_args contain a zero byte"))?;
    let mut argv: Vec<*mut c_char> = owned.iter().map(|arg| arg.as_ptr().cast_mut()).collect();
    argv.push(std::ptr::null_mut());
    // SAFETY: `argv` holds `args.len()` strings and a null pointer; DPDK may
    // reorder the pointers but copies what it keeps.
    let rc = unsafe { ffi::pp_eal_init(args.len() as i32, argv.as_mut_ptr()) };
    // Options are kept by reference for error messages, so they must not go.
    std::mem::forget(owned);
    if rc < 0 {
        let error = match Errno::from_raw(-rc) {
            Errno::ENOMEM => OpenError::memory,
            _ => OpenError::new,
        };
        return Err(error(format!(
            "rte_eal_init({}): {}",
            args[1..].join(" "),
            strerror(rc)
        ))
        .hint("see DPDK's log on stderr; if it lacks memory, reserve hugepages: sysctl vm.nr_hugepages=512"));
    }
    Ok(())
}

/// The session's arguments, plus: no telemetry socket, and one lcore (DPDK
/// would start a thread on every core) that may run anywhere but on the
/// workers' cores, unless there is no other.
fn arguments(session: &SessionSpec, allowed: Option<&CpuSet>) -> Vec<String> {
    let mut args = vec!["pinchpoint-engine".to_owned()];
    let given = &session.eal_args;
    let chooses_cores = given.iter().any(|arg| {
        arg.starts_with("--lcores")
            || arg.starts_with("-l")
            || arg.starts_with("-c")
            || arg == "--main-lcore"
    });
    if !chooses_cores {
        args.push(format!("--lcores=0@({})", main_cores(session, allowed)));
    }
    if !given
        .iter()
        .any(|arg| arg == "--no-telemetry" || arg == "--telemetry")
    {
        args.push("--no-telemetry".to_owned());
    }
    args.extend(given.iter().cloned());
    args
}

fn main_cores(session: &SessionSpec, allowed: Option<&CpuSet>) -> String {
    let all: Vec<usize> = (0..CpuSet::count())
        .filter(|&core| allowed.is_some_and(|set| set.is_set(core).unwrap_or(false)))
        .collect();
    let free = |core: &&usize| !session.worker_cores.contains(core);
    let mut cores: Vec<String> = all.iter().filter(free).map(ToString::to_string).collect();
    if cores.is_empty() {
        cores = all.iter().map(ToString::to_string).collect();
    }
    if cores.is_empty() {
        cores.push("0".to_owned());
    }
    cores.join(",")
}

/// Registers the calling thread with DPDK while it lives, so that it gets a
/// buffer cache of its own. Does nothing before the first port is open.
pub(crate) struct Registration(bool);

impl Registration {
    /// Registers the calling thread.
    pub(crate) fn new() -> Self {
        let ready = INITIALISED.lock().is_ok_and(|args| args.is_some());
        // SAFETY: DPDK is initialised; a thread without a registration still
        // works, through the pool's shared ring.
        Self(ready && unsafe { ffi::pp_thread_register() } == 0)
    }
}

impl Default for Registration {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: this thread was registered by `new`, and the value
            // stays in it: it holds no port and is never sent away.
            unsafe { ffi::pp_thread_unregister() }
        }
    }
}
