//! TCP over IPv4 or IPv6 as it comes, and as it is sent on: checksums change by what changed (RFC 1624).

use super::settings::Spot;
use pinchpoint_wire::checksum;
use pinchpoint_wire::ethernet::{self, Frame, Mac};
use pinchpoint_wire::{FCS_LEN, ipv4, ipv6, tcp};
use std::net::IpAddr;

pub(super) const FIN: u16 = 1;
pub(super) const SYN: u16 = 2;
pub(super) const RST: u16 = 4;
pub(super) const ACK: u16 = 0x10;
/// Bytes of the TOA option before the address: its number, its length, the client's port.
const TOA_HEAD: usize = 4;
const TOA: u8 = 254;
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
/// Acknowledges out of order by sequence numbers that stand in options (RFC 2018 section 2).
const SACK_PERMITTED: [u8; 2] = [4, 2];
const MIN_FRAME: usize = 64 - FCS_LEN;
/// Of a payload that is broken: within what answers of this engine echo.
const BROKEN_BYTE: usize = 20;
/// TTL, total length and both checksums, from the beginning of their headers; and what IPv6 has
/// in their place: the length of the payload, the hop limit (RFC 8200 section 3).
const TTL_AT: usize = 8;
const LENGTH_AT: usize = 2;
const IP_CHECK_AT: usize = 10;
const PAYLOAD_LENGTH_AT: usize = 4;
const HOP_LIMIT_AT: usize = 7;
const V6_SRC_AT: usize = 8;
const V6_DST_AT: usize = 24;
const TCP_CHECK_AT: usize = 16;

/// Why a frame is not translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    Other,
    Malformed,
    Fragment,
    Checksum,
    HopLimit,
}

/// A segment that came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    frame: &'a [u8],
    /// Where the headers begin, and where the payload.
    ip_at: usize,
    tcp_at: usize,
    payload_at: usize,
    /// Where the packet ends; padding follows.
    end: usize,
    is_v6: bool,
    pub(super) from: Mac,
    pub(super) src: Spot,
    pub(super) dst: Spot,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u16,
}

/// What is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rewrite {
    /// Of the frame, source and destination.
    pub(super) macs: (Mac, Mac),
    pub(super) src: Spot,
    pub(super) dst: Spot,
    /// What sequence numbers rise by.
    pub(super) seq_by: u32,
    /// What acknowledgments rise by.
    pub(super) ack_by: u32,
    /// The end that a TOA option names.
    pub(super) toa: Option<Spot>,
    /// Whether a SYN may not offer selective acknowledgment.
    pub(super) no_sack: bool,
    /// Whether the payload is broken.
    pub(super) breaks: bool,
}

impl<'a> Packet<'a> {
    /// Reads a frame.
    #[inline]
    pub(super) fn read(frame: &'a [u8]) -> Result<Self, Unfit> {
        let view = Frame::new_checked(frame).map_err(|_| Unfit::Malformed)?;
        match view.ethertype() {
            ethernet::ETHERTYPE_IPV4 => Self::read_v4(frame, &view),
            ethernet::ETHERTYPE_IPV6 => Self::read_v6(frame, &view),
            _ => Err(Unfit::Other),
        }
    }

    #[inline]
    fn read_v4(frame: &'a [u8], view: &Frame<'_>) -> Result<Self, Unfit> {
        let ip_at = view.header_len();
        let ip = ipv4::Packet::new_checked(&frame[ip_at..]).map_err(|_| Unfit::Malformed)?;
        if !ip.verify_checksum() {
            return Err(Unfit::Checksum);
        }
        if ip.protocol() != ipv4::PROTOCOL_TCP {
            return Err(Unfit::Other);
        }
        if ip.is_fragment() {
            return Err(Unfit::Fragment);
        }
        let segment = tcp::Segment::new_checked(ip.payload()).map_err(|_| Unfit::Malformed)?;
        if ip.ttl() <= 1 {
            return Err(Unfit::HopLimit);
        }
        let ends = (ip.src().into(), ip.dst().into());
        let lens = (ip.header_len(), ip.payload().len());
        Ok(Self::of(frame, view, &segment, ends, lens))
    }

    #[inline(never)]
    fn read_v6(frame: &'a [u8], view: &Frame<'_>) -> Result<Self, Unfit> {
        let ip_at = view.header_len();
        let ip = ipv6::Packet::new_checked(&frame[ip_at..]).map_err(|_| Unfit::Malformed)?;
        // Of a packet that has not come to its last stop, its checksum has another address.
        if ip.protocol() != ipv4::PROTOCOL_TCP || ip.final_dst() != Some(ip.dst()) {
            return Err(Unfit::Other);
        }
        if ip.is_fragment() {
            return Err(Unfit::Fragment);
        }
        let ends = (Spot::new(ip.src(), 0).ip(), Spot::new(ip.dst(), 0).ip());
        // A mapped address is no address on a wire (RFC 4291 section 2.5.5.2).
        if ends.0.is_ipv4() || ends.1.is_ipv4() {
            return Err(Unfit::Malformed);
        }
        let segment = tcp::Segment::new_checked(ip.payload()).map_err(|_| Unfit::Malformed)?;
        if ip.hop_limit() <= 1 {
            return Err(Unfit::HopLimit);
        }
        let lens = (ip.header_len(), ip.payload().len());
        Ok(Self::of(frame, view, &segment, ends, lens))
    }

    /// `lens`: bytes of the IP header with its extensions, and of what follows it.
    #[inline(always)]
    fn of(
        frame: &'a [u8],
        view: &Frame<'_>,
        segment: &tcp::Segment<'_>,
        (src, dst): (IpAddr, IpAddr),
        lens: (usize, usize),
    ) -> Self {
        let ip_at = view.header_len();
        let tcp_at = ip_at + lens.0;
        Self {
            frame,
            ip_at,
            tcp_at,
            payload_at: tcp_at + segment.header_len(),
            end: tcp_at + lens.1,
            is_v6: src.is_ipv6(),
            from: view.src(),
            src: Spot::new(src, segment.src()),
            dst: Spot::new(dst, segment.dst()),
            seq: segment.seq(),
            ack: segment.ack(),
            flags: segment.flags(),
        }
    }

    /// Bytes of an address of its family.
    #[inline(always)]
    fn address_len(&self) -> usize {
        if self.is_v6 { 16 } else { 4 }
    }

    /// Bytes of the TOA option that a rewrite inserts.
    #[inline(always)]
    fn toa_len(&self, rewrite: &Rewrite) -> usize {
        match rewrite.toa {
            Some(_) => TOA_HEAD + self.address_len(),
            None => 0,
        }
    }

    /// Whether all of these control bits are set.
    #[inline]
    pub(super) fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    pub(super) fn has_payload(&self) -> bool {
        self.end > self.payload_at
    }

    /// Whether a TOA option fits its header, its packet and a frame of `longest` bytes.
    pub(super) fn has_room_for_toa(&self, longest: usize) -> bool {
        let toa_len = TOA_HEAD + self.address_len();
        let header = self.payload_at - self.tcp_at + toa_len;
        let packet = self.end - self.ip_at + toa_len;
        header <= tcp::MAX_HEADER_LEN
            && u16::try_from(packet).is_ok()
            && self.end + toa_len <= longest
    }

    /// Bytes of the frame that is sent on.
    #[inline]
    pub(super) fn written_len(&self, rewrite: &Rewrite) -> usize {
        (self.end + self.toa_len(rewrite)).max(MIN_FRAME)
    }

    /// Writes the frame that is sent on into `out`, of [`written_len`](Self::written_len)
    /// bytes. A TOA option must have room, and all ends are of its family.
    #[inline]
    pub(super) fn write(&self, rewrite: &Rewrite, out: &mut [u8]) {
        let toa_len = self.toa_len(rewrite);
        let (head, payload) = self.frame[..self.end].split_at(self.payload_at);
        out[..self.payload_at].copy_from_slice(head);
        let payload_at = self.payload_at + toa_len;
        out[payload_at..self.end + toa_len].copy_from_slice(payload);
        out[self.end + toa_len..].fill(0);
        out[..6].copy_from_slice(&rewrite.macs.1.0);
        out[6..12].copy_from_slice(&rewrite.macs.0.0);
        let (ip, segment) = out[self.ip_at..].split_at_mut(self.tcp_at - self.ip_at);
        let addresses = if self.is_v6 {
            self.write_v6(rewrite, ip, toa_len)
        } else {
            self.write_v4(rewrite, ip, toa_len)
        };
        let len = self.end + toa_len - self.tcp_at;
        self.write_segment(rewrite, addresses, &mut segment[..len]);
    }

    /// Writes into the IP header; returns what that changes in the pseudo header.
    #[inline(always)]
    fn write_v4(&self, rewrite: &Rewrite, ip: &mut [u8], toa_len: usize) -> Change {
        let mut addresses = Change::default();
        addresses.put32(&mut ip[12..16], rewrite.src.bits() as u32);
        addresses.put32(&mut ip[16..20], rewrite.dst.bits() as u32);
        let mut header = addresses;
        let ttl = ip[TTL_AT].saturating_sub(1);
        let protocol = ip[TTL_AT + 1];
        header.put16(
            &mut ip[TTL_AT..TTL_AT + 2],
            u16::from_be_bytes([ttl, protocol]),
        );
        let len = (self.end - self.ip_at + toa_len) as u16;
        header.put16(&mut ip[LENGTH_AT..LENGTH_AT + 2], len);
        header.finish(&mut ip[IP_CHECK_AT..IP_CHECK_AT + 2]);
        addresses
    }

    /// The same of IPv6, whose header has no checksum.
    #[inline(never)]
    fn write_v6(&self, rewrite: &Rewrite, ip: &mut [u8], toa_len: usize) -> Change {
        let mut addresses = Change::default();
        addresses.put128(&mut ip[V6_SRC_AT..V6_DST_AT], rewrite.src.bits());
        addresses.put128(&mut ip[V6_DST_AT..V6_DST_AT + 16], rewrite.dst.bits());
        ip[HOP_LIMIT_AT] = ip[HOP_LIMIT_AT].saturating_sub(1);
        let len = (self.end - self.ip_at - ipv6::HEADER_LEN + toa_len) as u16;
        ip[PAYLOAD_LENGTH_AT..PAYLOAD_LENGTH_AT + 2].copy_from_slice(&len.to_be_bytes());
        addresses
    }

    fn write_segment(&self, rewrite: &Rewrite, mut change: Change, segment: &mut [u8]) {
        change.put16(&mut segment[..2], rewrite.src.port);
        change.put16(&mut segment[2..4], rewrite.dst.port);
        change.put32(&mut segment[4..8], self.seq.wrapping_add(rewrite.seq_by));
        if self.has(ACK) {
            change.put32(&mut segment[8..12], self.ack.wrapping_add(rewrite.ack_by));
        }
        let header_len = self.payload_at - self.tcp_at;
        if rewrite.no_sack && self.has(SYN) {
            withdraw_sack(&mut segment[..header_len], &mut change);
        }
        let mut payload_at = header_len;
        if let Some(client) = rewrite.toa {
            payload_at += insert_toa(segment, header_len, client, &mut change);
        }
        if rewrite.breaks && payload_at < segment.len() {
            let at = (payload_at + BROKEN_BYTE).min(segment.len() - 1);
            let broken = segment[at] ^ 1;
            change.put8(segment, at, broken);
        }
        change.finish(&mut segment[TCP_CHECK_AT..TCP_CHECK_AT + 2]);
    }
}

/// Puts the option behind the others: whoever ended them early ends them before it, which is
/// why that end becomes a filler.
fn insert_toa(segment: &mut [u8], header_len: usize, client: Spot, change: &mut Change) -> usize {
    let len = segment.len();
    for at in option_places(&segment[..header_len]).1..header_len {
        change.put8(segment, at, NO_OPERATION);
    }
    let (v4, v6);
    let address: &[u8] = match client.ip() {
        IpAddr::V4(ip) => {
            v4 = ip.octets();
            &v4
        }
        IpAddr::V6(ip) => {
            v6 = ip.octets();
            &v6
        }
    };
    let toa_len = TOA_HEAD + address.len();
    debug_assert!(header_len + toa_len <= len);
    // What stood there is payload, which has already been copied behind it.
    let option = &mut segment[header_len..header_len + toa_len];
    option[..2].copy_from_slice(&[TOA, toa_len as u8]);
    option[2..TOA_HEAD].copy_from_slice(&client.port.to_be_bytes());
    option[TOA_HEAD..].copy_from_slice(address);
    change.add(checksum::sum(option));
    // The pseudo header has the length.
    change.add(toa_len as u64);
    let offset = ((header_len + toa_len) / 4) as u8;
    let first = segment[12] & 0x0f | offset << 4;
    change.put8(segment, 12, first);
    toa_len
}

fn withdraw_sack(header: &mut [u8], change: &mut Change) {
    // Nothing forbids it to stand there twice.
    while let Some(at) = option_places(header).0 {
        change.put8(header, at, NO_OPERATION);
        change.put8(header, at + 1, NO_OPERATION);
    }
}

/// Where SACK-permitted is among the options of `header`, if it is there, and where the
/// options end.
fn option_places(header: &[u8]) -> (Option<usize>, usize) {
    let (mut at, mut sack) = (tcp::HEADER_LEN, None);
    while let Some(&kind) = header.get(at) {
        match (kind, header.get(at + 1)) {
            (END_OF_OPTIONS, _) => return (sack, at),
            (NO_OPERATION, _) => at += 1,
            (_, Some(&len)) if len >= 2 && at + usize::from(len) <= header.len() => {
                if [kind, len] == SACK_PERMITTED {
                    sack = Some(at);
                }
                at += usize::from(len);
            }
            // Malformed: what follows is no option.
            _ => return (sack, at),
        }
    }
    (sack, at)
}

/// What is added to the ones' complement of a checksum (RFC 1624 section 3, equation 3).
#[derive(Debug, Clone, Copy, Default)]
struct Change(u64);

impl Change {
    #[inline(always)]
    fn add(&mut self, sum: u64) {
        self.0 += sum;
    }

    #[inline(always)]
    fn put16(&mut self, place: &mut [u8], new: u16) {
        let old = u16::from_be_bytes([place[0], place[1]]);
        self.0 += u64::from(!old) + u64::from(new);
        place.copy_from_slice(&new.to_be_bytes());
    }

    #[inline(always)]
    fn put32(&mut self, place: &mut [u8], new: u32) {
        let old = u32::from_be_bytes([place[0], place[1], place[2], place[3]]);
        self.0 += u64::from(!old) + u64::from(new);
        place.copy_from_slice(&new.to_be_bytes());
    }

    fn put128(&mut self, place: &mut [u8], new: u128) {
        let words = [new >> 96, new >> 64, new >> 32, new];
        for (word, place) in words.into_iter().zip(place.chunks_exact_mut(4)) {
            self.put32(place, word as u32);
        }
    }

    /// The byte at `at` of what the checksum covers from its beginning.
    #[inline(always)]
    fn put8(&mut self, covered: &mut [u8], at: usize, new: u8) {
        let word = |byte: u8| u16::from(byte) << if at.is_multiple_of(2) { 8 } else { 0 };
        self.0 += u64::from(!word(covered[at])) + u64::from(word(new));
        covered[at] = new;
    }

    #[inline(always)]
    fn finish(self, place: &mut [u8]) {
        let check = u16::from_be_bytes([place[0], place[1]]);
        let new = checksum::finish(u64::from(!check) + self.0);
        place.copy_from_slice(&new.to_be_bytes());
    }
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
