//! What a stream's frames are made from, in the words of the traffic crate.

use super::invalid;
use crate::protocol::{
    ErrorReply, ExtensionRequest, LayerRequest, Op, RunRequest, Size, StreamRequest, TcpFlag,
    Template, Wrong,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinchpoint_traffic::spec::{
    self, Extension, ExtensionKind, FieldProgram, Layer, Sizes, StreamSpec, imix,
};
use pinchpoint_wire::{FCS_LEN, ipv6};

/// Which of a stream's parts: its tuple indexes are a block of the stream's.
pub(super) struct Block {
    /// Number of the part, from 0.
    pub part: u64,
    /// How many parts there are.
    pub parts: u64,
}

impl Block {
    /// First tuple index and number of indexes of this part of `flows`. With
    /// fewer flows than parts, some parts share one.
    pub(super) fn of(&self, flows: u64) -> (u64, u64) {
        if flows < self.parts {
            return (self.part % flows.max(1), flows.min(1));
        }
        let begin =
            |part: u64| (u128::from(part) * u128::from(flows) / u128::from(self.parts)) as u64;
        let first = begin(self.part);
        (first, begin(self.part + 1) - first)
    }
}

/// The frames of one part of a stream, which carry `id`.
pub(super) fn spec(
    request: &StreamRequest,
    run: &RunRequest,
    id: u16,
    block: &Block,
    key: &str,
) -> Result<StreamSpec, ErrorReply> {
    let (first_flow, flows) = block.of(request.flows);
    let mut fields = Vec::with_capacity(request.fields.len());
    for (k, program) in request.fields.iter().enumerate() {
        let field = program.field.parse();
        let field = field
            .map_err(|error| invalid(format!("{key}.fields[{k}].field"), format!("{error}")))?;
        let op = op(&program.op);
        fields.push(FieldProgram { field, op });
    }
    Ok(StreamSpec {
        id,
        epoch: run.epoch,
        seed: request.seed,
        part: block.part,
        stamped: request.stamped,
        sizes: sizes(&request.size, key)?,
        template: template(&request.template, key)?,
        wrong: spec::Wrong {
            ipv4: request.wrong_checksums.contains(&Wrong::Ipv4),
            l4: request.wrong_checksums.contains(&Wrong::L4),
        },
        flows,
        first_flow,
        fields,
        together: request.together,
    })
}

fn op(op: &Op) -> spec::Op {
    match op {
        &Op::Increment { step, count } => spec::Op::Increment { step, count },
        Op::List(values) => spec::Op::List(values.clone()),
        &Op::Random { min, max, count } => spec::Op::Random { min, max, count },
        &Op::Zipf {
            count,
            exponent,
            step,
        } => spec::Op::Zipf {
            count,
            exponent,
            step,
        },
    }
}

fn sizes(size: &Size, key: &str) -> Result<Sizes, ErrorReply> {
    // Too short a frame stays too short, and is refused by its checks.
    let len = |bytes: usize| bytes.saturating_sub(FCS_LEN);
    Ok(match size {
        Size::Fixed(bytes) => Sizes::Fixed(len(*bytes)),
        Size::List(list) => Sizes::List(
            list.iter()
                .map(|&(bytes, weight)| (len(bytes), weight))
                .collect(),
        ),
        Size::Imix(name) => imix(name).ok_or_else(|| {
            invalid(
                format!("{key}.size.imix"),
                format!("unknown mix '{name}'; expected simple or IMIX_v4_1"),
            )
        })?,
        Size::Random(min, max) => Sizes::Random {
            min: len(*min),
            max: len(*max),
        },
    })
}

fn template(template: &Template, key: &str) -> Result<spec::Template, ErrorReply> {
    match template {
        Template::Frame(text) => {
            let bytes = STANDARD.decode(text).map_err(|error| {
                invalid(
                    format!("{key}.template.frame"),
                    format!("not base64: {error}"),
                )
            })?;
            Ok(spec::Template::Bytes(bytes))
        }
        Template::Capture { .. } => Err(invalid(
            format!("{key}.template.capture"),
            "expected another template: a replay is sent and received by one engine",
        )),
        Template::Layers(layers) => {
            let numbered = layers.iter().enumerate();
            let layers: Result<_, _> = numbered
                .map(|(k, one)| layer(one, &format!("{key}.template.layers[{k}]")))
                .collect();
            Ok(spec::Template::Layers(layers?))
        }
    }
}

#[allow(clippy::too_many_lines)] // a table: one arm for each header
fn layer(request: &LayerRequest, key: &str) -> Result<Layer, ErrorReply> {
    Ok(match request {
        LayerRequest::Ethernet {
            src,
            dst,
            ethertype,
        } => Layer::Ethernet {
            src: src.0,
            dst: dst.0,
            ethertype: *ethertype,
        },
        &LayerRequest::Vlan { id, pcp, dei, tpid } => Layer::Vlan { tpid, id, pcp, dei },
        LayerRequest::Arp {
            operation,
            sender_mac,
            sender_ip,
            target_mac,
            target_ip,
        } => Layer::Arp {
            operation: *operation,
            sender_mac: sender_mac.0,
            sender_ip: *sender_ip,
            target_mac: target_mac.0,
            target_ip: *target_ip,
        },
        LayerRequest::Ipv4 {
            src,
            dst,
            ttl,
            dscp,
            ecn,
            identification,
            dont_fragment,
            options,
            protocol,
        } => Layer::Ipv4 {
            src: *src,
            dst: *dst,
            ttl: *ttl,
            dscp: *dscp,
            ecn: *ecn,
            identification: *identification,
            dont_fragment: *dont_fragment,
            options: options.0.clone(),
            protocol: *protocol,
        },
        LayerRequest::Ipv6 {
            src,
            dst,
            hop_limit,
            dscp,
            ecn,
            flow_label,
            extensions,
            next_header,
        } => Layer::Ipv6 {
            src: *src,
            dst: *dst,
            hop_limit: *hop_limit,
            traffic_class: traffic_class(*dscp, *ecn, key)?,
            flow_label: *flow_label,
            extensions: extensions_of(extensions, key)?,
            next_header: *next_header,
        },
        &LayerRequest::Udp { src, dst } => Layer::Udp { src, dst },
        LayerRequest::Tcp {
            src,
            dst,
            seq,
            ack,
            flags,
            window,
            options,
        } => Layer::Tcp {
            src: *src,
            dst: *dst,
            seq: *seq,
            ack: *ack,
            flags: flags.iter().fold(0, |bits, flag| bits | flag_bit(*flag)),
            window: *window,
            options: options.0.clone(),
        },
        LayerRequest::Icmp(echo) if !echo.body.is_empty() => {
            return Err(invalid(
                format!("{key}.icmp.body"),
                "expected none: only icmpv6 has a body",
            ));
        }
        LayerRequest::Icmp(echo) => Layer::Icmp {
            kind: echo.kind,
            code: echo.code,
            identifier: echo.identifier,
            sequence: echo.sequence,
        },
        LayerRequest::Icmpv6(echo) => Layer::Icmpv6 {
            kind: echo.kind,
            code: echo.code,
            identifier: echo.identifier,
            sequence: echo.sequence,
            body: echo.body.0.clone(),
        },
        &LayerRequest::Vxlan { vni } => Layer::Vxlan { vni },
        LayerRequest::Geneve { vni, options } => Layer::Geneve {
            vni: *vni,
            options: options.0.clone(),
        },
        &LayerRequest::Gre { key, sequence } => Layer::Gre { key, sequence },
        &LayerRequest::Mpls { label, tc, ttl } => Layer::Mpls { label, tc, ttl },
        &LayerRequest::Pppoe { session_id } => Layer::Pppoe { session_id },
        &LayerRequest::Gtpu {
            teid,
            qfi,
            pdu_type,
        } => Layer::Gtpu {
            teid,
            qfi,
            pdu_type,
        },
        LayerRequest::Nsh {
            spi,
            si,
            ttl,
            context,
        } => Layer::Nsh {
            spi: *spi,
            si: *si,
            ttl: *ttl,
            context: context.0.clone(),
        },
        &LayerRequest::Esp { spi, sequence } => Layer::Esp { spi, sequence },
    })
}

fn traffic_class(dscp: u8, ecn: u8, key: &str) -> Result<u8, ErrorReply> {
    if dscp < 64 && ecn < 4 {
        return Ok(dscp << 2 | ecn);
    }
    Err(invalid(
        format!("{key}.ipv6"),
        format!("expected dscp of 0 to 63 and ecn of 0 to 3, got {dscp} and {ecn}"),
    ))
}

fn extensions_of(list: &[ExtensionRequest], key: &str) -> Result<Vec<Extension>, ErrorReply> {
    let numbered = list.iter().enumerate();
    let extension = |(k, one): (usize, &ExtensionRequest)| {
        let kind = match one.kind {
            ipv6::HOP_BY_HOP => ExtensionKind::HopByHop,
            ipv6::ROUTING => ExtensionKind::Routing,
            ipv6::FRAGMENT => ExtensionKind::Fragment,
            ipv6::DESTINATION => ExtensionKind::Destination,
            other => {
                return Err(invalid(
                    format!("{key}.ipv6.extensions[{k}].kind"),
                    format!(
                        "expected 0 (hop-by-hop), 43 (routing), 44 (fragment) or 60 \
                         (destination), got {other}"
                    ),
                ));
            }
        };
        let body = one.data.0.clone();
        Ok(Extension { kind, body })
    };
    numbered.map(extension).collect()
}

fn flag_bit(flag: TcpFlag) -> u16 {
    1 << flag as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_blocks_of_all_parts_are_the_stream(flows in 1u64..100_000, parts in 1u64..20) {
            let blocks: Vec<_> = (0..parts).map(|part| Block { part, parts }.of(flows)).collect();
            prop_assert!(blocks.iter().all(|&(first, count)| count > 0 && first + count <= flows));
            if flows >= parts {
                let mut next = 0;
                for (first, count) in blocks {
                    prop_assert_eq!(first, next);
                    next = first + count;
                }
                prop_assert_eq!(next, flows);
            }
        }
    }
}
