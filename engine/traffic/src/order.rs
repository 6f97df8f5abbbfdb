//! The order in which a stream of UDP over IPv4 goes through its five-tuples.
//!
//! The field programs are digits of the tuple index, the first one fastest
//! (protocol/README.md, "The order of five-tuples").

use crate::spec::{FieldName, FieldProgram, Op};

/// A field of the five-tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Ipv4Src,
    Ipv4Dst,
    UdpSrc,
    UdpDst,
}

impl Field {
    /// One more than the largest value.
    fn range(self) -> u64 {
        match self {
            Self::Ipv4Src | Self::Ipv4Dst => 1 << 32,
            Self::UdpSrc | Self::UdpDst => 1 << 16,
        }
    }
}

/// One field program, ready to run.
#[derive(Debug, Clone, Copy)]
struct Digit {
    field: Field,
    /// The step as a non-negative number modulo the field's range.
    step: u64,
    count: u64,
}

impl Digit {
    /// None if the program is not an increment of an outermost five-tuple's
    /// field.
    fn new(program: &FieldProgram) -> Option<Self> {
        let field = match program.field.name {
            FieldName::Ipv4Src => Field::Ipv4Src,
            FieldName::Ipv4Dst => Field::Ipv4Dst,
            FieldName::UdpSrc => Field::UdpSrc,
            FieldName::UdpDst => Field::UdpDst,
            _ => return None,
        };
        let Op::Increment { step, count } = program.op else {
            return None;
        };
        (program.field.layer == 0).then(|| Self {
            field,
            step: step.rem_euclid(field.range() as i64) as u64,
            count,
        })
    }
}

/// Source and destination addresses in one number, ports in another, each as
/// they stand in the headers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tuple {
    pub(crate) addresses: u64,
    pub(crate) ports: u32,
}

impl Tuple {
    fn get(self, field: Field) -> u64 {
        match field {
            Field::Ipv4Src => self.addresses >> 32,
            Field::Ipv4Dst => self.addresses & 0xffff_ffff,
            Field::UdpSrc => u64::from(self.ports >> 16),
            Field::UdpDst => u64::from(self.ports & 0xffff),
        }
    }

    fn set(&mut self, field: Field, value: u64) {
        let old = self.get(field);
        match field {
            Field::Ipv4Src | Field::Ipv4Dst => {
                let shift = if field == Field::Ipv4Src { 32 } else { 0 };
                self.addresses ^= (old ^ value) << shift;
            }
            Field::UdpSrc | Field::UdpDst => {
                let shift = if field == Field::UdpSrc { 16 } else { 0 };
                self.ports ^= ((old ^ value) as u32) << shift;
            }
        }
    }

    /// Adds to a field that has room for it.
    fn add(&mut self, field: Field, value: u64) {
        match field {
            Field::Ipv4Src => self.addresses += value << 32,
            Field::Ipv4Dst => self.addresses += value,
            Field::UdpSrc => self.ports += (value as u32) << 16,
            Field::UdpDst => self.ports += value as u32,
        }
    }
}

const MAX_DIGITS: usize = 4;

/// Where a stream is. Tuples come in runs that differ by a constant, those of
/// the fastest digit; within a run a frame costs two additions, between runs
/// the digits carry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) sequence: u64,
    pub(crate) tuple: Tuple,
    /// Frames left in this run, this one included.
    pub(crate) left: u64,
    run: u64,
    /// Tuple index and digits at the beginning of this run.
    index: u64,
    at: [u64; MAX_DIGITS],
}

/// The order of a stream's five-tuples.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    base: Tuple,
    /// The digits that have more than one value, the fastest first.
    digits: Vec<Digit>,
    first_flow: u64,
    flows: u64,
    /// Difference between two tuples of a run.
    pub(crate) step: Tuple,
}

impl Order {
    /// The order in which valid field programs vary `base`, from tuple index
    /// `first_flow` on; none if one of them is of another kind than an
    /// increment of a field of a [`Tuple`].
    pub(crate) fn new(
        base: Tuple,
        fields: &[FieldProgram],
        first_flow: u64,
        flows: u64,
    ) -> Option<Self> {
        let digits: Option<Vec<_>> = fields.iter().map(Digit::new).collect();
        let varies = |digit: &Digit| digit.count > 1;
        let digits: Vec<_> = digits?.into_iter().filter(varies).collect();
        let mut step = Tuple::default();
        if let Some(fastest) = digits.first().filter(|_| flows > 1) {
            step.add(fastest.field, fastest.step);
        }
        Some(Self {
            base,
            digits,
            first_flow,
            flows,
            step,
        })
    }

    /// The place of frame `sequence`.
    pub(crate) fn seek(&self, sequence: u64) -> Place {
        let index = self.first_flow + sequence % self.flows;
        self.run_from(sequence, index, self.digits_of(index))
    }

    fn digits_of(&self, index: u64) -> [u64; MAX_DIGITS] {
        let mut at = [0; MAX_DIGITS];
        let mut rest = index;
        for (at, digit) in at.iter_mut().zip(&self.digits) {
            *at = rest % digit.count;
            rest /= digit.count;
        }
        at
    }

    /// The run that begins with tuple `index`, whose digits are `at`. It ends
    /// with its digit, with the last flow, or where its field would wrap.
    fn run_from(&self, sequence: u64, index: u64, at: [u64; MAX_DIGITS]) -> Place {
        let mut tuple = self.base;
        for (digit, at) in self.digits.iter().zip(at) {
            let range = digit.field.range();
            let base = self.base.get(digit.field);
            // Both factors are at most 2^32.
            tuple.set(
                digit.field,
                base.wrapping_add(digit.step.wrapping_mul(at)) % range,
            );
        }
        let run = match self.digits.first() {
            Some(fastest) if self.flows > 1 => {
                let end = self.first_flow + self.flows;
                let run = (fastest.count - at[0]).min(end - index);
                let room = fastest.field.range() - 1 - tuple.get(fastest.field);
                let needed = u128::from(fastest.step) * u128::from(run - 1);
                if needed > u128::from(room) {
                    room / fastest.step + 1
                } else {
                    run
                }
            }
            _ => u64::MAX,
        };
        Place {
            sequence,
            tuple,
            left: run,
            run,
            index,
            at,
        }
    }

    /// The run after the one that `place` has come to the end of.
    #[inline(never)]
    pub(crate) fn next_run(&self, place: &Place) -> Place {
        let mut index = place.index + place.run;
        let mut at = place.at;
        if index == self.first_flow + self.flows {
            index = self.first_flow;
            at = self.digits_of(index);
        } else {
            let mut carry = place.run;
            for (at, digit) in at.iter_mut().zip(&self.digits) {
                *at += carry;
                if *at < digit.count {
                    break;
                }
                *at = 0;
                carry = 1;
            }
        }
        self.run_from(place.sequence, index, at)
    }
}
