//! How many frames a second a port sends into an interface that drops them.
//!
//! `xdp_rates BACKEND DEVICE NETNS SINK_DEVICE SINK_NETNS SECONDS`, as root;
//! frames of 64 bytes, 65,536 five-tuples. What arrives is counted by the
//! sink's own program, so the figure is of frames that really crossed. With
//! BACKEND `xdp_live` takes the frames of one call as a last argument. With
//! BACKEND `none` another program sends, and DEVICE and NETNS are ignored.

use nix::time::{ClockId, clock_gettime};
use pinchpoint_port::xdp_live::{LiveChecksum, LiveEdit, LiveStream};
use pinchpoint_port::xdp_sink::XdpDropSink;
use pinchpoint_port::{
    AnyPort, BURST, Backend, Patience, Port, PortSpec, SessionSpec, Sink, Uniform, open,
};
use pinchpoint_traffic::program::FrameProgram;
use pinchpoint_traffic::spec::{Field, FieldProgram, StreamSpec};
use pinchpoint_wire::ethernet::Mac;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const LEN: usize = 60;

fn stream() -> StreamSpec {
    let digit = |field| FieldProgram {
        field,
        step: 1,
        count: 256,
    };
    StreamSpec {
        id: 1,
        epoch: 1,
        len: LEN,
        eth_src: Mac([2, 0, 0, 0, 0, 1]),
        eth_dst: Mac([2, 0, 0, 0, 0, 2]),
        ip_src: Ipv4Addr::new(16, 0, 0, 1),
        ip_dst: Ipv4Addr::new(48, 0, 0, 1),
        ttl: 64,
        dscp: 0,
        udp_src: 1024,
        udp_dst: 53,
        flows: 65_536,
        fields: vec![digit(Field::Ipv4Src), digit(Field::Ipv4Dst)],
    }
}

/// The same stream as the kernel is to make it.
fn live_stream() -> LiveStream {
    let edit = |offset, base: Ipv4Addr| LiveEdit {
        offset,
        width: 4,
        base: base.to_bits(),
        step: 1,
        mask: u32::MAX,
        count: 256,
    };
    let checksum = |offset, udp| LiveChecksum {
        offset,
        udp,
        edits: vec![0, 1],
    };
    let spec = stream();
    let mut template = vec![0; LEN];
    let mut program = FrameProgram::new(&spec).expect("a good stream");
    program.send(0, |burst| {
        burst.write(&mut template);
        1
    });
    LiveStream {
        template,
        id: spec.id,
        epoch: spec.epoch,
        flows: spec.flows,
        first_flow: 0,
        edits: vec![edit(26, spec.ip_src), edit(30, spec.ip_dst)],
        checksums: vec![checksum(24, false), checksum(40, true)],
    }
}

struct Ignore;

impl Sink for Ignore {
    fn arrived(&mut self, _count: usize) {}
    fn frame(&mut self, _frame: &[u8]) {}
}

fn send_written(port: &mut AnyPort, duration: Duration) -> u64 {
    let mut program = FrameProgram::new(&stream()).expect("a good stream");
    let start = Instant::now();
    while start.elapsed() < duration {
        for _ in 0..64 {
            program.send(0, |burst| {
                let write = |_: usize, frame: &mut [u8]| burst.write(frame);
                port.send(BURST, Uniform(LEN, write)) as u64
            });
        }
        port.receive(&mut Ignore);
    }
    program.next()
}

fn send_live(port: &mut AnyPort, duration: Duration, burst: u64) -> u64 {
    let port = port.live().expect("a live port");
    port.load(&[live_stream()]).expect("a program");
    let start = Instant::now();
    while start.elapsed() < duration {
        port.send_live(0, burst, || start.elapsed().as_nanos() as u64);
    }
    port.next_live(0).unwrap_or_default()
}

/// What this process has computed so far: on a machine that others use too,
/// frames by CPU second vary less than frames by second.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

/// Prints what arrives in each second.
fn watch(device: &str, netns: &str, duration: Duration) {
    let sink = XdpDropSink::attach(device, Some(netns)).expect("a sink");
    let start = Instant::now();
    while start.elapsed() < duration {
        let (before, began) = (sink.dropped(), Instant::now());
        std::thread::sleep(Duration::from_secs(1));
        let arrived = sink.dropped() - before;
        let rate = arrived as f64 / began.elapsed().as_secs_f64();
        println!("arrived {:.3} Mpps", rate / 1e6);
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [
        backend,
        device,
        netns,
        sink_device,
        sink_netns,
        seconds,
        rest @ ..,
    ] = arguments.as_slice()
    else {
        panic!("BACKEND DEVICE NETNS SINK_DEVICE SINK_NETNS SECONDS");
    };
    let duration = Duration::from_secs_f64(seconds.parse().expect("seconds"));
    if backend == "none" {
        return watch(sink_device, sink_netns, duration);
    }
    let spec = PortSpec {
        name: "out".to_owned(),
        backend: match backend.as_str() {
            "af_packet" => Backend::AfPacket,
            "af_xdp" => Backend::AfXdp,
            "xdp_live" => Backend::XdpLive,
            other => panic!("no backend '{other}'"),
        },
        device: device.clone(),
        netns: Some(netns.clone()),
        rx_ring: 1024,
        tx_ring: 1024,
        queues: 1,
    };
    let sink = XdpDropSink::attach(sink_device, Some(sink_netns)).expect("a sink");
    let patience = Patience {
        until: Instant::now(),
        cancelled: &AtomicBool::new(false),
    };
    let mut ports = open(&SessionSpec::default(), &[spec], patience).expect("a port");
    let port = &mut ports[0][0];
    let before = sink.dropped();
    let cpu_before = cpu_seconds();
    let start = Instant::now();
    let sent = match rest.first() {
        Some(burst) => send_live(port, duration, burst.parse().expect("frames")),
        None => send_written(port, duration),
    };
    let elapsed = start.elapsed().as_secs_f64();
    let arrived = sink.dropped() - before;
    let stats = port.stats();
    println!(
        "{} sent {:.3} Mpps, arrived {:.3} Mpps, {:.3} M a CPU second {stats:?}",
        port.mode(),
        sent as f64 / elapsed / 1e6,
        arrived as f64 / elapsed / 1e6,
        arrived as f64 / (cpu_seconds() - cpu_before) / 1e6,
    );
}
