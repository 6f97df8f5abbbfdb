//! The pcapng format (draft-ietf-opsawg-pcapng): blocks in sections.

use super::{CapturedFrame, LINK_TYPE_ETHERNET, PcapError, Reader};
use pcap_parser::pcapng::{Block, EnhancedPacketBlock, InterfaceDescriptionBlock};
use pcap_parser::pcapng::{OptionCode, parse_block_be, parse_block_le};
use pcap_parser::traits::PcapNGPacketBlock;

/// Obsolete Packet Block (appendix A of the draft).
const PACKET_BLOCK: u32 = 2;
/// Option if_fcslen (section 4.2).
const IF_FCSLEN: u16 = 13;
/// Resolution without option if_tsresol: microseconds.
const DEFAULT_RESOLUTION: u8 = 6;

/// What an interface says about its frames.
struct Interface {
    link_type: i32,
    resolution: u8,
    offset_s: i64,
    fcs_bytes: u8,
}

pub(super) fn parse(mut reader: Reader<'_>, bytes: &[u8]) -> Result<Vec<CapturedFrame>, PcapError> {
    let mut interfaces = Vec::new();
    let mut big_endian = false;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let block = if big_endian {
            parse_block_be(rest)
        } else {
            parse_block_le(rest)
        };
        let (after, block) = match block {
            Ok((after, block)) if after.len() < rest.len() => (after, block),
            _ => return Err(reader.error(at, broken_block(rest, big_endian))),
        };
        match block {
            Block::SectionHeader(header) => {
                big_endian = header.big_endian();
                interfaces.clear();
            }
            Block::InterfaceDescription(block) => {
                interfaces.push(Interface::new(&block, big_endian));
            }
            Block::EnhancedPacket(block) => take(&mut reader, at, &interfaces, &block)?,
            Block::SimplePacket(_) => return Err(no_time(&reader, at, "simple")),
            Block::Unknown(block) if block.block_type == PACKET_BLOCK => {
                return Err(no_time(&reader, at, "obsolete"));
            }
            _ => {}
        }
        at = bytes.len() - after.len();
    }
    Ok(reader.frames)
}

/// Why no block can be read at the start of `rest`.
fn broken_block(rest: &[u8], big_endian: bool) -> String {
    let read = if big_endian {
        u32::from_be_bytes
    } else {
        u32::from_le_bytes
    };
    let announced = rest.get(4..8).and_then(<[u8]>::first_chunk);
    match announced.map(|bytes| read(*bytes) as usize) {
        Some(len) if len <= rest.len() => {
            format!("malformed block: its content does not fit its type and its {len} bytes")
        }
        Some(len) => format!(
            "the file ends inside the block, after {} of its {len} bytes",
            rest.len()
        ),
        None => format!("found {} bytes, expected a block", rest.len()),
    }
}

fn no_time(reader: &Reader<'_>, at: usize, kind: &str) -> PcapError {
    let message = format!(
        "{kind} packet block, expected enhanced packet blocks; rewrite the file with \
         editcap -F pcapng"
    );
    reader.frame_error(at, message)
}

fn take(
    reader: &mut Reader<'_>,
    at: usize,
    interfaces: &[Interface],
    block: &EnhancedPacketBlock<'_>,
) -> Result<(), PcapError> {
    let Some(interface) = interfaces.get(block.if_id as usize) else {
        let message = format!(
            "captured on interface {}, but {} are described before it",
            block.if_id,
            interfaces.len()
        );
        return Err(reader.frame_error(at, message));
    };
    if interface.link_type != LINK_TYPE_ETHERNET {
        let message = format!(
            "link type {}, expected {LINK_TYPE_ETHERNET} (Ethernet)",
            interface.link_type
        );
        return Err(reader.frame_error(at, message));
    }
    if interface.fcs_bytes != 0 {
        let message = format!(
            "ends with a check sequence of {} bytes; cut it off (editcap -C)",
            interface.fcs_bytes
        );
        return Err(reader.frame_error(at, message));
    }
    let units = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
    let Some(time_ns) = interface.time_ns(units) else {
        let message = format!(
            "time {units} with if_tsresol {} and if_tsoffset {} s is not between 1970 and 2554",
            interface.resolution, interface.offset_s
        );
        return Err(reader.frame_error(at, message));
    };
    reader.push(at, time_ns, block.packet_data(), block.origlen)
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Self {
        let option = |code: OptionCode| {
            let found = block.options.iter().find(|option| option.code == code);
            found.map(|option| &*option.value)
        };
        let first_byte = |code| option(code).and_then(|value| value.first().copied());
        let offset = option(OptionCode::IfTsoffset).and_then(<[u8]>::first_chunk::<8>);
        let read = if big_endian {
            i64::from_be_bytes
        } else {
            i64::from_le_bytes
        };
        Self {
            link_type: block.linktype.0,
            resolution: first_byte(OptionCode::IfTsresol).unwrap_or(DEFAULT_RESOLUTION),
            offset_s: offset.map_or(0, |bytes| read(*bytes)),
            fcs_bytes: first_byte(OptionCode(IF_FCSLEN)).unwrap_or(0),
        }
    }

    /// Nanoseconds since the Unix epoch of a time stamp (if_tsresol and
    /// if_tsoffset, section 4.2); none if they do not fit.
    fn time_ns(&self, units: u64) -> Option<u64> {
        let exponent = u32::from(self.resolution & 0x7f);
        let base: u128 = if self.resolution & 0x80 == 0 { 10 } else { 2 };
        let units_per_s = base.checked_pow(exponent)?;
        let since_offset = u128::from(units) * 1_000_000_000 / units_per_s;
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from(i128::try_from(since_offset).ok()? + offset).ok()
    }
}
