"""A whole run over the simulated engine: stored as it goes, resumed where it stopped."""

from pathlib import Path

import pytest
from simulated import SimulatedInstrument
from support import Truth

from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.rates.run import measure_scenario
from pinchpoint.measure.session import Session
from pinchpoint.measure.standing import Interrupted, Listener
from pinchpoint.model.result import RateStatus
from pinchpoint.model.trial import Trial
from pinchpoint.observe.snapshot import Bracket
from pinchpoint.run.checkpoint import RunContext
from pinchpoint.run.run import describe_run, run_all
from pinchpoint.scenario import load
from pinchpoint.scenario.plain import to_plain
from pinchpoint.store.folder import RunFolder

QUICKSTART = sorted((Path(__file__).parents[3] / "studies" / "quickstart").glob("*.toml"))
CAPACITY_FPS = 4e6


@pytest.fixture
def scenarios():
    return [load(path) for path in QUICKSTART[:2]]


@pytest.fixture
def folder(tmp_path, scenarios):
    made = RunFolder.create(tmp_path, "quickstart")
    made.write_info(describe_run(Local(), made.run_id, ["pinchpoint"], [to_plain(s) for s in scenarios], {}))
    return made


def simulated(stop_after=None, truth=None):
    """A `run_one` without a bench; after `stop_after` trials in all the user presses Ctrl-C."""
    made = {"trials": 0}

    def run_one(scenario, task):
        instrument = SimulatedInstrument(truth or Truth(CAPACITY_FPS))
        instrument.open()

        def keep(trial):
            task.keep(trial)
            made["trials"] += 1
            if made["trials"] == stop_after:
                session.stop()

        session = Session(scenario, instrument, Bracket([]), keep, task.listener, task.recorded(Trial))
        task.on_stoppable(session)
        return measure_scenario(session)

    return run_one


def run(folder, scenarios, stop_after=None):
    context = RunContext(Machines(Local()), folder, Listener(), lambda _: None)
    return run_all(context, scenarios, simulated(stop_after))


def test_every_scenario_gets_its_rates_latency_and_verdict(folder, scenarios):
    result = run(folder, scenarios)
    assert result.finished
    assert folder.read_result() == result
    for outcome, scenario in zip(result.scenarios, scenarios, strict=True):
        ndr, pdr = outcome.rates
        assert ndr.status is RateStatus.FOUND
        assert ndr.lower_fps == pytest.approx(CAPACITY_FPS, rel=0.02)
        assert pdr.lower_fps >= ndr.lower_fps
        assert [point.share for point in outcome.latency] == list(scenario.measure.at)
        assert all(point.latency for point in outcome.latency)
        assert outcome.verdict is not None
        assert outcome.trials == sum(trial.scenario == scenario.name for trial in folder.read_trials())


@pytest.mark.parametrize("stop_after", [1, 2, 5, 12])
def test_an_interrupted_run_resumes_to_the_same_result(tmp_path, folder, scenarios, stop_after):
    with pytest.raises(Interrupted):
        run(folder, scenarios, stop_after)
    before = folder.read_trials()
    assert len(before) == stop_after
    result = run(folder, scenarios)
    assert result.finished
    assert folder.read_trials()[: len(before)] == before, "nothing was measured twice or lost"
    assert len({trial.id for trial in folder.read_trials()}) == len(folder.read_trials())


def test_a_finished_run_measures_nothing_more(folder, scenarios):
    result = run(folder, scenarios)
    trials = folder.read_trials()
    assert run(folder, scenarios, stop_after=1) == result
    assert folder.read_trials() == trials
