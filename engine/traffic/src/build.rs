//! From layers to bytes.

use crate::layer::Layer;
use crate::layout::{Kind, Layout};
use crate::spec::{SpecError, check};
use pinchpoint_wire::{
    arp, esp, ethernet, geneve, gre, gtpu, icmp, icmpv6, ipv4, ipv6, mpls, nsh, pppoe, tcp, vlan,
    vxlan,
};
use std::net::Ipv6Addr;

/// Headers in a template at most.
const MAX_LAYERS: usize = 32;
/// The checksums are filled in later, whatever the addresses.
const ANY: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

impl Layer {
    /// The EtherType that announces this layer.
    fn ethertype(&self) -> u16 {
        match self {
            Self::Vlan { tpid, .. } => *tpid,
            Self::Arp { .. } => ethernet::ETHERTYPE_ARP,
            Self::Ipv4 { .. } => ethernet::ETHERTYPE_IPV4,
            Self::Ipv6 { .. } => ethernet::ETHERTYPE_IPV6,
            Self::Mpls { .. } => ethernet::ETHERTYPE_MPLS,
            Self::Pppoe { .. } => ethernet::ETHERTYPE_PPPOE,
            Self::Nsh { .. } => ethernet::ETHERTYPE_NSH,
            _ => ethernet::ETHERTYPE_BRIDGED,
        }
    }

    /// The protocol number that announces this layer.
    fn protocol(&self) -> u8 {
        match self {
            Self::Ipv4 { .. } => ipv4::PROTOCOL_IPV4,
            Self::Ipv6 { .. } => ipv4::PROTOCOL_IPV6,
            Self::Udp { .. } => ipv4::PROTOCOL_UDP,
            Self::Tcp { .. } => ipv4::PROTOCOL_TCP,
            Self::Icmp { .. } => ipv4::PROTOCOL_ICMP,
            Self::Icmpv6 { .. } => ipv4::PROTOCOL_ICMPV6,
            Self::Esp { .. } => ipv4::PROTOCOL_ESP,
            _ => ipv4::PROTOCOL_GRE,
        }
    }

    /// The number by which PPP announces this layer.
    fn ppp_protocol(&self) -> u16 {
        match self {
            Self::Ipv6 { .. } => pppoe::PPP_IPV6,
            _ => pppoe::PPP_IPV4,
        }
    }

    /// The number by which a network service header announces this layer.
    fn nsh_protocol(&self) -> u8 {
        match self {
            Self::Ipv4 { .. } => nsh::NEXT_IPV4,
            Self::Ipv6 { .. } => nsh::NEXT_IPV6,
            _ => nsh::NEXT_ETHERNET,
        }
    }

    /// Appends the header, before a layer `next`, without lengths and
    /// checksums.
    fn emit(&self, next: Option<&Self>, out: &mut Vec<u8>) {
        match self {
            Self::Ethernet { .. } | Self::Vlan { .. } | Self::Arp { .. } => {
                self.emit_link(next, out);
            }
            Self::Ipv4 { .. } | Self::Ipv6 { .. } => self.emit_network(next, out),
            Self::Vxlan { .. } | Self::Geneve { .. } | Self::Gre { .. } | Self::Gtpu { .. } => {
                self.emit_tunnel(next, out);
            }
            Self::Mpls { .. } | Self::Pppoe { .. } | Self::Nsh { .. } => {
                self.emit_shim(next, out);
            }
            _ => self.emit_transport(out),
        }
    }

    fn emit_link(&self, next: Option<&Self>, out: &mut Vec<u8>) {
        let following = next.map_or(ethernet::ETHERTYPE_EXPERIMENT, Self::ethertype);
        match self {
            Self::Ethernet {
                src,
                dst,
                ethertype,
            } => {
                let header = ethernet::Header {
                    dst: *dst,
                    src: *src,
                    ethertype: ethertype.unwrap_or(following),
                };
                let mut bytes = [0; ethernet::HEADER_LEN];
                header.emit(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            Self::Vlan { tpid, id, pcp, dei } => {
                let (tpid, pcp, dei, id) = (*tpid, *pcp, *dei, *id);
                let mut bytes = [0; vlan::LEN];
                vlan::Tag { tpid, pcp, dei, id }.emit(&mut bytes);
                // The identifier stands in the header before.
                out.extend_from_slice(&bytes[2..]);
                out.extend_from_slice(&following.to_be_bytes());
            }
            Self::Arp {
                operation,
                sender_mac,
                sender_ip,
                target_mac,
                target_ip,
            } => {
                let packet = arp::Header {
                    operation: *operation,
                    sender_mac: *sender_mac,
                    sender_ip: *sender_ip,
                    target_mac: *target_mac,
                    target_ip: *target_ip,
                };
                let mut bytes = [0; arp::LEN];
                packet.emit(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            _ => {}
        }
    }

    fn emit_network(&self, next: Option<&Self>, out: &mut Vec<u8>) {
        match self {
            Self::Ipv4 {
                src,
                dst,
                ttl,
                dscp,
                ecn,
                identification,
                dont_fragment,
                protocol,
                options,
            } => {
                let following = next.map_or(ipv4::PROTOCOL_EXPERIMENT, Self::protocol);
                let header = ipv4::Header {
                    src: *src,
                    dst: *dst,
                    ttl: *ttl,
                    dscp: *dscp,
                    ecn: *ecn,
                    identification: *identification,
                    dont_fragment: *dont_fragment,
                    protocol: protocol.unwrap_or(following),
                    options,
                    payload_len: 0,
                };
                append(out, header.header_len(), |bytes| header.emit(bytes));
            }
            Self::Ipv6 { .. } => self.emit_ipv6(next, out),
            _ => {}
        }
    }

    fn emit_ipv6(&self, next: Option<&Self>, out: &mut Vec<u8>) {
        let Self::Ipv6 {
            src,
            dst,
            hop_limit,
            traffic_class,
            flow_label,
            next_header,
            extensions,
        } = self
        else {
            return;
        };
        let following = next.map_or(ipv6::NO_NEXT_HEADER, Self::protocol);
        let last = next_header.unwrap_or(following);
        let kinds = extensions.iter().map(|extension| extension.kind.number());
        let kinds: Vec<u8> = kinds.chain([last]).collect();
        let header = ipv6::Header {
            src: *src,
            dst: *dst,
            hop_limit: *hop_limit,
            traffic_class: *traffic_class,
            flow_label: *flow_label,
            next_header: kinds[0],
            payload_len: 0,
        };
        let mut bytes = [0; ipv6::HEADER_LEN];
        header.emit(&mut bytes);
        out.extend_from_slice(&bytes);
        for (extension, pair) in extensions.iter().zip(kinds.windows(2)) {
            let body = &extension.body;
            let extension = ipv6::Extension {
                kind: pair[0],
                body,
            };
            append(out, extension.header_len(), |bytes| {
                extension.emit(pair[1], bytes)
            });
        }
    }

    fn emit_transport(&self, out: &mut Vec<u8>) {
        match self {
            Self::Udp { src, dst } => {
                out.extend_from_slice(&src.to_be_bytes());
                out.extend_from_slice(&dst.to_be_bytes());
                out.extend_from_slice(&[0; 4]);
            }
            Self::Tcp {
                src,
                dst,
                seq,
                ack,
                flags,
                window,
                options,
            } => {
                let header = tcp::Header {
                    src: *src,
                    dst: *dst,
                    seq: *seq,
                    ack: *ack,
                    flags: *flags,
                    window: *window,
                    urgent: 0,
                    options,
                };
                append(out, header.header_len(), |bytes| {
                    header.emit(bytes, ANY, ANY)
                });
            }
            Self::Icmp {
                kind,
                code,
                identifier,
                sequence,
            }
            | Self::Icmpv6 {
                kind,
                code,
                identifier,
                sequence,
                ..
            } => {
                let header = icmp::Header {
                    kind: *kind,
                    code: *code,
                    identifier: *identifier,
                    sequence: *sequence,
                };
                append(out, icmpv6::HEADER_LEN, |bytes| header.emit(bytes));
                if let Self::Icmpv6 { body, .. } = self {
                    out.extend_from_slice(body);
                }
            }
            Self::Esp { spi, sequence } => {
                let (spi, sequence) = (*spi, *sequence);
                let mut bytes = [0; esp::HEADER_LEN];
                esp::Header { spi, sequence }.emit(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            _ => {}
        }
    }

    fn emit_tunnel(&self, next: Option<&Self>, out: &mut Vec<u8>) {
        let protocol = next.map_or(ethernet::ETHERTYPE_EXPERIMENT, Self::ethertype);
        match self {
            Self::Vxlan { vni } => {
                let mut bytes = [0; vxlan::HEADER_LEN];
                vxlan::Header { vni: *vni }.emit(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            Self::Geneve { vni, options } => {
                let header = geneve::Header {
                    vni: *vni,
                    protocol,
                    control: false,
                    options,
                };
                append(out, header.header_len(), |bytes| header.emit(bytes));
            }
            Self::Gre { key, sequence } => {
                let header = gre::Header {
                    protocol,
                    key: *key,
                    sequence: *sequence,
                };
                append(out, header.header_len(), |bytes| header.emit(bytes));
            }
            Self::Gtpu {
                teid,
                qfi,
                pdu_type,
            } => {
                let pdu_type = *pdu_type;
                let header = gtpu::Header {
                    teid: *teid,
                    session: qfi.map(|qfi| gtpu::Session { pdu_type, qfi }),
                    payload_len: 0,
                };
                append(out, header.header_len(), |bytes| header.emit(bytes));
            }
            _ => {}
        }
    }

    /// Headers between Ethernet and IP.
    fn emit_shim(&self, next: Option<&Self>, out: &mut Vec<u8>) {
        match self {
            Self::Mpls { label, tc, ttl } => {
                let entry = mpls::Entry {
                    label: *label,
                    tc: *tc,
                    bottom: !matches!(next, Some(Self::Mpls { .. })),
                    ttl: *ttl,
                };
                let mut bytes = [0; mpls::LEN];
                entry.emit(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            Self::Pppoe { session_id } => {
                let header = pppoe::Header {
                    session_id: *session_id,
                    protocol: next.map_or(pppoe::PPP_PADDING, Self::ppp_protocol),
                    payload_len: 0,
                };
                let mut bytes = [0; pppoe::HEADER_LEN];
                header.emit(&mut bytes);
                out.extend_from_slice(&bytes);
            }
            Self::Nsh {
                spi,
                si,
                ttl,
                context,
            } => {
                let header = nsh::Header {
                    spi: *spi,
                    si: *si,
                    ttl: *ttl,
                    protocol: next.map_or(nsh::NEXT_EXPERIMENT, Self::nsh_protocol),
                    context,
                };
                append(out, header.header_len(), |bytes| header.emit(bytes));
            }
            _ => {}
        }
    }
}

/// Appends `len` bytes that `emit` writes; it cannot fail, since the buffer is
/// as long as asked for and the layer was validated.
fn append<E>(out: &mut Vec<u8>, len: usize, emit: impl FnOnce(&mut [u8]) -> Result<(), E>) {
    let at = out.len();
    out.resize(at + len, 0);
    let _ = emit(&mut out[at..]);
}

/// The headers that `layers` describe, and where they stand.
///
/// # Errors
/// [`SpecError`] names the layer, and the value, that does not fit.
pub(crate) fn build(layers: &[Layer]) -> Result<Layout, SpecError> {
    check(
        (1..=MAX_LAYERS).contains(&layers.len()),
        "layers",
        format!("expected 1 to {MAX_LAYERS}, got {}", layers.len()),
    )?;
    let mut layout = Layout::default();
    let mut before = None;
    for (k, layer) in layers.iter().enumerate() {
        let kind = layer.kind();
        let word = kind.word();
        check(
            kind.may_follow(before),
            format!("layers[{k}]"),
            match before {
                None => format!("expected ethernet as the first layer, got {word}"),
                Some(before) => format!("{word} cannot follow {}", before.word()),
            },
        )?;
        layer.validate(&format!("layers[{k}].{word}"))?;
        let at = layout.bytes.len();
        layer.emit(layers.get(k + 1), &mut layout.bytes);
        let tunnel = layers
            .get(k + 1)
            .is_some_and(|next| matches!(next.kind(), Kind::Vxlan | Kind::Geneve | Kind::Gtpu));
        // RFC 7348 section 4.1 wants no outer checksum over IPv4; over IPv6
        // receivers refuse its absence by default (RFC 6935).
        let with_check = !(tunnel && before == Some(Kind::Ipv4));
        layout.note(kind, at, with_check);
        before = Some(kind);
    }
    Ok(layout)
}
