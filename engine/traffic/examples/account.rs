//! What the account of a received frame costs, item by item.
//!
//! `cargo run --release -p pinchpoint-traffic --example account [ITEM]`
//!
//! Bursts of 64 frames that follow one another, of 60 bytes unless the item says
//! otherwise, stamped and received together, of which every burst takes another
//! time. Items are measured in turn, again and again, and the median is shown: a
//! busy machine disturbs all alike.

use pinchpoint_traffic::account::{Account, Expected, Sender, Settings};
use pinchpoint_traffic::flows::FlowMap;
use pinchpoint_traffic::sent_bound::SentBound;
use pinchpoint_wire::checksum;
use pinchpoint_wire::signature::{LEN, Stamper};
use std::sync::Arc;
use std::time::Instant;

const BURST: usize = 64;
/// Frames written before they are accounted; few enough for the caches,
const CHUNK: usize = 64 * BURST;
/// and so are their bytes, for a second-level cache of 1 MiB.
const CHUNK_BYTES: usize = 384 * 1024;
const SHORT: usize = 60;
const LONG: usize = 1514;
const CHUNKS: u64 = 500;
const ROUNDS: usize = 15;

/// A named way to keep the account.
struct Item {
    name: &'static str,
    settings: Settings,
    flows: Option<(FlowMap, usize)>,
    shared: bool,
    /// Over how many queues the frames are spread, of which one is accounted.
    queues: u64,
    checksums: bool,
    /// Bytes of a frame, without check sequence.
    len: usize,
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
        queues: 1,
        checksums: false,
        len: SHORT,
    };
    let checked = |name, len| Item {
        checksums: true,
        len,
        ..item(name, jitter, flows(65_536), true)
    };
    vec![
        item("counts and latency", plain, None, false),
        item("latency of one in 7", sampled, None, false),
        item("with jitter", jitter, None, false),
        item("sent by another core", plain, None, true),
        item("with 1,000 flows", plain, flows(1_000), false),
        item("with 65,536 flows", plain, flows(65_536), false),
        item("all of these", jitter, flows(65_536), true),
        Item {
            queues: 4,
            ..item("all, of one of 4 queues", jitter, flows(65_536), true)
        },
        checked("all, and checksums", SHORT),
        checked("all, checksums, 1,518 B", LONG),
    ]
}

/// UDP over IPv4 in `len` bytes, all checksums right; a signature, whatever it
/// says, does not change them.
fn frame(len: usize) -> Vec<u8> {
    let (packet_len, datagram_len) = ((len - 14) as u16, (len - 34) as u16);
    let mut frame = vec![0; len];
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&packet_len.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    let header = checksum::finish(checksum::sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    frame[34..38].copy_from_slice(&[4, 0, 4, 1]);
    frame[38..40].copy_from_slice(&datagram_len.to_be_bytes());
    let pseudo_header = checksum::sum(&frame[26..34]) + 17 + u64::from(datagram_len);
    let datagram = checksum::finish(pseudo_header + checksum::sum(&frame[34..42]));
    frame[40..42].copy_from_slice(&datagram.to_be_bytes());
    frame
}

/// How far the next number is of those that one of several queues gets by chance: as many as there
/// are queues, on average.
fn step(sequence: u64, queues: u64) -> u64 {
    let random = sequence.wrapping_mul(0x5851_f42d_4c95_7f2d) >> 40;
    1 + random % (2 * queues - 1)
}

/// Nanoseconds a frame.
fn measure(item: &Item) -> f64 {
    let sent_bound = Arc::new(SentBound::new());
    let expected = Expected {
        id: 5,
        rx_ports: vec![0],
        is_expected: true,
        flow_count: None,
        frames: None,
        sender: if item.shared {
            Sender::Elsewhere(Arc::clone(&sent_bound))
        } else {
            Sender::Here
        },
        verify_checksums: item.checksums,
        flows: item.flows,
        unsigned: None,
    };
    let mut account = Account::new(&item.settings, &[expected], 1);
    let bursts = (CHUNK_BYTES / item.len / BURST).min(CHUNK / BURST);
    let mut frames = frame(item.len).repeat(bursts * BURST);
    let (mut sequence, mut count, mut spent, mut queued) = (0u64, 0u64, 0u128, 1u64);
    for _ in 0..CHUNKS {
        let first = count;
        for burst in frames.chunks_mut(BURST * item.len) {
            let stamper = Stamper::new(1, 5, count * 70);
            for frame in burst.chunks_exact_mut(item.len) {
                let tail: &mut [u8; LEN] = frame.last_chunk_mut().expect("60 bytes");
                stamper.emit(sequence, tail);
                count += 1;
                sequence += step(sequence, item.queues);
            }
        }
        account.sent(0, sequence);
        sent_bound.reach(sequence);
        let begin = Instant::now();
        for (k, burst) in frames.chunks(BURST * item.len).enumerate() {
            // A congruential generator; its upper bits are random enough.
            queued = queued.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let now_ns = (first + (BURST * k) as u64) * 70 + 10_000 + (queued >> 54);
            for frame in burst.chunks_exact(item.len) {
                account.frame(0, frame, now_ns);
            }
        }
        spent += begin.elapsed().as_nanos();
    }
    assert_eq!(account.received(), count, "every frame was received");
    spent as f64 / count as f64
}

fn main() {
    let chosen = std::env::args().nth(1);
    let is_chosen = |item: &Item| chosen.as_ref().is_none_or(|name| name == item.name);
    let items: Vec<Item> = items().into_iter().filter(is_chosen).collect();
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
