"""A unit whose host is lost: begun anew when it is back, with what was measured before."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from comparisons import run_info
from sweeps import base
from trials import trial

from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Interrupted, Listener
from pinchpoint.model.errors import BenchError, EngineError, HostLostError
from pinchpoint.model.site import Remote, Site
from pinchpoint.run import host_recovery
from pinchpoint.run.checkpoint import Growing, RunContext
from pinchpoint.store.folder import RunFolder

FAR = Remote("far", "far", sudo=True, lease_s=60)


class FarHost:
    """Lost or not, until it is opened."""

    def __init__(self):
        self.lost, self.refusals, self.cleaned = False, 0, 0

    def is_lost(self):
        return self.lost

    def open(self):
        if self.refusals:
            self.refusals -= 1
            raise HostLostError("far does not answer")
        self.lost = False


@pytest.fixture
def host(monkeypatch):
    far = FarHost()

    def clean(host):
        host.cleaned += 1
        return SimpleNamespace(failures=())

    monkeypatch.setattr(Machines, "ssh", lambda self, remote: far)
    monkeypatch.setattr(host_recovery, "clean", clean)
    return far


def attempt(outcomes, remote=FAR, sleep=lambda seconds: None, on_stoppable=lambda running: None, **how):
    """Make attempts that do as `outcomes` say, one after the other; returns what the last one does."""
    units, left = [SimpleNamespace(sites=(Site(remote),))], iter(outcomes)
    for made in host_recovery.attempts(Machines(Local()), units, on_stoppable, sleep, **how):
        with made:
            result = next(left)()
    return result


def lose(host, error=HostLostError):
    def lost():
        host.lost = True
        raise error("gone")

    return lost


def test_a_unit_is_begun_anew_once_its_host_is_back(host):
    assert attempt([lose(host), lambda: "result"]) == "result"
    assert host.cleaned == 1, "what stands there without a lab is undone first"


def test_an_attempt_goes_on_with_what_earlier_ones_have_measured(tmp_path):
    folder, unit = RunFolder.create(tmp_path, "run"), base()
    folder.write_info(run_info([unit]))
    files = Growing(folder, [unit])
    context = RunContext(Machines(Local()), folder, Listener(), lambda _: None)
    task = files.task(unit.name, context)
    assert task.records == []
    task.keep(replace(trial(number=1), scenario=unit.name))
    task.keep(trial(number=2))
    for resumed in (files, Growing(folder, [unit])):
        assert [trial.id for trial in resumed.task(unit.name, context).records] == ["t-0001"]


def test_an_engine_that_dies_with_its_host_is_a_lost_host(host):
    assert attempt([lose(host, EngineError), lambda: "result"]) == "result"


def test_an_error_of_a_host_that_answers_is_raised_at_once(host):
    def fail():
        raise EngineError("the engine died")

    with pytest.raises(EngineError):
        attempt([fail])


def test_a_unit_of_this_machine_is_never_begun_anew(host):
    with pytest.raises(BenchError):
        attempt([lose(host)], remote=None)


def test_a_host_is_awaited_longer_and_longer_for_five_minutes_at_most(host):
    waited = []
    host.refusals = 1000
    with pytest.raises(HostLostError, match="has not come back within 300 s") as caught:
        attempt([lose(host)], sleep=waited.append)
    assert caught.value.hint == "pinchpoint clean --host far"
    assert waited == sorted(waited)
    assert sum(waited) == 300


def test_a_host_is_awaited_no_longer_than_asked(host):
    waited = []
    host.refusals = 1000
    with pytest.raises(HostLostError, match="has not come back within 10 s"):
        attempt([lose(host)], sleep=waited.append, awaited_s=10)
    assert waited == [1, 2, 4, 3]


def test_an_interrupted_unit_of_a_lost_host_is_not_begun_anew(host):
    waited = []
    with pytest.raises(Interrupted):
        attempt([lose(host, Interrupted)], sleep=waited.append)
    assert waited == []


def test_a_signal_ends_the_wait_for_a_host(host):
    running = []
    with pytest.raises(KeyboardInterrupt):
        attempt([lose(host)], sleep=lambda seconds: running[-1].stop(), on_stoppable=running.append)


def test_a_host_that_is_lost_again_and_again_ends_its_unit(host):
    with pytest.raises(HostLostError, match="gone"):
        attempt([lose(host)] * host_recovery.MOST_LOSSES)
