use crate::af_packet::AfPacketPort;
use crate::af_xdp::AfXdpPort;
use crate::fault::Faulty;
use crate::mem::MemPort;
use crate::xdp_live::XdpLivePort;
use crate::{Port, Sink, Source, Stamps};
use pinchpoint_wire::ethernet::Mac;

/// A port of any backend. Each call dispatches on the backend once, so the
/// code that builds and reads frames is compiled for each of them.
pub enum AnyPort {
    /// One end of a pair in memory.
    Mem(MemPort),
    /// The same with faults.
    FaultyMem(Box<Faulty<MemPort>>),
    /// A network interface through packet sockets.
    AfPacket(Box<AfPacketPort>),
    /// A network interface through AF_XDP sockets.
    AfXdp(Box<AfXdpPort>),
    /// A network interface that the kernel makes frames for.
    XdpLive(Box<XdpLivePort>),
    /// A DPDK ethdev.
    #[cfg(feature = "dpdk")]
    Dpdk(Box<crate::dpdk::DpdkPort>),
}

macro_rules! each {
    ($any:expr, $port:ident => $body:expr) => {
        match $any {
            AnyPort::Mem($port) => $body,
            AnyPort::FaultyMem($port) => $body,
            AnyPort::AfPacket($port) => $body,
            AnyPort::AfXdp($port) => $body,
            AnyPort::XdpLive($port) => $body,
            #[cfg(feature = "dpdk")]
            AnyPort::Dpdk($port) => $body,
        }
    };
}

impl AnyPort {
    /// The port as one that makes its frames itself, if it does.
    #[inline]
    pub fn live(&mut self) -> Option<&mut XdpLivePort> {
        match self {
            Self::XdpLive(port) => Some(port),
            _ => None,
        }
    }
}

impl Port for AnyPort {
    #[inline]
    fn send<S: Source>(&mut self, count: usize, source: S) -> usize {
        each!(self, port => port.send(count, source))
    }

    #[inline]
    fn receive<S: Sink>(&mut self, sink: &mut S) -> usize {
        each!(self, port => port.receive(sink))
    }

    fn link_up(&mut self) -> bool {
        each!(self, port => port.link_up())
    }

    fn failure(&mut self) -> Option<String> {
        each!(self, port => port.failure())
    }

    fn unsent(&mut self) -> u64 {
        each!(self, port => port.unsent())
    }

    fn stamps(&self) -> Stamps {
        each!(self, port => port.stamps())
    }

    fn speed_bps(&mut self) -> Option<u64> {
        each!(self, port => port.speed_bps())
    }

    fn mac(&self) -> Option<Mac> {
        each!(self, port => port.mac())
    }

    fn mode(&self) -> &str {
        each!(self, port => port.mode())
    }

    fn max_len(&self) -> usize {
        each!(self, port => port.max_len())
    }

    fn rings(&self) -> (u32, u32) {
        each!(self, port => port.rings())
    }

    fn rx_missed(&mut self) -> Option<u64> {
        each!(self, port => port.rx_missed())
    }

    fn stats(&mut self) -> Vec<(String, u64)> {
        each!(self, port => port.stats())
    }
}

/// What a thread needs while it uses ports, whatever their backends; made in
/// that thread and dropped there.
pub struct ThreadGuard {
    #[cfg(feature = "dpdk")]
    _registration: crate::dpdk::Registration,
    /// Keeps the guard in its thread.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl ThreadGuard {
    /// Prepares the calling thread.
    #[must_use]
    #[allow(clippy::new_without_default)] // a default would hide its effect
    pub fn new() -> Self {
        Self {
            #[cfg(feature = "dpdk")]
            _registration: crate::dpdk::Registration::new(),
            _not_send: std::marker::PhantomData,
        }
    }
}
