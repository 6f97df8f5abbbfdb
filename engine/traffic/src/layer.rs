//! The headers a template is made of.

use crate::layout::Kind;
use crate::limits::{SpecError, check};
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_wire::{geneve, ipv4, ipv6, nsh, tcp};
use std::net::{Ipv4Addr, Ipv6Addr};

/// One header of a template. Numbers that exceed a field's width are errors.
///
/// What follows a header is written into it: the EtherType or protocol number
/// of the next layer, or, with none behind it, those reserved for
/// experiments (0x88b5; 253; over IPv6 59, "no next header").
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layer {
    /// Ethernet II; the first layer, or inside VXLAN, Geneve, GRE and behind a
    /// network service header.
    Ethernet {
        /// Source address.
        src: Mac,
        /// Destination address.
        dst: Mac,
        /// EtherType to claim, whatever follows.
        ethertype: Option<u16>,
    },
    /// A VLAN tag, behind Ethernet or another tag.
    Vlan {
        /// Tag protocol identifier: 0x8100, or 0x88a8 for a service tag.
        tpid: u16,
        /// VLAN identifier, 0 to 4095.
        id: u16,
        /// Priority code point, 0 to 7.
        pcp: u8,
        /// Drop eligible indicator.
        dei: bool,
    },
    /// ARP; nothing follows it.
    Arp {
        /// 1 a request, 2 a reply.
        operation: u16,
        /// Ethernet address of the sender.
        sender_mac: Mac,
        /// IPv4 address of the sender.
        sender_ip: Ipv4Addr,
        /// Ethernet address of the target.
        target_mac: Mac,
        /// IPv4 address of the target.
        target_ip: Ipv4Addr,
    },
    /// IPv4, behind Ethernet, a tag, IP, or any tunnel but VXLAN.
    Ipv4 {
        /// Source address.
        src: Ipv4Addr,
        /// Destination address.
        dst: Ipv4Addr,
        /// Time to live, in hops.
        ttl: u8,
        /// Differentiated services code point, 0 to 63.
        dscp: u8,
        /// Explicit congestion notification, 0 to 3.
        ecn: u8,
        /// Identification.
        identification: u16,
        /// Whether the packet must not be fragmented.
        dont_fragment: bool,
        /// Protocol number to claim, whatever follows.
        protocol: Option<u8>,
        /// Options as they stand on the wire: a multiple of 4 bytes, at most
        /// 40.
        options: Vec<u8>,
    },
    /// IPv6, behind Ethernet, a tag, IP, or any tunnel but VXLAN.
    Ipv6 {
        /// Source address.
        src: Ipv6Addr,
        /// Destination address.
        dst: Ipv6Addr,
        /// Hop limit.
        hop_limit: u8,
        /// Traffic class.
        traffic_class: u8,
        /// Flow label, 20 bits.
        flow_label: u32,
        /// Protocol number to claim behind the extensions, whatever follows.
        next_header: Option<u8>,
        /// Extension headers in their order.
        extensions: Vec<Extension>,
    },
    /// UDP. Before VXLAN, Geneve and GTP-U over IPv4 it goes without checksum
    /// (RFC 7348 section 4.1), elsewhere with one.
    Udp {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
    },
    /// TCP; nothing follows it.
    Tcp {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
        /// Sequence number.
        seq: u32,
        /// Acknowledgment number.
        ack: u32,
        /// The eight control bits (FIN 1, SYN 2, RST 4, PSH 8, ACK 16) and the
        /// four reserved above them.
        flags: u16,
        /// Window, unscaled.
        window: u16,
        /// Options as they stand on the wire: a multiple of 4 bytes, at most
        /// 40.
        options: Vec<u8>,
    },
    /// ICMP over IPv4; nothing follows it.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// Identifier of an echo; of other types, bytes 4 and 5.
        identifier: u16,
        /// Sequence number of an echo; of other types, bytes 6 and 7.
        sequence: u16,
    },
    /// ICMPv6 over IPv6; nothing follows it.
    Icmpv6 {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// Identifier of an echo; of other types, bytes 4 and 5.
        identifier: u16,
        /// Sequence number of an echo; of other types, bytes 6 and 7.
        sequence: u16,
        /// What follows these 8 bytes, such as the target and the options of
        /// a neighbour solicitation; at most 1,024 bytes.
        body: Vec<u8>,
    },
    /// VXLAN behind UDP; Ethernet follows.
    Vxlan {
        /// Network identifier, 24 bits.
        vni: u32,
    },
    /// Geneve behind UDP; Ethernet or IP follows.
    Geneve {
        /// Network identifier, 24 bits.
        vni: u32,
        /// Options as they stand on the wire: a multiple of 4 bytes, at most
        /// 252.
        options: Vec<u8>,
    },
    /// GRE behind IP; Ethernet, IP, MPLS or a network service header follows.
    Gre {
        /// Key.
        key: Option<u32>,
        /// Sequence number.
        sequence: Option<u32>,
    },
    /// An MPLS label, behind Ethernet, a tag, GRE or another label; IP follows
    /// the last one, which is marked as such.
    Mpls {
        /// Label, 20 bits.
        label: u32,
        /// Traffic class, 0 to 7.
        tc: u8,
        /// Time to live.
        ttl: u8,
    },
    /// A PPPoE session, behind Ethernet or a tag; IP follows.
    Pppoe {
        /// Session identifier.
        session_id: u16,
    },
    /// GTP-U behind UDP; IP follows.
    Gtpu {
        /// Tunnel endpoint identifier.
        teid: u32,
        /// QoS flow identifier, 0 to 63, of a PDU session container.
        qfi: Option<u8>,
        /// PDU type of the container: 0 downlink, 1 uplink.
        pdu_type: u8,
    },
    /// Network service header, behind Ethernet, a tag or GRE; Ethernet or IP
    /// follows.
    Nsh {
        /// Service path identifier, 24 bits.
        spi: u32,
        /// Service index.
        si: u8,
        /// Time to live, 0 to 63.
        ttl: u8,
        /// Context of 16 bytes, with metadata type 1, or none, with type 2.
        context: Vec<u8>,
    },
    /// ESP behind IP; nothing follows it but what stands for ciphertext.
    Esp {
        /// Security parameters index.
        spi: u32,
        /// Sequence number.
        sequence: u32,
    },
}

/// An IPv6 extension header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// Which one.
    pub kind: ExtensionKind,
    /// What follows its first two bytes, which are filled in: 8n + 6 bytes, at
    /// most 2,046; of a fragment header 6.
    pub body: Vec<u8>,
}

/// Which extension header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtensionKind {
    /// Hop-by-hop options.
    HopByHop,
    /// Routing.
    Routing,
    /// Fragment; one of a packet that is not cut, or a receiver would wait for
    /// the rest.
    Fragment,
    /// Destination options.
    Destination,
}

impl ExtensionKind {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::HopByHop => ipv6::HOP_BY_HOP,
            Self::Routing => ipv6::ROUTING,
            Self::Fragment => ipv6::FRAGMENT,
            Self::Destination => ipv6::DESTINATION,
        }
    }
}

impl Layer {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Ethernet { .. } => Kind::Eth,
            Self::Vlan { .. } => Kind::Vlan,
            Self::Arp { .. } => Kind::Arp,
            Self::Ipv4 { .. } => Kind::Ipv4,
            Self::Ipv6 { .. } => Kind::Ipv6,
            Self::Udp { .. } => Kind::Udp,
            Self::Tcp { .. } => Kind::Tcp,
            Self::Icmp { .. } => Kind::Icmp,
            Self::Icmpv6 { .. } => Kind::Icmpv6,
            Self::Vxlan { .. } => Kind::Vxlan,
            Self::Geneve { .. } => Kind::Geneve,
            Self::Gre { .. } => Kind::Gre,
            Self::Mpls { .. } => Kind::Mpls,
            Self::Pppoe { .. } => Kind::Pppoe,
            Self::Gtpu { .. } => Kind::Gtpu,
            Self::Nsh { .. } => Kind::Nsh,
            Self::Esp { .. } => Kind::Esp,
        }
    }

    /// Checks the values that have a narrower range than their types; `key` is
    /// the layer's.
    pub(crate) fn validate(&self, key: &str) -> Result<(), SpecError> {
        let below = |name: &str, value: u64, end: u64| {
            check(
                value < end,
                format!("{key}.{name}"),
                format!("expected 0 to {}, got {value}", end - 1),
            )
        };
        let words = |name: &str, bytes: &[u8], max: usize| {
            check(
                bytes.len().is_multiple_of(4) && bytes.len() <= max,
                format!("{key}.{name}"),
                format!(
                    "expected a multiple of 4 bytes, at most {max}, got {}",
                    bytes.len()
                ),
            )
        };
        match self {
            Self::Vlan { id, pcp, .. } => {
                below("id", u64::from(*id), 4096)?;
                below("pcp", u64::from(*pcp), 8)
            }
            Self::Ipv4 {
                dscp, ecn, options, ..
            } => {
                below("dscp", u64::from(*dscp), 64)?;
                below("ecn", u64::from(*ecn), 4)?;
                words("options", options, ipv4::MAX_HEADER_LEN - ipv4::HEADER_LEN)
            }
            Self::Ipv6 {
                flow_label,
                extensions,
                ..
            } => {
                below("flow_label", u64::from(*flow_label), 1 << 20)?;
                validate_extensions(extensions, key)
            }
            Self::Tcp { flags, options, .. } => {
                below("flags", u64::from(*flags), 1 << 12)?;
                words("options", options, tcp::MAX_HEADER_LEN - tcp::HEADER_LEN)
            }
            Self::Icmpv6 { body, .. } => check(
                body.len() <= 1024,
                format!("{key}.body"),
                format!("expected at most 1024 bytes, got {}", body.len()),
            ),
            Self::Vxlan { vni } => below("vni", u64::from(*vni), 1 << 24),
            Self::Geneve { vni, options } => {
                below("vni", u64::from(*vni), 1 << 24)?;
                words("options", options, geneve::MAX_OPTIONS)
            }
            Self::Mpls { label, tc, .. } => {
                below("label", u64::from(*label), 1 << 20)?;
                below("tc", u64::from(*tc), 8)
            }
            Self::Gtpu { qfi, pdu_type, .. } => {
                below("qfi", u64::from(qfi.unwrap_or(0)), 64)?;
                below("pdu_type", u64::from(*pdu_type), 2)
            }
            Self::Nsh {
                spi, ttl, context, ..
            } => {
                below("spi", u64::from(*spi), 1 << 24)?;
                below("ttl", u64::from(*ttl), 64)?;
                check(
                    matches!(context.len(), 0 | nsh::CONTEXT_LEN),
                    format!("{key}.context"),
                    format!(
                        "expected {} bytes or none, got {}",
                        nsh::CONTEXT_LEN,
                        context.len()
                    ),
                )
            }
            _ => Ok(()),
        }
    }
}

fn validate_extensions(extensions: &[Extension], key: &str) -> Result<(), SpecError> {
    for (j, extension) in extensions.iter().enumerate() {
        let len = extension.body.len();
        let fragment = extension.kind == ExtensionKind::Fragment;
        let max = if fragment { 6 } else { 2046 };
        check(
            len % 8 == 6 && len <= max,
            format!("{key}.extensions[{j}].body"),
            format!("expected 6 bytes, or 6 more than a multiple of 8 up to {max}, got {len}"),
        )?;
    }
    Ok(())
}
