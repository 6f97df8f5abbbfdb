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
use pinchpoint_import::{pcap, trex};
use pinchpoint_wire::{FCS_LEN, signature};
use std::path::{Path, PathBuf};

/// Bytes of the shortest frame.
const MIN_SIZE: usize = 64;
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
    /// A captured frame.
    Frame(Vec<u8>),
    /// A profile.
    Profile(trex::ImportedProfile),
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
        if let Some(text) = &frames.pcap {
            return read_frame(text).map(Self::Frame);
        }
        if let Some(file) = &frames.trex {
            let folder = file
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            let profile = trex::read(file, folder.unwrap_or(Path::new(".")));
            let profile = profile.map_err(|error| Failure::usage(format!("--trex {error}")))?;
            return Ok(Self::Profile(profile));
        }
        Ok(Self::Preset)
    }

    /// In what an import differs from its original.
    pub(super) fn warnings(&self) -> Vec<String> {
        let Self::Profile(profile) = self else {
            return Vec::new();
        };
        let of = |stream: &trex::ImportedStream| {
            let told = stream.warnings.iter();
            told.map(|warning| format!("{}: {warning}", stream.pcap))
                .collect::<Vec<_>>()
        };
        profile.streams.iter().flat_map(of).collect()
    }
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

fn read_frame(text: &str) -> Result<Vec<u8>, Failure> {
    let named = text.rsplit_once(':');
    let numbered = named.and_then(|(file, number)| Some((file, number.parse::<usize>().ok()?)));
    let (file, number) = numbered.unwrap_or((text, 1));
    let told = |what: String| Failure::usage(format!("--pcap {what}"));
    let frames = pcap::read(&PathBuf::from(file), &pcap::Options::default());
    let mut frames = frames.map_err(|error| told(error.to_string()))?;
    if number == 0 || number > frames.len() {
        return Err(told(format!(
            "{file}:{number}: the capture has frames 1 to {}",
            frames.len()
        )));
    }
    Ok(frames.swap_remove(number - 1).bytes)
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
        Source::Frame(frame) => {
            let (src, dst) = ends.given(&args.frames);
            let size = args.frames.size.clone();
            Ok(vec![Body {
                rate: rate.clone(),
                size: size.unwrap_or_else(|| natural_size(frame)),
                template: with_macs(frame, src, dst),
                flows: flows::flows(&args.flows, &[], false)?,
            }])
        }
        Source::Profile(profile) => {
            let streams = profile.streams.iter();
            Ok(streams
                .flat_map(|stream| imported(args, stream, ends))
                .collect())
        }
    }
}

/// A stream for each frame that the client of a template sends, at the rate
/// of its flows. Ethernet addresses are the ports', as TRex has them.
fn imported(args: &SendArgs, stream: &trex::ImportedStream, ends: &Ends) -> Vec<Body> {
    let (src, dst) = ends.macs(&args.frames);
    let frames = stream.frames.iter();
    let body = |frame: &Vec<u8>| {
        let mut frame = frame.clone();
        let (client, server) = stream.pair(0);
        flows::set_addresses(&mut frame, client, server);
        Body {
            rate: Some(Rate::Fps(stream.rate_fps / stream.frames.len() as f64)),
            size: natural_size(&frame),
            template: with_macs(&frame, Some(src), Some(dst)),
            flows: Flows {
                count: stream.flows,
                fields: flows::pairs(stream.clients.count(), stream.servers.count()),
            },
        }
    };
    frames.map(body).collect()
}

fn natural_size(frame: &[u8]) -> Size {
    Size::Fixed((frame.len() + FCS_LEN).max(MIN_SIZE))
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
        (Some(frames), _) => Shape::Bursts { frames },
        (None, Some(from_share)) => Shape::Ramp { from_share },
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
