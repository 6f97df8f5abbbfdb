"""What a losing trial says, slice by slice."""

from dataclasses import replace

import pytest
from simulated import Truth
from simulated_queue import RandomWalk, Replay, StallKind, Stalls
from support import Bench

from pinchpoint.model.trial import Trial
from pinchpoint.search.slices import SLICES, late_fps, loss_of, most_waiting

CAPACITY = 3e6
RING = 1024
PAUSING = Truth(CAPACITY, ring=RING, stalls=(Stalls(StallKind.DUT, 5.0, 0.0005),))


def overloaded(ring: int = 64, load_fps: float = 6e6, *, sampled: bool = True) -> Trial:
    """A trial of 0.2 s on a DUT whose capacity falls to a half in the middle of each 0.1 s."""
    truth = Truth(CAPACITY, ring=ring, moves=Replay((1.0, 0.5), 0.05), seed=1)
    return Bench(truth, slices=SLICES if sampled else 0).measure(0.2, load_fps)


def borne_fps(trial: Trial, loss_ratio: float) -> float:
    return loss_of(trial, loss_ratio, RING).bearable_fps


def test_the_slowest_slice_decides_what_is_borne_without_loss() -> None:
    assert borne_fps(overloaded(), 0.0) == pytest.approx(CAPACITY / 2, rel=0.01)


def test_queues_take_up_a_slow_slice() -> None:
    ring = 20_000  # over 0.05 s: 400 kfps
    assert 1.03 * CAPACITY / 2 < borne_fps(overloaded(ring), 0.0) <= CAPACITY / 2 + ring / 0.05


def test_a_share_that_may_be_lost_is_lost_in_the_slow_slices() -> None:
    assert 1.05 * CAPACITY / 2 < borne_fps(overloaded(), 0.05) < 0.75 * CAPACITY


def test_without_samples_the_trial_is_one_slice() -> None:
    trial = overloaded(sampled=False)
    assert borne_fps(trial, 0.0) == pytest.approx(trial.offered_fps * (1 - trial.loss_ratio), rel=0.001)
    assert borne_fps(trial, 0.005) == pytest.approx(trial.offered_fps * (1 - trial.loss_ratio) / 0.995, rel=0.001)
    assert late_fps(trial) == pytest.approx(trial.offered_fps * (1 - trial.loss_ratio))


def losing(truth: Truth, load_fps: float, count: int = 30) -> list[Trial]:
    bench = Bench(truth, slices=SLICES)
    return [trial for trial in (bench.measure(0.2, load_fps) for _ in range(count)) if trial.lost]


def test_a_pause_is_told_from_an_overload_and_tells_what_the_ring_bears() -> None:
    losses = [loss_of(trial, 0.0, RING) for trial in losing(PAUSING, 0.8 * CAPACITY)]
    assert len(losses) > 10
    assert sum(loss.is_pause is True for loss in losses) >= 0.9 * len(losses)
    alone = [loss.pause_fps for loss in losses if loss.is_pause]
    assert sorted(alone)[len(alone) // 2] == pytest.approx(RING / 0.0005, rel=0.01)


def test_an_overload_and_a_slow_drift_are_no_pauses() -> None:
    walking = Truth(CAPACITY, ring=RING, moves=RandomWalk(0.1))
    for trial in (*losing(Truth(CAPACITY, ring=RING), 1.02 * CAPACITY, 1), *losing(walking, 1.2 * CAPACITY)):
        assert loss_of(trial, 0.0, RING).is_pause is False


def test_with_a_ratio_a_pause_bears_more() -> None:
    """A pause that costs 0.5 % of 0.2 s may be 1 ms longer than the ring bears."""
    longer = replace(PAUSING, stalls=(Stalls(StallKind.DUT, 2.0, 0.004),))
    trial = min(losing(longer, 0.8 * CAPACITY), key=lambda trial: trial.lost)  # of one pause
    strict, lenient = (loss_of(trial, ratio, RING).pause_fps for ratio in (0.0, 0.005))
    assert strict == pytest.approx(RING / 0.004, rel=0.02)
    assert lenient == pytest.approx(RING / 0.003, rel=0.02)


def test_the_ring_is_the_most_that_waits_under_overload() -> None:
    assert most_waiting(losing(Truth(CAPACITY, ring=RING), 2 * CAPACITY, 1)[0]) == pytest.approx(RING, abs=2)


def test_samples_without_counts_of_loss_do_not_say_when_it_came() -> None:
    trial = losing(PAUSING, 0.8 * CAPACITY)[0]
    unknown = tuple(replace(sample, lost=None) for sample in trial.samples)
    assert loss_of(replace(trial, samples=unknown), 0.0, RING).is_pause is None
    assert loss_of(replace(trial, samples=()), 0.0, RING).is_pause is None
    assert loss_of(trial, 0.0, 0).is_pause is None, "without an overload the ring is not known"


def test_what_a_bucket_lets_pass_late_in_an_overload_is_its_rate() -> None:
    bucket = Truth(3e5, ring=60_000, is_meter=True)
    assert late_fps(Bench(bucket, slices=SLICES).measure(0.2, 5e6)) == pytest.approx(3e5, rel=0.001)
