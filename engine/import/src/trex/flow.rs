//! The one flow of a capture: which side is the client, and whose frame each
//! is. The client sends the first frame.

use crate::pcap::CapturedFrame;
use pinchpoint_wire::{ethernet, ipv4, udp, verify};
use std::net::{Ipv4Addr, SocketAddrV4};

/// Frames of one flow by direction.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) frames: Vec<Vec<u8>>,
    pub(super) replies: Vec<Vec<u8>>,
    pub(super) warnings: Vec<String>,
}

/// Source and destination of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    src: SocketAddrV4,
    dst: SocketAddrV4,
}

/// Splits a capture by direction; otherwise says what it holds besides one UDP
/// flow over IPv4.
pub(super) fn split(captured: Vec<CapturedFrame>) -> Result<Flow, String> {
    let mut flow = Flow::default();
    let mut client_to_server = None;
    let mut damaged = 0;
    for (index, frame) in captured.into_iter().enumerate() {
        let at = |why: String| format!("frame {}: {why}", index + 1);
        let ends = ends(&frame.bytes).map_err(at)?;
        let Ends { src, dst } = *client_to_server.get_or_insert(ends);
        damaged += usize::from(!verify::checksums_right(&frame.bytes));
        if (ends.src, ends.dst) == (src, dst) {
            flow.frames.push(frame.bytes);
        } else if (ends.src, ends.dst) == (dst, src) {
            flow.replies.push(frame.bytes);
        } else {
            return Err(at(format!(
                "expected one flow, {src} to {dst}; found another from {} to {}",
                ends.src, ends.dst
            )));
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
    match packet.protocol() {
        ipv4::PROTOCOL_UDP if packet.is_fragment() => {
            Err("a fragment, expected whole datagrams".to_owned())
        }
        ipv4::PROTOCOL_UDP => {
            let datagram = udp::Datagram::new_checked(packet.payload())
                .map_err(|_| "malformed UDP header".to_owned())?;
            let end = |address: Ipv4Addr, port| SocketAddrV4::new(address, port);
            Ok(Ends {
                src: end(packet.src(), datagram.src()),
                dst: end(packet.dst(), datagram.dst()),
            })
        }
        PROTOCOL_TCP => Err(
            "TCP; only UDP is imported: a TCP peer answers what it gets, not what was captured"
                .to_owned(),
        ),
        other => Err(format!("IP protocol {other}, expected UDP (17)")),
    }
}

/// Protocol number of TCP.
const PROTOCOL_TCP: u8 = 6;
