//! One packet socket, with each system call behind a safe method.
#![allow(unsafe_code)]

use super::device::Fanout;
use crate::Stamps;
use pinchpoint_wire::ethernet::Mac;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

pub(super) type Name = [libc::c_char; libc::IFNAMSIZ];

/// What the kernel says about an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// There is no such interface (any more).
    Gone,
    /// Switched off.
    Down,
    /// Switched on, without a carrier.
    NoCarrier,
    Running,
}

/// A raw packet socket that never blocks.
pub(super) struct Socket(OwnedFd);

pub(super) fn done(rc: libc::c_int) -> io::Result<()> {
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl Socket {
    /// A socket that neither sends nor receives until it is bound.
    pub(super) fn new() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointers; the descriptor is checked before it is
        // owned.
        let fd = unsafe {
            let fd = libc::socket(libc::AF_PACKET, kind, 0);
            done(fd)?;
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Self(fd))
    }

    pub(super) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Sets an option of the kernel's packet(7) or socket(7).
    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        // SAFETY: pointer and length describe `value`, which outlives the
        // call; every caller passes the type that the option documents.
        done(unsafe {
            libc::setsockopt(
                self.fd(),
                level,
                option,
                ptr::from_ref(value).cast(),
                mem::size_of::<T>() as libc::socklen_t,
            )
        })
    }

    /// Sets an option of packet(7) whose value is an int.
    pub(super) fn set_packet(&self, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        self.set(libc::SOL_PACKET, option, &value)
    }

    /// Asks for a ring of `PACKET_RX_RING` or `PACKET_TX_RING`.
    pub(super) fn set_ring(
        &self,
        option: libc::c_int,
        request: &libc::tpacket_req,
    ) -> io::Result<()> {
        self.set(libc::SOL_PACKET, option, request)
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

    /// Binds to an interface; from then on `protocol` (host order) arrives,
    /// or nothing if zero.
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
                self.fd(),
                (&raw const address).cast(),
                mem::size_of_val(&address) as libc::socklen_t,
            )
        })
    }

    /// Has the kernel stamp each frame of the receive ring by this clock; of the
    /// engine's, does nothing. The kernel begins a moment later, and stamps until
    /// then when it puts a frame into the ring.
    pub(super) fn stamp(&self, stamps: Stamps) -> io::Result<()> {
        let (made, told) = match stamps {
            Stamps::Engine => return Ok(()),
            Stamps::Kernel => (
                libc::SOF_TIMESTAMPING_RX_SOFTWARE,
                libc::SOF_TIMESTAMPING_SOFTWARE,
            ),
            Stamps::Nic => (
                libc::SOF_TIMESTAMPING_RX_HARDWARE,
                libc::SOF_TIMESTAMPING_RAW_HARDWARE,
            ),
        };
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &(made | told))?;
        self.set_packet(libc::PACKET_TIMESTAMP, told as libc::c_int)
    }

    /// Whether the NIC stamps every frame that it receives.
    pub(super) fn is_stamped_by_nic(&self, name: Name) -> io::Result<bool> {
        /// `HWTSTAMP_FILTER_ALL` of `linux/net_tstamp.h`.
        const ALL: libc::c_int = 1;
        // `struct hwtstamp_config`: flags, what is stamped that is sent, what is received.
        let mut config: [libc::c_int; 3] = [0; 3];
        self.ask(name, libc::SIOCGHWTSTAMP, |question| {
            question.ifr_ifru.ifru_data = config.as_mut_ptr().cast();
        })?;
        Ok(config[2] == ALL)
    }

    /// Lets nothing in, whatever the socket is bound to.
    pub(super) fn shut(&self) -> io::Result<()> {
        // A classic BPF program of one instruction: keep 0 bytes.
        let mut nothing = libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: 0,
        };
        let program = libc::sock_fprog {
            len: 1,
            filter: &raw mut nothing,
        };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Undoes [`shut`](Self::shut).
    pub(super) fn unshut(&self) -> io::Result<()> {
        let unused: libc::c_int = 0;
        self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &unused)
    }

    /// Joins the sockets of `group`, or makes a new one; returns the group.
    /// From then on each frame meets one socket of the group. The socket must
    /// be bound as the others are.
    pub(super) fn join(&self, fanout: Fanout, group: Option<u16>) -> io::Result<u16> {
        let by = match fanout {
            Fanout::Hash => libc::PACKET_FANOUT_HASH,
            Fanout::Balance => libc::PACKET_FANOUT_LB,
            Fanout::Cpu => libc::PACKET_FANOUT_CPU,
        };
        // The group has its own opinion about outgoing frames.
        let mut flags = by | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        if group.is_none() {
            flags |= libc::PACKET_FANOUT_FLAG_UNIQUEID;
        }
        let id = u32::from(group.unwrap_or_default());
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &(id | flags << 16))?;
        Ok(self.get::<u32>(libc::PACKET_FANOUT)? as u16)
    }

    /// Reads an option of packet(7) that is a plain C value.
    fn get<T>(&self, option: libc::c_int) -> io::Result<T> {
        let mut value = mem::MaybeUninit::<T>::zeroed();
        let mut len = mem::size_of::<T>() as libc::socklen_t;
        // SAFETY: pointer and length describe `value`; every caller names the
        // type that the option documents, for which zero bytes are valid.
        unsafe {
            done(libc::getsockopt(
                self.fd(),
                libc::SOL_PACKET,
                option,
                value.as_mut_ptr().cast(),
                &raw mut len,
            ))?;
            Ok(value.assume_init())
        }
    }

    /// Frames dropped since the last call; none if the kernel does not tell.
    pub(super) fn take_drops(&self) -> Option<u32> {
        let stats: libc::tpacket_stats = self.get(libc::PACKET_STATISTICS).ok()?;
        Some(stats.tp_drops)
    }

    /// Asks the kernel about an interface (netdevice(7)); `fill` completes the
    /// question.
    pub(super) fn ask(
        &self,
        name: Name,
        request: libc::Ioctl,
        fill: impl FnOnce(&mut libc::ifreq),
    ) -> io::Result<libc::ifreq> {
        // SAFETY: `ifreq` is a plain C structure, valid when zero.
        let mut question: libc::ifreq = unsafe { mem::zeroed() };
        question.ifr_name = name;
        fill(&mut question);
        // SAFETY: every request used reads and writes the structure that is
        // passed, and what `fill` lets it point to.
        done(unsafe { libc::ioctl(self.fd(), request, &raw mut question) })?;
        Ok(question)
    }

    pub(super) fn interface_index(&self, name: Name) -> io::Result<libc::c_int> {
        let answer = self.ask(name, libc::SIOCGIFINDEX, |_| ())?;
        // SAFETY: SIOCGIFINDEX fills this member.
        Ok(unsafe { answer.ifr_ifru.ifru_ifindex })
    }

    /// The present name of an interface; it may have been given another.
    pub(super) fn interface_name(&self, index: libc::c_int) -> io::Result<Name> {
        let ask = |question: &mut libc::ifreq| question.ifr_ifru.ifru_ifindex = index;
        let answer = self.ask([0; libc::IFNAMSIZ], libc::SIOCGIFNAME, ask)?;
        Ok(answer.ifr_name)
    }

    pub(super) fn mac(&self, name: Name) -> io::Result<Mac> {
        let answer = self.ask(name, libc::SIOCGIFHWADDR, |_| ())?;
        // SAFETY: SIOCGIFHWADDR fills this member.
        let data = unsafe { answer.ifr_ifru.ifru_hwaddr.sa_data };
        Ok(Mac(std::array::from_fn(|i| data[i] as u8)))
    }

    pub(super) fn mtu(&self, name: Name) -> io::Result<usize> {
        let answer = self.ask(name, libc::SIOCGIFMTU, |_| ())?;
        // SAFETY: SIOCGIFMTU fills this member.
        Ok(unsafe { answer.ifr_ifru.ifru_mtu }.max(0) as usize)
    }

    /// How the interface is.
    pub(super) fn state(&self, index: libc::c_int) -> State {
        let flags = self
            .interface_name(index)
            .and_then(|name| self.ask(name, libc::SIOCGIFFLAGS, |_| ()))
            // SAFETY: SIOCGIFFLAGS fills this member.
            .map(|answer| libc::c_int::from(unsafe { answer.ifr_ifru.ifru_flags }));
        match flags {
            Err(_) => State::Gone,
            Ok(flags) if flags & libc::IFF_UP == 0 => State::Down,
            Ok(flags) if flags & libc::IFF_RUNNING == 0 => State::NoCarrier,
            Ok(_) => State::Running,
        }
    }
}

/// An interface's name as the kernel wants it.
pub(super) fn name(device: &str) -> io::Result<Name> {
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
