//! One AF_XDP socket, with each system call behind a safe method.
#![allow(unsafe_code)]

use super::memory::Mapping;
use super::ring::{Consumer, Producer};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// Frames that one system call may send in copy mode. Linux 6.18 has it; not
/// in the C library's headers yet.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Sizes of the rings, each a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RingSizes {
    /// Zero for none.
    pub(super) rx: u32,
    pub(super) tx: u32,
    pub(super) fill: u32,
    pub(super) completion: u32,
}

/// The rings of a socket; receiving ones are there if asked for.
pub(super) struct Rings {
    pub(super) rx: Option<Consumer<libc::xdp_desc>>,
    pub(super) tx: Producer<libc::xdp_desc>,
    pub(super) fill: Producer<u64>,
    pub(super) completion: Consumer<u64>,
}

/// A socket that is not bound yet, or that is.
pub(super) struct Socket(OwnedFd);

fn done(rc: libc::c_int) -> io::Result<()> {
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Socket {
    pub(super) fn new() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointers; the descriptor is checked before it is
        // owned.
        unsafe {
            let fd = libc::socket(libc::AF_XDP, kind, 0);
            done(fd)?;
            Ok(Self(OwnedFd::from_raw_fd(fd)))
        }
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        // SAFETY: pointer and length describe `value`, which outlives the
        // call; every caller passes the type that the option documents.
        done(unsafe {
            libc::setsockopt(
                self.as_raw_fd(),
                level,
                option,
                ptr::from_ref(value).cast(),
                mem::size_of::<T>() as libc::socklen_t,
            )
        })
    }

    /// Reads an option into `value`, a plain C structure of numbers.
    fn get<T>(&self, level: libc::c_int, option: libc::c_int, value: &mut T) -> io::Result<()> {
        let mut len = mem::size_of::<T>() as libc::socklen_t;
        // SAFETY: pointer and length describe `value`; the kernel writes no
        // more than that, and every caller passes the type that the option
        // documents, for which all bits are valid.
        done(unsafe {
            libc::getsockopt(
                self.as_raw_fd(),
                level,
                option,
                ptr::from_mut(value).cast(),
                &raw mut len,
            )
        })
    }

    /// Lets `frames`, cut into chunks, hold what is sent and received.
    pub(super) fn register(&self, frames: &Mapping, len: u64, chunk: u32) -> io::Result<()> {
        let area = libc::xdp_umem_reg {
            addr: frames.address(),
            len,
            chunk_size: chunk,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        self.set(libc::SOL_XDP, libc::XDP_UMEM_REG, &area)
    }

    /// Makes the rings and maps them.
    pub(super) fn rings(&self, sizes: RingSizes) -> io::Result<Rings> {
        let make = |option, size: u32| self.set(libc::SOL_XDP, option, &size);
        make(libc::XDP_UMEM_FILL_RING, sizes.fill)?;
        make(libc::XDP_UMEM_COMPLETION_RING, sizes.completion)?;
        make(libc::XDP_TX_RING, sizes.tx)?;
        if sizes.rx > 0 {
            make(libc::XDP_RX_RING, sizes.rx)?;
        }
        // SAFETY: a plain C structure of numbers, valid when zero.
        let mut at: libc::xdp_mmap_offsets = unsafe { mem::zeroed() };
        self.get(libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut at)?;
        let (fill, completion) = (
            libc::XDP_UMEM_PGOFF_FILL_RING as i64,
            libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64,
        );
        let rx = (sizes.rx > 0)
            .then(|| Consumer::map(self, libc::XDP_PGOFF_RX_RING, &at.rx, sizes.rx))
            .transpose()?;
        Ok(Rings {
            rx,
            tx: Producer::map(self, libc::XDP_PGOFF_TX_RING, &at.tx, sizes.tx)?,
            fill: Producer::map(self, fill, &at.fr, sizes.fill)?,
            completion: Consumer::map(self, completion, &at.cr, sizes.completion)?,
        })
    }

    /// Binds to a queue of an interface of the calling thread's namespace.
    pub(super) fn bind(&self, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        // SAFETY: pointer and length describe `address`.
        done(unsafe {
            libc::bind(
                self.as_raw_fd(),
                (&raw const address).cast(),
                mem::size_of_val(&address) as libc::socklen_t,
            )
        })
    }

    /// Whether frames are handed to the device without a copy.
    pub(super) fn is_zero_copy(&self) -> bool {
        let mut options = libc::xdp_options { flags: 0 };
        let known = self.get(libc::SOL_XDP, libc::XDP_OPTIONS, &mut options);
        known.is_ok() && options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0
    }

    /// Asks for `frames` to be sent by one system call in copy mode instead of
    /// 32. Older kernels refuse, and take more calls.
    pub(super) fn raise_budget(&self, frames: u32) -> io::Result<()> {
        self.set(libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &frames)
    }

    /// Sets the send buffer in bytes past the system's limit (socket(7)).
    pub(super) fn set_send_buffer(&self, bytes: usize) -> io::Result<()> {
        // The kernel doubles what it is given, in an int.
        let bytes = bytes.min(1 << 29) as libc::c_int;
        self.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
    }

    /// Has the kernel look at the transmit ring.
    #[inline]
    pub(super) fn wake_transmit(&self) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: an empty message without an address.
        let rc = unsafe { libc::sendto(self.as_raw_fd(), ptr::null(), 0, flags, ptr::null(), 0) };
        done(rc as libc::c_int)
    }

    /// Has the kernel look at the fill ring. Fails first of all if the
    /// interface is down (`ENETDOWN`) or gone (`ENXIO`), also for a socket that
    /// does not receive (Linux 5.11; before, `EOPNOTSUPP`).
    #[inline]
    pub(super) fn wake_receive(&self) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: an empty buffer and no address.
        let rc = unsafe {
            libc::recvfrom(
                self.as_raw_fd(),
                ptr::null_mut(),
                0,
                flags,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        done(rc as libc::c_int)
    }

    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        // SAFETY: a plain C structure of numbers, valid when zero.
        let mut statistics: libc::xdp_statistics = unsafe { mem::zeroed() };
        self.get(libc::SOL_XDP, libc::XDP_STATISTICS, &mut statistics)?;
        Ok(statistics)
    }

    /// The error the kernel left on the socket, once.
    pub(super) fn take_error(&self) -> Option<io::Error> {
        let mut error: libc::c_int = 0;
        let known = self.get(libc::SOL_SOCKET, libc::SO_ERROR, &mut error);
        (known.is_ok() && error != 0).then(|| io::Error::from_raw_os_error(error))
    }
}
