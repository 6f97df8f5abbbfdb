//! A stream of the protocol in the words of the traffic crate.

use super::{Known, KnownPort, check, invalid};
use crate::protocol::{ErrorReply, Rate, Shape, StreamRequest};
use pinchpoint_traffic::hash::Hash;
use pinchpoint_traffic::pacer::{self, Pacer};
use pinchpoint_traffic::spec::{FieldProgram, Op, StreamSpec};
use pinchpoint_wire::FCS_LEN;

const MAX_RATE_FPS: f64 = 1e9;
/// Bytes that a frame takes on the wire besides itself: preamble, start of
/// frame delimiter and inter-packet gap (IEEE 802.3 clause 4.4.2).
const WIRE_OVERHEAD: usize = 20;

/// Frames per second of the whole stream, whose frames are `mean_len` bytes
/// long on average, without check sequence; none when unpaced. A capture has a
/// rate of its own, `own_fps`.
pub(super) fn rate_fps(
    request: &StreamRequest,
    tx_port: &KnownPort,
    mean_len: f64,
    own_fps: Option<f64>,
    key: &str,
) -> Result<Option<f64>, ErrorReply> {
    let key = format!("{key}.rate");
    let l2_bits = (mean_len + FCS_LEN as f64) * 8.0;
    let l1_bits = l2_bits + (WIRE_OVERHEAD * 8) as f64;
    let rate_fps = match &request.rate {
        None => return Ok(None),
        Some(Rate::Fps(rate_fps)) => *rate_fps,
        Some(Rate::BpsL1(rate_bps)) => rate_bps / l1_bits,
        Some(Rate::BpsL2(rate_bps)) => rate_bps / l2_bits,
        Some(Rate::LineShare(share)) => {
            check(
                *share > 0.0 && *share <= 1.0,
                &key,
                format!("expected a share of more than 0 and at most 1, got {share}"),
            )?;
            let Some(speed_bps) = tx_port.speed_bps else {
                return Err(invalid(
                    key,
                    format!(
                        "the line rate of port '{}' is unknown; give fps, bps_l1 or bps_l2",
                        tx_port.name
                    ),
                ));
            };
            share * speed_bps as f64 / l1_bits
        }
        Some(Rate::Speed(speed)) => {
            let Some(own_fps) = own_fps else {
                return Err(invalid(
                    key,
                    "only a capture of frames at different times has a speed of its own; give \
                     fps, bps_l1, bps_l2 or line_share",
                ));
            };
            own_fps * speed
        }
    };
    check(
        rate_fps > 0.0 && rate_fps <= MAX_RATE_FPS,
        key,
        format!("expected more than 0 and at most 1e9 frames per second, got {rate_fps}"),
    )?;
    Ok(Some(rate_fps))
}

/// Makes random times differ from every field's random numbers; the id of a
/// stream, or of a part of it, is added.
const ARRIVALS: u64 = 1 << 62;

/// When the frames of a stream, or of a part of it, which carry `id`, are due.
pub(super) fn pacer(
    request: &StreamRequest,
    id: u16,
    rate_fps: Option<f64>,
    duration_s: f64,
    phase: f64,
    key: &str,
) -> Result<Pacer, ErrorReply> {
    let key = format!("{key}.shape");
    let Some(rate_fps) = rate_fps else {
        check(
            matches!(&request.shape, Shape::Steady {}),
            key,
            "expected steady without a rate: any other shape, also a replay at the capture's \
             times, needs one",
        )?;
        return Ok(Pacer::unpaced());
    };
    let shape = match &request.shape {
        Shape::Steady {} => pacer::Shape::Steady,
        Shape::Bursts { frames } => {
            check(*frames > 0, &key, "expected bursts of 1 frame or more")?;
            pacer::Shape::Bursts { frames: *frames }
        }
        Shape::Ramp { from_share } => {
            check(
                (0.0..=1.0).contains(from_share),
                &key,
                format!("expected from_share of 0 to 1, got {from_share}"),
            )?;
            pacer::Shape::Ramp {
                from_share: *from_share,
            }
        }
        Shape::Step { after_s, to_share } => {
            check(
                (0.0..=duration_s).contains(after_s),
                &key,
                format!("expected after_s of 0 to the duration ({duration_s}), got {after_s}"),
            )?;
            check(
                (0.0..=1.0).contains(to_share),
                &key,
                format!("expected to_share of 0 to 1, got {to_share}"),
            )?;
            pacer::Shape::Step {
                after_s: *after_s,
                to_share: *to_share,
            }
        }
        Shape::Captured {} => {
            return Err(invalid(
                key,
                "expected another shape: only a capture of frames at different times has this one",
            ));
        }
        Shape::Poisson {} => pacer::Shape::Poisson {
            seed: Hash::new(request.seed, ARRIVALS | u64::from(id)).number(0),
        },
    };
    Ok(Pacer::paced(rate_fps, duration_s, phase).shaped(shape))
}

/// The ports that expect a stream: they can receive.
pub(super) fn rx_ports(
    request: &StreamRequest,
    known: &Known,
    key: &str,
) -> Result<Vec<usize>, ErrorReply> {
    check(
        request.rx_port.is_none() || request.rx_ports.is_empty(),
        format!("{key}.rx_ports"),
        "expected an empty list where rx_port is given: a stream has one receiver or a list of them",
    )?;
    let one = request
        .rx_port
        .iter()
        .map(|name| (format!("{key}.rx_port"), name));
    let several = request.rx_ports.iter().enumerate();
    let several = several.map(|(k, name)| (format!("{key}.rx_ports[{k}]"), name));
    let mut found = Vec::new();
    for (key, name) in one.chain(several) {
        let index = find(name, known, &key)?;
        check(
            known.ports[index].rx_ring > 0,
            &key,
            format!("port '{name}' only sends; its option rx=1 lets it receive"),
        )?;
        check(
            !found.contains(&index),
            &key,
            format!("expected another port, '{name}' is in the list already"),
        )?;
        found.push(index);
    }
    Ok(found)
}

/// The number of the port with that name.
pub(super) fn find(name: &str, known: &Known, key: &str) -> Result<usize, ErrorReply> {
    let index = known.ports.iter().position(|port| port.name == name);
    index.ok_or_else(|| invalid(key, format!("no open port is named '{name}'")))
}

/// Whether a field is drawn for each frame: then the sequence number does not say
/// which flow a frame is of.
pub(super) fn is_drawn(spec: &StreamSpec) -> bool {
    let drawn = |program: &FieldProgram| matches!(program.op, Op::Zipf { .. });
    spec.fields.iter().any(drawn)
}
