//! How many frames a second a port sends into an interface that drops them.
//!
//! `xdp_rates BACKEND DEVICE NETNS SINK_DEVICE SINK_NETNS SECONDS`, as root;
//! frames of 64 bytes, 65,536 five-tuples. What arrives is counted by the
//! sink's own program, so the figure is of frames that really crossed.

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

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [backend, device, netns, sink_device, sink_netns, seconds] = arguments.as_slice() else {
        panic!("BACKEND DEVICE NETNS SINK_DEVICE SINK_NETNS SECONDS");
    };
    let spec = PortSpec {
        name: "out".to_owned(),
        backend: match backend.as_str() {
            "af_packet" => Backend::AfPacket,
            "af_xdp" => Backend::AfXdp,
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
    let duration = Duration::from_secs_f64(seconds.parse().expect("seconds"));
    let before = sink.dropped();
    let start = Instant::now();
    let sent = send_written(port, duration);
    let elapsed = start.elapsed().as_secs_f64();
    let arrived = sink.dropped() - before;
    let stats = port.stats();
    println!(
        "{} sent {:.3} Mpps, arrived {:.3} Mpps {stats:?}",
        port.mode(),
        sent as f64 / elapsed / 1e6,
        arrived as f64 / elapsed / 1e6,
    );
}
