use super::*;
use proptest::prelude::*;

fn lens(sizes: &Sizes, from: u64, count: usize) -> Vec<usize> {
    let pattern = SizePattern::new(sizes, 5);
    let position = pattern.position(from);
    (0..count)
        .map(|ahead| pattern.size(from, position, ahead).1)
        .collect()
}

fn key(sizes: &Sizes) -> String {
    sizes.validate().unwrap_err().key
}

#[test]
fn rare_sizes_are_spread_between_common_ones() {
    let sizes = Sizes::List(vec![(60, 4), (1000, 2), (1500, 1)]);
    assert_eq!(lens(&sizes, 0, 7), [60, 1000, 60, 1500, 60, 1000, 60]);
    assert_eq!(lens(&sizes, 7, 7), lens(&sizes, 0, 7));
}

#[test]
fn named_mixes_have_their_published_means() {
    for (name, bytes, frames) in [
        ("simple", 64 * 7 + 594 * 4 + 1518, 12),
        ("IMIX_v4_1", 64 * 28 + 570 * 16 + 1518 * 4, 48),
    ] {
        let pattern = SizePattern::new(&imix(name).unwrap(), 0);
        let mean = f64::from(bytes) / f64::from(frames);
        assert!((pattern.mean_len() + 4.0 - mean).abs() < 1e-9, "{name}");
    }
    assert_eq!(imix("unheard of"), None);
}

#[test]
fn random_sizes_reach_both_ends_and_their_mean() {
    let sizes = Sizes::Random { min: 60, max: 160 };
    let lens = lens(&sizes, 0, 20_000);
    assert_eq!(
        (lens.iter().min(), lens.iter().max()),
        (Some(&60), Some(&160))
    );
    let mean = lens.iter().sum::<usize>() as f64 / lens.len() as f64;
    assert!(
        (mean - SizePattern::new(&sizes, 5).mean_len()).abs() < 1.0,
        "{mean}"
    );
}

#[test]
fn errors_name_the_key() {
    assert_eq!(key(&Sizes::Fixed(59)), "sizes.fixed");
    assert_eq!(key(&Sizes::Fixed(usize::MAX)), "sizes.fixed");
    assert_eq!(key(&Sizes::List(vec![])), "sizes.list");
    assert_eq!(
        key(&Sizes::List(vec![(60, 1), (70_000, 1)])),
        "sizes.list[1]"
    );
    assert_eq!(key(&Sizes::List(vec![(60, 0)])), "sizes.list[0]");
    assert_eq!(
        key(&Sizes::List(vec![(60, 1), (61, u32::MAX)])),
        "sizes.list"
    );
    assert_eq!(
        key(&Sizes::Random { min: 100, max: 99 }),
        "sizes.random.max"
    );
    assert_eq!(key(&Sizes::Random { min: 10, max: 99 }), "sizes.random.min");
    let even = Sizes::List(vec![(60, 4_000_000_000), (61, 4_000_000_000)]);
    assert_eq!(even.validate(), Ok(()));
}

proptest! {
    #[test]
    fn every_period_has_exactly_the_weights_wherever_it_begins(
        weights in proptest::collection::vec(1u32..40, 1..8), from in 0u64..10_000,
    ) {
        let list: Vec<_> = (0..).map(|k| 60 + k).zip(weights.iter().copied()).collect();
        let sizes = Sizes::List(list.clone());
        let total: u32 = weights.iter().sum();
        // The weights as given are a whole number of reduced periods.
        let seen = lens(&sizes, from, total as usize);
        for (len, weight) in &list {
            let count = seen.iter().filter(|seen| *seen == len).count();
            prop_assert_eq!(count, *weight as usize);
        }
        let mean = seen.iter().sum::<usize>() as f64 / f64::from(total);
        prop_assert!((mean - SizePattern::new(&sizes, 0).mean_len()).abs() < 1e-9);
    }

    #[test]
    fn no_size_strays_from_its_share_by_a_frame_of_each_size(
        weights in proptest::collection::vec(1u32..20, 2..6),
    ) {
        let list: Vec<_> = (0..).map(|k| 60 + k).zip(weights.iter().copied()).collect();
        let total = f64::from(weights.iter().sum::<u32>());
        let seen = lens(&Sizes::List(list.clone()), 0, total as usize);
        for (len, weight) in &list {
            let mut count = 0.0;
            for (n, size) in seen.iter().enumerate() {
                count += f64::from(u8::from(size == len));
                let share = (n + 1) as f64 * f64::from(*weight) / total;
                prop_assert!((count - share).abs() < list.len() as f64);
            }
        }
    }

    #[test]
    fn looking_ahead_and_walking_agree(
        choice in 0usize..3, from in 0u64..5000, steps in 0usize..600,
    ) {
        let sizes = match choice {
            0 => Sizes::Fixed(77),
            1 => Sizes::List(vec![(60, 5), (61, 3), (62, 9)]),
            _ => Sizes::Random { min: 60, max: 99 },
        };
        let pattern = SizePattern::new(&sizes, 3);
        let start = pattern.position(from);
        let mut position = start;
        for _ in 0..steps {
            position = pattern.next(position);
        }
        let there = from + steps as u64;
        prop_assert_eq!(position, pattern.position(there));
        prop_assert_eq!(pattern.size(there, position, 0), pattern.size(from, start, steps));
    }
}
