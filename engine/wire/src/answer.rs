//! Answers to those who ask where an address is: ARP replies (RFC 826) and
//! neighbour advertisements (RFC 4861 section 7.2.4).

use crate::ethernet::{self, Frame, Mac};
use crate::icmpv6::{self, Neighbour};
use crate::{FCS_LEN, arp, ipv4, ipv6};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the longest answer: a neighbour advertisement behind two tags.
pub const MAX_LEN: usize = ethernet::HEADER_LEN + 8 + ipv6::HEADER_LEN + icmpv6::NEIGHBOUR_LEN;
const MIN_LEN: usize = 64 - FCS_LEN;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Neighbour messages must not have been forwarded (RFC 4861 section 7.1.1).
const HOP_LIMIT: u8 = 255;

/// The address that `frame` asks for, if it is an ARP request or a neighbour
/// solicitation; whether it is a proper one, [`reply`] finds out.
#[inline]
pub fn target(frame: &[u8]) -> Option<IpAddr> {
    let view = Frame::new_checked(frame).ok()?;
    match view.ethertype() {
        ethernet::ETHERTYPE_ARP => {
            let question = arp::Packet::new_checked(view.payload()).ok()?;
            let asks = question.operation() == arp::REQUEST;
            asks.then(|| question.target_ip().into())
        }
        ethernet::ETHERTYPE_IPV6 => {
            let packet = ipv6::Packet::new_checked(view.payload()).ok()?;
            if packet.protocol() != ipv4::PROTOCOL_ICMPV6 || packet.hop_limit() != HOP_LIMIT {
                return None;
            }
            let message = icmpv6::Message::new_checked(packet.payload()).ok()?;
            match Neighbour::parse(&message) {
                Ok(Neighbour::Solicitation { target, .. }) => Some(target.into()),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Writes into `out` (at least [`MAX_LEN`] bytes) the frame that answers
/// `frame`, if that asks for the address `own.0`, which is at `own.1`; returns
/// the answer's bytes, without check sequence. VLAN tags are kept.
///
/// None if there is nothing to answer, if the question is malformed or comes
/// from `own.1` itself, or if `out` is too short.
pub fn reply(frame: &[u8], own: (IpAddr, Mac), out: &mut [u8]) -> Option<usize> {
    let view = Frame::new_checked(frame).ok()?;
    let (address, mac) = own;
    if view.src() == mac || out.len() < MAX_LEN {
        return None;
    }
    let header_len = view.header_len();
    out[..header_len].copy_from_slice(&frame[..header_len]);
    let (front, body) = out.split_at_mut(header_len);
    let (to, body_len) = match (view.ethertype(), address) {
        (ethernet::ETHERTYPE_ARP, IpAddr::V4(address)) => {
            arp_reply(view.payload(), address, mac, body)?
        }
        (ethernet::ETHERTYPE_IPV6, IpAddr::V6(address)) => {
            advertisement(&view, address, mac, body)?
        }
        _ => return None,
    };
    front[..6].copy_from_slice(&to.0);
    front[6..12].copy_from_slice(&mac.0);
    let len = header_len + body_len;
    if len < MIN_LEN {
        out[len..MIN_LEN].fill(0);
    }
    Some(len.max(MIN_LEN))
}

fn arp_reply(question: &[u8], address: Ipv4Addr, mac: Mac, out: &mut [u8]) -> Option<(Mac, usize)> {
    let question = arp::Packet::new_checked(question).ok()?;
    if question.operation() != arp::REQUEST || question.target_ip() != address {
        return None;
    }
    let answer = arp::Header {
        operation: arp::REPLY,
        sender_mac: mac,
        sender_ip: address,
        target_mac: question.sender_mac(),
        target_ip: question.sender_ip(),
    };
    answer.emit(out.first_chunk_mut()?);
    Some((question.sender_mac(), arp::LEN))
}

fn advertisement(
    question: &Frame<'_>,
    address: Ipv6Addr,
    mac: Mac,
    out: &mut [u8],
) -> Option<(Mac, usize)> {
    let packet = ipv6::Packet::new_checked(question.payload()).ok()?;
    if packet.protocol() != ipv4::PROTOCOL_ICMPV6 || packet.hop_limit() != HOP_LIMIT {
        return None;
    }
    let message = icmpv6::Message::new_checked(packet.payload()).ok()?;
    if !message.verify_checksum(packet.src(), packet.dst()) {
        return None;
    }
    let Ok(Neighbour::Solicitation { target, source }) = Neighbour::parse(&message) else {
        return None;
    };
    if target != address {
        return None;
    }
    // Who has no address yet only wants to know whether this one is taken.
    let asks_for_itself = packet.src().is_unspecified();
    let (ip_dst, to, flags) = if asks_for_itself {
        let all = Mac([0x33, 0x33, 0, 0, 0, 1]);
        (ALL_NODES, all, icmpv6::OVERRIDE)
    } else {
        let to = source.unwrap_or(question.src());
        (packet.src(), to, icmpv6::SOLICITED | icmpv6::OVERRIDE)
    };
    let (header, body) = out.split_first_chunk_mut()?;
    let answer = Neighbour::Advertisement {
        target,
        flags,
        link: Some(mac),
    };
    let len = answer.emit(body.first_chunk_mut()?, address, ip_dst);
    let ip = ipv6::Header {
        src: address,
        dst: ip_dst,
        hop_limit: HOP_LIMIT,
        traffic_class: 0,
        flow_label: 0,
        next_header: ipv4::PROTOCOL_ICMPV6,
        payload_len: len as u16,
    };
    ip.emit(header);
    Some((to, ipv6::HEADER_LEN + len))
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
