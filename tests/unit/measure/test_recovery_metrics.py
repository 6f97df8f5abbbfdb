"""When a DUT that was overloaded lost its last frame, and what is known of one that never came back."""

from dataclasses import replace

import pytest
import trials

from pinchpoint.account.overload import never_overtaken, paused
from pinchpoint.measure.recovery import run as diagnosis
from pinchpoint.measure.recovery.run import Recovered, Recovery, recovered
from pinchpoint.model.trial import Sample

ASKED = Recovery(1e6, 1.1, 2.0, 0.5, 1.0, 5)  # watched for 1 s at 500,000 frames a second
RING = 1000


def overload(last_loss_s=2.0, lost=200, seen=200, received=2_500_000, gaps=()):
    """3 s, the load less after 2: `lost` in all, of which the samples have `seen` and know `received` to be back."""
    counts = replace(trials.stream_counts(2_700_000, received=2_700_000 - lost), last_loss_s=last_loss_s)
    samples = (Sample(1.9, 2_090_000, 200, received=2_089_000), Sample(2.0, 2_200_000, 200, received=received),
               Sample(2.9, 2_650_000, seen, received=received))  # fmt: skip
    changed = replace(trials.trial(1.1e6, counts=counts), sent_duration_s=3.0, samples=samples)
    worker = replace(trials.worker(), gaps_longest=gaps)
    return replace(changed, witness=replace(changed.witness, workers=(worker,)))


def test_the_time_is_that_from_the_change_to_the_last_loss():
    recovery = recovered(overload(last_loss_s=2.25, lost=300, seen=300), ASKED)
    assert (recovery.time_s, recovery.still, recovery.silent) == (0.25, False, False)
    assert (recovery.lost_before, recovery.lost_after) == (200, 100)


def test_a_dut_without_a_loss_after_the_change_needed_no_time():
    recovery = recovered(overload(), ASKED)
    assert (recovery.time_s, recovery.still, recovery.lost_after) == (0.0, False, 0)


@pytest.mark.parametrize(
    ("trial", "silent"),
    [
        (overload(lost=500_200, received=2_199_800), True),
        (overload(lost=100_200, received=2_199_800), False),
        (overload(last_loss_s=2.95, lost=500), False),
    ],
    ids=["nothing came back", "one port of several", "it lost frames to the end"],
)
def test_a_dut_that_lost_frames_to_the_end_did_not_recover_while_it_was_watched(trial, silent):
    recovery = recovered(trial, ASKED)
    assert recovery.still
    assert recovery.time_s == pytest.approx(1.0)
    assert recovery.silent is silent


def test_frames_that_none_came_after_are_those_that_the_last_sample_did_not_have():
    assert never_overtaken(overload(lost=700)) == 500
    assert never_overtaken(overload(last_loss_s=2.95, lost=700)) == 0, "the time of the last loss tells of them"
    assert never_overtaken(replace(overload(lost=700), samples=())) == 0, "nobody looked meanwhile"


def test_a_pause_of_the_engine_at_the_end_may_have_lost_them():
    assert paused(overload(lost=700), ASKED.step, RING) == ""
    assert paused(overload(lost=700, gaps=((1.0, 50_000_000),)), ASKED.step, RING) == "", "it was over by then"
    told = paused(overload(lost=700, gaps=((2.95, 50_000_000),)), ASKED.step, RING)
    assert told == "the last frames were lost by a 50.0 ms pause of the engine's core"


def times(*seconds):
    """One overload each; None: not recovered within 1 s."""
    return [
        Recovered(f"t{number}", 1.0 if time_s is None else time_s, 1e-6, 1e6, 200, 0, time_s is None)
        for number, time_s in enumerate(seconds)
    ]


@pytest.mark.parametrize(
    ("times_s", "value", "high", "begins"),
    [
        ((0.1, 0.2, 0.3), 0.2, 0.3, "lowest and highest of 3"),
        ((0.1, 0.2, None), 0.2, None, "1 of 3 repeats not recovered within 1.00 s; lowest and highest of 3"),
        ((0.1, None, None), 1.0, None, "at least: 2 of 3 repeats not recovered within 1.00 s; lowest"),
        ((0.1, None), 0.55, None, "at least: 1 of 2 repeats not recovered"),
        ((None,), 1.0, None, "at least: 1 of 1 repeats not recovered within 1.00 s; a single value"),
    ],
)
def test_what_did_not_recover_stands_behind_all_others_and_has_no_upper_end(times_s, value, high, begins):
    metric, *_ = diagnosis.metrics(times(*times_s), 1e6)
    assert (metric.name, metric.value, metric.high) == ("recovery time", pytest.approx(value), high)
    assert metric.note.startswith(begins)


def test_it_is_told_how_many_did_not_recover_and_how_many_fell_silent():
    (some,) = diagnosis.warnings(times(0.1, None))
    assert str(some) == "1 of 2 repeats not recovered within 1.00 s: they still lost frames at their end"
    _, silent = diagnosis.warnings([replace(recovery, silent=True) for recovery in times(None, None)])
    assert str(silent) == "in 2 of 2 repeats the switch forwarded nothing after the overload"


def test_an_overload_that_no_sample_saw_is_unknown_and_not_zero():
    seen, unseen = times(0.1, 0.2)
    unseen = replace(unseen, overload_fps=0.0)
    told = {metric.name: metric.value for metric in diagnosis.metrics([seen, unseen], 1e6)}
    assert told["overload"] == 1e6
    assert "overload" not in {metric.name for metric in diagnosis.metrics([unseen], 1e6)}
