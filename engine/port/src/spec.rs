//! What is asked of ports that shall be opened.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Which implementation drives a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Two ends in this process.
    Mem,
    /// A network interface through packet sockets.
    AfPacket,
    /// A network interface through AF_XDP sockets.
    AfXdp,
    /// A network interface that the kernel's XDP live frames are sent from.
    XdpLive,
    /// A DPDK ethdev.
    Dpdk,
}

/// Whose clock says when a frame arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stamps {
    /// The receiving worker's, when it takes the frame out of the port's ring.
    #[default]
    Engine,
    /// The kernel's, when it takes the frame from the device: nanoseconds since 1970.
    Kernel,
    /// The NIC's, when the frame comes in from the wire: what its clock shows, which is
    /// comparable only where something (phc2sys) keeps it at the system's time of day.
    Nic,
}

/// One port to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec {
    /// The name the user gave it.
    pub name: String,
    /// Who drives it.
    pub backend: Backend,
    /// What it is: a pair's name with optional faults for `mem`, an interface
    /// with options for `af_packet`, `af_xdp` and `xdp_live`, devargs for
    /// `dpdk`. Options follow a comma, as in `eth0,queue=2`.
    pub device: String,
    /// The named network namespace of the interface; none for `mem` and `dpdk`.
    pub netns: Option<String>,
    /// Frames in the receive ring.
    pub rx_ring: u32,
    /// Frames in the transmit ring.
    pub tx_ring: u32,
    /// Queues, each with rings of these sizes: one for each worker that
    /// drives the port.
    pub queues: u16,
}

/// What the ports of a session share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionSpec {
    /// Arguments for DPDK's environment layer.
    pub eal_args: Vec<String>,
    /// Cores the workers will run on; nothing else should.
    pub worker_cores: Vec<usize>,
    /// By worker, the names of the ports of which it drives a queue: the first one that
    /// no worker before it drives.
    pub worker_ports: Vec<Vec<String>>,
    /// Bytes of the longest frame that ports need carry, without check sequence; none: as long as
    /// memory allows.
    pub longest_frame: Option<usize>,
}

/// How long to wait for the other end of a link.
#[derive(Debug, Clone, Copy)]
pub struct Deadline<'a> {
    /// Until when.
    pub until: Instant,
    /// Set when nobody wants the answer any more.
    pub cancelled: &'a AtomicBool,
}

impl Deadline<'_> {
    /// Whether the wait is over.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.until || self.cancelled.load(Ordering::Relaxed)
    }
}
