//! The headers of a template as they stand on the wire, outermost first.

use super::Mac;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr};

/// One header; the README gives the meaning and default of each key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)] // the README defines the keys, once
pub enum LayerRequest {
    Ethernet {
        src: Mac,
        dst: Mac,
        #[serde(default)]
        ethertype: Option<u16>,
    },
    Vlan {
        id: u16,
        #[serde(default)]
        pcp: u8,
        #[serde(default)]
        dei: bool,
        #[serde(default = "tpid")]
        tpid: u16,
    },
    Arp {
        #[serde(default = "request")]
        operation: u16,
        sender_mac: Mac,
        sender_ip: Ipv4Addr,
        target_mac: Mac,
        target_ip: Ipv4Addr,
    },
    Ipv4 {
        src: Ipv4Addr,
        dst: Ipv4Addr,
        #[serde(default = "hops")]
        ttl: u8,
        #[serde(default)]
        dscp: u8,
        #[serde(default)]
        ecn: u8,
        #[serde(default)]
        identification: u16,
        #[serde(default = "yes")]
        dont_fragment: bool,
        #[serde(default)]
        options: Hex,
        #[serde(default)]
        protocol: Option<u8>,
    },
    Ipv6 {
        src: Ipv6Addr,
        dst: Ipv6Addr,
        #[serde(default = "hops")]
        hop_limit: u8,
        #[serde(default)]
        dscp: u8,
        #[serde(default)]
        ecn: u8,
        #[serde(default)]
        flow_label: u32,
        #[serde(default)]
        extensions: Vec<ExtensionRequest>,
        #[serde(default)]
        next_header: Option<u8>,
    },
    Udp {
        src: u16,
        dst: u16,
    },
    Tcp {
        src: u16,
        dst: u16,
        #[serde(default)]
        seq: u32,
        #[serde(default)]
        ack: u32,
        #[serde(default = "syn")]
        flags: Vec<TcpFlag>,
        #[serde(default = "window")]
        window: u16,
        #[serde(default)]
        options: Hex,
    },
    Icmp(EchoRequest),
    Icmpv6(EchoRequest),
    Vxlan {
        vni: u32,
    },
    Geneve {
        vni: u32,
        #[serde(default)]
        options: Hex,
    },
    Gre {
        #[serde(default)]
        key: Option<u32>,
        #[serde(default)]
        sequence: Option<u32>,
    },
    Mpls {
        label: u32,
        #[serde(default)]
        tc: u8,
        #[serde(default = "hops")]
        ttl: u8,
    },
    Pppoe {
        session_id: u16,
    },
    Gtpu {
        teid: u32,
        #[serde(default)]
        qfi: Option<u8>,
        #[serde(default)]
        pdu_type: u8,
    },
    Nsh {
        spi: u32,
        #[serde(default = "service_index")]
        si: u8,
        #[serde(default = "service_ttl")]
        ttl: u8,
        #[serde(default = "context")]
        context: Hex,
    },
    Esp {
        spi: u32,
        #[serde(default = "first_sequence")]
        sequence: u32,
    },
}

/// An IPv6 extension header without its first two bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ExtensionRequest {
    pub kind: u8,
    pub data: Hex,
}

/// An ICMP header of the echo form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct EchoRequest {
    #[serde(rename = "type")]
    pub kind: u8,
    #[serde(default)]
    pub code: u8,
    #[serde(default)]
    pub identifier: u16,
    #[serde(default)]
    pub sequence: u16,
    #[serde(default, skip_serializing_if = "Hex::is_empty")]
    pub body: Hex,
}

/// A flag of a TCP header (RFC 9293 section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum TcpFlag {
    Fin,
    Syn,
    Rst,
    Psh,
    Ack,
    Urg,
    Ece,
    Cwr,
}

fn tpid() -> u16 {
    0x8100
}

fn request() -> u16 {
    1
}

fn hops() -> u8 {
    64
}

fn yes() -> bool {
    true
}

fn syn() -> Vec<TcpFlag> {
    vec![TcpFlag::Syn]
}

fn window() -> u16 {
    u16::MAX
}

fn service_index() -> u8 {
    u8::MAX
}

fn service_ttl() -> u8 {
    63
}

fn context() -> Hex {
    Hex(vec![0; pinchpoint_wire::nsh::CONTEXT_LEN])
}

fn first_sequence() -> u32 {
    1
}

/// Bytes written as hexadecimal digits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hex(pub Vec<u8>);

impl Hex {
    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = hex::decode(&text);
        bytes
            .map(Self)
            .map_err(|error| serde::de::Error::custom(format!("'{text}': {error}")))
    }
}
