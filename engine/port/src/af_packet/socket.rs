//! One packet socket, with each system call behind a safe method.
#![allow(unsafe_code)]

use nix::sched::{CloneFlags, setns};
use pinchpoint_wire::ethernet::Mac;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr;

use crate::BURST;

/// Since Linux 4.20; not yet in every C library's headers.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// Moves the calling thread into the network namespace that `ip netns add`
/// made under this name.
pub(crate) fn enter_netns(name: &str) -> io::Result<()> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file = File::open(Path::new("/run/netns").join(name))?;
    setns(file, CloneFlags::CLONE_NEWNET)?;
    Ok(())
}

/// A raw packet socket that never blocks.
pub(super) struct Socket {
    fd: OwnedFd,
    /// Interface name, kept for questions about it; set by `bind`.
    interface: std::cell::Cell<[libc::c_char; libc::IFNAMSIZ]>,
}

fn done(rc: libc::c_int) -> io::Result<()> {
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl Socket {
    /// A socket that receives `protocol` (host order), or nothing if zero,
    /// from all interfaces until it is bound.
    pub(super) fn new(protocol: u16) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let protocol = libc::c_int::from(protocol.to_be());
        // SAFETY: takes no pointers; the descriptor is checked before it is
        // owned.
        let fd = unsafe {
            let fd = libc::socket(libc::AF_PACKET, kind, protocol);
            done(fd)?;
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Self {
            fd,
            interface: std::cell::Cell::new([0; libc::IFNAMSIZ]),
        })
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        // SAFETY: pointer and length describe `value`, which outlives the
        // call; every caller passes the type that the option documents.
        done(unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                option,
                ptr::from_ref(value).cast(),
                mem::size_of::<T>() as libc::socklen_t,
            )
        })
    }

    pub(super) fn bypass_queueing(&self) -> io::Result<()> {
        let on: libc::c_int = 1;
        self.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)
    }

    pub(super) fn ignore_outgoing(&self) -> io::Result<()> {
        let on: libc::c_int = 1;
        self.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &on)
    }

    /// Sets a buffer's size in bytes past the system's limit (socket(7)).
    pub(super) fn set_buffer(&self, option: libc::c_int, bytes: usize) -> io::Result<()> {
        // The kernel doubles what it is given, in an int.
        let bytes = bytes.min(1 << 29) as libc::c_int;
        self.set(libc::SOL_SOCKET, option, &bytes)
    }

    pub(super) fn promiscuous(&self, index: libc::c_int) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Binds to an interface; from then on `protocol` (host order) arrives.
    pub(super) fn bind(&self, index: libc::c_int, protocol: u16) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as libc::c_ushort,
            sll_protocol: protocol.to_be(),
            sll_ifindex: index,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: pointer and length describe `address`.
        done(unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                mem::size_of_val(&address) as libc::socklen_t,
            )
        })?;
        let mut name = [0; libc::IFNAMSIZ];
        // SAFETY: the buffer has the IFNAMSIZ bytes the call asks for. Should
        // it fail, the name stays empty and later questions fail cleanly.
        unsafe { libc::if_indextoname(index as libc::c_uint, name.as_mut_ptr()) };
        self.interface.set(name);
        Ok(())
    }

    /// Asks the kernel about an interface (netdevice(7)).
    fn ask(
        &self,
        name: [libc::c_char; libc::IFNAMSIZ],
        request: libc::Ioctl,
    ) -> io::Result<libc::ifreq> {
        // SAFETY: `ifreq` is a plain C structure, valid when zero.
        let mut question: libc::ifreq = unsafe { mem::zeroed() };
        question.ifr_name = name;
        // SAFETY: every request used reads the name and writes the union of
        // the structure that is passed.
        done(unsafe { libc::ioctl(self.fd.as_raw_fd(), request, &raw mut question) })?;
        Ok(question)
    }

    pub(super) fn interface_index(&self, device: &str) -> io::Result<libc::c_int> {
        let answer = self.ask(interface_name(device)?, libc::SIOCGIFINDEX)?;
        // SAFETY: SIOCGIFINDEX fills this member.
        Ok(unsafe { answer.ifr_ifru.ifru_ifindex })
    }

    pub(super) fn mac(&self, device: &str) -> io::Result<Mac> {
        let answer = self.ask(interface_name(device)?, libc::SIOCGIFHWADDR)?;
        // SAFETY: SIOCGIFHWADDR fills this member.
        let data = unsafe { answer.ifr_ifru.ifru_hwaddr.sa_data };
        Ok(Mac(std::array::from_fn(|i| data[i] as u8)))
    }

    pub(super) fn mtu(&self, device: &str) -> io::Result<usize> {
        let answer = self.ask(interface_name(device)?, libc::SIOCGIFMTU)?;
        // SAFETY: SIOCGIFMTU fills this member.
        Ok(unsafe { answer.ifr_ifru.ifru_mtu }.max(0) as usize)
    }

    /// Whether the bound interface is up and has a carrier.
    pub(super) fn is_running(&self) -> bool {
        let wanted = libc::IFF_UP | libc::IFF_RUNNING;
        let Ok(answer) = self.ask(self.interface.get(), libc::SIOCGIFFLAGS) else {
            return false;
        };
        // SAFETY: SIOCGIFFLAGS fills this member.
        let flags = unsafe { answer.ifr_ifru.ifru_flags };
        libc::c_int::from(flags) & wanted == wanted
    }

    /// Offers `frames`, at most a burst; returns how many were taken.
    pub(super) fn send(&self, frames: &[&[u8]]) -> io::Result<usize> {
        let count = frames.len().min(BURST);
        let mut parts = [const { EMPTY_PART }; BURST];
        for (part, frame) in parts.iter_mut().zip(frames) {
            part.iov_base = frame.as_ptr().cast_mut().cast();
            part.iov_len = frame.len();
        }
        let mut messages = messages(&mut parts);
        // SAFETY: the first `count` messages point at parts that describe the
        // frames; both live through the call, which only reads them.
        let sent = unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        done(sent)?;
        Ok(sent as usize)
    }

    /// Receives into `slots`, at most a burst; writes each frame's length and
    /// returns how many there are.
    pub(super) fn receive(&self, slots: &mut [IoSliceMut<'_>], lens: &mut [usize]) -> usize {
        let count = slots.len().min(lens.len()).min(BURST);
        let mut parts = [const { EMPTY_PART }; BURST];
        for (part, slot) in parts.iter_mut().zip(slots) {
            part.iov_base = slot.as_mut_ptr().cast();
            part.iov_len = slot.len();
        }
        let mut messages = messages(&mut parts);
        // SAFETY: the first `count` messages point at parts that describe the
        // slots, which are borrowed mutably through the call.
        let received = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        let received = received.max(0) as usize;
        for (len, message) in lens.iter_mut().zip(&messages).take(received) {
            *len = message.msg_len as usize;
        }
        received
    }

    /// Frames dropped since the last call; none if the kernel does not tell.
    pub(super) fn take_drops(&self) -> Option<u32> {
        let mut stats = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut len = mem::size_of_val(&stats) as libc::socklen_t;
        // SAFETY: pointer and length describe `stats`, the structure that the
        // option documents.
        let rc = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut len,
            )
        };
        (rc == 0).then_some(stats.tp_drops)
    }
}

const EMPTY_PART: libc::iovec = libc::iovec {
    iov_base: ptr::null_mut(),
    iov_len: 0,
};

/// One message for each part.
fn messages(parts: &mut [libc::iovec; BURST]) -> [libc::mmsghdr; BURST] {
    // SAFETY: `mmsghdr` is a plain C structure, valid when zero.
    let mut messages: [libc::mmsghdr; BURST] = unsafe { mem::zeroed() };
    for (message, part) in messages.iter_mut().zip(parts) {
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
    }
    messages
}

fn interface_name(device: &str) -> io::Result<[libc::c_char; libc::IFNAMSIZ]> {
    let mut name = [0; libc::IFNAMSIZ];
    // The last byte stays zero.
    if device.len() >= name.len() || device.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(name)
}
