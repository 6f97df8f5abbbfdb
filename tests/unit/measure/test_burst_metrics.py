"""What bursts come to: pauses within one, and the buffer time of RFC 9004."""

from dataclasses import replace

import pytest
import trials

from pinchpoint.account.validity import from_first_frame
from pinchpoint.measure.burst.run import burst_result, not_faster, throughput, verdict
from pinchpoint.model.measurement import BurstTest
from pinchpoint.model.result import Limit, Rate, RateStatus
from pinchpoint.model.trial import TrialValidity


def burst(gaps, length_s=1e-3, **changes):
    trial = trials.trial(**changes)
    worker = replace(trials.worker(), gaps_longest=gaps)
    witness = replace(trial.witness, workers=(worker,))
    return replace(trial, burst_frames=trial.offered, sent_duration_s=length_s, witness=witness)


def ndr(status=RateStatus.FOUND, lower=4e6):
    return Rate(0.0, status, lower, lower * 1.01, 0.2, 2.0, "" if status is RateStatus.FOUND else "why")


def test_a_burst_in_which_the_engine_stood_still_is_set_aside_whatever_it_lost():
    trial = from_first_frame(burst(((0.0004, 60_000),)), paced=True)
    assert trial.validity is TrialValidity.NOISY_HOST
    assert trial.reason == "the engine's core stood still for 60.0 us within the 1.00 ms of the burst"


@pytest.mark.parametrize("gaps", [(), ((0.0004, 40_000),), ((0.002, 5_000_000),)])
def test_a_short_pause_or_one_after_the_burst_leaves_it_valid(gaps):
    assert from_first_frame(burst(gaps), paced=True).validity is TrialValidity.VALID


@pytest.mark.parametrize(("at_s", "valid"), [(0.00004, True), (0.0002, False)])
def test_in_a_pause_the_dut_catches_up_with_no_more_than_was_sent_before(at_s, valid):
    trial = from_first_frame(burst(((at_s, 100_000),)), paced=True)
    assert (trial.validity is TrialValidity.VALID) == valid


def test_what_passes_before_the_first_frames_leave_is_no_part_of_the_burst():
    first_turn = burst(((0.0, 200_000),))
    trial = from_first_frame(first_turn, paced=False)
    assert trial.validity is TrialValidity.VALID
    assert trial.sent_duration_s == pytest.approx(0.0008)
    assert trial.load_fps == pytest.approx(first_turn.intended / 0.0008)
    assert from_first_frame(first_turn, paced=True).load_fps == first_turn.load_fps


def test_a_pause_of_one_core_before_anothers_first_frames_makes_up_for_no_later_one():
    trial = burst(((0.0, 200_000), (0.0006, 60_000)))
    other = replace(trials.worker(), core=2, gaps_longest=((0.000002, 150_000),))
    both = replace(trial, witness=replace(trial.witness, workers=(*trial.witness.workers, other)))
    assert from_first_frame(trial, paced=True).validity is TrialValidity.NOISY_HOST
    assert from_first_frame(both, paced=True).validity is TrialValidity.NOISY_HOST


def test_what_was_invalid_keeps_its_own_reason():
    changed = replace(burst(((0.0004, 900_000),)), validity=TrialValidity.ABORTED, reason="gone")
    assert from_first_frame(changed, paced=True) == changed


def test_the_buffer_is_what_was_not_forwarded_while_the_burst_came_in():
    tests = [BurstTest(3000, 3010, 12e6, ()), BurstTest(3200, 3210, 12e6, ())]
    result = burst_result(tests, 12e6, "back to back", throughput(ndr(), None))
    assert result.average == 3100
    assert result.implied_s == pytest.approx(3100 / 12e6)
    assert result.corrected_s == pytest.approx(3100 / 12e6 * (1 - 4 / 12))
    assert "0.2 s trials" in result.throughput_words


def test_without_a_throughput_there_is_no_correction_and_the_reason_is_told():
    result = burst_result([BurstTest(3000, 3010, 12e6, ())], 12e6, "", throughput(ndr(RateStatus.REFUSED), None))
    assert (result.throughput_fps, result.corrected_s) == (None, None)
    assert result.implied_s is not None
    assert result.throughput_words == "no NDR, and so no correction: why"


@pytest.mark.parametrize(("rate", "searched", "stated_fps", "refused"), [
    (8e6, ndr(), None, False),
    (4.05e6, ndr(), None, True),
    (8e6, ndr(RateStatus.AT_LEAST), None, True),
    (8e6, ndr(RateStatus.REFUSED), None, True),
    (8e6, None, 7.9e6, True),
    (8e6, None, 4e6, False),
])  # fmt: skip
def test_frames_that_come_no_faster_than_they_go_are_no_burst(rate, searched, stated_fps, refused):
    if searched is not None and searched.status is RateStatus.REFUSED:
        searched, refused = replace(searched, lower_fps=None, upper_fps=None), False
    assert bool(not_faster(rate, searched, stated_fps)) is refused


def test_losses_that_no_counter_names_stay_unexplained():
    tests = [BurstTest(3000, 3010, 12e6, ("t",))]
    result = burst_result(tests, 12e6, "", (4e6, ""))
    lossy = trials.trial()
    lossy = replace(lossy, burst_frames=3010, received=lossy.offered - 10,
                    ledger=replace(lossy.ledger, received=lossy.offered - 10))  # fmt: skip
    assert verdict(result, [lossy], 1024).limit is Limit.UNEXPLAINED
