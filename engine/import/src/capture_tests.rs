use super::*;
use pcap_parser::pcapng::{Block, OptionCode, parse_block_le};
use pcap_parser::traits::PcapNGPacketBlock;
use std::path::PathBuf;
use std::process::Command;

/// A path in a folder of its own that is removed with its content.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("pinchpoint-import-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("capture.pcapng")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A UDP frame from 16.0.0.1 to 48.0.0.1 with right checksums.
fn udp_frame() -> Vec<u8> {
    use pinchpoint_wire::{ethernet, ipv4, udp};
    let (src, dst) = ([16, 0, 0, 1].into(), [48, 0, 0, 1].into());
    let mut frame = vec![0; 60];
    let header = ethernet::Header {
        dst: ethernet::Mac([2, 0, 0, 0, 0, 2]),
        src: ethernet::Mac([2, 0, 0, 0, 0, 1]),
        ethertype: ethernet::ETHERTYPE_IPV4,
    };
    header.emit(frame.first_chunk_mut().unwrap());
    let header = ipv4::Header {
        src,
        dst,
        ttl: 64,
        dscp: 0,
        ecn: 0,
        identification: 0,
        dont_fragment: true,
        options: &[],
        protocol: ipv4::PROTOCOL_UDP,
        payload_len: 26,
    };
    header.emit(&mut frame[14..34]).unwrap();
    let ports = udp::Header {
        src: 1025,
        dst: 4000,
    };
    ports.emit(&mut frame[34..], src, dst).unwrap();
    frame
}

fn two_frames() -> CaptureBuffer {
    let mut capture = CaptureBuffer::new(2, 50).unwrap();
    capture.record(Direction::Sent, 0, 1_700_000_000_123_456_789, &udp_frame());
    capture.record(Direction::Received, 1, 1_700_000_000_123_457_789, &[7; 30]);
    capture
}

#[test]
fn once_full_a_frame_is_counted_and_nothing_kept_changes() {
    let mut capture = CaptureBuffer::new(1, 4).unwrap();
    assert!(capture.is_empty());
    let room = (capture.bytes.as_ptr(), capture.records.as_ptr());
    capture.record(Direction::Sent, 0, 1, b"first");
    assert!(capture.is_full());
    capture.record(Direction::Received, 1, 2, b"second");
    assert_eq!((capture.len(), capture.ignored()), (1, 1));
    assert_eq!(capture.bytes, b"firs");
    assert_eq!((capture.bytes.as_ptr(), capture.records.as_ptr()), room);
    capture.clear();
    capture.record(Direction::Sent, 0, 3, b"x");
    assert_eq!((capture.len(), capture.ignored()), (1, 0));
}

#[test]
fn sizes_that_cannot_be_met_are_refused() {
    for (frames, snap_len) in [
        (0, 60),
        (1, 0),
        (1, 65_536),
        (usize::MAX, 60),
        (1 << 50, 60_000),
    ] {
        assert!(
            CaptureBuffer::new(frames, snap_len).is_err(),
            "{frames} {snap_len}"
        );
    }
}

#[test]
fn the_file_names_ports_and_directions_and_tells_cut_frames() {
    let mut file = Vec::new();
    two_frames()
        .write_to(&mut file, &["left", "right"])
        .unwrap();
    let mut rest = &file[..];
    let mut seen = Vec::new();
    while !rest.is_empty() {
        let (after, block) = parse_block_le(rest).unwrap();
        rest = after;
        match block {
            Block::SectionHeader(header) => {
                seen.push(header.shb_userappl().unwrap().unwrap().to_owned());
            }
            Block::InterfaceDescription(interface) => {
                assert_eq!((interface.linktype.0, interface.snaplen), (1, 50));
                assert_eq!(interface.if_tsresol().unwrap().unwrap(), 9);
                seen.push(interface.if_name().unwrap().unwrap().to_owned());
            }
            Block::EnhancedPacket(packet) => {
                let flags = packet.options.iter().find(|o| o.code == OptionCode(2));
                let flags = flags.unwrap().as_u32_le().unwrap();
                let (kept, whole) = (packet.packet_data().len(), packet.origlen);
                seen.push(format!("{} {flags} {kept}/{whole}", packet.if_id));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        seen,
        [
            "pinchpoint-engine",
            "left",
            "right",
            "0 2 50/60",
            "1 1 30/30"
        ]
    );
}

#[test]
fn an_existing_file_is_left_as_it_is() {
    let folder = Folder::new("existing");
    fs::write(folder.file(), "precious").unwrap();
    let error = two_frames().write_pcapng(&folder.file(), &["left", "right"]);
    assert_eq!(
        error.unwrap_err().to_string(),
        format!(
            "{}: exists already and is not overwritten",
            folder.file().display()
        )
    );
    assert_eq!(fs::read(folder.file()).unwrap(), b"precious");
}

#[test]
fn a_port_without_a_name_leaves_no_file() {
    let folder = Folder::new("nameless");
    let error = two_frames().write_pcapng(&folder.file(), &["left"]);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .ends_with("frames of port 1 were recorded, but only 1 ports have names")
    );
    assert!(!folder.file().exists());
}

#[test]
fn a_disk_that_is_full_is_an_error_of_the_write() {
    let mut room = [0; 100];
    let error = two_frames().write_to(&mut &mut room[..], &["left", "right"]);
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::WriteZero);
}

#[test]
#[ignore = "needs tshark"]
fn wireshark_shows_ports_directions_and_nanoseconds() {
    let folder = Folder::new("tshark");
    let capture = two_frames();
    capture
        .write_pcapng(&folder.file(), &["left", "right"])
        .unwrap();
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(folder.file()).args(["-T", "fields"]);
    for field in [
        "frame.interface_name",
        "frame.packet_flags_direction",
        "frame.time_epoch",
        "frame.len",
        "frame.cap_len",
        "udp.dstport",
    ] {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<_>> = text.lines().map(|l| l.split('\t').collect()).collect();
    let time = "1700000000.123456789";
    assert_eq!(lines[0], ["left", "0x00000002", time, "60", "50", "4000"]);
    assert_eq!(lines[1][..2], ["right", "0x00000001"]);
    assert_eq!(lines[1][2..5], ["1700000000.123457789", "30", "30"]);
}
