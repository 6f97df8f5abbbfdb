use super::*;
use crate::capture::{Direction, Frame, write_pcapng};
use proptest::prelude::*;

/// Puts numbers in one of the two byte orders.
#[derive(Clone, Copy)]
struct Order {
    big: bool,
}

impl Order {
    fn u16(self, value: u16) -> [u8; 2] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn u32(self, value: u32) -> [u8; 4] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }
}

const LITTLE: Order = Order { big: false };
const BIG: Order = Order { big: true };
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

fn classic_header(order: Order, magic: u32, link_type: u32) -> Vec<u8> {
    let mut bytes = order.u32(magic).to_vec();
    bytes.extend(order.u16(2));
    bytes.extend(order.u16(4));
    for word in [0, 0, 65_535, link_type] {
        bytes.extend(order.u32(word));
    }
    bytes
}

fn record(order: Order, s: u32, fraction: u32, data: &[u8], original_len: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [s, fraction, data.len() as u32, original_len] {
        bytes.extend(order.u32(word));
    }
    bytes.extend_from_slice(data);
    bytes
}

fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let len = order.u32(body.len() as u32 + 12);
    [&order.u32(kind)[..], &len, body, &len].concat()
}

fn ng_start(order: Order) -> Vec<u8> {
    let mut body = order.u32(0x1a2b_3c4d).to_vec();
    body.extend(order.u16(1));
    body.extend(order.u16(0));
    body.extend([0xff; 8]);
    block(order, 0x0a0d_0d0a, &body)
}

fn interface(order: Order, link_type: u16, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = order.u16(link_type).to_vec();
    body.extend(order.u16(0));
    body.extend(order.u32(0));
    for (code, value) in options {
        body.extend(order.u16(*code));
        body.extend(order.u16(value.len() as u16));
        body.extend_from_slice(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    block(order, 1, &body)
}

fn packet(order: Order, interface: u32, units: u64, data: &[u8], original_len: u32) -> Vec<u8> {
    let mut body = Vec::new();
    for word in [
        interface,
        (units >> 32) as u32,
        units as u32,
        data.len() as u32,
        original_len,
    ] {
        body.extend(order.u32(word));
    }
    body.extend_from_slice(data);
    body.resize(body.len().next_multiple_of(4), 0);
    block(order, 6, &body)
}

fn read_all(bytes: &[u8]) -> Result<Vec<CapturedFrame>, PcapError> {
    parse("f.pcap", bytes, &Options::default())
}

fn message(bytes: &[u8]) -> String {
    read_all(bytes).unwrap_err().to_string()
}

#[test]
fn classic_captures_are_read_in_both_byte_orders_and_resolutions() {
    for order in [LITTLE, BIG] {
        for (magic, fraction_ns) in [(MICROSECONDS, 7_000), (NANOSECONDS, 7)] {
            let mut bytes = classic_header(order, magic, 1);
            bytes.extend(record(order, 2, 7, &[1, 2, 3], 3));
            bytes.extend(record(order, 3, 0, &[4], 1));
            let frames = read_all(&bytes).unwrap();
            let times: Vec<_> = frames.iter().map(|frame| frame.time_ns).collect();
            assert_eq!(times, [2_000_000_000 + fraction_ns, 3_000_000_000]);
            assert_eq!(frames[0].bytes, [1, 2, 3]);
            assert_eq!(frames[1].bytes, [4]);
        }
    }
}

#[test]
fn pcapng_is_read_in_both_byte_orders_with_each_interface_s_own_clock() {
    for order in [LITTLE, BIG] {
        let offset = if order.big {
            10i64.to_be_bytes()
        } else {
            10i64.to_le_bytes()
        };
        let mut bytes = ng_start(order);
        bytes.extend(interface(order, 1, &[]));
        bytes.extend(interface(order, 1, &[(9, &[9])]));
        bytes.extend(interface(order, 1, &[(9, &[0x81]), (14, &offset)]));
        bytes.extend(packet(order, 0, 5, b"micro", 5));
        bytes.extend(packet(order, 1, 1 << 33, b"nano", 4));
        bytes.extend(packet(order, 2, 3, b"half seconds", 12));
        let frames = read_all(&bytes).unwrap();
        let times: Vec<_> = frames.iter().map(|frame| frame.time_ns).collect();
        assert_eq!(times, [5_000, 1 << 33, 11_500_000_000]);
        assert_eq!(frames[1].bytes, b"nano");
        let interfaces: Vec<_> = frames.iter().map(|frame| frame.interface).collect();
        assert_eq!(interfaces, [0, 1, 2]);
    }
}

#[test]
fn a_new_section_may_change_the_byte_order_and_forgets_interfaces() {
    let mut bytes = ng_start(LITTLE);
    bytes.extend(interface(LITTLE, 1, &[]));
    bytes.extend(packet(LITTLE, 0, 1, b"a", 1));
    bytes.extend(ng_start(BIG));
    let without = [&bytes[..], &packet(BIG, 0, 2, b"b", 1)].concat();
    assert!(
        message(&without).ends_with("captured on interface 0, but only 0 are described before it")
    );
    bytes.extend(interface(BIG, 1, &[]));
    bytes.extend(packet(BIG, 0, 2, b"b", 1));
    assert_eq!(read_all(&bytes).unwrap()[1].bytes, b"b");
}

#[test]
fn frames_cut_short_are_refused_unless_padding_is_asked_for() {
    let mut bytes = classic_header(LITTLE, NANOSECONDS, 1);
    bytes.extend(record(LITTLE, 0, 0, &[1, 2], 2));
    bytes.extend(record(LITTLE, 0, 0, &[1, 2], 5));
    assert_eq!(
        message(&bytes),
        "f.pcap: frame 2 at byte 42: the record holds only 2 of the frame's 5 bytes: capture \
         whole frames (tcpdump -s 0), or ask for padding"
    );
    let padding = Options {
        pad_truncated: true,
        ..Options::default()
    };
    let frames = parse("f.pcap", &bytes, &padding).unwrap();
    assert_eq!(frames[1].bytes, [1, 2, 0, 0, 0]);
    assert_eq!(frames[1].original_len, 5);
}

#[test]
fn limits_hold_and_padding_counts_before_it_is_made() {
    let mut bytes = classic_header(LITTLE, NANOSECONDS, 1);
    bytes.extend(record(LITTLE, 0, 0, &[1, 2], 2));
    bytes.extend(record(LITTLE, 0, 0, &[1], u32::MAX));
    let mut options = Options {
        frames: 2,
        bytes: 1_000,
        pad_truncated: true,
        ..Options::default()
    };
    let error = parse("f.pcap", &bytes, &options).unwrap_err().to_string();
    assert_eq!(
        error,
        "f.pcap: frame 2 at byte 42: with this frame of 4294967295 bytes the frames exceed \
         1000 bytes in all; cut the capture (editcap)"
    );
    options.frames = 1;
    let error = parse("f.pcap", &bytes, &options).unwrap_err().to_string();
    assert_eq!(
        error,
        "f.pcap: frame 2 at byte 42: more than 1 frames; cut the capture (editcap)"
    );
}

#[test]
fn what_is_not_whole_ethernet_frames_with_a_time_is_refused_with_its_place() {
    let with_ng = |block: Vec<u8>| {
        let interfaces = [
            interface(LITTLE, 113, &[]),
            interface(LITTLE, 1, &[(13, &[4])]),
            interface(LITTLE, 1, &[(9, &[60])]),
        ];
        [ng_start(LITTLE), interfaces.concat(), block].concat()
    };
    let cooked = classic_header(LITTLE, NANOSECONDS, 113);
    let with_fcs = classic_header(LITTLE, NANOSECONDS, 0x2400_0001);
    let cut = classic_header(LITTLE, NANOSECONDS, 1);
    let cut = [cut, record(LITTLE, 0, 0, &[1; 9], 9)[..20].to_vec()].concat();
    let longer = classic_header(LITTLE, NANOSECONDS, 1);
    let longer = [longer, record(LITTLE, 0, 0, &[1; 9], 8)].concat();
    let cases = [
        (vec![], "byte 0: the file is empty"),
        (
            b"\x1f\x8b\x08".to_vec(),
            "byte 0: compressed with gzip; decompress",
        ),
        (
            b"hello, world".to_vec(),
            "byte 0: found 68 65 6c 6c (12 bytes in all), expected a pcap",
        ),
        (
            classic_header(LITTLE, 0xa1b2_cd34, 1),
            "byte 0: pcap version 2.4, magic a1b2cd34; expected",
        ),
        (cooked, "byte 20: link type 113, expected 1 (Ethernet)"),
        (
            with_fcs,
            "byte 20: every frame ends with a check sequence of 4 bytes",
        ),
        (
            cut,
            "frame 1 at byte 24: the file ends inside the record, 20",
        ),
        (
            longer,
            "frame 1 at byte 24: the record holds 9 bytes, more than its frame of 8",
        ),
        (
            with_ng(packet(LITTLE, 0, 0, &[1], 1)),
            "frame 1 at byte 104: link type 113",
        ),
        (
            with_ng(packet(LITTLE, 1, 0, &[1], 1)),
            "frame 1 at byte 104: ends with a check sequence of 4 bytes",
        ),
        (
            with_ng(packet(LITTLE, 2, 1, &[1], 1)),
            "frame 1 at byte 104: time 1 with if_tsresol 60",
        ),
        (
            with_ng(packet(LITTLE, 9, 1, &[1], 1)),
            "frame 1 at byte 104: captured on interface 9, but only 3",
        ),
        (
            with_ng(block(LITTLE, 3, &[1, 0, 0, 0, 7, 0, 0, 0])),
            "frame 1 at byte 104: simple packet block",
        ),
        (
            with_ng(block(LITTLE, 2, &[0; 24])),
            "frame 1 at byte 104: obsolete packet block",
        ),
        (
            with_ng(packet(LITTLE, 0, 0, &[1; 9], 9)[..20].to_vec()),
            "byte 104: the file ends inside the block, after 20 of its 44 bytes",
        ),
        (
            with_ng(vec![6, 0, 0]),
            "byte 104: found 3 bytes, expected a block",
        ),
        (
            with_ng(block(LITTLE, 0x8000_0001, &[0; 3])),
            "byte 104: block of 15 bytes, expected a multiple of 4 from 12 on",
        ),
        (
            with_ng([1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0].to_vec()),
            "byte 104: block of 8 bytes, expected a multiple of 4 from 12 on",
        ),
        (
            [&ng_start(LITTLE)[..8], &[9; 20]].concat(),
            "byte 0: byte order 09090909, expected 1a2b3c4d or its reverse",
        ),
        (
            with_ng([&packet(LITTLE, 0, 0, &[1], 1)[..32], &[40, 0, 0, 0]].concat()),
            "byte 104: malformed block of 36 bytes: its content does not fit its type",
        ),
        (
            with_ng(block(LITTLE, 6, &[[0; 12], [0xee; 12]].concat())),
            "byte 104: malformed block of 36 bytes: its content does not fit its type",
        ),
    ];
    for (bytes, expected) in cases {
        let found = message(&bytes);
        assert!(found.starts_with(&format!("f.pcap: {expected}")), "{found}");
    }
}

#[test]
fn a_path_that_is_no_regular_file_is_refused_without_waiting() {
    let error = read(Path::new("/dev"), &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "/dev: byte 0: not a regular file");
}

#[test]
fn a_file_of_4_gb_is_refused_before_it_is_read() {
    let path = std::env::temp_dir().join(format!("pp-import-large-{}", std::process::id()));
    File::create(&path).unwrap().set_len(4 << 30).unwrap();
    let error = read(&path, &Options::default()).unwrap_err();
    fs::remove_file(&path).unwrap();
    assert!(
        error.message.starts_with("the file is larger than"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        magic in prop::sample::select(vec![
            vec![], vec![0xd4, 0xc3, 0xb2, 0xa1], vec![0xa1, 0xb2, 0x3c, 0x4d],
            classic_header(LITTLE, NANOSECONDS, 1), ng_start(LITTLE), ng_start(BIG),
        ]),
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = read_all(&[magic, rest].concat());
    }

    #[test]
    fn what_was_captured_reads_back(
        frames in prop::collection::vec(
            (any::<bool>(), 0u16..3, any::<u64>(), prop::collection::vec(any::<u8>(), 0..80)),
            1..20,
        ),
    ) {
        let kept = frames.iter().map(|(sent, port, time_ns, bytes)| Frame {
            direction: if *sent { Direction::Sent } else { Direction::Received },
            port: *port,
            time_ns: *time_ns,
            bytes,
        });
        let mut file = Vec::new();
        write_pcapng(&mut file, &["left", "right", "far right"], kept).unwrap();
        let found = read_all(&file).unwrap();
        prop_assert_eq!(found.len(), frames.len());
        for (found, (_, _, time_ns, bytes)) in found.iter().zip(&frames) {
            prop_assert_eq!(found.time_ns, *time_ns);
            prop_assert_eq!(&found.bytes, bytes);
        }
    }
}
