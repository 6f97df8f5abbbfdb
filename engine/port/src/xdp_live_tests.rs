use super::*;
use crate::testing::{Bench, ip};
use crate::xdp_sink::XdpDropSink;
use pinchpoint_traffic::program::{BurstSender, FrameProgram, FrameWriter};
use pinchpoint_traffic::recipe::Recipe;
use pinchpoint_traffic::spec::{FieldProgram, Layer, Op, Sizes, StreamSpec, Template, Wrong};
use pinchpoint_wire::signature::{self, Reading, Signature};
use pinchpoint_wire::{checksum, verify};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
const IP_AT: usize = 14;
const UDP_AT: usize = IP_AT + 20;

type Varying = (&'static str, i64, u64);

fn spec(len: usize, flows: u64, fields: &[Varying]) -> StreamSpec {
    let program = |&(name, step, count): &Varying| FieldProgram {
        field: name.parse().unwrap(),
        op: Op::Increment { step, count },
    };
    let ethernet = Layer::Ethernet {
        src: Mac([2, 0, 0, 0, 0, 1]),
        dst: Mac([2, 0, 0, 0, 0, 2]),
        ethertype: None,
    };
    let ipv4 = Layer::Ipv4 {
        src: Ipv4Addr::new(16, 0, 0, 1),
        dst: Ipv4Addr::new(48, 0, 0, 1),
        ttl: 64,
        dscp: 10,
        ecn: 0,
        identification: 0,
        dont_fragment: true,
        protocol: None,
        options: Vec::new(),
    };
    let udp = Layer::Udp {
        src: 65_530,
        dst: 12,
    };
    StreamSpec {
        id: 7,
        epoch: 3,
        seed: 0,
        part: 0,
        stamped: true,
        sizes: Sizes::Fixed(len),
        template: Template::Layers(vec![ethernet, ipv4, udp]),
        wrong: Wrong::default(),
        flows,
        first_flow: 0,
        fields: fields.iter().map(program).collect(),
    }
}

/// Writes one frame.
struct One<'a>(&'a mut Vec<u8>);

impl BurstSender for One<'_> {
    fn send<W: FrameWriter>(self, writer: &mut W) -> u64 {
        self.0.resize(writer.len(0), 0);
        writer.write(0, self.0);
        1
    }
}

/// The frame that comes next, sent at `time_ns`.
fn written(program: &mut FrameProgram, time_ns: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    program.send(time_ns, One(&mut frame));
    frame
}

fn live(spec: &StreamSpec) -> LiveStream {
    let recipe = Recipe::new(spec).unwrap();
    let edits = recipe.fields.iter().map(|field| LiveEdit {
        offset: field.offset,
        width: field.width,
        base: field.base,
        step: field.step,
        mask: field.mask,
        count: field.count,
    });
    let checksums = recipe.checksums.iter().map(|check| LiveChecksum {
        offset: check.offset,
        udp: check.avoids_zero,
        edits: check.fields.clone(),
    });
    LiveStream {
        id: spec.id,
        epoch: spec.epoch,
        flows: spec.flows,
        first_flow: 0,
        edits: edits.collect(),
        checksums: checksums.collect(),
        template: recipe.frame,
    }
}

fn live_port(device: &str, netns: &str) -> XdpLivePort {
    let spec = PortSpec {
        name: "port".to_owned(),
        backend: Backend::XdpLive,
        device: device.to_owned(),
        netns: Some(netns.to_owned()),
        rx_ring: 4_096,
        tx_ring: 512,
        queues: 1,
    };
    XdpLivePort::open(&spec).unwrap()
}

fn signature_of(frame: &[u8]) -> Signature {
    match signature::read(frame) {
        Reading::Intact(signature) => signature,
        other => panic!("{other:?}"),
    }
}

/// Without a `veth`, `lo` does: nothing is redirected in these runs.
fn loaded(stream: &LiveStream) -> Loaded {
    Loaded::new(stream, &DeviceMap::new(1).unwrap()).unwrap()
}

/// Runs the stream's program on `before`; returns the frame it makes.
fn made(loaded: &Loaded, before: &[u8]) -> Vec<u8> {
    const REDIRECT: u32 = 4;
    loaded.state.set(program::TIME_LEFT, 0);
    let (result, frame) = loaded.frame.run_once(before).unwrap();
    assert_eq!(result, REDIRECT);
    frame
}

#[test]
#[ignore = "needs root"]
fn frames_are_those_of_the_frame_program_byte_for_byte() {
    let all = [
        ("udp.src", 1, 10),
        ("ipv4.dst", -1, 3),
        ("ipv4.src", 256, 5),
        ("udp.dst", -7, 4),
    ];
    let specs = [
        spec(60, 1, &[]),
        spec(60, 600, &all),
        spec(60, 77, &all),
        spec(61, 15, &all[1..3]),
        spec(200, 10, &all[..1]),
        spec(1514, 100, &all),
        // The checksum takes every value, also those sent as 0xffff.
        spec(60, 65_536, &[("udp.src", 1, 65_536)]),
    ];
    for spec in specs {
        let stream = live(&spec);
        let loaded = loaded(&stream);
        let mut program = FrameProgram::new(&spec).unwrap();
        for sequence in 0..spec.flows.max(3) * 2 {
            let mut before = stream.template.clone();
            // What a frame's last receiver left in its headers.
            before[..42].fill(0xa5);
            let frame = made(&loaded, &before);
            let time_ns = signature_of(&frame).time_ns;
            assert_eq!(frame, written(&mut program, time_ns), "frame {sequence}");
            assert!(verify::checksums_right(&frame));
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_part_of_the_tuples_comes_again_and_again() {
    let spec = spec(60, 15, &[("ipv4.dst", 1, 3), ("udp.src", 1, 5)]);
    let stream = LiveStream {
        first_flow: 4,
        flows: 9,
        ..live(&spec)
    };
    let mut program = FrameProgram::new(&spec).unwrap();
    let tuples: Vec<_> = (0..15).map(|_| written(&mut program, 0)).collect();
    let loaded = loaded(&stream);
    for sequence in 0..30 {
        let frame = made(&loaded, &stream.template);
        let tuple = &tuples[4 + sequence % 9];
        assert_eq!(frame[..42], tuple[..42], "frame {sequence}");
    }
}

#[test]
#[ignore = "needs root"]
fn edits_of_single_bytes_and_of_some_bits_keep_checksums_right() {
    let varying = [("ipv4.src", 1, 2), ("udp.src", 1, 2)];
    let mut stream = live(&spec(60, 1, &varying));
    let edit = |offset, width, base, mask, count| LiveEdit {
        offset,
        width,
        base,
        step: 3,
        mask,
        count,
    };
    stream.edits = vec![
        // Time to live, a byte at an even place; the last byte of the source.
        edit(IP_AT + 8, 1, 64, u32::MAX, 2),
        edit(IP_AT + 15, 1, 250, u32::MAX, 5),
        edit(UDP_AT, 2, 0x1ff0, 0x0fff, 10),
    ];
    stream.flows = 100;
    stream.checksums[0].edits = vec![0, 1];
    stream.checksums[1].edits = vec![1, 2];
    let loaded = loaded(&stream);
    for number in 0..100u16 {
        let frame = made(&loaded, &stream.template);
        assert!(verify::checksums_right(&frame), "{number}");
        assert_eq!(u16::from(frame[IP_AT + 8]), 64 + 3 * (number % 2));
        assert_eq!(
            u16::from(frame[IP_AT + 15]),
            (250 + 3 * (number / 2 % 5)) % 256
        );
        let port = u16::from_be_bytes([frame[UDP_AT], frame[UDP_AT + 1]]);
        assert_eq!(port, 0x1000 | (0xff0 + 3 * (number / 10)) & 0xfff);
    }
}

/// What arrives of stream 7: intact, in order, with right checksums.
#[derive(Default)]
struct Arrived {
    next: u64,
    times: Vec<u64>,
}

impl Sink for Arrived {
    fn arrived(&mut self, _count: usize) {}
    fn frame(&mut self, frame: &[u8]) {
        if signature::read(frame) == Reading::Foreign {
            return;
        }
        let signature = signature_of(frame);
        assert!(verify::checksums_right(frame));
        assert_eq!((signature.stream, signature.epoch), (7, 3));
        assert_eq!(signature.sequence, self.next);
        self.next += 1;
        self.times.push(signature.time_ns);
    }
}

fn receive_until(port: &mut impl Port, seen: &mut Arrived, count: u64) {
    let start = Instant::now();
    while seen.next < count && start.elapsed() < PATIENCE {
        port.receive(seen);
    }
    assert_eq!(seen.next, count);
}

#[test]
#[ignore = "needs root"]
fn every_frame_arrives_intact_and_with_the_time_of_the_given_clock() {
    const ORIGIN: u64 = 1 << 47;
    let bench = Bench::new("");
    let mut left = live_port("v0,rx=1", &bench.near);
    let mut right = live_port("v0,rx=1", &bench.far);
    assert_eq!(left.mode(), "xdp_live and af_xdp native copy need-wakeup");
    let spec = spec(60, 600, &[("ipv4.src", 1, 30), ("udp.dst", 1, 20)]);
    left.load(&[live(&spec)]).unwrap();
    let start = Instant::now();
    let now_ns = || ORIGIN + start.elapsed().as_nanos() as u64;
    let mut seen = Arrived::default();
    for count in [1, 15, 16, 17, 64, 65, 300, 1_000] {
        let before = now_ns();
        let first = seen.times.len();
        let sent = left.send_live(0, count, now_ns);
        assert_eq!(
            sent,
            Sent {
                frames: count,
                refused: 0
            }
        );
        let wanted = seen.next + count;
        receive_until(&mut right, &mut seen, wanted);
        let after = now_ns();
        // A pair of readings lies that far apart at most on a busy machine.
        let slack = 1_000_000;
        for time in &seen.times[first..] {
            assert!((before - slack..=after + slack).contains(time));
        }
        assert!(seen.times[first..].is_sorted());
    }
    assert_eq!(left.next_live(0), Some(seen.next));
    assert_eq!(left.failure(), None);
}

/// The frames that arrived with a signature.
#[derive(Default)]
struct Frames(Vec<Vec<u8>>);

impl Sink for Frames {
    fn arrived(&mut self, _count: usize) {}
    fn frame(&mut self, frame: &[u8]) {
        if signature::read(frame) != Reading::Foreign {
            self.0.push(frame.to_vec());
        }
    }
}

#[test]
#[ignore = "needs root"]
fn vlan_ids_and_times_to_live_vary_on_the_wire_as_the_frame_program_writes_them() {
    let bench = Bench::new("");
    let mut left = live_port("v0", &bench.near);
    let mut right = live_port("v0,rx=1", &bench.far);
    let varying = [("vlan.id", 300, 13), ("ipv4.ttl", -1, 64)];
    let mut spec = spec(80, 13 * 64, &varying);
    let vlan = Layer::Vlan {
        id: 100,
        pcp: 5,
        dei: true,
        tpid: 0x8100,
    };
    let Template::Layers(layers) = &mut spec.template else {
        unreachable!("made of layers above");
    };
    layers.insert(1, vlan);
    left.load(&[live(&spec)]).unwrap();
    let mut program = FrameProgram::new(&spec).unwrap();
    let mut seen = Frames::default();
    let count = 2 * spec.flows;
    let start = Instant::now();
    for burst in std::iter::repeat_n(64, count as usize / 64) {
        assert_eq!(left.send_live(0, burst, || 0).refused, 0);
        let wanted = seen.0.len() + burst as usize;
        while seen.0.len() < wanted && start.elapsed() < PATIENCE {
            right.receive(&mut seen);
        }
    }
    assert_eq!(seen.0.len() as u64, count);
    for (sequence, frame) in (0..).zip(&seen.0) {
        assert_eq!(*frame, written(&mut program, signature_of(frame).time_ns));
        // Priority 5, DEI, and an id in 12 bits.
        let id = (100 + 300 * (sequence % 13)) & 0xfff;
        assert_eq!(
            frame[12..16],
            [0x81, 0x00, 0xb0 | (id >> 8) as u8, id as u8]
        );
        assert_eq!(u64::from(frame[IP_AT + 4 + 8]), 64 - sequence / 13 % 64);
        assert!(verify::checksums_right(frame));
    }
}

#[test]
#[ignore = "needs root"]
fn an_interface_that_is_down_or_gone_is_a_failure_said_as_such() {
    let bench = Bench::new("");
    let _sink = XdpDropSink::attach("v0", Some(&bench.far)).unwrap();
    for device in ["v0", "v0,rx=1"] {
        let mut port = live_port(device, &bench.near);
        port.load(&[live(&spec(60, 1, &[]))]).unwrap();
        assert_eq!(port.send_live(0, 10, || 0).refused, 0);
        ip(&format!("-n {} link set v0 down", bench.near));
        let mut sent = Sent::default();
        for _ in 0..FUTILE_CALLS {
            sent = port.send_live(0, 10, || 0);
        }
        assert_eq!(sent.frames, sent.refused);
        assert_eq!(port.failure().as_deref(), Some("interface v0 is down"));
        ip(&format!("-n {} link set v0 up", bench.near));
        assert_eq!(port.send_live(0, 10, || 0).refused, 0);
        assert_eq!(port.failure(), None);
    }
    let mut port = live_port("v0", &bench.near);
    port.load(&[live(&spec(60, 1, &[]))]).unwrap();
    ip(&format!("-n {} link del v0", bench.near));
    for _ in 0..FUTILE_CALLS {
        port.send_live(0, 10, || 0);
    }
    assert_eq!(port.failure().as_deref(), Some("interface v0 is gone"));
}

#[test]
#[ignore = "needs root"]
fn a_port_that_does_not_receive_has_no_receive_ring_and_counts_no_missed_frames() {
    let bench = Bench::new("");
    let mut port = live_port("v0", &bench.near);
    assert_eq!((port.rings(), port.rx_missed()), ((0, 512), None));
    drop(port);
    let mut port = live_port("v0,rx=1", &bench.near);
    assert_eq!((port.rings(), port.rx_missed()), ((4_096, 512), Some(0)));
}

#[test]
#[ignore = "needs root"]
fn sent_frames_are_those_the_far_end_counts() {
    let bench = Bench::new("");
    let sink = XdpDropSink::attach("v0", Some(&bench.far)).unwrap();
    let mut port = live_port("v0", &bench.near);
    let stream = live(&spec(60, 1, &[]));
    port.load(&[stream.clone(), LiveStream { id: 8, ..stream }])
        .unwrap();
    assert_eq!(port.live_stream(8), Some(1));
    let before = sink.dropped();
    let mut sent = 0;
    for _ in 0..100 {
        let one = port.send_live(0, 1_000, || 0);
        let other = port.send_live(1, 500, || 0);
        sent += one.frames - one.refused + other.frames - other.refused;
    }
    let start = Instant::now();
    while sink.dropped() - before < sent && start.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    // The kernel may have sent a frame or two of its own.
    assert!((sent..sent + 20).contains(&(sink.dropped() - before)));
    assert_eq!(port.next_live(0), Some(100_000));
    assert_eq!(port.next_live(1), Some(50_000));
    let stats = port.stats();
    assert!(stats.contains(&("live_accepted".to_owned(), sent)));
}

#[test]
#[ignore = "needs root"]
fn what_the_interface_does_not_take_is_refused_and_said() {
    let bench = Bench::new("");
    // The far end has neither a program nor GRO.
    let mut port = live_port("v0", &bench.near);
    port.load(&[live(&spec(60, 1, &[]))]).unwrap();
    let sent = port.send_live(0, 100, || 0);
    assert_eq!(
        sent,
        Sent {
            frames: 100,
            refused: 100
        }
    );
    assert_eq!(port.failure(), None);
    for _ in 0..FUTILE_CALLS {
        port.send_live(0, 1, || 0);
    }
    let failure = port.failure().unwrap();
    assert!(failure.contains("ethtool -K PEER gro on"), "{failure}");
    // Once it has a program, frames pass.
    let _sink = XdpDropSink::attach("v0", Some(&bench.far)).unwrap();
    assert_eq!(port.send_live(0, 100, || 0).refused, 0);
    assert_eq!(port.failure(), None);
}

#[test]
#[ignore = "needs root"]
fn the_longest_frame_passes() {
    let bench = Bench::new(" mtu 3400");
    let _sink = XdpDropSink::attach("v0", Some(&bench.far)).unwrap();
    let mut port = live_port("v0", &bench.near);
    assert_eq!(port.max_len(), MAX_LEN);
    port.load(&[live(&spec(MAX_LEN, 1, &[]))]).unwrap();
    let sent = port.send_live(0, 100, || 0);
    assert_eq!(
        sent,
        Sent {
            frames: 100,
            refused: 0
        }
    );
}

#[test]
#[ignore = "needs root"]
fn loading_again_starts_with_frame_zero() {
    let bench = Bench::new("");
    let _sink = XdpDropSink::attach("v0", Some(&bench.far)).unwrap();
    let mut port = live_port("v0", &bench.near);
    let stream = live(&spec(60, 1, &[]));
    for _ in 0..2 {
        port.load(std::slice::from_ref(&stream)).unwrap();
        assert_eq!(port.next_live(0), Some(0));
        port.send_live(0, 20, || 0);
        assert_eq!(port.next_live(0), Some(20));
    }
    assert_eq!(port.send_live(1, 20, || 0), Sent::default());
    let refused = |error: OpenError| error.message;
    let bad = LiveStream {
        flows: 0,
        ..stream.clone()
    };
    let error = port.load(&[stream.clone(), bad]).map_err(refused);
    let expected = "v0: live stream 7: 0 flows from number 0 on, where the counts make 1 tuples";
    assert_eq!(error, Err(expected.to_owned()));
    let error = port.load(&vec![stream; MAX_STREAMS + 1]).map_err(refused);
    assert_eq!(error, Err("v0: 33 live streams".to_owned()));
}

#[test]
fn batches_are_whole_bulks() {
    for batch in ["0", "8", "20", "272", "x"] {
        let spec = PortSpec {
            name: "port".to_owned(),
            backend: Backend::XdpLive,
            device: format!("v0,batch={batch}"),
            netns: None,
            rx_ring: 16,
            tx_ring: 16,
            queues: 1,
        };
        let error = XdpLivePort::open(&spec).err().unwrap();
        assert!(
            error.message.contains(&format!("'batch={batch}'")),
            "{error}"
        );
    }
}

#[test]
fn streams_that_cannot_be_made_are_refused() {
    let good = live(&spec(60, 6, &[("ipv4.dst", 1, 3), ("udp.src", 1, 2)]));
    good.validate().unwrap();
    let refused = |what: &str, change: fn(&mut LiveStream)| {
        let mut stream = good.clone();
        change(&mut stream);
        let error = stream.validate().unwrap_err();
        assert!(error.message.contains(what), "{error}");
        assert!(!error.message.contains("stream"), "{error}");
    };
    refused("does not fit", |stream| stream.template.truncate(20));
    refused("4000 bytes, more than 3072", |stream| {
        stream.template.resize(4000, 0);
    });
    refused("7 flows", |stream| stream.flows = 7);
    refused("0 flows", |stream| stream.flows = 0);
    refused("from number 1 on, where the counts make 6", |stream| {
        stream.first_flow = 1;
    });
    refused("number 18446744073709551615", |stream| {
        stream.first_flow = u64::MAX;
    });
    refused("9 edited fields", |stream| {
        stream.edits = vec![stream.edits[0]; 9];
    });
    refused("5 checksums", |stream| {
        stream.checksums = vec![stream.checksums[0].clone(); 5];
    });
    refused("1, 2 nor 4", |stream| stream.edits[0].width = 3);
    refused("payload", |stream| stream.edits[0].offset = 40);
    refused("past", |stream| stream.edits[0].offset = usize::MAX);
    refused("0 values", |stream| stream.edits[1].count = 0);
    refused("odd", |stream| stream.edits[1].offset = 35);
    refused("misplaced", |stream| stream.checksums[0].offset = 25);
    refused("misplaced", |stream| {
        stream.checksums[0].offset = usize::MAX - 1;
    });
    refused("not there", |stream| stream.checksums[0].edits = vec![2]);
}

#[test]
fn the_template_is_a_frame_with_right_checksums() {
    let stream = live(&spec(60, 1, &[]));
    assert!(verify::checksums_right(&stream.template));
    let end = &stream.template[stream.signature_at()..];
    assert_eq!(checksum::fold(checksum::sum(end)), 0xffff);
}
