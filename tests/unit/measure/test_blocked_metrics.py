"""What an action under traffic cost, and when that is unknown."""

from dataclasses import replace

import pytest
import trials

from pinchpoint.measure.blocked import run as blocking
from pinchpoint.measure.blocked.run import Happened
from pinchpoint.measure.traffic import Carried, joined
from pinchpoint.model.trial import TrialValidity
from pinchpoint.model.warning import Warn

QUIET = Carried(100_000, 100_000, 1.0, 0.0, 0, 0.0, 0.001, 0.0)
DURING = Carried(400_000, 370_000, 4.0, 0.3, 0, 0.0, 0.31, 0.02)


def figures(quiet=QUIET, during=DURING):
    metrics, cannot = blocking.metrics(Happened(quiet, during, 0.5))
    return {metric.name: metric for metric in metrics}, cannot


def test_lost_frames_over_the_rate_are_the_blocked_time():
    metrics, cannot = figures()
    assert cannot == ""
    assert metrics["blocked time"].value == pytest.approx(0.3)
    assert metrics["action time"].value == 0.5


def test_what_is_lost_when_nothing_happens_is_taken_off():
    metrics, _ = figures(quiet=replace(QUIET, received=99_950))
    assert metrics["blocked time"].value == pytest.approx(0.3 - 0.0005 * 4)


def test_the_engines_own_pause_is_the_lower_end_of_a_silence():
    silence = figures()[0]["longest silence"]
    assert (silence.low, silence.value) == (pytest.approx(0.29), 0.31)


def test_a_bench_that_loses_frames_anyway_tells_no_blocked_time():
    metrics, cannot = figures(quiet=replace(QUIET, received=90_000))
    assert "blocked time" not in metrics
    assert "before anything" in cannot


def measurement(number, blocked_s, validity=TrialValidity.VALID):
    metrics, _ = blocking.metrics(Happened(QUIET, replace(DURING, received=int(400_000 - blocked_s * 1e5)), 0.5))
    reason = "" if validity is TrialValidity.VALID else "busy"
    return trials.measurement("blocked", number, validity, reason, metrics=metrics)


def test_repeats_give_their_median_without_those_set_aside():
    made = [measurement(n, s) for n, s in enumerate((0.1, 0.2, 0.4), 1)]
    made.append(measurement(4, 3.0, TrialValidity.NOISY_HOST))
    metrics = {metric.name: metric for metric in blocking.over_repeats(made)}
    blocked = metrics["blocked time"]
    assert (blocked.low, blocked.value, blocked.high) == pytest.approx((0.1, 0.2, 0.4))
    assert "lowest and highest of 3 repeats" in blocked.note
    assert blocking.warnings(made, 3) == ()
    assert blocking.warnings(made, 4) == (Warn.REPEATS_MISSING.of("busy", valid=3, asked=4),)


def test_disturbed_repeats_are_shown_where_there_are_no_others_and_told_as_such():
    made = [measurement(n, s, TrialValidity.NOISY_HOST) for n, s in enumerate((0.1, 0.2), 1)]
    assert {metric.name: metric.value for metric in blocking.over_repeats(made)}["blocked time"] == pytest.approx(0.15)
    assert [warning.kind for warning in blocking.warnings(made, 2)] == [Warn.ONLY_DISTURBED]


def test_what_fell_due_while_no_link_was_up_counts_as_offered_and_lost():
    first = replace(QUIET, offered=50_000, received=49_000, duration_s=0.5, longest_silence_s=0.002)
    second = replace(QUIET, offered=100_000, received=80_000, longest_gap_s=0.2, engine_longest_s=0.01)
    joint = joined([(10.0, first), (12.0, second)])
    assert joint.duration_s == pytest.approx(3.0)
    assert joint.offered == 50_000 + 150_000 + 100_000
    assert joint.lost == 1_000 + 150_000 + 20_000
    assert (joint.longest_gap_s, joint.longest_silence_s) == (pytest.approx(1.7), pytest.approx(1.7))
    assert joint.engine_longest_s == 0.01


def test_a_link_that_comes_up_to_nothing_is_silent_to_the_end():
    nothing = replace(QUIET, received=0, longest_gap_s=None, longest_silence_s=None)
    assert joined([(0.0, QUIET), (1.5, nothing)]).longest_silence_s == pytest.approx(1.5)
    assert joined([(0.0, QUIET)]) == QUIET
