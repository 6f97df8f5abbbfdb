use super::*;
use pcap_parser::pcapng::{Block, OptionCode, parse_block_le};
use pcap_parser::traits::PcapNGPacketBlock;
use std::fs::{self, File};
use std::process::Command;

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

const PORTS: [&str; 2] = ["left", "right"];

fn written(ports: &[&str], out: &mut impl Write) -> io::Result<()> {
    let (sent, received) = (udp_frame(), [7; 30]);
    let sent = Frame {
        direction: Direction::Sent,
        port: 0,
        time_ns: 1_700_000_000_123_456_789,
        bytes: &sent,
    };
    let received = Frame {
        direction: Direction::Received,
        port: 1,
        time_ns: 1_700_000_000_123_457_789,
        bytes: &received,
    };
    write_pcapng(out, ports, [sent, received])
}

#[test]
fn the_file_names_ports_and_directions() {
    let mut file = Vec::new();
    written(&PORTS, &mut file).unwrap();
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
                assert_eq!((interface.linktype.0, interface.snaplen), (1, 0));
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
            "0 2 60/60",
            "1 1 30/30"
        ]
    );
}

#[test]
fn a_port_without_a_name_is_refused() {
    let error = written(&["left"], &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(
        error.to_string(),
        "a frame of port 1, but only 1 ports are named"
    );
}

#[test]
fn a_disk_that_is_full_is_an_error_of_the_write() {
    let mut room = [0; 100];
    let error = written(&PORTS, &mut &mut room[..]);
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::WriteZero);
}

#[test]
#[ignore = "needs tshark"]
fn wireshark_shows_ports_directions_and_nanoseconds() {
    let name = format!("pinchpoint-import-{}.pcapng", std::process::id());
    let file = std::env::temp_dir().join(name);
    written(&PORTS, &mut File::create_new(&file).unwrap()).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&file).args(["-T", "fields"]);
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
    fs::remove_file(&file).unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<_>> = text.lines().map(|l| l.split('\t').collect()).collect();
    let time = "1700000000.123456789";
    assert_eq!(lines[0], ["left", "0x00000002", time, "60", "60", "4000"]);
    assert_eq!(lines[1][..2], ["right", "0x00000001"]);
    assert_eq!(lines[1][2..5], ["1700000000.123457789", "30", "30"]);
}
