"""A run over a sweep goes on past what is impossible or fails, keeps every outcome, and knows when to stop."""

import os
import shutil
import time
from dataclasses import replace
from typing import ClassVar

import pytest
from sweeps import base, factor, measured, sweep

from pinchpoint.cli.program import Program
from pinchpoint.host import numa
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Interrupted, Listener
from pinchpoint.model.errors import BenchError, DutError, EngineError, InputError, RequirementError, StoreError
from pinchpoint.model.result import Ceiling, Outcome
from pinchpoint.model.scenario import NumaPlacement
from pinchpoint.model.study import Conclusion, FindingRequest, Need, Study
from pinchpoint.run.checkpoint import RunContext
from pinchpoint.run.order import info, units
from pinchpoint.run.run import describe_run, run_all, unmeasured
from pinchpoint.scenario.plain import from_plain, to_plain
from pinchpoint.store.folder import RunFolder


class Bench:
    """In place of real ones: what each unit does, and which were run."""

    def __init__(self, errors=None, lacking=None, rate=lambda levels: 1e6, before=lambda unit: None, lost=(), **facts):
        self.lost, self.facts = lost, {"switch ovs_version": "3.1.0", **facts}
        self.errors, self.lacking, self.rate, self.before = errors or {}, lacking or {}, rate, before
        self.ran = []

    def run_one(self, unit, task):
        self.before(unit)
        self.ran.append(unit.name)
        task.note_plan(unit.name, (f"make {unit.name}",))
        task.note_facts(self.facts)
        if unit.name in self.errors:
            raise self.errors[unit.name]
        if unit.name in self.lost:
            return unmeasured(unit, Outcome.FAILED, "no window", 1.0)
        return measured(unit, self.rate(unit.point.levels))

    def require(self, unit, machines):
        if unit.name in self.lacking:
            raise self.lacking[unit.name]


class Heard(Listener):
    def __init__(self):
        self.ends, self.left_s = [], []

    def scenario_ends(self, result):
        self.ends.append((result.scenario, result.outcome))

    def run_left(self, left_s):
        self.left_s.append(left_s)


def folder_of(path, sweeps, **more):
    folder = RunFolder.create(path, "run")
    wanted = units(sweeps, budgeted=more.get("budget_s") is not None)
    infos = [info(sweep) for sweep in sweeps]
    folder.write_info(
        describe_run(Local(), folder.run_id, ["pinchpoint"], [to_plain(u) for u in wanted], {}, infos, **more)
    )
    return folder


def run(folder, bench, listener=None, on_stoppable=lambda _: None, now_s=time.monotonic):
    """As the command does it: everything it needs is in run.json."""
    wanted = [from_plain(plain) for plain in folder.read_info().scenarios]
    context = RunContext(Machines(Local()), folder, listener or Listener(), on_stoppable)
    return run_all(context, wanted, bench.run_one, bench.require, now_s=now_s)


def outcomes(result):
    return {scenario.scenario: scenario.outcome.value for scenario in result.scenarios}


THREE = sweep(factor([1, 2, 3]))


def test_every_unit_runs_once_and_the_result_has_its_curve(tmp_path):
    folder, bench = folder_of(tmp_path, [sweep(factor([1, 2, 3]), repeats=2)]), Bench()
    result = run(folder, bench)
    assert bench.ran == [f"g-rules-{level}{r}" for r in ("", ".r2") for level in (1, 2, 3)]
    assert result.finished
    assert result == folder.read_result()
    (curve,) = result.curves
    assert [point.levels["rules"] for point in curve.points] == [1, 2, 3]
    assert all(point.estimates["NDR"].n == 2 for point in curve.points)
    info = folder.read_info()
    assert set(info.plans) == set(bench.ran)
    assert info.versions["switch ovs_version"] == "3.1.0"


def test_a_study_gets_its_findings_and_conclusions_as_the_result_grows(tmp_path):
    fall = FindingRequest("fall", "g", "NDR", "rules", "")
    request = FindingRequest("compare", "g", "NDR", "", "", {"rules": 3}, {"rules": 1})
    falls = Conclusion("It falls.", "a table", request, None, 0.8, {Need.CPUS: 64})
    study = Study("s", "a study", "", "a source", (), (fall,), False, (falls,))
    folder, seen, clock = folder_of(tmp_path, [THREE], study=study), [], [0.0]

    def before(unit):
        clock[0] += 3600.0
        result = folder.read_result()
        seen.append((len(result.scenarios), result.finished) if result else (0, False))

    result = run(folder, Bench(rate=lambda levels: 4e6 / levels["rules"], before=before), now_s=lambda: clock[0])
    assert seen == [(0, False), (1, False), (2, False)]
    assert any("4.00 Mpps" in finding.text for finding in result.findings)
    (judged,) = result.conclusions
    assert (judged.conclusion, judged.ours[""].value) == (falls, pytest.approx(1 / 3))
    assert folder.read_result() == result


def test_what_this_machine_lacks_is_impossible_and_the_rest_is_measured(tmp_path):
    bench = Bench(
        errors={"g-rules-1": RequirementError("one NUMA node", "use two")},
        lacking={"g-rules-3": RequirementError("CPU 9 not usable")},
    )
    heard = Heard()
    result = run(folder_of(tmp_path, [THREE]), bench, heard)
    assert outcomes(result) == {"g-rules-1": "impossible", "g-rules-2": "measured", "g-rules-3": "impossible"}
    assert "one NUMA node" in result.scenarios[0].reason
    assert "use two" in result.scenarios[0].reason
    assert bench.ran == ["g-rules-1", "g-rules-2"], "what cannot run is not built"
    assert [name for name, outcome in heard.ends if outcome is Outcome.IMPOSSIBLE] == ["g-rules-1", "g-rules-3"]


@pytest.mark.parametrize("kind", [BenchError, EngineError, DutError, InputError])
def test_a_failure_is_kept_with_its_words_and_the_run_goes_on(tmp_path, kind):
    error = kind("it broke")
    error.add_note("not removed: br0")
    result = run(folder_of(tmp_path, [THREE]), Bench(errors={"g-rules-2": error}))
    assert outcomes(result) == {"g-rules-1": "measured", "g-rules-2": "failed", "g-rules-3": "measured"}
    assert result.scenarios[1].reason == "it broke\nnot removed: br0"
    assert result.finished


def test_three_failures_in_a_row_end_the_run_with_the_last_error(tmp_path):
    four = sweep(factor([1, 2, 3, 4, 5]))
    bench = Bench(errors={f"g-rules-{n}": DutError(f"number {n} died") for n in (2, 3, 4)})
    folder = folder_of(tmp_path, [four])
    with pytest.raises(DutError, match="number 4"):
        run(folder, bench)
    result = folder.read_result()
    assert not result.finished
    assert [scenario.outcome.value for scenario in result.scenarios] == ["measured", "failed", "failed", "failed"]


def test_units_that_end_in_order_without_a_figure_are_failures_like_any_other(tmp_path):
    lost = {f"g-rules-{n}" for n in (2, 3, 4)}
    folder = folder_of(tmp_path, [sweep(factor([1, 2, 3, 4, 5]))])
    with pytest.raises(BenchError, match="g-rules-4: no window"):
        run(folder, Bench(lost=lost))
    assert len(folder.read_result().scenarios) == 4
    with pytest.raises(BenchError, match="g-rules-1: no window"):
        run(folder_of(tmp_path, [sweep(factor([1]))]), Bench(lost={"g-rules-1"}))


@pytest.mark.parametrize("fact", ["switch ovs_version", "capture /web.pcap"])
def test_a_run_is_not_resumed_with_another_switch_or_capture(tmp_path, fact):
    folder = folder_of(tmp_path, [THREE])
    with pytest.raises(Interrupted):
        run(folder, Bench(errors={"g-rules-2": Interrupted("interrupted")}, **{fact: "one"}))
    with pytest.raises(InputError, match=f"{fact}: one then, another now"):
        run(folder, Bench(**{fact: "another"}))
    assert folder.read_info().versions[fact] == "one"


def test_a_success_between_failures_starts_the_count_anew(tmp_path):
    six = sweep(factor([1, 2, 3, 4, 5, 6]))
    bench = Bench(errors={f"g-rules-{n}": DutError("died") for n in (1, 2, 4, 5)})
    assert run(folder_of(tmp_path, [six]), bench).finished


@pytest.mark.parametrize("error", [RequirementError("no hugepages"), BenchError("refused")])
def test_a_run_that_measured_nothing_ends_with_the_error(tmp_path, error):
    two = sweep(factor([1, 2]))
    folder = folder_of(tmp_path, [two])
    with pytest.raises(type(error), match=error.message):
        run(folder, Bench(errors={"g-rules-1": error, "g-rules-2": error}))
    assert len(folder.read_result().scenarios) == 2


def test_other_errors_end_the_run_at_once(tmp_path):
    folder = folder_of(tmp_path, [THREE])
    with pytest.raises(StoreError):
        run(folder, Bench(errors={"g-rules-2": StoreError("the disk is full")}))
    assert outcomes(folder.read_result()) == {"g-rules-1": "measured"}


@pytest.mark.parametrize(
    ("error", "noted"), [(StoreError("trials.jsonl: No space left on device"), 0), (Interrupted("interrupted"), 1)]
)
def test_a_full_disk_is_one_error_and_a_note_of_any_other(tmp_path, error, noted):
    class Full(RunFolder):
        is_full = False

        def write_info(self, info):
            if Full.is_full:
                raise StoreError("run.json: No space left on device")
            super().write_info(info)

    def before(unit):
        Full.is_full = unit.name == "g-rules-2"

    folder = Full(folder_of(tmp_path, [THREE]).path)
    with pytest.raises(type(error)) as told:
        run(folder, Bench(errors={"g-rules-2": error}, before=before), now_s=lambda: 0.0)
    assert len(getattr(told.value, "__notes__", ())) == noted


def test_a_plain_scenario_ends_the_run_with_its_first_error(tmp_path):
    folder = RunFolder.create(tmp_path, "run")
    folder.write_info(describe_run(Local(), folder.run_id, [], [to_plain(base())], {}))
    with pytest.raises(DutError):
        run(folder, Bench(errors={base().name: DutError("died")}))
    assert folder.read_result() is None


def test_resuming_tries_again_what_failed_or_was_impossible_and_nothing_else(tmp_path):
    folder = folder_of(tmp_path, [THREE])
    run(folder, Bench(errors={"g-rules-2": DutError("died"), "g-rules-3": RequirementError("no hugepages")}))
    again = Bench()
    result = run(folder, again)
    assert again.ran == ["g-rules-2", "g-rules-3"]
    assert set(outcomes(result).values()) == {"measured"}
    assert [scenario.scenario for scenario in result.scenarios] == ["g-rules-1", "g-rules-2", "g-rules-3"]


def test_an_interrupted_run_goes_on_with_the_unit_it_was_interrupted_in(tmp_path):
    folder = folder_of(tmp_path, [THREE])
    with pytest.raises(Interrupted):
        run(folder, Bench(errors={"g-rules-2": Interrupted("interrupted")}))
    again = Bench()
    assert run(folder, again).finished
    assert again.ran == ["g-rules-2", "g-rules-3"]


class Searching(Bench):
    """Knows ceilings of the generator, and remembers which those of the record were."""

    def __init__(self, ceilings, **more):
        super().__init__(**more)
        self.ceilings, self.recorded = ceilings, []

    def run_one(self, unit, task):
        self.recorded.append(task.ceilings)
        task.note_ceilings(unit.name, self.ceilings)
        return super().run_one(unit, task)


@pytest.mark.parametrize("ceilings", [(), (Ceiling(9e6, "2026-01-02T03:00:00+00:00", "a key", 30.0),)])
def test_what_was_known_of_the_generator_when_a_search_began_is_known_when_it_is_resumed(tmp_path, ceilings):
    folder = folder_of(tmp_path, [THREE])
    first = Searching(ceilings, errors={"g-rules-2": Interrupted("interrupted")})
    with pytest.raises(Interrupted):
        run(folder, first)
    again = Searching(())
    run(folder, again)
    assert (first.recorded, again.recorded) == ([None, None], [ceilings, None])


def test_a_signal_between_two_units_ends_the_run_there(tmp_path):
    folder, stoppables = folder_of(tmp_path, [THREE]), []

    def remember(stoppable):
        stoppables.append(stoppable)
        if len(stoppables) == 2:
            stoppable.stop()

    bench = Bench()
    with pytest.raises(KeyboardInterrupt):
        run(folder, bench, on_stoppable=remember)
    assert bench.ran == ["g-rules-1"]
    assert outcomes(folder.read_result()) == {"g-rules-1": "measured"}


def test_a_budget_is_kept_over_an_interruption(tmp_path):
    nine = sweep(factor(range(1, 10)))
    folder = folder_of(tmp_path, [nine], budget_s=1e6)
    bench = Bench(errors={"g-rules-5": Interrupted("interrupted")})
    with pytest.raises(Interrupted):
        run(folder, bench)
    assert bench.ran == ["g-rules-1", "g-rules-9", "g-rules-5"]
    spent = folder.read_result()
    folder.write_result(replace(spent, scenarios=tuple(replace(scenario, wall_s=5e5) for scenario in spent.scenarios)))
    again = Bench()
    result = run(folder, again)
    assert again.ran == [], "the first two took the whole budget"
    assert result.finished
    assert sorted(outcomes(result).values()) == ["measured"] * 2 + ["skipped"] * 7
    assert {scenario.reason for scenario in result.scenarios if scenario.outcome is Outcome.SKIPPED} == {
        "budget of 277 h 47 min used"
    }


def test_what_is_the_same_bench_on_one_numa_node_is_skipped_and_takes_no_time(tmp_path, monkeypatch):
    two = sweep(factor(["any", "same"], name="numa"), repeats=2)
    placed = tuple(replace(scenario, numa=NumaPlacement(scenario.point.levels["numa"])) for scenario in two.scenarios)
    two, heard, bench = replace(two, scenarios=placed), Heard(), Bench()
    monkeypatch.setattr(numa, "read_topology", lambda _host: numa.Topology({0: tuple(range(64))}))
    result = run(folder_of(tmp_path / "one", [two]), bench, heard)
    assert bench.ran == ["g-numa-any", "g-numa-any.r2"]
    assert result.finished
    assert outcomes(result)["g-numa-same"] == outcomes(result)["g-numa-same.r2"] == "skipped"
    assert "one NUMA node" in result.scenarios[1].reason
    of_all, of_last = heard.left_s
    assert of_last == pytest.approx(1), "nothing but the unit that runs"
    assert Program("one", (two,)).expected_s(Machines(Local())) == pytest.approx(of_all)
    monkeypatch.setattr(numa, "read_topology", lambda _host: numa.Topology({0: (0,), 1: (1,)}))
    again = Bench()
    run(folder_of(tmp_path / "two", [two]), again)
    assert len(again.ran) == 4


def test_the_time_left_of_the_whole_run_falls_to_nothing(tmp_path):
    heard = Heard()
    run(folder_of(tmp_path, [THREE]), Bench(), heard)
    assert len(heard.left_s) == 3
    assert heard.left_s == sorted(heard.left_s, reverse=True)


class Counting(RunFolder):
    """A folder that knows how often its two growing files were written."""

    writes: ClassVar[list[str]] = []

    def write_info(self, info):
        self.writes.append("run.json")
        super().write_info(info)

    def write_result(self, result):
        self.writes.append("result.json")
        super().write_result(result)


def test_files_are_not_written_again_for_each_of_many_short_units(tmp_path):
    folder = folder_of(tmp_path, [sweep(factor(range(1, 101)))])
    Counting.writes.clear()
    result = run(Counting(folder.path), Bench(), now_s=lambda: 0.0)
    assert Counting.writes == ["run.json", "run.json", "result.json", "run.json", "result.json"]
    assert len(result.scenarios) == len(result.curves[0].points) == len(folder.read_info().plans) == 100


def test_the_longer_writing_takes_the_seldomer_it_happens(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the clock is made up, the disk is not
    folder, clock = folder_of(tmp_path, [sweep(factor(range(1, 101)))]), [0.0]

    class Slow(Counting):
        def write_result(self, result):
            clock[0] += 1.0
            super().write_result(result)

    def before(_unit):
        clock[0] += 10.0

    Counting.writes.clear()
    run(Slow(folder.path), Bench(before=before), now_s=lambda: clock[0])
    assert Counting.writes.count("result.json") == 21, "2 % of 1000 s, and at the end"


def test_a_crash_costs_only_results_that_are_found_again(tmp_path):
    folder, crashed = folder_of(tmp_path, [THREE]), tmp_path / "crashed"

    def before(unit):
        if unit.name == "g-rules-3":
            shutil.copytree(folder.path, crashed)

    whole = run(folder, Bench(before=before), now_s=lambda: 0.0)
    assert outcomes(RunFolder(crashed).read_result()) == {"g-rules-1": "measured"}
    again = Bench()
    resumed = run(RunFolder(crashed), again)
    assert again.ran == ["g-rules-2", "g-rules-3"]
    assert outcomes(resumed) == outcomes(whole)
    assert set(RunFolder(crashed).read_info().plans) == set(folder.read_info().plans)
