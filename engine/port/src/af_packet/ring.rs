//! Memory shared with the kernel: the rings of packet(7), format
//! `TPACKET_V2` (Linux: Documentation/networking/packet_mmap.rst).
//!
//! A ring is an array of slots of equal length. Each starts with a
//! `tpacket2_hdr`, whose status word says whose the slot is; whoever owns it
//! may touch the rest of it, and hands it over by writing the status.
#![allow(unsafe_code)]

use super::socket::Socket;
use super::{Cut, Sent, vlan};
use crate::ahead::{AHEAD, LINE, prefetch_frame};
use crate::{BURST, Sink, Source, Stamps};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

type Header = libc::tpacket2_hdr;

/// From the start of a slot to what is to be sent.
const TX_OFFSET: usize = size_of::<Header>().next_multiple_of(libc::TPACKET_ALIGNMENT);
/// `struct virtio_net_hdr` of `linux/virtio_net.h`.
const VNET_LEN: usize = 10;
/// From the start of a slot to a received frame's network header, at most, if
/// the link's header has `ethernet::HEADER_LEN` bytes.
const RX_NETWORK: usize = 80;
/// Slots have a length divisible by this, a cache line, so a block of
/// page size / this many slots ends where a page ends, and slots follow each
/// other without a gap over all blocks.
const SLOT_UNIT: usize = 64;

/// A mapped ring.
struct Ring {
    base: NonNull<u8>,
    slot_len: usize,
    slots: usize,
    /// The slot that the kernel and we turn to next.
    next: usize,
}

// SAFETY: the mapping belongs to this value alone and to no thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Makes and maps a ring (`PACKET_RX_RING` or `PACKET_TX_RING`) of at
    /// least `slots` slots of at least `slot_len` bytes.
    fn new(
        socket: &Socket,
        option: libc::c_int,
        slots: usize,
        slot_len: usize,
    ) -> io::Result<Self> {
        socket.set_packet(
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V2 as i32,
        )?;
        // SAFETY: takes no pointers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
        let slot_len = slot_len.next_multiple_of(SLOT_UNIT);
        let per_block = page / SLOT_UNIT;
        let blocks = slots.div_ceil(per_block).max(1);
        let request = libc::tpacket_req {
            tp_block_size: (per_block * slot_len) as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot_len as u32,
            tp_frame_nr: (blocks * per_block) as u32,
        };
        socket.set_ring(option, &request)?;
        let slots = blocks * per_block;
        // SAFETY: a new mapping at an address of the kernel's choice; the
        // result is checked before use.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                slots * slot_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            base,
            slot_len,
            slots,
            next: 0,
        })
    }

    /// The slot `ahead` slots after the next one; `ahead` is less than the
    /// ring's length.
    #[inline(always)]
    fn slot(&self, ahead: usize) -> NonNull<u8> {
        let mut index = self.next + ahead;
        if index >= self.slots {
            index -= self.slots;
        }
        // SAFETY: `index` is less than `slots`, so the slot lies within the
        // mapping.
        unsafe { self.base.add(index * self.slot_len) }
    }

    #[inline(always)]
    fn status(&self, ahead: usize) -> &AtomicU32 {
        let header = self.slot(ahead).cast::<Header>();
        // SAFETY: a slot is aligned to 64 bytes and starts with its header;
        // the kernel and we access the status only atomically.
        unsafe { AtomicU32::from_ptr(&raw mut (*header.as_ptr()).tp_status) }
    }

    fn advance(&mut self, slots: usize) {
        self.next = (self.next + slots) % self.slots;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length, and
        // nothing borrowed from it outlives the ring.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.slots * self.slot_len) };
    }
}

/// A socket that sends from a ring.
pub(super) struct RingSender {
    ring: Ring,
    socket: Socket,
    max_len: usize,
}

impl RingSender {
    /// Turns `socket`, not yet bound, into one that sends frames of at most
    /// `max_len` bytes from a ring of at least `slots` slots.
    pub(super) fn new(socket: Socket, slots: usize, max_len: usize) -> io::Result<Self> {
        // See the module `af_packet` for why each frame has this header.
        socket.set_packet(libc::PACKET_VNET_HDR, 1)?;
        let slots = slots.max(BURST);
        let slot_len = TX_OFFSET + VNET_LEN + max_len;
        let ring = Ring::new(&socket, libc::PACKET_TX_RING, slots, slot_len)?;
        Ok(Self {
            ring,
            socket,
            max_len,
        })
    }

    pub(super) fn slots(&self) -> usize {
        self.ring.slots
    }

    #[inline(always)]
    pub(super) fn send<S: Source>(&mut self, count: usize, mut source: S) -> Sent {
        let count = count.min(BURST);
        let filled = (0..count)
            .take_while(|&k| self.fill(k, &mut source))
            .count();
        if filled == 0 {
            return Sent::cut(0, (count > 0).then_some(Cut::RingFull));
        }
        // SAFETY: no buffer is passed: the frames are in the ring.
        let sent = unsafe {
            libc::sendto(
                self.socket.fd(),
                ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                ptr::null(),
                0,
            )
        };
        let error = (sent < 0).then(io::Error::last_os_error);
        let taken = self.taken(filled);
        let cut = match error {
            _ if taken == count => None,
            _ if taken == filled => Some(Cut::RingFull),
            Some(error) => Some(Cut::from(&error)),
            None => Some(Cut::NoBuffers),
        };
        Sent::cut(taken, cut)
    }

    /// Writes the frame number `index` into its slot; false if the slot is not
    /// ours.
    #[inline(always)]
    fn fill<S: Source>(&self, index: usize, source: &mut S) -> bool {
        let status = self.ring.status(index);
        let busy = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING;
        if status.load(Ordering::Acquire) & busy != 0 {
            return false;
        }
        let len = source.len(index).min(self.max_len);
        let slot = self.ring.slot(index);
        // SAFETY: the slot is ours, as its status says, and holds the header
        // and `max_len` bytes behind the two offsets.
        let frame = unsafe {
            (*slot.cast::<Header>().as_ptr()).tp_len = (VNET_LEN + len) as u32;
            let vnet = slot.add(TX_OFFSET).cast::<[u8; VNET_LEN]>();
            vnet.write(copy_whole(len));
            std::slice::from_raw_parts_mut(slot.add(TX_OFFSET + VNET_LEN).as_ptr(), len)
        };
        source.frame(index, frame);
        status.store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        true
    }

    /// How many of `filled` frames the kernel took. It turns to them in order
    /// and stops at the first that it cannot send; that one and those behind
    /// it are withdrawn, or the next burst would send them.
    #[inline(always)]
    fn taken(&mut self, filled: usize) -> usize {
        let left = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT;
        let stays = |&k: &usize| self.ring.status(k).load(Ordering::Acquire) & left == 0;
        let taken = (0..filled).take_while(stays).count();
        for k in taken..filled {
            let status = self.ring.status(k);
            status.store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        }
        self.ring.advance(taken);
        taken
    }
}

/// The `virtio_net_hdr` of a frame of `len` bytes without segmentation or
/// checksum offload, whose length of headers is the whole frame.
#[inline(always)]
fn copy_whole(len: usize) -> [u8; VNET_LEN] {
    let mut header = [0; VNET_LEN];
    header[2..4].copy_from_slice(&(len as u16).to_ne_bytes());
    header
}

/// A socket that receives into a ring.
pub(super) struct RingReceiver {
    ring: Ring,
    socket: Socket,
    truncated: u64,
    stamps: Stamps,
    unstamped: u64,
}

impl RingReceiver {
    /// Turns `socket`, not yet bound, into one that receives into a ring of
    /// at least `slots` slots, or more if `bytes` hold more.
    pub(super) fn new(
        socket: Socket,
        slots: usize,
        bytes: usize,
        max_len: usize,
        stamps: Stamps,
    ) -> io::Result<Self> {
        let slot_len = (RX_NETWORK + max_len).next_multiple_of(SLOT_UNIT);
        let slots = slots.max(bytes / slot_len);
        socket.stamp(stamps)?;
        let ring = Ring::new(&socket, libc::PACKET_RX_RING, slots, slot_len)?;
        Ok(Self {
            ring,
            socket,
            truncated: 0,
            stamps,
            unstamped: 0,
        })
    }

    pub(super) fn slots(&self) -> usize {
        self.ring.slots
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Frames that did not fit in a slot.
    pub(super) fn truncated(&self) -> u64 {
        self.truncated
    }

    pub(super) fn stamps(&self) -> Stamps {
        self.stamps
    }

    /// Frames without the time stamp of the NIC that was asked for, since the last call.
    pub(super) fn take_unstamped(&mut self) -> u64 {
        std::mem::take(&mut self.unstamped)
    }

    #[inline(always)]
    pub(super) fn receive<S: Sink>(&mut self, sink: &mut S) -> usize {
        let user = libc::TP_STATUS_USER;
        let arrived = |&k: &usize| self.ring.status(k).load(Ordering::Acquire) & user != 0;
        let count = (0..BURST.min(self.ring.slots)).take_while(arrived).count();
        if count == 0 {
            return 0;
        }
        sink.arrived(count);
        for k in 0..count {
            if k + AHEAD < count {
                // The header's line came with the status; the frame begins behind it.
                let slot = self.ring.slot(k + AHEAD).as_ptr();
                prefetch_frame(slot.wrapping_add(LINE), 2 * LINE);
            }
            if self.stamps != Stamps::Engine {
                sink.stamped(self.stamp(k));
            }
            sink.frame(self.frame(k));
            let status = self.ring.status(k);
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.ring.advance(count);
        count
    }

    /// When the frame in that slot arrived, nanoseconds since 1970.
    fn stamp(&mut self, ahead: usize) -> u64 {
        let slot = self.ring.slot(ahead);
        // SAFETY: the slot is ours as long as its status says so, and starts
        // with its header.
        let header = unsafe { &*slot.cast::<Header>().as_ptr() };
        let status = self.ring.status(ahead).load(Ordering::Relaxed);
        let is_by_nic = status & libc::TP_STATUS_TS_RAW_HARDWARE != 0;
        self.unstamped += u64::from(self.stamps == Stamps::Nic && !is_by_nic);
        u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec)
    }

    /// The frame in the slot `ahead` slots after the next, which is ours.
    #[inline(always)]
    fn frame(&mut self, ahead: usize) -> &[u8] {
        let slot = self.ring.slot(ahead);
        let status = self.ring.status(ahead).load(Ordering::Relaxed);
        // SAFETY: the slot is ours as long as its status says so, and starts
        // with its header.
        let header = unsafe { &*slot.cast::<Header>().as_ptr() };
        let (tci, tpid) = (header.tp_vlan_tci, header.tp_vlan_tpid);
        let first = usize::from(header.tp_mac).min(self.ring.slot_len);
        let len = (header.tp_snaplen as usize).min(self.ring.slot_len - first);
        self.truncated += u64::from(header.tp_len > header.tp_snaplen);
        // The kernel leaves some bytes between its headers and the frame.
        let room = first.saturating_sub(libc::TPACKET2_HDRLEN).min(vlan::LEN);
        // SAFETY: these bytes lie within the slot, behind the header, and are
        // ours until the status is written, which needs this borrow to end.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(slot.add(first - room).as_ptr(), room + len) };
        match vlan::tag(status, tci, tpid) {
            Some(tag) if room == vlan::LEN => vlan::put_back(bytes, tag),
            _ => &bytes[room..],
        }
    }
}
