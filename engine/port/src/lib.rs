//! Ports: where frames leave and arrive, a burst at a time.
//!
//! | backend | what it is |
//! |---|---|
//! | [`mem`] | two ends in this process; tests and the ceiling of the engine itself |
//! | `af_packet` | a network interface through the kernel's packet sockets |
//! | `af_xdp` | a network interface through AF_XDP sockets |
//! | [`xdp_live`] | a network interface that the kernel makes frames for; sending |
//! | `dpdk` | any DPDK ethdev (Cargo feature `dpdk`) |
//!
//! [`open()`] makes ports from their specifications; [`AnyPort`] is one of any
//! backend, told apart once per burst. This is the one crate with `unsafe`
//! code: its modules say where and why.

mod af_packet;
mod af_xdp;
mod ahead;
mod any;
mod availability;
mod bpf;
#[cfg(feature = "dpdk")]
mod dpdk;
mod error;
pub mod fault;
pub mod impair;
mod interface;
pub mod mem;
pub mod netns;
mod open;
mod options;
pub mod sched;
mod spec;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod width;
mod xdp_balance;
pub mod xdp_live;
pub mod xdp_sink;

pub use any::{AnyPort, ThreadGuard};
pub use availability::{Availability, availability};
pub use error::{OpenError, OpenErrorKind};
pub use open::open;
pub use spec::{Backend, Deadline, PortSpec, SessionSpec, Stamps};
pub use xdp_balance::{Virtual, XdpBalancer};

use pinchpoint_wire::ethernet::Mac;

/// Frames in one burst at most.
pub const BURST: usize = 64;

/// What writes the frames of a burst.
pub trait Source {
    /// Bytes of the frame number `index` of the burst.
    fn len(&self, index: usize) -> usize;

    /// Writes the frame number `index` of the burst into `frame`, a buffer of
    /// [`len`](Self::len) bytes and unspecified content. Called once for each
    /// frame that the port may take, in order, the first frames of the burst.
    fn frame(&mut self, index: usize, frame: &mut [u8]);
}

/// A [`Source`] of frames of one length, written by a closure.
pub struct Uniform<F>(pub usize, pub F);

impl<F: FnMut(usize, &mut [u8])> Source for Uniform<F> {
    #[inline(always)]
    fn len(&self, _index: usize) -> usize {
        self.0
    }

    #[inline(always)]
    fn frame(&mut self, index: usize, frame: &mut [u8]) {
        (self.1)(index, frame);
    }
}

/// What receives the frames of a burst.
pub trait Sink {
    /// Called once for a burst that is not empty, after the frames have left
    /// the port's ring and before the first of them is shown.
    fn arrived(&mut self, count: usize);
    /// The frame shown next arrived at this time, nanoseconds since 1970. Called
    /// by ports whose [`stamps`](Port::stamps) are not the engine's.
    fn stamped(&mut self, _at_ns: u64) {}
    /// Called for each frame of the burst, in order.
    fn frame(&mut self, frame: &[u8]);
}

/// One end of a link, or one queue of it: what one worker owns.
pub trait Port {
    /// Offers `count` frames (at most [`BURST`]) of at most
    /// [`max_len`](Port::max_len) bytes each, written by `source`. Returns how
    /// many the port took: always the first ones. Those it did not take were
    /// never sent.
    fn send<S: Source>(&mut self, count: usize, source: S) -> usize;

    /// Shows the frames that have arrived, at most one burst, to `sink`;
    /// returns how many left the port's ring.
    fn receive<S: Sink>(&mut self, sink: &mut S) -> usize;

    /// Whether the other end can receive.
    fn link_up(&mut self) -> bool;

    /// Why the port cannot go on (its interface is gone, its peer hung up),
    /// as one phrase; none while it can. Asked about once a millisecond during
    /// a trial, so it must not wait.
    fn failure(&mut self) -> Option<String>;

    /// Frames that were taken and have not left the port's ring, as when its
    /// interface went down: the last ones taken. Asked for once sending is
    /// over and what can still leave has left (after a drain, in which
    /// [`receive`](Self::receive) goes on with what waits), so that they are
    /// not told as sent. They stay in the ring, and leave it should the
    /// interface come back; an owner that sends again counts of them no more
    /// than it has offered since.
    ///
    /// Zero for a port that knows of every frame when `send` returns: packet
    /// sockets take back what the kernel did not send in the call, live frames
    /// have no ring. A DPDK driver does not tell; a pair in memory is the link
    /// itself.
    fn unsent(&mut self) -> u64 {
        0
    }

    /// Whose clock says when its frames arrived.
    fn stamps(&self) -> Stamps {
        Stamps::Engine
    }

    /// The port's own address, if it has one.
    fn mac(&self) -> Option<Mac>;

    /// Which implementation drives the port, as one word.
    fn mode(&self) -> &str;

    /// Bytes of the longest frame the port carries, without check sequence.
    fn max_len(&self) -> usize;

    /// Frames in the receive and the transmit ring; a port that cannot receive
    /// has a receive ring of zero.
    fn rings(&self) -> (u32, u32);

    /// Bits per second of the link, if it has a speed.
    fn speed_bps(&mut self) -> Option<u64> {
        None
    }

    /// Frames that arrived and found the receive ring full, since the port
    /// was opened; none if the port cannot tell or cannot receive. What a device
    /// with several queues counts as a whole, its first queue reports, the
    /// others zero.
    fn rx_missed(&mut self) -> Option<u64>;

    /// Whatever else the port counts, since it was opened; by the first queue
    /// alone if the device counts as a whole.
    fn stats(&mut self) -> Vec<(String, u64)>;
}
