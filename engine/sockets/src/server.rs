//! The server's thread: it answers, or only counts, until the client is done.

use crate::datagrams;
use crate::failure::Failure;
use crate::place;
use crate::record::OverTime;
use crate::server_many;
use crate::shared::Shared;
use crate::socket::serve;
use crate::spec::{Close, Kind, Transport, Wait};
use crate::usage::Usage;
use crate::watch::Watch;
use nix::unistd::gettid;
use pinchpoint_worker::Clock;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, recvfrom, send, sendto};
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

/// More datagrams than wait in a socket when the client has ended.
const MOST_WAITING: u64 = 1 << 20;

/// What the server's thread found.
pub(crate) struct Report {
    /// In the window.
    pub(crate) usage: Usage,
    /// Payload bytes of streams received in the window, by connection in the
    /// order they were accepted.
    pub(crate) received: Vec<u64>,
    /// The same, over time.
    pub(crate) over_time: OverTime,
    /// Datagrams of a stream that were sent in the window, whenever they came.
    pub(crate) datagrams: u64,
    /// When it ended.
    pub(crate) ended_ns: u64,
}

/// Runs the server's side of `shared.work`; says through `ready` where it
/// listens, or why it cannot.
pub(crate) fn run(
    shared: &Shared,
    clock: &Clock,
    ready: &Sender<Result<SocketAddr, Failure>>,
) -> Option<Report> {
    let work = shared.work;
    let several = work.connections > 1 && work.kind != Kind::Stream;
    let polls = work.transport == Transport::Tcp && (several || work.wait == Wait::Spin);
    let opened = place::enter(&work.server, "server").and_then(|()| serve(shared, polls));
    shared.set_server_tid(gettid().as_raw());
    let socket = match opened {
        Ok((socket, address)) => {
            ready.send(Ok(address)).ok()?;
            socket
        }
        Err(failure) => {
            // Nobody left to tell: the run is over anyway.
            let _ = ready.send(Err(failure));
            return None;
        }
    };
    let mut watch = Watch::new(shared, clock.clone());
    let mut received = Received {
        clock: clock.clone(),
        by_connection: vec![0; work.connections],
        over_time: OverTime::new(work),
        datagrams: 0,
    };
    let served = match (work.kind, work.transport) {
        (Kind::Stream, Transport::Udp) => datagram_stream(&mut watch, &socket, &mut received),
        (Kind::Stream, Transport::Tcp) => streams(&mut watch, &socket, &mut received),
        (_, Transport::Udp) => datagrams(&mut watch, &socket),
        (_, Transport::Tcp) if several => server_many::serve(&mut watch, &socket),
        (_, Transport::Tcp) => one_by_one(&mut watch, &socket),
    };
    if let Err(error) = served {
        shared.abort(format!("the server failed: {error}"));
    }
    Some(Report {
        usage: watch.used(),
        received: received.by_connection,
        over_time: received.over_time,
        datagrams: received.datagrams,
        ended_ns: clock.now_ns(),
    })
}

fn receive_flags(shared: &Shared) -> RecvFlags {
    match shared.work.wait {
        Wait::Block => RecvFlags::empty(),
        Wait::Spin => RecvFlags::DONTWAIT,
    }
}

/// The next connection; none when there is nothing more to do.
fn accept(watch: &mut Watch, listener: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    while watch.goes_on() {
        match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => {
                watch.greet();
                return Ok(Some(socket));
            }
            // A connection that ended before it was accepted is no news.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Serves one connection after the other.
fn one_by_one(watch: &mut Watch, listener: &OwnedFd) -> Result<(), Errno> {
    let work = watch.shared.work;
    let mut request = vec![0; work.request_bytes];
    let response = vec![0; work.response_bytes];
    while let Some(socket) = accept(watch, listener)? {
        serve_connection(watch, &socket, &mut request, &response);
    }
    Ok(())
}

/// Answers requests until the connection ends, or after one if the server is
/// to close first. Whatever ends it early is the client's to tell.
fn serve_connection(watch: &mut Watch, socket: &OwnedFd, request: &mut [u8], response: &[u8]) {
    let work = watch.shared.work;
    let closes = work.kind == Kind::Crr && work.close == Close::Server;
    let flags = receive_flags(watch.shared);
    let mut have = 0;
    // Rounds without news; a connection that its client has given up must not
    // keep the next one waiting.
    let mut idle = 0;
    let most_idle = watch.shared.timeout_ns() / watch.shared.slice_ns() + 1;
    while watch.goes_on() {
        match recv(socket, &mut request[have..], flags) {
            Ok((0, _)) => return,
            Ok((received, _)) => have += received,
            Err(Errno::AGAIN | Errno::INTR) => {
                idle += u64::from(work.wait == Wait::Block);
                if work.kind == Kind::Crr && idle > most_idle {
                    return;
                }
                std::hint::spin_loop();
            }
            Err(_) => return,
        }
        if have == request.len() {
            (have, idle) = (0, 0);
            if !send_all(watch, socket, response) || closes {
                return;
            }
        }
    }
}

fn send_all(watch: &mut Watch, socket: &OwnedFd, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        match send(socket, rest, SendFlags::NOSIGNAL) {
            Ok(sent) => rest = &rest[sent..],
            Err(Errno::AGAIN | Errno::INTR) if watch.goes_on() => {}
            Err(_) => return false,
        }
    }
    true
}

/// Answers each datagram of the right length; its first bytes come back.
fn datagrams(watch: &mut Watch, socket: &OwnedFd) -> Result<(), Errno> {
    let work = watch.shared.work;
    let flags = receive_flags(watch.shared);
    let mut request = vec![0; work.request_bytes + 1];
    let mut response = vec![0; work.response_bytes];
    let tag = crate::single::TAG
        .min(work.request_bytes)
        .min(work.response_bytes);
    while watch.goes_on() {
        let (received, from) = match recvfrom(socket, &mut request[..], flags) {
            Ok((received, _, Some(from))) => {
                watch.greet();
                (received, from)
            }
            // An error told by ICMP concerns a datagram already given up.
            Ok((_, _, None)) | Err(Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED) => {
                std::hint::spin_loop();
                continue;
            }
            Err(error) => return Err(error),
        };
        if received == work.request_bytes {
            response[..tag].copy_from_slice(&request[..tag]);
            // Lost like any datagram; the client waits for its timeout.
            let _ = sendto(socket, &response, SendFlags::NOSIGNAL, &from);
        }
    }
    Ok(())
}

/// What streams have brought.
struct Received {
    clock: Clock,
    by_connection: Vec<u64>,
    over_time: OverTime,
    datagrams: u64,
}

impl Received {
    /// A datagram that belongs to the window if it was sent in it.
    #[inline]
    fn count_datagram(&mut self, shared: &Shared, datagram: &[u8]) {
        let bytes = datagram.len() as u64;
        shared.live.count_received(bytes);
        if let Some((k, true)) = datagrams::read(datagram)
            && let Some(count) = self.by_connection.get_mut(k)
        {
            *count += bytes;
            self.datagrams += 1;
            let (start_ns, _) = shared.window();
            let now_ns = self.clock.now_ns().max(start_ns);
            self.over_time.count(now_ns, start_ns, bytes);
        }
    }

    #[inline]
    fn count(&mut self, shared: &Shared, k: usize, bytes: usize) {
        shared.live.count_received(bytes as u64);
        let now_ns = self.clock.now_ns();
        let (start_ns, end_ns) = shared.window();
        if now_ns >= start_ns && now_ns < end_ns {
            self.by_connection[k] += bytes as u64;
            self.over_time.count(now_ns, start_ns, bytes as u64);
        }
    }
}

/// Counts the datagrams of a stream until the client has ended and none waits any more.
fn datagram_stream(
    watch: &mut Watch,
    socket: &OwnedFd,
    received: &mut Received,
) -> Result<(), Errno> {
    let flags = receive_flags(watch.shared);
    let mut buffer = vec![0; watch.shared.work.request_bytes];
    let mut waiting = MOST_WAITING;
    loop {
        let goes_on = watch.goes_on();
        let flags = if goes_on { flags } else { RecvFlags::DONTWAIT };
        match recv(socket, &mut buffer[..], flags) {
            // Somebody else may go on sending.
            Ok(_) if waiting == 0 => return Ok(()),
            Ok((bytes, _)) => {
                received.count_datagram(watch.shared, &buffer[..bytes]);
                waiting -= u64::from(!goes_on);
            }
            Err(Errno::AGAIN) if !goes_on => return Ok(()),
            Err(Errno::AGAIN | Errno::INTR) => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
}

/// Accepts every connection, then counts what they bring.
fn streams(watch: &mut Watch, listener: &OwnedFd, received: &mut Received) -> Result<(), Errno> {
    let work = watch.shared.work;
    let mut sockets = Vec::with_capacity(work.connections);
    while sockets.len() < work.connections {
        match accept(watch, listener)? {
            Some(socket) => sockets.push(socket),
            None => return Ok(()),
        }
    }
    let mut buffer = vec![0; work.request_bytes.max(server_many::STREAM_READ)];
    let [socket] = sockets.as_slice() else {
        return server_many::streams(watch, &sockets, &mut buffer, &mut |shared, k, bytes| {
            received.count(shared, k, bytes);
        });
    };
    let flags = receive_flags(watch.shared);
    while watch.goes_on() {
        match recv(socket, &mut buffer[..], flags) {
            Ok((0, _)) => return Ok(()),
            Ok((bytes, _)) => received.count(watch.shared, 0, bytes),
            Err(Errno::AGAIN | Errno::INTR) => std::hint::spin_loop(),
            // The client reports connections that are cut.
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}
