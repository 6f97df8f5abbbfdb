use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn duet(duration_ns: u64) -> Schedule {
    let pattern = Pattern {
        order: &[0, 1, 1, 0],
        length_ns: 20 * MS,
        settle_ns: 2 * MS,
        discard_ns: 6 * MS,
    };
    Schedule::new(&pattern, duration_ns)
}

#[test]
fn a_change_of_groups_settles_and_discards_and_the_same_group_goes_on() {
    let schedule = duet(110 * MS);
    let seen: Vec<_> = schedule
        .windows()
        .iter()
        .map(|w| {
            [
                w.group as u64 * MS,
                w.start_ns,
                w.send_ns,
                w.measure_ns,
                w.end_ns,
                w.idle_ns,
            ]
        })
        .map(|times| times.map(|ns| ns / MS))
        .collect();
    let expected = [
        [0, 0, 2, 8, 20, 2],
        [1, 20, 22, 28, 40, 22],
        [1, 40, 40, 40, 60, 22],
        [0, 60, 62, 68, 80, 44],
        // The order begins anew with the group that it ended with.
        [0, 80, 80, 80, 100, 44],
        // The trial ends in this one.
        [1, 100, 102, 108, 110, 64],
    ];
    assert_eq!(seen, expected);
    assert_eq!(schedule.sent_ns(0, u64::MAX), 56 * MS);
    assert_eq!(schedule.sent_ns(1, u64::MAX), 46 * MS);
    assert_eq!(schedule.sent_ns(1, 50 * MS), 28 * MS);
}

#[test]
fn one_group_is_a_time_series_without_holes() {
    let pattern = Pattern {
        order: &[0],
        length_ns: MS,
        settle_ns: 0,
        discard_ns: 0,
    };
    let schedule = Schedule::new(&pattern, 10 * MS);
    assert_eq!(schedule.windows().len(), 10);
    assert!(
        schedule
            .windows()
            .iter()
            .all(|w| w.measure_ns == w.start_ns)
    );
    assert!(schedule.windows().iter().all(|w| w.idle_ns == 0));
    assert_eq!(schedule.sent_ns(0, u64::MAX), 10 * MS);
}

fn patterns() -> impl Strategy<Value = (Schedule, u64)> {
    let order = prop::collection::vec(0usize..4, 1..9);
    (order, 1..50u64, 0..50u64, 0..50u64, 1..2_000u64).prop_map(
        |(order, length, settle, discard, duration)| {
            let pattern = Pattern {
                order: &order,
                length_ns: length * MS,
                settle_ns: (settle * MS).min(length * MS - 1),
                discard_ns: (discard * MS).min(length * MS - 1),
            };
            (Schedule::new(&pattern, duration * MS), duration * MS)
        },
    )
}

proptest! {
    #[test]
    fn slices_lie_end_to_end_and_a_groups_own_time_never_jumps((schedule, duration_ns) in patterns()) {
        let windows = schedule.windows();
        prop_assert_eq!(windows[0].start_ns, 0);
        prop_assert_eq!(windows[windows.len() - 1].end_ns, duration_ns);
        for pair in windows.windows(2) {
            prop_assert_eq!(pair[0].end_ns, pair[1].start_ns);
        }
        let mut own_ns = [0; 4];
        for window in windows {
            prop_assert!(window.start_ns <= window.send_ns);
            prop_assert!(window.send_ns <= window.measure_ns);
            prop_assert!(window.measure_ns <= window.end_ns);
            prop_assert_eq!(window.send_ns - window.idle_ns, own_ns[window.group]);
            own_ns[window.group] = window.end_ns - window.idle_ns;
        }
        for (group, own_ns) in own_ns.into_iter().enumerate() {
            prop_assert_eq!(schedule.sent_ns(group, duration_ns), own_ns);
        }
    }

    /// A loop with turns of any length: every frame that its group offered is
    /// in one slice, or in a part of it that is not measured.
    #[test]
    fn counts_of_slices_and_what_is_discarded_add_up(
        (schedule, duration_ns) in patterns(),
        turns in prop::collection::vec((1..3 * MS, 0..20u64), 1..400),
        sleep in (0..400usize, 0..500 * MS),
    ) {
        let mut slicer = Slicer::new(&schedule);
        let mut totals = [0u64; 4];
        // Frames by what the loop would have called the time of their turn.
        let (mut measured, mut elapsed_ns, mut at_ns) = (0, 0, 0);
        for (number, (turn_ns, frames)) in turns.into_iter().cycle().enumerate() {
            elapsed_ns += turn_ns + if number == sleep.0 { sleep.1 } else { 0 };
            if elapsed_ns >= at_ns {
                slicer.advance(elapsed_ns, |group| of(totals[group]));
                at_ns = slicer.next_ns(elapsed_ns);
                prop_assert!(at_ns > elapsed_ns);
            }
            if elapsed_ns >= duration_ns {
                break;
            }
            let window = slicer.window();
            prop_assert!(elapsed_ns >= window.start_ns);
            if elapsed_ns >= window.send_ns {
                totals[window.group] += frames;
                measured += if slicer.from.is_some() { frames } else { 0 };
            }
        }
        let slices = slicer.finish(elapsed_ns, |group| of(totals[group]));
        prop_assert_eq!(slices.len(), schedule.windows().len());
        prop_assert_eq!(slices.iter().map(|slice| slice.offered).sum::<u64>(), measured);
        for (slice, window) in slices.iter().zip(schedule.windows()) {
            prop_assert_eq!(slice.group, window.group);
            prop_assert!(slice.start_ns >= window.measure_ns);
            prop_assert!(slice.length_ns > 0 || slice.offered == 0);
        }
    }
}

fn of(frames: u64) -> Totals {
    Totals {
        offered: frames,
        ..Totals::default()
    }
}

#[test]
fn a_core_that_slept_says_so_in_the_slice_before_and_in_the_one_it_came_late_to() {
    let schedule = duet(200 * MS);
    let mut slicer = Slicer::new(&schedule);
    let gaps = |gap_ns| {
        move |_| Totals {
            gap_ns,
            ..Totals::default()
        }
    };
    slicer.advance(0, gaps(0));
    slicer.advance(8 * MS, gaps(0));
    // It sleeps from 15 ms to 72 ms: past the whole of two slices.
    slicer.advance(72 * MS, gaps(57 * MS));
    slicer.advance(80 * MS, gaps(57 * MS));
    let slices = slicer.finish(81 * MS, gaps(57 * MS));
    let seen = slices.iter().map(|s| [s.start_ns, s.length_ns, s.gap_ns]);
    let seen: Vec<_> = seen.map(|times| times.map(|ns| ns / MS)).collect();
    let expected = [[8, 64, 57], [28, 0, 0], [40, 0, 0], [72, 8, 4], [80, 1, 0]];
    assert_eq!(seen, expected);
}

#[test]
fn of_several_workers_only_what_all_measured_counts() {
    let one = SliceCounts {
        group: 1,
        start_ns: 10,
        length_ns: 100,
        switch_ns: Some(3),
        offered: 5,
        refused: 1,
        received: 0,
        gap_ns: 0,
    };
    let mut both = one;
    both.add(&SliceCounts {
        start_ns: 12,
        length_ns: 40,
        switch_ns: None,
        offered: 0,
        refused: 0,
        received: 4,
        gap_ns: 60,
        ..one
    });
    let expected = SliceCounts {
        start_ns: 12,
        length_ns: 40,
        received: 4,
        gap_ns: 60,
        ..one
    };
    assert_eq!(both, expected);
}
