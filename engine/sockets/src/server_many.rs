//! The server's side of several connections at once, over epoll.

use crate::many::{ALWAYS_ROOM, EVENTS};
use crate::shared::Shared;
use crate::spec::{Close, Kind, Wait};
use crate::watch::Watch;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

/// Bytes read from a stream at once, at least.
pub(crate) const STREAM_READ: usize = 131_072;
/// The event of the listening socket.
const LISTENER: u64 = u64::MAX;

struct Connection {
    socket: OwnedFd,
    /// Bytes of the request received.
    have: usize,
    /// Bytes of the response not yet sent.
    unsent: usize,
}

/// Whether a connection stays.
#[derive(PartialEq, Eq)]
enum Stay {
    Yes,
    No,
}

struct Server<'w, 's> {
    watch: &'w mut Watch<'s>,
    epoll: OwnedFd,
    /// By place; with how many connections have been at it before.
    connections: Vec<(u32, Option<Connection>)>,
    free: Vec<usize>,
    request: Vec<u8>,
    response: Vec<u8>,
    closes: bool,
}

fn wait(shared: &Shared, epoll: &OwnedFd, events: &mut Vec<epoll::Event>) -> Result<(), Errno> {
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: match shared.work.wait {
            Wait::Block => shared.slice_ns() as _,
            Wait::Spin => 0,
        },
    };
    events.clear();
    match epoll::wait(epoll, spare_capacity(events), Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Answers requests on every connection that `listener` brings.
pub(crate) fn serve(watch: &mut Watch, listener: &OwnedFd) -> Result<(), Errno> {
    let work = watch.shared.work;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let data = epoll::EventData::new_u64(LISTENER);
    epoll::add(&epoll, listener, data, epoll::EventFlags::IN)?;
    let mut server = Server {
        request: vec![0; work.request_bytes],
        response: vec![0; work.response_bytes],
        closes: work.kind == Kind::Crr && work.close == Close::Server,
        watch,
        epoll,
        connections: Vec::with_capacity(2 * work.connections),
        free: Vec::with_capacity(2 * work.connections),
    };
    let mut events = Vec::with_capacity(EVENTS);
    while server.watch.goes_on() {
        wait(server.watch.shared, &server.epoll, &mut events)?;
        for event in &events {
            match event.data.u64() {
                LISTENER => server.accept(listener)?,
                key => server.follow(key),
            }
        }
    }
    Ok(())
}

impl Server<'_, '_> {
    fn accept(&mut self, listener: &OwnedFd) -> Result<(), Errno> {
        loop {
            match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    self.watch.greet();
                    self.take(socket)?;
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Serves what a new connection has already brought, then watches it.
    fn take(&mut self, socket: OwnedFd) -> Result<(), Errno> {
        let mut connection = Connection {
            socket,
            have: 0,
            unsent: 0,
        };
        if self.serve(&mut connection) == Stay::No {
            return Ok(());
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push((0, None));
            self.connections.len() - 1
        });
        let entry = &mut self.connections[place];
        entry.0 = entry.0.wrapping_add(1);
        let data = epoll::EventData::new_u64(u64::from(entry.0) << 32 | place as u64);
        let mut flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        if self.response.len() > ALWAYS_ROOM {
            flags |= epoll::EventFlags::OUT;
        }
        epoll::add(&self.epoll, &connection.socket, data, flags)?;
        entry.1 = Some(connection);
        Ok(())
    }

    fn follow(&mut self, key: u64) {
        let place = (key & 0xffff_ffff) as usize;
        let entry = &mut self.connections[place];
        if u64::from(entry.0) != key >> 32 {
            return;
        }
        let Some(mut connection) = entry.1.take() else {
            return;
        };
        if self.serve(&mut connection) == Stay::Yes {
            self.connections[place].1 = Some(connection);
        } else {
            self.free.push(place);
        }
    }

    /// Receives and answers as far as it goes. After an answer nothing can
    /// have come that does not bring an event of its own.
    fn serve(&mut self, connection: &mut Connection) -> Stay {
        loop {
            let moved = if connection.unsent > 0 {
                let rest = &self.response[self.response.len() - connection.unsent..];
                send(&connection.socket, rest, SendFlags::NOSIGNAL).map(|sent| {
                    connection.unsent -= sent;
                    connection.unsent == 0
                })
            } else {
                let rest = &mut self.request[connection.have..];
                match recv(&connection.socket, rest, RecvFlags::empty()) {
                    Ok((0, _)) => return Stay::No,
                    Ok((received, _)) => {
                        connection.have += received;
                        if connection.have == self.request.len() {
                            connection.have = 0;
                            connection.unsent = self.response.len();
                        }
                        Ok(false)
                    }
                    Err(error) => Err(error),
                }
            };
            match moved {
                Ok(true) if self.closes => return Stay::No,
                Ok(true) | Err(Errno::AGAIN) => return Stay::Yes,
                Ok(false) | Err(Errno::INTR) => {}
                // The client reports connections that are cut.
                Err(_) => return Stay::No,
            }
        }
    }
}

/// Reads from every stream that has data; `count` receives how much.
pub(crate) fn streams(
    watch: &mut Watch,
    sockets: &[OwnedFd],
    buffer: &mut [u8],
    count: &mut impl FnMut(&Shared, usize, usize),
) -> Result<(), Errno> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (k, socket) in sockets.iter().enumerate() {
        let data = epoll::EventData::new_u64(k as u64);
        epoll::add(&epoll, socket, data, epoll::EventFlags::IN)?;
    }
    let mut events = Vec::with_capacity(EVENTS);
    let mut open = sockets.len();
    while open > 0 && watch.goes_on() {
        wait(watch.shared, &epoll, &mut events)?;
        for event in &events {
            let k = event.data.u64() as usize;
            match recv(&sockets[k], &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((bytes, _)) if bytes > 0 => count(watch.shared, k, bytes),
                Err(Errno::AGAIN | Errno::INTR) => {}
                // The client reports connections that are cut.
                Ok(_) | Err(_) => {
                    epoll::delete(&epoll, &sockets[k])?;
                    open -= 1;
                }
            }
        }
    }
    Ok(())
}
