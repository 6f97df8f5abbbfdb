"""The measure `load` over the simulated engine."""

from dataclasses import replace

import pytest
from simulated import SimulatedInstrument
from support import TWO_PORTS as SCENARIO
from support import Truth

from pinchpoint.measure.load.run import Load, measure_loads
from pinchpoint.measure.session import Session
from pinchpoint.measure.standing import Listener
from pinchpoint.model.result import Outcome
from pinchpoint.model.warning import Warn
from pinchpoint.observe.snapshot import Bracket


def measured(at_fps, truth=None, repeats=3, recorded=()):
    scenario = replace(SCENARIO, measure=Load(at_fps, 0.2, repeats))
    instrument = SimulatedInstrument(truth or Truth(2e6))
    instrument.open()
    kept = []
    session = Session(scenario, instrument, Bracket([]), kept.append, Listener(), recorded)
    return measure_loads(session), kept


def test_each_rate_is_sent_as_often_as_asked_and_its_loss_is_told():
    result, kept = measured((100_000.0, 4e6))
    loads = [trial.load_fps for trial in kept if trial.phase == "load"]
    assert loads == [100_000.0] * 3 + [4e6] * 3
    metrics = {metric.name: metric for metric in result.metrics}
    assert metrics["loss at 100 kpps"].value == 0
    assert metrics["loss at 4.00 Mpps"].value == pytest.approx(0.5, abs=0.02)
    assert metrics["finished in at 100 kpps"].value == pytest.approx(0.2, rel=0.001)
    assert metrics["finished in at 4.00 Mpps"].value == pytest.approx(0.4, rel=0.05), "half of it was forwarded"
    assert result.measure == "load"
    assert result.rates == ()
    assert result.warnings == ()


def test_a_rate_that_the_engine_cannot_offer_is_a_warning_and_the_others_stand():
    result, _ = measured((100_000.0, 4e6), Truth(9e6, ceiling_fps=1e6))
    assert [metric.name for metric in result.metrics if metric.name.startswith("loss")] == ["loss at 100 kpps"]
    (warning,) = result.warnings
    assert "load at 4.00 Mpps: 0 of 3 trials valid" in warning.text
    assert result.invalid_trials == {"generator_limited": 2}


def test_without_a_valid_trial_the_scenario_failed_with_the_reason_and_a_study_goes_on():
    result, kept = measured((4e6,), Truth(9e6, ceiling_fps=1e6))
    assert result.outcome is Outcome.FAILED
    assert result.reason.startswith("no load could be measured: load at 4.00 Mpps")
    assert (result.metrics, result.threads, result.trials) == ((), (), len(kept))


def test_what_an_interrupted_run_recorded_is_not_measured_again():
    _, kept = measured((100_000.0,))
    _, again = measured((100_000.0,), recorded=kept)
    assert [trial.phase for trial in kept] == ["warm-up", "load", "load", "load"]
    assert [trial.phase for trial in again] == ["warm-up"], "a new bench needs its own; the rest was answered"


class BesideANeighbour(SimulatedInstrument):
    """A neighbour takes part of the switch's core in those trials, counted from the warm-up."""

    def __init__(self, truth, slowed):
        super().__init__(truth)
        self._slowed, self._number = slowed, -1
        self.waits = []

    def run(self, request, heard=None):
        if request.quiet_within_s:
            self.waits.append((self._number, request.quiet_within_s))
            return super().run(request, heard)
        self._number += 1
        left = 2.0 if self._number in self._slowed else 4.0
        return replace(super().run(request, heard), ipc={1: (4.0, left)})


def beside(slowed, repeats=3):
    patient = replace(SCENARIO.validity, quiet_within_s=0.3)
    scenario = replace(SCENARIO, measure=Load((100_000.0,), 0.2, repeats), validity=patient)
    instrument = BesideANeighbour(Truth(2e6), slowed)
    instrument.open()
    kept = []
    session = Session(scenario, instrument, Bracket([]), kept.append, Listener())
    return measure_loads(session), kept, instrument.waits


def test_trials_beside_a_neighbour_count_and_the_reader_is_informed():
    result, kept, _ = beside(slowed=(1, 3))
    assert len(kept) == 1 + 3
    assert result.invalid_trials == {}
    (told,) = (warning.text for warning in result.warnings if warning.kind is Warn.CORE_SLOWED)
    assert "the host slowed the switch's core 1 in 50.0 % of 4 trials" in told


def test_after_a_trial_beside_a_neighbour_its_leaving_is_waited_for():
    _, kept, waits = beside(slowed=(1, 2))
    assert waits == [(1, 0.3), (2, 0.3)]
    assert not any(trial.id == "waiting" for trial in kept)
