//! The order in which a stream goes through its five-tuples.
//!
//! The field programs are digits of the tuple index, the first one fastest
//! (protocol/README.md, "The order of five-tuples").

use crate::spec::{Field, FieldProgram, StreamSpec};

/// One field program, ready to run.
#[derive(Debug, Clone, Copy)]
struct Digit {
    field: Field,
    /// The step as a non-negative number modulo the field's range.
    step: u64,
    count: u64,
}

impl Digit {
    fn new(program: &FieldProgram) -> Self {
        let range = program.field.range() as i64;
        Self {
            field: program.field,
            step: program.step.rem_euclid(range) as u64,
            count: program.count,
        }
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
    flows: u64,
    /// Difference between two tuples of a run.
    pub(crate) step: Tuple,
}

impl Order {
    /// The order of a specification that was validated.
    pub(crate) fn new(spec: &StreamSpec) -> Self {
        let addresses = u64::from(spec.ip_src.to_bits()) << 32 | u64::from(spec.ip_dst.to_bits());
        let ports = u32::from(spec.udp_src) << 16 | u32::from(spec.udp_dst);
        let varies = |program: &&FieldProgram| program.count > 1;
        let digits: Vec<_> = spec.fields.iter().filter(varies).map(Digit::new).collect();
        let mut step = Tuple::default();
        if let Some(fastest) = digits.first().filter(|_| spec.flows > 1) {
            step.add(fastest.field, fastest.step);
        }
        Self {
            base: Tuple { addresses, ports },
            digits,
            flows: spec.flows,
            step,
        }
    }

    /// The place of frame `sequence`.
    pub(crate) fn seek(&self, sequence: u64) -> Place {
        let index = sequence % self.flows;
        let mut at = [0; MAX_DIGITS];
        let mut rest = index;
        for (at, digit) in at.iter_mut().zip(&self.digits) {
            *at = rest % digit.count;
            rest /= digit.count;
        }
        self.run_from(sequence, index, at)
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
                let run = (fastest.count - at[0]).min(self.flows - index);
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
        if index == self.flows {
            index = 0;
            at = [0; MAX_DIGITS];
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
