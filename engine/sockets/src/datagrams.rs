//! The sending side of streams of datagrams.
//!
//! A datagram begins with the number of its connection (4 bytes, little-endian) and a mark: 1 if it was
//! sent in the window. So each of the window is counted where it arrives, whenever that is.

use crate::fault::Fault;
use crate::schedule::{Due, Schedule};
use crate::shared::{Phase, Shared};
use crate::single::turn;
use crate::socket::{self, Io};
use crate::spec::{MARKED, Wait};
use pinchpoint_worker::Clock;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::send;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

/// How long datagrams are waited for after the window.
const DRAIN_NS: u64 = 100_000_000;

/// Sockets that are sent from in turn.
pub(crate) struct Datagrams<'a> {
    shared: &'a Shared<'a>,
    io: Io<'a>,
    clock: Clock,
    sockets: Vec<OwnedFd>,
    bytes: Vec<u8>,
    next: usize,
    /// Those of the window that the kernel took.
    sent: u64,
    latest_ns: u64,
}

/// The connection of a datagram and whether it was sent in the window; `None` for a foreign datagram.
pub(crate) fn read(datagram: &[u8]) -> Option<(usize, bool)> {
    let &[a, b, c, d, mark] = datagram.first_chunk::<MARKED>()?;
    Some((u32::from_le_bytes([a, b, c, d]) as usize, mark == 1))
}

impl<'a> Datagrams<'a> {
    /// Chooses a route for each; nothing is sent.
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        clock: &Clock,
        target: SocketAddr,
    ) -> Result<Self, Fault> {
        let work = shared.work;
        let io = Io::new(shared, clock.clone());
        let mut sockets = Vec::with_capacity(work.connections);
        for k in 0..work.connections as u64 {
            let socket = socket::client(shared, turn(&work.sources, k), &target, false)?;
            io.connect(&socket, &target, clock.now_ns())?;
            sockets.push(socket);
        }
        Ok(Self {
            shared,
            io,
            clock: clock.clone(),
            sockets,
            bytes: vec![0; work.request_bytes],
            next: 0,
            sent: 0,
            latest_ns: 0,
        })
    }

    /// Those of the window that the kernel took.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// How late the latest of them was sent.
    pub(crate) fn latest_ns(&self) -> u64 {
        self.latest_ns
    }

    /// Sends what the schedule plans, or as fast as it goes.
    pub(crate) fn drive(&mut self, schedule: &mut Schedule) {
        let is_counted = self.shared.phase() == Phase::Measuring;
        while !self.shared.halted() {
            let now_ns = self.clock.now_ns();
            match schedule.due(now_ns) {
                Due::Now(planned_ns) => match self.send(is_counted) {
                    Ok(true) => {
                        schedule.begin();
                        if is_counted {
                            self.sent += 1;
                            self.latest_ns = self.latest_ns.max(now_ns - planned_ns);
                        }
                    }
                    Ok(false) => std::hint::spin_loop(),
                    Err(error) => {
                        let fault = Fault::from(error);
                        let reason = format!("a datagram could not be sent: {fault}");
                        self.shared.abort(reason);
                    }
                },
                Due::At(planned_ns) => self.wait_until(planned_ns.min(schedule.end_ns()), now_ns),
                Due::Over => return,
            }
        }
    }

    /// Sends one from the socket whose turn it is; whether the kernel took it.
    fn send(&mut self, is_counted: bool) -> Result<bool, Errno> {
        self.bytes[..4].copy_from_slice(&(self.next as u32).to_le_bytes());
        self.bytes[4] = u8::from(is_counted);
        match send(&self.sockets[self.next], &self.bytes, self.io.send_flags) {
            Ok(_) => {
                self.next = (self.next + 1) % self.sockets.len();
                Ok(true)
            }
            // An error told by ICMP concerns a datagram before this one.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::CONNREFUSED) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for an instant, at most a slice.
    fn wait_until(&self, at_ns: u64, now_ns: u64) {
        let rest_ns = at_ns.saturating_sub(now_ns);
        if self.shared.work.wait == Wait::Block && rest_ns > 0 {
            thread::sleep(Duration::from_nanos(rest_ns.min(self.shared.slice_ns())));
        }
    }

    /// Waits for what is on its way.
    pub(crate) fn drain(&self) {
        let until_ns = self.clock.now_ns() + DRAIN_NS;
        while !self.shared.halted() && self.clock.now_ns() < until_ns {
            thread::sleep(Duration::from_nanos(self.shared.slice_ns()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_tells_its_connection_and_whether_it_counts() {
        assert_eq!(read(&[2, 1, 0, 0, 1, 9]), Some((258, true)));
        assert_eq!(read(&[0, 0, 0, 0, 0]), Some((0, false)));
        assert_eq!(read(&[0, 0, 0, 0]), None);
    }
}
