"""When a run samples forwarding threads, and what becomes of a sampling that fails."""

from dataclasses import replace

import pytest
from support import scenario_of

from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Interrupted, Listener
from pinchpoint.model.errors import BenchError
from pinchpoint.model.measurement import DropReason, FunctionShare, Profile
from pinchpoint.model.result import Limit, Outcome, RunResult, Verdict
from pinchpoint.model.scenario import Guest
from pinchpoint.run.checkpoint import RunContext
from pinchpoint.run.explaining import sweep_of
from pinchpoint.run.profile import profile_all, suspected
from pinchpoint.run.run import describe_run, unmeasured
from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.folder import RunFolder

UNITS = sweep_of(scenario_of("nft")).scenarios
NAME = UNITS[0].name
SAMPLED = Profile(NAME, samples=2, threads=("main",), functions=(FunctionShare("f", "kernel", 2, 1.0),))


@pytest.fixture
def make(tmp_path):
    """A folder with the unchanged bench measured."""

    def made(wall_s=1.0, budget_s=300.0, explains=True, profiles=()):
        folder = RunFolder.create(tmp_path, "x")
        info = describe_run(Local(), "x", ["pinchpoint"], [], {}, budget_s=budget_s, explains=explains)
        folder.write_info(info)
        verdict = Verdict(Limit.FORWARDING_CORE, "", (), (), ())
        first = replace(unmeasured(UNITS[0], Outcome.MEASURED, "", wall_s), verdict=verdict)
        folder.write_result(RunResult(SCHEMA, "x", True, (first,), profiles=profiles))
        return folder

    return made


def profiles(folder, result=None, units=UNITS):
    """What the run then holds, and for which scenarios it was sampled."""
    asked = []

    def sampled(unit, _):
        asked.append(unit.name)
        if isinstance(result, Exception):
            raise result
        return SAMPLED

    profile_all(RunContext(Machines(Local()), folder, Listener(), lambda _: None), units, sampled)
    return folder.read_result().profiles, asked


def test_only_the_unchanged_bench_is_sampled_and_its_samples_are_stored(make):
    assert profiles(make()) == ((SAMPLED,), [NAME])


def test_what_has_been_sampled_is_not_sampled_again_but_what_could_not_be_is(make):
    assert profiles(make(profiles=(SAMPLED,))) == ((SAMPLED,), [])
    assert profiles(make(profiles=(Profile(NAME, "no perf"),))) == ((SAMPLED,), [NAME])


def test_a_run_that_explains_nothing_samples_nothing(make):
    assert profiles(make(explains=False)) == ((), [])


def test_without_time_left_nothing_is_sampled_and_the_profile_says_so(make):
    ((profile,), asked) = profiles(make(wall_s=299.0))
    assert (asked, "--budget" in profile.reason) == ([], True)


def test_a_guest_is_not_sampled(make):
    ((profile,), asked) = profiles(make(), units=(replace(UNITS[0], guest=Guest("qemu", 256)),))
    assert (asked, "guest" in profile.reason) == ([], True)


def test_a_bench_that_fails_is_the_reason_of_a_profile_and_ends_nothing(make):
    ((profile,), _) = profiles(make(), BenchError("no switch", "start it"))
    assert profile.reason == "no switch (start it)"


@pytest.mark.parametrize(
    ("reason", "causes"),
    [("NEIGH_FAILED", ["neighbour"]), ("IP_RPFILTER", ["reverse-path"]), ("NOT_SPECIFIED", [])],
)
def test_reasons_of_the_kernel_name_causes_where_no_counter_does(reason, causes):
    drops = (DropReason(reason, 90, 0.9), DropReason("NOMEM", 1, 0.01))
    assert [suspicion.cause for suspicion in suspected(drops)] == causes


def test_a_stop_is_passed_on_and_nothing_is_stored(make):
    folder = make()
    with pytest.raises(Interrupted):
        profiles(folder, Interrupted("interrupted"))
    assert folder.read_result().profiles == ()
