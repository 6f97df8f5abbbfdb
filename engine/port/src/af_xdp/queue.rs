//! One socket, its frames' memory and its rings: what one worker drives.

use super::Attachment;
use super::device::Copy;
use super::memory::Mapping;
use super::socket::{RingSizes, Rings, Socket};
use crate::af_packet::Promiscuous;
use crate::ahead::AHEAD;
use crate::bpf::AttachMode;
use crate::interface::Questions;
use crate::{BURST, Port, Sink, Source};
use pinchpoint_wire::ethernet::{self, Mac};
use std::io;
use std::sync::Arc;

/// Bytes the kernel keeps in front of a received frame
/// (linux/bpf.h, `XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;
/// Bytes of a VLAN tag that may stand in a frame beyond the MTU.
const TAG: usize = 4;
const SMALL_CHUNK: usize = 2048;
const LARGE_CHUNK: usize = 4096;
/// Bytes of send buffer that one frame takes up, rounded up.
const BUFFER_PER_FRAME: usize = 4096;
/// System calls that one burst may take. A call sends 32 frames in copy mode
/// on kernels that cannot be asked for more.
const KICKS: usize = BURST / 32 + 1;
/// Frames one system call may send, where the kernel can be asked.
const BUDGET: u32 = 512;

/// What a queue is to be.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) device: String,
    pub(super) interface: u32,
    pub(super) queue: u32,
    /// Whether it tells what the device counts as a whole.
    pub(super) first: bool,
    /// How the program is attached; none if nothing is received.
    pub(super) mode: Option<AttachMode>,
    pub(super) copy: Copy,
    pub(super) need_wakeup: bool,
    pub(super) mac: Option<Mac>,
    pub(super) mtu: usize,
    pub(super) rx_ring: u32,
    pub(super) tx_ring: u32,
}

/// One queue of an interface, through an AF_XDP socket.
pub struct AfXdpPort {
    // Rings and socket go before the memory they refer to.
    rings: Rings,
    socket: Socket,
    frames: Mapping,
    chunk: usize,
    /// Chunks that hold nothing to be sent; those used last come first, as
    /// they are in the cache.
    free: Vec<u64>,
    sizes: RingSizes,
    setup: Setup,
    mode: String,
    max_len: usize,
    refusals: Refusals,
    questions: Questions,
    /// The interface will not come back.
    gone: bool,
    /// The interface was down when frames should have been sent, since last
    /// asked.
    found_down: bool,
    _promiscuous: Option<Promiscuous>,
    /// Detaches the program with the last queue.
    _attachment: Option<Arc<Attachment>>,
}

/// Why the kernel did not send at once; the frames stay in the ring.
#[derive(Debug, Default)]
struct Refusals {
    busy: u64,
    other: u64,
}

fn ring_sizes(setup: &Setup) -> RingSizes {
    // Two to make a ring; more than any system call would send is no use.
    let size = |frames: u32| frames.clamp(2, 1 << 20).next_power_of_two();
    let receives = setup.mode.is_some();
    let rx = if receives { size(setup.rx_ring) } else { 0 };
    let tx = size(setup.tx_ring);
    RingSizes {
        rx,
        tx,
        // What waits in the receive ring and what waits to be filled; a
        // driver without copies keeps as many again.
        fill: (rx * 2).max(2),
        completion: tx,
    }
}

impl AfXdpPort {
    /// Opens one queue in the calling thread's namespace.
    pub(super) fn open(setup: &Setup, attachment: Option<Arc<Attachment>>) -> io::Result<Self> {
        let sizes = ring_sizes(setup);
        let wanted = setup.mtu + ethernet::HEADER_LEN + TAG;
        let chunk = if wanted <= SMALL_CHUNK - HEADROOM {
            SMALL_CHUNK
        } else {
            LARGE_CHUNK
        };
        let filled = if sizes.rx > 0 { sizes.fill } else { 0 };
        let chunks = (filled + sizes.tx) as usize;
        let frames = Mapping::of_frames(chunks * chunk)?;
        let socket = Socket::new()?;
        socket.register(&frames, (chunks * chunk) as u64, chunk as u32)?;
        let mut rings = socket.rings(sizes)?;
        // What the receiving side fills is ours to give before it starts.
        for index in 0..filled {
            rings.fill.write(index, u64::from(index) * chunk as u64);
        }
        rings.fill.publish(filled);
        let mut flags = match setup.copy {
            Copy::Auto => 0,
            Copy::Always => libc::XDP_COPY,
            Copy::Never => libc::XDP_ZEROCOPY,
        };
        if setup.need_wakeup {
            flags |= libc::XDP_USE_NEED_WAKEUP;
        }
        socket.bind(setup.interface, setup.queue, flags)?;
        socket.set_send_buffer(sizes.tx as usize * BUFFER_PER_FRAME)?;
        // Refused by older kernels, which then need more calls.
        let _ = socket.raise_budget(BUDGET.min(sizes.tx));
        let receives = setup.mode.is_some();
        let promiscuous = receives.then(|| Promiscuous::new(setup.interface));
        let first = u64::from(filled);
        let free = (first..first + u64::from(sizes.tx)).rev();
        Ok(Self {
            mode: mode(setup, socket.is_zero_copy()),
            max_len: (setup.mtu + ethernet::HEADER_LEN).min(chunk - HEADROOM),
            free: free.map(|number| number * chunk as u64).collect(),
            setup: setup.clone(),
            questions: Questions::new()?,
            _promiscuous: promiscuous.transpose()?,
            _attachment: attachment,
            refusals: Refusals::default(),
            gone: false,
            found_down: false,
            rings,
            socket,
            frames,
            chunk,
            sizes,
        })
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Takes back the chunks of frames that have been sent.
    #[inline]
    fn reclaim(&mut self) {
        let completed = self.rings.completion.available();
        for index in 0..completed {
            // As many chunks as the list has room for are on the way at most.
            self.free.push(self.rings.completion.read(index));
        }
        if completed > 0 {
            self.rings.completion.release(completed);
        }
    }

    /// Has the kernel send what waits in the ring, if it wants to be asked.
    #[inline]
    fn kick(&mut self) {
        let mut waiting = self.rings.tx.waiting();
        for _ in 0..KICKS {
            if waiting == 0 || (self.setup.need_wakeup && !self.rings.tx.needs_wakeup()) {
                return;
            }
            let result = self.socket.wake_transmit();
            let left = self.rings.tx.waiting();
            if let Err(error) = result {
                // The first three also mean that a call's budget is used up.
                let full = matches!(
                    error.raw_os_error(),
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS)
                );
                if !full {
                    self.refusals.other += 1;
                    self.found_down |= error.raw_os_error() == Some(libc::ENETDOWN);
                    return;
                }
                if left == waiting {
                    self.refusals.busy += 1;
                    return;
                }
            }
            waiting = left;
        }
    }

    /// Whether the interface is down or gone; asks by a call that tells it
    /// whether or not there is anything to send.
    fn is_down(&mut self) -> bool {
        // The kernel leaves ENETDOWN here when the interface goes.
        self.gone |= self.socket.take_error().is_some();
        let found_down = std::mem::take(&mut self.found_down);
        let error = self.socket.wake_receive().err();
        match error.and_then(|error| error.raw_os_error()) {
            Some(libc::ENETDOWN) => true,
            Some(libc::ENXIO) => {
                self.gone = true;
                true
            }
            // A kernel without this call: what sending was told.
            Some(libc::EOPNOTSUPP) => found_down,
            _ => false,
        }
    }
}

/// What the port is, in words that tell what could be had.
fn mode(setup: &Setup, zero_copy: bool) -> String {
    let attached = match setup.mode {
        Some(AttachMode::Native) => "native",
        Some(AttachMode::Generic) => "generic",
        None => "send-only",
    };
    let copy = if zero_copy { "zero-copy" } else { "copy" };
    let wakeup = if setup.need_wakeup {
        " need-wakeup"
    } else {
        ""
    };
    format!("af_xdp {attached} {copy}{wakeup}")
}

impl Port for AfXdpPort {
    fn send<S: Source>(&mut self, count: usize, mut source: S) -> usize {
        self.reclaim();
        let count = count.min(BURST).min(self.free.len());
        let count = count.min(self.rings.tx.free(count as u32) as usize);
        for index in 0..count {
            // There are at least `count`.
            let Some(addr) = self.free.pop() else {
                break;
            };
            let len = source.len(index).min(self.chunk);
            source.frame(index, self.frames.bytes(addr, len));
            let descriptor = libc::xdp_desc {
                addr,
                len: len as u32,
                options: 0,
            };
            self.rings.tx.write(index as u32, descriptor);
        }
        self.rings.tx.publish(count as u32);
        self.kick();
        count
    }

    fn receive<S: Sink>(&mut self, sink: &mut S) -> usize {
        // What an earlier call could not send.
        if self.rings.tx.waiting() > 0 {
            self.kick();
        }
        let Some(rx) = &mut self.rings.rx else {
            return 0;
        };
        let count = (rx.available() as usize).min(BURST) as u32;
        if count == 0 {
            if self.rings.fill.needs_wakeup() {
                // What is wrong with the interface, `failure` asks for.
                let _ = self.socket.wake_receive();
            }
            return 0;
        }
        for index in 0..count.min(AHEAD as u32) {
            self.frames.prefetch(rx.read(index));
        }
        sink.arrived(count as usize);
        let inside = self.chunk as u64 - 1;
        for index in 0..count {
            if index + (AHEAD as u32) < count {
                self.frames.prefetch(rx.read(index + AHEAD as u32));
            }
            let descriptor = rx.read(index);
            sink.frame(self.frames.bytes(descriptor.addr, descriptor.len as usize));
            self.rings.fill.write(index, descriptor.addr & !inside);
        }
        rx.release(count);
        self.rings.fill.publish(count);
        count as usize
    }

    fn link_up(&mut self) -> bool {
        let state = self.questions.ask(self.setup.interface);
        state.is_ok_and(|state| state.running)
    }

    fn failure(&mut self) -> Option<String> {
        let down = self.is_down();
        let device = &self.setup.device;
        if self.gone {
            return Some(format!("interface {device} is gone"));
        }
        down.then(|| format!("interface {device} is down"))
    }

    /// What the kernel has not taken out of the transmit ring; what it has and
    /// this side has not taken back yet is sent. A frame that the device
    /// dropped may count among the former until the kernel turns to the next:
    /// it has not been sent either.
    fn unsent(&mut self) -> u64 {
        self.rings.tx.waiting().into()
    }

    fn mac(&self) -> Option<Mac> {
        self.setup.mac
    }

    fn mode(&self) -> &str {
        &self.mode
    }

    fn max_len(&self) -> usize {
        self.max_len
    }

    fn rings(&self) -> (u32, u32) {
        (self.sizes.rx, self.sizes.tx)
    }

    /// Frames that found the receive ring full, and those that found no free
    /// chunk or were too long for one; the kernel counts a frame once. Each
    /// queue has counters of its own.
    fn rx_missed(&mut self) -> Option<u64> {
        self.setup.mode?;
        let statistics = self.socket.statistics().ok()?;
        Some(statistics.rx_dropped + statistics.rx_ring_full)
    }

    /// What the kernel counts for the socket; `interface_tx_dropped` belongs
    /// to the interface as a whole: frames that its driver took and did not
    /// send.
    fn stats(&mut self) -> Vec<(String, u64)> {
        let mut stats = vec![
            ("tx_busy".to_owned(), self.refusals.busy),
            ("tx_errors".to_owned(), self.refusals.other),
        ];
        if let Ok(kernel) = self.socket.statistics() {
            stats.extend([
                ("rx_dropped".to_owned(), kernel.rx_dropped),
                ("rx_ring_full".to_owned(), kernel.rx_ring_full),
                (
                    "rx_fill_ring_empty".to_owned(),
                    kernel.rx_fill_ring_empty_descs,
                ),
                ("rx_invalid_descs".to_owned(), kernel.rx_invalid_descs),
                ("tx_invalid_descs".to_owned(), kernel.tx_invalid_descs),
                ("tx_ring_empty".to_owned(), kernel.tx_ring_empty_descs),
            ]);
        }
        if self.setup.first
            && let Ok(state) = self.questions.ask(self.setup.interface)
            && let Some(dropped) = state.tx_dropped
        {
            stats.push(("interface_tx_dropped".to_owned(), dropped));
        }
        stats
    }
}
