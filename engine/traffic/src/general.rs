//! Any headers, sizes and field programs: one copy of the longest frame is
//! kept up to date, and each frame is a copy of its beginning.
//!
//! Checksums are linear: modulo 65,535, the sum a checksum is made from is a
//! constant for each size plus, for each field, a factor times the field's
//! value. Factors and constants are read off whole frames once, so whatever
//! covers what, however tunnels nest and wherever a field starts, a changed
//! field costs two multiplications for each checksum it enters (the update of
//! RFC 1624). The signature adds nothing (wire's `signature`).

use crate::digits::{Digit, Draw, index_digits, index_together};
use crate::layout::{Check, Layout, Length, finish};
use crate::sizes::SizePattern;
use crate::spec::{FieldName, FieldRef, MIN_LEN, Op, SpecError, StreamSpec, check};
use crate::writer::FrameWriter;
use pinchpoint_wire::checksum;
use pinchpoint_wire::signature::{self, Stamper};

/// A changed field's effect on one checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tap {
    pub(crate) check: usize,
    /// Multiplies the new value's words; the complement multiplies the old's.
    factor: u64,
    complement: u64,
}

/// A field and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    /// First of eight bytes that hold it.
    window: usize,
    shift: u32,
    max: u64,
    value: u64,
    taps: Vec<Tap>,
}

impl Slot {
    pub(crate) fn new(layout: &Layout, field: FieldRef, key: &str) -> Result<Self, SpecError> {
        let (kind, _, bit, width) = field.name.place();
        let header = layout.header(kind, field.layer);
        let found = header.and_then(|header| {
            let moved = moved(field.name, layout.bytes[header.at])?;
            Some((header, moved))
        });
        let Some((header, moved)) = found else {
            return Err(SpecError {
                key: format!("{key}.field"),
                what: format!("the template has no {field}; add its layer or choose another field"),
            });
        };
        let first_bit = header.at * 8 + bit + moved;
        let window = (first_bit / 8).min(layout.bytes.len() - 8);
        let mut slot = Self {
            window,
            shift: (64 - (first_bit - window * 8 + width)) as u32,
            max: field.name.max(),
            value: 0,
            taps: Vec::new(),
        };
        slot.value = slot.read(&layout.bytes);
        Ok(slot)
    }

    /// Its first bit in the frame, and the first one behind it.
    pub(crate) fn bits(&self) -> (usize, usize) {
        let end = self.window * 8 + 64 - self.shift as usize;
        (end - (64 - self.max.leading_zeros() as usize), end)
    }

    /// The largest value it holds.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    #[inline(always)]
    fn word(&self, bytes: &[u8]) -> u64 {
        let mut window = [0; 8];
        window.copy_from_slice(&bytes[self.window..self.window + 8]);
        u64::from_be_bytes(window)
    }

    fn read(&self, bytes: &[u8]) -> u64 {
        self.word(bytes) >> self.shift & self.max
    }

    #[inline(always)]
    fn write(&mut self, bytes: &mut [u8], value: u64) {
        self.value = value;
        let word = self.word(bytes) & !(self.max << self.shift) | value << self.shift;
        bytes[self.window..self.window + 8].copy_from_slice(&word.to_be_bytes());
    }
}

/// By how many bits the fields that stand before this one in its header move it;
/// none if the header, which begins with `flags`, lacks it. A GRE checksum stands
/// before the key, and both before the sequence number (RFC 2890 section 2).
fn moved(name: FieldName, flags: u8) -> Option<usize> {
    let (own, before) = match name {
        FieldName::GreKey => (0x20, 0x80),
        FieldName::GreSequence => (0x10, 0xa0),
        _ => return Some(0),
    };
    (flags & own != 0).then(|| (flags & before).count_ones() as usize * 32)
}

/// The longest frame with its fields' present values.
#[derive(Debug, Clone)]
struct Frame {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    /// What the fields add to the sum of each checksum, folded.
    sums: Vec<u64>,
}

impl Frame {
    #[inline(always)]
    fn set(&mut self, slot: usize, value: u64) {
        let slot = &mut self.slots[slot];
        if slot.value == value {
            return;
        }
        let old = u64::from(checksum::fold(slot.value));
        let new = u64::from(checksum::fold(value));
        slot.write(&mut self.bytes, value);
        for tap in &slot.taps {
            let sum = &mut self.sums[tap.check];
            let total = *sum + new * tap.factor + old * tap.complement;
            *sum = u64::from(checksum::fold(total));
        }
    }
}

/// A checksum field.
#[derive(Debug, Clone, Copy)]
struct CheckField {
    at: usize,
    avoids_zero: bool,
}

/// A stream's frames in order.
#[derive(Debug, Clone)]
pub(crate) struct General {
    frame: Frame,
    digits: Vec<Digit>,
    /// Whether each digit takes its next value with every frame.
    together: bool,
    draws: Vec<Draw>,
    checks: Vec<CheckField>,
    /// The length fields; none if all frames have one size.
    lengths: Vec<Length>,
    /// For every size, what all but the fields adds to each checksum's sum.
    constants: Vec<u16>,
    sizes: SizePattern,
    /// Epoch and stream id of the signatures.
    stamp: Option<(u8, u16)>,
    first_flow: u64,
    end_flow: u64,
    sequence: u64,
    /// Where in the pattern of sizes the next frame stands.
    position: usize,
    /// Tuple index of the next frame.
    index: u64,
}

impl General {
    pub(crate) fn new(spec: &StreamSpec, mut layout: Layout) -> Result<Self, SpecError> {
        let sizes = SizePattern::new(&spec.sizes, spec.draw_seed());
        layout.bytes.resize(sizes.max_len(), 0);
        check_wrong(spec, &layout)?;
        let mut slots = Vec::new();
        for (k, program) in spec.fields.iter().enumerate() {
            slots.push(Slot::new(&layout, program.field, &format!("fields[{k}]"))?);
        }
        let constants = constants(spec, &layout, &sizes);
        for slot in &mut slots {
            slot.taps = taps(spec, &layout, slot, sizes.min_len());
        }
        let uniform = sizes.min_len() == sizes.max_len();
        let mut bytes = layout.bytes.clone();
        layout.finish(&mut bytes, spec.wrong);
        let is_draw = |op: &Op| matches!(op, Op::Zipf { .. });
        let with_base = spec.fields.iter().zip(&slots).enumerate();
        let with_base = with_base.map(|(k, (program, slot))| (k, program, slot.value));
        let (draws, digits): (Vec<_>, Vec<_>) =
            with_base.partition(|(_, program, _)| is_draw(&program.op));
        let digit = |(k, program, base)| Digit::new(spec.seed, k, program, base);
        let draw = |(k, program, base)| Draw::new(spec.draw_seed(), k, program, base);
        let check_field = |check: &Check| CheckField {
            at: check.at,
            avoids_zero: check.avoids_zero(),
        };
        let mut general = Self {
            digits: digits.into_iter().filter_map(digit).collect(),
            together: spec.together,
            draws: draws.into_iter().filter_map(draw).collect(),
            checks: layout.checks.iter().map(check_field).collect(),
            lengths: if uniform { Vec::new() } else { layout.lengths },
            constants,
            frame: Frame {
                bytes,
                slots,
                sums: vec![0; layout.checks.len()],
            },
            sizes,
            stamp: spec.stamped.then_some((spec.epoch, spec.id)),
            first_flow: spec.first_flow,
            end_flow: spec.first_flow + spec.flows,
            sequence: 0,
            position: 0,
            index: spec.first_flow,
        };
        general.seek(0);
        Ok(general)
    }

    /// Sequence number of the next frame.
    #[inline(always)]
    pub(crate) fn next(&self) -> u64 {
        self.sequence
    }

    /// Goes to frame `sequence`.
    pub(crate) fn seek(&mut self, sequence: u64) {
        self.sequence = sequence;
        self.position = self.sizes.position(sequence);
        self.index = self.first_flow + sequence % (self.end_flow - self.first_flow);
        self.set_digits();
        self.draw();
    }

    /// Gives every digit the value of the present tuple index.
    #[inline(never)]
    fn set_digits(&mut self) {
        if self.together {
            index_together(&mut self.digits, self.index);
        } else {
            index_digits(&mut self.digits, self.index);
        }
        for digit in &self.digits {
            self.frame.set(digit.slot, digit.value());
        }
    }

    #[inline(always)]
    fn draw(&mut self) {
        for draw in &self.draws {
            self.frame.set(draw.slot, draw.value(self.sequence));
        }
    }

    /// Goes to the next frame.
    #[inline(always)]
    fn advance(&mut self) {
        self.sequence += 1;
        self.position = self.sizes.next(self.position);
        self.index += 1;
        if self.index == self.end_flow {
            self.index = self.first_flow;
            if self.end_flow - self.first_flow > 1 {
                self.set_digits();
            }
        } else {
            for digit in &mut self.digits {
                let carries = digit.advance();
                self.frame.set(digit.slot, digit.value());
                if !carries && !self.together {
                    break;
                }
            }
        }
        self.draw();
    }

    /// Frames from the next one on, all sent at `time_ns`.
    #[inline(always)]
    pub(crate) fn burst(&mut self, time_ns: u64) -> Burst<'_> {
        let stamper = self
            .stamp
            .map(|(epoch, id)| Stamper::new(epoch, id, time_ns));
        Burst {
            first: self.sequence,
            position: self.position,
            general: self,
            stamper,
        }
    }

    /// Fills `frame`, which has the size number `size`.
    #[inline(always)]
    fn fill(&self, size: usize, frame: &mut [u8]) {
        let len = frame.len();
        let bytes = &self.frame.bytes[..len];
        // A copy of constant length is a few instructions, one of any length
        // a call.
        if let Some((head, tail)) = frame.split_first_chunk_mut::<MIN_LEN>()
            && let Some((head_bytes, tail_bytes)) = bytes.split_first_chunk::<MIN_LEN>()
        {
            *head = *head_bytes;
            if !tail.is_empty() {
                tail.copy_from_slice(tail_bytes);
            }
        }
        for length in &self.lengths {
            let value = (len - length.from) as u16;
            frame[length.at..length.at + 2].copy_from_slice(&value.to_be_bytes());
        }
        let count = self.checks.len();
        let constants = &self.constants[size * count..][..count];
        let sums = constants.iter().zip(&self.frame.sums);
        for (check, (constant, sum)) in self.checks.iter().zip(sums) {
            let value = finish(check.avoids_zero, u64::from(*constant) + sum);
            frame[check.at..check.at + 2].copy_from_slice(&value.to_be_bytes());
        }
    }
}

/// Writes frames one after another.
#[derive(Debug)]
pub(crate) struct Burst<'a> {
    general: &'a mut General,
    stamper: Option<Stamper>,
    first: u64,
    position: usize,
}

impl FrameWriter for Burst<'_> {
    #[inline(always)]
    fn len(&self, index: usize) -> usize {
        self.general.sizes.size(self.first, self.position, index).1
    }

    #[inline(always)]
    fn write(&mut self, _index: usize, frame: &mut [u8]) {
        let general = &mut *self.general;
        let (size, len) = general.sizes.size(general.sequence, general.position, 0);
        if frame.len() != len {
            return;
        }
        general.fill(size, frame);
        if let Some(stamper) = &self.stamper
            && let Some(end) = frame.last_chunk_mut::<{ signature::LEN }>()
        {
            stamper.emit(general.sequence, end);
        }
        general.advance();
    }
}

fn check_wrong(spec: &StreamSpec, layout: &Layout) -> Result<(), SpecError> {
    check(
        !spec.wrong.ipv4 || layout.checks.iter().any(Check::is_ipv4),
        "wrong.ipv4",
        "the template has no IPv4 header",
    )?;
    check(
        !spec.wrong.l4 || layout.checks.iter().any(Check::is_l4),
        "wrong.l4",
        "the template has no checksum of UDP, TCP, ICMP or ICMPv6",
    )
}

/// The folded sums of the template's checksums at every size.
fn constants(spec: &StreamSpec, layout: &Layout, sizes: &SizePattern) -> Vec<u16> {
    let mut constants = Vec::new();
    let mut frame = vec![0; sizes.max_len()];
    for len in sizes.lens() {
        let frame = &mut frame[..len];
        frame.copy_from_slice(&layout.bytes[..len]);
        if spec.stamped {
            frame[len - signature::LEN..].fill(0);
        }
        let sums = layout.finish(frame, spec.wrong);
        constants.extend(sums.into_iter().map(checksum::fold));
    }
    constants
}

/// How the field enters the checksums: by how much their sums change when it
/// changes by one.
pub(crate) fn taps(spec: &StreamSpec, layout: &Layout, slot: &Slot, len: usize) -> Vec<Tap> {
    let mut frame = layout.bytes[..len].to_vec();
    let before = layout.finish(&mut frame, spec.wrong);
    let mut probe = slot.clone();
    // Its window may reach behind the shortest frame.
    let mut bytes = layout.bytes.clone();
    probe.write(&mut bytes, slot.value ^ 1);
    frame.copy_from_slice(&bytes[..len]);
    let after = layout.finish(&mut frame, spec.wrong);
    let change = before.into_iter().zip(after).enumerate();
    let tap = |(check, (before, after)): (usize, (u64, u64))| {
        let (low, high) = if slot.value & 1 == 0 {
            (before, after)
        } else {
            (after, before)
        };
        let factor = (high % 65_535 + 65_535 - low % 65_535) % 65_535;
        Tap {
            check,
            factor,
            complement: 65_535 - factor,
        }
    };
    change.map(tap).filter(|tap| tap.factor != 0).collect()
}
