"""What an action under traffic cost, and when that cannot be told."""

from dataclasses import replace

import pytest

from pinchpoint.diagnose import blocking
from pinchpoint.diagnose.blocking import Happened
from pinchpoint.diagnose.building import Carried
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.trial import TrialValidity

QUIET = Carried(100_000, 100_000, 1.0, 0.0, 0, 0.0, 0.001, 0.0)
DURING = Carried(400_000, 370_000, 4.0, 0.3, 0, 0.0, 0.31, 0.02)


def found(quiet=QUIET, during=DURING):
    metrics, cannot = blocking.metrics(Happened(quiet, during, 0.5))
    return {one.name: one for one in metrics}, cannot


def test_lost_frames_over_the_rate_are_the_blocked_time():
    metrics, cannot = found()
    assert cannot == ""
    assert metrics["blocked time"].value == pytest.approx(0.3)
    assert metrics["action time"].value == 0.5


def test_what_is_lost_when_nothing_happens_is_taken_off():
    metrics, _ = found(quiet=replace(QUIET, received=99_950))
    assert metrics["blocked time"].value == pytest.approx(0.3 - 0.0005 * 4)


def test_the_engines_own_pause_is_the_lower_end_of_a_silence():
    silence = found()[0]["longest silence"]
    assert (silence.low, silence.value) == (pytest.approx(0.29), 0.31)


def test_a_bench_that_loses_frames_anyway_tells_no_blocked_time():
    metrics, cannot = found(quiet=replace(QUIET, received=90_000))
    assert "blocked time" not in metrics
    assert "before anything" in cannot


def measurement(number, blocked_s, validity=TrialValidity.VALID):
    metrics, _ = blocking.metrics(Happened(QUIET, replace(DURING, received=int(400_000 - blocked_s * 1e5)), 0.5))
    reason = "" if validity is TrialValidity.VALID else "busy"
    return Measurement(f"b-{number}", "b", "blocked", number, "", 1.0, metrics, {}, {}, (), validity, reason)


def test_repeats_give_their_median_without_those_set_aside():
    made = [measurement(n, s) for n, s in enumerate((0.1, 0.2, 0.4), 1)]
    made.append(measurement(4, 3.0, TrialValidity.NOISY_HOST))
    metrics = {one.name: one for one in blocking.together(made)}
    blocked = metrics["blocked time"]
    assert (blocked.low, blocked.value, blocked.high) == pytest.approx((0.1, 0.2, 0.4))
    assert "lowest and highest of 3 repeats" in blocked.note
    assert blocking.warnings(made, 3) == ()
    assert blocking.warnings(made, 4) == ("3 of 4 repeats valid; busy.",)


def test_disturbed_repeats_are_shown_where_there_are_no_others_and_told_as_such():
    made = [measurement(n, s, TrialValidity.NOISY_HOST) for n, s in enumerate((0.1, 0.2), 1)]
    assert {one.name: one.value for one in blocking.together(made)}["blocked time"] == pytest.approx(0.15)
    assert "of disturbed repeats" in blocking.warnings(made, 2)[0]
