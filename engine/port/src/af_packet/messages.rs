//! Frames as messages: one system call a burst that copies them
//! (sendmmsg(2), recvmmsg(2)).
#![allow(unsafe_code)]

use super::socket::{Socket, done};
use super::{Cut, Sent, vlan};
use crate::{BURST, Sink, Source};
use std::{io, mem, ptr};

/// Room for one `tpacket_auxdata` as a control message, aligned as it needs.
type Control = [u64; 6];

/// What a system call needs to know of a burst.
struct Batch {
    messages: [libc::mmsghdr; BURST],
    parts: [libc::iovec; BURST],
}

impl Batch {
    /// Messages without content.
    fn new() -> Self {
        // SAFETY: both are plain C structures, valid when zero.
        unsafe { mem::zeroed() }
    }

    /// Makes the message number `index` one of the `bytes`.
    fn set(&mut self, index: usize, bytes: *mut u8, len: usize) {
        self.parts[index].iov_base = bytes.cast();
        self.parts[index].iov_len = len;
        let header = &mut self.messages[index].msg_hdr;
        header.msg_iov = &raw mut self.parts[index];
        header.msg_iovlen = 1;
    }
}

/// A socket that sends messages.
pub(super) struct MessageSender {
    socket: Socket,
    slots: Vec<u8>,
    slot_len: usize,
}

impl MessageSender {
    pub(super) fn new(socket: Socket, max_len: usize) -> Self {
        Self {
            socket,
            slots: vec![0; BURST * max_len],
            slot_len: max_len,
        }
    }

    pub(super) fn send<S: Source>(&mut self, count: usize, mut source: S) -> Sent {
        let count = count.min(BURST);
        let mut batch = Batch::new();
        let slots = self.slots.chunks_exact_mut(self.slot_len);
        for (i, slot) in slots.take(count).enumerate() {
            let len = source.len(i).min(slot.len());
            source.frame(i, &mut slot[..len]);
            batch.set(i, slot.as_mut_ptr(), len);
        }
        // SAFETY: the first `count` messages point at parts that describe
        // slots; all of them live through the call, which only reads them.
        let sent = unsafe {
            libc::sendmmsg(
                self.socket.fd(),
                batch.messages.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        match done(sent) {
            // Why it stopped before the end it does not tell.
            Ok(()) if (sent as usize) < count => Sent::cut(sent as usize, Some(Cut::NoBuffers)),
            Ok(()) => Sent::cut(count, None),
            Err(error) => Sent::cut(0, Some(Cut::from(&error))),
        }
    }
}

/// A socket that receives messages.
pub(super) struct MessageReceiver {
    socket: Socket,
    slots: Vec<u8>,
    slot_len: usize,
    controls: Vec<Control>,
    truncated: u64,
}

impl MessageReceiver {
    pub(super) fn new(socket: Socket, max_len: usize) -> io::Result<Self> {
        socket.set_packet(libc::PACKET_AUXDATA, 1)?;
        let slot_len = vlan::LEN + max_len;
        Ok(Self {
            socket,
            slots: vec![0; BURST * slot_len],
            slot_len,
            controls: vec![[0; 6]; BURST],
            truncated: 0,
        })
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Frames that did not fit in a slot.
    pub(super) fn truncated(&self) -> u64 {
        self.truncated
    }

    pub(super) fn receive<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut batch = Batch::new();
        let slots = self.slots.chunks_exact_mut(self.slot_len);
        for (i, (slot, control)) in slots.zip(&mut self.controls).enumerate() {
            let room = &mut slot[vlan::LEN..];
            batch.set(i, room.as_mut_ptr(), room.len());
            let header = &mut batch.messages[i].msg_hdr;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of::<Control>();
        }
        // SAFETY: the messages point at parts and controls that describe
        // memory of ours, which is borrowed mutably through the call.
        let received = unsafe {
            libc::recvmmsg(
                self.socket.fd(),
                batch.messages.as_mut_ptr(),
                BURST as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        let count = received.max(0) as usize;
        if count == 0 {
            return 0;
        }
        sink.arrived(count);
        let slots = self.slots.chunks_exact_mut(self.slot_len);
        for (slot, message) in slots.zip(&batch.messages).take(count) {
            let len = (message.msg_len as usize).min(slot.len() - vlan::LEN);
            self.truncated += u64::from(message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0);
            let bytes = &mut slot[..vlan::LEN + len];
            sink.frame(match tag(&message.msg_hdr) {
                Some(tag) => vlan::put_back(bytes, tag),
                None => &bytes[vlan::LEN..],
            });
        }
        count
    }
}

/// The tag that the kernel took out of the frame of this message.
fn tag(header: &libc::msghdr) -> Option<[u8; vlan::LEN]> {
    // SAFETY: the kernel has filled the control buffer that the header
    // describes, which is still borrowed; only a message long enough for the
    // structure that its type documents is read as one.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(header).as_ref()?;
        let needed = libc::CMSG_LEN(size_of::<libc::tpacket_auxdata>() as u32) as usize;
        if (control.cmsg_level, control.cmsg_type) != (libc::SOL_PACKET, libc::PACKET_AUXDATA)
            || control.cmsg_len < needed
        {
            return None;
        }
        #[allow(clippy::cast_ptr_alignment)] // read as unaligned
        let data = libc::CMSG_DATA(control).cast::<libc::tpacket_auxdata>();
        let data = data.read_unaligned();
        vlan::tag(data.tp_status, data.tp_vlan_tci, data.tp_vlan_tpid)
    }
}
