"""The MRR is the median of what came back while trials were sent, with its interval by ranks."""

from dataclasses import replace

import pytest
import trials

from pinchpoint.model.trial import Sample, TrialValidity
from pinchpoint.stats.estimate import receive_rate


def overloaded(forwarded, validity=TrialValidity.VALID):
    counts = trials.stream_counts(offered=10_000, received=forwarded)
    return replace(trials.trial(10_000.0, counts=counts), validity=validity)


def test_the_median_its_interval_and_the_load_are_told() -> None:
    made = [overloaded(count) for count in (4000, 4100, 4200, 4300, 4400, 4500, 4600)]
    mrr = receive_rate(made)
    assert mrr is not None
    assert (mrr.estimate_fps, mrr.load_fps, mrr.trials) == (4300.0, 10_000.0, 7)
    assert 4000 <= mrr.lower_fps < 4300 < mrr.upper_fps <= 4600
    assert mrr.band.low_fps == pytest.approx(4060) and mrr.band.high_fps == pytest.approx(4540)


def test_trials_that_the_generator_limited_count_and_disturbed_ones_do_not() -> None:
    limited = [overloaded(4000, TrialValidity.GENERATOR_LIMITED) for _ in range(6)]
    mrr = receive_rate([*limited, overloaded(10, TrialValidity.NOISY_HOST)])
    assert mrr is not None and mrr.trials == 6 and mrr.lower_fps == 4000.0


def test_five_trials_have_no_interval_and_give_no_rate() -> None:
    assert receive_rate([overloaded(4000)] * 5) is None


def test_frames_that_rings_still_held_at_the_end_do_not_count() -> None:
    samples = (Sample(0.25, 2500, 0, received=1000), Sample(1.0, 10_000, 0, received=4000))
    assert replace(overloaded(4400), samples=samples).forwarded_fps == pytest.approx(4000.0)
    assert overloaded(4400).forwarded_fps == pytest.approx(4400.0)


def test_the_time_in_which_the_engine_waits_for_the_last_frames_does_not_count() -> None:
    sending = (Sample(0.25, 2500, 0, received=1000), Sample(1.0, 10_000, 0, received=4000))
    waiting = (Sample(1.15, 10_000, 0, received=4400), Sample(1.3, 10_000, 0, received=4400))
    assert replace(overloaded(4400), samples=sending + waiting).forwarded_fps == pytest.approx(4000.0)
