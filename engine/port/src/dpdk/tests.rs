use super::pool::{ETHERNET_HEADER, MAX_MTU, ROOMS, rooms};
use super::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Opens `device` with `queues` queues, without hugepages.
fn open_one(device: &str, queues: u16) -> Vec<DpdkPort> {
    let session = SessionSpec {
        eal_args: ["--no-pci", "--no-huge", "-m", "256"]
            .map(str::to_owned)
            .to_vec(),
        worker_cores: vec![0],
        worker_ports: Vec::new(),
        longest_frame: None,
    };
    let spec = PortSpec {
        name: "port".to_owned(),
        backend: crate::Backend::Dpdk,
        device: device.to_owned(),
        netns: None,
        rx_ring: 64,
        tx_ring: 64,
        queues,
    };
    let deadline = Deadline {
        until: Instant::now() + Duration::from_secs(60),
        cancelled: &AtomicBool::new(false),
    };
    open(&session, &[&spec], deadline).unwrap().remove(0)
}

#[test]
#[ignore = "needs root"]
fn buffers_have_the_largest_room_that_fits_into_the_memory_given() {
    let held = open_one("net_null4", 1); // with 256 MiB
    assert_eq!(rooms(10_000, None), [9216]);
    assert_eq!(
        rooms(60_000, None),
        [2048],
        "more memory is not taken for longer frames"
    );
    let most = rooms(1_000_000, None);
    assert_eq!(most, ROOMS, "without enough, DPDK takes more");
    assert_eq!(rooms(10_000, Some(1999)), [9216]);
    drop(held);
}

#[test]
#[ignore = "needs root"]
fn buffers_of_several_nodes_without_memory_lie_on_another_one() {
    let held = open_one("net_null10", 1); // starts DPDK
    let pools = [1000, 1001].map(|node| Pool::new(Some(node), 1024, Some(60)).unwrap());
    assert_eq!(pools.map(|pool| pool.room), [2048, 2048]);
    drop(held);
}

#[test]
fn buffers_have_no_larger_room_than_the_longest_frame_needs() {
    for longest in [60, 1514, 1998] {
        assert_eq!(rooms(10_000, Some(longest)), [2048]);
    }
}

#[test]
#[ignore = "needs root"]
fn every_statistic_of_a_device_with_hundreds_of_them_is_told_once() {
    // A device that tells the statistics of two others beside its own.
    let device = "net_failsafe0,dev(net_null1),dev(net_null2)";
    let mut ports = open_one(device, 16);
    let sent = ports[15].send(8, crate::Uniform(60, |_: usize, _: &mut [u8]| ()));
    assert_eq!(sent, 8);
    let stats = ports[0].stats();
    assert!(stats.len() > 256, "{}", stats.len());
    let values: BTreeMap<_, _> = stats.iter().cloned().collect();
    assert_eq!(values.len(), stats.len(), "no name twice");
    let told = values.iter().filter(|(_, value)| **value == 8);
    let told: Vec<_> = told.map(|(name, _)| name.as_str()).collect();
    let expected = [
        "tx_good_packets",
        "tx_q15_packets",
        "tx_sub0_good_packets",
        "tx_sub0_q15_packets",
    ];
    assert_eq!(told, expected);
    assert!(ports[1].stats().is_empty(), "the first queue tells");
}

/// A namespace of this thread's own, for devices that make interfaces.
fn own_namespace() {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
}

#[test]
#[ignore = "needs root"]
fn a_device_that_takes_shorter_frames_than_asked_for_says_so() {
    own_namespace();
    let ports = open_one("net_tap0,iface=pp-mtu", 1);
    // Debian 12's driver knows standard frames only, an MTU of 1,500 bytes; Debian 13's takes longer ones.
    let is_old = version().starts_with("DPDK 22.");
    let longest = usize::from(MAX_MTU + ETHERNET_HEADER);
    assert_eq!(ports[0].max_len(), if is_old { 1514 } else { longest });
    drop(ports);
    let jumbo = open_one("net_null7", 1);
    assert_eq!(jumbo[0].max_len(), longest);
}

#[test]
#[ignore = "needs root"]
fn frames_without_a_buffer_are_counted_as_the_engines() {
    let mut port = open_one("net_null8,no-rx=1", 1).remove(0);
    let pool = Arc::clone(&port.pool);
    let mut held = Vec::new();
    let mut take = |count: u16| {
        let mut mbufs = [ptr::null_mut(); BURST];
        let mut data = [ptr::null_mut(); BURST];
        // SAFETY: the arrays have room for a burst.
        let got = unsafe {
            let lens = [60; BURST];
            ffi::pp_alloc(
                pool.raw,
                mbufs.as_mut_ptr(),
                data.as_mut_ptr(),
                lens.as_ptr(),
                count,
            )
        };
        held.extend_from_slice(&mbufs[..usize::from(got)]);
        got > 0
    };
    while take(BURST as u16) {}
    while take(1) {}
    let frames =
        |port: &mut DpdkPort| port.send(8, crate::Uniform(60, |_: usize, _: &mut [u8]| ()));
    assert_eq!((frames(&mut port), frames(&mut port)), (0, 0));
    let counted = ("engine_tx_no_buffers".to_owned(), 16);
    assert!(port.stats().contains(&counted), "{:?}", port.stats());
    for chunk in held.chunks_mut(BURST) {
        // SAFETY: each was taken above and is given back once.
        unsafe { ffi::pp_free(chunk.as_mut_ptr(), chunk.len() as u16, 1) }
    }
    assert_eq!(frames(&mut port), 8);
    drop(port);
    assert_eq!(pool.in_use(), 0);
}

/// A client that connects as soon as it can.
fn connects_at_once(path: &PathBuf) -> UnixStream {
    loop {
        match UnixStream::connect(path) {
            Ok(client) => return client,
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_client_that_connects_again_at_once_is_served_or_hung_up() {
    drop(open_one("net_null9", 1)); // starts DPDK
    let path = std::env::temp_dir().join(format!("pp-again-{}.sock", std::process::id()));
    let leaving = AtomicBool::new(false);
    let device = format!("net_virtio_user9,path={},server=1", path.display());
    let deadline = Deadline {
        until: Instant::now() + Duration::from_secs(60),
        cancelled: &leaving,
    };
    let unanswered = std::thread::scope(|scope| {
        let engine = scope.spawn(|| attach::attach(&device, deadline));
        let unanswered = (0..20).find(|_| {
            let mut client = connects_at_once(&path);
            let limit = Some(Duration::from_secs(10));
            client.set_read_timeout(limit).unwrap();
            let answer = client.read(&mut [0; 12]);
            answer.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        });
        leaving.store(true, Ordering::Relaxed);
        assert!(engine.join().unwrap().is_err());
        unanswered
    });
    assert_eq!(unanswered, None, "no client is left waiting");
}

/// Takes every frame and does nothing with it.
struct Sinking;

impl Sink for Sinking {
    fn arrived(&mut self, _: usize) {}
    fn frame(&mut self, _: &[u8]) {}
}

#[test]
#[ignore = "needs root"]
fn every_buffer_comes_back_whatever_became_of_its_frame() {
    // A ring of 1,024: what is not taken is freed, what was not received too.
    let mut port = open_one("net_ring0", 1).remove(0);
    let pool = Arc::clone(&port.pool);
    let mut sent = 0;
    for _ in 0..40 {
        sent += port.send(BURST, crate::Uniform(60, |_: usize, _: &mut [u8]| ()));
    }
    assert!(
        (512..40 * BURST).contains(&sent),
        "{sent} of {}",
        40 * BURST
    );
    let mut received = 0;
    for _ in 0..4 {
        received += port.receive(&mut Sinking);
    }
    assert_eq!(received, 4 * BURST);
    while port.receive(&mut Sinking) > 0 {}
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn all_is_asked_for_until_there_is_room_for_it() {
    let grows = Cell::new(3);
    let fill = |room: &mut [u32]| {
        let count = grows.get();
        if room.len() < count {
            grows.set(5);
            return count as c_int;
        }
        room[..count].fill(7);
        count as c_int
    };
    assert_eq!(all(0, fill), [7; 5]);
    assert!(all(0, |room: &mut [u32]| room.len() as c_int + 1).is_empty());
    assert!(all(0, |_: &mut [u32]| -libc::ENOTSUP).is_empty());
}
