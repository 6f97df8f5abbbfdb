//! The truth of a device, in a time of its own.

use super::*;
use std::net::Ipv4Addr;

const MS: u64 = 1_000_000;
const LONGEST: usize = 64;

/// UDP over IPv4 from 10.0.0.`client`:1025 to 10.0.0.2:12.
fn frame(client: u8) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, client, 10, 0, 0, 2]);
    frame[34..40].copy_from_slice(&[4, 1, 0, 12, 0, 26]);
    frame
}

/// A device that is offered frames at the end of turns.
struct Device {
    lane: Lane,
    /// When each frame left.
    left_ns: Vec<u64>,
}

impl Device {
    fn new(truth: &Truth) -> Self {
        Self {
            lane: Lane::new(truth, 0, 1024, LONGEST, 0),
            left_ns: Vec::new(),
        }
    }

    /// A turn at `now_ns` in which frames of these clients arrive.
    fn turn(&mut self, now_ns: u64, clients: impl IntoIterator<Item = u8>) {
        let left_ns = &mut self.left_ns;
        self.lane.leave(now_ns, |count, _| {
            left_ns.extend(std::iter::repeat_n(now_ns, count));
            count
        });
        for client in clients {
            self.lane.enter(&frame(client), now_ns, None);
        }
    }

    /// The counts once everything has left, which add up.
    fn counts(mut self) -> Counts {
        for now_ns in [1 << 50, 1 << 51] {
            self.turn(now_ns, []);
        }
        let counts = self.lane.counts();
        assert_eq!(counts.waiting, 0);
        assert_eq!(counts.received, counts.sent + counts.drops.total());
        counts
    }
}

fn paced(rate_fps: f64, ring: u32) -> Truth {
    Truth {
        rate_fps: Some(rate_fps),
        ring,
        ..Truth::default()
    }
}

fn one_of_ten() -> impl Iterator<Item = u8> {
    std::iter::repeat_n(1, 10)
}

#[test]
fn what_finds_the_ring_full_is_dropped_there() {
    let mut device = Device::new(&paced(1e6, 4));
    device.turn(0, one_of_ten());
    device.turn(1_000, []);
    assert_eq!(device.left_ns, [1_000]);
    let counts = device.counts();
    assert_eq!((counts.sent, counts.drops.ring), (4, 6));
    assert_eq!(counts.drops.total(), 6);
}

/// Whatever the turns of the loop, as many frames leave in a second as the rate says.
#[test]
fn an_overloaded_device_forwards_at_its_rate_however_uneven_its_turns_are() {
    for turns_ns in [&[2_000][..], &[1_000, 1_000, 700_000, 5_000]] {
        let mut device = Device::new(&paced(500e3, 64));
        let (mut now_ns, mut offered) = (0, 0);
        for turn_ns in turns_ns.iter().cycle() {
            now_ns += turn_ns;
            // Two million frames a second.
            let due = now_ns / 500;
            device.turn(now_ns, (offered..due).map(|_| 1));
            offered = due;
            if now_ns >= 1_000 * MS {
                break;
            }
        }
        let sent = device.lane.counts().sent;
        assert!(
            (499_000..=500_100).contains(&sent),
            "{sent} in {turns_ns:?}"
        );
    }
}

#[test]
fn a_stall_of_the_loop_costs_nothing_below_the_rate() {
    let mut device = Device::new(&paced(1e6, 64));
    device.turn(0, []);
    // Half a millisecond, in which 450 frames arrived at 900,000 a second.
    device.turn(500_000, (0..450).map(|_| 1));
    let counts = device.counts();
    assert_eq!((counts.sent, counts.drops.ring), (450, 0));
}

#[test]
fn a_new_flow_takes_longer_and_a_table_that_is_full_leaves_flows_new() {
    let truth = Truth {
        new_flow_ns: 9_000,
        flows: 2,
        ..paced(1e6, 64)
    };
    let mut device = Device::new(&truth);
    device.turn(0, [1, 1, 2, 3, 3]);
    for now_ns in (1_000..=50_000).step_by(1_000) {
        device.turn(now_ns, []);
    }
    assert_eq!(device.left_ns, [10_000, 11_000, 21_000, 31_000, 41_000]);
    assert_eq!(device.counts().new_flows, 4);
}

#[test]
fn a_device_stands_still_in_its_pauses() {
    let pause = Pause {
        period_ns: 10 * MS,
        length_ns: 2 * MS,
    };
    let truth = Truth {
        pause: Some(pause),
        ..paced(1e3, 64)
    };
    let mut device = Device::new(&truth);
    device.turn(0, one_of_ten());
    for now_ms in 1..=20 {
        device.turn(now_ms * MS, []);
    }
    let expected = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12].map(|ms| ms * MS);
    assert_eq!(device.left_ns, expected);
}

#[test]
fn planted_losses_are_counted_at_their_place_and_nowhere_else() {
    let every = Some(Loss::Every(10));
    let none = Truth::default();
    for (truth, expected) in [
        (
            Truth {
                rx: every,
                ..none.clone()
            },
            [10, 0, 0],
        ),
        (
            Truth {
                table: every,
                ..none.clone()
            },
            [0, 10, 0],
        ),
        (
            Truth {
                tx: every,
                ..none.clone()
            },
            [0, 0, 10],
        ),
        (
            Truth {
                rx: every,
                table: every,
                tx: every,
                ..none.clone()
            },
            [10, 9, 8],
        ),
    ] {
        let mut device = Device::new(&truth);
        device.turn(0, (0..100).map(|_| 1));
        let drops = device.counts().drops;
        assert_eq!([drops.rx, drops.table, drops.tx], expected, "{truth:?}");
        assert_eq!(drops.total(), expected.iter().sum::<u64>());
    }
}

#[test]
fn a_loss_that_is_drawn_is_the_same_for_the_same_seed() {
    let lost = |seed| {
        let rx = Some(Loss::Share(0.25));
        let mut device = Device::new(&Truth {
            rx,
            seed,
            ..Truth::default()
        });
        for turn in 0..100 {
            device.turn(turn, (0..100).map(|_| 1));
        }
        device.counts().drops.rx
    };
    assert!((2_300..2_700).contains(&lost(1)), "{}", lost(1));
    assert_eq!(lost(1), lost(1));
    assert_ne!(lost(1), lost(2));
}

#[test]
fn the_first_rule_that_matches_decides_and_has_a_counter_of_its_own() {
    let of = |client: u8| Match {
        src: Some(Ipv4Addr::new(10, 0, 0, client).into()),
        ..Match::default()
    };
    let rules = vec![
        Rule {
            matches: of(1),
            every: 2,
        },
        Rule {
            matches: of(2),
            every: 1,
        },
        Rule {
            matches: Match {
                dst_port: Some(12),
                ..Match::default()
            },
            every: 4,
        },
        Rule {
            matches: Match {
                protocol: Some(6),
                ..Match::default()
            },
            every: 1,
        },
    ];
    let mut device = Device::new(&Truth {
        rules,
        ..Truth::default()
    });
    device.turn(0, (0..40).map(|k| [1, 2, 3, 3][k % 4]));
    let counts = device.counts();
    assert_eq!(counts.drops.rules, [5, 10, 5, 0]);
    assert_eq!(counts.sent, 20);
}

#[test]
fn what_the_other_port_does_not_take_is_counted_and_its_room_is_free_again() {
    let mut lane = Lane::new(
        &Truth {
            ring: 8,
            ..Truth::default()
        },
        0,
        1,
        LONGEST,
        0,
    );
    for turn in 1..1_000 {
        for _ in 0..8 {
            lane.enter(&frame(1), turn, None);
        }
        lane.leave(turn, |count, _| count - 1);
    }
    let counts = lane.counts();
    assert_eq!(
        (counts.received, counts.drops.full, counts.drops.ring),
        (7_992, 999, 0)
    );
}

fn offloading(rate_fps: f64, needs_reply: bool) -> Truth {
    Truth {
        hardware: Some(Hardware {
            rate_fps: Some(rate_fps),
            needs_reply,
        }),
        ..paced(1e3, 1024)
    }
}

/// All frames of a flow but its first one are hardware's, which has a rate of its own.
#[test]
fn hardware_serves_what_it_offloads_at_its_own_rate() {
    let mut device = Device::new(&offloading(1e6, false));
    device.turn(0, [1]);
    device.turn(2 * MS, std::iter::repeat_n(1, 10));
    device.turn(2 * MS + 20_000, []);
    assert_eq!(device.left_ns.len(), 11, "{:?}", device.left_ns);
    let counts = device.counts();
    assert_eq!((counts.software_frames, counts.new_flows), (1, 1));
}

/// A flow whose reply was never seen stays in software.
#[test]
fn what_needs_a_reply_is_offloaded_once_there_is_one() {
    let truth = offloading(1e6, true);
    let mut lane = Lane::new(&truth, 0, 1024, LONGEST, 0);
    let mut back = Lane::new(&truth, 1, 1024, LONGEST, 0);
    let reply = {
        let mut reply = frame(1);
        reply[26..34].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
        reply[34..38].copy_from_slice(&[0, 12, 4, 1]);
        reply
    };
    for _ in 0..3 {
        lane.enter(&frame(1), 0, back.flows());
    }
    assert_eq!(lane.counts().software_frames, 3);
    back.enter(&reply, 0, lane.flows());
    for _ in 0..3 {
        lane.enter(&frame(1), 0, back.flows());
        back.enter(&reply, 0, lane.flows());
    }
    assert_eq!(lane.counts().software_frames, 3);
    assert_eq!(back.counts().software_frames, 1, "its first frame");
}
