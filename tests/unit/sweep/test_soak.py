"""The measure `soak` over the simulated engine, whose stalls are known."""

from dataclasses import replace

import pytest
from support import TWO_PORTS, Truth

from pinchpoint.engine.simulated import SimulatedInstrument, StallKind, Stalls
from pinchpoint.model.errors import EngineError
from pinchpoint.model.result import Outcome
from pinchpoint.model.scenario import MeasureKind, Soak
from pinchpoint.model.trial import TrialValidity
from pinchpoint.observe.bracket import Bracket
from pinchpoint.sweep.listener import Listener
from pinchpoint.sweep.measure import Interrupted, Measurer
from pinchpoint.sweep.soak import Windows, soak_scenario

OWN = Stalls(StallKind.DUT, 0.05, 0.01)
ENGINES = Stalls(StallKind.ENGINE, 0.2, 0.01)


class Interrupting(SimulatedInstrument):
    """Is stopped, or dies, after some samples of its second transmission."""

    def __init__(self, truth, after, error=None):
        super().__init__(truth)
        self.after, self.error, self.measurer = after, error, None

    def run(self, request, heard=None):
        if heard is None:
            return super().run(request)
        told = []

        def some(sample):
            if len(told) < self.after:
                told.append(sample)
                heard(sample)

        result = super().run(request, some)
        if self.error:
            raise self.error
        self.measurer.stop()
        return replace(result, completed=False, sent_duration_s=float(self.after))


def soaked(truth, soak, trials=(), made=(), instrument=None):
    scenario = replace(TWO_PORTS, measure=MeasureKind.SOAK, soak=soak)
    instrument = instrument or SimulatedInstrument(truth)
    instrument.open()
    kept, windows = [], []
    measurer = Measurer(scenario, instrument, Bracket([]), kept.append, Listener(), trials)
    if isinstance(instrument, Interrupting):
        instrument.measurer = measurer
    over = Windows(scenario, Bracket([]), windows.append, made)
    try:
        result = soak_scenario(scenario, measurer, over, Listener(), 0.0)
    except (Interrupted, EngineError):
        result = None
    return result, kept, windows


def figures(result):
    return {one.name: one for one in result.metrics}


def test_windows_leave_out_no_time_and_no_frame():
    result, kept, windows = soaked(Truth(5e6, stalls=(OWN,)), Soak(1e6, 0.9, 100.0, 1.0))
    (trial,) = [trial for trial in kept if trial.phase == "soak"]
    assert len(windows) == 100
    assert sum(one.account["span_s"] for one in windows) == pytest.approx(trial.sent_duration_s)
    assert sum(one.account["lost"] for one in windows) == trial.lost > 0
    assert sum(one.account["offered"] for one in windows) == trial.offered
    assert result.outcome is Outcome.MEASURED


def test_a_dut_that_pauses_has_losses_with_the_time_between_them():
    result, _, _ = soaked(Truth(5e6, stalls=(OWN,)), Soak(1e6, 0.9, 1000.0, 1.0))
    between = figures(result)["mean time between losses"]
    assert between.low < 1 / OWN.per_second < between.high
    assert figures(result)["disturbed windows"].value == 0


def test_pauses_of_the_engine_set_windows_aside():
    result, _, windows = soaked(Truth(5e6, stalls=(ENGINES,)), Soak(1e6, 0.9, 200.0, 1.0))
    aside = [one for one in windows if one.validity is TrialValidity.NOISY_HOST]
    assert 20 < len(aside) < 60
    assert figures(result)["disturbed windows"].value == pytest.approx(len(aside) / 200)
    assert figures(result)["windows with loss"].value == 0


def test_without_a_load_it_is_a_share_of_the_ndr():
    result, kept, _ = soaked(Truth(2e6), Soak(None, 0.5, 5.0, 1.0))
    (trial,) = [trial for trial in kept if trial.phase == "soak"]
    assert trial.load_fps == pytest.approx(0.5 * result.rates[0].quoted_fps)
    assert trial.load_fps == pytest.approx(1e6, rel=0.05)


def test_a_bench_without_ndr_fails_with_the_reason():
    result, _, windows = soaked(Truth(1e3), Soak(None, 0.9, 5.0, 1.0))
    assert result.outcome is Outcome.FAILED
    assert "no NDR" in result.reason and windows == []


@pytest.mark.parametrize("error", [None, EngineError("the engine was killed by signal 9")], ids=["stop", "death"])
def test_what_was_measured_before_an_interruption_is_kept_and_resume_adds_the_rest(error):
    soak = Soak(1e6, 0.9, 10.0, 1.0)
    result, kept, windows = soaked(None, soak, instrument=Interrupting(Truth(5e6), 4, error))
    assert result is None
    assert len(windows) == 4
    result, again, rest = soaked(Truth(5e6), soak, trials=kept, made=windows)
    (trial,) = [trial for trial in again if trial.phase == "soak"]
    assert trial.duration_s == pytest.approx(6.0)
    assert [one.repeat for one in rest] == [5, 6, 7, 8, 9, 10]
    assert figures(result)["longest loss-free stretch"].value == pytest.approx(10.0)
    assert result.warnings == ()


def test_a_soak_that_was_finished_sends_nothing_more():
    soak = Soak(1e6, 0.9, 3.0, 1.0)
    _, kept, windows = soaked(Truth(5e6), soak)
    _, again, rest = soaked(Truth(5e6), soak, trials=kept, made=windows)
    assert [trial.phase for trial in again] == ["warm-up"]
    assert rest == []
