//! What determines a stream's frames.

pub use crate::field::{FieldName, FieldRef, UnknownField};
use crate::hash::Hash;
pub use crate::layer::{Extension, ExtensionKind, Layer};
pub use crate::layout::Wrong;
pub(crate) use crate::limits::check;
pub use crate::limits::{MAX_LEN, MIN_LEN, SpecError};
pub use crate::sizes::{Sizes, imix};
use pinchpoint_wire::{FCS_LEN, signature};

/// Values of one field program at most.
pub const MAX_COUNT: u64 = 1 << 32;

/// Makes the parts' random numbers differ from every field's.
const PARTS: u64 = 1 << 63;

/// Everything that determines a stream's frames.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamSpec {
    /// Stream id carried in the signature.
    pub id: u16,
    /// Trial number carried in the signature.
    pub epoch: u8,
    /// What all random choices are made from.
    pub seed: u64,
    /// Which part of a split stream this is: parts have the same values of
    /// random digits, but what is drawn anew for every frame (sizes, Zipf's
    /// ranks) they draw apart.
    pub part: u64,
    /// Whether frames end in a signature; without one nothing can be told
    /// about a frame that comes back.
    pub stamped: bool,
    /// Bytes of the frames.
    pub sizes: Sizes,
    /// The frame that the field programs vary.
    pub template: Template,
    /// Checksums to be wrong.
    pub wrong: Wrong,
    /// Number of tuple indexes before the first one comes again.
    pub flows: u64,
    /// The first tuple index; a stream is split among workers by blocks.
    pub first_flow: u64,
    /// Field programs, the fastest first.
    pub fields: Vec<FieldProgram>,
    /// Whether the programs are no digits but step together: value number `v`
    /// of each is the tuple index modulo its count.
    pub together: bool,
}

/// A frame before its fields vary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Template {
    /// Headers, the outermost first, and zeros behind them. Lengths, checksums
    /// and the fields that say what follows are filled in.
    Layers(Vec<Layer>),
    /// A frame as captured, without check sequence; at most [`MAX_LEN`] bytes.
    /// It is cut or filled up with zeros to each size. In headers that are
    /// recognised, lengths and checksums are made to fit; what is not
    /// recognised is sent as it is, but for the signature at its end.
    Bytes(Vec<u8>),
}

/// How one field varies.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldProgram {
    /// The field.
    pub field: FieldRef,
    /// Its values.
    pub op: Op,
}

/// The values of a field. All but [`Zipf`](Op::Zipf) are digits of the tuple
/// index (protocol/README.md, "The order of five-tuples").
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Value number `v` is `template + step * v`, wrapping in the field's own
    /// width.
    Increment {
        /// Difference between consecutive values.
        step: i64,
        /// How many values there are.
        count: u64,
    },
    /// Value number `v` is the `v`-th of these.
    List(Vec<u64>),
    /// Value number `v` is a random number from `min` to `max` that depends on
    /// the seed, the field and `v` alone; two numbers may have equal values.
    Random {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
        /// How many values there are.
        count: u64,
    },
    /// Each frame draws rank `r`, from 0, in proportion to
    /// `(r + 1)^-exponent`, and takes `template + step * r`; the draw depends
    /// on the seed, the field and the sequence number alone.
    Zipf {
        /// How many ranks there are.
        count: u64,
        /// How much rarer higher ranks are: 0 not at all, 1 Zipf's law.
        exponent: f64,
        /// Difference between consecutive ranks' values.
        step: i64,
    },
}

impl Op {
    /// How many values this digit of the tuple index has; none if it is none.
    pub(crate) fn digit(&self) -> Option<u64> {
        match self {
            Self::Increment { count, .. } | Self::Random { count, .. } => Some(*count),
            Self::List(values) => Some(values.len() as u64),
            Self::Zipf { .. } => None,
        }
    }
}

impl StreamSpec {
    /// What is drawn anew for every frame is made from this.
    pub(crate) fn draw_seed(&self) -> u64 {
        match self.part {
            0 => self.seed,
            part => Hash::new(self.seed, PARTS ^ part).number(0),
        }
    }

    /// Checks what does not depend on the template's headers.
    pub(crate) fn validate(&self) -> Result<(), SpecError> {
        self.sizes.validate()?;
        let mut tuples = 1u64;
        for (k, program) in self.fields.iter().enumerate() {
            let known = &self.fields[..k];
            check(
                known.iter().all(|other| other.field != program.field),
                format!("fields[{k}].field"),
                format!("{} already has a program", program.field),
            )?;
            program.validate(&format!("fields[{k}].op"))?;
            tuples = tuples.saturating_mul(program.op.digit().unwrap_or(1));
        }
        check(
            (1..=tuples).contains(&self.flows),
            "flows",
            format!(
                "expected 1 to {tuples}, the product of the fields' counts, got {}",
                self.flows
            ),
        )?;
        check(
            self.first_flow <= tuples - self.flows,
            "first_flow",
            format!(
                "with {} flows, expected at most {}, got {}",
                self.flows,
                tuples - self.flows,
                self.first_flow
            ),
        )
    }

    /// Checks that a signature behind `headers_len` bytes of headers fits into
    /// every frame.
    pub(crate) fn check_room(&self, headers_len: usize) -> Result<(), SpecError> {
        let without = (headers_len + FCS_LEN).max(MIN_LEN + FCS_LEN);
        let with = (headers_len + signature::LEN + FCS_LEN).max(without);
        let least = if self.stamped { with } else { without };
        for (key, len) in self.sizes.keyed() {
            let bytes = len + FCS_LEN;
            let relief = if self.stamped && bytes >= without {
                format!(" ({without} without a signature)")
            } else {
                String::new()
            };
            check(
                bytes >= least,
                key,
                format!("these headers need frames of at least {least} bytes{relief}, got {bytes}"),
            )?;
        }
        Ok(())
    }
}

impl FieldProgram {
    fn validate(&self, op: &str) -> Result<(), SpecError> {
        let max = self.field.name.max();
        let check_count = |count: &u64| {
            check(
                (1..=MAX_COUNT).contains(count),
                format!("{op}.count"),
                format!("expected 1 to {MAX_COUNT}, got {count}"),
            )
        };
        let check_value = |key: String, value: u64| {
            check(
                value <= max,
                key,
                format!("{} holds at most {max}, got {value}", self.field),
            )
        };
        match &self.op {
            Op::Increment { count, .. } => check_count(count),
            Op::List(values) => {
                check(!values.is_empty(), format!("{op}.values"), "is empty")?;
                for (j, value) in values.iter().enumerate() {
                    check_value(format!("{op}.values[{j}]"), *value)?;
                }
                Ok(())
            }
            Op::Random { min, max, count } => {
                check_count(count)?;
                check_value(format!("{op}.max"), *max)?;
                check(min <= max, format!("{op}.min"), "is greater than max")
            }
            Op::Zipf {
                count, exponent, ..
            } => {
                check_count(count)?;
                check(
                    (0.0..=20.0).contains(exponent),
                    format!("{op}.exponent"),
                    format!("expected 0 to 20, got {exponent}"),
                )
            }
        }
    }
}
