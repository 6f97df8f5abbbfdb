//! One transaction after the other, with blocking calls.

use crate::course::{Course, REST};
use crate::fault::Fault;
use crate::ports::Ports;
use crate::schedule::Due;
use crate::shared::Shared;
use crate::socket::{self, Io};
use crate::spec::{Close, Kind, Transport, Wait};
use pinchpoint_worker::Clock;
use rustix::fd::OwnedFd;
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes of a datagram that tell its transaction; fewer if it is shorter.
pub(crate) const TAG: usize = 8;

/// The one connection, or the one transaction, of a client.
pub(crate) struct Single<'a> {
    shared: &'a Shared<'a>,
    io: Io<'a>,
    clock: Clock,
    target: SocketAddr,
    /// The standing connection of `rr`.
    standing: Option<OwnedFd>,
    /// Where the connections of `crr` come from.
    ports: Option<Ports>,
    request: Vec<u8>,
    response: Vec<u8>,
    number: u64,
}

impl<'a> Single<'a> {
    /// Connects, if the connection is to stand.
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        clock: &Clock,
        target: SocketAddr,
    ) -> Result<Self, Fault> {
        let work = shared.work;
        let io = Io::new(shared, clock.clone());
        let standing = match work.kind {
            Kind::Crr => None,
            Kind::Rr | Kind::Stream => {
                let socket = socket::client(shared, work.sources.first().copied(), &target, false)?;
                io.connect(&socket, &target, clock.now_ns())?;
                Some(socket)
            }
        };
        let connects = work.kind == Kind::Crr && work.transport == Transport::Tcp;
        let ports = connects.then(|| Ports::new(shared, &target)).transpose()?;
        // A datagram that is too long must not pass as one that fits.
        let spare = usize::from(work.transport == Transport::Udp);
        Ok(Self {
            shared,
            io,
            clock: clock.clone(),
            target,
            standing,
            ports,
            request: vec![0; work.request_bytes],
            response: vec![0; work.response_bytes + spare],
            number: 0,
        })
    }

    pub(crate) fn standing(&self) -> Option<&OwnedFd> {
        self.standing.as_ref()
    }

    /// Transactions as the course plans them, until it is over, stopped or
    /// lost.
    pub(crate) fn drive(&mut self, course: &mut Course) {
        let mut now_ns = self.clock.now_ns();
        while !self.shared.halted() {
            let planned_ns = match course.schedule.due(now_ns) {
                Due::Now(planned_ns) => planned_ns,
                Due::At(planned_ns) => {
                    now_ns = self.wait_until(planned_ns.min(course.schedule.end_ns()));
                    continue;
                }
                Due::Over => return,
            };
            course.schedule.begin();
            let begun_ns = now_ns;
            let result = self.transact(begun_ns);
            now_ns = self.clock.now_ns();
            match result {
                Ok(()) => course.success(0, planned_ns, begun_ns, now_ns),
                Err(fault) => {
                    course.failure(planned_ns, begun_ns, fault, now_ns);
                    let stands = self.standing.is_some();
                    if stands && self.shared.work.transport == Transport::Tcp {
                        self.shared
                            .abort(format!("the connection was lost: {fault}"));
                    } else if fault != Fault::Timeout {
                        // It came at once, and would come again at once.
                        std::thread::sleep(REST);
                    }
                    now_ns = self.clock.now_ns();
                }
            }
        }
    }

    /// Waits for an instant, at most a slice; returns the time after it.
    fn wait_until(&self, at_ns: u64) -> u64 {
        let now_ns = self.clock.now_ns();
        let rest_ns = at_ns.saturating_sub(now_ns);
        if self.shared.work.wait == Wait::Block && rest_ns > 0 {
            std::thread::sleep(Duration::from_nanos(rest_ns.min(self.shared.slice_ns())));
        }
        self.clock.now_ns()
    }

    #[inline]
    fn transact(&mut self, begun_ns: u64) -> Result<(), Fault> {
        self.number += 1;
        match &self.standing {
            Some(socket) => {
                let (request, response) = (&mut self.request, &mut self.response);
                match self.shared.work.transport {
                    Transport::Tcp => exchange(&self.io, socket, request, response, begun_ns),
                    Transport::Udp => {
                        ask(&self.io, socket, request, response, self.number, begun_ns)
                    }
                }
            }
            None => self.connect_and_transact(begun_ns),
        }
    }

    fn connect_and_transact(&mut self, begun_ns: u64) -> Result<(), Fault> {
        let work = self.shared.work;
        let socket = if let Some(ports) = &mut self.ports {
            ports.connect(|from| {
                let socket = socket::client_from(self.shared, &from, false)?;
                self.io.connect_bound(socket, &self.target, begun_ns)
            })?
        } else {
            let source = turn(&work.sources, self.number);
            let socket = socket::client(self.shared, source, &self.target, false)?;
            self.io.connect(&socket, &self.target, begun_ns)?;
            socket
        };
        let (request, response) = (&mut self.request, &mut self.response);
        match work.transport {
            Transport::Udp => ask(&self.io, &socket, request, response, self.number, begun_ns),
            Transport::Tcp => {
                exchange(&self.io, &socket, request, response, begun_ns)?;
                if work.close == Close::Server {
                    // Its end of stream puts TIME_WAIT on its side.
                    self.io.receive(&socket, &mut response[..1], begun_ns)?;
                }
                Ok(())
            }
        }
    }
}

/// The `number`th of `items`, over and over.
#[inline]
pub(crate) fn turn<T: Copy>(items: &[T], number: u64) -> Option<T> {
    let count = items.len() as u64;
    (count > 0).then(|| items[(number % count) as usize])
}

#[inline]
fn exchange(
    io: &Io,
    socket: &OwnedFd,
    request: &[u8],
    response: &mut [u8],
    begun_ns: u64,
) -> Result<(), Fault> {
    io.send(socket, request, begun_ns)?;
    io.receive_exact(socket, response, begun_ns)
}

/// Writes which transaction a datagram belongs to into its first bytes.
#[inline]
pub(crate) fn tag(datagram: &mut [u8], number: u64) {
    let len = datagram.len().min(TAG);
    datagram[..len].copy_from_slice(&number.to_le_bytes()[..len]);
}

/// Whether a response of `received` bytes, `expected` long, carries the
/// request's tag, as far as both have room for one.
#[inline]
pub(crate) fn answers(request: &[u8], response: &[u8], received: usize, expected: usize) -> bool {
    let len = request.len().min(expected).min(TAG);
    received == expected && request[..len] == response[..len]
}

/// One datagram each way. `response` has a byte more than expected. What
/// answers an earlier request, too late, is passed over.
#[inline]
fn ask(
    io: &Io,
    socket: &OwnedFd,
    request: &mut [u8],
    response: &mut [u8],
    number: u64,
    begun_ns: u64,
) -> Result<(), Fault> {
    tag(request, number);
    io.send(socket, request, begun_ns)?;
    let expected = response.len() - 1;
    loop {
        let received = io.receive(socket, response, begun_ns)?;
        if answers(request, response, received, expected) {
            return Ok(());
        }
        io.again(begun_ns)?;
    }
}
