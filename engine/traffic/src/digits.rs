//! The values of fields: digits of the tuple index, and draws.

use crate::hash::Hash;
use crate::spec::{FieldProgram, Op};
use crate::zipf::Zipf;

#[derive(Debug, Clone)]
enum Values {
    /// `base + step * number`, cut by the mask.
    Steps {
        base: u64,
        step: u64,
        mask: u64,
    },
    List(Vec<u64>),
    /// `min` and up to `range` more.
    Random {
        min: u64,
        range: u64,
        hash: Hash,
    },
}

/// One digit of the tuple index.
#[derive(Debug, Clone)]
pub(crate) struct Digit {
    /// The number of its field.
    pub(crate) slot: usize,
    values: Values,
    count: u64,
    at: u64,
}

impl Digit {
    /// The digit that gives field number `slot`, `base` in the template, its
    /// values; none if the program is no digit.
    pub(crate) fn new(seed: u64, slot: usize, program: &FieldProgram, base: u64) -> Option<Self> {
        let values = match &program.op {
            Op::Increment { step, .. } => Values::Steps {
                base,
                step: *step as u64,
                mask: program.field.name.max(),
            },
            Op::List(values) => Values::List(values.clone()),
            Op::Random { min, max, .. } => Values::Random {
                min: *min,
                range: max - min,
                hash: Hash::new(seed, program.field.code()),
            },
            Op::Zipf { .. } => return None,
        };
        Some(Self {
            slot,
            values,
            count: program.op.digit()?,
            at: 0,
        })
    }

    /// The present value.
    #[inline(always)]
    pub(crate) fn value(&self) -> u64 {
        match &self.values {
            Values::Steps { base, step, mask } => {
                base.wrapping_add(step.wrapping_mul(self.at)) & mask
            }
            Values::List(values) => values[self.at as usize],
            Values::Random { min, range, hash } => min + hash.up_to(self.at, *range),
        }
    }

    /// Goes to the next value; true if that is the first one again.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> bool {
        self.at += 1;
        if self.at == self.count {
            self.at = 0;
        }
        self.at == 0
    }
}

/// Sets the digits to those of tuple `index`, the first one fastest.
pub(crate) fn index_digits(digits: &mut [Digit], index: u64) {
    let mut rest = index;
    for digit in digits {
        digit.at = rest % digit.count;
        rest /= digit.count;
    }
}

/// Sets each digit to its own remainder of tuple `index`: they step together.
pub(crate) fn index_together(digits: &mut [Digit], index: u64) {
    for digit in digits {
        digit.at = index % digit.count;
    }
}

/// A field whose value is drawn for each frame.
#[derive(Debug, Clone)]
pub(crate) struct Draw {
    /// The number of its field.
    pub(crate) slot: usize,
    law: Zipf,
    hash: Hash,
    base: u64,
    step: u64,
    mask: u64,
}

impl Draw {
    /// The draw for field number `slot`, `base` in the template; none if the
    /// program is a digit.
    pub(crate) fn new(seed: u64, slot: usize, program: &FieldProgram, base: u64) -> Option<Self> {
        let Op::Zipf {
            count,
            exponent,
            step,
        } = program.op
        else {
            return None;
        };
        Some(Self {
            slot,
            law: Zipf::new(count, exponent),
            hash: Hash::new(seed, program.field.code()),
            base,
            step: step as u64,
            mask: program.field.name.max(),
        })
    }

    /// The value of frame `sequence`.
    #[inline]
    pub(crate) fn value(&self, sequence: u64) -> u64 {
        let rank = self.law.rank(self.hash, sequence);
        self.base.wrapping_add(self.step.wrapping_mul(rank)) & self.mask
    }
}
