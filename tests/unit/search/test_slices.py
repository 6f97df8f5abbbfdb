"""What an overloaded trial measures, slice by slice."""

from dataclasses import replace

import pytest
from support import Bench, request

from pinchpoint.engine.simulated import StallKind, Stalls, Truth
from pinchpoint.engine.simulated_moves import Replay
from pinchpoint.model.trial import Sample, Trial
from pinchpoint.search.slices import bearable_fps, is_brief, slice_s

CAPACITY = 3e6


def overloaded(ring: int = 64, load_fps: float = 6e6, *, sampled: bool = True) -> Trial:
    """A trial of 0.2 s on a DUT whose capacity falls to a half in the middle of each 0.1 s."""
    bench = Bench(Truth(CAPACITY, ring=ring, moves=Replay((1.0, 0.5), 0.05), seed=1))
    samples: list[Sample] = []
    bench.instrument.run(replace(request(load_fps, 0.2), sample_s=slice_s(0.2)), samples.append)
    again = Bench(bench.truth)
    return replace(again.measure(0.2, load_fps), samples=tuple(samples) if sampled else ())


def test_the_slowest_slice_decides_what_is_borne_without_loss() -> None:
    assert bearable_fps(overloaded(), 0.0) == pytest.approx(CAPACITY / 2, rel=0.01)


def test_queues_take_up_a_slow_slice() -> None:
    ring = 20_000  # over 0.05 s: 400 kfps
    borne_fps = bearable_fps(overloaded(ring), 0.0)
    assert 1.03 * CAPACITY / 2 < borne_fps <= CAPACITY / 2 + ring / 0.05


def test_a_share_that_may_be_lost_is_lost_in_the_slow_slices() -> None:
    borne_fps = bearable_fps(overloaded(), 0.05)
    assert 1.05 * CAPACITY / 2 < borne_fps < 0.75 * CAPACITY


def test_without_samples_the_trial_is_one_slice() -> None:
    trial = overloaded(sampled=False)
    assert bearable_fps(trial, 0.0) == pytest.approx(trial.offered_fps * (1 - trial.loss_ratio), rel=0.001)
    assert bearable_fps(trial, 0.005) == pytest.approx(trial.offered_fps * (1 - trial.loss_ratio) / 0.995, rel=0.001)


def sampled(truth: Truth, load_fps: float) -> Trial:
    """A trial with the samples of 1 s."""
    samples: list[Sample] = []
    Bench(truth).instrument.run(replace(request(load_fps, 1.0), sample_s=slice_s(1.0)), samples.append)
    return replace(overloaded(), samples=tuple(samples))


def test_a_pause_loses_all_its_frames_in_one_slice_and_an_overload_does_not() -> None:
    trials = [sampled(paused(seed), CAPACITY / 2) for seed in range(30)]
    losing = [trial for trial in trials if trial.samples[-1].lost]
    assert losing and all(is_brief(trial) for trial in losing)
    assert is_brief(sampled(Truth(CAPACITY, ring=64), 1.1 * CAPACITY)) is False


def paused(seed: int) -> Truth:
    """A DUT that pauses for 10 ms once in 3 s."""
    return Truth(CAPACITY, ring=64, stalls=(Stalls(StallKind.DUT, 0.3, 0.01),), seed=seed)


def test_samples_without_counts_of_loss_do_not_say_when_it_came() -> None:
    trial = overloaded()
    unknown = tuple(replace(sample, lost=None) for sample in trial.samples)
    assert is_brief(replace(trial, samples=unknown)) is None
    assert is_brief(replace(trial, samples=())) is None
