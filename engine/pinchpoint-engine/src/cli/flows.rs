//! What varies from frame to frame, as field programs.

use super::Failure;
use super::args::{Axis, FlowArgs};
use crate::protocol::{FieldRequest, LayerRequest, Op};
use std::net::Ipv4Addr;

/// Destinations that one source meets before the next one's turn, when only
/// the number of flows is given: 255 sources with all of 65,535 servers.
const DESTINATIONS: u64 = 65_535;

/// Field programs and the number of flows they make.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Flows {
    /// Flows before the first comes again.
    pub count: u64,
    /// The fastest first.
    pub fields: Vec<FieldRequest>,
}

/// The flows that `args` ask for in frames with these `layers` (empty for
/// frames taken from elsewhere); source and destination are `swapped` on the
/// way back.
///
/// # Errors
/// If nothing varies although flows were asked for, or there are fewer.
pub(super) fn flows(
    args: &FlowArgs,
    layers: &[LayerRequest],
    swapped: bool,
) -> Result<Flows, Failure> {
    let counts = |axis| match axis {
        Axis::Src => args.src.map_or(1, |addresses| addresses.count),
        Axis::Dst => args.dst.map_or(1, |addresses| addresses.count),
        Axis::SrcPort => args.src_port.map_or(1, |ports| ports.count),
        Axis::DstPort => args.dst_port.map_or(1, |ports| ports.count),
    };
    let mut order: Vec<Axis> = Vec::new();
    let all = [Axis::Dst, Axis::Src, Axis::SrcPort, Axis::DstPort];
    for axis in args.order.iter().chain(&all) {
        if !order.contains(axis) {
            order.push(*axis);
        }
    }
    let given: Vec<(Axis, u64)> = order
        .iter()
        .map(|&axis| (axis, counts(axis)))
        .filter(|&(_, count)| count > 1)
        .collect();
    let wanted = args.flows.unwrap_or(1);
    let implied = given.is_empty() && args.field.is_empty() && wanted > 1;
    let digits = if implied {
        spread(wanted, &order)
    } else {
        given
    };
    let mut fields = Vec::new();
    for (axis, count) in digits {
        fields.push(FieldRequest {
            field: name(axis, layers, swapped)?,
            op: Op::Increment { step: 1, count },
        });
    }
    fields.extend(args.field.iter().cloned());
    let possible = fields.iter().fold(1, |product: u64, field| {
        product.saturating_mul(digit(&field.op))
    });
    let count = args.flows.unwrap_or(possible);
    if count == 0 || count > possible {
        return Err(Failure::usage(format!(
            "--flows {count}: expected 1 to {possible}, the number of combinations of the given ranges"
        )));
    }
    Ok(Flows { count, fields })
}

/// Destinations and sources enough for `wanted` flows.
fn spread(wanted: u64, order: &[Axis]) -> Vec<(Axis, u64)> {
    let destinations = wanted.min(DESTINATIONS);
    let sources = wanted.div_ceil(destinations);
    let digit = |&axis: &Axis| match axis {
        Axis::Dst => Some((axis, destinations)),
        Axis::Src => Some((axis, sources)).filter(|_| sources > 1),
        Axis::SrcPort | Axis::DstPort => None,
    };
    order.iter().filter_map(digit).collect()
}

/// How many values a program adds to the flows.
fn digit(op: &Op) -> u64 {
    match op {
        Op::Increment { count, .. } | Op::Random { count, .. } => *count,
        Op::List(values) => values.len() as u64,
        Op::Zipf { .. } => 1,
    }
}

/// The field in the innermost header that has it.
fn name(axis: Axis, layers: &[LayerRequest], swapped: bool) -> Result<String, Failure> {
    let of_ports = matches!(axis, Axis::SrcPort | Axis::DstPort);
    let words = layers.iter().map(word);
    let fits = |word: &&str| match *word {
        "ipv4" | "ipv6" | "arp" => !of_ports,
        "udp" | "tcp" => of_ports,
        _ => false,
    };
    let Some(header) = words.clone().rev().find(fits) else {
        return Err(Failure::usage(
            "--flows: these frames have no addresses that could vary; name what varies with \
             --field, as in --field ipv4.dst=increment:1:1000",
        ));
    };
    let source = matches!(axis, Axis::Src | Axis::SrcPort) != swapped;
    let field = match (header, source) {
        ("arp", true) => "sender_ip",
        ("arp", false) => "target_ip",
        (_, true) => "src",
        (_, false) => "dst",
    };
    Ok(match words.filter(|word| *word == header).count() {
        1 => format!("{header}.{field}"),
        count => format!("{header}[{}].{field}", count - 1),
    })
}

fn word(layer: &LayerRequest) -> &'static str {
    match layer {
        LayerRequest::Arp { .. } => "arp",
        LayerRequest::Ipv4 { .. } => "ipv4",
        LayerRequest::Ipv6 { .. } => "ipv6",
        LayerRequest::Udp { .. } => "udp",
        LayerRequest::Tcp { .. } => "tcp",
        _ => "",
    }
}

/// The programs that vary the IPv4 addresses of clients and servers over
/// ranges with these counts, servers first; on the way back (`swapped`)
/// servers are the sources.
pub(super) fn pairs(clients: u64, servers: u64, swapped: bool) -> Vec<FieldRequest> {
    let (of_clients, of_servers) = if swapped {
        ("ipv4.dst", "ipv4.src")
    } else {
        ("ipv4.src", "ipv4.dst")
    };
    let digits = [(of_servers, servers), (of_clients, clients)];
    let varying = digits.iter().filter(|(_, count)| *count > 1);
    varying
        .map(|&(field, count)| FieldRequest {
            field: field.to_owned(),
            op: Op::Increment { step: 1, count },
        })
        .collect()
}

/// Writes addresses into an Ethernet frame that carries IPv4 directly.
pub(super) fn set_addresses(frame: &mut [u8], src: Ipv4Addr, dst: Ipv4Addr) {
    const SRC: usize = 14 + 12;
    const DST: usize = 14 + 16;
    for (at, ip) in [(SRC, src), (DST, dst)] {
        if let Some(bytes) = frame.get_mut(at..at + 4) {
            bytes.copy_from_slice(&ip.octets());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command};
    use clap::Parser;

    /// The flows of UDP over IPv4 with these options, as `field:count`.
    fn told(options: &[&str], swapped: bool) -> Result<(u64, Vec<String>), String> {
        let args = [&["pinchpoint-engine", "send", "--from", "mem:a"], options].concat();
        let Some(Command::Send(args)) = Cli::try_parse_from(args).unwrap().command else {
            panic!("not send");
        };
        let layers = r#"[{"ipv4": {"src": "10.0.0.1", "dst": "10.0.0.2"}},
            {"ipv4": {"src": "16.0.0.1", "dst": "48.0.0.1"}}, {"udp": {"src": 1, "dst": 2}}]"#;
        let layers: Vec<LayerRequest> = serde_json::from_str(layers).unwrap();
        let flows = flows(&args.flows, &layers, swapped).map_err(|failure| failure.message)?;
        let field = |field: &FieldRequest| format!("{}:{}", field.field, digit(&field.op));
        Ok((flows.count, flows.fields.iter().map(field).collect()))
    }

    #[test]
    fn without_options_nothing_varies() {
        assert_eq!(told(&[], false), Ok((1, Vec::new())));
    }

    #[test]
    fn a_number_of_flows_alone_has_65535_destinations_to_a_source() {
        for (flows, fields) in [
            ("10", vec!["ipv4[1].dst:10"]),
            ("65536", vec!["ipv4[1].dst:65535", "ipv4[1].src:2"]),
        ] {
            let fields = fields.into_iter().map(str::to_owned).collect();
            assert_eq!(
                told(&["--flows", flows], false),
                Ok((flows.parse().unwrap(), fields))
            );
        }
    }

    #[test]
    fn ranges_multiply_in_their_order_and_are_swapped_on_the_way_back() {
        let options = [
            "--src",
            "1.0.0.1-1.0.0.3",
            "--dst",
            "2.0.0.1-2.0.0.5",
            "--dst-port",
            "7-8",
        ];
        let fields = |names: [&str; 3]| Ok((30, names.map(str::to_owned).to_vec()));
        assert_eq!(
            told(&options, false),
            fields(["ipv4[1].dst:5", "ipv4[1].src:3", "udp.dst:2"])
        );
        assert_eq!(
            told(&options, true),
            fields(["ipv4[1].src:5", "ipv4[1].dst:3", "udp.src:2"])
        );
        let other = [&options[..], &["--order", "dst-port,src,dst-port"]].concat();
        assert_eq!(
            told(&other, false),
            fields(["udp.dst:2", "ipv4[1].src:3", "ipv4[1].dst:5"])
        );
    }

    #[test]
    fn more_flows_than_there_are_is_refused() {
        let options = [
            "--dst",
            "2.0.0.1-2.0.0.5",
            "--field",
            "udp.src=list:1,2",
            "--flows",
            "11",
        ];
        let expected =
            "--flows 11: expected 1 to 10, the number of combinations of the given ranges";
        assert_eq!(told(&options, false), Err(expected.to_owned()));
    }
}
