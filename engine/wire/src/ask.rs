//! Questions where an address is, and what answers them: ARP requests (RFC 826) and
//! neighbour solicitations (RFC 4861 section 7.2.2). The other side is [`answer`](crate::answer).

use crate::ethernet::{self, Frame, Mac};
use crate::icmpv6::{self, Neighbour};
use crate::{FCS_LEN, arp, ipv4, ipv6};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the longest question.
pub const MAX_LEN: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + icmpv6::NEIGHBOUR_LEN;
const MIN_LEN: usize = 64 - FCS_LEN;
const BROADCAST: Mac = Mac([0xff; 6]);
/// Neighbour messages must not have been forwarded (RFC 4861 section 7.1.1).
const HOP_LIMIT: u8 = 255;

/// Writes into `out` the frame that asks for `target` from `own`, an address of the same
/// family and where it is; returns its bytes, without check sequence. None if the
/// families differ.
pub fn question(target: IpAddr, own: (IpAddr, Mac), out: &mut [u8; MAX_LEN]) -> Option<usize> {
    out.fill(0);
    let (front, body) = out.split_first_chunk_mut()?;
    let (dst, ethertype, len) = match (target, own.0) {
        (IpAddr::V4(target), IpAddr::V4(sender)) => {
            request(target, (sender, own.1)).emit(body.first_chunk_mut()?);
            (BROADCAST, ethernet::ETHERTYPE_ARP, arp::LEN)
        }
        (IpAddr::V6(target), IpAddr::V6(sender)) => {
            let len = solicitation(target, (sender, own.1), body)?;
            (group_mac(target), ethernet::ETHERTYPE_IPV6, len)
        }
        _ => return None,
    };
    let header = ethernet::Header {
        dst,
        src: own.1,
        ethertype,
    };
    header.emit(front);
    Some((ethernet::HEADER_LEN + len).max(MIN_LEN))
}

/// Where `address` is, if `frame` says so.
pub fn told(frame: &[u8], address: IpAddr) -> Option<Mac> {
    let view = Frame::new_checked(frame).ok()?;
    match (view.ethertype(), address) {
        (ethernet::ETHERTYPE_ARP, IpAddr::V4(address)) => {
            let packet = arp::Packet::new_checked(view.payload()).ok()?;
            let is_it = packet.operation() == arp::REPLY && packet.sender_ip() == address;
            is_it.then(|| packet.sender_mac())
        }
        (ethernet::ETHERTYPE_IPV6, IpAddr::V6(address)) => advertised(&view, address),
        _ => None,
    }
}

fn request(target: Ipv4Addr, own: (Ipv4Addr, Mac)) -> arp::Header {
    arp::Header {
        operation: arp::REQUEST,
        sender_mac: own.1,
        sender_ip: own.0,
        target_mac: Mac([0; 6]),
        target_ip: target,
    }
}

fn solicitation(target: Ipv6Addr, own: (Ipv6Addr, Mac), out: &mut [u8]) -> Option<usize> {
    let dst = group(target);
    let (header, body) = out.split_first_chunk_mut()?;
    let message = Neighbour::Solicitation {
        target,
        source: Some(own.1),
    };
    let len = message.emit(body.first_chunk_mut()?, own.0, dst);
    let ip = ipv6::Header {
        src: own.0,
        dst,
        hop_limit: HOP_LIMIT,
        traffic_class: 0,
        flow_label: 0,
        next_header: ipv4::PROTOCOL_ICMPV6,
        payload_len: len as u16,
    };
    ip.emit(header);
    Some(ipv6::HEADER_LEN + len)
}

fn advertised(view: &Frame<'_>, address: Ipv6Addr) -> Option<Mac> {
    let packet = ipv6::Packet::new_checked(view.payload()).ok()?;
    if packet.protocol() != ipv4::PROTOCOL_ICMPV6 || packet.hop_limit() != HOP_LIMIT {
        return None;
    }
    let message = icmpv6::Message::new_checked(packet.payload()).ok()?;
    if !message.verify_checksum(packet.src(), packet.dst()) {
        return None;
    }
    match Neighbour::parse(&message) {
        Ok(Neighbour::Advertisement { target, link, .. }) if target == address => {
            Some(link.unwrap_or(view.src()))
        }
        _ => None,
    }
}

/// The solicited-node multicast address of `target` (RFC 4291 section 2.7.1).
fn group(target: Ipv6Addr) -> Ipv6Addr {
    const PREFIX: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(PREFIX | target.to_bits() & 0xff_ffff)
}

/// Where its members listen (RFC 2464 section 7).
fn group_mac(target: Ipv6Addr) -> Mac {
    let [.., a, b, c] = target.octets();
    Mac([0x33, 0x33, 0xff, a, b, c])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{answer, verify};
    use proptest::prelude::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn asked_and_told(target: IpAddr, own: IpAddr) -> Option<Mac> {
        let (mut question_, mut answer_) = ([0; MAX_LEN], [0; answer::MAX_LEN]);
        let len = question(target, (own, OWN), &mut question_).unwrap();
        let question_ = &question_[..len];
        assert!(verify::checksums_right(question_) || target.is_ipv4());
        assert_eq!(answer::target(question_), Some(target));
        let len = answer::reply(question_, (target, OTHER), &mut answer_).unwrap();
        assert_eq!(told(question_, target), None);
        told(&answer_[..len], target)
    }

    proptest! {
        #[test]
        fn a_question_of_either_family_is_answered_by_whoever_has_the_address(
            four: (u32, u32), six: (u128, u128),
        ) {
            let [a, b] = [four.0, four.1].map(|bits| IpAddr::from(Ipv4Addr::from_bits(bits)));
            prop_assert_eq!(asked_and_told(a, b), Some(OTHER));
            // Neither is a multicast address.
            let [a, b] = [six.0, six.1].map(|bits| IpAddr::from(Ipv6Addr::from_bits(bits >> 8 | 1)));
            prop_assert_eq!(asked_and_told(a, b), Some(OTHER));
        }

        #[test]
        fn arbitrary_bytes_tell_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(told(&bytes, IpAddr::V6(Ipv6Addr::LOCALHOST)), None);
        }
    }

    #[test]
    fn families_do_not_mix() {
        let (four, six) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
        assert_eq!(question(four, (six, OWN), &mut [0; MAX_LEN]), None);
        assert_eq!(question(six, (four, OWN), &mut [0; MAX_LEN]), None);
    }
}
