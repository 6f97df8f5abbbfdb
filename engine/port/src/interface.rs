//! What the kernel says about one network interface (rtnetlink(7)).
//!
//! One request answers everything the XDP backends ask: name, state, MTU,
//! address, counters and which XDP program is attached how. Crates that speak
//! rtnetlink parse every attribute of the answer, of which there are a
//! hundred, some of them changing with the kernel; five are read here.
#![allow(unsafe_code)]

use pinchpoint_wire::ethernet::Mac;
use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Bytes of the longest answer; an interface's takes about 2,000.
const ANSWER_LEN: usize = 32 << 10;
const NLMSG_HEADER: usize = 16;
const IFINFO_LEN: usize = 16;
/// Index of `tx_dropped` in `struct rtnl_link_stats64`.
const TX_DROPPED: usize = 7;

/// How an attached XDP program runs (linux/if_link.h, `XDP_ATTACHED_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attached {
    Native,
    Generic,
    Hardware,
    Several,
}

/// One answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Switched on.
    pub(crate) up: bool,
    /// Up, with a carrier.
    pub(crate) running: bool,
    pub(crate) mac: Option<Mac>,
    pub(crate) mtu: usize,
    /// Frames the driver dropped instead of sending, ever.
    pub(crate) tx_dropped: Option<u64>,
    pub(crate) xdp: Option<Attached>,
    /// Id of the attached XDP program.
    pub(crate) xdp_program: Option<u32>,
}

/// A connection that asks about interfaces of the network namespace in which
/// it was made.
pub(crate) struct Questions {
    socket: OwnedFd,
    answer: Vec<u8>,
}

/// The index of the interface `name` in the calling thread's namespace.
pub(crate) fn index_of(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `name` is a C string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

#[repr(C)]
struct Request {
    len: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    port: u32,
    family: u8,
    _pad: u8,
    device_kind: u16,
    index: i32,
    device_flags: u32,
    change: u32,
}

impl Questions {
    pub(crate) fn new() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointers; the descriptor is checked before it is
        // owned.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Self {
            socket,
            answer: vec![0; ANSWER_LEN],
        })
    }

    /// What there is to know about the interface with this index.
    ///
    /// # Errors
    /// `ENODEV` if there is none (any more).
    pub(crate) fn ask(&mut self, index: u32) -> io::Result<Interface> {
        let request = Request {
            len: mem::size_of::<Request>() as u32,
            kind: libc::RTM_GETLINK,
            flags: libc::NLM_F_REQUEST as u16,
            sequence: 0,
            port: 0,
            family: libc::AF_UNSPEC as u8,
            _pad: 0,
            device_kind: 0,
            index: index as i32,
            device_flags: 0,
            change: 0,
        };
        let fd = self.socket.as_raw_fd();
        // SAFETY: pointers and lengths describe `request` and `answer`, which
        // outlive the calls. The kernel answers before `send` returns, so
        // `recv` does not wait.
        let received = unsafe {
            let sent = libc::send(fd, (&raw const request).cast(), request.len as usize, 0);
            if sent < 0 {
                return Err(io::Error::last_os_error());
            }
            libc::recv(fd, self.answer.as_mut_ptr().cast(), ANSWER_LEN, 0)
        };
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        parse(&self.answer[..received as usize])
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn parse(answer: &[u8]) -> io::Result<Interface> {
    let short = || io::Error::from(io::ErrorKind::InvalidData);
    let kind = word(answer, 4).ok_or_else(short)? as u16;
    let first = word(answer, NLMSG_HEADER).ok_or_else(short)?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        return Err(io::Error::from_raw_os_error(-(first as i32)));
    }
    let flags = word(answer, NLMSG_HEADER + 8).ok_or_else(short)?;
    let wanted = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    let mut interface = Interface {
        up: flags & libc::IFF_UP as u32 != 0,
        running: flags & wanted == wanted,
        ..Interface::default()
    };
    let attributes = answer.get(NLMSG_HEADER + IFINFO_LEN..);
    for (kind, value) in Attributes(attributes.ok_or_else(short)?) {
        match kind {
            libc::IFLA_MTU => interface.mtu = word(value, 0).unwrap_or_default() as usize,
            libc::IFLA_ADDRESS => interface.mac = value.try_into().ok().map(Mac),
            libc::IFLA_STATS64 => {
                let bytes = value.as_chunks::<8>().0.get(TX_DROPPED);
                interface.tx_dropped = bytes.map(|bytes| u64::from_ne_bytes(*bytes));
            }
            libc::IFLA_XDP => parse_xdp(value, &mut interface),
            _ => (),
        }
    }
    Ok(interface)
}

fn parse_xdp(value: &[u8], interface: &mut Interface) {
    // linux/if_link.h, enum IFLA_XDP_*
    const ATTACHED: u16 = 2;
    const PROGRAM_IDS: std::ops::RangeInclusive<u16> = 4..=7;
    for (kind, value) in Attributes(value) {
        if kind == ATTACHED {
            interface.xdp = match value.first() {
                Some(1) => Some(Attached::Native),
                Some(2) => Some(Attached::Generic),
                Some(3) => Some(Attached::Hardware),
                Some(4) => Some(Attached::Several),
                _ => None,
            };
        } else if PROGRAM_IDS.contains(&kind) {
            interface.xdp_program = interface.xdp_program.or(word(value, 0));
        }
    }
}

/// Type and value of each attribute (`struct rtattr`) in a row of them.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = word(self.0, 0)?;
        let (len, kind) = if cfg!(target_endian = "little") {
            (head as u16, (head >> 16) as u16)
        } else {
            ((head >> 16) as u16, head as u16)
        };
        let len = usize::from(len);
        let value = self.0.get(4..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & !(libc::NLA_F_NESTED as u16), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_loopback_interface_is_known() {
        let index = index_of("lo").unwrap();
        let state = Questions::new().unwrap().ask(index).unwrap();
        assert_eq!(state.mac, Some(Mac([0; 6])));
        assert!(state.mtu >= 1_500);
        assert!(state.tx_dropped.is_some());
        assert_eq!(state.xdp_program, None);
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let asked = Questions::new().unwrap().ask(0x7fff_fff0);
        assert_eq!(asked.unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    proptest! {
        #[test]
        fn arbitrary_answers_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = parse(&bytes);
        }
    }
}
