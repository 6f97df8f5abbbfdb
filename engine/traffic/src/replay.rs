//! The frames of a capture, one after another and again from the first.
//!
//! A frame carries a signature where its payload allows it: in the last 18 bytes
//! of what is behind UDP, TCP or ESP and in echoes of ICMP, if it has as many and
//! nothing is behind it. These frames are numbered among themselves. All others
//! are sent as they were captured. The receiver recognises them by a hash of what
//! devices leave alone ([`invariant`]): it counts how many arrived, not which,
//! when, or how often.
//!
//! Checksums are made right; Ethernet padding and trailers are cut off.

use crate::dissect::dissect;
use crate::layout::{Kind, Layout, Wrong};
use crate::limits::MIN_LEN;
use crate::writer::FrameWriter;
use pinchpoint_wire::signature::{self, Stamper};
use pinchpoint_wire::{ethernet, icmp, ipv4, ipv6, tcp, udp};
use std::sync::Arc;

/// The frames of one sender of a capture.
#[derive(Debug)]
pub struct Replay {
    /// All frames, one behind the other.
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// How many carry a signature.
    signed: u64,
    /// Hashes of the others, in order.
    unsigned: Arc<[u64]>,
}

/// Where a frame stands.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: usize,
    len: usize,
    /// How many before it carry a signature; none if it does not.
    number: Option<u64>,
}

impl Replay {
    /// These frames, without check sequence; without a signature in any unless
    /// `stamped`. None if there are no frames.
    pub fn new<'a>(frames: impl IntoIterator<Item = &'a [u8]>, stamped: bool) -> Option<Self> {
        let (mut bytes, mut places, mut signed) = (Vec::new(), Vec::new(), 0);
        let mut hashes = Vec::new();
        for frame in frames {
            let (made, is_signed) = made(frame, stamped);
            places.push(Place {
                at: bytes.len(),
                len: made.len(),
                number: is_signed.then_some(signed),
            });
            if is_signed {
                signed += 1;
            } else {
                hashes.push(invariant(&made));
            }
            bytes.extend_from_slice(&made);
        }
        hashes.sort_unstable();
        hashes.dedup();
        (!places.is_empty()).then(|| Self {
            bytes,
            places,
            signed,
            unsigned: hashes.into(),
        })
    }

    /// How many frames there are, and how many of them carry a signature.
    pub fn counts(&self) -> (u64, u64) {
        (self.places.len() as u64, self.signed)
    }

    /// The [`invariant`] hashes of the frames without signature, in order.
    pub fn unsigned(&self) -> Arc<[u64]> {
        Arc::clone(&self.unsigned)
    }

    /// Bytes of the shortest and of the longest frame, and on average.
    pub(crate) fn lens(&self) -> (usize, usize, f64) {
        let lens = || self.places.iter().map(|place| place.len);
        let mean = self.bytes.len() as f64 / self.places.len() as f64;
        (
            lens().min().unwrap_or(MIN_LEN),
            lens().max().unwrap_or(MIN_LEN),
            mean,
        )
    }
}

/// A frame as it is sent, and whether it ends in a signature, which is zero.
fn made(frame: &[u8], stamped: bool) -> (Vec<u8>, bool) {
    let captured = &frame[..end(frame)];
    let layout = dissect(captured);
    let signed = stamped && has_room(&layout, captured);
    let mut finished = captured.to_vec();
    if let (true, Some(tail)) = (signed, finished.last_chunk_mut::<{ signature::LEN }>()) {
        tail.fill(0);
    }
    layout.finish(&mut finished, Wrong::default());
    // Lengths that do not reach to the end are of something that is left alone: what a checksum
    // covers is not known then, so that there is no signature either.
    let keeps = |at: usize| finished[at..at + 2] == captured[at..at + 2];
    let is_whole = layout.lengths.iter().all(|length| keeps(length.at));
    let mut bytes = if is_whole {
        finished
    } else {
        captured.to_vec()
    };
    bytes.resize(bytes.len().max(MIN_LEN), 0);
    (bytes, signed && is_whole)
}

/// Where the IP packet in a frame ends; of other frames all is kept.
fn end(frame: &[u8]) -> usize {
    let Ok(view) = ethernet::Frame::new_checked(frame) else {
        return frame.len();
    };
    let packet = view.payload();
    let len = match view.ethertype() {
        ethernet::ETHERTYPE_IPV4 => ipv4::Packet::new_checked(packet)
            .ok()
            .map(|packet| packet.header_len() + packet.payload().len()),
        ethernet::ETHERTYPE_IPV6 => ipv6::Packet::new_checked(packet)
            .ok()
            .map(|packet| packet.header_len() + packet.payload().len()),
        _ => None,
    };
    len.map_or(frame.len(), |len| view.header_len() + len)
}

/// Whether a signature may stand at the end: there is nothing but payload.
fn has_room(layout: &Layout, bytes: &[u8]) -> bool {
    let Some(last) = layout.headers.last() else {
        return false;
    };
    let payload = bytes.len() - layout.headers_len;
    let may_be_other = match last.kind {
        Kind::Udp | Kind::Tcp | Kind::Esp => true,
        Kind::Icmp => matches!(bytes[last.at], 0 | 8),
        Kind::Icmpv6 => matches!(bytes[last.at], 128 | 129),
        _ => false,
    };
    may_be_other && payload >= signature::LEN && bytes.len() >= MIN_LEN
}

/// FNV-1a (Fowler, Noll, Vo), of 64 bits.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// A hash of those bytes of a frame that switches, routers and address
/// translation leave alone.
///
/// Left out are Ethernet addresses, at most two tags and padding; of IP
/// everything but the identification, the protocol and the payload; of TCP and
/// UDP ports and checksum; of ICMP checksum and identifier.
pub fn invariant(frame: &[u8]) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    let Ok(view) = ethernet::Frame::new_checked(frame) else {
        hash.add(frame);
        return hash.0;
    };
    let payload = view.payload();
    hash.add(&view.ethertype().to_be_bytes());
    let ipv4 = (view.ethertype() == ethernet::ETHERTYPE_IPV4)
        .then(|| ipv4::Packet::new_checked(payload).ok())
        .flatten();
    let ipv6 = (view.ethertype() == ethernet::ETHERTYPE_IPV6)
        .then(|| ipv6::Packet::new_checked(payload).ok())
        .flatten();
    if let Some(packet) = ipv4 {
        hash.add(&packet.identification().to_be_bytes());
        let protocol = (!packet.is_fragment()).then(|| packet.protocol());
        transport(&mut hash, protocol, packet.payload());
    } else if let Some(packet) = ipv6 {
        let protocol = (!packet.is_fragment()).then(|| packet.protocol());
        transport(&mut hash, protocol, packet.payload());
    } else {
        // Nothing says where padding begins, which is zero.
        let end = payload.iter().rposition(|byte| *byte != 0);
        hash.add(&payload[..end.map_or(0, |last| last + 1)]);
    }
    hash.0
}

/// Of a fragment, which has no `protocol` here, all is taken.
fn transport(hash: &mut Fnv, protocol: Option<u8>, payload: &[u8]) {
    hash.add(&[protocol.unwrap_or(0)]);
    match protocol {
        Some(ipv4::PROTOCOL_TCP) if payload.len() >= tcp::HEADER_LEN => {
            hash.add(&payload[4..16]);
            hash.add(&payload[18..]);
        }
        Some(ipv4::PROTOCOL_UDP) if payload.len() >= udp::HEADER_LEN => {
            hash.add(&payload[4..6]);
            hash.add(&payload[8..]);
        }
        Some(ipv4::PROTOCOL_ICMP | ipv4::PROTOCOL_ICMPV6) if payload.len() >= icmp::HEADER_LEN => {
            hash.add(&payload[..2]);
            hash.add(&payload[6..]);
        }
        _ => hash.add(payload),
    }
}

/// A replay under way.
#[derive(Debug, Clone)]
pub(crate) struct Replaying {
    replay: Arc<Replay>,
    id: u16,
    epoch: u8,
    /// Frames of the periods before this one.
    before: u64,
    /// Signatures of the periods before this one.
    signed_before: u64,
    /// Where in this period the next frame stands.
    place: usize,
}

impl Replaying {
    pub(crate) fn new(replay: Arc<Replay>, id: u16, epoch: u8) -> Self {
        Self {
            replay,
            id,
            epoch,
            before: 0,
            signed_before: 0,
            place: 0,
        }
    }

    pub(crate) fn replay(&self) -> &Replay {
        &self.replay
    }

    /// Number of the next frame, among all.
    #[inline(always)]
    pub(crate) fn next(&self) -> u64 {
        self.before + self.place as u64
    }

    /// Goes to frame `sequence`.
    pub(crate) fn seek(&mut self, sequence: u64) {
        let frames = self.replay.places.len() as u64;
        let periods = sequence / frames;
        self.before = periods * frames;
        self.signed_before = periods * self.replay.signed;
        self.place = (sequence % frames) as usize;
    }

    fn advance(&mut self) {
        self.place += 1;
        if self.place == self.replay.places.len() {
            self.before += self.place as u64;
            self.signed_before += self.replay.signed;
            self.place = 0;
        }
    }

    /// Frames from the next one on, all sent at `time_ns`.
    #[inline(always)]
    pub(crate) fn burst(&mut self, time_ns: u64) -> Burst<'_> {
        Burst {
            stamper: Stamper::new(self.epoch, self.id, time_ns),
            first: self.place,
            replaying: self,
        }
    }
}

/// Writes frames one after another.
#[derive(Debug)]
pub(crate) struct Burst<'a> {
    replaying: &'a mut Replaying,
    stamper: Stamper,
    first: usize,
}

impl FrameWriter for Burst<'_> {
    #[inline(always)]
    fn len(&self, index: usize) -> usize {
        let places = &self.replaying.replay.places;
        places[(self.first + index) % places.len()].len
    }

    #[inline(always)]
    fn write(&mut self, _index: usize, frame: &mut [u8]) {
        let replaying = &mut *self.replaying;
        let place = replaying.replay.places[replaying.place];
        if frame.len() != place.len {
            return;
        }
        frame.copy_from_slice(&replaying.replay.bytes[place.at..][..place.len]);
        if let (Some(number), Some(end)) =
            (place.number, frame.last_chunk_mut::<{ signature::LEN }>())
        {
            self.stamper.emit(replaying.signed_before + number, end);
        }
        replaying.advance();
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
