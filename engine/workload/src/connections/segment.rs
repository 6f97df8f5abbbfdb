//! One TCP segment, or a datagram of ours, over IPv4 or IPv6 in an Ethernet frame, read and written.

use super::end::End;
use super::options::{self, MOST_LEN, STAMP_LEN, Stamp};
use super::payload::{self, Answer, Request};
use pinchpoint_wire::checksum::Address;
use pinchpoint_wire::ethernet::{self, Frame, Mac};
use pinchpoint_wire::{FCS_LEN, ipv4, ipv6, tcp, udp};
use std::net::Ipv4Addr;

/// The sender will send no more.
pub const FIN: u16 = 0x01;
/// The first segment of a direction.
pub const SYN: u16 = 0x02;
/// The connection has ended.
pub const RST: u16 = 0x04;
/// The receiver shall hand the bytes on at once.
pub const PSH: u16 = 0x08;
/// The acknowledgment number counts.
pub const ACK: u16 = 0x10;

/// No control bit, of which TCP has twelve: it is a UDP datagram, without numbers, window and options.
pub const DATAGRAM: u16 = 0x8000;

/// Bytes of an answer that a segment carries where there are more: a device may exchange IPv4 for IPv6.
pub const MSS: u32 = 1440;
/// The same with a time stamp, which a segment's size includes (RFC 9293 section 3.7.1).
pub const STAMPED_MSS: u32 = MSS - STAMP_LEN as u32;

const MIN_FRAME: usize = 64 - FCS_LEN;
/// Bytes behind the shortest segment, in the shortest frame.
const MOST_PADDING: usize = MIN_FRAME - ethernet::HEADER_LEN - ipv4::HEADER_LEN - tcp::HEADER_LEN;
const TTL: u8 = 64;
/// What all segments over IPv4 begin with.
const IPV4: ipv4::Template = ipv4::Template::new(TTL, ipv4::PROTOCOL_TCP);
const IPV4_UDP: ipv4::Template = ipv4::Template::new(TTL, ipv4::PROTOCOL_UDP);
const WINDOW: u16 = 0xffff;

/// Why a frame is no segment that can be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// It is neither TCP over IPv4 or IPv6 nor a datagram of ours.
    Other,
    /// A header does not fit.
    Malformed,
    /// It is a fragment.
    Fragment,
    /// A checksum is wrong.
    Checksum,
}

/// A segment that came.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'a> {
    /// The frame's source.
    pub from: Mac,
    /// The frame's destination.
    pub to: Mac,
    /// Source address and port.
    pub src: End,
    /// Destination address and port.
    pub dst: End,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Control bits.
    pub flags: u16,
    /// Window, unscaled.
    pub window: u16,
    /// Options as they stand on the wire.
    pub options: &'a [u8],
    /// What follows the header.
    pub payload: &'a [u8],
}

/// What a segment carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// No byte.
    Nothing,
    /// A request of this many bytes.
    Request(Request, usize),
    /// An answer of this many bytes.
    Answer(Answer, usize),
    /// This many bytes of an answer, not its first.
    Zeros(usize),
}

/// A segment to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// The frame's source.
    pub from: Mac,
    /// The frame's destination.
    pub to: Mac,
    /// Source address and port.
    pub src: End,
    /// Destination address and port.
    pub dst: End,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Control bits; a SYN has the option MSS.
    pub flags: u16,
    /// Its time stamp; a reset has none.
    pub stamp: Option<Stamp>,
    /// What follows the header.
    pub content: Content,
}

impl<'a> Incoming<'a> {
    /// Reads a frame.
    ///
    /// # Errors
    /// Why it is no segment that can be judged.
    #[inline]
    pub fn read(frame: &'a [u8]) -> Result<Self, Unfit> {
        let view = Frame::new_checked(frame).map_err(|_| Unfit::Malformed)?;
        let macs = (view.src(), view.dst());
        match view.ethertype() {
            ethernet::ETHERTYPE_IPV4 => Self::read_v4(macs, view.payload()),
            ethernet::ETHERTYPE_IPV6 => Self::read_v6(macs, view.payload()),
            _ => Err(Unfit::Other),
        }
    }

    #[inline(always)]
    fn read_v4(macs: (Mac, Mac), bytes: &'a [u8]) -> Result<Self, Unfit> {
        let packet = ipv4::Packet::new_checked(bytes).map_err(|_| Unfit::Malformed)?;
        let protocol = packet.protocol();
        if protocol != ipv4::PROTOCOL_TCP && !is_own(protocol, packet.payload()) {
            return Err(Unfit::Other);
        }
        if packet.is_fragment() {
            return Err(Unfit::Fragment);
        }
        if !packet.verify_checksum() {
            return Err(Unfit::Checksum);
        }
        let (src, dst) = (packet.src(), packet.dst());
        let ends = |ports: (u16, u16)| (End::new(src, ports.0), End::new(dst, ports.1));
        if protocol == ipv4::PROTOCOL_UDP {
            return Self::read_datagram(macs, packet.payload(), (src, dst), ends);
        }
        Self::read_segment(macs, packet.payload(), (src, dst), ends)
    }

    #[inline(never)]
    fn read_v6(macs: (Mac, Mac), bytes: &'a [u8]) -> Result<Self, Unfit> {
        let packet = ipv6::Packet::new_checked(bytes).map_err(|_| Unfit::Malformed)?;
        let protocol = packet.protocol();
        if protocol != ipv4::PROTOCOL_TCP && !is_own(protocol, packet.payload()) {
            return Err(Unfit::Other);
        }
        if packet.is_fragment() {
            return Err(Unfit::Fragment);
        }
        let (src, dst) = (packet.src(), packet.final_dst().unwrap_or(packet.dst()));
        let ends = |ports: (u16, u16)| (End::new(src, ports.0), End::new(dst, ports.1));
        let (first, last) = ends((0, 0));
        // A mapped address is no address on a wire (RFC 4291 section 2.5.5.2).
        if first.v4().is_some() || last.v4().is_some() {
            return Err(Unfit::Malformed);
        }
        if protocol == ipv4::PROTOCOL_UDP {
            return Self::read_datagram(macs, packet.payload(), (src, dst), ends);
        }
        Self::read_segment(macs, packet.payload(), (src, dst), ends)
    }

    #[inline(never)]
    fn read_datagram<A: Address>(
        (from, to): (Mac, Mac),
        bytes: &'a [u8],
        (src, dst): (A, A),
        ends: impl Fn((u16, u16)) -> (End, End),
    ) -> Result<Self, Unfit> {
        let datagram = udp::Datagram::new_checked(bytes).map_err(|_| Unfit::Malformed)?;
        if !datagram.verify_checksum(src, dst) {
            return Err(Unfit::Checksum);
        }
        let (src, dst) = ends((datagram.src(), datagram.dst()));
        Ok(Self {
            from,
            to,
            src,
            dst,
            seq: 0,
            ack: 0,
            flags: DATAGRAM,
            window: 0,
            options: &[],
            payload: datagram.payload(),
        })
    }

    #[inline(always)]
    fn read_segment<A: Address>(
        (from, to): (Mac, Mac),
        bytes: &'a [u8],
        (src, dst): (A, A),
        ends: impl Fn((u16, u16)) -> (End, End),
    ) -> Result<Self, Unfit> {
        let segment = tcp::Segment::new_checked(bytes).map_err(|_| Unfit::Malformed)?;
        if !segment.verify_checksum(src, dst) {
            return Err(Unfit::Checksum);
        }
        let (src, dst) = ends((segment.src(), segment.dst()));
        Ok(Self {
            from,
            to,
            src,
            dst,
            seq: segment.seq(),
            ack: segment.ack(),
            flags: segment.flags(),
            window: segment.window(),
            options: segment.options(),
            payload: segment.payload(),
        })
    }

    /// Whether all of these control bits are set.
    #[inline(always)]
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// The sequence number behind it: what acknowledges all of it.
    #[inline(always)]
    pub fn end(&self) -> u32 {
        let controls = u32::from(self.has(SYN)) + u32::from(self.has(FIN));
        self.seq
            .wrapping_add(self.payload.len() as u32)
            .wrapping_add(controls)
    }

    /// The address in its TOA option; none if it has none or the options are malformed.
    pub fn toa(&self) -> Option<End> {
        options::toa(self.options)
    }

    /// Its time stamp; none if it has none or the options are malformed.
    #[inline(always)]
    pub fn stamp(&self) -> Option<Stamp> {
        options::stamp(self.options)
    }
}

/// Whether a packet of this protocol is a datagram that one of our ends sent, by its first bytes.
fn is_own(protocol: u8, bytes: &[u8]) -> bool {
    let content = bytes.get(udp::HEADER_LEN..);
    protocol == ipv4::PROTOCOL_UDP && content.is_some_and(payload::is_own)
}

impl Outgoing {
    #[inline(always)]
    fn is_datagram(&self) -> bool {
        self.flags == DATAGRAM
    }

    #[inline(always)]
    fn is_syn(&self) -> bool {
        self.flags & SYN != 0
    }

    #[inline(always)]
    fn stamp(&self) -> Option<Stamp> {
        self.stamp.filter(|_| self.flags & RST == 0)
    }

    #[inline(always)]
    fn content_len(&self) -> usize {
        match self.content {
            Content::Nothing => 0,
            Content::Request(_, len) | Content::Answer(_, len) | Content::Zeros(len) => len,
        }
    }

    #[inline(always)]
    fn segment_len(&self) -> usize {
        let header = if self.is_datagram() {
            udp::HEADER_LEN
        } else {
            tcp::HEADER_LEN + options::len(self.is_syn(), self.stamp())
        };
        header + self.content_len()
    }

    /// The sequence number behind it.
    pub fn next_seq(&self) -> u32 {
        let controls = (self.flags & (SYN | FIN)).count_ones();
        self.seq.wrapping_add(self.content_len() as u32 + controls)
    }

    /// Bytes of its frame, without check sequence.
    #[inline(always)]
    pub fn frame_len(&self) -> usize {
        let ip = if self.src.v4().is_some() {
            ipv4::HEADER_LEN
        } else {
            ipv6::HEADER_LEN
        };
        (ethernet::HEADER_LEN + ip + self.segment_len()).max(MIN_FRAME)
    }

    /// Writes the frame into `out`, of [`frame_len`](Self::frame_len) bytes. Both ends
    /// are of one family: that of the source.
    ///
    /// # Panics
    /// If `out` is shorter.
    #[inline(always)]
    pub fn write(&self, out: &mut [u8]) {
        let (mac, body) = out.split_first_chunk_mut().expect("an Ethernet header");
        let v4 = self.src.v4().zip(self.dst.v4());
        let ethertype = match v4 {
            Some(_) => ethernet::ETHERTYPE_IPV4,
            None => ethernet::ETHERTYPE_IPV6,
        };
        ethernet::Header {
            dst: self.to,
            src: self.from,
            ethertype,
        }
        .emit(mac);
        match v4 {
            Some(ends) => self.write_v4(ends, body),
            None => self.write_v6(body),
        }
    }

    #[inline(always)]
    fn write_v4(&self, (src, dst): (Ipv4Addr, Ipv4Addr), out: &mut [u8]) {
        let (header, rest) = out.split_first_chunk_mut().expect("room for a header");
        let template = if self.is_datagram() { IPV4_UDP } else { IPV4 };
        template.emit(header, (src, dst), self.segment_len() as u16);
        self.write_segment((src, dst), rest);
    }

    #[inline(never)]
    fn write_v6(&self, out: &mut [u8]) {
        let (src, dst) = (self.src.v6(), self.dst.v6());
        let (header, rest) = out.split_first_chunk_mut().expect("room for a header");
        let packet = ipv6::Header {
            src,
            dst,
            hop_limit: TTL,
            traffic_class: 0,
            flow_label: 0,
            next_header: if self.is_datagram() {
                ipv4::PROTOCOL_UDP
            } else {
                ipv4::PROTOCOL_TCP
            },
            payload_len: self.segment_len() as u16,
        };
        packet.emit(header);
        self.write_segment((src, dst), rest);
    }

    #[inline(always)]
    fn write_segment<A: Address>(&self, (src, dst): (A, A), out: &mut [u8]) {
        let segment_len = self.segment_len();
        if segment_len < out.len()
            && let Some(padding) = out.last_chunk_mut::<MOST_PADDING>()
        {
            *padding = [0; MOST_PADDING];
        }
        let segment = &mut out[..segment_len];
        if self.is_datagram() {
            return self.write_datagram((src, dst), segment);
        }
        let is_v4 = self.src.v4().is_some();
        match (self.is_syn(), self.stamp()) {
            (false, None) => self.write_with(&[], (src, dst), segment),
            (true, None) => self.write_with(options::mss(is_v4), (src, dst), segment),
            (is_syn, stamp) => {
                let mut room = [0; MOST_LEN];
                options::write(is_syn, is_v4, stamp, &mut room);
                self.write_with(&room[..options::len(is_syn, stamp)], (src, dst), segment);
            }
        }
    }

    #[inline(always)]
    fn write_with<A: Address>(&self, options: &[u8], (src, dst): (A, A), segment: &mut [u8]) {
        let sum = self.write_content(&mut segment[tcp::HEADER_LEN + options.len()..]);
        let header = tcp::Header {
            src: self.src.port,
            dst: self.dst.port,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: WINDOW,
            urgent: 0,
            options,
        };
        header
            .emit_summed(segment, src, dst, sum)
            .expect("room for the header and its options");
    }

    #[inline(never)]
    fn write_datagram<A: Address>(&self, (src, dst): (A, A), datagram: &mut [u8]) {
        self.write_content(&mut datagram[udp::HEADER_LEN..]);
        let header = udp::Header {
            src: self.src.port,
            dst: self.dst.port,
        };
        let is_written = header.emit(datagram, src, dst);
        is_written.expect("room for the header");
    }

    /// Writes what follows the header; returns its unfolded sum.
    #[inline(always)]
    fn write_content(&self, out: &mut [u8]) -> u64 {
        match self.content {
            Content::Nothing => 0,
            Content::Request(request, _) => request.write(out),
            Content::Answer(answer, _) => answer.write(out),
            Content::Zeros(_) => {
                out.fill(0);
                0
            }
        }
    }
}
