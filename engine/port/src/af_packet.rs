//! A network interface through the kernel's packet sockets (packet(7)).
//!
//! Two sockets a queue: one only sends, past the queueing discipline, and one
//! only receives. Both share a ring of slots with the kernel; `mmap=0` in the
//! device string copies with system calls instead. The interface may live in a
//! named network namespace; a socket stays in the namespace it was made in, so
//! a short-lived thread goes there to make them and nothing has to come back.
//!
//! # Sending
//!
//! A burst is written into the ring and offered with one system call. The
//! kernel sends the frames one by one in that call and stops at the first that
//! the device or memory has no room for; that frame and those behind it are
//! taken back, so what `send` returns is what the device was given.
//! `PACKET_LOSS` stays off: it has the kernel pass over what it cannot send
//! without a word.
//!
//! Left alone, the kernel lends the ring's pages to the frames it sends, and a
//! virtual device's other end, which must not keep borrowed pages, allocates
//! new ones and copies. So every frame is said to have headers as long as
//! itself (`virtio_net_hdr.hdr_len`): headers are copied at once, into the
//! memory that the frame needs anyway.
//!
//! Frames of 60 bytes a second of processor time, over a veth pair to an
//! nftables ingress hook that drops, sink included (Linux 6.18, medians of
//! interleaved trials of one second on a shared machine):
//!
//! | sender | Mpps |
//! |---|---|
//! | this ring, headers copied | 0.95 |
//! | `mmap=0`: sendmmsg(2) | 0.72 |
//! | trafgen 0.6.8: a ring with lent pages, constant frame | 0.71 |
//! | dpdk-testpmd 22.11, net_af_packet: likewise | 0.58 |
//!
//! What is left is the kernel's. Of the time of a sender that does nothing
//! else 98 % is spent in the system call: 45 % in the soft interrupt in which
//! the other end takes the frame (the kernel runs one after every frame, as
//! packet sockets hand over frames singly), 17 % in the device, 10 % on memory
//! for the frame. Neither the queueing discipline, nor GRO at the other end,
//! nor lengths of rings and slots move it. A second core that sends through a
//! second socket does not slow the first down.
//!
//! # Receiving
//!
//! The ring is of format `TPACKET_V2`, which hands over frame by frame.
//! `TPACKET_V3` hands over blocks, when one is full or after a millisecond at
//! the earliest, which ruins latency: sent one by one at 200,000 frames/s to
//! another core, half of the frames arrived within 1.6 us (V2), 2.5 us
//! (recvmmsg) and 520 us (V3). At the highest rate V3 carries a tenth more
//! than V2. One core that sends and receives turns round 0.64 Mpps with both
//! rings and 0.46 with `mmap=0`.
//!
//! The kernel takes VLAN tags out of frames; they are put back before the
//! frames are shown. Frames are timed by the engine's clock when they are taken
//! out of the ring, or by the kernel's or the NIC's before (`stamps=`): the
//! wait for a busy receiver is no part of the latency then.
mod device;
mod link;
mod messages;
mod ring;
mod socket;
#[cfg(test)]
mod tests;
mod vlan;

use crate::{OpenError, Port, PortSpec, Sink, Source, Stamps, netns};
use device::Device;
use messages::{MessageReceiver, MessageSender};
use pinchpoint_wire::ethernet::{self, Mac};
use ring::{RingReceiver, RingSender};
use socket::{Socket, State};
use std::io;

/// The longest frame carried, whatever the interface's MTU.
const MAX_LEN: usize = 9216;
/// Bytes of the socket buffers that one small frame takes up, rounded up.
const BUFFER_PER_FRAME: usize = 4096;
/// The least socket buffer asked for, in bytes.
const MIN_BUFFER: usize = 64 << 20;
/// The least receive ring, in bytes: 20,000 frames of 1500 bytes at most, which
/// takes tens of milliseconds to fill and costs no speed.
const MIN_RECEIVE_RING: usize = 32 << 20;

/// One queue of an interface: a pair of packet sockets bound to it.
pub struct AfPacketPort {
    sender: Sender,
    receiver: Receiver,
    interface: String,
    index: libc::c_int,
    mac: Mac,
    max_len: usize,
    rings: (u32, u32),
    missed: u64,
    cuts: Cuts,
}

enum Sender {
    Ring(RingSender),
    Messages(MessageSender),
}

impl Sender {
    /// Makes `socket` send frames of at most `max_len` bytes.
    fn open(
        socket: Socket,
        spec: &PortSpec,
        device: &Device<'_>,
        index: libc::c_int,
        max_len: usize,
    ) -> Result<Self, OpenError> {
        let failed = |e| failed(device.name, "sender", &e);
        let slots = spec.tx_ring as usize;
        let buffer = MIN_BUFFER.max(slots * BUFFER_PER_FRAME);
        socket
            .set_packet(libc::PACKET_QDISC_BYPASS, 1)
            .and_then(|()| socket.set_buffer(libc::SO_SNDBUFFORCE, buffer))
            .and_then(|()| socket.bind(index, 0))
            .map_err(failed)?;
        if !device.mmap {
            return Ok(Self::Messages(MessageSender::new(socket, max_len)));
        }
        let ring = RingSender::new(socket, slots, max_len).map_err(failed)?;
        Ok(Self::Ring(ring))
    }
}

enum Receiver {
    Ring(RingReceiver),
    Messages(MessageReceiver),
}

impl Receiver {
    /// Makes `socket` receive what the interface carries, as one of `group` if
    /// the port has several queues; but nothing before it is unshut.
    fn open(
        socket: Socket,
        spec: &PortSpec,
        device: &Device<'_>,
        index: libc::c_int,
        max_len: usize,
        group: &mut Option<u16>,
    ) -> Result<Self, OpenError> {
        let failed = |e| failed(device.name, "receiver", &e);
        let slots = spec.rx_ring as usize;
        let buffer = MIN_BUFFER.max(slots * BUFFER_PER_FRAME);
        // Of two tags the kernel takes out one.
        let longest = max_len + vlan::LEN;
        socket
            .shut()
            .and_then(|()| socket.set_packet(libc::PACKET_IGNORE_OUTGOING, 1))
            .and_then(|()| socket.set_buffer(libc::SO_RCVBUFFORCE, buffer))
            .map_err(failed)?;
        let receiver = if device.mmap {
            RingReceiver::new(socket, slots, MIN_RECEIVE_RING, longest, device.stamps)
                .map(Self::Ring)
        } else {
            MessageReceiver::new(socket, longest).map(Self::Messages)
        };
        let receiver = receiver.map_err(failed)?;
        let socket = receiver.socket();
        socket
            .promiscuous(index)
            .and_then(|()| socket.bind(index, libc::ETH_P_ALL as u16))
            .map_err(failed)?;
        if spec.queues > 1 {
            *group = Some(socket.join(device.fanout, *group).map_err(failed)?);
        }
        Ok(receiver)
    }

    fn socket(&self) -> &Socket {
        match self {
            Self::Ring(ring) => ring.socket(),
            Self::Messages(messages) => messages.socket(),
        }
    }
}

/// How a burst was sent.
struct Sent {
    taken: usize,
    /// Why not all of it was taken.
    cut: Option<Cut>,
}

impl Sent {
    fn cut(taken: usize, cut: Option<Cut>) -> Self {
        Self { taken, cut }
    }
}

/// Why a burst was cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// The device has not yet sent what is in the ring.
    RingFull,
    /// The device or the kernel's memory had no room.
    NoBuffers,
    Error,
}

impl From<&io::Error> for Cut {
    fn from(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOBUFS | libc::EAGAIN) => Self::NoBuffers,
            _ => Self::Error,
        }
    }
}

/// How often bursts were cut short.
#[derive(Debug, Default)]
struct Cuts {
    ring_full: u64,
    no_buffers: u64,
    errors: u64,
}

/// Whether packet sockets can be had, and how many privileges are missing.
pub(crate) fn probe() -> io::Result<()> {
    Socket::new().map(drop)
}

/// Has an interface of the calling thread's namespace receive frames for
/// whatever address, until this value goes.
pub(crate) struct Promiscuous {
    _member: Socket,
}

impl Promiscuous {
    pub(crate) fn new(interface: u32) -> io::Result<Self> {
        // Without a protocol the socket itself receives nothing.
        let member = Socket::new()?;
        member.promiscuous(interface as libc::c_int)?;
        Ok(Self { _member: member })
    }
}

impl AfPacketPort {
    /// Opens `spec.queues` queues of the interface `spec.device`, in
    /// `spec.netns` if given.
    pub(crate) fn open(spec: &PortSpec) -> Result<Vec<Self>, OpenError> {
        netns::within(spec.netns.as_deref(), || Self::open_here(spec))
    }

    /// Nothing arrives at any queue before all of them are there, or the first
    /// would meet frames that are another's.
    fn open_here(spec: &PortSpec) -> Result<Vec<Self>, OpenError> {
        let device = Device::parse(&spec.device)?;
        let mut group = None;
        let mut queues = Vec::new();
        for _ in 0..spec.queues.max(1) {
            queues.push(Self::open_queue(spec, &device, &mut group)?);
        }
        for queue in &queues {
            let socket = queue.receiver.socket();
            let failed = |e| failed(device.name, "receiver", &e);
            socket.unshut().map_err(failed)?;
        }
        Ok(queues)
    }

    fn open_queue(
        spec: &PortSpec,
        device: &Device<'_>,
        group: &mut Option<u16>,
    ) -> Result<Self, OpenError> {
        let failed = |e| failed(device.name, "packet socket", &e);
        let (sending, receiving) = (
            Socket::new().map_err(failed)?,
            Socket::new().map_err(failed)?,
        );
        let (index, mac, mtu) = interface(&sending, device.name)?;
        if device.stamps == Stamps::Nic {
            require_stamping_nic(&sending, device.name)?;
        }
        let max_len = (mtu + ethernet::HEADER_LEN).min(MAX_LEN);
        let sender = Sender::open(sending, spec, device, index, max_len)?;
        let receiver = Receiver::open(receiving, spec, device, index, max_len, group)?;
        let rings = match (&receiver, &sender) {
            (Receiver::Ring(rx), Sender::Ring(tx)) => (rx.slots() as u32, tx.slots() as u32),
            _ => (spec.rx_ring, spec.tx_ring),
        };
        Ok(Self {
            sender,
            receiver,
            interface: device.name.to_owned(),
            index,
            mac,
            max_len,
            rings,
            missed: 0,
            cuts: Cuts::default(),
        })
    }
}

/// Index, address and MTU of an interface.
fn interface(socket: &Socket, device: &str) -> Result<(libc::c_int, Mac, usize), OpenError> {
    let failed = |what: &'static str| move |error: io::Error| failed(device, what, &error);
    let name = socket::name(device).map_err(failed("interface"))?;
    let index = socket.interface_index(name).map_err(failed("interface"))?;
    let mac = socket.mac(name).map_err(failed("address"))?;
    let mtu = socket.mtu(name).map_err(failed("MTU"))?;
    Ok((index, mac, mtu))
}

/// # Errors
/// The NIC does not stamp every frame that it receives.
fn require_stamping_nic(socket: &Socket, device: &str) -> Result<(), OpenError> {
    let stamps = socket::name(device).and_then(|name| socket.is_stamped_by_nic(name));
    let why = match stamps {
        Ok(true) => return Ok(()),
        Ok(false) => "stamping is off".to_owned(),
        Err(error) => error.to_string(),
    };
    let message = format!("{device}: the NIC does not stamp what it receives: {why}");
    Err(OpenError::new(message).hint(format!(
        "hwstamp_ctl -i {device} -r 1, where ethtool -T {device} lists the receive filter 'all'; otherwise stamps=kernel"
    )))
}

fn failed(device: &str, what: &str, error: &io::Error) -> OpenError {
    OpenError::new(format!("{device} {what}: {error}")).hint(match error.raw_os_error() {
        Some(libc::EPERM) => "run as root",
        Some(libc::ENOMEM) => "use smaller rings, or add ',mmap=0' to the device",
        _ => "list the existing interfaces: ip link, or ip -n NETNS link",
    })
}

impl Port for AfPacketPort {
    #[inline]
    fn send<S: Source>(&mut self, count: usize, source: S) -> usize {
        let sent = match &mut self.sender {
            Sender::Ring(ring) => ring.send(count, source),
            Sender::Messages(messages) => messages.send(count, source),
        };
        match sent.cut {
            None => (),
            Some(Cut::RingFull) => self.cuts.ring_full += 1,
            Some(Cut::NoBuffers) => self.cuts.no_buffers += 1,
            Some(Cut::Error) => self.cuts.errors += 1,
        }
        sent.taken
    }

    #[inline]
    fn receive<S: Sink>(&mut self, sink: &mut S) -> usize {
        match &mut self.receiver {
            Receiver::Ring(ring) => ring.receive(sink),
            Receiver::Messages(messages) => messages.receive(sink),
        }
    }

    fn link_up(&mut self) -> bool {
        self.receiver.socket().state(self.index) == State::Running
    }

    fn failure(&mut self) -> Option<String> {
        if let Receiver::Ring(ring) = &mut self.receiver {
            let frames = ring.take_unstamped();
            if frames > 0 {
                let interface = &self.interface;
                return Some(format!(
                    "{frames} frames came without {interface}'s time stamp"
                ));
            }
        }
        match self.receiver.socket().state(self.index) {
            State::Gone => Some(format!("interface {} is gone", self.interface)),
            State::Down => Some(format!("interface {} is down", self.interface)),
            State::NoCarrier | State::Running => None,
        }
    }

    fn stamps(&self) -> Stamps {
        match &self.receiver {
            Receiver::Ring(ring) => ring.stamps(),
            Receiver::Messages(_) => Stamps::Engine,
        }
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

    fn speed_bps(&mut self) -> Option<u64> {
        link::speed_bps(self.receiver.socket(), self.index)
    }

    /// Frames of this queue that the kernel dropped because its ring or buffer
    /// was full.
    fn rx_missed(&mut self) -> Option<u64> {
        // The kernel starts again from zero at every reading.
        self.missed += u64::from(self.receiver.socket().take_drops()?);
        Some(self.missed)
    }

    /// Bursts cut short by a full ring, for want of memory or room in the
    /// device, and by errors; frames longer than the interface carries.
    fn stats(&mut self) -> Vec<(String, u64)> {
        let truncated = match &self.receiver {
            Receiver::Ring(ring) => ring.truncated(),
            Receiver::Messages(messages) => messages.truncated(),
        };
        [
            ("tx_ring_full", self.cuts.ring_full),
            ("tx_no_buffers", self.cuts.no_buffers),
            ("tx_errors", self.cuts.errors),
            ("rx_truncated", truncated),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .to_vec()
    }
}
