"""How often an action is repeated, also by a run that is resumed, and what a restart of the switch consists of."""

from pathlib import PurePosixPath
from types import SimpleNamespace

import pytest
from support import scenario_text
from trials import measurement

from pinchpoint.bench.resource import Command, Daemon, TextFile
from pinchpoint.dut.ovs import live
from pinchpoint.dut.setup import prepare
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.blocked.run import all_repeats
from pinchpoint.measure.loop import Loop, loop_of
from pinchpoint.measure.standing import Interrupted, Task
from pinchpoint.model.trial import TrialValidity
from pinchpoint.scenario import parse

VALID, NOISY = TrialValidity.VALID, TrialValidity.NOISY_HOST


def made(number, validity):
    return measurement("blocked", number, validity, id=f"b-{number:04d}")


def repeats(outcomes, recorded=(), wanted=3, spare=2):
    """The ids of all repeats and of those made now, whose outcomes are `outcomes` in turn."""
    now, outcome = [], iter(outcomes)
    before = [made(number, validity) for number, validity in enumerate(recorded, 1)]
    bench = SimpleNamespace(scenario=SimpleNamespace(name="b"), task=Task(records=before, keep=now.append))
    loop = loop_of(bench, lambda _: True)

    def repeat():
        loop.begin(1.0)
        return made(loop.number, next(outcome))

    all_repeats(loop, wanted, spare, repeat)
    return [kept.id for kept in loop.records], now


def test_a_disturbed_repeat_is_made_again_up_to_a_bound():
    assert len(repeats([VALID] * 3)[0]) == 3
    assert len(repeats([VALID, NOISY, VALID, NOISY, VALID])[0]) == 5
    assert len(repeats([NOISY] * 9)[0]) == 5


@pytest.mark.parametrize(
    ("recorded", "outcomes", "more"),
    [
        ([VALID, VALID], [VALID], 1),
        ([VALID, NOISY], [VALID, VALID], 2),
        ([NOISY] * 5, [NOISY, VALID, VALID, VALID], 4),
        ([VALID, NOISY, NOISY, NOISY, NOISY], [NOISY, NOISY, NOISY, NOISY], 4),
        ([VALID] * 3, [], 0),
    ],
    ids=["nothing disturbed", "one disturbed", "all were", "all are", "all there"],
)
def test_a_resumed_run_repeats_what_was_disturbed_as_one_that_was_not_interrupted(recorded, outcomes, more):
    ids, now = repeats(outcomes, recorded)
    assert len(now) == more
    assert ids == [f"b-{number:04d}" for number in range(1, len(recorded) + more + 1)], "no number twice"


@pytest.fixture
def restart(tmp_path, monkeypatch):
    """A restart of a switch over veth, and what it does instead of doing it."""
    setup = prepare(
        parse(scenario_text("blocked", '[blocked]\naction = "restart"', "af_packet"), "a.toml"),
        Machines(Local()),
        tmp_path,
    )
    done = []
    monkeypatch.setattr(live, "create", lambda resource, _host: done.append(("create", resource)))
    monkeypatch.setattr(live, "remove", lambda resource, _host: done.append(("remove", resource)))
    return setup, setup.bench.open().action(setup.scenario.measure, setup.resources), done


def test_a_restart_ends_the_switch_starts_it_and_gives_it_its_rules(restart):
    setup, action, done = restart
    action.act(lambda: None)
    created = [resource for what, resource in done if what == "create"]
    assert [type(resource) for resource in created] == [Daemon, TextFile, Command]
    assert created[0].pidfile == setup.places.pidfile("vswitchd")
    assert created[1].path == setup.places.rules_of("br0")
    assert "add-flows" in created[2].argv
    assert done == [
        *(("remove", resource) for resource in reversed(created)),
        *(("create", resource) for resource in created),
    ]
    assert not [resource for resource in created if resource not in setup.resources], "the journal names all of it"
    assert PurePosixPath(created[0].log).parent == setup.places.directory


def test_a_restart_can_be_interrupted_between_its_steps(restart):
    _, action, done = restart
    loop = Loop("b", print)
    loop.stop()
    with pytest.raises(Interrupted):
        action.act(loop.check)
    assert {what for what, _ in done} == {"remove"}
