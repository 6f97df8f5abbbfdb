//! Where and how the calling thread is scheduled.
#![allow(unsafe_code)]

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::{fs, io};

/// Has the calling thread run on the core `core` alone
/// (`sched_setaffinity(2)`).
///
/// # Errors
/// The system's: `EINVAL` if there is no such core, or it is not the
/// process's to use.
pub fn pin(core: usize) -> io::Result<()> {
    keep_to(&[core])
}

/// Has the calling thread run on any of these cores, as the kernel chooses.
///
/// # Errors
/// The system's: `EINVAL` if there is none of them, or none is the process's
/// to use.
pub fn keep_to(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set)?;
    Ok(())
}

/// The NUMA node of a core; none if the kernel does not tell.
pub fn numa_node(core: usize) -> Option<usize> {
    let entries = fs::read_dir(format!("/sys/devices/system/cpu/cpu{core}")).ok()?;
    entries.filter_map(Result::ok).find_map(|entry| {
        entry
            .file_name()
            .to_str()?
            .strip_prefix("node")?
            .parse()
            .ok()
    })
}

/// Waits until every load before it has its value. The processor may otherwise
/// read its time stamp counter first (Intel SDM, `RDTSC`; Linux'
/// `rdtsc_ordered`), so that the reading is older than what was loaded.
#[inline(always)]
pub fn load_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE2.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier touches neither memory nor registers.
    unsafe {
        std::arch::asm!("isb", options(nostack, preserves_flags));
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::sched_getaffinity;

    #[test]
    fn a_pinned_thread_has_one_core() {
        let of_thread = || sched_getaffinity(Pid::from_raw(0)).unwrap();
        let allowed = of_thread();
        let mut cores = (0..CpuSet::count()).rev();
        let core = cores.find(|&core| allowed.is_set(core).unwrap());
        let core = core.unwrap();
        std::thread::spawn(move || {
            pin(core).unwrap();
            let cores = of_thread();
            let set = (0..CpuSet::count()).filter(|&core| cores.is_set(core).unwrap());
            assert_eq!(set.collect::<Vec<_>>(), [core]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_core_that_does_not_exist_is_an_error() {
        for core in [CpuSet::count() - 1, CpuSet::count()] {
            assert_eq!(pin(core).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        }
    }
}
