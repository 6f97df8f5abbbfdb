//! From options to the streams of a `run`.

use super::Failure;
use super::args::{LoadArgs, SendArgs, WrongArg};
use super::flows::{self, Flows};
use super::frames::{self, Ends};
use crate::protocol::{
    LayerRequest, Mac, OpenedPort, Rate, Shape, Size, StreamRequest, Template, Wrong,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinchpoint_import::{pcap, replay, trex};
use pinchpoint_wire::{FCS_LEN, signature};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Bytes of the shortest frame.
const MIN_SIZE: usize = 64;
/// Streams of a trial: their ids are bytes.
const MAX_FRAMES: usize = 256;
/// Sizes of one stream at most.
const MAX_SIZES: usize = 64;
/// Frames after which they repeat, at most.
const MAX_PERIOD: usize = 1 << 16;
/// Bytes that a frame takes on the wire besides itself (IEEE 802.3 clause 4.4.2).
const WIRE_OVERHEAD: f64 = 20.0;
/// Bytes of the longest standard frame, which is also the longest of every mix with a name.
const STANDARD_SIZE: usize = 1518;

/// A path from one port to another, or to nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leg {
    /// Number of the sending port.
    pub from: usize,
    /// Number of the port that expects the frames.
    pub to: Option<usize>,
    /// Whether it is the way back of another.
    pub swapped: bool,
}

/// Where the frames' bytes come from, read once.
pub(super) enum Source {
    /// Made from options.
    Preset,
    /// Headers of a file.
    Layers(Vec<LayerRequest>),
    /// Frames of a capture, in their order.
    Frames {
        /// The capture.
        file: String,
        /// At least one, without check sequence.
        frames: Vec<Vec<u8>>,
    },
    /// A capture that is replayed.
    Replay(Replayed),
    /// A profile.
    Profile(trex::ImportedProfile),
}

/// A capture as far as it is known before the ports are open.
pub(super) struct Replayed {
    /// The capture.
    file: String,
    /// Whose frames.
    source: Option<String>,
    /// How many there are.
    frames: usize,
    /// Bytes of the longest, with check sequence.
    longest: usize,
    /// When it begins again at its own speed, in seconds.
    pub period_s: f64,
}

impl Source {
    /// Reads the file that the options name, if they do.
    ///
    /// # Errors
    /// With the option, the file and the place in it.
    pub(super) fn read(args: &SendArgs) -> Result<Self, Failure> {
        let frames = &args.frames;
        if let Some(file) = &frames.layers {
            return read_layers(file).map(Self::Layers);
        }
        if let (Some(file), true) = (&frames.pcap, frames.replay) {
            return read_replay(file, frames.source.as_deref(), args.both_ways).map(Self::Replay);
        }
        if let Some(text) = &frames.pcap {
            return read_frames(text);
        }
        if let Some(file) = &frames.trex {
            let profile = trex::read(file);
            let profile = profile.map_err(|error| Failure::usage(format!("--trex {error}")))?;
            return Ok(Self::Profile(profile));
        }
        Ok(Self::Preset)
    }

    /// What is sent of a file, and in what it differs from the file.
    pub(super) fn notes(&self, both_ways: bool, load: &LoadArgs) -> Vec<String> {
        match self {
            Self::Frames { file, frames } if frames.len() > 1 => {
                let order = if load.rate.0.is_some() && load.burst.is_none() && !load.poisson {
                    ", in their order at low rates"
                } else {
                    ""
                };
                let count = frames.len();
                vec![format!(
                    "{file}: its {count} frames are a stream each{order}"
                )]
            }
            Self::Replay(Replayed { file, frames, .. }) => {
                vec![format!(
                    "{file}: {frames} frames are replayed in their order"
                )]
            }
            Self::Profile(profile) => {
                let merged = are_merged(profile, both_ways);
                let streams = profile.streams.iter();
                streams
                    .flat_map(|stream| told(stream, both_ways, merged))
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Whether a profile has more frames than there are streams: then those of a template are one.
fn are_merged(profile: &trex::ImportedProfile, both_ways: bool) -> bool {
    let sent = |stream: &trex::ImportedStream| {
        let replies = if both_ways { stream.replies.len() } else { 0 };
        stream.frames.len() + replies
    };
    profile.streams.iter().map(sent).sum::<usize>() > MAX_FRAMES
}

fn told(stream: &trex::ImportedStream, both_ways: bool, merged: bool) -> Vec<String> {
    let (sent, replies) = (stream.frames.len(), stream.replies.len());
    let unsent = (replies > 0 && !both_ways).then(|| {
        format!(
            "{replies} of {} frames go from server to client and are not sent: --both-ways sends \
             them",
            sent + replies
        )
    });
    let back = if both_ways { replies } else { 0 };
    let ways = [(sent, "client"), (back, "server")];
    let several = ways.iter().filter(|(frames, _)| merged && *frames > 1);
    let by_size = several.map(|(frames, end)| {
        format!(
            "its {frames} frames from the {end} are one stream of their sizes; ports, flags and \
             numbers are those of the shortest"
        )
    });
    let warnings = stream.warnings.iter().cloned().chain(unsent).chain(by_size);
    warnings
        .map(|warning| format!("{}: {warning}", stream.pcap))
        .collect()
}

fn read_layers(file: &Path) -> Result<Vec<LayerRequest>, Failure> {
    let told = |what: String| Failure::usage(format!("--layers {}: {what}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| told(error.to_string()))?;
    let mut reader = serde_json::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        told(format!("{path}: {}", error.into_inner()))
    })
}

/// Looks at a capture that is to be replayed, so that what is wrong with it is
/// told before a port is opened.
fn read_replay(file: &str, source: Option<&str>, both_ways: bool) -> Result<Replayed, Failure> {
    let told = |option: &str, what: String| Failure::usage(format!("{option} {what}"));
    if both_ways && source.is_none() {
        return Err(Failure::usage(
            "--both-ways: --source says which frames of the capture go which way",
        ));
    }
    let named = source.map(str::parse::<replay::Source>).transpose();
    let named = named.map_err(|what| told("--source:", what))?;
    let side = |others: bool| {
        let side = replay::read(Path::new(file), named.as_ref(), others);
        side.map_err(|what| told("--pcap", what))
    };
    let mut sides = vec![side(false)?];
    if both_ways {
        sides.push(side(true)?);
    }
    let frames = || sides.iter().flat_map(|side| &side.frames);
    Ok(Replayed {
        file: file.to_owned(),
        source: source.map(str::to_owned),
        frames: frames().count(),
        longest: frames()
            .map(|frame| natural_bytes(frame))
            .max()
            .unwrap_or(MIN_SIZE),
        period_s: sides[0].period_ns as f64 / 1e9,
    })
}

/// `FILE`, all frames of a capture, or `FILE:N`, one of them.
fn read_frames(text: &str) -> Result<Source, Failure> {
    let named = text.rsplit_once(':');
    let numbered = named.and_then(|(file, number)| Some((file, number.parse::<usize>().ok()?)));
    let (file, number) = numbered.map_or((text, None), |(file, number)| (file, Some(number)));
    let told = |what: String| Failure::usage(format!("--pcap {what}"));
    let captured = pcap::read(&PathBuf::from(file), &pcap::Options::default());
    let captured = captured.map_err(|error| told(error.to_string()))?;
    let count = captured.len();
    let mut frames: Vec<Vec<u8>> = captured.into_iter().map(|frame| frame.bytes).collect();
    match number {
        Some(number) if number == 0 || number > count => {
            return Err(told(format!(
                "{file}:{number}: the capture has frames 1 to {count}"
            )));
        }
        Some(number) => frames = vec![frames.swap_remove(number - 1)],
        None if count == 0 => return Err(told(format!("{file}: the capture holds no frame"))),
        None if count > MAX_FRAMES => {
            return Err(told(format!(
                "{file}: {count} frames, expected at most {MAX_FRAMES}; {file}:N sends frame N \
                 alone"
            )));
        }
        None => {}
    }
    Ok(Source::Frames {
        file: file.to_owned(),
        frames,
    })
}

/// Bytes of the longest frame that the streams have; at least of a standard one, since others may
/// send such frames.
pub(super) fn longest(streams: &[StreamRequest]) -> Option<usize> {
    let longest = |stream: &StreamRequest| match &stream.size {
        Size::Fixed(bytes) | Size::Random(_, bytes) => *bytes,
        Size::List(sizes) => sizes.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0),
        Size::Imix(_) => STANDARD_SIZE,
    };
    let longest = streams.iter().map(longest);
    longest.chain([STANDARD_SIZE]).max()
}

/// The streams of all `legs` between `ports`.
///
/// # Errors
/// If options do not fit each other.
pub(super) fn streams(
    args: &SendArgs,
    source: &Source,
    legs: &[Leg],
    ports: &[OpenedPort],
) -> Result<Vec<StreamRequest>, Failure> {
    let mut streams = Vec::new();
    for leg in legs {
        let mac = |index: usize| ports[index].mac;
        let ends = Ends {
            from: mac(leg.from),
            to: leg.to.and_then(mac),
            swapped: leg.swapped,
        };
        for body in bodies(args, source, &ends)? {
            let id = u8::try_from(streams.len()).map_err(|_| {
                Failure::usage(
                    "more than 256 streams: use fewer ports or fewer frames of the capture",
                )
            })?;
            streams.push(StreamRequest {
                id,
                tx_port: Some(ports[leg.from].name.clone()),
                rx_port: leg.to.map(|to| ports[to].name.clone()),
                rx_ports: Vec::new(),
                rate: body.rate,
                shape: shape(&args.load),
                size: body.size,
                template: body.template,
                stamped: !args.frames.unstamped,
                wrong_checksums: wrong(&args.frames.wrong_checksum),
                seed: args.flows.seed,
                flows: body.flows.count,
                fields: body.flows.fields,
                tracked_flows: args.flows.tracked_flows,
                limit_frames: None,
                together: false,
            });
        }
    }
    Ok(streams)
}

/// What differs between the streams of one leg.
struct Body {
    rate: Option<Rate>,
    size: Size,
    template: Template,
    flows: Flows,
}

fn bodies(args: &SendArgs, source: &Source, ends: &Ends) -> Result<Vec<Body>, Failure> {
    let rate = args.load.rate.0.clone();
    let made = |layers: Vec<LayerRequest>| -> Result<Vec<Body>, Failure> {
        let stamp = if args.frames.unstamped {
            0
        } else {
            signature::LEN
        };
        let least = frames::headers_len(&layers) + stamp + FCS_LEN;
        let size = args.frames.size.clone();
        Ok(vec![Body {
            rate: rate.clone(),
            size: size.unwrap_or(Size::Fixed(least.max(MIN_SIZE))),
            flows: flows::flows(&args.flows, &layers, ends.swapped)?,
            template: Template::Layers(layers),
        }])
    };
    match source {
        Source::Preset => {
            let preset = frames::preset(&args.frames, &args.flows);
            made(frames::layers(preset, &args.frames, &args.flows, ends)?)
        }
        Source::Layers(layers) => made(layers.clone()),
        Source::Frames { frames, .. } => captured(args, frames, ends),
        Source::Replay(replayed) => Ok(vec![Body {
            rate: rate.clone(),
            size: Size::Fixed(replayed.longest),
            template: Template::Capture {
                file: replayed.file.clone(),
                source: replayed.source.clone(),
                others: ends.swapped,
            },
            flows: Flows {
                count: 1,
                fields: Vec::new(),
            },
        }]),
        Source::Profile(profile) => {
            let merged = are_merged(profile, args.both_ways);
            let streams = profile.streams.iter();
            Ok(streams
                .flat_map(|stream| imported(args, stream, ends, merged))
                .collect())
        }
    }
}

/// A stream for each of several captured frames. They share the rate so that
/// each is sent as often as any other. Streams of one rate take turns in their
/// order, since each begins later than the one before, unless several frames of
/// one are due at once.
fn captured(args: &SendArgs, frames: &[Vec<u8>], ends: &Ends) -> Result<Vec<Body>, Failure> {
    let (src, dst) = ends.given(&args.frames);
    let size = args.frames.size.as_ref();
    let bytes = |frame: &Vec<u8>| size.map_or(natural_bytes(frame), |_| MIN_SIZE) as f64;
    let all: Vec<f64> = frames.iter().map(bytes).collect();
    let body = |frame: &Vec<u8>| -> Result<Body, Failure> {
        Ok(Body {
            rate: in_turn(args.load.rate.0.as_ref(), bytes(frame), &all),
            size: size
                .cloned()
                .unwrap_or_else(|| Size::Fixed(natural_bytes(frame))),
            template: with_macs(frame, src, dst),
            flows: flows::flows(&args.flows, &[], false)?,
        })
    };
    frames.iter().map(body).collect()
}

/// The part of a rate that a frame of `own` bytes has, when frames of `all`
/// these bytes, itself among them, are sent in turn.
fn in_turn(rate: Option<&Rate>, own: f64, all: &[f64]) -> Option<Rate> {
    let of_all = |overhead: f64| {
        let sum: f64 = all.iter().map(|bytes| bytes + overhead).sum();
        (own + overhead) / sum
    };
    rate.map(|rate| match rate {
        Rate::Fps(fps) => Rate::Fps(fps / all.len() as f64),
        Rate::BpsL1(bps) => Rate::BpsL1(bps * of_all(WIRE_OVERHEAD)),
        Rate::BpsL2(bps) => Rate::BpsL2(bps * of_all(0.0)),
        Rate::LineShare(share) => Rate::LineShare(share * of_all(WIRE_OVERHEAD)),
        Rate::Speed(speed) => Rate::Speed(*speed),
    })
}

/// A stream for each frame that the client of a template sends, or on the way
/// back its server, at the rate of its flows; `merged`: one for all of them.
/// Ethernet addresses are the ports', as TRex has them.
fn imported(
    args: &SendArgs,
    stream: &trex::ImportedStream,
    ends: &Ends,
    merged: bool,
) -> Vec<Body> {
    let (src, dst) = ends.macs(&args.frames);
    let (client, server) = stream.pair(0);
    let (clients, servers) = (stream.clients.count(), stream.servers.count());
    let (frames, from, to) = if ends.swapped {
        (&stream.replies, server, client)
    } else {
        (&stream.frames, client, server)
    };
    let body = |frame: &Vec<u8>, fps: f64, size: Size| {
        let mut frame = frame.clone();
        flows::set_addresses(&mut frame, from, to);
        Body {
            rate: Some(Rate::Fps(fps)),
            size,
            template: with_macs(&frame, Some(src), Some(dst)),
            flows: Flows {
                count: stream.flows,
                fields: flows::pairs(clients, servers, ends.swapped),
            },
        }
    };
    let shortest = frames.iter().min_by_key(|frame| frame.len());
    if let (true, Some(shortest)) = (merged, shortest) {
        let fps = stream.cps * frames.len() as f64;
        return vec![body(shortest, fps, mixed(frames))];
    }
    let alone = |frame: &Vec<u8>| body(frame, stream.cps, Size::Fixed(natural_bytes(frame)));
    frames.iter().map(alone).collect()
}

/// The sizes of frames and how often each comes; of more than a list takes,
/// neighbours have the larger one, and of more frames than a list has, sizes have their share.
fn mixed(frames: &[Vec<u8>]) -> Size {
    let share = frames.len().div_ceil(MAX_PERIOD - MAX_SIZES) as u32;
    let sizes: Vec<usize> = frames.iter().map(|frame| natural_bytes(frame)).collect();
    let longest = sizes.iter().copied().max().unwrap_or(MIN_SIZE);
    let mut step = 1;
    loop {
        let mut counts = BTreeMap::<usize, u32>::new();
        for bytes in &sizes {
            let bytes = bytes.next_multiple_of(step).min(longest);
            *counts.entry(bytes).or_default() += 1;
        }
        match counts.len() {
            0 | 1 => return Size::Fixed(longest),
            2..=MAX_SIZES => {
                let shares = counts.into_iter();
                let shares = shares.map(|(bytes, count)| (bytes, count.div_ceil(share)));
                return Size::List(shares.collect());
            }
            _ => step *= 2,
        }
    }
}

/// Bytes of a captured frame when it is sent, with check sequence.
fn natural_bytes(frame: &[u8]) -> usize {
    (frame.len() + FCS_LEN).max(MIN_SIZE)
}

fn with_macs(frame: &[u8], src: Option<Mac>, dst: Option<Mac>) -> Template {
    let mut frame = frame.to_vec();
    for (at, mac) in [(0, dst), (6, src)] {
        if let (Some(mac), Some(bytes)) = (mac, frame.get_mut(at..at + 6)) {
            bytes.copy_from_slice(&mac.0.0);
        }
    }
    Template::Frame(STANDARD.encode(frame))
}

fn shape(load: &LoadArgs) -> Shape {
    match (load.burst, load.ramp) {
        _ if load.poisson => Shape::Poisson {},
        (Some(frames), _) => Shape::Bursts { frames },
        (None, Some(from_share)) => Shape::Ramp { from_share },
        _ if matches!(load.rate.0, Some(Rate::Speed(_))) => Shape::Captured {},
        (None, None) => Shape::Steady {},
    }
}

fn wrong(asked: &[WrongArg]) -> Vec<Wrong> {
    let word = |one: &WrongArg| match one {
        WrongArg::Ipv4 => Wrong::Ipv4,
        WrongArg::L4 => Wrong::L4,
    };
    asked.iter().map(word).collect()
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
