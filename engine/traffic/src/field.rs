//! Fields that a program may vary, by their names.

use crate::layout::Kind;
use std::fmt;
use std::str::FromStr;

macro_rules! names {
    ($($(#[$meta:meta])* $name:ident = $code:literal: $kind:ident $text:literal
        bits $bit:literal + $width:literal;)*) => {
        /// A field of a header. The number of each is part of what its random
        /// values are made from, and never changes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum FieldName { $($(#[$meta])* $name = $code,)* }

        impl FieldName {
            /// Every field.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its header and its name there, the first bit counted from the
            /// header's, and how many bits it has.
            pub(crate) const fn place(self) -> (Kind, &'static str, usize, usize) {
                match self { $(Self::$name => (Kind::$kind, $text, $bit, $width),)* }
            }
        }
    };
}

names! {
    /// `eth.dst`: Ethernet destination.
    EthDst = 0: Eth "dst" bits 0 + 48;
    /// `eth.src`: Ethernet source.
    EthSrc = 1: Eth "src" bits 48 + 48;
    /// `vlan.pcp`: priority code point of a tag.
    VlanPcp = 2: Vlan "pcp" bits 0 + 3;
    /// `vlan.id`: VLAN identifier.
    VlanId = 3: Vlan "id" bits 4 + 12;
    /// `arp.sender_ip`: who asks.
    ArpSenderIp = 4: Arp "sender_ip" bits 112 + 32;
    /// `arp.target_ip`: who is asked.
    ArpTargetIp = 5: Arp "target_ip" bits 192 + 32;
    /// `ipv4.dscp`: differentiated services code point.
    Ipv4Dscp = 6: Ipv4 "dscp" bits 8 + 6;
    /// `ipv4.identification`.
    Ipv4Identification = 7: Ipv4 "identification" bits 32 + 16;
    /// `ipv4.ttl`: time to live.
    Ipv4Ttl = 8: Ipv4 "ttl" bits 64 + 8;
    /// `ipv4.src`: source address.
    Ipv4Src = 9: Ipv4 "src" bits 96 + 32;
    /// `ipv4.dst`: destination address.
    Ipv4Dst = 10: Ipv4 "dst" bits 128 + 32;
    /// `ipv6.traffic_class`.
    Ipv6TrafficClass = 11: Ipv6 "traffic_class" bits 4 + 8;
    /// `ipv6.flow_label`.
    Ipv6FlowLabel = 12: Ipv6 "flow_label" bits 12 + 20;
    /// `ipv6.hop_limit`.
    Ipv6HopLimit = 13: Ipv6 "hop_limit" bits 56 + 8;
    /// `ipv6.src`: the low 64 bits of the source address.
    Ipv6Src = 14: Ipv6 "src" bits 128 + 64;
    /// `ipv6.dst`: the low 64 bits of the destination address.
    Ipv6Dst = 15: Ipv6 "dst" bits 256 + 64;
    /// `udp.src`: source port.
    UdpSrc = 16: Udp "src" bits 0 + 16;
    /// `udp.dst`: destination port.
    UdpDst = 17: Udp "dst" bits 16 + 16;
    /// `tcp.src`: source port.
    TcpSrc = 18: Tcp "src" bits 0 + 16;
    /// `tcp.dst`: destination port.
    TcpDst = 19: Tcp "dst" bits 16 + 16;
    /// `tcp.seq`: sequence number.
    TcpSeq = 20: Tcp "seq" bits 32 + 32;
    /// `tcp.ack`: acknowledgment number.
    TcpAck = 21: Tcp "ack" bits 64 + 32;
    /// `icmp.identifier`.
    IcmpIdentifier = 22: Icmp "identifier" bits 32 + 16;
    /// `icmp.sequence`.
    IcmpSequence = 23: Icmp "sequence" bits 48 + 16;
    /// `icmpv6.identifier`.
    Icmpv6Identifier = 24: Icmpv6 "identifier" bits 32 + 16;
    /// `icmpv6.sequence`.
    Icmpv6Sequence = 25: Icmpv6 "sequence" bits 48 + 16;
    /// `vxlan.vni`: network identifier.
    VxlanVni = 26: Vxlan "vni" bits 32 + 24;
    /// `geneve.vni`: network identifier.
    GeneveVni = 27: Geneve "vni" bits 32 + 24;
    /// `gre.key`.
    GreKey = 28: Gre "key" bits 32 + 32;
    /// `gre.sequence`: sequence number; behind a key it stands further back.
    GreSequence = 29: Gre "sequence" bits 32 + 32;
    /// `mpls.label`.
    MplsLabel = 30: Mpls "label" bits 0 + 20;
    /// `mpls.tc`: traffic class.
    MplsTc = 31: Mpls "tc" bits 20 + 3;
    /// `mpls.ttl`: time to live.
    MplsTtl = 32: Mpls "ttl" bits 24 + 8;
    /// `pppoe.session_id`: session identifier.
    PppoeSessionId = 33: Pppoe "session_id" bits 16 + 16;
    /// `gtpu.teid`: tunnel endpoint identifier.
    GtpuTeid = 34: Gtpu "teid" bits 32 + 32;
    /// `nsh.spi`: service path identifier.
    NshSpi = 35: Nsh "spi" bits 32 + 24;
    /// `nsh.si`: service index.
    NshSi = 36: Nsh "si" bits 56 + 8;
    /// `esp.spi`: security parameters index.
    EspSpi = 37: Esp "spi" bits 0 + 32;
    /// `esp.sequence`: sequence number.
    EspSequence = 38: Esp "sequence" bits 32 + 32;
}

impl FieldName {
    /// The largest value the field holds.
    pub const fn max(self) -> u64 {
        let (_, _, _, width) = self.place();
        u64::MAX >> (64 - width)
    }
}

/// One field of one header of a template, written `ipv4.src` for the outermost
/// header of its kind and `ipv4[1].src` for the next one inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldRef {
    /// Which header of its kind, 0 the outermost.
    pub layer: usize,
    /// Which field there.
    pub name: FieldName,
}

impl FieldRef {
    /// The field of the outermost header of its kind.
    pub const fn outermost(name: FieldName) -> Self {
        Self { layer: 0, name }
    }

    /// A number of its own for every field.
    pub(crate) const fn code(self) -> u64 {
        (self.layer as u64) << 8 | self.name as u64
    }
}

impl fmt::Display for FieldRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, field, _, _) = self.name.place();
        match self.layer {
            0 => write!(f, "{}.{field}", kind.word()),
            layer => write!(f, "{}[{layer}].{field}", kind.word()),
        }
    }
}

/// A text that names no field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField(String);

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown field '{}'; expected one of", self.0)?;
        let last = FieldName::ALL.len() - 1;
        for (k, name) in FieldName::ALL.iter().enumerate() {
            let end = if k == last { "" } else { "," };
            write!(f, " {}{end}", FieldRef::outermost(*name))?;
        }
        write!(f, "; the second header of a kind is ipv4[1].src")
    }
}

impl std::error::Error for UnknownField {}

impl FromStr for FieldRef {
    type Err = UnknownField;

    fn from_str(text: &str) -> Result<Self, UnknownField> {
        parse(text).ok_or_else(|| UnknownField(text.chars().take(64).collect()))
    }
}

fn parse(text: &str) -> Option<FieldRef> {
    let (header, field) = text.split_once('.')?;
    let (header, layer) = match header.split_once('[') {
        None => (header, 0),
        Some((header, rest)) => {
            let digits = rest.strip_suffix(']')?;
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            (header, digits.parse().ok().filter(|_| plain)?)
        }
    };
    let matches = |name: &&FieldName| {
        let (kind, known, _, _) = name.place();
        kind.word() == header && known == field
    };
    let name = *FieldName::ALL.iter().find(matches)?;
    Some(FieldRef { layer, name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_reads_back() {
        for name in FieldName::ALL {
            for layer in [0, 1, 7] {
                let field = FieldRef { layer, name: *name };
                assert_eq!(field.to_string().parse(), Ok(field));
            }
        }
        let second = FieldRef {
            layer: 1,
            name: FieldName::Ipv4Src,
        };
        assert_eq!("ipv4[1].src".parse(), Ok(second));
        assert_eq!(second.to_string(), "ipv4[1].src");
        let codes: HashSet<_> = FieldName::ALL.iter().map(|name| *name as u8).collect();
        assert_eq!(codes.len(), FieldName::ALL.len());
    }

    #[test]
    fn what_names_no_field_is_refused_with_the_list() {
        for text in [
            "",
            "ipv4",
            "ipv4.",
            ".src",
            "ipv4.port",
            "ipv4[].src",
            "ipv4[1.src",
            "ipv4[+1].src",
            "ipv4[-1].src",
            "ipv4[99999999999999999999].src",
            "IPV4.src",
            "ipv4.src ",
        ] {
            let error = text.parse::<FieldRef>().unwrap_err().to_string();
            assert!(
                error.contains("gre.key") && error.contains("vlan.id"),
                "{error}"
            );
        }
    }
}
