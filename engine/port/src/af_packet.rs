//! A network interface through the kernel's packet sockets (packet(7)).
//!
//! Frames are sent and received with one system call a burst, through two
//! sockets: one that only sends, past the queueing discipline, and one that
//! only receives. The interface may live in a named network namespace; a
//! socket stays in the namespace it was made in, so a short-lived thread goes
//! there to make them and nothing has to come back.
mod socket;

use crate::{BURST, OpenError, Port, PortSpec, Sink, Source};
use pinchpoint_wire::ethernet::{self, Mac};
use socket::Socket;
pub(crate) use socket::enter_netns;
use std::io::{self, IoSliceMut};

/// Bytes kept for each frame in either direction.
const SLOT: usize = 9216;
/// Bytes of socket buffer that one small frame takes up, rounded up.
const BUFFER_PER_FRAME: usize = 4096;
/// The least receive buffer asked for, in bytes: 64 MiB hold what arrives in
/// tens of milliseconds.
const MIN_RECEIVE_BUFFER: usize = 64 << 20;

/// A pair of packet sockets bound to one interface.
pub struct AfPacketPort {
    sender: Socket,
    receiver: Socket,
    mac: Mac,
    max_len: usize,
    rings: (u32, u32),
    /// One slot for each frame of a burst.
    slots: Vec<u8>,
    missed: u64,
    refusals: Refusals,
}

/// Why bursts were cut short.
#[derive(Debug, Default)]
struct Refusals {
    no_buffers: u64,
    other: u64,
}

/// Whether packet sockets can be had, and how many privileges are missing.
pub(crate) fn probe() -> io::Result<()> {
    Socket::new(0).map(drop)
}

/// Has an interface of the calling thread's namespace receive frames for
/// whatever address, until this value goes.
pub(crate) struct Promiscuous {
    _member: Socket,
}

impl Promiscuous {
    pub(crate) fn new(interface: u32) -> io::Result<Self> {
        // Without a protocol the socket itself receives nothing.
        let member = Socket::new(0)?;
        member.promiscuous(interface as libc::c_int)?;
        Ok(Self { _member: member })
    }
}

impl AfPacketPort {
    /// Opens the interface `spec.device`, in `spec.netns` if given.
    pub(crate) fn open(spec: &PortSpec) -> Result<Self, OpenError> {
        let Some(netns) = spec.netns.clone() else {
            return Self::open_here(spec);
        };
        let spec = spec.clone();
        let there = std::thread::spawn(move || {
            socket::enter_netns(&netns).map_err(|error| {
                OpenError::new(format!("network namespace '{netns}': {error}"))
                    .hint("ip netns list shows those that exist")
            })?;
            Self::open_here(&spec)
        });
        let died = || OpenError::new("the opening thread died");
        there.join().map_err(|_| died())?
    }

    fn open_here(spec: &PortSpec) -> Result<Self, OpenError> {
        let failed = |what: &str, error: &io::Error| {
            OpenError::new(format!("{} {what}: {error}", spec.device)).hint(
                match error.raw_os_error() {
                    Some(libc::EPERM) => "run as root",
                    _ => "ip link shows the interfaces that exist (ip -n NETNS link)",
                },
            )
        };
        let sender = Socket::new(0).map_err(|e| failed("packet socket", &e))?;
        let receiver = Socket::new(0).map_err(|e| failed("packet socket", &e))?;
        let index = sender
            .interface_index(&spec.device)
            .map_err(|e| failed("interface", &e))?;
        let mac = sender
            .mac(&spec.device)
            .map_err(|e| failed("address", &e))?;
        let mtu = sender.mtu(&spec.device).map_err(|e| failed("MTU", &e))?;
        let buffer = MIN_RECEIVE_BUFFER.max(spec.rx_ring as usize * BUFFER_PER_FRAME);
        sender
            .bypass_queueing()
            .and_then(|()| sender.bind(index, 0))
            .and_then(|()| sender.set_buffer(libc::SO_SNDBUFFORCE, buffer))
            .map_err(|e| failed("sender", &e))?;
        receiver
            .ignore_outgoing()
            .and_then(|()| receiver.set_buffer(libc::SO_RCVBUFFORCE, buffer))
            .and_then(|()| receiver.promiscuous(index))
            .and_then(|()| receiver.bind(index, libc::ETH_P_ALL as u16))
            .map_err(|e| failed("receiver", &e))?;
        Ok(Self {
            sender,
            receiver,
            mac,
            max_len: (mtu + ethernet::HEADER_LEN).min(SLOT),
            rings: (spec.rx_ring, spec.tx_ring),
            slots: vec![0; BURST * SLOT],
            missed: 0,
            refusals: Refusals::default(),
        })
    }
}

impl Port for AfPacketPort {
    fn send<S: Source>(&mut self, count: usize, mut source: S) -> usize {
        let count = count.min(BURST);
        let mut frames: [&[u8]; BURST] = [&[]; BURST];
        let slots = self.slots.chunks_exact_mut(SLOT).zip(&mut frames);
        for (i, (slot, frame)) in slots.take(count).enumerate() {
            let len = source.len(i).min(SLOT);
            let slot = &mut slot[..len];
            source.frame(i, slot);
            *frame = slot;
        }
        match self.sender.send(&frames[..count]) {
            Ok(taken) => taken,
            Err(error) => {
                match error.raw_os_error() {
                    Some(libc::ENOBUFS | libc::EAGAIN) => self.refusals.no_buffers += 1,
                    _ => self.refusals.other += 1,
                }
                0
            }
        }
    }

    fn receive<S: Sink>(&mut self, sink: &mut S) -> usize {
        let mut lens = [0; BURST];
        let mut slots: [IoSliceMut; BURST] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        for (slot, bytes) in slots.iter_mut().zip(self.slots.chunks_exact_mut(SLOT)) {
            *slot = IoSliceMut::new(bytes);
        }
        let count = self.receiver.receive(&mut slots, &mut lens);
        if count == 0 {
            return 0;
        }
        sink.arrived(count);
        for (slot, len) in slots[..count].iter().zip(lens) {
            sink.frame(&slot[..len.min(SLOT)]);
        }
        count
    }

    fn link_up(&mut self) -> bool {
        self.receiver.is_running()
    }

    fn failure(&mut self) -> Option<String> {
        None
    }

    fn mac(&self) -> Option<Mac> {
        Some(self.mac)
    }

    fn mode(&self) -> &'static str {
        "af_packet"
    }

    fn max_len(&self) -> usize {
        self.max_len
    }

    fn rings(&self) -> (u32, u32) {
        self.rings
    }

    /// Frames the kernel dropped because the receive buffer was full.
    fn rx_missed(&mut self) -> Option<u64> {
        // The kernel starts again from zero at every reading.
        self.missed += u64::from(self.receiver.take_drops()?);
        Some(self.missed)
    }

    fn stats(&mut self) -> Vec<(String, u64)> {
        vec![
            ("tx_no_buffers".to_owned(), self.refusals.no_buffers),
            ("tx_errors".to_owned(), self.refusals.other),
        ]
    }
}
