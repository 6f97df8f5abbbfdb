//! Ports on veth pairs in namespaces of their own.

use super::*;
use crate::{BURST, Backend, Uniform};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of frames whose length does not matter.
const SHORT: usize = 60;
/// An EtherType that nothing on this machine speaks (IEEE 802, local use).
const LOCAL_TYPE: [u8; 2] = [0x88, 0xb5];

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(status.unwrap().success(), "ip {arguments}");
}

/// Two namespaces joined by a pair of interfaces named `end`.
struct Veth([String; 2]);

impl Veth {
    fn new(mtu: usize) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("pp-port-{}-{number}-{end}", std::process::id());
        let veth = Self(["left", "right"].map(name));
        let [left, right] = &veth.0;
        for namespace in &veth.0 {
            ip(&format!("netns add {namespace}"));
            // No address, so nothing of the kernel's own is sent.
            let quiet = "sysctl -qw net.ipv6.conf.default.disable_ipv6=1";
            ip(&format!("netns exec {namespace} {quiet}"));
        }
        let peer = format!("type veth peer name end mtu {mtu} netns {right}");
        ip(&format!("-n {left} link add end mtu {mtu} {peer}"));
        for namespace in &veth.0 {
            ip(&format!("-n {namespace} link set end arp off up"));
        }
        veth
    }

    fn spec(&self, end: usize, options: &str, queues: u16) -> PortSpec {
        PortSpec {
            name: "port".to_owned(),
            backend: Backend::AfPacket,
            device: format!("end{options}"),
            netns: Some(self.0[end].clone()),
            rx_ring: 1024,
            tx_ring: 256,
            queues,
        }
    }

    fn open(&self, end: usize, options: &str, queues: u16) -> Vec<AfPacketPort> {
        AfPacketPort::open(&self.spec(end, options, queues)).unwrap()
    }

    fn both(&self, options: &str) -> [AfPacketPort; 2] {
        [0, 1].map(|end| self.open(end, options, 1).remove(0))
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        for namespace in &self.0 {
            let _ = Command::new("ip")
                .args(["netns", "del", namespace])
                .status();
        }
    }
}

/// A broadcast frame that carries `number` and otherwise what it says.
fn write(number: u64, frame: &mut [u8]) {
    frame.fill(number as u8);
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&LOCAL_TYPE);
    frame[14..22].copy_from_slice(&number.to_be_bytes());
}

#[derive(Default)]
struct Collect(Vec<Vec<u8>>);

impl Sink for Collect {
    fn arrived(&mut self, count: usize) {
        assert!((1..=BURST).contains(&count));
    }

    fn frame(&mut self, frame: &[u8]) {
        self.0.push(frame.to_vec());
    }
}

/// Sends the frame numbers `from..to` until the port takes no more.
fn send(port: &mut AfPacketPort, from: u64, to: u64, len: usize) -> u64 {
    let mut next = from;
    while next < to {
        let count = (to - next).min(BURST as u64) as usize;
        let source = |i: usize, frame: &mut [u8]| write(next + i as u64, frame);
        let taken = port.send(count, Uniform(len, source));
        next += taken as u64;
        if taken < count {
            break;
        }
    }
    next - from
}

/// Waits for what the kernel tells a little late.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What arrives until nothing has for a while. It asks the port before it looks at the time, so
/// that a pause of this thread does not count as quiet.
fn drain(port: &mut AfPacketPort) -> Vec<Vec<u8>> {
    let mut frames = Collect::default();
    let mut quiet_since = Instant::now();
    loop {
        if port.receive(&mut frames) > 0 {
            quiet_since = Instant::now();
        } else if quiet_since.elapsed() > Duration::from_millis(50) {
            return frames.0;
        }
    }
}

fn numbers(frames: &[Vec<u8>]) -> Vec<u64> {
    let number = |frame: &Vec<u8>| u64::from_be_bytes(frame[14..22].try_into().unwrap());
    frames.iter().map(number).collect()
}

fn expected(number: u64, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    write(number, &mut frame);
    frame
}

fn stat(port: &mut AfPacketPort, name: &str) -> u64 {
    let stats = port.stats();
    stats.iter().find(|(key, _)| key == name).unwrap().1
}

#[test]
#[ignore = "needs root"]
fn both_directions_carry_every_frame_unchanged_and_in_order() {
    for options in ["", ",mmap=0"] {
        let veth = Veth::new(1500);
        let [mut left, mut right] = veth.both(options);
        // More frames than either ring has slots, at every length there is.
        for len in [SHORT, 61, 128, 1513, left.max_len()] {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            for first in (0..1280).step_by(BURST) {
                let to = first + BURST as u64;
                assert_eq!(send(&mut left, first, to, len), BURST as u64);
                assert_eq!(send(&mut right, first, to, len), BURST as u64);
                there.extend(drain_burst(&mut right));
                back.extend(drain_burst(&mut left));
            }
            let sent: Vec<_> = (0..1280).map(|number| expected(number, len)).collect();
            assert!(there == sent, "there, {len} bytes{options}");
            assert!(back == sent, "back, {len} bytes{options}");
        }
        assert_eq!((left.rx_missed(), right.rx_missed()), (Some(0), Some(0)));
    }
}

/// When frames arrived, by the port's own stamps.
#[derive(Default)]
struct Times(Vec<u64>);

impl Sink for Times {
    fn arrived(&mut self, _count: usize) {}

    fn stamped(&mut self, at_ns: u64) {
        self.0.push(at_ns);
    }

    fn frame(&mut self, _frame: &[u8]) {}
}

fn since_1970_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_nanos() as u64
}

#[test]
#[ignore = "needs root"]
fn the_kernel_stamps_a_frame_as_it_arrives_and_not_as_it_is_taken() {
    let veth = Veth::new(1500);
    let [mut left, mut right] = [veth.open(0, "", 1), veth.open(1, ",stamps=kernel", 1)];
    assert_eq!(right[0].stamps(), Stamps::Kernel);
    let before_ns = since_1970_ns();
    assert_eq!(send(&mut left[0], 0, 20, SHORT), 20);
    let mut times = Times::default();
    wait_until("20 frames", || {
        std::thread::sleep(Duration::from_millis(50)); // which is in no stamp
        right[0].receive(&mut times);
        times.0.len() == 20
    });
    let after_ns = since_1970_ns() - 50_000_000;
    let expected = before_ns..after_ns;
    assert!(
        times.0.iter().all(|at| expected.contains(at)),
        "{:?} in {expected:?}",
        times.0
    );
    assert_eq!(right[0].failure(), None);
}

#[test]
#[ignore = "needs root"]
fn an_interface_that_stamps_nothing_is_refused() {
    let veth = Veth::new(1500);
    let spec = veth.spec(0, ",stamps=nic", 1);
    let refused = AfPacketPort::open(&spec).err().unwrap();
    assert!(refused.message.starts_with("end: the NIC does not stamp"));
    assert!(refused.hint.unwrap().starts_with("hwstamp_ctl -i end -r 1"));
}

/// One burst, waited for.
fn drain_burst(port: &mut AfPacketPort) -> Vec<Vec<u8>> {
    let mut frames = Collect::default();
    let start = Instant::now();
    while frames.0.len() < BURST && start.elapsed() < TIMEOUT {
        port.receive(&mut frames);
    }
    frames.0
}

#[test]
#[ignore = "needs root"]
fn frames_of_mixed_lengths_up_to_a_jumbo_mtu_survive() {
    struct Mixed(Vec<usize>);

    impl Source for Mixed {
        fn len(&self, index: usize) -> usize {
            self.0[index]
        }

        fn frame(&mut self, index: usize, frame: &mut [u8]) {
            assert_eq!(frame.len(), self.0[index]);
            write(index as u64, frame);
        }
    }

    for options in ["", ",mmap=0"] {
        let veth = Veth::new(9000);
        let [mut left, mut right] = veth.both(options);
        assert_eq!(left.max_len(), 9014);
        let lens = vec![9014, SHORT, 4096, 1514, 8999];
        assert_eq!(left.send(lens.len(), Mixed(lens.clone())), lens.len());
        let sent: Vec<_> = (0..).zip(lens).map(|(k, len)| expected(k, len)).collect();
        assert!(drain(&mut right) == sent, "{options}");
    }
}

#[test]
#[ignore = "needs root"]
fn frames_on_their_way_do_not_change_when_the_ring_comes_round() {
    let veth = Veth::new(1500);
    let [mut left, mut right] = [veth.open(0, "", 1), veth.open(1, ",mmap=0", 1)];
    // The other end's kernel keeps them in a queue, not in a ring of its own.
    let count = 4 * u64::from(left[0].rings().1);
    assert_eq!(send(&mut left[0], 0, count, 1514), count);
    let sent: Vec<_> = (0..count).map(|number| expected(number, 1514)).collect();
    assert!(drain(&mut right[0]) == sent);
}

#[test]
#[ignore = "needs root"]
fn tags_survive() {
    let tagged = |tags: &[u8]| {
        let mut frame = expected(7, SHORT);
        frame.splice(12..12, tags.iter().copied());
        frame
    };
    let frames = [
        tagged(&[0x81, 0x00, 0xa0, 0x64]),
        tagged(&[0x81, 0x00, 0x00, 0x00]),
        tagged(&[0x88, 0xa8, 0x0f, 0xff]),
        tagged(&[0x88, 0xa8, 0x00, 0x05, 0x81, 0x00, 0x00, 0x06]),
        tagged(&[]),
    ];
    for options in ["", ",mmap=0"] {
        let veth = Veth::new(1500);
        let [mut left, mut right] = veth.both(options);
        for frame in &frames {
            let copy = |_: usize, bytes: &mut [u8]| bytes.copy_from_slice(frame);
            assert_eq!(left.send(1, Uniform(frame.len(), copy)), 1);
        }
        assert_eq!(drain(&mut right), frames, "{options}");
    }
}

#[test]
#[ignore = "needs root"]
fn what_a_full_ring_drops_is_missed_exactly() {
    let veth = Veth::new(1500);
    let [mut left, mut right] = veth.both("");
    let slots = u64::from(right.rings().0);
    for round in 1..=2 {
        let sent = send(&mut left, 0, slots + 1000, SHORT);
        assert_eq!(sent, slots + 1000);
        let received = numbers(&drain(&mut right));
        assert!(received.into_iter().eq(0..slots));
        assert_eq!(right.rx_missed(), Some(round * 1000));
    }
}

#[test]
#[ignore = "needs root"]
fn sent_is_received_plus_missed_under_load() {
    for options in ["", ",mmap=0"] {
        let veth = Veth::new(1500);
        let [mut left, mut right] = veth.both(options);
        let sender = std::thread::spawn(move || {
            let mut sent = 0;
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(400) {
                sent += send(&mut left, sent, sent + 10_000, SHORT);
            }
            sent
        });
        let mut received = numbers(&drain(&mut right));
        std::thread::sleep(Duration::from_millis(200));
        received.extend(numbers(&drain(&mut right)));
        let sent = sender.join().unwrap();
        received.extend(numbers(&drain(&mut right)));
        let missed = right.rx_missed().unwrap();
        assert!(sent > 0);
        assert_eq!(sent, received.len() as u64 + missed, "{options}");
        assert!(received.is_sorted_by(|a, b| a < b), "{options}");
    }
}

#[test]
#[ignore = "needs root"]
fn what_a_link_without_carrier_refuses_is_never_sent() {
    for options in ["", ",mmap=0"] {
        let veth = Veth::new(1500);
        let [mut left, mut right] = veth.both(options);
        assert!(left.link_up());
        ip(&format!("-n {} link set end down", veth.0[1]));
        wait_until("the carrier's loss is told", || !left.link_up());
        assert_eq!(left.failure(), None, "the port itself is well");
        assert_eq!(send(&mut left, 0, 5, SHORT), 0);
        assert_eq!(stat(&mut left, "tx_no_buffers"), 1, "{options}");
        ip(&format!("-n {} link set end up", veth.0[1]));
        wait_until("the carrier is seen again", || left.link_up());
        assert_eq!(send(&mut left, 100, 103, SHORT), 3);
        assert_eq!(numbers(&drain(&mut right)), [100, 101, 102], "{options}");
    }
}

#[test]
#[ignore = "needs root"]
fn an_interface_switched_off_fails_until_it_is_on_again() {
    for options in ["", ",mmap=0"] {
        let veth = Veth::new(1500);
        let [mut left, mut right] = veth.both(options);
        ip(&format!("-n {} link set end down", veth.0[0]));
        assert_eq!(left.failure().as_deref(), Some("interface end is down"));
        assert_eq!(send(&mut left, 0, 5, SHORT), 0);
        assert_eq!(stat(&mut left, "tx_errors"), 1, "{options}");
        ip(&format!("-n {} link set end up", veth.0[0]));
        assert_eq!(left.failure(), None);
        // The first call may still be told of the time in between.
        send(&mut left, 200, 201, SHORT);
        assert_eq!(send(&mut left, 201, 203, SHORT), 2);
        let received = numbers(&drain(&mut right));
        assert!(
            received == [200, 201, 202] || received == [201, 202],
            "{received:?}"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn a_deleted_interface_is_a_failure_and_takes_nothing() {
    for options in ["", ",mmap=0"] {
        let veth = Veth::new(1500);
        let [mut left, mut right] = veth.both(options);
        assert_eq!((left.failure(), right.failure()), (None, None));
        assert_eq!(send(&mut left, 0, 3, SHORT), 3);
        ip(&format!("-n {} link del end", veth.0[0]));
        for port in [&mut left, &mut right] {
            assert_eq!(port.failure().as_deref(), Some("interface end is gone"));
            assert!(!port.link_up());
            assert_eq!(send(port, 3, 8, SHORT), 0);
        }
        // What had arrived before is still there.
        assert_eq!(numbers(&drain(&mut right)), [0, 1, 2], "{options}");
        // A new interface of that name is another one.
        let peer = format!("type veth peer name end netns {}", veth.0[1]);
        ip(&format!("-n {} link add end {peer}", veth.0[0]));
        assert_eq!(left.failure().as_deref(), Some("interface end is gone"));
    }
}

#[test]
#[ignore = "needs root"]
fn a_renamed_interface_goes_on() {
    let veth = Veth::new(1500);
    let [mut left, mut right] = veth.both("");
    ip(&format!("-n {} link set end name other", veth.0[0]));
    assert_eq!(left.failure(), None);
    assert!(left.link_up());
    assert_eq!(send(&mut left, 0, 3, SHORT), 3);
    assert_eq!(numbers(&drain(&mut right)), [0, 1, 2]);
}

#[test]
#[ignore = "needs root"]
fn queues_share_the_frames_without_copies() {
    for options in ["", ",mmap=0", ",fanout=lb", ",fanout=cpu"] {
        let veth = Veth::new(1500);
        let mut left = veth.open(0, options, 2);
        let mut right = veth.open(1, options, 2);
        assert_eq!((left.len(), right.len()), (2, 2));
        // Both queues send: different flows, as their EtherTypes tell.
        assert_eq!(send(&mut left[0], 0, 500, SHORT), 500);
        assert_eq!(send(&mut left[1], 500, 1000, SHORT), 500);
        let shares = [0, 1].map(|queue| numbers(&drain(&mut right[queue])));
        if options == ",fanout=lb" {
            assert_eq!((shares[0].len(), shares[1].len()), (500, 500));
        }
        let mut all = shares.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..1000), "{options}");
        assert!(
            left.iter_mut().all(|queue| drain(queue).is_empty()),
            "{options}"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn hashing_keeps_a_flow_in_one_queue_and_uses_both() {
    let veth = Veth::new(1500);
    let mut left = veth.open(0, "", 1);
    let mut right = veth.open(1, ",fanout=hash", 2);
    let flows = 64;
    // UDP over IPv4: the last byte of the source address is the flow.
    let udp = |flow: u8, frame: &mut [u8]| {
        write(u64::from(flow), frame);
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14..34].fill(0);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&(SHORT as u16 - 14).to_be_bytes());
        (frame[22], frame[23]) = (64, 17);
        frame[26..34].copy_from_slice(&[10, 0, 0, flow, 10, 0, 1, 1]);
    };
    for _ in 0..3 {
        let source = |i: usize, frame: &mut [u8]| udp(i as u8, frame);
        assert_eq!(left[0].send(flows, Uniform(SHORT, source)), flows);
    }
    let flow = |frame: &Vec<u8>| frame[29];
    let shares = [0, 1].map(|queue| {
        drain(&mut right[queue])
            .iter()
            .map(flow)
            .collect::<Vec<_>>()
    });
    assert_eq!(shares[0].len() + shares[1].len(), 3 * flows);
    assert!(shares.iter().all(|share| !share.is_empty()), "{shares:?}");
    assert!(
        shares[0].iter().all(|flow| !shares[1].contains(flow)),
        "{shares:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn a_virtual_interface_has_no_speed_whatever_it_says() {
    let veth = Veth::new(1500);
    let [mut left, _right] = veth.both("");
    let name = socket::name("end").unwrap();
    let told = link::told_mbps(left.receiver.socket(), name);
    assert_eq!(told.unwrap(), 10_000);
    assert_eq!(left.speed_bps(), None);
}
