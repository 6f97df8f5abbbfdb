//! Frames of a packet capture: pcap (libpcap's pcap-savefile(5)) and pcapng
//! (draft-ietf-opsawg-pcapng).
//!
//! Both byte orders and every time resolution are read, Ethernet without frame
//! check sequence is the one link type. What a template cannot be made of is
//! an error, never skipped: a frame that was cut short, a block that holds
//! frames without time stamps.

mod classic;
mod ng;

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// One frame of a capture, without frame check sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedFrame {
    /// When it was captured: nanoseconds since the Unix epoch, cut to the
    /// capture's own resolution.
    pub time_ns: u64,
    /// The frame; filled with zeros up to `original_len` if it was cut short
    /// and [`Options::pad_truncated`] is set.
    pub bytes: Vec<u8>,
    /// Bytes the frame had on the wire.
    pub original_len: u32,
    /// The interface that captured it: in a pcapng file its number in the
    /// section, else 0.
    pub interface: u32,
}

/// How a capture is read and how much of it at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Frames at most.
    pub frames: usize,
    /// Bytes of all frames together at most, filling included.
    pub bytes: usize,
    /// Bytes of the file at most.
    pub file_bytes: u64,
    /// Fill frames that were cut short with zeros instead of refusing them.
    pub pad_truncated: bool,
}

impl Default for Options {
    /// 100,000 frames and 64 MiB of them, a file of 256 MiB; frames that were
    /// cut short are refused.
    fn default() -> Self {
        Self {
            frames: 100_000,
            bytes: 64 << 20,
            file_bytes: 256 << 20,
            pad_truncated: false,
        }
    }
}

/// A capture that cannot be read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PcapError {
    /// The file.
    pub file: String,
    /// The frame, counted from 1 as Wireshark does; none if the place is not
    /// inside a frame.
    pub frame: Option<usize>,
    /// Byte of the file at which the record, block or header begins.
    pub offset: usize,
    /// What was found and what was expected.
    pub message: String,
}

impl fmt::Display for PcapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frame {
            Some(frame) => write!(
                f,
                "{}: frame {frame} at byte {}: {}",
                self.file, self.offset, self.message
            ),
            None => write!(f, "{}: byte {}: {}", self.file, self.offset, self.message),
        }
    }
}

impl std::error::Error for PcapError {}

/// Reads the capture in the file at `path`.
///
/// # Errors
/// As [`parse`], and if `path` is not a regular file or cannot be read.
pub fn read(path: &Path, options: &Options) -> Result<Vec<CapturedFrame>, PcapError> {
    let file = path.display().to_string();
    let bytes = read_file(path, options.file_bytes).map_err(|message| PcapError {
        file: file.clone(),
        frame: None,
        offset: 0,
        message,
    })?;
    parse(&file, &bytes, options)
}

/// Bytes of the regular file at `path`, at most `limit` of them.
pub(crate) fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let text = |error: std::io::Error| error.to_string();
    let metadata = fs::metadata(path).map_err(text)?;
    // Opening a FIFO would wait for its writer.
    if !metadata.is_file() {
        return Err("not a regular file".to_owned());
    }
    let too_large = || format!("the file is larger than {limit} bytes");
    if metadata.len() > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(text)?;
    let mut bounded = file.take(limit.saturating_add(1));
    bounded.read_to_end(&mut bytes).map_err(text)?;
    if bytes.len() as u64 > limit {
        return Err(too_large());
    }
    Ok(bytes)
}

/// Reads the capture `bytes`; `file` is its name in errors.
///
/// # Errors
/// [`PcapError`] if the bytes are not a capture, if it holds more than
/// `options` allow or anything but whole Ethernet frames with a time.
pub fn parse(file: &str, bytes: &[u8], options: &Options) -> Result<Vec<CapturedFrame>, PcapError> {
    let reader = Reader {
        file,
        options,
        frames: Vec::new(),
        bytes: 0,
    };
    match bytes {
        [] => Err(reader.error(0, "the file is empty, expected pcap or pcapng")),
        [0x1f, 0x8b, ..] => Err(reader.error(0, "compressed with gzip; decompress it first")),
        [0x0a, 0x0d, 0x0d, 0x0a, ..] => ng::parse(reader, bytes),
        _ => classic::parse(reader, bytes),
    }
}

/// DLT_EN10MB, the same number in both formats.
const LINK_TYPE_ETHERNET: i32 = 1;

/// What has been read so far.
struct Reader<'a> {
    file: &'a str,
    options: &'a Options,
    frames: Vec<CapturedFrame>,
    bytes: usize,
}

impl Reader<'_> {
    fn error(&self, offset: usize, message: impl Into<String>) -> PcapError {
        PcapError {
            file: self.file.to_owned(),
            frame: None,
            offset,
            message: message.into(),
        }
    }

    /// An error in the frame that would have come next.
    fn frame_error(&self, offset: usize, message: impl Into<String>) -> PcapError {
        PcapError {
            frame: Some(self.frames.len() + 1),
            ..self.error(offset, message)
        }
    }

    /// Takes the frame of the record at `offset`.
    fn push(
        &mut self,
        offset: usize,
        time_ns: u64,
        data: &[u8],
        (original_len, interface): (u32, u32),
    ) -> Result<(), PcapError> {
        let wanted = original_len as usize;
        if data.len() > wanted {
            let message = format!(
                "the record holds {} bytes, more than its frame of {wanted} bytes",
                data.len()
            );
            return Err(self.frame_error(offset, message));
        }
        if data.len() < wanted && !self.options.pad_truncated {
            let message = format!(
                "the record holds only {} of the frame's {wanted} bytes: capture whole frames \
                 (tcpdump -s 0), or ask for padding",
                data.len()
            );
            return Err(self.frame_error(offset, message));
        }
        if self.frames.len() == self.options.frames {
            let message = format!(
                "more than {} frames; cut the capture (editcap)",
                self.options.frames
            );
            return Err(self.frame_error(offset, message));
        }
        if wanted > self.options.bytes - self.bytes {
            let message = format!(
                "with this frame of {wanted} bytes the frames exceed {} bytes in all; cut the capture (editcap)",
                self.options.bytes
            );
            return Err(self.frame_error(offset, message));
        }
        self.bytes += wanted;
        let mut bytes = Vec::with_capacity(wanted);
        bytes.extend_from_slice(data);
        bytes.resize(wanted, 0);
        self.frames.push(CapturedFrame {
            time_ns,
            bytes,
            original_len,
            interface,
        });
        Ok(())
    }
}

#[cfg(test)]
#[path = "pcap_tests.rs"]
mod tests;
