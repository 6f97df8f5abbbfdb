//! The programs that make a stream's frames and count what became of them.
//!
//! # The words they share with this process
//!
//! | word | meaning |
//! |---|---|
//! | `SEQUENCE` | number of the next frame |
//! | `CLOCK_OFFSET` | what to add to `CLOCK_MONOTONIC` for the engine's clock |
//! | `TIME` | transmit time in use, below the high byte of the stream id |
//! | `TIME_LEFT` | frames until the clock is read again |
//! | `PENDING` | frames redirected, whose fate is not known yet |
//! | `ACCEPTED`, `REFUSED` | frames the device took, and those it did not |
//! | `CPU` | where the frames are being made |
//! | `INDEX` | tuples since the first one |
//! | `DIGITS`.. | number and value of each edit |

use super::stream::{LiveChecksum, LiveEdit, LiveStream};
use crate::bpf::asm::{Assembler, Helper, If, Instruction, Op, Reg, Width};
use crate::bpf::{DeviceMap, SharedArray};
use pinchpoint_wire::{checksum, signature};

pub(super) const SEQUENCE: usize = 0;
pub(super) const CLOCK_OFFSET: usize = 1;
pub(super) const TIME: usize = 2;
pub(super) const TIME_LEFT: usize = 3;
pub(super) const PENDING: usize = 4;
pub(super) const ACCEPTED: usize = 5;
pub(super) const REFUSED: usize = 6;
pub(super) const CPU: usize = 7;
pub(super) const INDEX: usize = 8;
pub(super) const DIGITS: usize = 9;

/// Words that a stream needs.
pub(super) fn words(stream: &LiveStream) -> usize {
    DIGITS + 2 * stream.edits.len()
}

/// Frames that share a reading of the clock: as many as the kernel hands to
/// the driver at once (`DEV_MAP_BULK_SIZE`).
pub(super) const FRAMES_PER_READING: i32 = 16;
/// Bytes at the front of each frame that are written anew. The kernel uses a
/// frame's memory again as its last receiver left it, and a switch rewrites
/// headers.
const RESTORED: usize = 128;

const TIME_MASK: u64 = (1 << signature::TIME_BITS) - 1;
/// `XDP_ABORTED` (linux/bpf.h).
const ABORTED: i32 = 0;
/// Where `struct xdp_md` holds the frame's first byte and its end.
const DATA: i16 = 0;
const DATA_END: i16 = 4;

/// Holds the address of the frame.
const FRAME: Reg = Reg::R7;
/// Holds the address of the shared words.
const STATE: Reg = Reg::R8;

fn word(index: usize) -> i16 {
    (index * 8) as i16
}

fn number_word(edit: usize) -> i16 {
    word(DIGITS + 2 * edit)
}

fn value_word(edit: usize) -> i16 {
    word(DIGITS + 2 * edit + 1)
}

/// Number and value of each edit in the first tuple.
pub(super) fn first_digits(stream: &LiveStream) -> Vec<(u64, u32)> {
    let mut rest = stream.first_flow;
    let digit = |edit: &LiveEdit| {
        let number = rest % edit.count;
        rest /= edit.count;
        (number, edit.value(number))
    };
    stream.edits.iter().map(digit).collect()
}

/// The program that makes the next frame of `stream` and redirects it.
pub(super) fn frame(
    stream: &LiveStream,
    state: &SharedArray,
    device: &DeviceMap,
) -> Vec<Instruction> {
    let mut asm = Assembler::new();
    let abort = asm.label();
    asm.load(Width::W4, FRAME, Reg::R1, DATA)
        .load(Width::W4, Reg::R2, Reg::R1, DATA_END)
        .mov(Reg::R3, FRAME)
        .op(Op::Add, Reg::R3, stream.template.len() as i32)
        .jump_if(If::Greater, Reg::R3, Reg::R2, abort)
        .map_value(STATE, state.fd(), 0);
    read_clock(&mut asm, stream);
    restore(&mut asm, stream);
    for (index, edit) in stream.edits.iter().enumerate() {
        asm.load(Width::W8, Reg::R1, STATE, value_word(index));
        store_be(&mut asm, edit.width, edit.offset, Reg::R1);
    }
    for covering in &stream.checksums {
        write_checksum(&mut asm, stream, covering);
    }
    write_signature(&mut asm, stream);
    advance(&mut asm, stream);
    asm.load(Width::W8, Reg::R1, STATE, word(PENDING))
        .op(Op::Add, Reg::R1, 1)
        .store(Width::W8, STATE, word(PENDING), Reg::R1)
        .map(Reg::R1, device.fd())
        .mov(Reg::R2, 0)
        .mov(Reg::R3, ABORTED)
        .call(Helper::RedirectMap)
        .exit()
        .place(abort)
        .mov(Reg::R0, ABORTED)
        .exit();
    asm.finish()
}

/// Reads the clock, and where this runs, once for a bulk of frames.
fn read_clock(asm: &mut Assembler, stream: &LiveStream) {
    let fresh = asm.label();
    asm.load(Width::W8, Reg::R6, STATE, word(TIME_LEFT))
        .jump_if(If::NotEqual, Reg::R6, 0, fresh)
        .call(Helper::GetSmpProcessorId)
        .store(Width::W8, STATE, word(CPU), Reg::R0)
        .call(Helper::KtimeGetNs)
        .load(Width::W8, Reg::R1, STATE, word(CLOCK_OFFSET))
        .op(Op::Add, Reg::R0, Reg::R1)
        .number(Reg::R1, TIME_MASK)
        .op(Op::And, Reg::R0, Reg::R1)
        .number(Reg::R1, u64::from(stream.id >> 8) << signature::TIME_BITS)
        .op(Op::Add, Reg::R0, Reg::R1)
        .store(Width::W8, STATE, word(TIME), Reg::R0)
        .mov(Reg::R6, FRAMES_PER_READING)
        .place(fresh)
        .op(Op::Sub, Reg::R6, 1)
        .store(Width::W8, STATE, word(TIME_LEFT), Reg::R6);
}

/// Writes the front of the template, four bytes at a time.
fn restore(asm: &mut Assembler, stream: &LiveStream) {
    let end = stream.signature_at().min(RESTORED);
    let (words, rest) = stream.template[..end].as_chunks::<4>();
    for (index, bytes) in words.iter().enumerate() {
        let at = index * 4;
        if !overwritten(stream, at..at + 4) {
            let value = i32::from_ne_bytes(*bytes);
            asm.store(Width::W4, FRAME, at as i16, value);
        }
    }
    for (index, byte) in rest.iter().enumerate() {
        let at = words.len() * 4 + index;
        asm.store(Width::W1, FRAME, at as i16, i32::from(*byte));
    }
}

/// Whether a field or a checksum takes all of these bytes.
fn overwritten(stream: &LiveStream, bytes: std::ops::Range<usize>) -> bool {
    let inside = |start: usize, len: usize| start <= bytes.start && bytes.end <= start + len;
    stream
        .edits
        .iter()
        .any(|edit| inside(edit.offset, edit.width))
}

/// Stores the low `width` bytes of `value` in network byte order.
fn store_be(asm: &mut Assembler, width: usize, offset: usize, value: Reg) {
    let offset = offset as i16;
    match width {
        1 => asm.store(Width::W1, FRAME, offset, value),
        2 => asm
            .network_order(value, 16)
            .store(Width::W2, FRAME, offset, value),
        _ => asm
            .network_order(value, 32)
            .store(Width::W4, FRAME, offset, value),
    };
}

/// Folds the sum in `R1` to 16 bits (RFC 1071); needs `R2`. The sum is below
/// 2^50 and not zero, and neither is the result.
fn fold(asm: &mut Assembler) {
    for (bits, low) in [(32, None), (16, Some(0xffff)), (16, Some(0xffff))] {
        asm.mov(Reg::R2, Reg::R1).op(Op::Rsh, Reg::R2, bits);
        match low {
            None => asm.low_half(Reg::R1),
            Some(mask) => asm.op(Op::And, Reg::R1, mask),
        };
        asm.op(Op::Add, Reg::R1, Reg::R2);
    }
    asm.mov(Reg::R2, Reg::R1)
        .op(Op::Rsh, Reg::R2, 16)
        .op(Op::Add, Reg::R1, Reg::R2)
        .op(Op::And, Reg::R1, 0xffff);
}

/// The sum of everything a checksum covers but the edited fields, 1 to 65,535.
fn constant_sum(stream: &LiveStream, covering: &LiveChecksum) -> u16 {
    let frame = &stream.template;
    let field = u16::from_be_bytes([frame[covering.offset], frame[covering.offset + 1]]);
    // The ones' complement of the field is the sum of all; taking a number
    // out is adding its complement. 65,535 is zero, and keeps the fold from
    // giving zero.
    let taken = covering.edits.iter().map(|index| {
        let edit = &stream.edits[*index];
        let part = u64::from(edit.read(frame)) << edit.shift();
        u64::from(!checksum::fold(part))
    });
    checksum::fold(u64::from(!field) + taken.sum::<u64>() + 0xffff)
}

fn write_checksum(asm: &mut Assembler, stream: &LiveStream, covering: &LiveChecksum) {
    asm.mov(Reg::R1, i32::from(constant_sum(stream, covering)));
    for index in &covering.edits {
        asm.load(Width::W8, Reg::R2, STATE, value_word(*index));
        let shift = stream.edits[*index].shift();
        if shift > 0 {
            asm.op(Op::Lsh, Reg::R2, shift as i32);
        }
        asm.op(Op::Add, Reg::R1, Reg::R2);
    }
    fold(asm);
    asm.op(Op::Xor, Reg::R1, 0xffff);
    if covering.udp {
        let not_zero = asm.label();
        asm.jump_if(If::NotEqual, Reg::R1, 0, not_zero)
            .mov(Reg::R1, 0xffff)
            .place(not_zero);
    }
    store_be(asm, 2, covering.offset, Reg::R1);
}

/// Writes the signature as [`signature::Stamper`] does.
fn write_signature(asm: &mut Assembler, stream: &LiveStream) {
    let at = stream.signature_at();
    let magic = signature::MAGIC.to_be_bytes();
    let head = [magic[0], magic[1], stream.epoch, stream.id as u8];
    let head_sum = u32::from_be_bytes(head);
    asm.store(Width::W4, FRAME, at as i16, i32::from_ne_bytes(head))
        .load(Width::W8, Reg::R3, STATE, word(SEQUENCE))
        .load(Width::W8, Reg::R4, STATE, word(TIME))
        .number(Reg::R1, u64::from(head_sum))
        .op(Op::Add, Reg::R1, Reg::R3)
        .op(Op::Add, Reg::R1, Reg::R4);
    fold(asm);
    asm.op(Op::Xor, Reg::R1, 0xffff);
    store_be(asm, 2, at + 16, Reg::R1);
    asm.mov(Reg::R1, Reg::R3).op(Op::Rsh, Reg::R1, 16);
    store_be(asm, 4, at + 4, Reg::R1);
    store_be(asm, 2, at + 8, Reg::R3);
    asm.mov(Reg::R1, Reg::R4).op(Op::Rsh, Reg::R1, 32);
    store_be(asm, 2, at + 10, Reg::R1);
    store_be(asm, 4, at + 12, Reg::R4);
}

/// Advances to the next frame and its tuple.
fn advance(asm: &mut Assembler, stream: &LiveStream) {
    asm.load(Width::W8, Reg::R1, STATE, word(SEQUENCE))
        .op(Op::Add, Reg::R1, 1)
        .store(Width::W8, STATE, word(SEQUENCE), Reg::R1);
    if stream.edits.is_empty() {
        return;
    }
    let (again, done) = (asm.label(), asm.label());
    asm.load(Width::W8, Reg::R1, STATE, word(INDEX))
        .op(Op::Add, Reg::R1, 1)
        .number(Reg::R2, stream.flows)
        .jump_if(If::Equal, Reg::R1, Reg::R2, again)
        .store(Width::W8, STATE, word(INDEX), Reg::R1);
    for (index, edit) in stream.edits.iter().enumerate() {
        asm.load(Width::W8, Reg::R1, STATE, number_word(index))
            .op(Op::Add, Reg::R1, 1)
            .number(Reg::R2, edit.count);
        let carry = asm.label();
        asm.jump_if(If::Equal, Reg::R1, Reg::R2, carry).store(
            Width::W8,
            STATE,
            number_word(index),
            Reg::R1,
        );
        step(asm, index, edit);
        asm.jump(done).place(carry);
        set_digit(asm, index, 0, edit.value(0));
    }
    asm.jump(done).place(again);
    asm.store(Width::W8, STATE, word(INDEX), 0);
    for (index, (number, value)) in first_digits(stream).into_iter().enumerate() {
        set_digit(asm, index, number, value);
    }
    asm.place(done);
}

/// Adds the edit's step to its value.
fn step(asm: &mut Assembler, index: usize, edit: &LiveEdit) {
    asm.load(Width::W8, Reg::R1, STATE, value_word(index))
        .number(Reg::R2, u64::from(edit.step))
        .op(Op::Add, Reg::R1, Reg::R2)
        .number(Reg::R2, u64::from(edit.varying()))
        .op(Op::And, Reg::R1, Reg::R2);
    if edit.fixed() != 0 {
        asm.number(Reg::R2, u64::from(edit.fixed()))
            .op(Op::Add, Reg::R1, Reg::R2);
    }
    asm.store(Width::W8, STATE, value_word(index), Reg::R1);
}

fn set_digit(asm: &mut Assembler, index: usize, number: u64, value: u32) {
    asm.number(Reg::R1, number)
        .store(Width::W8, STATE, number_word(index), Reg::R1)
        .number(Reg::R1, u64::from(value))
        .store(Width::W8, STATE, value_word(index), Reg::R1);
}

/// The tracepoint where the kernel reports how many frames of a bulk a driver
/// took (`include/trace/events/xdp.h`).
pub(super) const DEVICE_TRACEPOINT: &std::ffi::CStr = c"xdp_devmap_xmit";

/// The program behind [`DEVICE_TRACEPOINT`].
///
/// It sees every redirected frame of the machine. Ours are those handed over
/// on our processor while some of ours are pending: they are handed over
/// before the kernel lets anything else redirect there.
pub(super) fn account(state: &SharedArray) -> Vec<Instruction> {
    const SENT: i16 = word_of_argument(2);
    const DROPPED: i16 = word_of_argument(3);
    let mut asm = Assembler::new();
    let (others, settled) = (asm.label(), asm.label());
    asm.mov(Reg::R6, Reg::R1)
        .map_value(STATE, state.fd(), 0)
        .load(Width::W8, Reg::R7, STATE, word(PENDING))
        .jump_if(If::Equal, Reg::R7, 0, others)
        .call(Helper::GetSmpProcessorId)
        .load(Width::W8, Reg::R1, STATE, word(CPU))
        .jump_if(If::NotEqual, Reg::R0, Reg::R1, others)
        .load(Width::W8, Reg::R2, Reg::R6, SENT)
        .low_half(Reg::R2)
        .load(Width::W8, Reg::R3, Reg::R6, DROPPED)
        .low_half(Reg::R3)
        .load(Width::W8, Reg::R1, STATE, word(ACCEPTED))
        .op(Op::Add, Reg::R1, Reg::R2)
        .store(Width::W8, STATE, word(ACCEPTED), Reg::R1)
        .load(Width::W8, Reg::R1, STATE, word(REFUSED))
        .op(Op::Add, Reg::R1, Reg::R3)
        .store(Width::W8, STATE, word(REFUSED), Reg::R1)
        .op(Op::Add, Reg::R2, Reg::R3)
        .mov(Reg::R1, 0)
        .jump_if(If::Greater, Reg::R2, Reg::R7, settled)
        .mov(Reg::R1, Reg::R7)
        .op(Op::Sub, Reg::R1, Reg::R2)
        .place(settled)
        .store(Width::W8, STATE, word(PENDING), Reg::R1)
        .place(others)
        .mov(Reg::R0, 0)
        .exit();
    asm.finish()
}

/// A raw tracepoint's arguments are 64-bit words.
const fn word_of_argument(number: i16) -> i16 {
    number * 8
}
