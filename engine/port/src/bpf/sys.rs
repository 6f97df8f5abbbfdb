//! The bpf(2) system call, with each command behind a safe method.
#![allow(unsafe_code)]

use super::asm::Instruction;
use std::ffi::CStr;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

// Commands (linux/bpf.h, enum bpf_cmd).
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const PROG_TEST_RUN: libc::c_long = 10;
const PROG_GET_FD_BY_ID: libc::c_long = 13;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const LINK_CREATE: libc::c_long = 28;

const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_DEVMAP: u32 = 14;
const MAP_TYPE_XSKMAP: u32 = 17;
const MAP_MMAPABLE: u32 = 1 << 10;

const ATTACH_TYPE_XDP: u32 = 37;
const TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
/// Only calls functions that any licence may (bpf_ktime_get_ns since 5.8).
const LICENSE: &CStr = c"Apache-2.0";
const NAME_LEN: usize = 16;
/// Bytes for the verifier's complaint.
const LOG_LEN: usize = 64 << 10;

/// Issues a command; `attr` is the prefix of `union bpf_attr` it reads.
fn bpf<T>(command: libc::c_long, attr: &mut T) -> io::Result<i32> {
    // SAFETY: every caller passes the structure that the command documents,
    // with pointers to memory that outlives the call; the size says how much
    // of the union there is, and what follows counts as zero.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            ptr::from_mut(attr),
            mem::size_of::<T>(),
        )
    };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(rc as i32)
}

/// Issues a command that makes a file descriptor.
fn bpf_fd<T>(command: libc::c_long, attr: &mut T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: the command succeeded, so the descriptor is fresh and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn name_bytes(name: &str) -> [u8; NAME_LEN] {
    let mut bytes = [0; NAME_LEN];
    // The last byte stays zero.
    for (to, from) in bytes[..NAME_LEN - 1].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    name: [u8; NAME_LEN],
}

fn create_map(kind: u32, value_size: u32, max_entries: u32, flags: u32) -> io::Result<OwnedFd> {
    let mut attr = MapCreate {
        kind,
        key_size: 4,
        value_size,
        max_entries,
        flags,
        inner_map_fd: 0,
        numa_node: 0,
        name: name_bytes("pinchpoint"),
    };
    bpf_fd(MAP_CREATE, &mut attr)
}

#[repr(C)]
struct MapElement {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Sets the entry `key` of a map with 4-byte values.
fn set_element(map: &OwnedFd, key: u32, value: u32) -> io::Result<()> {
    let mut attr = MapElement {
        map_fd: map.as_raw_fd() as u32,
        _pad: 0,
        key: (&raw const key) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    bpf(MAP_UPDATE_ELEM, &mut attr).map(drop)
}

/// AF_XDP sockets by receive queue, for redirecting to them.
pub(crate) struct XskMap(OwnedFd);

impl XskMap {
    pub(crate) fn new(queues: u32) -> io::Result<Self> {
        create_map(MAP_TYPE_XSKMAP, 4, queues, 0).map(Self)
    }

    /// Frames of `queue` go to `socket`, which is bound to it.
    pub(crate) fn set(&self, queue: u32, socket: &impl AsRawFd) -> io::Result<()> {
        set_element(&self.0, queue, socket.as_raw_fd() as u32)
    }

    pub(crate) fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// A map with one interface, for redirecting to it from any namespace.
pub(crate) struct DeviceMap(OwnedFd);

impl DeviceMap {
    /// Holds the interface with this index in the calling thread's namespace.
    pub(crate) fn new(interface: u32) -> io::Result<Self> {
        let map = create_map(MAP_TYPE_DEVMAP, 4, 1, 0)?;
        set_element(&map, 0, interface)?;
        Ok(Self(map))
    }

    pub(crate) fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// 64-bit words that programs and this process share.
pub(crate) struct SharedArray {
    fd: OwnedFd,
    words: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the mapping belongs to the value and its words are atomic.
unsafe impl Send for SharedArray {}
// SAFETY: as above.
unsafe impl Sync for SharedArray {}

impl SharedArray {
    /// `count` words, all zero; at least one.
    pub(crate) fn new(count: usize) -> io::Result<Self> {
        let bytes = count.max(1) * mem::size_of::<u64>();
        let fd = create_map(MAP_TYPE_ARRAY, bytes as u32, 1, MAP_MMAPABLE)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        let words = NonNull::new(address.cast()).filter(|_| address != libc::MAP_FAILED);
        let words = words.ok_or_else(io::Error::last_os_error)?;
        Ok(Self { fd, words, count })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `count` words, page aligned, and lives as
        // long as `self`; programs change them behind our back, which atomics
        // allow.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }

    /// The word `index`.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> u64 {
        self.words()[index].load(Ordering::Relaxed)
    }

    /// Sets the word `index`.
    #[inline]
    pub(crate) fn set(&self, index: usize, value: u64) {
        self.words()[index].store(value, Ordering::Relaxed);
    }

    pub(crate) fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

impl Drop for SharedArray {
    fn drop(&mut self) {
        // SAFETY: unmaps what `new` mapped; nothing refers to it any more.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.count * 8) };
    }
}

/// Where a program can run; the numbers are those of `enum bpf_prog_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ProgramKind {
    Xdp = 6,
    RawTracepoint = 17,
}

#[repr(C)]
struct ProgLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_LEN],
    interface: u32,
    expected_attach_type: u32,
}

/// A program that the kernel has verified.
pub(crate) struct Program(OwnedFd);

/// How an XDP program is attached (linux/if_link.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttachMode {
    /// In the driver.
    Native,
    /// In the stack, behind the driver.
    Generic,
}

/// What holds a program to its hook; it is detached when this is dropped.
pub(crate) struct Link(#[allow(dead_code)] OwnedFd);

/// What to run a program on.
pub(crate) struct TestRun<'a> {
    /// The frame each run begins with.
    pub(crate) frame: &'a [u8],
    /// How many times, at least once.
    pub(crate) repeat: u32,
    /// Frames handled at once; live frames only.
    pub(crate) batch: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgTestRun {
    program: u32,
    result: u32,
    frame_len: u32,
    output_len: u32,
    frame: u64,
    output: u64,
    repeat: u32,
    duration: u32,
    context_len: u32,
    context_output_len: u32,
    context: u64,
    context_output: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    _pad: u32,
}

impl Program {
    /// Loads a program named `name`.
    ///
    /// # Errors
    /// The system's; what the verifier refuses comes with its reason.
    pub(crate) fn load(kind: ProgramKind, name: &str, code: &[Instruction]) -> io::Result<Self> {
        let mut attr = ProgLoad {
            kind: kind as u32,
            instruction_count: code.len() as u32,
            instructions: code.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel_version: 0,
            flags: 0,
            name: name_bytes(name),
            interface: 0,
            expected_attach_type: match kind {
                ProgramKind::Xdp => ATTACH_TYPE_XDP,
                ProgramKind::RawTracepoint => 0,
            },
        };
        let error = match bpf_fd(PROG_LOAD, &mut attr) {
            Ok(fd) => return Ok(Self(fd)),
            Err(error) => error,
        };
        if !matches!(error.raw_os_error(), Some(libc::EACCES | libc::EINVAL)) {
            return Err(error);
        }
        let mut log = vec![0u8; LOG_LEN];
        (attr.log_level, attr.log_size) = (1, LOG_LEN as u32);
        attr.log = log.as_mut_ptr() as u64;
        if let Ok(fd) = bpf_fd(PROG_LOAD, &mut attr) {
            return Ok(Self(fd));
        }
        let text = String::from_utf8_lossy(&log);
        let text = text.trim_end_matches('\0').trim_end();
        // The last line sums up; the one before says what was wrong.
        let mut lines = text.lines().rev();
        let reason = lines.nth(1).unwrap_or("no reason given");
        Err(io::Error::new(error.kind(), format!("{error}: {reason}")))
    }

    /// Attaches an XDP program to an interface of the calling thread's
    /// network namespace.
    ///
    /// # Errors
    /// `EBUSY` or `EEXIST` if another program is attached.
    pub(crate) fn attach_xdp(&self, interface: u32, mode: AttachMode) -> io::Result<Link> {
        #[repr(C)]
        struct LinkCreate {
            program: u32,
            interface: u32,
            attach_type: u32,
            flags: u32,
        }
        let mut attr = LinkCreate {
            program: self.0.as_raw_fd() as u32,
            interface,
            attach_type: ATTACH_TYPE_XDP,
            // XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE
            flags: match mode {
                AttachMode::Native => 1 << 2,
                AttachMode::Generic => 1 << 1,
            },
        };
        bpf_fd(LINK_CREATE, &mut attr).map(Link)
    }

    /// Attaches a program to a tracepoint of the kernel.
    pub(crate) fn attach_tracepoint(&self, name: &CStr) -> io::Result<Link> {
        #[repr(C)]
        struct RawTracepointOpen {
            name: u64,
            program: u32,
            _pad: u32,
        }
        let mut attr = RawTracepointOpen {
            name: name.as_ptr() as u64,
            program: self.0.as_raw_fd() as u32,
            _pad: 0,
        };
        bpf_fd(RAW_TRACEPOINT_OPEN, &mut attr).map(Link)
    }

    /// Runs the program on live frames, which go where it sends them.
    ///
    /// # Errors
    /// The system's; some of the runs may have been made.
    pub(crate) fn run_live(&self, run: &TestRun<'_>) -> io::Result<()> {
        let mut attr = ProgTestRun {
            program: self.0.as_raw_fd() as u32,
            frame_len: run.frame.len() as u32,
            frame: run.frame.as_ptr() as u64,
            repeat: run.repeat,
            flags: TEST_XDP_LIVE_FRAMES,
            batch: run.batch,
            ..ProgTestRun::default()
        };
        bpf(PROG_TEST_RUN, &mut attr).map(drop)
    }

    /// Runs the program once on a copy of `frame`; returns its result and the
    /// frame it left.
    #[cfg(test)]
    pub(crate) fn run_once(&self, frame: &[u8]) -> io::Result<(u32, Vec<u8>)> {
        let mut output = vec![0; frame.len() + 256];
        let mut attr = ProgTestRun {
            program: self.0.as_raw_fd() as u32,
            frame_len: frame.len() as u32,
            frame: frame.as_ptr() as u64,
            output: output.as_mut_ptr() as u64,
            output_len: output.len() as u32,
            repeat: 1,
            ..ProgTestRun::default()
        };
        bpf(PROG_TEST_RUN, &mut attr)?;
        output.truncate(attr.output_len as usize);
        Ok((attr.result, output))
    }
}

/// The name of the loaded program with this id.
pub(crate) fn program_name(id: u32) -> io::Result<String> {
    #[repr(C)]
    struct GetFdById {
        id: u32,
        next: u32,
        flags: u32,
    }
    #[repr(C)]
    struct GetInfo {
        fd: u32,
        info_len: u32,
        info: u64,
    }
    /// Up to the name of `struct bpf_prog_info`, which stands at byte 64.
    #[repr(C)]
    struct ProgramInfo {
        before: [u64; 8],
        name: [u8; NAME_LEN],
    }
    let mut attr = GetFdById {
        id,
        next: 0,
        flags: 0,
    };
    let program = bpf_fd(PROG_GET_FD_BY_ID, &mut attr)?;
    let mut info = ProgramInfo {
        before: [0; 8],
        name: [0; NAME_LEN],
    };
    let mut attr = GetInfo {
        fd: program.as_raw_fd() as u32,
        info_len: mem::size_of::<ProgramInfo>() as u32,
        info: (&raw mut info) as u64,
    };
    bpf(OBJ_GET_INFO_BY_FD, &mut attr)?;
    let name = info.name.split(|byte| *byte == 0).next();
    Ok(String::from_utf8_lossy(name.unwrap_or_default()).into_owned())
}
