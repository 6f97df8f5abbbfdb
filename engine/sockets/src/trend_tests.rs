//! What is a change of level, and how often a host's wandering looks like one.

use super::*;

/// Numbers that look random, the same in every run (xorshift, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Nearly normal, of mean 0 and deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// `seconds` of counts that are `level` times the noise of a busy host: 9 %
/// from one tenth to the next, and a stall of 0.1 to 0.3 s every ten seconds.
fn counts(
    seconds: usize,
    random: &mut Random,
    mut level: impl FnMut(&mut Random, f64) -> f64,
) -> Vec<u64> {
    let mut stalled = 0;
    let count = |tenth: usize| {
        let rate = 1000.0 * level(random, tenth as f64 / 10.0) * (0.09 * random.normal()).exp();
        if random.uniform() < 0.01 {
            stalled = 1 + (random.uniform() * 3.0) as usize;
        }
        let stalls = stalled > 0;
        stalled = stalled.saturating_sub(1);
        (if stalls { rate / 10.0 } else { rate }) as u64
    };
    (0..10 * seconds).map(count).collect()
}

fn trend(counts: &[u64]) -> Option<Trend> {
    of(counts, counts.len() as u64 * SLOT_NS)
}

fn change(counts: &[u64]) -> Option<Change> {
    trend(counts).unwrap().change
}

#[test]
fn a_collapse_is_found_with_its_levels_wherever_it_is() {
    let random = &mut Random(1);
    for seconds in [3, 8, 30, 120] {
        for at_s in [0.5, 0.5 * seconds as f64, seconds as f64 - 1.6] {
            for (before, after) in [(14.0, 0.3), (2.4, 1.0), (1.0, 2.4)] {
                // Its length distinguishes a rise from a stall at the beginning.
                if after > before && at_s < 1.4f64.max(0.06 * seconds as f64) {
                    continue;
                }
                // A fall, from one at the end.
                if before > after && (seconds as f64 - at_s) < 0.06 * seconds as f64 {
                    continue;
                }
                let level = |_: &mut Random, at| if at < at_s { before } else { after };
                let found = change(&counts(seconds, random, level));
                let case = format!("{seconds} s, at {at_s} s from {before} to {after}: {found:?}");
                let Some(found) = found else {
                    panic!("{case}");
                };
                assert!((found.at_s - at_s).abs() <= 0.45, "{case}");
                let near = |found: f64, true_per_s: f64| (found / true_per_s - 1.0).abs() < 0.2;
                assert!(near(found.before_per_s, before * 1e4), "{case}");
                assert!(near(found.after_per_s, after * 1e4), "{case}");
            }
        }
    }
}

#[test]
fn a_slow_fall_is_found_once_it_is_deep() {
    let random = &mut Random(2);
    let fall_to = |end: f64| move |_: &mut Random, at: f64| 1.0 - (1.0 - end) * at / 20.0;
    assert!(change(&counts(20, random, fall_to(0.1))).is_some());
    assert!(change(&counts(20, random, fall_to(0.6))).is_none());
    let thirds = trend(&counts(20, random, fall_to(0.6))).unwrap();
    let ratio = thirds.last_third_per_s / thirds.first_third_per_s;
    assert!((0.65..0.8).contains(&ratio), "{ratio}");
}

#[test]
fn what_comes_back_is_no_change_of_level() {
    let random = &mut Random(3);
    for (begin_s, end_s) in [(0.0, 0.4), (3.0, 6.0), (9.7, 10.0)] {
        let level = |_: &mut Random, at| {
            if (begin_s..end_s).contains(&at) {
                0.1
            } else {
                1.0
            }
        };
        assert_eq!(change(&counts(10, random, level)), None, "{begin_s}");
    }
}

/// Share of 300 windows of `seconds` in which a change is reported.
fn false_alarms<L: FnMut(&mut Random, f64) -> f64>(seconds: usize, level: fn(f64) -> L) -> f64 {
    let random = &mut Random(4);
    let changed = (0..300).filter(|_| {
        let phase = random.uniform();
        change(&counts(seconds, random, level(phase))).is_some()
    });
    changed.count() as f64 / 300.0
}

/// A rate that wanders by `PER_SECOND` per cent a second.
fn walk<const PER_SECOND: u32>(_: f64) -> impl FnMut(&mut Random, f64) -> f64 {
    let mut log = 0.0;
    move |random, _| {
        log += f64::from(PER_SECOND) / 100.0 * 0.1f64.sqrt() * random.normal();
        log.exp()
    }
}

/// Two levels, 1.6 apart, of `EVERY` seconds on average.
fn jumps<const EVERY: u32>(phase: f64) -> impl FnMut(&mut Random, f64) -> f64 {
    let mut far = phase < 0.5;
    move |random, _| {
        far ^= random.uniform() < 0.1 / f64::from(EVERY);
        if far { 1.0 } else { 1.6 }
    }
}

#[test]
fn a_host_whose_rate_wanders_raises_few_alarms() {
    for seconds in [2, 5, 10, 30] {
        let found = [
            ("quiet", false_alarms(seconds, |_| |_: &mut Random, _| 1.0)),
            ("2 %/s", false_alarms(seconds, walk::<2>)),
            ("jumps, 5 s", false_alarms(seconds, jumps::<5>)),
            ("jumps, 20 s", false_alarms(seconds, jumps::<20>)),
            ("10 %/s", false_alarms(seconds, walk::<10>)),
        ];
        println!("{seconds} s: {found:?}");
        for (host, share) in found {
            // A walk of 10 % a second does halve the rate for good within 30 s.
            let most = if (seconds, host) == (30, "10 %/s") {
                0.15
            } else {
                0.01
            };
            assert!(share <= most, "{seconds} s, {host}: {share}");
        }
    }
}

#[test]
fn few_transactions_or_a_short_window_have_no_trend() {
    assert_eq!(trend(&[1000; 19]), None);
    assert!(trend(&[1000; 20]).is_some());
    // 2 a second for 30 s: 60 of them make no 20 slots worth counting.
    let sparse: Vec<u64> = (0..300).map(|tenth| u64::from(tenth % 5 == 0)).collect();
    assert_eq!(trend(&sparse), None);
    assert_eq!(trend(&[0; 100]), None);
}

#[test]
fn a_window_that_ended_early_is_judged_by_what_it_had() {
    let mut counts = vec![1000; 50];
    counts.extend([0; 50]);
    assert_eq!(of(&counts, 5_000_000_000).unwrap().change, None);
}
