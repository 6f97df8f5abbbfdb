//! A stream's frames: a template and the field programs that vary it.

use crate::order::{Order, Place, Tuple};
use crate::spec::{MIN_LEN, SpecError, StreamSpec};
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

/// A stream's frames in order.
///
/// The same specification always gives the same frames, but for the transmit
/// time in their signatures. Checksums are right in every frame: what a field
/// program leaves alone is summed once, so a frame costs a few additions.
#[derive(Debug, Clone)]
pub struct FrameProgram {
    /// Everything up to the IPv4 checksum.
    front: [u8; IP_CHECK_AT],
    udp_len: u16,
    len: usize,
    id: u8,
    epoch: u8,
    /// Sum of the IPv4 header without addresses and checksum.
    ip_sum: u64,
    /// Sum of pseudo header, UDP header and payload without addresses, ports
    /// and checksum. The payload is zero and the signature adds nothing.
    udp_sum: u64,
    order: Order,
    place: Place,
}

impl FrameProgram {
    /// The program that starts with frame 0.
    ///
    /// # Errors
    /// [`SpecError`] names the key of the specification that cannot be met.
    pub fn new(spec: &StreamSpec) -> Result<Self, SpecError> {
        spec.validate()?;
        let udp_len = (spec.len - UDP_AT) as u16;
        let eth = ethernet::Header {
            dst: spec.eth_dst,
            src: spec.eth_src,
            ethertype: ethernet::ETHERTYPE_IPV4,
        };
        let ip = ipv4::Header {
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::UNSPECIFIED,
            ttl: spec.ttl,
            dscp: spec.dscp,
            protocol: ipv4::PROTOCOL_UDP,
            payload_len: udp_len,
        };
        let mut ip_bytes = [0; ipv4::HEADER_LEN];
        ip.emit(&mut ip_bytes);
        ip_bytes[10..12].fill(0);
        let mut eth_bytes = [0; ethernet::HEADER_LEN];
        eth.emit(&mut eth_bytes);
        let mut front = [0; IP_CHECK_AT];
        front[..IP_AT].copy_from_slice(&eth_bytes);
        front[IP_AT..].copy_from_slice(&ip_bytes[..IP_CHECK_AT - IP_AT]);
        let unspecified = Ipv4Addr::UNSPECIFIED;
        let order = Order::new(spec);
        Ok(Self {
            front,
            udp_len,
            len: spec.len,
            id: spec.id,
            epoch: spec.epoch,
            ip_sum: checksum::sum(&ip_bytes),
            udp_sum: udp::pseudo_sum(unspecified, unspecified, udp_len) + u64::from(udp_len),
            place: order.seek(0),
            order,
        })
    }

    /// Bytes of every frame in the buffer.
    #[inline]
    pub fn frame_len(&self) -> usize {
        self.len
    }

    /// Sequence number of the next frame.
    #[inline]
    pub fn next(&self) -> u64 {
        self.place.sequence
    }

    /// A burst of frames, from the next one on, all sent at `time_ns`.
    #[inline(always)]
    pub fn burst(&self, time_ns: u64) -> Burst<'_> {
        Burst {
            program: self,
            stamper: Stamper::new(self.epoch, self.id, time_ns),
            step: self.order.step,
            place: self.place,
        }
    }

    /// Where the program goes on after `burst`, of which `taken` frames were
    /// sent: behind the burst, or, at the cost of some divisions, behind the
    /// last frame sent.
    #[inline(always)]
    fn after(&self, place: Place, taken: u64) -> Place {
        let sent = self.place.sequence + taken;
        if place.sequence == sent {
            place
        } else {
            self.order.seek(sent)
        }
    }

    /// Sends a burst: `send` writes frames with [`Burst::write`] and returns
    /// how many were sent, always the first ones; the program goes on behind
    /// them. Returns that number.
    #[inline(always)]
    pub fn send(&mut self, time_ns: u64, send: impl FnOnce(&mut Burst<'_>) -> u64) -> u64 {
        let mut burst = self.burst(time_ns);
        let taken = send(&mut burst);
        let place = burst.place;
        self.place = self.after(place, taken);
        taken
    }
}

/// Writes frames one after another, without moving the program they are of.
#[derive(Debug, Clone, Copy)]
pub struct Burst<'a> {
    program: &'a FrameProgram,
    stamper: Stamper,
    step: Tuple,
    place: Place,
}

impl Burst<'_> {
    /// Writes the next frame into `frame`, whose length must be the program's
    /// [`frame_len`](FrameProgram::frame_len); does nothing to any other.
    #[inline(always)]
    pub fn write(&mut self, frame: &mut [u8]) {
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
        if tail.is_empty() {
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

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
