//! Small BPF programs, assembled at run time (bpf(2)).
//!
//! The programs depend on the stream or on the number of queues and are a
//! dozen to two hundred instructions long, so they are put together in Rust
//! and handed to the kernel, which verifies and compiles them. Nothing needs a
//! compiler, an object file or a loader library at build time; crates that
//! load programs (aya, libbpf-rs) all start from an object file.
//!
//! Everything here ends with its file descriptor, so a process that dies
//! leaves nothing attached.

pub(crate) mod asm;
pub(crate) mod attach;
mod resident;
mod sys;

pub(crate) use resident::Resident;
pub(crate) use sys::{
    AttachMode, DeviceMap, Link, Program, ProgramKind, SharedArray, TestRun, XskMap, program_name,
};
