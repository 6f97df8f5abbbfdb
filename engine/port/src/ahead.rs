//! Cache lines asked for before they are read.
#![allow(unsafe_code)]

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;
/// Frames from the one that is read to the one whose lines are asked for: a
/// line comes from another core within 60 to 150 ns, in which a core reads
/// about as many.
pub(crate) const AHEAD: usize = 8;

/// Asks for the line at an address, which need not be mapped.
#[inline(always)]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it neither faults nor changes anything.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint; it neither faults nor changes anything.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// Asks for the first and the last line of a frame: the last has its signature.
#[inline(always)]
pub(crate) fn prefetch_frame(start: *const u8, len: usize) {
    prefetch(start);
    if len > LINE {
        prefetch(start.wrapping_add(len - 1));
    }
}
