//! A capture of what ports sent and received, for a person with Wireshark.
//!
//! The file is pcapng (draft-ietf-opsawg-pcapng) in little endian: one section,
//! one interface for each port, one enhanced packet block for each frame with
//! its direction.

use std::io::{self, Write};

/// Which way a frame went, seen from the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The port delivered it.
    Received,
    /// The port took it.
    Sent,
}

/// One frame, whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which way it went.
    pub direction: Direction,
    /// The port, as an index into the names.
    pub port: u16,
    /// When, in nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// Its bytes, without check sequence.
    pub bytes: &'a [u8],
}

/// Writes `frames` in their order to `out`; `ports` are the names of the ports.
///
/// # Errors
/// `InvalidInput` if a frame's port has no name or a name is longer than 255
/// bytes; otherwise those of `out`.
pub fn write_pcapng<'a, W: Write>(
    out: &mut W,
    ports: &[&str],
    frames: impl IntoIterator<Item = Frame<'a>>,
) -> io::Result<()> {
    let refuse = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    if let Some(long) = ports.iter().find(|name| name.len() > 255) {
        let bytes = long.len();
        return refuse(format!("port name of {bytes} bytes, expected at most 255"));
    }
    out.write_all(&section_header())?;
    for name in ports {
        out.write_all(&interface(name))?;
    }
    for frame in frames {
        if usize::from(frame.port) >= ports.len() {
            let (port, count) = (frame.port, ports.len());
            return refuse(format!(
                "a frame of port {port}, but only {count} ports are named"
            ));
        }
        out.write_all(&packet(&frame))?;
    }
    Ok(())
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
fn interface(name: &str) -> Vec<u8> {
    const NO_LIMIT: u32 = 0;
    let mut body = LINK_TYPE_ETHERNET.to_le_bytes().to_vec();
    body.extend(NO_LIMIT.to_le_bytes());
    option(&mut body, IF_NAME, name.as_bytes());
    option(&mut body, IF_TSRESOL, &[NANOSECONDS]);
    end_of_options(&mut body);
    block(INTERFACE_DESCRIPTION_BLOCK, &body)
}

/// Section 4.3.
fn packet(frame: &Frame<'_>) -> Vec<u8> {
    let flags = match frame.direction {
        Direction::Received => INBOUND,
        Direction::Sent => OUTBOUND,
    };
    let len = frame.bytes.len();
    let mut body = Vec::with_capacity(len + 48);
    for word in [
        u32::from(frame.port),
        (frame.time_ns >> 32) as u32,
        frame.time_ns as u32,
        len as u32,
        len as u32,
    ] {
        body.extend(word.to_le_bytes());
    }
    body.extend_from_slice(frame.bytes);
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
