"""What trials say about the thresholds that they met."""

from math import log
from random import Random

import pytest

from pinchpoint.model.measurement import CONFIDENCE
from pinchpoint.search.track import Seen, Track

CAPACITY = 5e6


def seen(at_s: float, load_fps: float, threshold_fps: float, *, is_pause: bool | None = False) -> Seen:
    """A trial that met a threshold, and what it says if it lost."""
    if load_fps <= threshold_fps:
        return Seen(at_s, log(load_fps))
    borne_fps = 0.98 * load_fps if is_pause else threshold_fps
    return Seen(at_s, log(load_fps), log(borne_fps), is_pause, log(threshold_fps) if is_pause else 0.0)


def near(track: Track, at_s: float, number: int) -> float:
    """A load that a search would try."""
    return track.met_fps(at_s, (0.5, 0.35, 0.65)[number % 3])


def test_a_level_that_stands_still_is_bracketed() -> None:
    track = Track(1e4, 2e7, CONFIDENCE)
    for number in range(20):
        track.add(seen(0.3 * number, near(track, 0.3 * number, number), CAPACITY))
    known = track.over_time()
    assert known.median.low <= CAPACITY <= known.median.high
    assert known.median.width < 0.01 and known.band.width < 0.02


def test_a_pause_that_most_trials_meet_is_the_threshold_and_not_what_the_device_forwards() -> None:
    random, track = Random(1), Track(1e4, 2e7, CONFIDENCE)
    for number in range(40):
        load_fps = near(track, 0.3 * number, number)
        is_paused = random.random() < 0.85 and load_fps < 1.02 * CAPACITY
        track.add(seen(0.3 * number, load_fps, 0.6 * CAPACITY if is_paused else CAPACITY, is_pause=is_paused))
    known = track.over_time()
    assert known.median.low <= 0.6 * CAPACITY <= known.median.high
    assert known.median.value == pytest.approx(0.6 * CAPACITY, rel=0.03)


def test_a_pause_that_few_trials_meet_lowers_the_band_and_not_the_rate() -> None:
    random, track = Random(2), Track(1e4, 2e7, CONFIDENCE)
    for number in range(40):
        load_fps = near(track, 0.3 * number, number)
        is_paused = random.random() < 0.2 and load_fps < 1.02 * CAPACITY
        track.add(seen(0.3 * number, load_fps, 0.6 * CAPACITY if is_paused else CAPACITY, is_pause=is_paused))
    known = track.over_time()
    assert known.median.value == pytest.approx(CAPACITY, rel=0.02)
    assert known.band.low < 0.8 * CAPACITY


def test_a_level_that_few_trials_met_is_known_as_well_as_the_others() -> None:
    track = Track(1e4, 2e7, CONFIDENCE)
    track.add(seen(0.0, 4 * CAPACITY, CAPACITY))
    for number in range(1, 60):
        fps = CAPACITY / 2 if 25 <= number < 40 else CAPACITY
        track.add(seen(0.2 * number, 1.02 * fps, fps))
    levels = [median for _, median, _ in track.moments_fps()]
    assert all(abs(level / CAPACITY - 0.5) < 0.02 for level in levels[27:38])
    assert all(abs(level / CAPACITY - 1.0) < 0.02 for level in (*levels[:23], *levels[42:]))


def test_the_same_trials_give_the_same_answer() -> None:
    tracks = [Track(1e4, 2e7, CONFIDENCE), Track(1e4, 2e7, CONFIDENCE)]
    for track in tracks:
        for number in range(12):
            track.add(seen(0.3 * number, CAPACITY * (0.9, 1.1, 1.0)[number % 3], CAPACITY))
    assert tracks[0].over_time() == tracks[1].over_time()


def test_before_the_first_trial_any_load_is_as_likely() -> None:
    track = Track(1e4, 1e6, CONFIDENCE)
    low_fps, middle_fps, high_fps = (track.met_fps(0.0, quantile) for quantile in (0.25, 0.5, 0.75))
    assert middle_fps == pytest.approx(1e5)
    assert low_fps < middle_fps < high_fps
