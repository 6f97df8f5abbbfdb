//! A typed assembler for the BPF instruction set (RFC 9669).

/// A register (RFC 9669 section 2.1). `R0` holds results, `R1` to `R5` hold
/// arguments and are lost in a call, `R6` to `R9` are kept. Those not listed
/// have found no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
}

/// How many bytes a load or store moves (RFC 9669 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Width {
    W4 = 0x00,
    W2 = 0x08,
    W1 = 0x10,
    W8 = 0x18,
}

/// Arithmetic on 64 bits (RFC 9669 section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Op {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    Xor = 0xa0,
    Mov = 0xb0,
}

/// When to jump, on unsigned 64-bit numbers (RFC 9669 section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum If {
    Equal = 0x10,
    Greater = 0x20,
    NotEqual = 0x50,
}

/// Functions of the kernel (bpf-helpers(7)); the numbers are those of
/// `linux/bpf.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Helper {
    KtimeGetNs = 5,
    GetSmpProcessorId = 8,
    Redirect = 23,
    RedirectMap = 51,
}

/// One instruction as the kernel takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A register or a constant, which is extended with its sign.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operand {
    Reg(Reg),
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(value: i32) -> Self {
        Self::Imm(value)
    }
}

/// A place to jump to, forwards only: the programs here have no loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label(usize);

const CLASS_LD: u8 = 0x00;
const CLASS_LDX: u8 = 0x01;
const CLASS_ST: u8 = 0x02;
const CLASS_STX: u8 = 0x03;
const CLASS_ALU: u8 = 0x04;
const CLASS_JMP: u8 = 0x05;
const CLASS_ALU64: u8 = 0x07;
const MODE_MEM: u8 = 0x60;
const SOURCE_REG: u8 = 0x08;
const WIDE_IMMEDIATE: u8 = 0x18;
/// Byte swap (0xd0) to big endian (0x08).
const BYTE_SWAP_TO_BE: u8 = 0xd8;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// What the second half of a wide immediate stands for: a number, a map, a
/// place in the value of a map with one entry (RFC 9669 section 5.4).
const WIDE_NUMBER: u8 = 0;
const WIDE_MAP: u8 = 1;
const WIDE_MAP_VALUE: u8 = 2;

/// A program in the making.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<Instruction>,
    /// Jumps whose target is not placed yet.
    open: Vec<(usize, Label)>,
    labels: usize,
}

impl Assembler {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn emit(&mut self, code: u8, dst: Reg, src: u8, offset: i16, immediate: i32) -> &mut Self {
        self.code.push(Instruction {
            code,
            registers: src << 4 | dst as u8,
            offset,
            immediate,
        });
        self
    }

    /// `dst = dst op operand`, on 64 bits.
    pub(crate) fn op(&mut self, op: Op, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        match operand.into() {
            Operand::Imm(value) => self.emit(CLASS_ALU64 | op as u8, dst, 0, 0, value),
            Operand::Reg(src) => {
                self.emit(CLASS_ALU64 | SOURCE_REG | op as u8, dst, src as u8, 0, 0)
            }
        }
    }

    /// `dst = operand`.
    pub(crate) fn mov(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.op(Op::Mov, dst, operand)
    }

    /// `dst` cut to its low 32 bits.
    pub(crate) fn low_half(&mut self, dst: Reg) -> &mut Self {
        let code = CLASS_ALU | SOURCE_REG | Op::Mov as u8;
        self.emit(code, dst, dst as u8, 0, 0)
    }

    /// The low `bits` (16 or 32) of `dst` in network byte order; the rest zero.
    pub(crate) fn network_order(&mut self, dst: Reg, bits: i32) -> &mut Self {
        self.emit(CLASS_ALU | BYTE_SWAP_TO_BE, dst, 0, 0, bits)
    }

    /// `dst = *(src + offset)`, extended with zeros.
    pub(crate) fn load(&mut self, width: Width, dst: Reg, src: Reg, offset: i16) -> &mut Self {
        let code = CLASS_LDX | MODE_MEM | width as u8;
        self.emit(code, dst, src as u8, offset, 0)
    }

    /// `*(dst + offset) = operand`.
    pub(crate) fn store(
        &mut self,
        width: Width,
        dst: Reg,
        offset: i16,
        operand: impl Into<Operand>,
    ) -> &mut Self {
        let code = MODE_MEM | width as u8;
        match operand.into() {
            Operand::Imm(value) => self.emit(CLASS_ST | code, dst, 0, offset, value),
            Operand::Reg(src) => self.emit(CLASS_STX | code, dst, src as u8, offset, 0),
        }
    }

    fn wide(&mut self, dst: Reg, kind: u8, low: i32, high: i32) -> &mut Self {
        self.emit(CLASS_LD | WIDE_IMMEDIATE, dst, kind, 0, low);
        self.emit(0, Reg::R0, 0, 0, high)
    }

    /// `dst = value`, whatever its size.
    pub(crate) fn number(&mut self, dst: Reg, value: u64) -> &mut Self {
        match i32::try_from(value as i64) {
            Ok(small) => self.mov(dst, small),
            Err(_) => self.wide(dst, WIDE_NUMBER, value as i32, (value >> 32) as i32),
        }
    }

    /// `dst` = the map with this file descriptor.
    pub(crate) fn map(&mut self, dst: Reg, fd: i32) -> &mut Self {
        self.wide(dst, WIDE_MAP, fd, 0)
    }

    /// `dst` = the address of the byte `offset` in the only value of the array
    /// with this file descriptor.
    pub(crate) fn map_value(&mut self, dst: Reg, fd: i32, offset: i32) -> &mut Self {
        self.wide(dst, WIDE_MAP_VALUE, fd, offset)
    }

    /// A label to be [placed](Self::place) later.
    pub(crate) fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// Goes to `to` if `left` is in this relation to `right`.
    pub(crate) fn jump_if(
        &mut self,
        condition: If,
        left: Reg,
        right: impl Into<Operand>,
        to: Label,
    ) -> &mut Self {
        self.open.push((self.code.len(), to));
        let code = CLASS_JMP | condition as u8;
        match right.into() {
            Operand::Imm(value) => self.emit(code, left, 0, 0, value),
            Operand::Reg(src) => self.emit(code | SOURCE_REG, left, src as u8, 0, 0),
        }
    }

    /// Goes to `to`.
    pub(crate) fn jump(&mut self, to: Label) -> &mut Self {
        self.open.push((self.code.len(), to));
        self.emit(CLASS_JMP, Reg::R0, 0, 0, 0)
    }

    /// Jumps to `label` arrive here.
    pub(crate) fn place(&mut self, label: Label) -> &mut Self {
        let here = self.code.len();
        for (at, _) in self.open.iter().filter(|(_, to)| *to == label) {
            // Programs are far shorter than an offset's range.
            self.code[*at].offset = (here - at - 1) as i16;
        }
        self.open.retain(|(_, to)| *to != label);
        self
    }

    /// `R0 = helper(R1, .. R5)`.
    pub(crate) fn call(&mut self, helper: Helper) -> &mut Self {
        self.emit(CALL, Reg::R0, 0, 0, helper as i32)
    }

    /// Returns `R0`.
    pub(crate) fn exit(&mut self) -> &mut Self {
        self.emit(EXIT, Reg::R0, 0, 0, 0)
    }

    /// The finished program.
    ///
    /// A jump whose label was never placed goes to the next instruction; the
    /// debug build says so.
    pub(crate) fn finish(self) -> Vec<Instruction> {
        debug_assert!(self.open.is_empty(), "labels without a place");
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a program, as RFC 9669 section 3 lays them out.
    fn bytes(asm: Assembler) -> Vec<[u8; 8]> {
        let encode = |one: Instruction| {
            let mut bytes = [one.code, one.registers, 0, 0, 0, 0, 0, 0];
            bytes[2..4].copy_from_slice(&one.offset.to_le_bytes());
            bytes[4..].copy_from_slice(&one.immediate.to_le_bytes());
            bytes
        };
        asm.finish().into_iter().map(encode).collect()
    }

    #[test]
    fn instructions_are_those_of_the_standard() {
        let mut asm = Assembler::new();
        asm.mov(Reg::R0, -1)
            .op(Op::Add, Reg::R1, Reg::R2)
            .load(Width::W8, Reg::R3, Reg::R6, -16)
            .store(Width::W2, Reg::R7, 4, 0x1234)
            .store(Width::W1, Reg::R7, 4, Reg::R8)
            .network_order(Reg::R1, 16)
            .call(Helper::RedirectMap)
            .exit();
        let expected = [
            [0xb7, 0x00, 0, 0, 0xff, 0xff, 0xff, 0xff],
            [0x0f, 0x21, 0, 0, 0, 0, 0, 0],
            [0x79, 0x63, 0xf0, 0xff, 0, 0, 0, 0],
            [0x6a, 0x07, 4, 0, 0x34, 0x12, 0, 0],
            [0x73, 0x87, 4, 0, 0, 0, 0, 0],
            [0xdc, 0x01, 0, 0, 16, 0, 0, 0],
            [0x85, 0, 0, 0, 51, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes(asm), expected);
    }

    #[test]
    fn numbers_take_two_instructions_where_one_does_not_hold_them() {
        let mut asm = Assembler::new();
        asm.number(Reg::R1, 0x7fff_ffff)
            .number(Reg::R1, 0x0123_4567_89ab_cdef)
            .map_value(Reg::R2, 5, 8);
        let expected = [
            [0xb7, 0x01, 0, 0, 0xff, 0xff, 0xff, 0x7f],
            [0x18, 0x01, 0, 0, 0xef, 0xcd, 0xab, 0x89],
            [0, 0, 0, 0, 0x67, 0x45, 0x23, 0x01],
            [0x18, 0x22, 0, 0, 5, 0, 0, 0],
            [0, 0, 0, 0, 8, 0, 0, 0],
        ];
        assert_eq!(bytes(asm), expected);
    }

    #[test]
    fn jumps_count_from_the_next_instruction() {
        let mut asm = Assembler::new();
        let (end, middle) = (asm.label(), asm.label());
        asm.jump_if(If::Equal, Reg::R1, 7, end)
            .jump(middle)
            .place(middle)
            .mov(Reg::R0, 0)
            .place(end)
            .exit();
        let expected = [
            [0x15, 0x01, 2, 0, 7, 0, 0, 0],
            [0x05, 0, 0, 0, 0, 0, 0, 0],
            [0xb7, 0, 0, 0, 0, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes(asm), expected);
    }
}
