//! Sockets, with the options that a workload asks for.

use crate::failure::Failure;
use crate::fault::Fault;
use crate::shared::Shared;
use crate::spec::{Close, Kind, Transport, Wait};
use nix::sys::socket::{setsockopt, sockopt};
use pinchpoint_worker::Clock;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{
    Timeout, set_socket_linger, set_socket_reuseaddr, set_socket_timeout, set_tcp_nodelay,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, getsockname,
    listen, recv, send, socket_with,
};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A request of more bytes may take several segments, the last of which
/// Nagle's algorithm (RFC 9293 section 3.7.4) would hold back. A connection
/// that carries one small request is spared the call.
const ONE_SEGMENT: usize = 512;
/// The kernel cuts it to `net.core.somaxconn` (listen(2)).
const BACKLOG: i32 = 16_384;

fn socket(address: &SocketAddr, transport: Transport, nonblocking: bool) -> Result<OwnedFd, Errno> {
    let mut flags = SocketFlags::CLOEXEC;
    flags.set(SocketFlags::NONBLOCK, nonblocking);
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let kind = match transport {
        Transport::Tcp => SocketType::STREAM,
        Transport::Udp => SocketType::DGRAM,
    };
    socket_with(family, kind, flags, None)
}

fn timeouts(socket: &OwnedFd, slice: Duration) -> Result<(), Errno> {
    set_socket_timeout(socket, Timeout::Recv, Some(slice))?;
    set_socket_timeout(socket, Timeout::Send, Some(slice))
}

/// The server's socket and its address. Connections inherit its options, all
/// but `nonblocking` (accept(2)).
pub(crate) fn serve(shared: &Shared, nonblocking: bool) -> Result<(OwnedFd, SocketAddr), Failure> {
    let work = shared.work;
    let address = SocketAddr::new(work.listen_address(), work.port);
    let made = || {
        let socket = socket(&address, work.transport, nonblocking)?;
        timeouts(&socket, Duration::from_nanos(shared.slice_ns()))?;
        if work.transport == Transport::Tcp {
            // A fixed port may still be in TIME_WAIT from the last repeat.
            set_socket_reuseaddr(&socket, true)?;
            set_tcp_nodelay(&socket, true)?;
        }
        bind(&socket, &address)?;
        if work.transport == Transport::Tcp {
            listen(&socket, BACKLOG)?;
        }
        let bound = SocketAddr::try_from(getsockname(&socket)?)?;
        Ok((socket, bound))
    };
    made().map_err(|error: Errno| {
        let failure = Failure::setup(&format!("cannot listen on {address}"), error);
        match error {
            Errno::ADDRNOTAVAIL => failure
                .hint("give the address to an interface of the server's namespace that is up"),
            Errno::ADDRINUSE => failure.hint("choose another port, or 0 for any free one"),
            _ => failure,
        }
    })
}

/// Why no connection began from a source address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Another socket holds the port (EADDRINUSE at bind()).
    Port,
    /// The pair of addresses and ports is in use, or in TIME_WAIT
    /// (EADDRNOTAVAIL at connect()).
    Pair,
    /// Anything else: another port would not mend it.
    Otherwise(Fault),
}

/// The address from which the calling thread's namespace reaches `target`.
pub(crate) fn source_towards(target: &SocketAddr) -> Result<IpAddr, Errno> {
    // Connecting a datagram socket chooses a route and sends nothing (udp(7)).
    let socket = socket(target, Transport::Udp, false)?;
    connect(&socket, target)?;
    Ok(SocketAddr::try_from(getsockname(&socket)?)?.ip())
}

/// A client's TCP socket bound to `from`, not yet connected. Pairs of that
/// port in TIME_WAIT do not prevent it.
#[inline]
pub(crate) fn client_from(
    shared: &Shared,
    from: &SocketAddr,
    nonblocking: bool,
) -> Result<OwnedFd, Refused> {
    let socket = unbound(shared, from, nonblocking)?;
    set_socket_reuseaddr(&socket, true)?;
    match bind(&socket, from) {
        Ok(()) => Ok(socket),
        Err(Errno::ADDRINUSE) => Err(Refused::Port),
        Err(error) => Err(error.into()),
    }
}

/// A client's socket that is not yet connected, from `source` if there is one.
#[inline]
pub(crate) fn client(
    shared: &Shared,
    source: Option<IpAddr>,
    target: &SocketAddr,
    nonblocking: bool,
) -> Result<OwnedFd, Errno> {
    let socket = unbound(shared, target, nonblocking)?;
    if let Some(source) = source {
        if shared.work.transport == Transport::Tcp {
            // Port and target are chosen together at connect, so a port may
            // serve several targets (ip(7)).
            setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)
                .map_err(|error| Errno::from_raw_os_error(error as i32))?;
        }
        bind(&socket, &SocketAddr::new(source, 0))?;
    }
    Ok(socket)
}

/// A client's socket with its options, of the family of `target`.
#[inline]
fn unbound(shared: &Shared, target: &SocketAddr, nonblocking: bool) -> Result<OwnedFd, Errno> {
    let work = shared.work;
    let socket = socket(target, work.transport, nonblocking)?;
    if !nonblocking {
        timeouts(&socket, Duration::from_nanos(shared.slice_ns()))?;
    }
    if work.transport == Transport::Tcp {
        if work.kind != Kind::Crr || work.request_bytes > ONE_SEGMENT {
            set_tcp_nodelay(&socket, true)?;
        }
        if work.kind == Kind::Crr && work.close == Close::Reset {
            set_socket_linger(&socket, Some(Duration::ZERO))?;
        }
    }
    Ok(socket)
}

/// Calls of one thread that wait for at most the workload's timeout and end
/// within a slice of the workload's end.
pub(crate) struct Io<'a> {
    shared: &'a Shared<'a>,
    clock: Clock,
    pub(crate) receive_flags: RecvFlags,
    pub(crate) send_flags: SendFlags,
    timeout_ns: u64,
}

impl<'a> Io<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>, clock: Clock) -> Self {
        let (receive, send) = match shared.work.wait {
            Wait::Block => (RecvFlags::empty(), SendFlags::empty()),
            Wait::Spin => (RecvFlags::DONTWAIT, SendFlags::DONTWAIT),
        };
        Self {
            shared,
            clock,
            receive_flags: receive,
            send_flags: send | SendFlags::NOSIGNAL,
            timeout_ns: shared.timeout_ns(),
        }
    }

    /// After a call that would wait longer: whether to call again for a
    /// transaction that began at `begun_ns`.
    #[inline]
    pub(crate) fn again(&self, begun_ns: u64) -> Result<(), Fault> {
        if self.shared.halted() {
            return Err(Fault::Ended);
        }
        if self.clock.now_ns().saturating_sub(begun_ns) > self.timeout_ns {
            return Err(Fault::Timeout);
        }
        std::hint::spin_loop();
        Ok(())
    }

    /// Connects a blocking socket.
    pub(crate) fn connect(
        &self,
        socket: &OwnedFd,
        target: &SocketAddr,
        begun_ns: u64,
    ) -> Result<(), Fault> {
        loop {
            match connect(socket, target) {
                Ok(()) | Err(Errno::ISCONN) => return Ok(()),
                Err(Errno::INPROGRESS | Errno::ALREADY | Errno::INTR) => self.again(begun_ns)?,
                // Not "try again": the kernel is out of ports (connect(2)).
                Err(Errno::AGAIN) => return Err(Fault::AddressUnavailable),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Connects a blocking socket that is bound to a port.
    pub(crate) fn connect_bound(
        &self,
        socket: OwnedFd,
        target: &SocketAddr,
        begun_ns: u64,
    ) -> Result<OwnedFd, Refused> {
        match self.connect(&socket, target, begun_ns) {
            Ok(()) => Ok(socket),
            Err(Fault::AddressUnavailable) => Err(Refused::Pair),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Sends all of `bytes`.
    #[inline]
    pub(crate) fn send(&self, socket: &OwnedFd, bytes: &[u8], begun_ns: u64) -> Result<(), Fault> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match send(socket, rest, self.send_flags) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::AGAIN | Errno::INTR) => self.again(begun_ns)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Receives what there is, at most a buffer full; 0 at the end of a
    /// connection.
    #[inline]
    pub(crate) fn receive(
        &self,
        socket: &OwnedFd,
        buffer: &mut [u8],
        begun_ns: u64,
    ) -> Result<usize, Fault> {
        loop {
            match recv(socket, &mut *buffer, self.receive_flags) {
                Ok((received, _)) => return Ok(received),
                Err(Errno::AGAIN | Errno::INTR) => self.again(begun_ns)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Fills `buffer`.
    #[inline]
    pub(crate) fn receive_exact(
        &self,
        socket: &OwnedFd,
        buffer: &mut [u8],
        begun_ns: u64,
    ) -> Result<(), Fault> {
        let mut have = 0;
        while have < buffer.len() {
            match self.receive(socket, &mut buffer[have..], begun_ns)? {
                0 => return Err(Fault::Short),
                received => have += received,
            }
        }
        Ok(())
    }
}
