//! A network interface through AF_XDP sockets
//! (Documentation/networking/af_xdp.rst).
//!
//! Each queue of the port is one socket, bound to one queue of the device,
//! with memory and rings of its own. What arrives at those queues is
//! redirected to the sockets by a program that [`crate::bpf`] assembles and
//! attaches with a link, so it goes when the port or the process does; other
//! queues' frames go on to the stack.
//!
//! Of the crates looked at, `xsk-rs` needs the C library libxdp, and `xdp`
//! (0.8), which needs no C, takes all of a burst or none, keeps every frame in
//! a queue of its own, does not read the rings' wakeup flags nor tell copy
//! from zero-copy, and counts in 32 bits without wrapping. The rings are four
//! counters and an array, so they are driven here.
//!
//! Frames fit one chunk; jumbo frames beyond 3,840 bytes do not pass.

mod device;
mod memory;
mod queue;
mod ring;
mod socket;

pub(crate) use queue::AfXdpPort;

use crate::bpf::asm::{Assembler, Helper, Reg, Width};
use crate::bpf::attach::{self, Place};
use crate::bpf::{AttachMode, Link, Program, ProgramKind, XskMap};
use crate::interface::{self, Interface, Questions};
use crate::{OpenError, PortSpec, netns};
use device::{Copy, Device};
use queue::Setup;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `XDP_PASS`: the frame goes on to the network stack (linux/bpf.h).
const PASS: i32 = 2;
/// Where `struct xdp_md` holds the queue that a frame arrived at.
const RX_QUEUE_INDEX: i16 = 16;

/// How long the kernel may take to close a socket.
const CLOSING: Duration = Duration::from_secs(1);

/// What keeps the program attached; shared by a port's queues.
pub(super) struct Attachment {
    map: XskMap,
    _link: Link,
}

/// Whether AF_XDP sockets can be had.
pub(crate) fn probe() -> io::Result<()> {
    XskMap::new(1)?;
    socket::Socket::new().map(drop)
}

/// Opens one port for each queue of `spec`.
///
/// # Errors
/// [`OpenError`], with what mends it; nothing stays attached.
pub(crate) fn open(spec: &PortSpec) -> Result<Vec<AfXdpPort>, OpenError> {
    let device = Device::parse(&spec.device)?;
    netns::within(spec.netns.as_deref(), || open_here(spec, &device))
}

fn open_here(spec: &PortSpec, device: &Device<'_>) -> Result<Vec<AfXdpPort>, OpenError> {
    let mut place = Place {
        device: device.name,
        netns: spec.netns.as_deref(),
        index: 0,
    };
    place.index =
        interface::index_of(device.name).map_err(|error| place.failed("interface", &error))?;
    let state = Questions::new()
        .and_then(|mut questions| questions.ask(place.index))
        .map_err(|error| place.failed("interface", &error))?;
    let queues = u32::from(spec.queues.max(1));
    let attached = if device.receives {
        Some(redirect_to_sockets(place, device, queues)?)
    } else {
        None
    };
    let mode = attached.as_ref().map(|(_, mode)| *mode);
    let attachment = attached.map(|(attachment, _)| Arc::new(attachment));
    let open_queue = |number: u32| {
        let queue = device.queue + number;
        let setup = setup(spec, device, place, &state, mode, queue);
        let port = open_patiently(&setup, attachment.as_ref())
            .map_err(|error| queue_error(place, device, queue, &error))?;
        if let Some(attachment) = &attachment {
            let set = attachment.map.set(queue, port.socket());
            set.map_err(|error| place.failed("socket map", &error))?;
        }
        Ok(port)
    };
    (0..queues).map(open_queue).collect()
}

/// Opens a queue; waits a little if it is taken, as the kernel gives a closed
/// socket's queue free only after the fact.
fn open_patiently(setup: &Setup, attachment: Option<&Arc<Attachment>>) -> io::Result<AfXdpPort> {
    let until = Instant::now() + CLOSING;
    loop {
        match AfXdpPort::open(setup, attachment.cloned()) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                std::thread::sleep(CLOSING / 100);
            }
            result => return result,
        }
    }
}

fn setup(
    spec: &PortSpec,
    device: &Device<'_>,
    place: Place<'_>,
    state: &Interface,
    mode: Option<AttachMode>,
    queue: u32,
) -> Setup {
    Setup {
        device: device.name.to_owned(),
        interface: place.index,
        queue,
        first: queue == device.queue,
        mode,
        copy: device.copy,
        need_wakeup: device.need_wakeup,
        mac: state.mac,
        mtu: state.mtu,
        rx_ring: spec.rx_ring,
        tx_ring: spec.tx_ring,
    }
}

fn queue_error(place: Place<'_>, device: &Device<'_>, queue: u32, error: &io::Error) -> OpenError {
    let failed = place.failed(&format!("queue {queue}"), error);
    match error.raw_os_error() {
        Some(libc::EBUSY) => failed.hint("another AF_XDP socket is bound to this queue"),
        Some(libc::EINVAL) => failed.hint(format!("ethtool -l {} shows its queues", device.name)),
        Some(libc::EOPNOTSUPP) if device.copy == Copy::Never => {
            failed.hint("its driver has no zero-copy here: use copy=auto")
        }
        _ => failed,
    }
}

/// Attaches the program that redirects the queues from `device.queue` on.
fn redirect_to_sockets(
    place: Place<'_>,
    device: &Device<'_>,
    queues: u32,
) -> Result<(Attachment, AttachMode), OpenError> {
    let failed = |error: io::Error| place.failed("XDP program", &error);
    let map = XskMap::new(device.queue + queues).map_err(failed)?;
    let mut asm = Assembler::new();
    asm.load(Width::W4, Reg::R2, Reg::R1, RX_QUEUE_INDEX)
        .map(Reg::R1, map.fd())
        // What to do where the map has no socket.
        .mov(Reg::R3, PASS)
        .call(Helper::RedirectMap)
        .exit();
    let program = Program::load(ProgramKind::Xdp, "pinchpoint_rx", &asm.finish());
    let (link, mode) = attach::attach(&program.map_err(failed)?, place, device.mode)?;
    Ok((Attachment { map, _link: link }, mode))
}

#[cfg(test)]
#[path = "af_xdp_tests.rs"]
mod tests;
