//! The two hosts of a capture: which one is the client, and whose frame each
//! is. The client sends the first frame. What another host exchanges with one of
//! them, as the media of a call, is sent for the other one.

use crate::pcap::CapturedFrame;
use pinchpoint_wire::{ethernet, ipv4, tcp, udp, verify};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Frames between two hosts by direction.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) frames: Vec<Vec<u8>>,
    pub(super) replies: Vec<Vec<u8>>,
    pub(super) warnings: Vec<String>,
}

/// Protocol, source and destination of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    protocol: u8,
    src: SocketAddrV4,
    dst: SocketAddrV4,
}

impl Ends {
    /// Whether it goes from client to server, if `first` does; nothing if it is of neither. Of
    /// a host that speaks to itself the ports tell.
    fn is_there(self, first: Self) -> Option<bool> {
        let (client, server) = (*first.src.ip(), *first.dst.ip());
        if client == server {
            return self
                .hosts()
                .contains(&client)
                .then_some(self.src != first.dst);
        }
        match self.hosts() {
            [src, dst] if src == client || dst == server => Some(true),
            [src, dst] if src == server || dst == client => Some(false),
            _ => None,
        }
    }

    fn hosts(self) -> [Ipv4Addr; 2] {
        [*self.src.ip(), *self.dst.ip()]
    }

    /// The same in both directions.
    fn flow(self) -> (u8, SocketAddrV4, SocketAddrV4) {
        let (src, dst) = (self.src.min(self.dst), self.src.max(self.dst));
        (self.protocol, src, dst)
    }
}

/// Splits a capture by direction; otherwise says what it holds besides UDP or
/// TCP over IPv4 between two hosts.
pub(super) fn split(captured: Vec<CapturedFrame>) -> Result<Flow, String> {
    let mut flow = Flow::default();
    let (mut first, mut flows, mut hosts, mut damaged) =
        (None, BTreeSet::new(), BTreeSet::new(), 0);
    for (index, frame) in captured.into_iter().enumerate() {
        let at = |why: String| format!("frame {}: {why}", index + 1);
        let ends = ends(&frame.bytes).map_err(at)?;
        let first = *first.get_or_insert(ends);
        damaged += usize::from(!verify::checksums_right(&frame.bytes));
        flows.insert(ends.flow());
        hosts.extend(ends.hosts());
        match ends.is_there(first) {
            Some(true) => flow.frames.push(frame.bytes),
            Some(false) => flow.replies.push(frame.bytes),
            None => {
                return Err(at(format!(
                    "expected frames between {} and {}; found one from {} to {}",
                    first.src.ip(),
                    first.dst.ip(),
                    ends.src,
                    ends.dst
                )));
            }
        }
    }
    if flow.frames.is_empty() {
        return Err("the capture holds no frame".to_owned());
    }
    if damaged > 0 {
        flow.warnings.push(format!(
            "{damaged} frames have wrong checksums in the capture (taken before the NIC's offload?)"
        ));
    }
    if flows.len() > 1 {
        flow.warnings.push(format!(
            "{} flows: their ports stay those of the capture",
            flows.len()
        ));
    }
    if hosts.len() > 2 {
        flow.warnings.push(format!(
            "{} hosts: each gets the address of the client or of the server",
            hosts.len()
        ));
    }
    let is_tcp =
        |(protocol, ..): &(u8, SocketAddrV4, SocketAddrV4)| *protocol == ipv4::PROTOCOL_TCP;
    if flows.iter().any(is_tcp) {
        flow.warnings.push(
            "TCP: segments are sent as they were captured, whatever the other end answers"
                .to_owned(),
        );
    }
    Ok(flow)
}

fn ends(bytes: &[u8]) -> Result<Ends, String> {
    let frame = ethernet::Frame::new_checked(bytes)
        .map_err(|_| format!("{} bytes, too few for Ethernet", bytes.len()))?;
    if frame.ethertype() != ethernet::ETHERTYPE_IPV4 {
        return Err(format!(
            "EtherType {:#06x}, expected IPv4",
            frame.ethertype()
        ));
    }
    let packet = ipv4::Packet::new_checked(frame.payload())
        .map_err(|_| "malformed IPv4 header".to_owned())?;
    let protocol = packet.protocol();
    let (src, dst) = match protocol {
        ipv4::PROTOCOL_UDP | ipv4::PROTOCOL_TCP if packet.is_fragment() => {
            return Err("a fragment, expected whole packets".to_owned());
        }
        ipv4::PROTOCOL_UDP => udp::Datagram::new_checked(packet.payload())
            .map(|datagram| (datagram.src(), datagram.dst()))
            .map_err(|_| "malformed UDP header".to_owned())?,
        ipv4::PROTOCOL_TCP => tcp::Segment::new_checked(packet.payload())
            .map(|segment| (segment.src(), segment.dst()))
            .map_err(|_| "malformed TCP header".to_owned())?,
        other => {
            return Err(format!("IP protocol {other}, expected UDP (17) or TCP (6)"));
        }
    };
    Ok(Ends {
        protocol,
        src: SocketAddrV4::new(packet.src(), src),
        dst: SocketAddrV4::new(packet.dst(), dst),
    })
}

#[cfg(test)]
mod tests {
    use super::Ends;

    fn ends(src: &str, dst: &str) -> Ends {
        let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
        Ends {
            protocol: 17,
            src,
            dst,
        }
    }

    #[test]
    fn what_another_host_exchanges_with_one_of_the_two_is_sent_for_the_other_one() {
        let first = ends("10.0.0.1:1350", "10.9.0.1:5060");
        let cases = [
            (ends("10.9.0.1:5060", "10.0.0.1:1350"), Some(false)),
            (ends("10.0.0.2:10110", "10.9.0.1:10110"), Some(true)),
            (ends("10.9.0.1:10110", "10.0.0.2:10110"), Some(false)),
            (ends("10.0.0.1:7", "10.9.0.2:7"), Some(true)),
            (ends("10.9.0.2:7", "10.0.0.1:7"), Some(false)),
            (ends("10.0.0.2:7", "10.9.0.2:7"), None),
        ];
        for (found, expected) in cases {
            assert_eq!(found.is_there(first), expected, "{found:?}");
        }
    }
}
