//! The headers of a captured frame.

use crate::layout::{Kind, Layout};
use pinchpoint_wire::{
    arp, esp, ethernet, geneve, gre, gtpu, icmp, icmpv6, ipv4, ipv6, mpls, nsh, pppoe, tcp, udp,
    vlan, vxlan,
};

/// Headers in a frame at most; what is further inside is payload.
const MAX_HEADERS: usize = 32;

/// What comes next, by the number that announces it.
#[derive(Clone, Copy)]
enum Next {
    Ethernet,
    EtherType(u16),
    Protocol(u8),
    UdpPort(u16),
    Nothing,
}

/// The headers of `frame`, as far as they are known and well formed; its
/// other bytes are payload.
pub(crate) fn dissect(frame: &[u8]) -> Layout {
    let mut layout = Layout::new(frame.to_vec());
    let mut next = Next::Ethernet;
    while layout.headers.len() < MAX_HEADERS {
        let rest = &frame[layout.headers_len..];
        let found = match next {
            Next::Ethernet => ethernet_header(rest),
            Next::EtherType(ethertype) => behind_ethertype(ethertype, rest),
            Next::Protocol(protocol) => behind_protocol(protocol, rest),
            Next::UdpPort(port) => behind_udp(port, rest),
            Next::Nothing => None,
        };
        let Some(found) = found else {
            break;
        };
        let at = layout.headers_len;
        layout.note_until(found.kind, at, at + found.len, found.with_check);
        next = found.next;
    }
    layout
}

struct Found {
    kind: Kind,
    len: usize,
    with_check: bool,
    next: Next,
}

impl Found {
    fn new(kind: Kind, len: usize, next: Next) -> Self {
        Self {
            kind,
            len,
            with_check: true,
            next,
        }
    }
}

fn ethernet_header(rest: &[u8]) -> Option<Found> {
    let bytes = rest.first_chunk::<{ ethernet::HEADER_LEN }>()?;
    let ethertype = u16::from_be_bytes([bytes[12], bytes[13]]);
    Some(Found::new(
        Kind::Eth,
        ethernet::HEADER_LEN,
        Next::EtherType(ethertype),
    ))
}

fn behind_ethertype(ethertype: u16, rest: &[u8]) -> Option<Found> {
    match ethertype {
        tpid if vlan::is_tpid(tpid) => {
            let bytes = rest.first_chunk::<{ vlan::LEN }>()?;
            let next = Next::EtherType(u16::from_be_bytes([bytes[2], bytes[3]]));
            Some(Found::new(Kind::Vlan, vlan::LEN, next))
        }
        ethernet::ETHERTYPE_ARP => {
            arp::Packet::new_checked(rest).ok()?;
            Some(Found::new(Kind::Arp, arp::LEN, Next::Nothing))
        }
        ethernet::ETHERTYPE_IPV4 => ipv4_header(rest),
        ethernet::ETHERTYPE_IPV6 => ipv6_header(rest),
        ethernet::ETHERTYPE_BRIDGED => ethernet_header(rest),
        ethernet::ETHERTYPE_MPLS => {
            let (entry, packet) = rest.split_first_chunk::<{ mpls::LEN }>()?;
            let next = if mpls::Entry::parse(entry).bottom {
                announced(ethernet::ip_ethertype(packet))
            } else {
                Next::EtherType(ethertype)
            };
            Some(Found::new(Kind::Mpls, mpls::LEN, next))
        }
        ethernet::ETHERTYPE_PPPOE => {
            let session = pppoe::Packet::new_checked(rest).ok()?;
            let next = announced(session.ethertype());
            Some(Found::new(Kind::Pppoe, pppoe::HEADER_LEN, next))
        }
        ethernet::ETHERTYPE_NSH => {
            let service = nsh::Packet::new_checked(rest).ok()?;
            let next = announced(service.ethertype());
            Some(Found::new(Kind::Nsh, service.header_len(), next))
        }
        _ => None,
    }
}

fn announced(ethertype: Option<u16>) -> Next {
    ethertype.map_or(Next::Nothing, Next::EtherType)
}

fn ipv4_header(rest: &[u8]) -> Option<Found> {
    let packet = ipv4::Packet::new_checked(rest).ok()?;
    let next = if packet.is_fragment() {
        Next::Nothing
    } else {
        Next::Protocol(packet.protocol())
    };
    Some(Found::new(Kind::Ipv4, packet.header_len(), next))
}

fn ipv6_header(rest: &[u8]) -> Option<Found> {
    let packet = ipv6::Packet::new_checked(rest).ok()?;
    let next = if packet.is_fragment() || packet.final_dst().is_none() {
        Next::Nothing
    } else {
        Next::Protocol(packet.protocol())
    };
    Some(Found::new(Kind::Ipv6, packet.header_len(), next))
}

fn behind_protocol(protocol: u8, rest: &[u8]) -> Option<Found> {
    match protocol {
        ipv4::PROTOCOL_UDP => {
            let datagram = udp::Datagram::new_checked(rest).ok()?;
            let next = Next::UdpPort(datagram.dst());
            let mut found = Found::new(Kind::Udp, udp::HEADER_LEN, next);
            found.with_check = datagram.has_checksum();
            Some(found)
        }
        ipv4::PROTOCOL_TCP => {
            let segment = tcp::Segment::new_checked(rest).ok()?;
            Some(Found::new(Kind::Tcp, segment.header_len(), Next::Nothing))
        }
        ipv4::PROTOCOL_ICMP => {
            icmp::Message::new_checked(rest).ok()?;
            Some(Found::new(Kind::Icmp, icmp::HEADER_LEN, Next::Nothing))
        }
        ipv4::PROTOCOL_ICMPV6 => {
            icmpv6::Message::new_checked(rest).ok()?;
            Some(Found::new(Kind::Icmpv6, icmpv6::HEADER_LEN, Next::Nothing))
        }
        ipv4::PROTOCOL_GRE => {
            let tunnel = gre::Packet::new_checked(rest).ok()?;
            let next = Next::EtherType(tunnel.protocol());
            Some(Found::new(Kind::Gre, tunnel.header_len(), next))
        }
        ipv4::PROTOCOL_ESP => {
            esp::Header::parse(rest).ok()?;
            Some(Found::new(Kind::Esp, esp::HEADER_LEN, Next::Nothing))
        }
        ipv4::PROTOCOL_IPV4 => ipv4_header(rest),
        ipv4::PROTOCOL_IPV6 => ipv6_header(rest),
        _ => None,
    }
}

fn behind_udp(port: u16, rest: &[u8]) -> Option<Found> {
    match port {
        vxlan::PORT => {
            vxlan::Packet::new_checked(rest).ok()?;
            Some(Found::new(Kind::Vxlan, vxlan::HEADER_LEN, Next::Ethernet))
        }
        geneve::PORT => {
            let tunnel = geneve::Packet::new_checked(rest).ok()?;
            // Anything is a Geneve header; only a known payload makes it one.
            behind_ethertype(tunnel.protocol(), tunnel.payload())?;
            let next = Next::EtherType(tunnel.protocol());
            Some(Found::new(Kind::Geneve, tunnel.header_len(), next))
        }
        gtpu::PORT => {
            let tunnel = gtpu::Packet::new_checked(rest).ok()?;
            // As of Geneve.
            behind_ethertype(tunnel.ethertype()?, tunnel.payload())?;
            let next = announced(tunnel.ethertype());
            Some(Found::new(Kind::Gtpu, tunnel.header_len(), next))
        }
        _ => None,
    }
}
