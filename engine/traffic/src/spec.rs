//! What determines a stream's frames.

use pinchpoint_wire::FCS_LEN;
use pinchpoint_wire::ethernet::Mac;
use std::fmt;
use std::net::Ipv4Addr;

/// Bytes in the buffer of the shortest frame (64 with its check sequence).
pub const MIN_LEN: usize = 64 - FCS_LEN;
/// Bytes in the buffer of the longest frame (9,022 with its check sequence).
pub const MAX_LEN: usize = 9022 - FCS_LEN;

/// A field that a program may vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// IPv4 source address.
    Ipv4Src,
    /// IPv4 destination address.
    Ipv4Dst,
    /// UDP source port.
    UdpSrc,
    /// UDP destination port.
    UdpDst,
}

/// One digit of the tuple index: the field takes
/// `template + step * value number`, wrapping in the field's own width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldProgram {
    /// The field that varies.
    pub field: Field,
    /// Difference between consecutive values.
    pub step: i64,
    /// How many values there are, at least 1.
    pub count: u64,
}

/// Everything that determines a stream's frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    /// Stream id carried in the signature.
    pub id: u8,
    /// Trial number carried in the signature.
    pub epoch: u8,
    /// Bytes of a frame in the buffer, without frame check sequence.
    pub len: usize,
    /// Ethernet source and destination.
    pub eth_src: Mac,
    /// Ethernet destination.
    pub eth_dst: Mac,
    /// First IPv4 source address.
    pub ip_src: Ipv4Addr,
    /// First IPv4 destination address.
    pub ip_dst: Ipv4Addr,
    /// Time to live, in hops.
    pub ttl: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// First UDP source port.
    pub udp_src: u16,
    /// First UDP destination port.
    pub udp_dst: u16,
    /// Number of five-tuples before the first one comes again.
    pub flows: u64,
    /// Field programs, the fastest first.
    pub fields: Vec<FieldProgram>,
}

/// A [`StreamSpec`] that describes no stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// The key at fault, relative to the stream, as in `fields[1].count`.
    pub key: String,
    /// What is wrong and what was expected.
    pub what: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.what)
    }
}

impl std::error::Error for SpecError {}

fn check(good: bool, key: impl Into<String>, what: impl Into<String>) -> Result<(), SpecError> {
    if good {
        return Ok(());
    }
    Err(SpecError {
        key: key.into(),
        what: what.into(),
    })
}

impl StreamSpec {
    pub(crate) fn validate(&self) -> Result<(), SpecError> {
        check(
            (MIN_LEN..=MAX_LEN).contains(&self.len),
            "frame_bytes",
            format!("expected 64 to 9022, got {}", self.len + FCS_LEN),
        )?;
        check(self.dscp < 64, "ipv4.dscp", "expected 0 to 63")?;
        let mut tuples = 1u64;
        for (k, program) in self.fields.iter().enumerate() {
            let known = &self.fields[..k];
            check(
                known.iter().all(|other| other.field != program.field),
                format!("fields[{k}].field"),
                "this field already has a program",
            )?;
            check(
                (1..=1 << 32).contains(&program.count),
                format!("fields[{k}].count"),
                format!("expected 1 to 4294967296, got {}", program.count),
            )?;
            tuples = tuples.saturating_mul(program.count);
        }
        check(
            (1..=tuples).contains(&self.flows),
            "flows",
            format!(
                "expected 1 to {tuples}, the product of the fields' counts, got {}",
                self.flows
            ),
        )
    }
}

impl Field {
    /// One more than the largest value.
    pub(crate) fn range(self) -> u64 {
        match self {
            Self::Ipv4Src | Self::Ipv4Dst => 1 << 32,
            Self::UdpSrc | Self::UdpDst => 1 << 16,
        }
    }
}
