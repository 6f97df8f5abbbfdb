//! What the account of a received frame costs, item by item.
//!
//! `cargo run --release -p pinchpoint-traffic --example account`
//!
//! Bursts of 64 frames of 60 bytes that follow one another, stamped and received
//! together, of which every burst takes another time. Items are measured in turn,
//! again and again, and the median is shown: a busy machine disturbs all alike.

use pinchpoint_traffic::account::{Account, Expected, Sender, Settings};
use pinchpoint_traffic::flows::FlowMap;
use pinchpoint_traffic::horizon::Horizon;
use pinchpoint_wire::checksum;
use pinchpoint_wire::signature::{LEN, Stamper};
use std::sync::Arc;
use std::time::Instant;

const BURST: usize = 64;
/// Frames written before they are accounted; few enough for the caches.
const CHUNK: usize = 64 * BURST;
const CHUNKS: u64 = 500;
const ROUNDS: usize = 15;

/// A named way to keep the account.
struct Item {
    name: &'static str,
    settings: Settings,
    flows: Option<(FlowMap, usize)>,
    shared: bool,
    checksums: bool,
}

fn items() -> Vec<Item> {
    let plain = Settings {
        epoch: 1,
        latency_every: 1,
        jitter: false,
    };
    let jitter = Settings {
        jitter: true,
        ..plain
    };
    let sampled = Settings {
        latency_every: 7,
        ..plain
    };
    let flows = |flows| Some((FlowMap { first: 0, flows }, 65_536));
    let item = |name, settings, flows, shared| Item {
        name,
        settings,
        flows,
        shared,
        checksums: false,
    };
    vec![
        item("counts and latency", plain, None, false),
        item("latency of one in 7", sampled, None, false),
        item("with jitter", jitter, None, false),
        item("with a shared horizon", plain, None, true),
        item("with 1,000 flows", plain, flows(1_000), false),
        item("with 65,536 flows", plain, flows(65_536), false),
        item("all of these", jitter, flows(65_536), true),
        Item {
            checksums: true,
            ..item("all, and checksums", jitter, flows(65_536), true)
        },
    ]
}

/// UDP over IPv4 in 60 bytes, all checksums right; a signature, whatever it
/// says, does not change them.
fn frame() -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    let header = checksum::finish(checksum::sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    frame[34..40].copy_from_slice(&[4, 0, 4, 1, 0, 26]);
    let pseudo_header = checksum::sum(&frame[26..34]) + 17 + 26;
    let datagram = checksum::finish(pseudo_header + checksum::sum(&frame[34..42]));
    frame[40..42].copy_from_slice(&datagram.to_be_bytes());
    frame
}

/// Nanoseconds a frame.
fn measure(item: &Item) -> f64 {
    let horizon = Arc::new(Horizon::new());
    let expected = Expected {
        id: 5,
        rx_ports: vec![0],
        is_expected: true,
        flow_count: None,
        sender: if item.shared {
            Sender::Elsewhere(Arc::clone(&horizon))
        } else {
            Sender::Here
        },
        verify_checksums: item.checksums,
        flows: item.flows,
    };
    let mut account = Account::new(&item.settings, &[expected], 1);
    let mut frames = vec![frame(); CHUNK];
    let (mut sequence, mut spent, mut queued) = (0u64, 0u128, 1u64);
    for _ in 0..CHUNKS {
        let first = sequence;
        for burst in frames.chunks_mut(BURST) {
            let stamper = Stamper::new(1, 5, sequence * 70);
            for frame in burst {
                let tail: &mut [u8; LEN] = frame.last_chunk_mut().expect("60 bytes");
                stamper.emit(sequence, tail);
                sequence += 1;
            }
        }
        account.sent(0, sequence);
        horizon.reach(sequence);
        let begin = Instant::now();
        for (k, burst) in frames.chunks(BURST).enumerate() {
            // A congruential generator; its upper bits are random enough.
            queued = queued.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let now_ns = (first + (BURST * k) as u64) * 70 + 10_000 + (queued >> 54);
            for frame in burst {
                account.frame(0, frame, now_ns);
            }
        }
        spent += begin.elapsed().as_nanos();
    }
    assert_eq!(account.received(), sequence, "every frame was received");
    spent as f64 / sequence as f64
}

fn main() {
    let items = items();
    let mut costs = vec![Vec::new(); items.len()];
    for _ in 0..ROUNDS {
        for (item, costs) in items.iter().zip(&mut costs) {
            costs.push(measure(item));
        }
    }
    println!(
        "{:<24} {:>9} {:>9} {:>12}",
        "", "best ns", "median", "Mframes/s"
    );
    for (item, costs) in items.iter().zip(&mut costs) {
        costs.sort_by(f64::total_cmp);
        let (best, median) = (costs[0], costs[ROUNDS / 2]);
        println!(
            "{:<24} {best:>9.2} {median:>9.2} {:>12.1}",
            item.name,
            1e3 / median
        );
    }
}
