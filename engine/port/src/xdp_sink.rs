//! An interface that counts what arrives and drops it: the far end of a
//! benchmark.
//!
//! The program runs where the driver hands frames over, before the stack, so
//! it costs the sender's core as little as a sink can. On a veth it also makes
//! the other end able to take XDP frames.

use crate::bpf::asm::{Assembler, Helper, If, Op, Reg, Width};
use crate::bpf::attach::{self, Place};
use crate::bpf::{AttachMode, Link, Program, ProgramKind, SharedArray};
use crate::{OpenError, interface, netns};

/// `XDP_DROP` (linux/bpf.h).
const DROP: i32 = 1;
/// One cache line for each processor's counter.
pub(crate) const LINE_SHIFT: i32 = 6;
pub(crate) const WORDS_PER_LINE: usize = (1 << LINE_SHIFT) / 8;

/// A dropping interface, until this value goes.
pub struct XdpDropSink {
    counters: SharedArray,
    processors: usize,
    mode: AttachMode,
    _link: Link,
}

impl XdpDropSink {
    /// Attaches to the interface `device`, in the network namespace `netns` if
    /// given; in the driver if it can, in the stack otherwise.
    ///
    /// # Errors
    /// [`OpenError`], also if another program is attached there.
    pub fn attach(device: &str, netns: Option<&str>) -> Result<Self, OpenError> {
        netns::within(netns, || Self::attach_here(device, netns))
    }

    fn attach_here(device: &str, netns: Option<&str>) -> Result<Self, OpenError> {
        let mut place = Place {
            device,
            netns,
            index: 0,
        };
        place.index =
            interface::index_of(device).map_err(|error| place.failed("interface", &error))?;
        let processors = possible_processors();
        let failed = |error| place.failed("XDP program", &error);
        let counters = SharedArray::new(processors * WORDS_PER_LINE).map_err(failed)?;
        let code = counting_drop(&counters, processors);
        let program = Program::load(ProgramKind::Xdp, "pinchpoint_drop", &code.finish());
        let (link, mode) = attach::attach(&program.map_err(failed)?, place, None)?;
        Ok(Self {
            counters,
            processors,
            mode,
            _link: link,
        })
    }

    /// Frames dropped since the sink was attached.
    pub fn dropped(&self) -> u64 {
        let lines = 0..self.processors;
        lines
            .map(|line| self.counters.get(line * WORDS_PER_LINE))
            .sum()
    }

    /// Whether the program runs in the driver.
    pub fn is_native(&self) -> bool {
        self.mode == AttachMode::Native
    }
}

/// Processor numbers there may ever be: one more than the highest.
pub(crate) fn possible_processors() -> usize {
    const FALLBACK: usize = 1024;
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible");
    let highest = |list: String| {
        let last = list.trim().rsplit([',', '-']).next()?;
        last.parse::<usize>().ok()
    };
    list.ok()
        .and_then(highest)
        .map_or(FALLBACK, |last| last + 1)
}

fn counting_drop(counters: &SharedArray, processors: usize) -> Assembler {
    let mut asm = Assembler::new();
    let drop = asm.label();
    asm.call(Helper::GetSmpProcessorId)
        // Never so, but the verifier wants to see it.
        .jump_if(If::Greater, Reg::R0, processors as i32 - 1, drop)
        .op(Op::Lsh, Reg::R0, LINE_SHIFT)
        .map_value(Reg::R1, counters.fd(), 0)
        .op(Op::Add, Reg::R1, Reg::R0)
        .load(Width::W8, Reg::R2, Reg::R1, 0)
        .op(Op::Add, Reg::R2, 1)
        .store(Width::W8, Reg::R1, 0, Reg::R2)
        .place(drop)
        .mov(Reg::R0, DROP)
        .exit();
    asm
}
