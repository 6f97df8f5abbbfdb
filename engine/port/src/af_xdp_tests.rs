#[path = "../../pinchpoint-engine/tests/common/kernel_threads.rs"]
mod kernel_threads;

use super::*;
use crate::sched::pin;
use crate::testing::{Bench, ip, ip_output};
use crate::xdp_sink::XdpDropSink;
use crate::{Backend, Port, Sink, Uniform};
use kernel_threads::kernel_threads;
use nix::sched::sched_getcpu;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);

fn spec(device: &str, netns: &str, queues: u16) -> PortSpec {
    PortSpec {
        name: "port".to_owned(),
        backend: Backend::AfXdp,
        device: device.to_owned(),
        netns: Some(netns.to_owned()),
        rx_ring: 512,
        tx_ring: 512,
        queues,
    }
}

fn open_one(device: &str, netns: &str) -> AfXdpPort {
    let ports = open(&spec(device, netns, 1)).unwrap();
    ports.into_iter().next().unwrap()
}

/// The numbers of the frames that arrived; the kernel's own (neighbour
/// discovery) left out.
#[derive(Default)]
struct Numbers(Vec<u32>);

/// An EtherType of IEEE's local experiments (RFC 9542 section B.1).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

impl Sink for Numbers {
    fn arrived(&mut self, _count: usize) {}
    fn frame(&mut self, frame: &[u8]) {
        if frame[12..14] == ETHERTYPE {
            let number = frame[14..18].try_into().unwrap();
            self.0.push(u32::from_be_bytes(number));
            assert!(frame[18..].iter().all(|byte| *byte == frame[17]));
        }
    }
}

fn send_numbers(port: &mut AfXdpPort, first: u32, count: usize, len: usize) -> usize {
    let write = |index: usize, frame: &mut [u8]| {
        let number = first + index as u32;
        frame.fill(number as u8);
        frame[..12].fill(2);
        frame[12..14].copy_from_slice(&ETHERTYPE);
        frame[14..18].copy_from_slice(&number.to_be_bytes());
    };
    port.send(count, Uniform(len, write))
}

fn receive_until(port: &mut AfXdpPort, seen: &mut Numbers, count: usize) {
    let start = Instant::now();
    while seen.0.len() < count && start.elapsed() < TIMEOUT {
        port.receive(seen);
    }
}

/// Sends `count` frames from one port to the other in bursts of mixed size;
/// all must arrive once, in order and intact.
fn exchange(left: &mut AfXdpPort, right: &mut AfXdpPort, count: u32) {
    let mut seen = Numbers::default();
    let mut sent = 0;
    while sent < count {
        let burst = (1 + sent % 64).min(count - sent);
        sent += send_numbers(left, sent, burst as usize, 60 + sent as usize % 1400) as u32;
        receive_until(right, &mut seen, sent as usize);
    }
    assert_eq!(seen.0, (0..count).collect::<Vec<_>>());
    assert_eq!(right.rx_missed(), Some(0));
}

#[test]
#[ignore = "needs root"]
fn frames_cross_a_veth_in_driver_and_generic_mode() {
    for (options, mode) in [
        ("", "af_xdp native copy need-wakeup"),
        (",mode=generic", "af_xdp generic copy need-wakeup"),
        (",copy=copy,need_wakeup=0", "af_xdp native copy"),
    ] {
        let bench = Bench::new("");
        let mut left = open_one(&format!("v0{options}"), &bench.near);
        let mut right = open_one(&format!("v0{options}"), &bench.far);
        assert_eq!(left.mode(), mode);
        assert!(left.link_up());
        assert_eq!(left.max_len(), 1514);
        exchange(&mut left, &mut right, 3_000);
        exchange(&mut right, &mut left, 3_000);
    }
}

/// Sends 64,000 frames or a few more into a sink at the far end; each frame that
/// the port took arrives there or is counted as dropped by the interface.
/// Returns the latter.
fn send_into_sink(bench: &Bench, prepare: impl Fn()) -> u64 {
    let sink = XdpDropSink::attach("v0", Some(&bench.far)).unwrap();
    assert!(sink.is_native());
    prepare();
    let mut port = open_one("v0,rx=0", &bench.near);
    assert_eq!(port.mode(), "af_xdp send-only copy need-wakeup");
    let before = sink.dropped();
    let mut sent = 0;
    let start = Instant::now();
    while sent < 64_000 && start.elapsed() < TIMEOUT {
        sent += send_numbers(&mut port, 0, 64, 60) as u64;
    }
    assert!(sent >= 64_000, "{sent}");
    let start = Instant::now();
    let (mut arrived, mut lost) = (0, 0);
    while arrived + lost < sent && start.elapsed() < TIMEOUT {
        port.receive(&mut Numbers::default());
        (arrived, lost) = (sink.dropped() - before, interface_tx_dropped(&mut port));
    }
    // The kernel may have sent a frame or two of its own.
    assert!(
        (sent..sent + 20).contains(&(arrived + lost)),
        "{sent} sent, {arrived} arrived, {lost} dropped; {:?}",
        port.stats()
    );
    lost
}

fn interface_tx_dropped(port: &mut AfXdpPort) -> u64 {
    let stats = port.stats();
    let found = stats
        .iter()
        .find(|(name, _)| name == "interface_tx_dropped");
    found.unwrap().1
}

#[test]
#[ignore = "needs root"]
fn what_the_port_takes_leaves_it_or_is_counted() {
    send_into_sink(&Bench::new(""), || {});
}

#[test]
#[ignore = "needs root"]
fn frames_that_the_far_end_had_no_room_for_are_counted() {
    if kernel_threads("kthreadd").is_none() {
        return;
    }
    let bench = Bench::new("");
    let threaded = "echo 1 > /sys/class/net/v0/threaded";
    let command = ["netns", "exec", &bench.far, "sh", "-c", threaded];
    // A kernel thread empties the far end's queue on the sender's core, and only when nothing else
    // wants to run there, so that the sender fills the queue.
    let starve = || {
        assert!(Command::new("ip").args(command).status().unwrap().success());
        let core = sched_getcpu().unwrap();
        pin(core).unwrap();
        for thread in kernel_threads("napi/v0-").unwrap() {
            run(&format!("chrt --idle --pid 0 {thread}"));
            run(&format!("taskset --cpu-list --pid {core} {thread}"));
        }
    };
    let lost = thread::scope(|threads| {
        threads
            .spawn(|| send_into_sink(&bench, starve))
            .join()
            .unwrap()
    });
    assert!(lost > 0);
}

/// Runs a command, given with arguments parted by spaces.
fn run(command: &str) {
    let (program, arguments) = command.split_once(' ').unwrap();
    let output = Command::new(program).args(arguments.split(' ')).output();
    assert!(output.unwrap().status.success(), "{command}");
}

#[test]
#[ignore = "needs root"]
fn each_queue_of_the_device_has_a_port() {
    let bench = Bench::new(" numrxqueues 2 numtxqueues 2");
    let mut left = open(&spec("v0", &bench.near, 2)).unwrap();
    let mut right = open(&spec("v0", &bench.far, 2)).unwrap();
    for (left, right) in left.iter_mut().zip(&mut right) {
        // A veth's transmit queue is the peer's receive queue.
        exchange(left, right, 200);
    }
    let names = |port: &mut AfXdpPort| port.stats().into_iter().map(|(name, _)| name);
    let whole = "interface_tx_dropped";
    assert!(names(&mut left[0]).any(|name| name == whole));
    assert!(!names(&mut left[1]).any(|name| name == whole));
}

#[test]
#[ignore = "needs root"]
fn a_full_receive_ring_is_counted_frame_by_frame() {
    let bench = Bench::new("");
    let mut left = open_one("v0", &bench.near);
    let mut right = open_one("v0", &bench.far);
    let mut sent = 0;
    while sent < 2_000 {
        sent += send_numbers(&mut left, sent, 50, 60) as u32;
    }
    let mut seen = Numbers::default();
    let start = Instant::now();
    let mut accounted = 0;
    while accounted < u64::from(sent) && start.elapsed() < TIMEOUT {
        right.receive(&mut seen);
        accounted =
            seen.0.len() as u64 + right.rx_missed().unwrap() + interface_tx_dropped(&mut left);
    }
    assert!(seen.0.len() >= 500, "{}", seen.0.len());
    let sent = u64::from(sent);
    assert!((sent..sent + 20).contains(&accounted), "{accounted}");
}

#[test]
#[ignore = "needs root"]
fn another_program_is_named_with_what_removes_it() {
    let bench = Bench::new("");
    let _sink = XdpDropSink::attach("v0", Some(&bench.near)).unwrap();
    let error = open(&spec("v0", &bench.near, 1)).err().unwrap();
    assert!(error.message.contains("'pinchpoint_drop'"), "{error}");
    let hint = error.hint.unwrap();
    let command = format!("ip -n {} link set dev v0 xdpdrv off", bench.near);
    assert!(hint.contains(&command), "{hint}");
}

#[test]
#[ignore = "needs root"]
fn a_closed_port_can_be_opened_again_at_once() {
    let bench = Bench::new("");
    for _ in 0..3 {
        let again = open(&spec("v0,mode=native", &bench.near, 1));
        assert_eq!(again.err(), None);
    }
}

#[test]
#[ignore = "needs root"]
fn frames_for_any_address_are_received_while_the_port_is_open() {
    let bench = Bench::new("");
    let show = format!("-n {} -d link show v0", bench.near);
    assert!(ip_output(&show).contains("promiscuity 0"));
    let port = open_one("v0", &bench.near);
    assert!(ip_output(&show).contains("promiscuity 1"));
    drop(port);
    assert!(ip_output(&show).contains("promiscuity 0"));
}

#[test]
#[ignore = "needs root"]
fn an_interface_that_goes_is_a_failure() {
    let bench = Bench::new("");
    let mut port = open_one("v0", &bench.near);
    assert_eq!(port.failure(), None);
    ip(&format!("-n {} link del v0", bench.near));
    let failure = port.failure().unwrap();
    assert_eq!(failure, "interface v0 is gone");
    assert_eq!(port.failure(), Some(failure));
    // A new interface of that name is another one.
    let peer = format!("type veth peer name v0 netns {}", bench.far);
    ip(&format!("-n {} link add v0 {peer}", bench.near));
    assert!(port.failure().is_some());
    assert!(!port.link_up());
}

#[test]
#[ignore = "needs root"]
fn an_interface_that_goes_down_is_a_failure_until_it_is_up_again() {
    let bench = Bench::new("");
    let _sink = XdpDropSink::attach("v0", Some(&bench.far)).unwrap();
    for options in ["v0", "v0,rx=0", "v0,rx=0,need_wakeup=0"] {
        let mut port = open_one(options, &bench.near);
        ip(&format!("-n {} link set v0 down", bench.near));
        // Without a frame that the kernel would be asked to send.
        assert_eq!(port.failure().as_deref(), Some("interface v0 is down"));
        assert!(!port.link_up());
        ip(&format!("-n {} link set v0 up", bench.near));
        assert_eq!(port.failure(), None);
    }
}

#[test]
#[ignore = "needs root"]
fn frames_that_an_interface_going_down_leaves_in_the_ring_are_unsent() {
    let bench = Bench::new("");
    let sink = XdpDropSink::attach("v0", Some(&bench.far)).unwrap();
    let mut port = open_one("v0,rx=0", &bench.near);
    let before = sink.dropped();
    let mut taken = 0;
    for _ in 0..100 {
        taken += send_numbers(&mut port, 0, 64, 60) as u64;
    }
    port.receive(&mut Numbers::default());
    assert_eq!(port.unsent(), 0);
    ip(&format!("-n {} link set v0 down", bench.near));
    let mut behind = 0;
    for _ in 0..100 {
        behind += send_numbers(&mut port, 0, 64, 60) as u64;
    }
    assert_eq!((behind, port.unsent()), (512, 512), "a ring full");
    // The kernel may have sent a frame or two of its own.
    let own = 0..20;
    assert!(own.contains(&(sink.dropped() - before - taken)));
    ip(&format!("-n {} link set v0 up", bench.near));
    let start = Instant::now();
    while port.unsent() > 0 && start.elapsed() < TIMEOUT {
        port.receive(&mut Numbers::default());
    }
    assert_eq!(port.unsent(), 0);
    assert!(own.contains(&(sink.dropped() - before - taken - behind)));
}

#[test]
#[ignore = "needs root"]
fn a_port_that_only_sends_has_no_receive_ring_and_counts_no_missed_frames() {
    let bench = Bench::new("");
    let mut port = open_one("v0,rx=0", &bench.near);
    assert_eq!((port.rings(), port.rx_missed()), ((0, 512), None));
    drop(port);
    let mut port = open_one("v0", &bench.near);
    assert_eq!((port.rings(), port.rx_missed()), ((512, 512), Some(0)));
}

#[test]
#[ignore = "needs root"]
fn errors_say_what_mends_them() {
    let bench = Bench::new("");
    let near = bench.near.as_str();
    let hint = |device: &str, netns: &str| {
        let error = open(&spec(device, netns, 1)).err().unwrap();
        error.hint.unwrap()
    };
    assert!(hint("none0", near).contains(&format!("ip -n {near} link")));
    assert!(hint("v0,queue=7", near).contains("ethtool -l v0"));
    assert!(hint("v0,copy=zero", near).contains("copy=auto"));
    assert!(hint("v0", "no-such-namespace").contains("ip netns list"));
}
