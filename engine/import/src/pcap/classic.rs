//! The pcap format (pcap-savefile(5)): one header, then records.

use super::{CapturedFrame, LINK_TYPE_ETHERNET, PcapError, Reader};
use pcap_parser::pcap::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};

const HEADER_LEN: usize = 24;
/// Bit 26 of the link type field: bits 28 to 31 hold the length of the frame
/// check sequence in 16-bit words (pcap-savefile(5), "link-layer type").
const FCS_PRESENT: u32 = 1 << 26;

pub(super) fn parse(mut reader: Reader<'_>, bytes: &[u8]) -> Result<Vec<CapturedFrame>, PcapError> {
    let Ok((_, header)) = parse_pcap_header(bytes) else {
        let shown: Vec<_> = bytes.iter().take(4).map(|b| format!("{b:02x}")).collect();
        let message = format!(
            "found {} ({} bytes in all), expected a pcap or pcapng header",
            shown.join(" "),
            bytes.len()
        );
        return Err(reader.error(0, message));
    };
    let version = (header.version_major, header.version_minor);
    if version != (2, 4) || header.is_modified_format() {
        let message = format!(
            "pcap version {}.{}, magic {:08x}; expected version 2.4 in its standard form",
            version.0, version.1, header.magic_number
        );
        return Err(reader.error(0, message));
    }
    check_link_type(&reader, header.network.0)?;
    let record = if header.is_bigendian() {
        parse_pcap_frame_be
    } else {
        parse_pcap_frame
    };
    let fraction_ns = if header.is_nanosecond_precision() {
        1
    } else {
        1_000
    };
    let mut at = HEADER_LEN;
    while at < bytes.len() {
        let Ok((after, frame)) = record(&bytes[at..]) else {
            let left = bytes.len() - at;
            let message = format!("the file ends inside the record, {left} bytes after its start");
            return Err(reader.frame_error(at, message));
        };
        let time_ns =
            u64::from(frame.ts_sec) * 1_000_000_000 + u64::from(frame.ts_usec) * fraction_ns;
        reader.push(at, time_ns, frame.data, (frame.origlen, 0))?;
        at = bytes.len() - after.len();
    }
    Ok(reader.frames)
}

fn check_link_type(reader: &Reader<'_>, field: i32) -> Result<(), PcapError> {
    // The upper half of the field holds more than the link type.
    let link_type = field & 0xffff;
    if link_type != LINK_TYPE_ETHERNET {
        let message = format!("link type {link_type}, expected {LINK_TYPE_ETHERNET} (Ethernet)");
        return Err(reader.error(20, message));
    }
    let field = field as u32;
    if field & FCS_PRESENT != 0 && field >> 28 != 0 {
        let message = format!(
            "every frame ends with a check sequence of {} bytes; cut it off (editcap -C)",
            (field >> 28) * 2
        );
        return Err(reader.error(20, message));
    }
    Ok(())
}
