//! A stream as it stands on the wire.

use super::{LayerRequest, present};
use serde::{Deserialize, Serialize};

/// One stream of `run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // the README defines the keys, once
pub struct StreamRequest {
    pub id: u8,
    #[serde(deserialize_with = "present")]
    pub tx_port: Option<String>,
    #[serde(deserialize_with = "present")]
    pub rx_port: Option<String>,
    #[serde(default)]
    pub rx_ports: Vec<String>,
    #[serde(deserialize_with = "present")]
    pub rate: Option<Rate>,
    pub shape: Shape,
    pub size: Size,
    pub template: Template,
    pub stamped: bool,
    pub wrong_checksums: Vec<Wrong>,
    pub seed: u64,
    pub flows: u64,
    pub fields: Vec<FieldRequest>,
    pub tracked_flows: u64,
    #[serde(default)]
    pub limit_frames: Option<u64>,
    #[serde(default)]
    pub together: bool,
}

macro_rules! choices {
    ($($(#[$meta:meta])* $name:ident { $($(#[$word_meta:meta])* $word:ident $body:tt,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case", deny_unknown_fields)]
        #[allow(missing_docs)] // the README defines the keys, once
        pub enum $name { $($(#[$word_meta])* $word $body,)* }
    )*};
}

choices! {
    /// How fast.
    Rate {
        Fps(f64),
        BpsL1(f64),
        BpsL2(f64),
        LineShare(f64),
        Speed(f64),
    }

    /// How a rate is spread over time.
    Shape {
        Steady {},
        Bursts { frames: u64 },
        Ramp { from_share: f64 },
        Step { after_s: f64, to_share: f64 },
        Poisson {},
        Captured {},
    }

    /// Frame sizes, with check sequence.
    Size {
        Fixed(usize),
        List(Vec<(usize, u32)>),
        Imix(String),
        Random(usize, usize),
    }

    /// What the frames are made from.
    Template {
        Layers(Vec<LayerRequest>),
        Frame(String),
        Capture { file: String, #[serde(default)] source: Option<String>, #[serde(default)] others: bool },
    }

    /// What a field program does.
    Op {
        Increment { step: i64, count: u64 },
        List(Vec<u64>),
        Random { min: u64, max: u64, count: u64 },
        Zipf { count: u64, exponent: f64, step: i64 },
    }
}

/// A checksum that shall be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wrong {
    /// Of every IPv4 header.
    Ipv4,
    /// Of UDP, TCP, ICMP or ICMPv6.
    L4,
}

/// A field program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // the README defines the keys, once
pub struct FieldRequest {
    pub field: String,
    pub op: Op,
}

impl Op {
    /// Its name on the wire.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Increment { .. } => "increment",
            Self::List(_) => "list",
            Self::Random { .. } => "random",
            Self::Zipf { .. } => "zipf",
        }
    }
}
