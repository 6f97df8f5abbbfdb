"""What a pilot makes of its measurements, without a bench."""

from contextlib import nullcontext
from types import SimpleNamespace

from comparisons import run_info
from sweeps import base, measured

from pinchpoint.bench.resource import Command, Daemon, TextFile
from pinchpoint.dut.ovs.device import OvsBench
from pinchpoint.dut.ovs.live import OvsLive
from pinchpoint.dut.setup import prepare
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Listener
from pinchpoint.model.result import Outcome
from pinchpoint.run import pilot, scenario
from pinchpoint.run.checkpoint import RunContext
from pinchpoint.run.pilot import Size, Spent, metrics_of, nested, restart_dut, run_pilot, unit
from pinchpoint.run.run import unmeasured
from pinchpoint.store.folder import RunFolder

SIZE = Size(benches=2, starts=2, measurements=3)


def _found():
    """Every measurement's value tells its place: 231 is bench 2, start 3, measurement 1."""
    scenario = base()
    return {(i, j, k): measured(unit(scenario, i, j, k), 100.0 * i + 10 * j + k) for i, j, k in SIZE.every}


def test_values_are_nested_by_bench_start_and_measurement():
    values, unit_name, reason = nested("NDR", SIZE, _found())
    assert values == [[[111, 112, 113], [121, 122, 123]], [[211, 212, 213], [221, 222, 223]]]
    assert (unit_name, reason, metrics_of(_found())) == ("fps", "", ("NDR",))


def test_a_single_measurement_without_a_number_leaves_none_and_says_why():
    wanted = _found()
    wanted[1, 2, 1] = unmeasured(unit(base(), 1, 2, 1), Outcome.FAILED, "the host was busy\n  hint: wait", 1.0)
    assert nested("NDR", SIZE, wanted) == (
        [],
        "fps",
        "no number in 1 of 12 measurements; the first: the host was busy",
    )


def test_every_measurement_has_a_name_and_a_place_of_its_own():
    units = [unit(base(), *place) for place in SIZE.every]
    assert len({unit.name for unit in units}) == len(units) == 12
    assert units[-1].name == "1-forward-bench2-start2-3"
    assert (units[-1].point.group, dict(units[-1].point.levels)) == ("1-forward", {"bench": 2, "start": 2})


def test_the_first_start_of_the_dut_is_no_part_of_building_a_bench():
    costs = Spent(building=[5.0, 6.0, 9.0], restarting=[2.0, 2.5], measuring=[10.0, 12.0, 50.0]).costs()
    assert (costs.rebuild_s, costs.restart_s, costs.measurement_s) == (3.75, 2.25, 12.0)


def test_a_restart_keeps_what_the_database_holds_and_makes_the_rest_anew(monkeypatch):
    monkeypatch.setattr("pinchpoint.host.hugepages.pool", lambda _host: (0, 0))
    setup = prepare(base(), Machines(Local()))
    ending = setup.bench.ends_with_it(setup.resources)
    assert [type(resource) for resource in ending] == [Daemon, TextFile, Command]
    assert ending[0].name == "ovs-vswitchd"
    assert "add-flows" in ending[2].argv
    applied = []

    class Built:
        def apply(self, desired, _on_action):
            applied.append(list(desired))

    restart_dut(Built(), setup, Listener())
    without, whole = applied
    assert [resource for resource in whole if resource not in without] == ending
    assert tuple(whole) == setup.resources


def test_the_record_says_which_program_forwarded(monkeypatch, tmp_path):
    program = {"switch program for dpdk": "/usr/sbin/ovs-vswitchd: 3.1.0, sha256 aa"}
    monkeypatch.setattr("pinchpoint.host.hugepages.pool", lambda _host: (0, 0))
    monkeypatch.setattr(scenario, "find_engine", lambda host: None)
    monkeypatch.setattr(pilot, "standing_bench", lambda *_: nullcontext())
    monkeypatch.setattr(OvsLive, "settings", lambda _: {})
    monkeypatch.setattr(OvsBench, "facts", lambda _: program)
    measure = SimpleNamespace(run=lambda bench: measured(bench.setup.scenario, 3e6))
    monkeypatch.setattr(pilot, "measure_of", lambda _: measure)
    size = Size(benches=1, starts=1, measurements=2)
    folder = RunFolder.create(tmp_path, "pilot")
    folder.write_info(run_info([unit(base(), *place) for place in size.every]))
    measure, _ = run_pilot(RunContext(Machines(Local()), folder, Listener(), lambda _: None), base(), size)
    assert list(measure) == [(1, 1, 1), (1, 1, 2)]
    assert program.items() <= folder.read_info().versions.items()
