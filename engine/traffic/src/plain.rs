//! The fast path: UDP over IPv4 without options, frames of one size, and
//! increments of addresses and ports.

use crate::layout::{Kind, Layout};
use crate::order::{Order, Place, Tuple};
use crate::spec::{MIN_LEN, Sizes, StreamSpec, Template, Wrong};
use crate::writer::FrameWriter;
use pinchpoint_wire::ethernet;
use pinchpoint_wire::signature::{self, Stamper};
use pinchpoint_wire::{checksum, ipv4, udp};
use std::net::Ipv4Addr;

const IP_AT: usize = ethernet::HEADER_LEN;
const UDP_AT: usize = IP_AT + ipv4::HEADER_LEN;
const IP_CHECK_AT: usize = IP_AT + 10;
const ADDRESSES_AT: usize = IP_AT + 12;
const UDP_LEN_AT: usize = UDP_AT + 4;
const PAYLOAD_AT: usize = UDP_AT + udp::HEADER_LEN;
/// IPv4 without options is the only header of that shape.
const VERSION_AND_LENGTH: u8 = 0x45;

/// A stream's frames in order. What a field program leaves alone is summed
/// once, so a frame costs a few additions.
#[derive(Debug, Clone)]
pub(crate) struct Plain {
    /// Everything up to the IPv4 checksum.
    front: [u8; IP_CHECK_AT],
    udp_len: u16,
    len: usize,
    stamped: bool,
    id: u16,
    epoch: u8,
    /// Sum of the IPv4 header without addresses and checksum.
    ip_sum: u64,
    /// Sum of pseudo header, UDP header and payload without addresses, ports
    /// and checksum. The payload is zero and the signature adds nothing.
    udp_sum: u64,
    order: Order,
    place: Place,
}

impl Plain {
    /// The program that starts with frame 0; none if the specification, which
    /// was validated, is not of this kind.
    pub(crate) fn new(spec: &StreamSpec, layout: &Layout) -> Option<Self> {
        let Sizes::Fixed(len) = spec.sizes else {
            return None;
        };
        let kinds = layout.headers.iter().map(|header| header.kind);
        let plain = matches!(spec.template, Template::Layers(_))
            && kinds.eq([Kind::Eth, Kind::Ipv4, Kind::Udp])
            && layout.bytes.len() == PAYLOAD_AT
            && layout.bytes[IP_AT] == VERSION_AND_LENGTH;
        if !plain || spec.wrong != Wrong::default() {
            return None;
        }
        let mut bytes = layout.bytes.clone();
        bytes.resize(len, 0);
        layout.finish(&mut bytes, spec.wrong);
        let (addresses, ports) = (
            bytes[ADDRESSES_AT..].first_chunk()?,
            bytes[UDP_AT..].first_chunk()?,
        );
        let base = Tuple {
            addresses: u64::from_be_bytes(*addresses),
            ports: u32::from_be_bytes(*ports),
        };
        if spec.together && spec.fields.len() > 1 {
            return None;
        }
        let order = Order::new(base, &spec.fields, spec.first_flow, spec.flows)?;
        bytes[IP_CHECK_AT..UDP_AT].fill(0);
        let udp_len = (len - UDP_AT) as u16;
        let unspecified = Ipv4Addr::UNSPECIFIED;
        Some(Self {
            front: *bytes.first_chunk()?,
            udp_len,
            len,
            stamped: spec.stamped,
            id: spec.id,
            epoch: spec.epoch,
            ip_sum: checksum::sum(&bytes[IP_AT..UDP_AT]),
            udp_sum: udp::pseudo_sum(unspecified, unspecified, udp_len) + u64::from(udp_len),
            place: order.seek(0),
            order,
        })
    }

    /// Sequence number of the next frame.
    #[inline(always)]
    pub(crate) fn next(&self) -> u64 {
        self.place.sequence
    }

    /// Whether frames end in a signature.
    #[inline(always)]
    pub(crate) fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// A burst of frames, from the next one on, all sent at `time_ns`;
    /// `STAMPED` is what [`is_stamped`](Self::is_stamped) says, told apart once
    /// a burst.
    #[inline(always)]
    pub(crate) fn burst<const STAMPED: bool>(&self, time_ns: u64) -> Burst<'_, STAMPED> {
        Burst {
            program: self,
            stamper: Stamper::new(self.epoch, self.id, time_ns),
            step: self.order.step,
            place: self.place,
        }
    }

    /// Goes behind a burst that ended at `place` and of which `taken` frames
    /// were sent: there, or, at the cost of some divisions, behind the last
    /// frame sent.
    #[inline(always)]
    pub(crate) fn go_on(&mut self, place: Place, taken: u64) {
        let sent = self.place.sequence + taken;
        self.place = if place.sequence == sent {
            place
        } else {
            self.order.seek(sent)
        };
    }

    #[cfg(test)]
    pub(crate) fn seek(&mut self, sequence: u64) {
        self.place = self.order.seek(sequence);
    }
}

/// Writes frames one after another, without moving the program they are of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burst<'a, const STAMPED: bool> {
    program: &'a Plain,
    stamper: Stamper,
    step: Tuple,
    place: Place,
}

impl<const STAMPED: bool> Burst<'_, STAMPED> {
    /// Where the burst has come to.
    #[inline(always)]
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    #[inline(always)]
    fn advance(&mut self) {
        let place = &mut self.place;
        place.sequence += 1;
        place.left -= 1;
        if place.left == 0 {
            *place = self.program.order.next_run(place);
        } else {
            place.tuple.addresses += self.step.addresses;
            place.tuple.ports += self.step.ports;
        }
    }
}

impl<const STAMPED: bool> FrameWriter for Burst<'_, STAMPED> {
    #[inline(always)]
    fn len(&self, _index: usize) -> usize {
        self.program.len
    }

    #[inline(always)]
    fn write(&mut self, _index: usize, frame: &mut [u8]) {
        let program = self.program;
        if frame.len() != program.len {
            return;
        }
        let Some((head, tail)) = frame.split_first_chunk_mut::<MIN_LEN>() else {
            return;
        };
        let Tuple { addresses, ports } = self.place.tuple;
        let addresses_sum = (addresses >> 32) + (addresses & 0xffff_ffff);
        let ip_check = checksum::finish(program.ip_sum + addresses_sum);
        let udp_check = checksum::finish_udp(program.udp_sum + addresses_sum + u64::from(ports));
        head[..IP_CHECK_AT].copy_from_slice(&program.front);
        head[IP_CHECK_AT..ADDRESSES_AT].copy_from_slice(&ip_check.to_be_bytes());
        head[ADDRESSES_AT..UDP_AT].copy_from_slice(&addresses.to_be_bytes());
        head[UDP_AT..UDP_LEN_AT].copy_from_slice(&ports.to_be_bytes());
        let len_and_check = u32::from(program.udp_len) << 16 | u32::from(udp_check);
        head[UDP_LEN_AT..PAYLOAD_AT].copy_from_slice(&len_and_check.to_be_bytes());
        let sequence = self.place.sequence;
        if !STAMPED {
            frame[PAYLOAD_AT..].fill(0);
        } else if tail.is_empty() {
            if let Some(end) = head.last_chunk_mut::<{ signature::LEN }>() {
                self.stamper.emit(sequence, end);
            }
        } else {
            frame[PAYLOAD_AT..].fill(0);
            if let Some(end) = frame.last_chunk_mut::<{ signature::LEN }>() {
                self.stamper.emit(sequence, end);
            }
        }
        self.advance();
    }
}
