//! IPv6 (RFC 8200) with extension headers.

use crate::{Malformed, be16, be32, front};
use core::net::Ipv6Addr;

/// Bytes of a header without extensions.
pub const HEADER_LEN: usize = 40;
/// Next header value of hop-by-hop options (RFC 8200 section 4.3).
pub const HOP_BY_HOP: u8 = 0;
/// Next header value of a routing header (RFC 8200 section 4.4).
pub const ROUTING: u8 = 43;
/// Next header value of a fragment header (RFC 8200 section 4.5).
pub const FRAGMENT: u8 = 44;
/// Next header value of destination options (RFC 8200 section 4.6).
pub const DESTINATION: u8 = 60;
/// Next header value of nothing (RFC 8200 section 4.7).
pub const NO_NEXT_HEADER: u8 = 59;

/// Whether a next header value is one of the four above.
#[inline]
pub const fn is_extension(next_header: u8) -> bool {
    matches!(next_header, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION)
}

/// An extension header as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Its own next header value: the one that announces it.
    pub kind: u8,
    /// What follows its next header and length bytes: 8n + 6 bytes, at most
    /// 2,046; of a fragment header 6.
    pub body: &'a [u8],
}

impl<'a> Extension<'a> {
    /// The extension of the given kind at the start of `bytes`, and what kind
    /// of header follows.
    ///
    /// # Errors
    /// [`Malformed`] if it does not fit.
    pub fn parse(kind: u8, bytes: &'a [u8]) -> Result<(Self, u8), Malformed> {
        let (head, _) = bytes.split_first_chunk::<2>().ok_or(Malformed)?;
        let units = if kind == FRAGMENT { 0 } else { head[1] };
        let len = 8 + usize::from(units) * 8;
        let body = bytes.get(2..len).ok_or(Malformed)?;
        Ok((Self { kind, body }, head[0]))
    }

    /// Bytes of the extension.
    pub fn header_len(&self) -> usize {
        2 + self.body.len()
    }

    /// Writes the extension, followed by a header of kind `next`, into the
    /// front of `out`.
    ///
    /// # Errors
    /// [`Malformed`] if `out` is too short or the body has no length that an
    /// extension can have.
    pub fn emit(&self, next: u8, out: &mut [u8]) -> Result<(), Malformed> {
        let len = self.header_len();
        let max = if self.kind == FRAGMENT { 8 } else { 2048 };
        if !len.is_multiple_of(8) || !(8..=max).contains(&len) {
            return Err(Malformed);
        }
        let out = front(out, len)?;
        out[0] = next;
        out[1] = (len / 8 - 1) as u8;
        out[2..].copy_from_slice(self.body);
        Ok(())
    }

    /// Whether this announces one fragment of several.
    fn is_part(&self) -> bool {
        // Offset and the "more" flag; two reserved bits between them.
        self.kind == FRAGMENT && be16(self.body, 0) & 0xfff9 != 0
    }

    /// Whether this announces a fragment that does not begin with a header.
    fn is_later_part(&self) -> bool {
        self.kind == FRAGMENT && be16(self.body, 0) & 0xfff8 != 0
    }

    /// Of a routing header with segments left, where the packet ends up; none
    /// of a type that is not known.
    fn last_stop(&self) -> Option<Ipv6Addr> {
        let [kind, _, rest @ ..] = self.body else {
            return None;
        };
        let addresses = rest.get(4..)?.as_chunks::<16>().0;
        let last = match kind {
            0 => addresses.last(),      // RFC 2460, in order
            2 | 4 => addresses.first(), // RFC 6275, one; RFC 8754, in reverse
            _ => None,
        };
        last.map(|octets| Ipv6Addr::from(*octets))
    }
}

/// View of a packet, cut at its payload length (Ethernet padding removed),
/// past its extension headers.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    payload_at: usize,
    protocol: u8,
    fragment: bool,
    final_dst: Option<Ipv6Addr>,
}

impl<'a> Packet<'a> {
    /// A view of the packet at the start of `bytes`. Behind a fragment header
    /// that is not the first fragment's, nothing is read.
    ///
    /// # Errors
    /// [`Malformed`] if the version is not 6, or the header, an extension or
    /// the payload length does not fit.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN || bytes[0] >> 4 != 6 {
            return Err(Malformed);
        }
        let len = HEADER_LEN + usize::from(be16(bytes, 4));
        let bytes = bytes.get(..len).ok_or(Malformed)?;
        let mut packet = Self {
            bytes,
            payload_at: HEADER_LEN,
            protocol: bytes[6],
            fragment: false,
            final_dst: None,
        };
        packet.final_dst = Some(packet.dst());
        if is_extension(packet.protocol) {
            packet.skip_extensions()?;
        }
        Ok(packet)
    }

    fn skip_extensions(&mut self) -> Result<(), Malformed> {
        while is_extension(self.protocol) {
            let rest = &self.bytes[self.payload_at..];
            let (extension, next) = Extension::parse(self.protocol, rest)?;
            self.payload_at += extension.header_len();
            self.protocol = next;
            self.fragment |= extension.is_part();
            // The second byte of a routing header's body: segments left.
            if extension.kind == ROUTING && extension.body[1] > 0 {
                self.final_dst = extension.last_stop();
            }
            if extension.is_later_part() {
                break;
            }
        }
        Ok(())
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Ipv6Addr {
        self.address(8)
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Ipv6Addr {
        self.address(24)
    }

    #[inline(always)]
    fn address(&self, at: usize) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.bytes[at..at + 16]);
        Ipv6Addr::from(octets)
    }

    /// The destination that pseudo headers are made with: the last one of a
    /// routing header with segments left (RFC 8200 section 8.1). None if that
    /// header's type is not known.
    #[inline]
    pub fn final_dst(&self) -> Option<Ipv6Addr> {
        self.final_dst
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.bytes[7]
    }

    /// Traffic class: differentiated services code point and congestion bits.
    pub fn traffic_class(&self) -> u8 {
        (be16(self.bytes, 0) >> 4) as u8
    }

    /// Flow label; 20 bits.
    pub fn flow_label(&self) -> u32 {
        be32(self.bytes, 0) & 0x000f_ffff
    }

    /// Next header value of the fixed header.
    pub fn next_header(&self) -> u8 {
        self.bytes[6]
    }

    /// Protocol number of the payload, behind the extensions.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The extensions in their order.
    pub fn extensions(&self) -> impl Iterator<Item = Extension<'a>> {
        let mut rest = &self.bytes[HEADER_LEN..self.payload_at];
        let mut kind = self.next_header();
        core::iter::from_fn(move || {
            let (extension, next) = Extension::parse(kind, rest).ok()?;
            rest = &rest[extension.header_len()..];
            kind = next;
            Some(extension)
        })
    }

    /// Bytes of header and extensions.
    pub fn header_len(&self) -> usize {
        self.payload_at
    }

    /// Whether this is one fragment of a larger packet.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.fragment
    }

    /// What follows header and extensions, up to the payload length.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.payload_at..]
    }
}

/// A header as a value; its extensions are written by [`Extension::emit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label; 20 bits.
    pub flow_label: u32,
    /// Kind of the header that follows, which may be an extension's.
    pub next_header: u8,
    /// Bytes after the header, extensions included.
    pub payload_len: u16,
}

impl Header {
    /// Reads the value back.
    pub fn parse(packet: &Packet<'_>) -> Self {
        Self {
            src: packet.src(),
            dst: packet.dst(),
            hop_limit: packet.hop_limit(),
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            next_header: packet.next_header(),
            payload_len: (packet.bytes.len() - HEADER_LEN) as u16,
        }
    }

    /// Writes the header; the flow label is cut to 20 bits.
    pub fn emit(&self, out: &mut [u8; HEADER_LEN]) {
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0x000f_ffff;
        out[..4].copy_from_slice(&first.to_be_bytes());
        out[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        out[6] = self.next_header;
        out[7] = self.hop_limit;
        out[8..24].copy_from_slice(&self.src.octets());
        out[24..].copy_from_slice(&self.dst.octets());
    }
}

#[cfg(test)]
#[path = "ipv6_tests.rs"]
mod tests;
