"""What stands beside rates: trial length, MRR, the pause that the rings bear, and where the counts contradict."""

from dataclasses import replace

import pytest
from sample_shared import shared_run

from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Band, Claim, LossFloor, LossShare, Memory, PauseGap, Rate, RateStatus, ReceiveRate
from pinchpoint.report import number_views

BASE = shared_run()[1].scenarios[0]
NDR = Rate(0.0, RateStatus.FOUND, 6.7e6, 6.9e6, 0.2, 0.0, "", estimate_fps=6.83e6, confidence=0.95)
MRR = ReceiveRate(12.4e6, 10e6, 9.9e6, 10.1e6, Band(9.8e6, 10.2e6), 7, 0.2, 0.95)
FACTLESS = replace(BASE, rates=(NDR,), mrr=None, gap=None)


def test_the_trial_length_stands_beside_a_rate_unless_lengths_differ() -> None:
    assert number_views.headed("NDR", [NDR, NDR]) == "NDR (0.2 s)"
    assert number_views.headed("NDR", [NDR, replace(NDR, trial_duration_s=1.0)]) == "NDR"


def test_an_mrr_of_a_device_that_was_not_overloaded_is_at_least() -> None:
    assert number_views.receive_rate(MRR) == "10.0 Mpps"
    assert number_views.receive_rate(replace(MRR, estimate_fps=12.39e6)) == "at least 12.4 Mpps"
    assert number_views.receive_rate(None) == ""


def test_the_gap_is_told_with_ring_pause_and_prediction() -> None:
    (line,) = number_views.facts(replace(FACTLESS, mrr=MRR, gap=PauseGap(4096, 0.6e-3, 8192, 10e6)))
    assert line == (
        "Loses from 6.83 Mpps on: a ring of 4,096 frames absorbs a pause of 600 us up to there; under overload the "
        "device forwards 10.0 Mpps. If pauses are the cause, a ring of 8,192 gives 10.0 Mpps (a prediction that "
        "pinchpoint explain can test)"
    )


def test_a_share_that_loses_at_half_of_the_rate_is_a_fact_with_its_counts() -> None:
    held = replace(NDR, at_half=LossShare(3.4e6, 3, 100), unusable_share=0.04)
    share, unusable = number_views.facts(replace(FACTLESS, rates=(held,)))
    assert share == "3.00 % of the trials lose at any load that was tried: 3 of 100 at 3.40 Mpps, half of the NDR"
    assert unusable.startswith("4.00 % of the trials were not usable")
    assert not [*number_views.facts(replace(FACTLESS, rates=(replace(NDR, at_half=LossShare(3.4e6, 0, 100)),)))]


def test_trials_that_lose_as_often_far_below_the_rate_as_at_the_low_end_of_its_band_are_a_warning() -> None:
    losing = replace(FACTLESS, rates=(replace(NDR, at_half=LossShare(3.4e6, 41, 81)),))
    assert not [*number_views.facts(losing)]
    (warning,) = number_views.warnings(losing)
    assert (
        warning.text == "50.6 % of the trials lose at any load that was tried: 41 of 81 at 3.40 Mpps, half of the NDR"
    )


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"claim": Claim(LossShare(6.7e6, 19, 20), LossShare(6.9e6, 20, 20), holds=False)},
         "at most 3 % below it 19 of 20 lost, at most 3 % above it 20 of 20"),
        ({"memory": Memory(643e3, 300e3)}, "643 kpps after rests, 300 kpps after overloads, which is the NDR"),
        ({"floor": LossFloor(1e-5, 0.9e-5, 1.1e-5, 1e6, 12)}, "loses 0.001 % of its frames at any load"),
    ],
)  # fmt: skip
def test_what_contradicts_a_rate_is_a_warning(changes, part: str) -> None:
    (warning,) = number_views.warnings(replace(FACTLESS, rates=(replace(NDR, **changes),)))
    assert part in warning.text


def test_what_a_packet_cost_is_the_metric_of_that_name_and_of_an_older_run_the_busiest_threads() -> None:
    known = replace(FACTLESS, metrics=(Metric("cycles per packet", "cycles", 1330.4),))
    assert number_views.cycles(known) == "1,330"
    busiest = FACTLESS.threads[0].cycles_per_packet
    assert number_views.cycles(replace(FACTLESS, metrics=())) == f"{busiest:,.0f}"


def test_a_claim_that_holds_is_no_warning() -> None:
    held = replace(NDR, claim=Claim(LossShare(6.7e6, 9, 20), LossShare(6.9e6, 12, 20), holds=True))
    assert not [*number_views.warnings(replace(FACTLESS, rates=(held,)))]


def test_of_a_constant_loss_the_pdr_is_named_as_the_useful_rate() -> None:
    floor = replace(NDR, floor=LossFloor(1e-5, 0.9e-5, 1.1e-5, 1e6, 12))
    pdr = replace(NDR, loss_ratio=0.005, estimate_fps=9.9e6)
    (warning,) = number_views.warnings(replace(FACTLESS, rates=(floor, pdr)))
    assert warning.text.endswith("so the NDR depends on the trial length: the useful rate is PDR 0.5 %, 9.90 Mpps")


def test_a_device_that_forwards_less_under_overload_than_its_ndr_collapses() -> None:
    slower = replace(MRR, estimate_fps=5e6, lower_fps=4.9e6, upper_fps=5.1e6)
    (warning,) = number_views.warnings(replace(FACTLESS, mrr=slower))
    assert str(warning) == "collapses under overload: at 12.4 Mpps offered it forwards 5.00 Mpps, less than its NDR"
