//! A network interface that the kernel makes frames for: XDP live frames
//! (Linux 5.18, `BPF_PROG_RUN` with `BPF_F_TEST_XDP_LIVE_FRAMES`).
//!
//! One system call runs a program a number of times on frames of the kernel's
//! own; the program makes each the next frame of a stream and redirects it to
//! the interface, whose driver sends it. No frame crosses into the kernel, so
//! this is the fastest way to send over a veth, and the way a physical device
//! with `ndo_xdp_xmit` sends without being taken from the kernel.
//!
//! The frames are not written by [`Port::send`] but described by a
//! [`LiveStream`]: [`XdpLivePort::load`] makes a program of it and
//! [`XdpLivePort::send_live`] runs it.
//!
//! Frames leave through a device map, not with `XDP_TX`: a map holds the
//! device itself, so it works from any network namespace, and needs no program
//! on the interface. The driver reports how many frames it took at a tracepoint,
//! where a second program counts them.

mod program;
mod stream;

pub use stream::{LiveChecksum, LiveEdit, LiveStream, MAX_CHECKSUMS, MAX_EDITS, MAX_LEN};

use crate::af_xdp::{self, AfXdpPort};
use crate::bpf::attach::Place;
use crate::bpf::{DeviceMap, Link, Program, ProgramKind, Resident, SharedArray, TestRun};
use crate::interface::{self, Questions};
use crate::options::Options;
use crate::{Backend, OpenError, Port, PortSpec, Sink, Source, netns};
use nix::time::{ClockId, clock_gettime};
use pinchpoint_wire::ethernet::{self, Mac};
use std::fmt::Display;
use std::io;

const EXPECTED: &str = "NAME,batch=16|32|..|256,rx=0|1";
/// Most streams of one port. This many programs fit the kernel's dispatcher
/// beside a few of others; one that does not fit is run at the cost of tens of
/// milliseconds a call.
pub const MAX_STREAMS: usize = 32;
/// Frames the kernel makes before it has them sent; a veth's ring holds 256.
const BATCH: u32 = 64;
/// The kernel's limit (`TEST_XDP_MAX_BATCH`).
const MAX_BATCH: u32 = 256;
/// A batch is a whole number of clock readings: within it the thread stays
/// on its processor, which is read with the clock.
const BULK: u32 = program::FRAMES_PER_READING as u32;
/// Calls in a row that sent nothing before the port counts as failed.
const FUTILE_CALLS: u32 = 64;
/// A pair of clock readings further apart is taken again, a few times.
const CLOSE_NS: u64 = 1_000;
const READINGS: u32 = 4;

/// What became of one call's frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames made, each with the next sequence number.
    pub frames: u64,
    /// Those of them that the interface did not take.
    pub refused: u64,
}

/// An interface that live frames are sent from.
pub struct XdpLivePort {
    device: DeviceMap,
    name: String,
    interface: u32,
    batch: u32,
    tx_ring: u32,
    mac: Option<Mac>,
    max_len: usize,
    streams: Vec<Loaded>,
    receiver: Option<AfXdpPort>,
    mode: String,
    questions: Questions,
    totals: Totals,
    futile: u32,
    last_error: Option<io::Error>,
    gone: bool,
}

/// Frames since the port was opened.
#[derive(Debug, Default)]
struct Totals {
    accepted: u64,
    refused: u64,
    errors: u64,
}

/// A stream's programs and what they share with this process.
struct Loaded {
    id: u16,
    template: Vec<u8>,
    state: SharedArray,
    frame: Program,
    _account: Link,
    _resident: Resident,
}

/// Whether programs can be had.
pub(crate) fn probe() -> io::Result<()> {
    SharedArray::new(1).map(drop)
}

impl XdpLivePort {
    /// Opens the interface `spec.device`, in `spec.netns` if given.
    pub(crate) fn open(spec: &PortSpec) -> Result<Self, OpenError> {
        let mut options = Options::parse("xdp_live", &spec.device, EXPECTED)?;
        let batch = options.take("batch", BATCH, |value| {
            let batch = value.parse().ok();
            batch.filter(|batch| (1..=MAX_BATCH / BULK).any(|bulks| bulks * BULK == *batch))
        })?;
        let receives = options.switch("rx", false)?;
        let name = options.name;
        options.finish()?;
        let receiver = if receives {
            let device = name.to_owned();
            let spec = PortSpec {
                backend: Backend::AfXdp,
                device,
                queues: 1,
                ..spec.clone()
            };
            af_xdp::open(&spec)?.pop()
        } else {
            None
        };
        netns::within(spec.netns.as_deref(), || {
            Self::open_here(spec, name, batch, receiver)
        })
    }

    fn open_here(
        spec: &PortSpec,
        name: &str,
        batch: u32,
        receiver: Option<AfXdpPort>,
    ) -> Result<Self, OpenError> {
        let mut place = Place {
            device: name,
            netns: spec.netns.as_deref(),
            index: 0,
        };
        place.index =
            interface::index_of(name).map_err(|error| place.failed("interface", &error))?;
        let mut questions = Questions::new().map_err(|error| place.failed("interface", &error))?;
        let state = questions
            .ask(place.index)
            .map_err(|error| place.failed("interface", &error))?;
        let device =
            DeviceMap::new(place.index).map_err(|error| place.failed("device map", &error))?;
        let receiving = receiver.as_ref().map(Port::mode);
        let mode = match receiving {
            Some(mode) => format!("xdp_live and {mode}"),
            None => "xdp_live".to_owned(),
        };
        Ok(Self {
            device,
            name: name.to_owned(),
            interface: place.index,
            batch,
            tx_ring: spec.tx_ring,
            mac: state.mac,
            max_len: (state.mtu + ethernet::HEADER_LEN).min(MAX_LEN),
            streams: Vec::new(),
            receiver,
            mode,
            questions,
            totals: Totals::default(),
            futile: 0,
            last_error: None,
            gone: false,
        })
    }

    /// Makes programs of `streams`, at most [`MAX_STREAMS`], in place of those
    /// loaded before; each starts with frame 0. May be called from any thread
    /// and namespace; takes tens of milliseconds a stream.
    ///
    /// # Errors
    /// The first stream that is [not valid](LiveStream::validate), or what the
    /// kernel says of its program.
    pub fn load(&mut self, streams: &[LiveStream]) -> Result<(), OpenError> {
        self.streams.clear();
        self.futile = 0;
        self.last_error = None;
        if streams.len() > MAX_STREAMS {
            let message = format!("{}: {} live streams", self.name, streams.len());
            let hint = format!("at most {MAX_STREAMS} streams to an xdp_live port");
            return Err(OpenError::new(message).hint(hint));
        }
        for stream in streams {
            let refused = |error: &dyn Display| {
                OpenError::new(format!("{}: live stream {}: {error}", self.name, stream.id))
            };
            stream.validate().map_err(|error| refused(&error))?;
            let loaded = Loaded::new(stream, &self.device).map_err(|error| refused(&error))?;
            self.streams.push(loaded);
        }
        Ok(())
    }

    /// Sends `count` frames of the stream number `stream` of those loaded,
    /// where they left off. `now_ns` reads the clock whose time the
    /// signatures carry; it is compared with the kernel's once a call, and
    /// 16 frames share a time. Each call costs some microseconds beyond its
    /// frames, so a hundred frames and more should be due.
    ///
    /// The count is exact: it is the program's own. Fewer frames than asked
    /// for are made if a signal comes or the kernel is out of memory.
    pub fn send_live(
        &mut self,
        stream: usize,
        count: u64,
        mut now_ns: impl FnMut() -> u64,
    ) -> Sent {
        let Some(loaded) = self.streams.get(stream) else {
            return Sent::default();
        };
        if count == 0 {
            return Sent::default();
        }
        let state = &loaded.state;
        let first = state.get(program::SEQUENCE);
        let accepted = state.get(program::ACCEPTED);
        state.set(program::CLOCK_OFFSET, clock_offset(&mut now_ns));
        state.set(program::TIME_LEFT, 0);
        let result = loaded.frame.run_live(&TestRun {
            frame: &loaded.template,
            repeat: count.min(i32::MAX as u64) as u32,
            batch: self.batch,
        });
        // Frames whose redirection failed never came to the driver.
        state.set(program::PENDING, 0);
        let frames = state.get(program::SEQUENCE) - first;
        let accepted = state.get(program::ACCEPTED) - accepted;
        let sent = Sent {
            frames,
            refused: frames.saturating_sub(accepted),
        };
        self.note(sent, result);
        sent
    }

    fn note(&mut self, sent: Sent, result: io::Result<()>) {
        self.totals.accepted += sent.frames - sent.refused;
        self.totals.refused += sent.refused;
        if sent.frames > sent.refused {
            self.futile = 0;
        } else {
            self.futile = self.futile.saturating_add(1);
        }
        let Err(error) = result else {
            return;
        };
        if error.kind() != io::ErrorKind::Interrupted {
            self.totals.errors += 1;
            self.last_error = Some(error);
        }
    }

    /// Number of the next frame of the stream number `stream` of those loaded.
    pub fn next_live(&self, stream: usize) -> Option<u64> {
        let loaded = self.streams.get(stream)?;
        Some(loaded.state.get(program::SEQUENCE))
    }

    /// Number, among those loaded, of the stream with this id.
    pub fn live_stream(&self, id: u16) -> Option<usize> {
        self.streams.iter().position(|loaded| loaded.id == id)
    }
}

impl Loaded {
    fn new(stream: &LiveStream, device: &DeviceMap) -> io::Result<Self> {
        let state = SharedArray::new(program::words(stream))?;
        for (index, (number, value)) in program::first_digits(stream).into_iter().enumerate() {
            state.set(program::DIGITS + 2 * index, number);
            state.set(program::DIGITS + 2 * index + 1, u64::from(value));
        }
        let code = program::frame(stream, &state, device);
        let frame = Program::load(ProgramKind::Xdp, "pinchpoint_live", &code)?;
        let code = program::account(&state);
        let account = Program::load(ProgramKind::RawTracepoint, "pinchpoint_sent", &code)?;
        Ok(Self {
            id: stream.id,
            template: stream.template.clone(),
            state,
            _resident: Resident::new(&frame)?,
            frame,
            _account: account.attach_tracepoint(program::DEVICE_TRACEPOINT)?,
        })
    }
}

/// What must be added, wrapping, to `CLOCK_MONOTONIC`, which programs read,
/// for the clock that `now_ns` reads.
fn clock_offset(now_ns: &mut impl FnMut() -> u64) -> u64 {
    let mut best = (u64::MAX, 0);
    for _ in 0..READINGS {
        let before = now_ns();
        let kernel = clock_gettime(ClockId::CLOCK_MONOTONIC);
        let after = now_ns();
        // The clock exists wherever Linux runs.
        let kernel = kernel.map_or(0, |time| {
            time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
        });
        let apart = after.saturating_sub(before);
        let middle = before.wrapping_add(apart / 2);
        if apart < best.0 {
            best = (apart, middle.wrapping_sub(kernel));
        }
        if apart < CLOSE_NS {
            break;
        }
    }
    best.1
}

impl Port for XdpLivePort {
    /// Takes nothing: live frames are not written but [loaded](Self::load).
    fn send<S: Source>(&mut self, _count: usize, _source: S) -> usize {
        0
    }

    fn receive<S: Sink>(&mut self, sink: &mut S) -> usize {
        match &mut self.receiver {
            Some(receiver) => receiver.receive(sink),
            None => 0,
        }
    }

    fn link_up(&mut self) -> bool {
        let state = self.questions.ask(self.interface);
        state.is_ok_and(|state| state.running)
    }

    fn failure(&mut self) -> Option<String> {
        if let Some(failure) = self.receiver.as_mut().and_then(Port::failure) {
            return Some(failure);
        }
        let name = &self.name;
        if self.gone {
            return Some(format!("interface {name} is gone"));
        }
        if self.futile < FUTILE_CALLS {
            return None;
        }
        // Rare enough by now to ask the kernel.
        Some(match self.questions.ask(self.interface) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                self.gone = true;
                format!("interface {name} is gone")
            }
            Ok(state) if !state.up => format!("interface {name} is down"),
            _ => match &self.last_error {
                Some(error) => format!("{name}: the kernel sends no live frames: {error}"),
                None => format!(
                    "{name} accepts no XDP frames: give the other end of the veth an XDP program or \
                     GRO (ethtool -K PEER gro on)"
                ),
            },
        })
    }

    fn mac(&self) -> Option<Mac> {
        self.mac
    }

    fn mode(&self) -> &str {
        &self.mode
    }

    fn max_len(&self) -> usize {
        self.max_len
    }

    /// There is no transmit ring; its size is what was asked for, as a measure
    /// of how many frames may be sent late.
    fn rings(&self) -> (u32, u32) {
        let receiver = self.receiver.as_ref();
        (receiver.map_or(0, |port| port.rings().0), self.tx_ring)
    }

    fn rx_missed(&mut self) -> Option<u64> {
        self.receiver.as_mut()?.rx_missed()
    }

    fn stats(&mut self) -> Vec<(String, u64)> {
        let mut stats = vec![
            ("live_accepted".to_owned(), self.totals.accepted),
            ("live_refused".to_owned(), self.totals.refused),
            ("live_errors".to_owned(), self.totals.errors),
        ];
        if let Some(receiver) = &mut self.receiver {
            stats.extend(receiver.stats());
        } else if let Ok(state) = self.questions.ask(self.interface)
            && let Some(dropped) = state.tx_dropped
        {
            stats.push(("interface_tx_dropped".to_owned(), dropped));
        }
        stats
    }
}

#[cfg(test)]
mod tests;
