//! The four rings between an AF_XDP socket and the kernel
//! (Documentation/networking/af_xdp.rst, linux/if_xdp.h).
//!
//! Each ring has one producer and one consumer, whose counters run freely over
//! 32 bits; an entry's place is its number modulo the ring's size.
#![allow(unsafe_code)]

use super::memory::Mapping;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A mapped ring, with this side's view of the other side's counter.
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// This side's counter: nobody else writes it.
    own: u32,
    /// The other side's, as last read.
    other: u32,
    _mapping: Mapping,
}

// SAFETY: the mapping belongs to the value; the kernel's side keeps to the
// protocol of the counters.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn map(
        socket: &impl AsRawFd,
        page_offset: i64,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        let entries_at = offsets.desc as usize;
        let len = entries_at + size as usize * size_of::<T>();
        let mapping = Mapping::of_socket(socket, page_offset, len)?;
        let counter = |offset: u64| mapping.at::<AtomicU32>(offset as usize);
        Ok(Self {
            producer: counter(offsets.producer),
            consumer: counter(offsets.consumer),
            flags: counter(offsets.flags),
            entries: mapping.at(entries_at),
            size,
            own: 0,
            other: 0,
            _mapping: mapping,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: points into the mapping, which lives as long as `self`.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    fn entry(&self, number: u32) -> NonNull<T> {
        let index = (number & (self.size - 1)) as usize;
        // SAFETY: the size is a power of two, so `index` is below it, and the
        // mapping holds that many entries.
        unsafe { self.entries.add(index) }
    }

    fn needs_wakeup(&self) -> bool {
        // SAFETY: points into the mapping, which lives as long as `self`.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring that this side fills: transmit or fill.
pub(super) struct Producer<T>(Ring<T>);

impl<T: Copy> Producer<T> {
    pub(super) fn map(
        socket: &impl AsRawFd,
        page_offset: i64,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        Ring::map(socket, page_offset, offsets, size).map(Self)
    }

    /// Entries that can be [written](Self::write), at least `wanted` if there
    /// are that many.
    #[inline]
    pub(super) fn free(&mut self, wanted: u32) -> u32 {
        let ring = &mut self.0;
        let free = ring.size - ring.own.wrapping_sub(ring.other);
        if free >= wanted {
            return free;
        }
        ring.other = ring.consumer().load(Ordering::Acquire);
        ring.size - ring.own.wrapping_sub(ring.other)
    }

    /// Writes the entry number `index` of those that are free.
    #[inline]
    pub(super) fn write(&mut self, index: u32, entry: T) {
        debug_assert!(index < self.0.size);
        let slot = self.0.entry(self.0.own.wrapping_add(index));
        // SAFETY: valid for writes; behind this side's counter the kernel
        // does not read.
        unsafe { slot.write(entry) };
    }

    /// Hands over the first `count` entries written.
    #[inline]
    pub(super) fn publish(&mut self, count: u32) {
        let ring = &mut self.0;
        ring.own = ring.own.wrapping_add(count);
        ring.producer().store(ring.own, Ordering::Release);
    }

    /// Entries that the kernel has not taken yet.
    #[inline]
    pub(super) fn waiting(&mut self) -> u32 {
        let ring = &mut self.0;
        if ring.own == ring.other {
            return 0;
        }
        ring.other = ring.consumer().load(Ordering::Acquire);
        ring.own.wrapping_sub(ring.other)
    }

    /// Whether the kernel wants a system call to go on with this ring.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.0.needs_wakeup()
    }
}

/// A ring that the kernel fills: receive or completion.
pub(super) struct Consumer<T>(Ring<T>);

impl<T: Copy> Consumer<T> {
    pub(super) fn map(
        socket: &impl AsRawFd,
        page_offset: i64,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        Ring::map(socket, page_offset, offsets, size).map(Self)
    }

    /// Entries that can be [read](Self::read).
    #[inline]
    pub(super) fn available(&mut self) -> u32 {
        let ring = &mut self.0;
        ring.other = ring.producer().load(Ordering::Acquire);
        ring.other.wrapping_sub(ring.own)
    }

    /// The entry number `index` of those that are available.
    #[inline]
    pub(super) fn read(&self, index: u32) -> T {
        let slot = self.0.entry(self.0.own.wrapping_add(index));
        // SAFETY: valid for reads and written by the kernel, which does not
        // write it again before it is released.
        unsafe { slot.read() }
    }

    /// Gives back the first `count` entries.
    #[inline]
    pub(super) fn release(&mut self, count: u32) {
        let ring = &mut self.0;
        ring.own = ring.own.wrapping_add(count);
        ring.consumer().store(ring.own, Ordering::Release);
    }
}
