//! Scheduling calls that no safe crate in use offers.
#![allow(unsafe_code)]

use std::io;

/// Moves the calling thread to `SCHED_FIFO` with the lowest real-time
/// priority, so that it runs beside a thread that never sleeps (`sched(7)`).
///
/// # Errors
/// The system's, usually `EPERM` without `CAP_SYS_NICE`.
pub fn enter_realtime() -> io::Result<()> {
    set_policy(libc::SCHED_FIFO, 1)
}

/// Moves the calling thread back to `SCHED_OTHER`.
///
/// # Errors
/// The system's.
pub fn leave_realtime() -> io::Result<()> {
    set_policy(libc::SCHED_OTHER, 0)
}

fn set_policy(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let param = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `param` outlives the call, and thread 0 is the caller itself.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
