use super::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Opens `device` with `queues` queues, without hugepages.
fn open_one(device: &str, queues: u16) -> Vec<DpdkPort> {
    let session = SessionSpec {
        eal_args: ["--no-pci", "--no-huge", "-m", "256"]
            .map(str::to_owned)
            .to_vec(),
        worker_cores: vec![0],
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
    let patience = Patience {
        until: Instant::now(),
        cancelled: &AtomicBool::new(false),
    };
    open(&session, &[&spec], patience).unwrap().remove(0)
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
