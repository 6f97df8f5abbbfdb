//! Targets of what arrives at a port.

use pinchpoint_traffic::account::{Account, Expected, Sender, Settings};
use pinchpoint_traffic::flows::FlowMap;
use pinchpoint_wire::signature::{self, Reading, Signature};
use pinchpoint_wire::{answer, ethernet, ipv4, udp, verify};

/// The input is a frame: every view that accepts it can be read, views lie
/// inside each other, and a signature that reads as intact is what its sender
/// would write.
pub fn frame(input: &[u8]) {
    if let Reading::Intact(found) = signature::read(input) {
        let mut written = [0; signature::LEN];
        found.emit(&mut written);
        // The last two bytes are a checksum, in which zero has two forms.
        let same = signature::LEN - 2;
        let start = input.len() - signature::LEN;
        assert_eq!(input[start..][..same], written[..same]);
    }
    answered(input);
    let right = verify::checksums_right(input);
    let Ok(frame) = ethernet::Frame::new_checked(input) else {
        assert!(!right, "without an Ethernet header nothing is right");
        return;
    };
    let _ = (ethernet::Header::parse(&frame), frame.ethertype());
    assert!(frame.payload().len() + ethernet::HEADER_LEN <= input.len());
    let Ok(packet) = ipv4::Packet::new_checked(frame.payload()) else {
        return;
    };
    let _ = (packet.verify_checksum(), packet.is_fragment());
    let header = ipv4::Header::parse(&packet);
    assert!(packet.payload().len() + ipv4::HEADER_LEN <= frame.payload().len());
    if right && frame.ethertype() == ethernet::ETHERTYPE_IPV4 {
        assert!(packet.verify_checksum());
    }
    if let Ok(datagram) = udp::Datagram::new_checked(packet.payload()) {
        let _ = (udp::Header::parse(&datagram), datagram.dst());
        let _ = datagram.verify_checksum(header.src, header.dst);
        assert!(datagram.payload().len() + udp::HEADER_LEN <= packet.payload().len());
    }
}

/// What asks for an address of ours is answered with a frame that fits and
/// does not ask in turn.
fn answered(input: &[u8]) {
    let mac = ethernet::Mac([2, 0, 0, 0, 0, 9]);
    for address in ["10.0.0.1", "fd00::1"] {
        let own = (address.parse().expect("an address"), mac);
        let mut out = [0; answer::MAX_LEN];
        if let Some(len) = answer::reply(input, own, &mut out) {
            let reply = ethernet::Frame::new_checked(&out[..len]).expect("a frame");
            assert_eq!(reply.src(), mac);
            assert!(verify::checksums_right(&out[..len]));
            assert_eq!(
                answer::reply(&out[..len], own, &mut [0; answer::MAX_LEN]),
                None
            );
        }
    }
}

const PORTS: usize = 2;
const EPOCH: u8 = 1;
/// Stream ids and the ports that expect them; index 2 is no stream.
const STREAMS: [(u16, usize); 3] = [(5, 1), (6, 0), (7, 1)];

/// The input is a sequence of events at a receiver with two ports: frames of
/// any content, frames with a right signature, and news of what was sent.
/// Every frame ends in exactly one count.
///
/// | first byte modulo 4 | then |
/// |---|---|
/// | 0 | port, length, that many bytes: a frame |
/// | 1, 2 | port, epoch, stream, sequence (3), time (2): a frame with this signature |
/// | 3 | stream, sequence (3): numbers below this one have been sent |
pub fn account(input: &[u8]) {
    let settings = Settings {
        epoch: EPOCH,
        latency_every: 1 + input.len() as u64 % 3,
        jitter: true,
    };
    let map = FlowMap { first: 0, flows: 5 };
    let expected = STREAMS.map(|(id, rx_port)| Expected {
        id,
        rx_ports: vec![rx_port],
        is_expected: true,
        flow_count: None,
        frames: None,
        sender: Sender::Here,
        verify_checksums: input.len() % 2 == 1,
        flows: Some((map, 3)),
        unsigned: None,
    });
    let mut account = Account::new(&settings, &expected, PORTS);
    let mut delivered = [0u64; PORTS];
    let mut rest = input;
    while let Some((&kind, after)) = rest.split_first() {
        rest = after;
        match kind % 4 {
            0 => {
                let Some(([port, len], after)) = rest.split_first_chunk() else {
                    break;
                };
                let frame = &after[..usize::from(*len).min(after.len())];
                rest = &after[frame.len()..];
                deliver(&mut account, &mut delivered, *port, frame);
            }
            1 | 2 => {
                let Some(([port, epoch, stream, s0, s1, s2, t0, t1], after)) =
                    rest.split_first_chunk()
                else {
                    break;
                };
                rest = after;
                let mut frame = [0; 60];
                let signature = Signature {
                    epoch: *epoch,
                    stream: u16::from(*stream),
                    sequence: u64::from(u32::from_be_bytes([0, *s0, *s1, *s2])),
                    time_ns: u64::from(u16::from_be_bytes([*t0, *t1])),
                };
                if let Some(end) = frame.last_chunk_mut() {
                    signature.emit(end);
                }
                deliver(&mut account, &mut delivered, *port, &frame);
            }
            _ => {
                let Some(([stream, s0, s1, s2], after)) = rest.split_first_chunk() else {
                    break;
                };
                rest = after;
                let sent = u64::from(u32::from_be_bytes([0, *s0, *s1, *s2]));
                account.sent(usize::from(*stream) % STREAMS.len(), sent);
            }
        }
    }
    check(account, delivered);
}

fn deliver(account: &mut Account, delivered: &mut [u64; PORTS], port: u8, frame: &[u8]) {
    let port = usize::from(port) % PORTS;
    account.frame(port, frame, u64::from(u16::MAX));
    delivered[port] += 1;
}

fn check(account: Account, delivered: [u64; PORTS]) {
    let received = account.received();
    let closed = account.close();
    let streams: Vec<_> = closed.streams.into_iter().flatten().collect();
    let streams: Vec<_> = streams.iter().map(|account| account.counts).collect();
    let ports = closed.ports;
    let distinct: u64 = streams.iter().map(|counts| counts.received).sum();
    assert_eq!(received, distinct);
    for (index, (port, delivered)) in ports.iter().zip(delivered).enumerate() {
        assert_eq!(port.received + port.late + port.foreign, delivered);
        let own = streams.iter().zip(STREAMS);
        let own = own.filter(|(_, (_, rx_port))| *rx_port == index);
        let counts = own.map(|(counts, _)| counts);
        let of_streams: u64 = counts
            .map(|counts| counts.received + counts.duplicated + counts.corrupt)
            .sum();
        assert_eq!(port.received, of_streams);
    }
    for counts in streams {
        assert!(counts.reordered < counts.received.max(1));
        assert_eq!(counts.reordered == 0, counts.reorder_distance_max == 0);
    }
}
