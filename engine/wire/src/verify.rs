//! Whether the checksums inside a frame are right.

use crate::checksum::Address;
use crate::{
    ethernet, geneve, gre, gtpu, icmp, icmpv6, ipv4, ipv6, mpls, nsh, pppoe, tcp, udp, vxlan,
};

/// Headers that may be nested in tunnels before one is taken on trust.
const MAX_DEPTH: usize = 4;

/// False if a checksum of `frame` is wrong or its lengths do not fit.
///
/// Looked at are the IPv4 header, UDP, TCP, ICMP and ICMPv6 in packets that
/// are no fragments, and, where all these are right, the same inside VXLAN,
/// Geneve and GTP-U on their ports, GRE and IP in IP, and behind MPLS labels,
/// PPPoE and network service headers, four deep. Other protocols, and UDP
/// without a checksum, pass: there is nothing to verify. So does what comes to
/// a tunnel's port without being that tunnel's.
#[inline]
pub fn checksums_right(frame: &[u8]) -> bool {
    ethernet_right(frame, MAX_DEPTH)
}

#[inline(always)]
fn ethernet_right(frame: &[u8], depth: usize) -> bool {
    let Ok(frame) = ethernet::Frame::new_checked(frame) else {
        return false;
    };
    match frame.ethertype() {
        ethernet::ETHERTYPE_IPV4 => ipv4_right(frame.payload(), depth),
        ethernet::ETHERTYPE_IPV6 => ipv6_right(frame.payload(), depth),
        other => shim_right(other, frame.payload(), depth),
    }
}

/// The same behind headers between Ethernet and IP.
#[inline(never)]
fn shim_right(ethertype: u16, payload: &[u8], depth: usize) -> bool {
    let known = match ethertype {
        ethernet::ETHERTYPE_MPLS => mpls::behind(payload)
            .and_then(|packet| ethernet::ip_ethertype(packet).zip(Some(packet))),
        ethernet::ETHERTYPE_PPPOE => {
            let session = pppoe::Packet::new_checked(payload).ok();
            session.and_then(|session| session.ethertype().zip(Some(session.payload())))
        }
        ethernet::ETHERTYPE_NSH => {
            let service = nsh::Packet::new_checked(payload).ok();
            service.and_then(|service| service.ethertype().zip(Some(service.payload())))
        }
        _ => None,
    };
    known.is_none_or(|(ethertype, payload)| inside(ethertype, payload, depth))
}

#[inline(always)]
fn ipv4_right(bytes: &[u8], depth: usize) -> bool {
    let Ok(packet) = ipv4::Packet::new_checked(bytes) else {
        return false;
    };
    if !packet.verify_checksum() {
        return false;
    }
    if packet.is_fragment() {
        return true;
    }
    let payload = packet.payload();
    match packet.protocol() {
        ipv4::PROTOCOL_UDP => udp_right(payload, packet.src(), packet.dst(), depth),
        ipv4::PROTOCOL_ICMP => {
            icmp::Message::new_checked(payload).is_ok_and(|message| message.verify_checksum())
        }
        protocol => other_right(protocol, payload, packet.src(), packet.dst(), depth),
    }
}

#[inline(never)]
fn ipv6_right(bytes: &[u8], depth: usize) -> bool {
    let Ok(packet) = ipv6::Packet::new_checked(bytes) else {
        return false;
    };
    let (false, Some(dst)) = (packet.is_fragment(), packet.final_dst()) else {
        return true;
    };
    let (src, payload) = (packet.src(), packet.payload());
    match packet.protocol() {
        ipv4::PROTOCOL_UDP => {
            // Without checksum only tunnels may go (RFC 6935).
            udp::Datagram::new_checked(payload)
                .is_ok_and(|datagram| datagram.has_checksum() || is_tunnel(&datagram))
                && udp_right(payload, src, dst, depth)
        }
        ipv4::PROTOCOL_ICMPV6 => icmpv6::Message::new_checked(payload)
            .is_ok_and(|message| message.verify_checksum(src, dst)),
        protocol => other_right(protocol, payload, src, dst, depth),
    }
}

#[inline(always)]
fn udp_right<A: Address>(payload: &[u8], src: A, dst: A, depth: usize) -> bool {
    let Ok(datagram) = udp::Datagram::new_checked(payload) else {
        return false;
    };
    datagram.verify_checksum(src, dst) && (!is_tunnel(&datagram) || tunnel_right(&datagram, depth))
}

#[inline(always)]
fn is_tunnel(datagram: &udp::Datagram<'_>) -> bool {
    matches!(datagram.dst(), vxlan::PORT | geneve::PORT | gtpu::PORT)
}

#[inline(never)]
fn tunnel_right(datagram: &udp::Datagram<'_>, depth: usize) -> bool {
    let payload = datagram.payload();
    if datagram.dst() == vxlan::PORT {
        return vxlan::Packet::new_checked(payload).map_or(true, |tunnel| {
            !tunnel.is_plain() || inside(ethernet::ETHERTYPE_BRIDGED, tunnel.payload(), depth)
        });
    }
    if datagram.dst() == gtpu::PORT {
        let tunnel = gtpu::Packet::new_checked(payload).ok();
        let known = tunnel.and_then(|tunnel| tunnel.ethertype().zip(Some(tunnel.payload())));
        return known.is_none_or(|(ethertype, payload)| inside(ethertype, payload, depth));
    }
    geneve::Packet::new_checked(payload).map_or(true, |tunnel| {
        inside(tunnel.protocol(), tunnel.payload(), depth)
    })
}

#[inline(never)]
fn other_right<A: Address>(protocol: u8, payload: &[u8], src: A, dst: A, depth: usize) -> bool {
    match protocol {
        ipv4::PROTOCOL_TCP => tcp::Segment::new_checked(payload)
            .is_ok_and(|segment| segment.verify_checksum(src, dst)),
        ipv4::PROTOCOL_GRE => gre::Packet::new_checked(payload).map_or(true, |tunnel| {
            tunnel.verify_checksum() && inside(tunnel.protocol(), tunnel.payload(), depth)
        }),
        ipv4::PROTOCOL_IPV4 => inside(ethernet::ETHERTYPE_IPV4, payload, depth),
        ipv4::PROTOCOL_IPV6 => inside(ethernet::ETHERTYPE_IPV6, payload, depth),
        _ => true,
    }
}

/// The same one tunnel deeper.
fn inside(ethertype: u16, payload: &[u8], depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return true;
    };
    match ethertype {
        ethernet::ETHERTYPE_BRIDGED => ethernet_right(payload, depth),
        ethernet::ETHERTYPE_IPV4 => ipv4_right(payload, depth),
        ethernet::ETHERTYPE_IPV6 => ipv6_right(payload, depth),
        other => shim_right(other, payload, depth),
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
