//! Headers by name: what presets and their options make.

use super::Failure;
use super::args::{FlowArgs, FrameArgs, Preset};
use crate::protocol::{EchoRequest, Hex, LayerRequest, Mac, TcpFlag};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// EtherType of 802.1ad service tags.
const TPID_SERVICE: u16 = 0x88a8;
const TPID: u16 = 0x8100;
/// Local experimental EtherType 1 (IEEE 802).
const ETHERTYPE_EXPERIMENT: u16 = 0x88b5;
/// Inner Ethernet addresses of tunnels, which no port has.
const INNER: [Mac; 2] = [locally(1), locally(2)];
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;
/// From the range for such things, 49152 to 65535 (RFC 7348 section 5).
const TUNNEL_SOURCE_PORT: u16 = 49_152;

/// An address that no device has.
pub(super) const fn locally(last: u8) -> Mac {
    Mac(pinchpoint_wire::ethernet::Mac([2, 0, 0, 0, 0, last]))
}

/// Who a stream's frames go from and to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    /// Address of the sending port, if it has one.
    pub from: Option<Mac>,
    /// Address of the port that expects them, if it has one.
    pub to: Option<Mac>,
    /// Whether this is the way back, with everything swapped.
    pub swapped: bool,
}

impl Ends {
    /// Source and destination Ethernet address: those given, or the ports'.
    pub(super) fn macs(&self, args: &FrameArgs) -> (Mac, Mac) {
        let given = self.given(args);
        (
            given.0.or(self.from).unwrap_or(locally(1)),
            given.1.or(self.to).unwrap_or(locally(2)),
        )
    }

    /// Those given.
    pub(super) fn given(&self, args: &FrameArgs) -> (Option<Mac>, Option<Mac>) {
        if self.swapped {
            (args.dst_mac, args.src_mac)
        } else {
            (args.src_mac, args.dst_mac)
        }
    }

    fn pair<T>(&self, src: T, dst: T) -> (T, T) {
        if self.swapped { (dst, src) } else { (src, dst) }
    }
}

/// The preset asked for: by its name, or by the family of the addresses.
pub(super) fn preset(frames: &FrameArgs, flows: &FlowArgs) -> Preset {
    let given = flows.src.or(flows.dst);
    let ipv6 = given.is_some_and(|addresses| addresses.first.is_ipv6());
    let implied = if ipv6 { Preset::Udp6 } else { Preset::Udp };
    frames.template.unwrap_or(implied)
}

/// The headers of `preset`, outermost first.
///
/// # Errors
/// If an option's value does not fit them.
pub(super) fn layers(
    preset: Preset,
    frames: &FrameArgs,
    flows: &FlowArgs,
    ends: &Ends,
) -> Result<Vec<LayerRequest>, Failure> {
    let mut layers = outer(preset, frames, ends);
    match preset {
        Preset::Ethernet => {}
        Preset::Arp => layers.push(arp(frames, flows, ends)?),
        Preset::Udp6 | Preset::Tcp6Syn | Preset::Icmp6 => {
            layers.push(ipv6(frames, flows, ends)?);
        }
        _ => layers.push(ipv4(frames, flows, ends)?),
    }
    let src = flows.src_port.map_or(1025, |ports| ports.first);
    let dst = flows.dst_port.map_or(12, |ports| ports.first);
    let (src, dst) = ends.pair(src, dst);
    layers.extend(match preset {
        Preset::Ethernet | Preset::Arp => None,
        Preset::TcpSyn | Preset::Tcp6Syn => Some(tcp(src, dst, &frames.tcp_flags)),
        Preset::Icmp => Some(LayerRequest::Icmp(echo(8))),
        Preset::Icmp6 => Some(LayerRequest::Icmpv6(echo(128))),
        _ => Some(LayerRequest::Udp { src, dst }),
    });
    check_options(preset, frames, flows)?;
    Ok(layers)
}

/// Everything before the header that flows differ in.
fn outer(preset: Preset, frames: &FrameArgs, ends: &Ends) -> Vec<LayerRequest> {
    let (src, dst) = ends.macs(frames);
    let asked = ends.given(frames).1;
    let dst = match preset {
        Preset::Arp => asked.unwrap_or(Mac(pinchpoint_wire::ethernet::Mac([0xff; 6]))),
        _ => dst,
    };
    let ethertype = (preset == Preset::Ethernet).then_some(ETHERTYPE_EXPERIMENT);
    let ethertype_here = ethertype.filter(|_| frames.vlan.is_empty());
    let mut layers = vec![LayerRequest::Ethernet {
        src,
        dst,
        ethertype: ethertype_here,
    }];
    let last = frames.vlan.len().saturating_sub(1);
    layers.extend(
        frames
            .vlan
            .iter()
            .enumerate()
            .map(|(k, &id)| LayerRequest::Vlan {
                id,
                pcp: 0,
                dei: false,
                tpid: if k < last { TPID_SERVICE } else { TPID },
            }),
    );
    let tunnel = tunnel(preset, frames.vni);
    if tunnel.is_empty() {
        return layers;
    }
    let (src, dst) = ends.pair(frames.outer_src, frames.outer_dst);
    layers.push(ipv4_header(src, dst, frames.dscp));
    layers.extend(tunnel);
    if preset != Preset::Gre {
        let (src, dst) = ends.pair(INNER[0], INNER[1]);
        layers.push(LayerRequest::Ethernet {
            src,
            dst,
            ethertype: None,
        });
    }
    layers
}

/// What stands between a tunnel's outer IP header and the frame or packet in it.
fn tunnel(preset: Preset, vni: u32) -> Vec<LayerRequest> {
    match preset {
        Preset::Vxlan => vec![
            LayerRequest::Udp {
                src: TUNNEL_SOURCE_PORT,
                dst: VXLAN_PORT,
            },
            LayerRequest::Vxlan { vni },
        ],
        Preset::Geneve => vec![
            LayerRequest::Udp {
                src: TUNNEL_SOURCE_PORT,
                dst: GENEVE_PORT,
            },
            LayerRequest::Geneve {
                vni,
                options: Hex::default(),
            },
        ],
        Preset::Gre => vec![LayerRequest::Gre {
            key: Some(vni),
            sequence: None,
        }],
        _ => Vec::new(),
    }
}

fn ipv4_header(src: Ipv4Addr, dst: Ipv4Addr, dscp: u8) -> LayerRequest {
    LayerRequest::Ipv4 {
        src,
        dst,
        ttl: 64,
        dscp,
        ecn: 0,
        identification: 0,
        dont_fragment: true,
        options: Hex::default(),
        protocol: None,
    }
}

/// First source and destination address, of IPv4.
fn addresses4(flows: &FlowArgs, ends: &Ends) -> Result<(Ipv4Addr, Ipv4Addr), Failure> {
    let of = |option: &str, given: Option<IpAddr>, otherwise| match given {
        None => Ok(otherwise),
        Some(IpAddr::V4(ip)) => Ok(ip),
        Some(IpAddr::V6(ip)) => Err(Failure::usage(format!(
            "--{option} {ip}: these headers take IPv4 addresses; there are --template udp6, \
             tcp6-syn and icmp6"
        ))),
    };
    let src = flows.src.map(|addresses| addresses.first);
    let dst = flows.dst.map(|addresses| addresses.first);
    Ok(ends.pair(
        of("src", src, Ipv4Addr::new(16, 0, 0, 1))?,
        of("dst", dst, Ipv4Addr::new(48, 0, 0, 1))?,
    ))
}

fn ipv4(frames: &FrameArgs, flows: &FlowArgs, ends: &Ends) -> Result<LayerRequest, Failure> {
    let (src, dst) = addresses4(flows, ends)?;
    Ok(ipv4_header(src, dst, frames.dscp))
}

fn arp(frames: &FrameArgs, flows: &FlowArgs, ends: &Ends) -> Result<LayerRequest, Failure> {
    let (sender_ip, target_ip) = addresses4(flows, ends)?;
    Ok(LayerRequest::Arp {
        operation: 1,
        sender_mac: ends.macs(frames).0,
        sender_ip,
        target_mac: Mac(pinchpoint_wire::ethernet::Mac([0; 6])),
        target_ip,
    })
}

fn ipv6(frames: &FrameArgs, flows: &FlowArgs, ends: &Ends) -> Result<LayerRequest, Failure> {
    let of = |option: &str, given: Option<IpAddr>, otherwise| match given {
        None => Ok(otherwise),
        Some(IpAddr::V6(ip)) => Ok(ip),
        Some(IpAddr::V4(ip)) => Err(Failure::usage(format!(
            "--{option} {ip}: these headers take IPv6 addresses, such as fd00::1"
        ))),
    };
    let src = flows.src.map(|addresses| addresses.first);
    let dst = flows.dst.map(|addresses| addresses.first);
    let (src, dst) = ends.pair(
        of("src", src, Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1))?,
        of("dst", dst, Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 1))?,
    );
    Ok(LayerRequest::Ipv6 {
        src,
        dst,
        hop_limit: 64,
        dscp: frames.dscp,
        ecn: 0,
        flow_label: 0,
        extensions: Vec::new(),
        next_header: None,
    })
}

fn tcp(src: u16, dst: u16, flags: &[TcpFlag]) -> LayerRequest {
    let syn = [TcpFlag::Syn];
    LayerRequest::Tcp {
        src,
        dst,
        seq: 0,
        ack: 0,
        flags: if flags.is_empty() { &syn } else { flags }.to_vec(),
        window: u16::MAX,
        options: Hex::default(),
    }
}

fn echo(kind: u8) -> EchoRequest {
    EchoRequest {
        kind,
        code: 0,
        identifier: 1,
        sequence: 0,
        body: Hex::default(),
    }
}

/// Refuses options that `preset` has no place for: they would do nothing.
fn check_options(preset: Preset, frames: &FrameArgs, flows: &FlowArgs) -> Result<(), Failure> {
    let tcp = matches!(preset, Preset::TcpSyn | Preset::Tcp6Syn);
    let portless = [Preset::Ethernet, Preset::Arp, Preset::Icmp, Preset::Icmp6];
    let has_ports = !portless.contains(&preset);
    let misplaced = [
        ("--tcp-flags", !frames.tcp_flags.is_empty() && !tcp),
        ("--src-port", flows.src_port.is_some() && !has_ports),
        ("--dst-port", flows.dst_port.is_some() && !has_ports),
        ("--src", flows.src.is_some() && preset == Preset::Ethernet),
        ("--dst", flows.dst.is_some() && preset == Preset::Ethernet),
    ];
    match misplaced.iter().find(|(_, wrong)| *wrong) {
        Some((option, _)) => Err(Failure::usage(format!(
            "{option}: the frames of this template have no such field"
        ))),
        None => Ok(()),
    }
}

/// Bytes of the headers, as far as they are known here.
pub(super) fn headers_len(layers: &[LayerRequest]) -> usize {
    let len = |layer: &LayerRequest| match layer {
        LayerRequest::Ethernet { .. } => 14,
        LayerRequest::Vlan { .. } | LayerRequest::Mpls { .. } => 4,
        LayerRequest::Arp { .. } => 28,
        LayerRequest::Ipv4 { options, .. } | LayerRequest::Tcp { options, .. } => {
            20 + options.0.len()
        }
        LayerRequest::Ipv6 { extensions, .. } => {
            let each = extensions.iter().map(|one| one.data.0.len() + 2);
            40 + each.sum::<usize>()
        }
        LayerRequest::Udp { .. }
        | LayerRequest::Icmp(_)
        | LayerRequest::Vxlan { .. }
        | LayerRequest::Pppoe { .. }
        | LayerRequest::Esp { .. } => 8,
        LayerRequest::Icmpv6(echo) => 8 + echo.body.0.len(),
        LayerRequest::Geneve { options, .. } => 8 + options.0.len(),
        LayerRequest::Gre { key, sequence } => {
            4 + 4 * (usize::from(key.is_some()) + usize::from(sequence.is_some()))
        }
        LayerRequest::Gtpu { qfi, .. } => 8 + if qfi.is_some() { 8 } else { 0 },
        LayerRequest::Nsh { context, .. } => 8 + context.0.len(),
    };
    layers.iter().map(len).sum()
}
