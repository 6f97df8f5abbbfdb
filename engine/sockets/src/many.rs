//! Several transactions under way at once, over one epoll instance.
//!
//! Edge-triggered (epoll(7)): a socket is added once, and an event says that
//! something has arrived since the last one. Nobody sends unasked here, so a
//! response that is complete needs no further read to find the end of it.

use crate::course::{Course, REST};
use crate::fault::Fault;
use crate::ports::Ports;
use crate::schedule::Due;
use crate::shared::Shared;
use crate::single::{answers, tag, turn};
use crate::socket::{self, Io, Refused};
use crate::spec::{Close, Kind, Transport, Wait};
use pinchpoint_worker::Clock;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, connect, recv, send};
use std::net::SocketAddr;

/// Events taken from the kernel at once.
pub(crate) const EVENTS: usize = 256;
/// An empty send buffer takes this many bytes at once (`tcp_wmem`, tcp(7)),
/// so room to send is no event worth having for messages up to it.
pub(crate) const ALWAYS_ROOM: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Free for a transaction.
    Idle,
    /// In a transaction.
    Busy,
    /// Waiting for the server to close.
    Closing,
    /// Its standing connection is gone.
    Lost,
}

/// One transaction at a time, on a standing socket or on one of its own.
struct Slot {
    socket: Option<OwnedFd>,
    /// Which of the slot's sockets, one after the other, it is.
    generation: u32,
    state: State,
    /// Bytes of the request not yet sent.
    unsent: usize,
    /// Bytes of the response received.
    have: usize,
    number: u64,
    planned_ns: u64,
    begun_ns: u64,
}

/// All connections of a client.
pub(crate) struct Many<'a> {
    shared: &'a Shared<'a>,
    clock: Clock,
    target: SocketAddr,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    slots: Vec<Slot>,
    idle: Vec<usize>,
    /// Where the connections of `crr` come from.
    ports: Option<Ports>,
    request: Vec<u8>,
    response: Vec<u8>,
    number: u64,
    scanned_ns: u64,
    /// Something failed since the last wait.
    failed: bool,
}

impl<'a> Many<'a> {
    /// Connects, if the connections are to stand.
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        clock: &Clock,
        target: SocketAddr,
    ) -> Result<Self, Fault> {
        let work = shared.work;
        let slot = || Slot {
            socket: None,
            generation: 0,
            state: State::Idle,
            unsent: 0,
            have: 0,
            number: 0,
            planned_ns: 0,
            begun_ns: 0,
        };
        let connects = work.kind == Kind::Crr && work.transport == Transport::Tcp;
        let ports = connects.then(|| Ports::new(shared, &target)).transpose()?;
        let spare = usize::from(work.transport == Transport::Udp);
        let mut many = Self {
            shared,
            clock: clock.clone(),
            target,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS),
            slots: (0..work.connections).map(|_| slot()).collect(),
            // The first connection is the first to be taken.
            idle: (0..work.connections).rev().collect(),
            ports,
            request: vec![0; work.request_bytes],
            response: vec![0; work.response_bytes + spare],
            number: 0,
            scanned_ns: clock.now_ns(),
            failed: false,
        };
        if work.kind == Kind::Rr {
            let io = Io::new(shared, clock.clone());
            for k in 0..work.connections {
                let source = turn(&work.sources, k as u64);
                let socket = socket::client(shared, source, &target, false)?;
                io.connect(&socket, &target, clock.now_ns())?;
                let room = work.transport == Transport::Tcp && work.request_bytes > ALWAYS_ROOM;
                many.watch(k, &socket, room)?;
                many.slots[k].socket = Some(socket);
            }
        }
        Ok(many)
    }

    pub(crate) fn standing(&self) -> impl Iterator<Item = &OwnedFd> {
        let stands = self.shared.work.kind == Kind::Rr;
        self.slots
            .iter()
            .filter(move |_| stands)
            .filter_map(|slot| slot.socket.as_ref())
    }

    /// Asks for events of a slot's socket. Room to send is news only on a
    /// connection: a datagram socket would tell it after every datagram.
    fn watch(&self, k: usize, socket: &OwnedFd, room: bool) -> Result<(), Errno> {
        let key = u64::from(self.slots[k].generation) << 32 | k as u64;
        let mut flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        if room {
            flags |= epoll::EventFlags::OUT;
        }
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(key), flags)
    }

    /// Transactions as the course plans them, until it is over, stopped or
    /// lost; leaves those under way as they are.
    pub(crate) fn drive(&mut self, course: &mut Course) {
        while !self.shared.halted() {
            let now_ns = self.begin_due(course);
            let due = course.schedule.due(now_ns);
            if due == Due::Over {
                return;
            }
            let at_ns = match due {
                Due::At(at_ns) if !self.idle.is_empty() => at_ns.min(course.schedule.end_ns()),
                _ => course.schedule.end_ns(),
            };
            self.turn(course, at_ns.saturating_sub(now_ns));
        }
    }

    /// Waits for what is under way; returns how many transactions were left
    /// because the run was stopped.
    pub(crate) fn drain(&mut self, course: &mut Course) -> u64 {
        while self.under_way() > 0 && !self.shared.halted() {
            self.turn(course, self.shared.slice_ns());
        }
        self.under_way() as u64
    }

    fn under_way(&self) -> usize {
        let lost = self.slots.len() - self.idle.len();
        if lost == 0 {
            return 0;
        }
        let busy = |slot: &&Slot| matches!(slot.state, State::Busy | State::Closing);
        self.slots.iter().filter(busy).count()
    }

    /// Waits for events, at most `most_ns`, and follows them.
    fn turn(&mut self, course: &mut Course, most_ns: u64) {
        let failed = std::mem::take(&mut self.failed);
        if failed {
            std::thread::sleep(REST);
        }
        let wait_ns = match self.shared.work.wait {
            // What has just failed may begin again.
            _ if failed => 0,
            Wait::Block => most_ns.min(self.shared.slice_ns()),
            Wait::Spin => 0,
        };
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: wait_ns as _,
        };
        self.events.clear();
        if let Err(error) = epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&wait))
            && error != Errno::INTR
        {
            self.shared.abort(format!("waiting for events: {error}"));
            return;
        }
        for index in 0..self.events.len() {
            let event = self.events[index];
            self.follow(course, event.data.u64(), event.flags);
        }
        let now_ns = self.clock.now_ns();
        if now_ns.saturating_sub(self.scanned_ns) > self.shared.slice_ns() {
            self.scanned_ns = now_ns;
            self.give_up_late(course, now_ns);
        }
    }

    /// Begins what is due while there are idle slots; returns the time.
    fn begin_due(&mut self, course: &mut Course) -> u64 {
        let mut now_ns = self.clock.now_ns();
        while let Some(&k) = self.idle.last()
            && let Due::Now(planned_ns) = course.schedule.due(now_ns)
            && !self.failed
        {
            self.idle.pop();
            self.begin(course, k, planned_ns, now_ns);
            now_ns = self.clock.now_ns();
        }
        now_ns
    }

    fn begin(&mut self, course: &mut Course, k: usize, planned_ns: u64, now_ns: u64) {
        course.schedule.begin();
        self.number += 1;
        let slot = &mut self.slots[k];
        slot.state = State::Busy;
        slot.unsent = self.request.len();
        slot.have = 0;
        slot.number = self.number;
        slot.planned_ns = planned_ns;
        slot.begun_ns = now_ns;
        let begun = match self.shared.work.kind {
            Kind::Crr => self.connect(k),
            Kind::Rr | Kind::Stream => self.push(k),
        };
        if let Err(fault) = begun {
            self.fail(course, k, fault);
        }
    }

    fn connect(&mut self, k: usize) -> Result<(), Fault> {
        let (shared, target) = (self.shared, self.target);
        let socket = if let Some(ports) = &mut self.ports {
            ports.connect(|from| {
                let socket = socket::client_from(shared, &from, true)?;
                match connect(&socket, &target) {
                    Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
                    Err(Errno::ADDRNOTAVAIL) => Err(Refused::Pair),
                    Err(error) => Err(error.into()),
                }
            })?
        } else {
            let source = turn(&shared.work.sources, self.number);
            let socket = socket::client(shared, source, &target, true)?;
            connect(&socket, &target)?;
            socket
        };
        self.slots[k].generation = self.slots[k].generation.wrapping_add(1);
        self.slots[k].socket = Some(socket);
        // Between near namespaces the handshake is over before connect
        // returns, and the request leaves without waiting for an event.
        self.push(k)?;
        let slot = &self.slots[k];
        if let Some(socket) = &slot.socket {
            self.watch(k, socket, slot.unsent > 0)?;
        }
        Ok(())
    }

    /// Sends what is left of the request, as far as it goes.
    fn push(&mut self, k: usize) -> Result<(), Fault> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let slot = &mut self.slots[k];
        let Some(socket) = &slot.socket else {
            return Ok(());
        };
        if self.shared.work.transport == Transport::Udp {
            tag(&mut self.request, slot.number);
        }
        while slot.unsent > 0 {
            let rest = &self.request[self.request.len() - slot.unsent..];
            match send(socket, rest, flags) {
                Ok(sent) => slot.unsent -= sent,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Receives what has arrived; whether the response is complete.
    fn pull(&mut self, k: usize) -> Result<bool, Fault> {
        let slot = &mut self.slots[k];
        let Some(socket) = &slot.socket else {
            return Ok(false);
        };
        let expected = self.shared.work.response_bytes;
        let datagrams = self.shared.work.transport == Transport::Udp;
        loop {
            let most = self.response.len() - slot.have;
            match recv(socket, &mut self.response[..most], RecvFlags::DONTWAIT) {
                Ok((received, _)) if datagrams => {
                    let number = slot.number.to_le_bytes();
                    let sent = &number[..number.len().min(self.request.len())];
                    if answers(sent, &self.response, received, expected) {
                        return Ok(true);
                    }
                }
                Ok((0, _)) => return Err(Fault::Short),
                Ok((received, _)) => {
                    slot.have += received;
                    if slot.have >= expected {
                        return Ok(true);
                    }
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn follow(&mut self, course: &mut Course, key: u64, flags: epoll::EventFlags) {
        let k = (key & 0xffff_ffff) as usize;
        let slot = &self.slots[k];
        if u64::from(slot.generation) != key >> 32 || slot.socket.is_none() {
            return;
        }
        let only_room = flags == epoll::EventFlags::OUT;
        let followed = match slot.state {
            State::Busy if slot.unsent > 0 => self
                .push(k)
                .and_then(|()| if only_room { Ok(false) } else { self.pull(k) }),
            State::Busy | State::Idle if only_room => Ok(false),
            State::Busy => self.pull(k),
            State::Closing => self.closed(k),
            // Only an end can arrive unasked; or a datagram that is too late.
            State::Idle => match self.pull(k) {
                Err(fault) => Err(fault),
                Ok(_) => return,
            },
            State::Lost => return,
        };
        match followed {
            Ok(false) => {}
            Ok(true) => self.complete(course, k),
            Err(fault) => self.fail(course, k, fault),
        }
    }

    /// Whether the server has closed.
    fn closed(&mut self, k: usize) -> Result<bool, Fault> {
        let Some(socket) = &self.slots[k].socket else {
            return Ok(false);
        };
        match recv(socket, &mut self.response[..1], RecvFlags::DONTWAIT) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The response is there, or the server has closed after it.
    fn complete(&mut self, course: &mut Course, k: usize) {
        let work = self.shared.work;
        if work.kind == Kind::Crr {
            let waits = work.transport == Transport::Tcp && work.close == Close::Server;
            if waits && self.slots[k].state == State::Busy {
                self.slots[k].state = State::Closing;
                match self.closed(k) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(fault) => return self.fail(course, k, fault),
                }
            }
            self.slots[k].socket = None;
        }
        let slot = &mut self.slots[k];
        slot.state = State::Idle;
        let now_ns = self.clock.now_ns();
        course.success(k, slot.planned_ns, slot.begun_ns, now_ns);
        match course.schedule.due(now_ns) {
            Due::Now(planned_ns) => self.begin(course, k, planned_ns, now_ns),
            Due::At(_) | Due::Over => self.idle.push(k),
        }
    }

    /// The transaction of a slot, or its connection while idle, has failed.
    fn fail(&mut self, course: &mut Course, k: usize, fault: Fault) {
        let stands = self.shared.work.kind == Kind::Rr;
        let was = std::mem::replace(&mut self.slots[k].state, State::Idle);
        if stands && self.shared.work.transport == Transport::Tcp {
            self.lose(k, was, fault);
        } else {
            self.failed |= fault != Fault::Timeout;
            if !stands {
                self.slots[k].socket = None;
            }
            if was != State::Idle {
                self.idle.push(k);
            }
        }
        if was != State::Idle {
            let Slot {
                planned_ns,
                begun_ns,
                ..
            } = self.slots[k];
            course.failure(planned_ns, begun_ns, fault, self.clock.now_ns());
        }
    }

    fn lose(&mut self, k: usize, was: State, fault: Fault) {
        self.slots[k].socket = None;
        self.slots[k].state = State::Lost;
        if was == State::Idle {
            self.idle.retain(|&idle| idle != k);
        }
        if self.slots.iter().all(|slot| slot.state == State::Lost) {
            self.shared
                .abort(format!("every connection was lost: {fault}"));
        }
    }

    /// Fails what has taken longer than the timeout.
    fn give_up_late(&mut self, course: &mut Course, now_ns: u64) {
        for k in 0..self.slots.len() {
            let slot = &self.slots[k];
            let busy = matches!(slot.state, State::Busy | State::Closing);
            if busy && now_ns.saturating_sub(slot.begun_ns) > self.shared.timeout_ns() {
                self.fail(course, k, Fault::Timeout);
            }
        }
    }
}
