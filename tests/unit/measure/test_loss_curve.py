"""The measure `loss_curve` over the simulated engine, whose capacity is known."""

from dataclasses import replace

import pytest
from simulated import SimulatedInstrument
from support import TWO_PORTS as SCENARIO
from support import Truth

from pinchpoint.measure.loss_curve.run import LossCurve, measure_curve
from pinchpoint.measure.session import Session
from pinchpoint.measure.standing import Listener
from pinchpoint.model import units
from pinchpoint.model.result import Limit, Outcome
from pinchpoint.observe.snapshot import Bracket
from pinchpoint.stats.estimate import median_interval


def measured(truth, recorded=(), **changes):
    curve = LossCurve(**({"max_load_fps": 4e6, "step": 0.1, "repeats": 6, "duration_s": 0.5} | changes))
    scenario = replace(SCENARIO, measure=curve)
    instrument = SimulatedInstrument(truth)
    instrument.open()
    kept = []
    session = Session(scenario, instrument, Bracket([]), kept.append, Listener(), recorded)
    return measure_curve(session), kept


def metrics(result):
    return {metric.name: metric for metric in result.metrics}


def test_from_the_highest_load_down_until_two_in_a_row_lose_nothing():
    result, kept = measured(Truth(2e6))
    assert [round(point.share, 2) for point in result.loss_curve] == [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    assert [point.lossless for point in result.loss_curve] == [False] * 5 + [True] * 2
    loads = [trial.load_fps for trial in kept if trial.phase == "loss curve"]
    assert loads == sorted(loads, reverse=True)
    assert len(loads) == 7 * 6


def test_loss_and_forwarded_rate_are_those_of_the_dut():
    result, _ = measured(Truth(2e6, ring=0))
    figures = metrics(result)
    assert figures["loss at 100 % load"].value == pytest.approx(0.5, abs=0.001)
    assert figures["forwarded at 100 % load"].value == pytest.approx(2e6, rel=0.001)
    assert figures["loss-free load"].value == pytest.approx(2e6, rel=0.01)
    assert figures["loss-free load"].high == pytest.approx(2.4e6, rel=0.01)
    assert figures["overload forwarding"].value == pytest.approx(1.0, rel=0.001)
    assert result.metrics[0].name == "loss-free load"
    assert result.warnings == ()


def test_the_interval_is_that_of_the_median_over_trials():
    result, kept = measured(Truth(2e6, noise=0.05, seed=2))
    top = result.loss_curve[0]
    losses = sorted(trial.loss_ratio for trial in kept if trial.load_fps == 4e6)
    estimate = median_interval(losses)
    assert (top.loss_low, top.loss, top.loss_high) == (estimate.low, estimate.value, estimate.high)
    assert top.interval == f"median of 6 trials, and its {units.share(estimate.level)} interval"
    assert top.loss_low < top.loss < top.loss_high


def test_finer_steps_than_ten_percent():
    result, _ = measured(Truth(2e6), step=0.05)
    assert [round(point.share, 2) for point in result.loss_curve][:3] == [1.0, 0.95, 0.9]


def test_a_load_that_the_generator_does_not_offer_is_marked_and_has_no_loss():
    result, kept = measured(Truth(2e6, ceiling_fps=3e6))
    top = result.loss_curve[0]
    assert (top.generator_limited, top.loss, top.forwarded_fps, top.trials) == (True, None, None, 0)
    assert top.offered_fps == pytest.approx(3e6, rel=0.01)
    assert [point.generator_limited for point in result.loss_curve[:4]] == [True, True, True, False]
    assert "loss at 100 % load" not in metrics(result)
    assert any("100 % load (4.00 Mpps): generator-limited" in warning.text for warning in result.warnings)
    assert sum(trial.load_fps == 4e6 for trial in kept) == 2, "confirmed once, and not tried six times"


def test_without_a_highest_load_it_is_what_the_generator_offers_in_full():
    result, kept = measured(Truth(2e6, ceiling_fps=3e6), max_load_fps=None)
    top = result.loss_curve[0]
    assert top.load_fps <= 3e6
    assert top.load_fps >= 0.7 * 3e6
    assert not top.generator_limited
    assert [trial.phase for trial in kept][1] == "reach"


def test_a_dut_that_loses_nowhere_is_told_as_at_least():
    result, _ = measured(Truth(9e6))
    free = metrics(result)["loss-free load"]
    assert (free.value, free.high) == (4e6, None)
    assert free.note.startswith("at least")
    assert len(result.loss_curve) == 2
    assert result.verdict.limit is Limit.SEARCH_MAXIMUM


def test_a_dut_that_loses_at_every_load_is_told_as_below():
    result, _ = measured(Truth(1e5, ring=0))
    assert len(result.loss_curve) == 10
    assert metrics(result)["loss-free load"].note.startswith("below")


def test_where_no_load_can_be_offered_the_scenario_failed_with_the_reason():
    result, _ = measured(Truth(2e6, ceiling_fps=1e4))
    assert result.outcome is Outcome.FAILED
    assert "generator-limited" in result.reason
    assert result.verdict is None


def test_what_an_interrupted_run_recorded_is_not_measured_again():
    first, kept = measured(Truth(2e6))
    again, more = measured(Truth(2e6), recorded=kept)
    assert [trial.phase for trial in more] == ["warm-up"]
    assert again.loss_curve == first.loss_curve
