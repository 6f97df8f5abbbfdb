//! When frames are due, and what becomes of those that are not offered then.

use super::*;
use proptest::prelude::*;

#[test]
fn catching_up_fills_at_most_a_quarter_of_the_ring() {
    let mut pacer = Pacer::paced(1e7, 1.0, 0.0).within(256, 1.0);
    assert_eq!(pacer.due(1_000_000, 1000), 64);
    let mut pacer = Pacer::paced(1e7, 1.0, 0.0).within(4096, 1.0);
    assert_eq!(pacer.due(1_000_000, 10_000), CATCH_UP_MAX);
}

#[test]
fn frames_are_due_by_time() {
    let mut pacer = Pacer::paced(1e6, 1.0, 0.0);
    assert_eq!(pacer.due(0, 32), 1);
    pacer.offer(1);
    assert_eq!(pacer.due(999, 32), 0);
    assert_eq!(pacer.due(1_000, 32), 1);
    pacer.offer(1);
    assert_eq!(pacer.due(10_500, 32), 9);
    assert_eq!(pacer.largest_burst(), 9);
    assert_eq!(pacer.latest_ns(), Some(8_500));
}

#[test]
fn a_phase_delays_every_frame_by_part_of_an_interval() {
    let mut pacer = Pacer::paced(1e6, 1.0, 0.25);
    assert_eq!(pacer.due(249, 32), 0);
    assert_eq!(pacer.due(250, 32), 1);
    pacer.offer(1);
    assert_eq!(pacer.due(1249, 32), 0);
    assert_eq!(pacer.due(1250, 32), 1);
}

#[test]
fn a_long_gap_is_shortfall_and_not_a_giant_burst() {
    let mut pacer = Pacer::paced(1e7, 1.0, 0.0);
    assert_eq!(pacer.due(5_000_000, 64), 64);
    assert_eq!(pacer.largest_burst(), CATCH_UP_MAX);
    let mut sent = 0;
    while pacer.due(5_000_000, 64) > 0 {
        pacer.offer(64);
        sent += 64;
    }
    assert_eq!(sent, CATCH_UP_MAX);
    assert_eq!(pacer.skipped, 50_001 - CATCH_UP_MAX);
}

#[test]
fn a_stopped_trial_keeps_its_identity() {
    let mut pacer = Pacer::paced(1e6, 10.0, 0.0);
    let due = pacer.due(9_999, 64);
    pacer.offer(due);
    pacer.cut(19_999);
    assert_eq!(pacer.intended(), Some(20));
    assert_eq!(pacer.shortfall(), Some(10));
}

#[test]
fn a_number_of_frames_is_offered_whatever_the_gaps() {
    let mut pacer = Pacer::paced(1e6, 1.0, 0.0).exactly(5000).within(64, 0.5);
    assert!(pacer.offers_again());
    let due = pacer.due(999, 64);
    pacer.offer(due);
    assert_eq!(due, 1);
    assert_eq!(pacer.due(900_000_000, 10_000), 4999);
    pacer.offer(4999);
    assert!(pacer.is_done());
    assert_eq!(pacer.shortfall(), Some(0));
}

#[test]
fn a_duration_with_fewer_frames_than_asked_for_is_the_limit() {
    let pacer = Pacer::paced(1e6, 0.001, 0.0).exactly(5000);
    assert_eq!(pacer.intended(), Some(1000));
}

#[test]
fn the_frames_of_a_burst_are_due_together_at_the_mean_rate() {
    let mut pacer = Pacer::paced(1e6, 1.0, 0.0).shaped(Shape::Bursts { frames: 50 });
    assert_eq!(pacer.intended(), Some(1_000_000));
    for (elapsed_ns, wanted) in [(0, 50), (49_999, 0), (50_000, 50), (150_000, 100)] {
        assert_eq!(pacer.due(elapsed_ns, 1000), wanted, "at {elapsed_ns} ns");
        pacer.offer(wanted);
    }
    assert_eq!(pacer.latest_ns(), Some(50_000));
    assert_eq!(pacer.shortfall(), Some(1_000_000 - 200));
}

#[test]
fn a_phase_delays_bursts_by_part_of_their_distance() {
    let mut pacer = Pacer::paced(1e6, 1.0, 0.25).shaped(Shape::Bursts { frames: 100 });
    assert_eq!(pacer.due(24_999, 1000), 0);
    assert_eq!(pacer.due(25_000, 1000), 100);
}

#[test]
fn a_burst_larger_than_the_catch_up_limit_is_no_shortfall() {
    let shape = Shape::Bursts { frames: 10_000 };
    for pacer in [
        Pacer::paced(1e6, 0.02, 0.0).shaped(shape).within(256, 1.0),
        Pacer::paced(1e6, 0.02, 0.0).within(256, 1.0).shaped(shape),
    ] {
        let mut pacer = pacer;
        for elapsed_ns in [0, 10_000_000] {
            assert_eq!(pacer.due(elapsed_ns, u64::MAX), 10_000);
            pacer.offer(10_000);
        }
        assert!(pacer.is_done());
        assert_eq!(pacer.shortfall(), Some(0));
    }
}

/// How the lab asks for one burst back to back: protocol/README.md, "Streams".
#[test]
fn one_burst_at_the_highest_rate_is_all_due_at_once_and_exactly_so_many_frames() {
    for frames in [
        1,
        2,
        3,
        64,
        1023,
        1024,
        4097,
        65_535,
        1_000_003,
        100_000_000,
    ] {
        let duration_s = (frames as f64 + 0.5) / 1e9;
        let mut pacer = Pacer::paced(1e9, duration_s, 0.0)
            .shaped(Shape::Bursts { frames })
            .within(256, 1.0);
        assert_eq!(pacer.intended(), Some(frames));
        assert_eq!(pacer.due(0, u64::MAX), frames);
        pacer.offer(frames / 2);
        // However long it takes, nothing is skipped and nothing more falls due.
        assert_eq!(pacer.due(1_000_000_000, u64::MAX), frames - frames / 2);
        pacer.offer(frames - frames / 2);
        assert!(pacer.is_done());
        assert_eq!(pacer.shortfall(), Some(0));
    }
}

#[test]
fn a_gap_of_several_bursts_is_shortfall_beyond_the_catch_up_limit() {
    let mut pacer = Pacer::paced(1e6, 1.0, 0.0).shaped(Shape::Bursts { frames: 1000 });
    assert_eq!(pacer.due(5_000_000, u64::MAX), 1000 + 500 - 1);
}

#[test]
fn bursts_of_one_frame_are_steady() {
    let steady = Pacer::paced(3e6, 0.01, 0.5);
    let mut pacers = [
        steady.clone().shaped(Shape::Bursts { frames: 1 }),
        steady.clone().shaped(Shape::Bursts { frames: 0 }),
        steady.clone().shaped(Shape::Ramp { from_share: 1.0 }),
        steady,
    ];
    for elapsed_ns in (0..10_001_000).step_by(777) {
        let due = pacers.each_mut().map(|pacer| {
            let due = pacer.due(elapsed_ns, 64);
            pacer.offer(due);
            due
        });
        assert_eq!(due, [due[3]; 4], "at {elapsed_ns} ns");
    }
    let offered = pacers.each_ref().map(Pacer::offered);
    assert_eq!(offered, [30_000; 4]);
    assert_eq!(pacers[0].latest_ns(), pacers[3].latest_ns());
}

#[test]
fn a_ramp_grows_to_its_rate_in_a_straight_line() {
    let mut pacer = Pacer::paced(1e6, 1.0, 0.0).shaped(Shape::Ramp { from_share: 0.2 });
    assert_eq!(pacer.intended(), Some(600_000));
    let mut offered = [0; 10];
    for elapsed_ns in (0..1_000_000_000).step_by(1000) {
        let due = pacer.due(elapsed_ns, 64);
        pacer.offer(due);
        offered[(elapsed_ns / 100_000_000) as usize] += due;
    }
    for (tenth, offered) in offered.into_iter().enumerate() {
        let mean = 0.2 + 0.8 * (tenth as f64 + 0.5) / 10.0;
        let wanted = 100_000.0 * mean;
        assert!(
            (offered as f64 - wanted).abs() <= 2.0,
            "{offered} in tenth {tenth}"
        );
    }
    assert!(pacer.latest_ns().unwrap() <= 1000, "asked every 1000 ns");
    assert_eq!(pacer.largest_burst(), 1);
}

#[test]
fn a_step_falls_to_its_share_at_its_time() {
    let step = Shape::Step {
        after_s: 0.6,
        to_share: 0.25,
    };
    let mut pacer = Pacer::paced(1e6, 1.0, 0.0).shaped(step);
    assert_eq!(pacer.intended(), Some(700_000));
    let mut offered = [0; 10];
    for elapsed_ns in (0..1_000_000_000).step_by(1000) {
        let due = pacer.due(elapsed_ns, 64);
        pacer.offer(due);
        offered[(elapsed_ns / 100_000_000) as usize] += due;
    }
    for (tenth, offered) in offered.into_iter().enumerate() {
        let wanted = if tenth < 6 { 100_000 } else { 25_000 };
        assert!(
            u64::abs_diff(offered, wanted) <= 1,
            "{offered} in tenth {tenth}"
        );
    }
    assert_eq!(pacer.largest_burst(), 1);
}

#[test]
fn no_more_is_made_up_for_in_a_ramp_than_at_its_rate_of_that_time() {
    let ramp = Pacer::paced(1e7, 1.0, 0.0).shaped(Shape::Ramp { from_share: 0.0 });
    // 2 Mpps after a fifth: 500 us are 1,000 frames.
    assert_eq!(ramp.clone().due(200_000_000, u64::MAX), 1000);
    assert_eq!(ramp.clone().due(5_000_000, u64::MAX), CATCH_UP_MIN);
    assert_eq!(ramp.clone().due(1_000_000_000, u64::MAX), CATCH_UP_MAX);
}

#[test]
fn the_offered_load_is_told_as_a_share_of_the_intended_one() {
    let mut pacer = Pacer::paced(1e6, 1.0, 0.0);
    pacer.offer(999_000);
    assert_eq!(pacer.offered_share(), Some(0.999));
    assert_eq!(pacer.offered_within(0.001), Some(true));
    assert_eq!(pacer.offered_within(0.0009), Some(false));
    assert_eq!(Pacer::paced(1.0, 0.5, 0.0).offered_share(), Some(1.0));
    assert_eq!(Pacer::unpaced().offered_share(), None);
    assert_eq!(Pacer::unpaced().offered_within(0.5), None);
}

/// The times of `frames` Poisson arrivals at 1 Mpps, asked for every nanosecond.
fn arrivals(seed: u64, frames: u64) -> Vec<u64> {
    let duration_s = (frames as f64 + 0.5) / 1e6;
    let mut pacer = Pacer::paced(1e6, duration_s, 0.0).shaped(Shape::Poisson { seed });
    assert_eq!(pacer.intended(), Some(frames));
    let mut times = Vec::new();
    for elapsed_ns in 0..frames * 1000 + 500 {
        let due = pacer.due(elapsed_ns, 64);
        pacer.offer(due);
        times.extend((0..due).map(|_| elapsed_ns));
    }
    assert!(pacer.latest_ns().unwrap() <= 1, "asked every nanosecond");
    times
}

#[test]
fn poisson_arrivals_are_independent_and_exactly_as_many_as_intended() {
    let times = arrivals(7, 10_000);
    let missing = 10_000 - times.len();
    assert!(missing <= 1, "{missing} are due in the last nanosecond");
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    let longer = |mean: u64| gaps.clone().filter(|&gap| gap > mean).count() as f64 / 1e4;
    // Of an exponential distribution: e^-0.5, e^-1 and e^-3.
    for (gap_ns, share) in [(500, 0.607), (1000, 0.368), (3000, 0.050)] {
        let found = longer(gap_ns);
        assert!((found - share).abs() < 0.02, "{found} beyond {gap_ns} ns");
    }
    // In windows of 10 us the variance of the numbers is their mean.
    let mut counts = [0f64; 1000];
    for time in &times {
        counts[(*time as usize / 10_000).min(999)] += 1.0;
    }
    let variance = counts
        .iter()
        .map(|count| (count - 10.0).powi(2))
        .sum::<f64>()
        / 1000.0;
    assert!((8.0..12.0).contains(&variance), "{variance}");
}

#[test]
fn the_seed_decides_when_poisson_arrivals_come() {
    assert_eq!(arrivals(1, 100), arrivals(1, 100));
    assert_ne!(arrivals(1, 100), arrivals(2, 100));
}

#[test]
fn poisson_arrivals_that_come_together_are_no_shortfall_whatever_the_ring() {
    let shape = Shape::Poisson { seed: 3 };
    let mut pacer = Pacer::paced(1e6, 0.01, 0.0).shaped(shape).within(4, 0.1);
    for elapsed_ns in (0..=10_000_000).step_by(500) {
        let due = pacer.due(elapsed_ns, 64);
        pacer.offer(due);
    }
    assert_eq!((pacer.offered(), pacer.shortfall()), (10_000, Some(0)));
    assert!(pacer.largest_burst() > 1);
}

fn capture() -> Arc<Recorded> {
    Arc::new(Recorded::new(vec![0, 100, 150, 700], 1000).unwrap())
}

#[test]
fn frames_of_a_capture_lie_as_in_it_whatever_the_rate() {
    for (speed, duration_s) in [(1.0, 3e-6), (0.5, 6e-6), (0.1, 30e-6)] {
        let rate_fps = capture().rate_fps() * speed;
        let mut pacer = Pacer::paced(rate_fps, duration_s, 0.5).recorded(capture());
        assert_eq!(pacer.intended(), Some(12), "three periods");
        let mut times = Vec::new();
        for elapsed_ns in 0..=(duration_s * 1e9) as u64 {
            let due = pacer.due(elapsed_ns, 64);
            pacer.offer(due);
            times.extend((0..due).map(|_| elapsed_ns as f64 * speed));
        }
        let periods = (0..3).flat_map(|k| [0, 100, 150, 700].map(|at| f64::from(k * 1000 + at)));
        for (time, wanted) in times.iter().zip(periods) {
            assert!((time - wanted).abs() <= 1.5, "{time} for {wanted}");
        }
        assert_eq!((times.len(), pacer.shortfall()), (12, Some(0)));
    }
}

#[test]
fn what_a_capture_has_at_once_is_no_shortfall() {
    let times = Arc::new(Recorded::new(vec![5; 5000], 1_000_000_000).unwrap());
    let mut pacer = Pacer::paced(5000.0, 1.0, 0.0)
        .recorded(times)
        .within(64, 0.1);
    assert_eq!(pacer.due(10, u64::MAX), 5000);
    pacer.offer(5000);
    assert_eq!((pacer.is_done(), pacer.shortfall()), (true, Some(0)));
}

fn shapes() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape::Steady),
        (0u64..5000).prop_map(|frames| Shape::Bursts { frames }),
        (-0.5f64..1.5).prop_map(|from_share| Shape::Ramp { from_share }),
        (0.0f64..0.05, 0.0f64..1.0)
            .prop_map(|(after_s, to_share)| Shape::Step { after_s, to_share }),
        any::<u64>().prop_map(|seed| Shape::Poisson { seed }),
    ]
}

proptest! {
    #[test]
    fn intended_is_offered_plus_shortfall_whatever_the_gaps(
        rate in 1.0f64..5e7,
        phase in 0.0f64..1.0,
        shape in shapes(),
        gaps in proptest::collection::vec(0u64..3_000_000, 1..200),
    ) {
        let duration_s = 0.05;
        let mut pacer = Pacer::paced(rate, duration_s, phase).shaped(shape);
        let mut now = 0;
        for gap in gaps {
            now += gap;
            let frames = pacer.due(now.min(50_000_000), 64);
            prop_assert!(frames <= 64);
            pacer.offer(frames);
        }
        while !pacer.is_done() {
            let frames = pacer.due(50_000_000, 64);
            prop_assert!(frames > 0);
            pacer.offer(frames);
        }
        let (area, together) = match shape {
            Shape::Steady => (1.0, 1),
            Shape::Bursts { frames } => (1.0, frames.max(1)),
            Shape::Ramp { from_share } => (f64::midpoint(from_share.clamp(0.0, 1.0), 1.0), 1),
            Shape::Step { after_s, to_share } => {
                ((after_s + (duration_s - after_s) * to_share) / duration_s, 1)
            }
            Shape::Poisson { .. } => (1.0, CATCH_UP_MIN),
        };
        // Half a frame either way: two sums of the same areas differ in their last bits.
        let intended = pacer.intended().unwrap();
        prop_assert!((rate * duration_s * area - 0.5 - intended as f64).abs() <= 0.5 + 1e-6);
        prop_assert_eq!(pacer.offered() + pacer.shortfall().unwrap(), intended);
        prop_assert!(pacer.largest_burst() < CATCH_UP_MAX + together);
    }

    #[test]
    fn a_frame_is_due_when_its_time_has_come_and_not_before(
        rate in 1e3f64..5e7,
        phase in 0.0f64..0.99,
        shape in shapes(),
        k in 0u64..20_000,
    ) {
        let pacer = Pacer::paced(rate, 0.05, phase).shaped(shape);
        prop_assume!(k < pacer.intended().unwrap());
        // What is random is known only when it has come.
        prop_assume!(!matches!(shape, Shape::Poisson { .. }));
        let rate = rate / 1e9;
        let due_ns = pacer.due_at_ns(k, rate);
        prop_assert!(pacer.scheduled(due_ns.ceil() as u64 + 1, rate) > k);
        if due_ns > 2.0 {
            prop_assert!(pacer.scheduled(due_ns.floor() as u64 - 1, rate) <= k);
        }
    }
}
