//! Where the headers of a frame stand, and which of their fields follow from
//! the rest of the frame: lengths and checksums.

use pinchpoint_wire::{checksum, gtpu, ipv4, ipv6, pppoe};
use std::ops::Range;

/// Added to the sum of a checksum that is to be wrong: any number that is no
/// multiple of 65,535.
const WRONG: u64 = 0x5a5a;

/// Checksums that are to be wrong, always by the same difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wrong {
    /// Those of all IPv4 headers.
    pub ipv4: bool,
    /// Those of all UDP, TCP, ICMP and ICMPv6 headers that have one.
    pub l4: bool,
}

/// A kind of header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Eth,
    Vlan,
    Arp,
    Ipv4,
    Ipv6,
    Udp,
    Tcp,
    Icmp,
    Icmpv6,
    Vxlan,
    Geneve,
    Gre,
    Mpls,
    Pppoe,
    Gtpu,
    Nsh,
    Esp,
}

impl Kind {
    /// The word for it in keys and fields.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Eth => "eth",
            Self::Vlan => "vlan",
            Self::Arp => "arp",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Icmp => "icmp",
            Self::Icmpv6 => "icmpv6",
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Gre => "gre",
            Self::Mpls => "mpls",
            Self::Pppoe => "pppoe",
            Self::Gtpu => "gtpu",
            Self::Nsh => "nsh",
            Self::Esp => "esp",
        }
    }

    /// Whether it may stand behind a header, or first.
    pub(crate) fn may_follow(self, before: Option<Self>) -> bool {
        use Kind::{
            Eth, Geneve, Gre, Gtpu, Icmp, Ipv4, Ipv6, Mpls, Nsh, Pppoe, Tcp, Udp, Vlan, Vxlan,
        };
        let Some(before) = before else {
            return self == Eth;
        };
        match self {
            Eth => matches!(before, Vxlan | Geneve | Gre | Nsh),
            Vlan | Pppoe | Self::Arp => matches!(before, Eth | Vlan),
            Mpls => matches!(before, Eth | Vlan | Gre | Mpls),
            Nsh => matches!(before, Eth | Vlan | Gre),
            Ipv4 | Ipv6 => matches!(
                before,
                Eth | Vlan | Geneve | Gre | Ipv4 | Ipv6 | Mpls | Pppoe | Gtpu | Nsh
            ),
            Udp | Tcp | Gre | Self::Esp => matches!(before, Ipv4 | Ipv6),
            Icmp => before == Ipv4,
            Self::Icmpv6 => before == Ipv6,
            Vxlan | Geneve | Gtpu => before == Udp,
        }
    }
}

/// One header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Its first byte.
    pub(crate) at: usize,
}

/// A 16-bit field that says how many bytes there are from `from` to the end of
/// the frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    pub(crate) at: usize,
    pub(crate) from: usize,
}

/// What a checksum belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Ipv4,
    Udp,
    /// TCP and ICMPv6: never all zero, thanks to the pseudo header.
    Transport,
    Icmp,
    Gre,
}

/// The addresses and the protocol of a pseudo header.
#[derive(Debug, Clone)]
struct Pseudo {
    src: Range<usize>,
    dst: Range<usize>,
    protocol: u8,
}

/// A checksum field.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    pub(crate) at: usize,
    owner: Owner,
    from: usize,
    /// The end of what it covers; none: the end of the frame.
    to: Option<usize>,
    pseudo: Option<Pseudo>,
}

impl Check {
    /// Unfolded sum of all it covers in `frame`, itself being zero.
    fn sum(&self, frame: &[u8], wrong: Wrong) -> u64 {
        let covered = &frame[self.from..self.to.unwrap_or(frame.len())];
        let pseudo = self.pseudo.as_ref().map_or(0, |pseudo| {
            checksum::sum(&frame[pseudo.src.clone()])
                + checksum::sum(&frame[pseudo.dst.clone()])
                + u64::from(pseudo.protocol)
                + covered.len() as u64
        });
        let is_wrong = match self.owner {
            Owner::Ipv4 => wrong.ipv4,
            Owner::Udp | Owner::Transport | Owner::Icmp => wrong.l4,
            Owner::Gre => false,
        };
        checksum::sum(covered) + pseudo + if is_wrong { WRONG } else { 0 }
    }

    /// Whether it is right for `frame` as it is.
    #[cfg(test)]
    pub(crate) fn is_right(&self, frame: &[u8]) -> bool {
        // What is right sums to zero, whose other form is 0xffff.
        checksum::fold(self.sum(frame, Wrong::default())) == 0xffff
    }

    /// Whether zero is written as its equal, 0xffff: for UDP because zero
    /// means "none" (RFC 768); for ICMP and GRE because what they cover may be
    /// nothing but zeros, whose checksum is 0xffff, and the two cannot be distinguished
    /// by a sum that was updated (RFC 1624 section 3).
    pub(crate) fn avoids_zero(&self) -> bool {
        matches!(self.owner, Owner::Udp | Owner::Icmp | Owner::Gre)
    }

    /// Whether it is an IPv4 header's.
    pub(crate) fn is_ipv4(&self) -> bool {
        self.owner == Owner::Ipv4
    }

    /// Whether it is a transport protocol's.
    pub(crate) fn is_l4(&self) -> bool {
        !matches!(self.owner, Owner::Ipv4 | Owner::Gre)
    }
}

/// The headers of a frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    /// The headers' bytes, and any payload behind them.
    pub(crate) bytes: Vec<u8>,
    /// The outermost first.
    pub(crate) headers: Vec<Header>,
    pub(crate) lengths: Vec<Length>,
    /// The outermost first.
    pub(crate) checks: Vec<Check>,
    /// Where the last header ends.
    pub(crate) headers_len: usize,
    /// The pseudo header of what the last IP header carries.
    pseudo: Option<Pseudo>,
}

impl Layout {
    /// A frame of which no header is known yet.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// Takes note of the last header in `bytes`, which begins at `at` and ends
    /// where they end.
    pub(crate) fn note(&mut self, kind: Kind, at: usize, with_check: bool) {
        self.note_until(kind, at, self.bytes.len(), with_check);
    }

    /// Takes note of the header from `at` to `end`; `with_check`: it has a
    /// checksum if its kind has.
    pub(crate) fn note_until(&mut self, kind: Kind, at: usize, end: usize, with_check: bool) {
        self.headers.push(Header { kind, at });
        self.headers_len = end;
        match kind {
            Kind::Ipv4 => {
                self.lengths.push(Length {
                    at: at + 2,
                    from: at,
                });
                self.check(Owner::Ipv4, at, 10, Some(end), None);
                self.pseudo = Some(Pseudo {
                    src: at + 12..at + 16,
                    dst: at + 16..at + 20,
                    protocol: 0,
                });
            }
            Kind::Ipv6 => {
                let from = at + ipv6::HEADER_LEN;
                self.lengths.push(Length { at: at + 4, from });
                self.pseudo = Some(Pseudo {
                    src: at + 8..at + 24,
                    dst: self.final_dst(at, end),
                    protocol: 0,
                });
            }
            Kind::Udp => {
                self.lengths.push(Length {
                    at: at + 4,
                    from: at,
                });
                if with_check {
                    self.check(Owner::Udp, at, 6, None, Some(ipv4::PROTOCOL_UDP));
                }
            }
            Kind::Tcp => self.check(Owner::Transport, at, 16, None, Some(ipv4::PROTOCOL_TCP)),
            Kind::Icmp => self.check(Owner::Icmp, at, 2, None, None),
            Kind::Icmpv6 => self.check(Owner::Transport, at, 2, None, Some(ipv4::PROTOCOL_ICMPV6)),
            // The first bit announces a checksum (RFC 2784 section 2.1).
            Kind::Gre if self.bytes[at] & 0x80 != 0 => self.check(Owner::Gre, at, 4, None, None),
            Kind::Pppoe => self.lengths.push(Length {
                at: at + 4,
                from: at + pppoe::LENGTH_FROM,
            }),
            Kind::Gtpu => self.lengths.push(Length {
                at: at + 2,
                from: at + gtpu::HEADER_LEN,
            }),
            _ => {}
        }
    }

    fn check(
        &mut self,
        owner: Owner,
        from: usize,
        offset: usize,
        to: Option<usize>,
        protocol: Option<u8>,
    ) {
        let pseudo = self.pseudo.clone().zip(protocol);
        let pseudo = pseudo.map(|(pseudo, protocol)| Pseudo { protocol, ..pseudo });
        self.checks.push(Check {
            at: from + offset,
            owner,
            from,
            to,
            pseudo,
        });
    }

    /// Where the address stands that a pseudo header takes as destination: in
    /// the header at `at`, or in an extension before `end` (RFC 8200 section
    /// 8.1).
    fn final_dst(&self, at: usize, end: usize) -> Range<usize> {
        let plain = at + 24..at + 40;
        let mut packet = self.bytes[at..end].to_vec();
        packet[4..6].copy_from_slice(&((end - at - ipv6::HEADER_LEN) as u16).to_be_bytes());
        let Ok(view) = ipv6::Packet::new_checked(&packet) else {
            return plain;
        };
        let Some(last) = view.final_dst().filter(|last| *last != view.dst()) else {
            return plain;
        };
        let octets = last.octets();
        let extensions = &self.bytes[at + ipv6::HEADER_LEN..end];
        let found = extensions.windows(16).rposition(|window| window == octets);
        found.map_or(plain, |found| {
            let from = at + ipv6::HEADER_LEN + found;
            from..from + 16
        })
    }

    /// The header number `layer` of a kind.
    pub(crate) fn header(&self, kind: Kind, layer: usize) -> Option<Header> {
        let mut same = self.headers.iter().filter(|header| header.kind == kind);
        same.nth(layer).copied()
    }

    /// Makes lengths and checksums fit a frame that begins with these headers;
    /// returns the unfolded sums that the checksums were made from, in the
    /// order of `checks`.
    pub(crate) fn finish(&self, frame: &mut [u8], wrong: Wrong) -> Vec<u64> {
        for length in &self.lengths {
            let len = (frame.len() - length.from) as u16;
            frame[length.at..length.at + 2].copy_from_slice(&len.to_be_bytes());
        }
        for check in &self.checks {
            frame[check.at..check.at + 2].fill(0);
        }
        let mut sums = vec![0; self.checks.len()];
        // An outer checksum covers the inner ones.
        for (check, sum) in self.checks.iter().zip(&mut sums).rev() {
            *sum = check.sum(frame, wrong);
            let bytes = finish(check.avoids_zero(), *sum).to_be_bytes();
            frame[check.at..check.at + 2].copy_from_slice(&bytes);
        }
        sums
    }
}

/// The checksum of an unfolded sum.
#[inline(always)]
pub(crate) fn finish(avoids_zero: bool, sum: u64) -> u16 {
    let check = checksum::finish(sum);
    if avoids_zero && check == 0 {
        0xffff
    } else {
        check
    }
}
