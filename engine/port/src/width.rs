//! How many instructions a core executes in a cycle: less than its own where
//! another thread shares it.
//!
//! A virtual CPU is often one of two hardware threads of a core. What the
//! other one does, for another virtual machine, no counter in this one shows;
//! but it takes its share of the core's execution units, and a poll-mode
//! thread becomes slower by as much. So additions that do not depend on each
//! other, as many as the core can execute, are timed beside as many that do,
//! one in a cycle whoever shares the core: the clock cancels out.
#![allow(unsafe_code)]

use std::time::Instant;

const SAMPLES: usize = 31;
/// Additions in one turn of either loop.
const TURN: u32 = 12;
const DEPENDENT_TURNS: u64 = 200;
const INDEPENDENT_TURNS: u64 = 600;

/// Instructions a cycle that the calling thread's core executes for it now,
/// the median of several tries within 0.1 ms. None on a processor whose
/// instructions we do not write.
pub fn instructions_per_cycle() -> Option<f64> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let mut found = [0.0; SAMPLES];
    for one in &mut found {
        let cycle = of_one_addition(dependent, DEPENDENT_TURNS);
        *one = cycle / of_one_addition(independent, INDEPENDENT_TURNS);
    }
    found.sort_by(f64::total_cmp);
    Some(found[SAMPLES / 2])
}

/// Seconds that a loop of this many turns takes if it only adds.
fn of_one_addition(adds: fn(u64), turns: u64) -> f64 {
    let begun = Instant::now();
    adds(turns);
    begun.elapsed().as_secs_f64() / (turns as f64 * f64::from(TURN))
}

/// Additions each of which waits for the one before: one in a cycle.
#[cfg(target_arch = "x86_64")]
fn dependent(turns: u64) {
    // SAFETY: it changes the named registers and the flags, nothing else.
    unsafe {
        std::arch::asm!(
            "2:",
            "add {sum}, {turns}", "add {sum}, {turns}", "add {sum}, {turns}",
            "add {sum}, {turns}", "add {sum}, {turns}", "add {sum}, {turns}",
            "add {sum}, {turns}", "add {sum}, {turns}", "add {sum}, {turns}",
            "add {sum}, {turns}", "add {sum}, {turns}", "add {sum}, {turns}",
            "dec {turns}",
            "jnz 2b",
            sum = inout(reg) 0u64 => _,
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
}

/// Additions in six chains: as many in a cycle as there are units for them.
#[cfg(target_arch = "x86_64")]
fn independent(turns: u64) {
    // SAFETY: it changes the named registers and the flags, nothing else.
    unsafe {
        std::arch::asm!(
            "2:",
            "add {a}, {turns}", "add {b}, {turns}", "add {c}, {turns}",
            "add {d}, {turns}", "add {e}, {turns}", "add {f}, {turns}",
            "add {a}, {turns}", "add {b}, {turns}", "add {c}, {turns}",
            "add {d}, {turns}", "add {e}, {turns}", "add {f}, {turns}",
            "dec {turns}",
            "jnz 2b",
            a = inout(reg) 0u64 => _,
            b = inout(reg) 1u64 => _,
            c = inout(reg) 2u64 => _,
            d = inout(reg) 3u64 => _,
            e = inout(reg) 4u64 => _,
            f = inout(reg) 5u64 => _,
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn dependent(_turns: u64) {}

#[cfg(not(target_arch = "x86_64"))]
fn independent(_turns: u64) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_executes_more_than_one_instruction_a_cycle() {
        let Some(found) = instructions_per_cycle() else {
            return; // of another processor nothing is known
        };
        assert!((1.0..16.0).contains(&found), "{found}");
    }
}
