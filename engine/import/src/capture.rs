//! A capture of what ports sent and received, for a person with Wireshark.
//!
//! The buffer is as large from the beginning as it ever gets: recording copies
//! bytes into it and does nothing else, and what comes after it is full is
//! counted but not kept. The file is pcapng (draft-ietf-opsawg-pcapng) in
//! little endian: one section, one interface for each port, one enhanced
//! packet block for each frame with its direction.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Which way a frame went, seen from the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The port delivered it.
    Received,
    /// The port took it.
    Sent,
}

/// A capture that cannot be made or written, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureError(String);

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CaptureError {}

#[derive(Debug, Clone, Copy)]
struct Record {
    time_ns: u64,
    original_len: u32,
    port: u16,
    direction: Direction,
}

/// Room for a number of frames, of each the first bytes.
#[derive(Debug)]
pub struct CaptureBuffer {
    records: Vec<Record>,
    frames: usize,
    snap_len: usize,
    bytes: Vec<u8>,
    ignored: u64,
}

impl CaptureBuffer {
    /// Room for `frames` frames, of each at most `snap_len` bytes.
    ///
    /// # Errors
    /// [`CaptureError`] if either is zero, `snap_len` is more than 65,535 or
    /// the memory cannot be had.
    pub fn new(frames: usize, snap_len: usize) -> Result<Self, CaptureError> {
        let refuse = |why: &str| {
            CaptureError(format!(
                "a capture of {frames} frames of {snap_len} bytes: {why}"
            ))
        };
        if frames == 0 || snap_len == 0 || snap_len > usize::from(u16::MAX) {
            return Err(refuse(
                "expected at least one frame, of 1 to 65535 bytes each",
            ));
        }
        let room = frames.checked_mul(snap_len);
        let room = room.ok_or_else(|| refuse("more than memory can hold"))?;
        let (mut records, mut bytes) = (Vec::new(), Vec::new());
        bytes
            .try_reserve_exact(room)
            .and_then(|()| records.try_reserve_exact(frames))
            .map_err(|_| refuse("the memory cannot be had"))?;
        // Anything but zero is really written, so the pages are there before
        // the first frame and recording takes no page fault.
        bytes.resize(room, 0xff);
        records.resize(frames, Record::UNUSED);
        records.clear();
        Ok(Self {
            records,
            frames,
            snap_len,
            bytes,
            ignored: 0,
        })
    }

    /// Keeps a copy of the beginning of `frame`, which `port` (an index) sent
    /// or delivered at `time_ns`, nanoseconds since the Unix epoch. Counts it
    /// in [`ignored`](Self::ignored) instead once the buffer is full.
    #[inline]
    pub fn record(&mut self, direction: Direction, port: u16, time_ns: u64, frame: &[u8]) {
        let index = self.records.len();
        if index == self.frames {
            self.ignored += 1;
            return;
        }
        let kept = frame.len().min(self.snap_len);
        let at = index * self.snap_len;
        self.bytes[at..at + kept].copy_from_slice(&frame[..kept]);
        self.records.push(Record {
            time_ns,
            original_len: frame.len() as u32,
            port,
            direction,
        });
    }

    /// Frames kept.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether no frame has been kept.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether the next frame will be ignored.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.records.len() == self.frames
    }

    /// Frames that came when the buffer was full.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Forgets all frames; the room stays.
    pub fn clear(&mut self) {
        self.records.clear();
        self.ignored = 0;
    }

    /// Writes the frames in the order of their recording into a new pcapng
    /// file at `path`. `ports` are the names of the ports, by index.
    ///
    /// # Errors
    /// [`CaptureError`], naming `path`, if it exists already, cannot be
    /// written, or if a recorded port has no name. No half-written file stays.
    pub fn write_pcapng(&self, path: &Path, ports: &[&str]) -> Result<(), CaptureError> {
        let at = |why: &dyn fmt::Display| CaptureError(format!("{}: {why}", path.display()));
        self.check_names(ports).map_err(|error| at(&error))?;
        let file = File::create_new(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => at(&"exists already and is not overwritten"),
            _ => at(&error),
        })?;
        let mut out = BufWriter::new(file);
        let written = self.write_to(&mut out, ports).and_then(|()| out.flush());
        written.map_err(|error| {
            let _ = fs::remove_file(path);
            at(&error)
        })
    }

    /// Writes what [`write_pcapng`](Self::write_pcapng) writes to `out`.
    ///
    /// # Errors
    /// `InvalidInput` if a recorded port has no name or a name is longer than
    /// 255 bytes; otherwise those of `out`.
    pub fn write_to<W: Write>(&self, out: &mut W, ports: &[&str]) -> io::Result<()> {
        self.check_names(ports)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        out.write_all(&section_header())?;
        for name in ports {
            out.write_all(&interface(name, self.snap_len))?;
        }
        let frames = self.bytes.chunks_exact(self.snap_len);
        for (record, frame) in self.records.iter().zip(frames) {
            let kept = (record.original_len as usize).min(self.snap_len);
            out.write_all(&packet(record, &frame[..kept]))?;
        }
        Ok(())
    }

    fn check_names(&self, ports: &[&str]) -> Result<(), CaptureError> {
        if let Some(long) = ports.iter().find(|name| name.len() > 255) {
            let message = format!("port name of {} bytes, expected at most 255", long.len());
            return Err(CaptureError(message));
        }
        let nameless = |record: &&Record| usize::from(record.port) >= ports.len();
        match self.records.iter().find(nameless) {
            Some(record) => Err(CaptureError(format!(
                "frames of port {} were recorded, but only {} ports have names",
                record.port,
                ports.len()
            ))),
            None => Ok(()),
        }
    }
}

impl Record {
    /// Not zero, for the reason given where it is used.
    const UNUSED: Self = Self {
        time_ns: u64::MAX,
        original_len: u32::MAX,
        port: u16::MAX,
        direction: Direction::Sent,
    };
}

const SECTION_HEADER_BLOCK: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION_BLOCK: u32 = 1;
const ENHANCED_PACKET_BLOCK: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINK_TYPE_ETHERNET: u32 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const NANOSECONDS: u8 = 9;
const EPB_FLAGS: u16 = 2;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Section 4.1: version 1.0, a section of unspecified length.
fn section_header() -> Vec<u8> {
    let mut body = BYTE_ORDER_MAGIC.to_le_bytes().to_vec();
    body.extend(1u16.to_le_bytes());
    body.extend(0u16.to_le_bytes());
    body.extend((-1i64).to_le_bytes());
    option(&mut body, SHB_USERAPPL, b"pinchpoint-engine");
    end_of_options(&mut body);
    block(SECTION_HEADER_BLOCK, &body)
}

/// Section 4.2; the link type stands in 16 bits, followed by 16 reserved ones.
fn interface(name: &str, snap_len: usize) -> Vec<u8> {
    let mut body = LINK_TYPE_ETHERNET.to_le_bytes().to_vec();
    body.extend((snap_len as u32).to_le_bytes());
    option(&mut body, IF_NAME, name.as_bytes());
    option(&mut body, IF_TSRESOL, &[NANOSECONDS]);
    end_of_options(&mut body);
    block(INTERFACE_DESCRIPTION_BLOCK, &body)
}

/// Section 4.3.
fn packet(record: &Record, kept: &[u8]) -> Vec<u8> {
    let flags = match record.direction {
        Direction::Received => INBOUND,
        Direction::Sent => OUTBOUND,
    };
    let mut body = Vec::with_capacity(kept.len() + 48);
    for word in [
        u32::from(record.port),
        (record.time_ns >> 32) as u32,
        record.time_ns as u32,
        kept.len() as u32,
        record.original_len,
    ] {
        body.extend(word.to_le_bytes());
    }
    body.extend_from_slice(kept);
    pad(&mut body);
    option(&mut body, EPB_FLAGS, &flags.to_le_bytes());
    end_of_options(&mut body);
    block(ENHANCED_PACKET_BLOCK, &body)
}

/// Section 3.1: type, length, body, length again; `body` is a multiple of four.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes(), &len, body, &len].concat()
}

/// Section 3.5: code, length without padding, value.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    pad(body);
}

fn end_of_options(body: &mut Vec<u8>) {
    body.extend([0; 4]);
}

/// All fields before are multiples of four bytes.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
