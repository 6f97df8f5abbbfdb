"""The measure `recovery` over the simulated engine, whose recovery is known."""

from dataclasses import replace

import pytest
from simulated import SimulatedInstrument, Stop
from support import TWO_PORTS, Truth

from pinchpoint.measure import session as measure
from pinchpoint.measure.recovery.run import Recovery, measure_recovery
from pinchpoint.measure.session import Session
from pinchpoint.measure.standing import Listener
from pinchpoint.model.result import Outcome
from pinchpoint.model.trial import TrialValidity
from pinchpoint.model.warning import Warn
from pinchpoint.observe.snapshot import Bracket

SHORT = Recovery(1e6, 1.1, 2.0, 0.5, 1.0, 3)


@pytest.fixture(autouse=True)
def no_settling(monkeypatch):
    """Counters of no real switch need no time until they are handed over."""
    monkeypatch.setattr(measure, "COUNTERS_SETTLE_S", 0.0)


def recovered(truth, recovery=SHORT, trials=()):
    scenario = replace(TWO_PORTS, measure=recovery)
    instrument = SimulatedInstrument(truth)
    instrument.open()
    kept = []
    session = Session(scenario, instrument, Bracket([]), kept.append, Listener(), trials)
    return measure_recovery(session), kept


def figures(result):
    return {metric.name: metric for metric in result.metrics}


@pytest.mark.parametrize("recovery_s", [0.0, 0.25])
def test_the_time_is_that_from_the_change_to_the_last_loss(recovery_s):
    result, kept = recovered(Truth(1e6, recovery_s=recovery_s))
    by_name = figures(result)
    assert by_name["recovery time"].value == pytest.approx(recovery_s, abs=1e-6)
    assert by_name["lost after the overload"].value == pytest.approx(recovery_s * 0.5e6, abs=1)
    assert by_name["lost in the overload"].value == pytest.approx(0.1e6 * 2 - 1024, rel=0.01)
    assert by_name["recovery time"].note.startswith("lowest and highest of 3 repeats; each known to ")
    (first, *_) = [trial for trial in kept if trial.phase == "recovery"]
    assert first.intended == pytest.approx(1.1e6 * 2 + 0.5e6)
    assert result.warnings == ()


def test_a_dut_that_does_not_recover_in_time_is_told():
    result, _ = recovered(Truth(1e6, recovery_s=60.0))
    time = figures(result)["recovery time"]
    assert (time.value, time.low, time.high) == (pytest.approx(1.0), pytest.approx(1.0), None)
    assert time.note.startswith("at least: 3 of 3 repeats not recovered within 1.00 s")
    assert result.warnings[0].kind is Warn.NOT_RECOVERED


@pytest.mark.parametrize("stops_s", [1.5, 2.5], ids=["in the overload", "after it"])
def test_a_dut_that_never_forwards_again_has_not_recovered_at_once(stops_s):
    result, _ = recovered(Truth(1e6, stop=Stop(stops_s)))
    time = figures(result)["recovery time"]
    assert (time.value, time.high) == (pytest.approx(1.0), None)
    assert time.note.startswith("at least: 3 of 3 repeats not recovered within 1.00 s")
    silent = [told for told in result.warnings if told.kind is Warn.SILENT_AFTER_OVERLOAD]
    assert len(silent) == (stops_s < SHORT.overload_s)


def test_a_dut_that_forwards_again_in_time_has_its_time():
    result, _ = recovered(Truth(1e6, stop=Stop(1.5, 1.0)))
    assert figures(result)["recovery time"].value == pytest.approx(0.5, abs=1e-3)


def test_an_overload_that_is_none_is_told():
    result, _ = recovered(Truth(3e6))
    assert result.warnings[0] == Warn.NO_OVERLOAD.of(calm=3, repeats=3)


def test_a_generator_that_cannot_overload_is_a_failure_with_the_reason():
    result, _ = recovered(Truth(1e6, ceiling_fps=0.9e6))
    assert result.outcome is Outcome.FAILED
    assert "the engine reached" in result.reason


def test_a_generator_that_falls_short_of_the_overload_and_exceeds_the_throughput_has_overloaded():
    result, kept = recovered(Truth(1e6, ceiling_fps=1.05e6))
    assert result.outcome is Outcome.MEASURED and result.warnings == ()
    assert {trial.validity for trial in kept if trial.phase == "recovery"} == {TrialValidity.VALID}, "as it is stored"
    assert figures(result)["overload"].value == pytest.approx(1.05e6, rel=0.01)


def test_the_ndr_is_searched_where_no_throughput_is_given():
    result, _ = recovered(Truth(1e6), replace(SHORT, throughput_fps=None))
    assert figures(result)["throughput"].value == result.rates[0].quoted_fps == pytest.approx(1e6, rel=0.02)


def test_recorded_overloads_are_not_made_again():
    first, kept = recovered(Truth(1e6, recovery_s=0.25))
    result, again = recovered(Truth(1e6), trials=kept)
    assert [trial.phase for trial in again] == ["warm-up"]
    assert figures(result)["recovery time"] == figures(first)["recovery time"]
