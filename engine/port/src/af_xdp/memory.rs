//! Mapped memory: the rings, and the area that holds the frames.
#![allow(unsafe_code)]

use crate::ahead::prefetch_frame;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::{self, NonNull};

/// Bytes of a huge page to be tried.
const HUGE_PAGE: usize = 2 << 20;

/// A mapping that ends with the value.
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the value alone.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(len: usize, flags: libc::c_int, fd: RawFd, offset: i64) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_POPULATE,
                fd,
                offset,
            )
        };
        let start = NonNull::new(address.cast()).filter(|_| address != libc::MAP_FAILED);
        let start = start.ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, len })
    }

    /// One of a socket's rings.
    pub(super) fn of_socket(socket: &impl AsRawFd, offset: i64, len: usize) -> io::Result<Self> {
        Self::new(len, libc::MAP_SHARED, socket.as_raw_fd(), offset)
    }

    /// Memory for frames, at least `len` bytes, all zero; on huge pages if the
    /// system has some to spare.
    pub(super) fn of_frames(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Self::new(
            len.next_multiple_of(HUGE_PAGE),
            flags | libc::MAP_HUGETLB,
            -1,
            0,
        )
        .or_else(|_| Self::new(len, flags, -1, 0))
    }

    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Where something that the kernel laid out at `offset` stands.
    ///
    /// # Panics
    /// If it would reach past the end.
    pub(super) fn at<T>(&self, offset: usize) -> NonNull<T> {
        assert!(
            offset + size_of::<T>() <= self.len,
            "{offset} is not mapped"
        );
        // SAFETY: inside the mapping.
        unsafe { self.start.add(offset).cast() }
    }

    /// Asks for the lines of a frame that is about to be read.
    #[inline(always)]
    pub(super) fn prefetch(&self, frame: libc::xdp_desc) {
        let start = self.start.as_ptr().wrapping_add(frame.addr as usize);
        prefetch_frame(start, frame.len as usize);
    }

    /// The bytes from `offset` on; none if they would reach past the end.
    #[inline]
    pub(super) fn bytes(&mut self, offset: u64, len: usize) -> &mut [u8] {
        let offset = offset as usize;
        if offset.saturating_add(len) > self.len {
            return &mut [];
        }
        // SAFETY: inside the mapping, which `&mut self` keeps and which has no
        // other borrower here. Callers only name chunks that no ring has
        // handed to the kernel.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(offset).as_ptr(), len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps what `new` mapped; nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
