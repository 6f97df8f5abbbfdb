//! One TCP segment over IPv4 in an Ethernet frame, read and written.

use super::payload::{Answer, Request};
use pinchpoint_wire::ethernet::{self, Frame, Mac};
use pinchpoint_wire::{FCS_LEN, ipv4, tcp};
use std::net::{Ipv4Addr, SocketAddrV4};

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

const MIN_FRAME: usize = 64 - FCS_LEN;
const HEADERS: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + tcp::HEADER_LEN;
/// Maximum segment size 1,460 (RFC 9293 section 3.7.1).
const MSS: [u8; 4] = [2, 4, 0x05, 0xb4];
const TTL: u8 = 64;
const WINDOW: u16 = 0xffff;
/// The TCP option in which a full-NAT balancer tells a backend the client's address.
const TOA: u8 = 254;
const TOA_LEN: usize = 8;

/// Why a frame is no segment that can be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// It is no TCP over IPv4.
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
    /// Source address and port.
    pub src: SocketAddrV4,
    /// Destination address and port.
    pub dst: SocketAddrV4,
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
    /// A request of so many bytes.
    Request(Request, usize),
    /// An answer of so many bytes.
    Answer(Answer, usize),
}

/// A segment to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// The frame's source.
    pub from: Mac,
    /// The frame's destination.
    pub to: Mac,
    /// Source address and port.
    pub src: SocketAddrV4,
    /// Destination address and port.
    pub dst: SocketAddrV4,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Control bits; a SYN has the option MSS.
    pub flags: u16,
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
        if view.ethertype() != ethernet::ETHERTYPE_IPV4 {
            return Err(Unfit::Other);
        }
        let packet = ipv4::Packet::new_checked(view.payload()).map_err(|_| Unfit::Malformed)?;
        if packet.protocol() != ipv4::PROTOCOL_TCP {
            return Err(Unfit::Other);
        }
        if packet.is_fragment() {
            return Err(Unfit::Fragment);
        }
        let segment = tcp::Segment::new_checked(packet.payload()).map_err(|_| Unfit::Malformed)?;
        let (src, dst) = (packet.src(), packet.dst());
        if !packet.verify_checksum() || !segment.verify_checksum(src, dst) {
            return Err(Unfit::Checksum);
        }
        Ok(Self {
            from: view.src(),
            src: SocketAddrV4::new(src, segment.src()),
            dst: SocketAddrV4::new(dst, segment.dst()),
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
    pub fn toa(&self) -> Option<SocketAddrV4> {
        let mut rest = self.options;
        loop {
            match *rest {
                [] | [0, ..] => return None,
                [1, ref after @ ..] => rest = after,
                [TOA, len, a, b, ref address @ ..] if usize::from(len) == TOA_LEN => {
                    let address = Ipv4Addr::from(*address.first_chunk::<4>()?);
                    return Some(SocketAddrV4::new(address, u16::from_be_bytes([a, b])));
                }
                [_, len, ..] if len >= 2 => rest = rest.get(usize::from(len)..)?,
                _ => return None,
            }
        }
    }
}

impl Outgoing {
    fn options(&self) -> &'static [u8] {
        if self.flags & SYN == 0 { &[] } else { &MSS }
    }

    fn content_len(&self) -> usize {
        match self.content {
            Content::Nothing => 0,
            Content::Request(_, len) | Content::Answer(_, len) => len,
        }
    }

    /// Bytes of its frame, without check sequence.
    #[inline(always)]
    pub fn frame_len(&self) -> usize {
        (HEADERS + self.options().len() + self.content_len()).max(MIN_FRAME)
    }

    /// Writes the frame into `out`, of [`frame_len`](Self::frame_len) bytes.
    ///
    /// # Panics
    /// If `out` is shorter.
    #[inline]
    pub fn write(&self, out: &mut [u8]) {
        let segment_len = tcp::HEADER_LEN + self.options().len() + self.content_len();
        let (front, body) = out.split_at_mut(ethernet::HEADER_LEN + ipv4::HEADER_LEN);
        let (segment, padding) = body.split_at_mut(segment_len);
        padding.fill(0);
        let content = &mut segment[tcp::HEADER_LEN + self.options().len()..];
        match self.content {
            Content::Nothing => {}
            Content::Request(request, _) => request.write(content),
            Content::Answer(answer, _) => answer.write(content),
        }
        let (src, dst) = (*self.src.ip(), *self.dst.ip());
        let header = tcp::Header {
            src: self.src.port(),
            dst: self.dst.port(),
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: WINDOW,
            urgent: 0,
            options: self.options(),
        };
        let (mac, ip) = front.split_first_chunk_mut().expect("an Ethernet header");
        ethernet::Header {
            dst: self.to,
            src: self.from,
            ethertype: ethernet::ETHERTYPE_IPV4,
        }
        .emit(mac);
        let packet = ipv4::Header {
            src,
            dst,
            ttl: TTL,
            dscp: 0,
            ecn: 0,
            identification: 0,
            dont_fragment: true,
            protocol: ipv4::PROTOCOL_TCP,
            options: &[],
            payload_len: segment_len as u16,
        };
        packet.emit(ip).expect("room for a header without options");
        header
            .emit(segment, src, dst)
            .expect("room for the header and its options");
    }
}
