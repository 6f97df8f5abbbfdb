//! The five-tuple of a frame, and where it stands.

use crate::{ethernet, ipv4, ipv6};
use core::net::IpAddr;

/// Protocol, source and destination address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FiveTuple {
    /// The IP protocol number.
    pub protocol: u8,
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source port; 0 if there is none.
    pub src_port: u16,
    /// Destination port; 0 if there is none.
    pub dst_port: u16,
}

/// Where addresses and ports of a frame stand, in bytes from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The source address; the destination address follows.
    pub addresses: usize,
    /// Bytes of one address.
    pub address_len: usize,
    /// The source port; the destination port follows. None for protocols
    /// without ports and for fragments.
    pub ports: Option<usize>,
}

const PROTOCOL_SCTP: u8 = 132;
/// Source addresses' offsets in the headers (RFC 791, RFC 8200).
const IPV4_SRC: usize = 12;
const IPV6_SRC: usize = 8;

/// The outermost five-tuple of `frame` and its place; none if it is no IP.
pub fn read(frame: &[u8]) -> Option<(FiveTuple, Place)> {
    let view = ethernet::Frame::new_checked(frame).ok()?;
    let ip = view.header_len();
    let (tuple, place, l4) = match view.ethertype() {
        ethernet::ETHERTYPE_IPV4 => {
            let packet = ipv4::Packet::new_checked(view.payload()).ok()?;
            let tuple = tuple(packet.protocol(), packet.src().into(), packet.dst().into());
            let l4 = (!packet.is_fragment()).then_some(packet.header_len());
            (tuple, place(ip + IPV4_SRC, 4), l4)
        }
        ethernet::ETHERTYPE_IPV6 => {
            let packet = ipv6::Packet::new_checked(view.payload()).ok()?;
            let tuple = tuple(packet.protocol(), packet.src().into(), packet.dst().into());
            let l4 = (!packet.is_fragment()).then_some(packet.header_len());
            (tuple, place(ip + IPV6_SRC, 16), l4)
        }
        _ => return None,
    };
    let has_ports = matches!(
        tuple.protocol,
        ipv4::PROTOCOL_UDP | ipv4::PROTOCOL_TCP | PROTOCOL_SCTP
    );
    let ports = l4.filter(|_| has_ports).map(|l4| ip + l4);
    let Some(&[a, b, c, d]) = ports.and_then(|at| frame.get(at..)?.first_chunk()) else {
        return Some((tuple, place));
    };
    let tuple = FiveTuple {
        src_port: u16::from_be_bytes([a, b]),
        dst_port: u16::from_be_bytes([c, d]),
        ..tuple
    };
    Some((tuple, Place { ports, ..place }))
}

fn tuple(protocol: u8, src: IpAddr, dst: IpAddr) -> FiveTuple {
    FiveTuple {
        protocol,
        src,
        dst,
        src_port: 0,
        dst_port: 0,
    }
}

fn place(addresses: usize, address_len: usize) -> Place {
    Place {
        addresses,
        address_len,
        ports: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp() -> [u8; 60] {
        let mut frame = [0; 60];
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..40].copy_from_slice(&[4, 1, 0, 12, 0, 26]);
        frame
    }

    #[test]
    fn a_datagram_has_five_of_them() {
        let (tuple, place) = read(&udp()).unwrap();
        assert_eq!(
            (tuple.protocol, tuple.src_port, tuple.dst_port),
            (17, 1025, 12)
        );
        assert_eq!(tuple.src, IpAddr::from([10, 0, 0, 1]));
        assert_eq!(tuple.dst, IpAddr::from([10, 0, 0, 2]));
        assert_eq!((place.addresses, place.ports), (26, Some(34)));
    }

    #[test]
    fn a_fragment_and_a_cut_frame_have_no_ports() {
        let mut fragment = udp();
        fragment[21] = 1;
        let (tuple, place) = read(&fragment).unwrap();
        assert_eq!((tuple.src_port, place.ports), (0, None));
        for len in 0..42 {
            let _ = read(&udp()[..len]);
        }
        assert_eq!(read(&[0; 60]), None);
    }
}
