"""The measure `soak` over the simulated engine, whose stalls are known."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from simulated import PortFailure, SimulatedInstrument, Stop
from simulated_queue import StallKind, Stalls
from support import TWO_PORTS, Truth

from pinchpoint.measure import session as measure
from pinchpoint.measure.loop import loop_of
from pinchpoint.measure.session import Session
from pinchpoint.measure.soak.run import Soak, Windows, soak_scenario
from pinchpoint.measure.standing import Interrupted, Listener, Task
from pinchpoint.model.errors import DutError, EngineError
from pinchpoint.model.result import Outcome
from pinchpoint.model.trial import TrialValidity
from pinchpoint.observe.snapshot import Bracket, Snapshot

OWN = Stalls(StallKind.DUT, 0.05, 0.01)
ENGINES = Stalls(StallKind.ENGINE, 0.2, 0.01)


class Interrupting(SimulatedInstrument):
    """Is stopped, or dies, after some samples of its second transmission."""

    def __init__(self, truth, after, error=None):
        super().__init__(truth)
        self.after, self.error, self.session = after, error, None

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
        self.session.stop()
        return replace(result, completed=False, sent_duration_s=float(self.after))


class Dying:
    """A collector of a DUT that answers some times and then no more."""

    name = "dying"

    def __init__(self, answers):
        self.answers = answers

    def can_run(self):
        return None

    def snapshot(self):
        self.answers -= 1
        if self.answers < 0:
            raise DutError("vswitchd.ctl: no answer to version: timed out")
        return Snapshot(0.0, {"ovs/pmd/core1/packets_received": 7})


@pytest.fixture(autouse=True)
def no_settling(monkeypatch):
    """Counters of no real switch need no time until they are handed over."""
    monkeypatch.setattr(measure, "COUNTERS_SETTLE_S", 0.0)


def soaked(truth, soak, trials=(), made=(), instrument=None, answers=(10**9, 10**9), kept=None, windows=None,
           cpus=(0,)):  # fmt: skip
    """`answers`: how many times the DUT answers about windows, and about trials; `cpus` are the engine's."""
    engine = replace(TWO_PORTS.engine, cpus=cpus)
    scenario = replace(TWO_PORTS, measure=soak, engine=engine)
    instrument = instrument or SimulatedInstrument(truth)
    instrument.open()
    kept, windows = [] if kept is None else kept, [] if windows is None else windows
    session = Session(scenario, instrument, Bracket([Dying(answers[1])]), kept.append, Listener(), trials)
    if isinstance(instrument, Interrupting):
        instrument.session = session
    bench = SimpleNamespace(scenario=scenario, task=Task(keep=windows.append, records=made))
    over = Windows(scenario, Bracket([Dying(answers[0])]), loop_of(bench, lambda _: True))
    try:
        result = soak_scenario(session, over, trials)
    except (Interrupted, EngineError):
        result = None
    return result, kept, windows


def figures(result):
    return {metric.name: metric for metric in result.metrics}


def test_windows_leave_out_no_time_and_no_frame():
    result, kept, windows = soaked(Truth(5e6, stalls=(OWN,)), Soak(1e6, 0.9, 100.0, 1.0))
    (trial,) = [trial for trial in kept if trial.phase == "soak"]
    assert len(windows) == 100
    assert sum(window.account["span_s"] for window in windows) == pytest.approx(trial.sent_duration_s)
    assert sum(window.account["lost"] for window in windows) == trial.lost > 0
    assert sum(window.account["offered"] for window in windows) == trial.offered
    assert result.outcome is Outcome.MEASURED


def test_a_dut_that_pauses_has_losses_with_the_time_between_them():
    result, _, _ = soaked(Truth(5e6, stalls=(OWN,)), Soak(1e6, 0.9, 1000.0, 1.0))
    between = figures(result)["mean time between losses"]
    assert between.low < 1 / OWN.per_second < between.high
    assert figures(result)["disturbed windows"].value == 0


def test_pauses_of_an_engine_core_that_only_receives_discard_windows():
    result, _, windows = soaked(Truth(5e6, stalls=(ENGINES,)), Soak(1e6, 0.9, 200.0, 1.0), cpus=(0, 2))
    discarded = [window for window in windows if window.validity is TrialValidity.NOISY_HOST]
    assert 20 < len(discarded) < 60
    assert figures(result)["disturbed windows"].value == pytest.approx(len(discarded) / 200)
    assert figures(result)["windows with loss"].value == 0


def test_pauses_of_an_engine_of_one_core_discard_nothing_since_it_sends_nothing_meanwhile():
    result, _, windows = soaked(Truth(5e6, stalls=(ENGINES,)), Soak(1e6, 0.9, 20.0, 1.0))
    assert all(window.validity is TrialValidity.VALID for window in windows)
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
    assert [window.repeat for window in rest] == [5, 6, 7, 8, 9, 10]
    assert figures(result)["longest loss-free stretch"].value == pytest.approx(10.0)
    assert result.warnings == ()


def test_a_soak_that_was_finished_sends_nothing_more():
    soak = Soak(1e6, 0.9, 3.0, 1.0)
    _, kept, windows = soaked(Truth(5e6), soak)
    _, again, rest = soaked(Truth(5e6), soak, trials=kept, made=windows)
    assert [trial.phase for trial in again] == ["warm-up"]
    assert rest == []


def losses(windows):
    return [window.account["lost"] / window.account["offered"] for window in windows]


def test_a_dut_that_stops_for_good_has_its_loss_where_it_happened_and_the_time_is_told():
    result, kept, windows = soaked(Truth(5e6, stop=Stop(6.2)), Soak(1e6, 0.9, 10.0, 1.0))
    assert losses(windows) == pytest.approx([0] * 6 + [0.8] + [1] * 3, abs=1e-4)
    assert sum(window.account["lost"] for window in windows) == kept[-1].lost
    assert "forwarding stopped 6.2 s after the beginning, and did not come back" in map(str, result.warnings)
    assert figures(result)["longest stop"].value == pytest.approx(3.8, abs=1e-3)


def test_a_dut_that_comes_back_has_the_loss_of_the_time_that_it_stood_still():
    result, kept, windows = soaked(Truth(5e6, stop=Stop(3.5, 3.2)), Soak(1e6, 0.9, 10.0, 1.0))
    assert losses(windows) == pytest.approx([0, 0, 0, 0.5, 1, 1, 0.7, 0, 0, 0], abs=1e-4)
    assert sum(window.account["lost"] for window in windows) == kept[-1].lost
    assert "forwarding stood still from 3.5 s to 6.7 s after the beginning" in map(str, result.warnings)


def test_a_dut_that_answers_no_more_is_told_and_its_forwarding_still_watched():
    result, _, windows = soaked(Truth(5e6), Soak(1e6, 0.9, 10.0, 1.0), answers=(4, 10**9))
    assert result.outcome is Outcome.MEASURED
    assert len(windows) == 10
    assert [bool(window.threads) for window in windows] == [True] * 3 + [False] * 7
    (told,) = result.warnings
    assert told.text.startswith("4.0 s after the beginning the switch did not answer: vswitchd.ctl: no answer")


def test_a_dut_that_is_silent_at_the_end_does_not_take_the_windows_with_it():
    of_warm_up_and_begin = 3
    result, kept, windows = soaked(Truth(5e6), Soak(1e6, 0.9, 5.0, 1.0), answers=(10**9, of_warm_up_and_begin))
    assert result.outcome is Outcome.MEASURED
    assert len(windows) == 5
    assert kept[-1].validity is TrialValidity.ABORTED
    assert any("no answer to version" in told.text for told in result.warnings)


def test_a_dut_that_died_ends_the_soak_with_the_windows_so_far_and_resume_tells_of_it():
    soak, dies = Soak(1e6, 0.9, 10.0, 1.0), Truth(5e6, failures=(PortFailure(2, "left", 3.5),))
    with pytest.raises(DutError) as died:
        soaked(dies, soak, answers=(10**9, 3), kept=(kept := []), windows=(windows := []))
    assert died.value.__notes__ == ["3.5 s of the soak were measured"]
    assert [window.account["span_s"] for window in windows] == pytest.approx([1, 1, 1, 0.5])
    result, again, _ = soaked(Truth(5e6), soak, trials=kept, made=windows)
    assert again[-1].duration_s == pytest.approx(6.5)
    (told,) = result.warnings
    assert "before the run was resumed: left: its link went down" in told.text
