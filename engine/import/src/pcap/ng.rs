//! The pcapng format (draft-ietf-opsawg-pcapng): blocks in sections.

use super::{CapturedFrame, LINK_TYPE_ETHERNET, PcapError, Reader};
use pcap_parser::PcapError as ParseError;
use pcap_parser::nom::IResult;
use pcap_parser::pcapng::{
    BOM_MAGIC, EPB_MAGIC, EnhancedPacketBlock, IDB_MAGIC, InterfaceDescriptionBlock, OptionCode,
    SHB_MAGIC, SPB_MAGIC, parse_enhancedpacketblock_be, parse_enhancedpacketblock_le,
    parse_interfacedescriptionblock_be, parse_interfacedescriptionblock_le,
    parse_sectionheaderblock,
};
use pcap_parser::traits::PcapNGPacketBlock;

/// Bytes of a block without content: type, length, length again (section 3.1).
const MIN_BLOCK: usize = 12;
/// Bytes of the first three fields of a section header: with them its byte
/// order is known (section 4.1).
const UP_TO_BYTE_ORDER: usize = 12;
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
        let (kind, block) =
            cut(&bytes[at..], &mut big_endian).map_err(|why| reader.error(at, why))?;
        match kind {
            SHB_MAGIC => {
                parsed(parse_sectionheaderblock, block).map_err(|why| reader.error(at, why))?;
                interfaces.clear();
            }
            IDB_MAGIC => {
                let read = if big_endian {
                    parse_interfacedescriptionblock_be
                } else {
                    parse_interfacedescriptionblock_le
                };
                let found = parsed(read, block).map_err(|why| reader.error(at, why))?;
                interfaces.push(Interface::new(&found, big_endian));
            }
            EPB_MAGIC => {
                let read = if big_endian {
                    parse_enhancedpacketblock_be
                } else {
                    parse_enhancedpacketblock_le
                };
                let found = parsed(read, block).map_err(|why| reader.error(at, why))?;
                take(&mut reader, at, &interfaces, &found)?;
            }
            SPB_MAGIC => return Err(no_time(&reader, at, "simple")),
            PACKET_BLOCK => return Err(no_time(&reader, at, "obsolete")),
            // Names, statistics, secrets, comments: nothing of a frame.
            _ => {}
        }
        at += block.len();
    }
    Ok(reader.frames)
}
/// Type and bytes of the block that `rest` begins with; a section header
/// decides the byte order. Blocks are cut here and not by the parser, which
/// subtracts from lengths before it has checked them.
fn cut<'a>(rest: &'a [u8], big_endian: &mut bool) -> Result<(u32, &'a [u8]), String> {
    let Some((start, _)) = rest.split_first_chunk::<UP_TO_BYTE_ORDER>() else {
        return Err(format!("found {} bytes, expected a block", rest.len()));
    };
    let [t0, t1, t2, t3, l0, l1, l2, l3, order @ ..] = *start;
    // The type of a section header is the same in both byte orders.
    if u32::from_le_bytes([t0, t1, t2, t3]) == SHB_MAGIC {
        *big_endian = match u32::from_be_bytes(order) {
            BOM_MAGIC => true,
            swapped if swapped.swap_bytes() == BOM_MAGIC => false,
            other => {
                return Err(format!(
                    "byte order {other:08x}, expected {BOM_MAGIC:08x} or its reverse"
                ));
            }
        };
    }
    let read = if *big_endian {
        u32::from_be_bytes
    } else {
        u32::from_le_bytes
    };
    let (kind, len) = (read([t0, t1, t2, t3]), read([l0, l1, l2, l3]) as usize);
    if len < MIN_BLOCK || len % 4 != 0 {
        let message = format!("block of {len} bytes, expected a multiple of 4 from {MIN_BLOCK} on");
        return Err(message);
    }
    match rest.get(..len) {
        Some(block) => Ok((kind, block)),
        None => Err(format!(
            "the file ends inside the block, after {} of its {len} bytes",
            rest.len()
        )),
    }
}

type Parsed<'a, T> = IResult<&'a [u8], T, ParseError<&'a [u8]>>;

/// What `read` makes of a whole block.
fn parsed<'a, T>(read: fn(&'a [u8]) -> Parsed<'a, T>, block: &'a [u8]) -> Result<T, String> {
    let failed = |_| {
        let len = block.len();
        format!("malformed block of {len} bytes: its content does not fit its type")
    };
    read(block).map(|(_, value)| value).map_err(failed)
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
            "captured on interface {}, but only {} are described before it",
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
    let origin = (block.origlen, block.if_id);
    reader.push(at, time_ns, block.packet_data(), origin)
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
