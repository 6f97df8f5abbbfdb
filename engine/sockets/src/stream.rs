//! The sending side of streams.

use crate::fault::Fault;
use crate::many::EVENTS;
use crate::schedule::Schedule;
use crate::shared::Shared;
use crate::single::turn;
use crate::socket::{self, Io};
use crate::spec::Wait;
use pinchpoint_worker::Clock;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::net::SocketAddr;

/// Connections that are written to whenever they take more.
pub(crate) struct Streams<'a> {
    shared: &'a Shared<'a>,
    clock: Clock,
    sockets: Vec<OwnedFd>,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    bytes: Vec<u8>,
}

impl<'a> Streams<'a> {
    /// Connects them one after the other, so that the server accepts them in
    /// this order.
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        clock: &Clock,
        target: SocketAddr,
    ) -> Result<Self, Fault> {
        let work = shared.work;
        let io = Io::new(shared, clock.clone());
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut sockets = Vec::with_capacity(work.connections);
        for k in 0..work.connections as u64 {
            let socket = socket::client(shared, turn(&work.sources, k), &target, false)?;
            io.connect(&socket, &target, clock.now_ns())?;
            let key = epoll::EventData::new_u64(k);
            epoll::add(&epoll, &socket, key, epoll::EventFlags::OUT)?;
            sockets.push(socket);
        }
        Ok(Self {
            shared,
            clock: clock.clone(),
            sockets,
            epoll,
            events: Vec::with_capacity(EVENTS),
            bytes: vec![0; work.request_bytes],
        })
    }

    pub(crate) fn sockets(&self) -> &[OwnedFd] {
        &self.sockets
    }

    /// Sends until the schedule's end, or until nothing is taken any more.
    pub(crate) fn drive(&mut self, schedule: &Schedule) {
        let mut progress_ns = self.clock.now_ns();
        while !self.shared.halted() {
            let now_ns = self.clock.now_ns();
            if now_ns >= schedule.end_ns() {
                return;
            }
            let sent = match self.sockets.as_slice() {
                [socket] => self.send(socket, self.flags()),
                _ => self.turn(),
            };
            match sent {
                Ok(true) => progress_ns = now_ns,
                Ok(false) => {
                    let drought_ns = now_ns.saturating_sub(progress_ns);
                    if drought_ns > self.shared.timeout_ns() {
                        let seconds = drought_ns as f64 / 1e9;
                        self.shared
                            .abort(format!("the server accepted no byte for {seconds:.1} s"));
                    }
                }
                Err(error) => {
                    let fault = Fault::from(error);
                    self.shared.abort(format!("a connection was lost: {fault}"));
                }
            }
        }
    }

    fn flags(&self) -> SendFlags {
        match self.shared.work.wait {
            Wait::Block => SendFlags::NOSIGNAL,
            Wait::Spin => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        }
    }

    /// One write; whether anything was taken.
    fn send(&self, socket: &OwnedFd, flags: SendFlags) -> Result<bool, Errno> {
        match send(socket, &self.bytes, flags) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// One write on every connection that takes more.
    fn turn(&mut self) -> Result<bool, Errno> {
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: match self.shared.work.wait {
                Wait::Block => self.shared.slice_ns() as _,
                Wait::Spin => 0,
            },
        };
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let mut any = false;
        for event in &self.events {
            let socket = &self.sockets[event.data.u64() as usize];
            any |= self.send(socket, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        }
        Ok(any)
    }
}
