"""What trials say about a threshold over time."""

from random import Random
from statistics import fmean

from pinchpoint.search.track import Track

CAPACITY = 5e6


def estimate(seed: int) -> float:
    """Of a threshold that scatters by 0.6 % from trial to trial, from loads near it; relative to the true median."""
    random, track = Random(seed), Track(1e4, 2e7)
    for number in range(30):
        theta = CAPACITY * random.gauss(1.0, 0.006)
        load = CAPACITY * (4.0 if number < 3 else random.uniform(0.99, 1.01))
        track.add(1.1 * number, load, theta if theta < load else None)
    return track.over_time().median_fps / CAPACITY


def test_trials_that_lose_count_as_much_as_those_that_do_not() -> None:
    assert abs(fmean(estimate(seed) for seed in range(8)) - 1) < 0.001


def test_a_level_that_few_trials_met_is_known_as_well_as_the_others() -> None:
    track = Track(1e4, 2e7)
    for number in range(100):
        fps = CAPACITY / 2 if 40 <= number < 60 else CAPACITY
        track.add(0.2 * number, 1.02 * fps, fps)
    levels = track.moments_fps()[:, 1]
    assert all(abs(level / CAPACITY - 0.5) < 0.02 for level in levels[42:58])
    assert all(abs(level / CAPACITY - 1.0) < 0.02 for level in (*levels[:38], *levels[62:]))


def lapsing(*, is_brief: bool) -> Track:
    """Of a level that stands still: every third trial just below it loses frames."""
    track = Track(1e4, 2e7)
    for number in range(30):
        if number % 2:
            track.add(1.1 * number, 1.1 * CAPACITY, CAPACITY, False)
        elif number % 3:
            track.add(1.1 * number, 0.99 * CAPACITY)
        else:
            track.add(1.1 * number, 0.99 * CAPACITY, 0.975 * CAPACITY, is_brief)
    return track


def test_losses_of_one_moment_say_less_about_the_level_than_those_of_a_whole_trial() -> None:
    pauses, slower = lapsing(is_brief=True).over_time(), lapsing(is_brief=False).over_time()
    assert pauses.low_fps > slower.low_fps


def test_trials_that_lose_at_any_load_are_mostly_lapses() -> None:
    track = Track(1e4, 2e7)
    for number in range(16):
        load_fps = CAPACITY * (0.1, 0.5, 0.9, 1.3)[number % 4]
        track.add(1.1 * number, load_fps, 0.98 * min(load_fps, CAPACITY), True)
    assert track.mostly_lapses > 0.9
    assert lapsing(is_brief=True).mostly_lapses < 0.01
