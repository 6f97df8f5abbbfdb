"""The loop of a campaign over made-up machines on virtual time: what is lost, withdrawn, resumed and counted."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from support import scenario_text

from pinchpoint.campaign.conduct import Conduct
from pinchpoint.campaign.executor import Ended, Gone, Grown, Joined
from pinchpoint.campaign.read import load
from pinchpoint.campaign.results import Results
from pinchpoint.host.local import Local
from pinchpoint.model.campaign import Bench, Entry, Exclusion, Progress, What
from pinchpoint.model.errors import BenchError, RequirementError
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Outcome, RunResult
from pinchpoint.run.run import describe_run, unmeasured
from pinchpoint.scenario.plain import from_plain, to_plain
from pinchpoint.store.campaign import CampaignFolder
from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.folder import INFO, RESULT, RunFolder

FILE = 'scenarios = ["point.toml"]\nrepeats = {repeats}\nretries = 1\n{more}'
SWEEP = '[sweep]\n[[sweep.factor]]\nname = "size"\nkeys = ["stream[1].frame_bytes"]\nlevels = [64, 128, 256, 512]\n'


class MadeUp:
    """Machines that take ten seconds a unit; `value` says what each finds, `fails` how an attempt ends instead."""

    grace_s = absent_s = 0.0

    def __init__(self, names, value=lambda machine, count: 100.0, seed=None, fails=None):
        self.now = 0.0
        self.orders, self.begun = {}, Counter()
        self._value, self._fails = value, fails or {}
        self._chance = random.Random(seed) if seed is not None else None
        self._events = [Joined(Bench(name, cpus=4)) for name in names]
        self.stopped = False

    def start(self, order):
        assert order.bench.name not in self.orders, "a bench is exclusive"
        self.orders[order.bench.name] = (order, self.now + 10)
        self.begun[order.bench.name] += 1

    def wait(self, timeout_s):
        if self._events:
            events, self._events = self._events, []
            return events
        if self.stopped:
            events = [Ended(order.attempt, name, 130, {}, "") for name, (order, _) in self.orders.items()]
            self.orders.clear()
            return events
        self.now += timeout_s
        events = []
        for name, (order, ends_s) in list(self.orders.items()):
            if self._chance and self._chance.random() < 0.01:
                del self.orders[name]
                events += [Gone(name, "killed"), Joined(order.bench)]
            elif self.now >= ends_s:
                del self.orders[name]
                events.append(self._ended(name, order))
        return events

    def _ended(self, name, order):
        (plain,) = INFO.decode(order.files["run.json"], "run.json").scenarios
        unit = from_plain(plain)
        outcome, code = self._fails.get((name, unit.name.partition(".r")[0]), (Outcome.MEASURED, 0))
        outcome_of_unit = unmeasured(unit, outcome, "" if outcome is Outcome.MEASURED else "planted", 10.0)
        if outcome is Outcome.MEASURED:
            value = self._value(name, self.begun[name])
            outcome_of_unit = replace(outcome_of_unit, metrics=(Metric("load", "fps", value, value, value),))
        result = RunResult(SCHEMA, order.attempt, True, (outcome_of_unit,))
        return Ended(order.attempt, name, code, {"result.json": RESULT.encode(result, "x"), **order.files}, "")

    def stop(self):
        self.stopped = True

    def close(self):
        return


@pytest.fixture
def campaign(tmp_path):
    """Makes a campaign's folder of four points; returns what a start of it takes."""

    def make(repeats=2, more=""):
        (tmp_path / "point.toml").write_text(scenario_text("load", "[load]\nat_fps = [1000]\n" + SWEEP))
        (tmp_path / "control.toml").write_text(scenario_text("load", "[load]\nat_fps = [1000]\n"))
        path = tmp_path / "c.toml"
        path.write_text(FILE.format(repeats=repeats, more=more))
        loaded = load(path, lambda *_: "")
        folder = RunFolder.create(tmp_path / "runs", "c")
        plain = [to_plain(scenario) for scenario in loaded.scenarios]
        folder.write_info(describe_run(Local(), folder.run_id, (), plain, loaded.sources, loaded.campaign.sweeps))
        made = CampaignFolder(folder)
        made.write_campaign(loaded.campaign)
        return made

    return make


def conduct(folder, executor):
    return Conduct(folder.read_campaign(), folder.run.read_info(), folder, executor, now_s=lambda: executor.now)


def whats(folder):
    return Counter(entry.what for entry in folder.entries())


@pytest.mark.parametrize("seed", range(5))
def test_machines_that_are_killed_at_random_lose_nothing_and_nothing_counts_twice(campaign, seed):
    folder = campaign(repeats=4)
    executor = MadeUp(["a", "b", "c"], seed=seed)
    conduct(folder, executor).run()
    result = folder.run.read_result()
    assert result.finished
    assert Counter(scenario.scenario for scenario in result.scenarios) == {
        unit.name: 1 for unit in folder.read_campaign().units
    }
    assert {scenario.outcome for scenario in result.scenarios} == {Outcome.MEASURED}
    counts = whats(folder)
    assert counts[What.FINISHED] == 16
    assert counts[What.BEGUN] == 16 + counts[What.LOST]


def test_it_is_stopped_and_goes_on_with_the_attempts_that_were_open(campaign):
    folder = campaign()
    executor = MadeUp(["a"])
    first = conduct(folder, executor)
    executor._value = lambda machine, count: first.stop() or 100.0
    first.run()
    assert not folder.run.read_result().finished
    conduct(folder, MadeUp(["a"])).run()
    assert folder.run.read_result().finished
    finished = [entry for entry in folder.entries() if entry.what is What.FINISHED]
    assert len({entry.unit for entry in finished}) == len(finished) == 8


def test_what_lost_interrupted_and_earlier_attempts_cost_is_kept_on_resume(campaign):
    more = 'budget_cost = 1000.0\n[[machine]]\nname = "a"\naddress = "a"\ncost_per_hour = 3600.0\n'
    folder = campaign(more=more)
    (bench,) = folder.read_campaign().benches
    executor = MadeUp([])
    executor._events = [Joined(bench)]
    first = conduct(folder, executor)
    executor._value = lambda machine, count: (first.stop() if count == 3 else None) or 100.0
    first.run()
    spent = sum(entry.wall_s for entry in folder.entries())
    assert spent >= 30
    assert first.progress().cost == pytest.approx(spent)
    assert conduct(folder, MadeUp([])).progress().cost == pytest.approx(spent)


def test_an_attempt_of_a_killed_lab_took_time_until_the_lab_last_said_so(campaign):
    folder = campaign()
    began = "2026-01-01T00:00:00+00:00"
    folder.append(Entry(What.BEGUN, began, "point.size-64.r1", "point.size-64.r1.a1", "a"))
    folder.write_progress(Progress("2026-01-01T00:00:42+00:00", 8, 0, 0, 0, None, 0.0, ()))
    conduct(folder, MadeUp([]))
    (interrupted,) = [entry for entry in folder.entries() if entry.what is What.INTERRUPTED]
    assert (interrupted.attempt, interrupted.machine, interrupted.wall_s) == ("point.size-64.r1.a1", "a", 42.0)
    conduct(folder, MadeUp([]))
    assert whats(folder)[What.INTERRUPTED] == 1, "it is counted once"


def test_a_unit_that_fails_everywhere_has_failed_and_the_rest_is_measured(campaign):
    folder = campaign(repeats=1)
    bad = "point.size-64"
    fails = {(name, bad): (Outcome.FAILED, 4) for name in "ab"}
    left = conduct(folder, MadeUp(["a", "b"], fails=fails))
    left.run()
    by_name = {scenario.scenario: scenario for scenario in folder.run.read_result().scenarios}
    assert (by_name[bad].outcome, by_name[bad].reason) == (Outcome.FAILED, "planted")
    assert sum(result.outcome is Outcome.MEASURED for result in by_name.values()) == 3


@pytest.mark.parametrize("code", [130, -15])
def test_a_unit_that_is_always_interrupted_from_outside_uses_up_its_retries(campaign, code):
    folder = campaign(repeats=1)
    bad = "point.size-64"
    interrupts = {("a", bad): (Outcome.SKIPPED, code)}
    conduct(folder, MadeUp(["a"], fails=interrupts)).run()
    by_name = {scenario.scenario: scenario for scenario in folder.run.read_result().scenarios}
    assert by_name[bad].outcome is Outcome.FAILED
    assert f"its machine interrupted it, not the campaign (exit code {code})" in by_name[bad].reason
    assert sum(result.outcome is Outcome.MEASURED for result in by_name.values()) == 3
    own = [entry for entry in folder.entries() if entry.unit.startswith(bad) and entry.attempt]
    assert [entry.what for entry in own] == [What.BEGUN, What.INTERRUPTED] * 2, "the first and one retry"
    assert len({entry.attempt for entry in own}) == 1, "it resumes with the trials that it has"


def test_an_attempt_that_another_machine_interrupts_is_measured_elsewhere(campaign):
    folder = campaign(repeats=1)
    interrupts = {("a", f"point.size-{size}"): (Outcome.SKIPPED, 130) for size in (64, 128, 256, 512)}
    conduct(folder, MadeUp(["a", "b"], fails=interrupts)).run()
    assert {scenario.outcome for scenario in folder.run.read_result().scenarios} == {Outcome.MEASURED}
    assert {entry.machine for entry in folder.entries() if entry.what is What.FINISHED} == {"b"}


def test_what_one_machine_cannot_do_another_does(campaign):
    folder = campaign(repeats=1)
    fails = {("a", f"point.size-{size}"): (Outcome.IMPOSSIBLE, 3) for size in (64, 128, 256, 512)}
    conduct(folder, MadeUp(["a", "b"], fails=fails)).run()
    assert {scenario.outcome for scenario in folder.run.read_result().scenarios} == {Outcome.MEASURED}
    assert {entry.machine for entry in folder.entries() if entry.what is What.FINISHED} == {"b"}


def test_a_slow_machine_is_excluded_with_the_reason_and_what_it_measured_is_measured_elsewhere(campaign):
    folder = campaign(repeats=8, more='[control]\nscenario = "control.toml"\nevery = "15s"\n')
    executor = MadeUp(["a", "b", "c", "d"], lambda machine, count: (85.0 if machine == "c" else 100.0) + count % 3 / 10)
    conduct(folder, executor).run()
    tally = folder.tally(folder.read_campaign())
    assert list(tally.excluded) == ["c"]
    assert "0.85" in tally.excluded["c"]
    assert tally.withdrawn > 0
    assert len(tally.accepted) == 32
    assert not [entry for entry in tally.accepted.values() if entry.machine == "c"]
    assert [exclusion.machine for exclusion in folder.read_calibration().exclusions] == ["c"]


def test_of_a_machine_that_drifts_only_what_came_after_is_measured_again(campaign):
    folder = campaign(repeats=12, more='[control]\nscenario = "control.toml"\nevery = "5s"\n')
    executor = MadeUp(["a", "b"], lambda machine, count: (70.0 if machine == "b" and count > 20 else 100.0) + count % 3)
    conduct(folder, executor).run()
    tally = folder.tally(folder.read_campaign())
    assert list(tally.excluded) == ["b"]
    assert tally.withdrawn > 0
    assert any(entry.machine == "b" for entry in tally.accepted.values()), "what it measured before counts"
    assert len(tally.accepted) == 48


CONTROL = '[control]\nscenario = "control.toml"\nevery = "15s"\n'


def test_a_machine_that_returns_is_judged_by_what_it_does_now(campaign):
    folder = campaign(repeats=8, more=CONTROL)
    slow = MadeUp(["a", "b", "c", "d"], lambda machine, count: (85.0 if machine == "c" else 100.0) + count % 3 / 10)
    first = conduct(folder, slow)
    while not first._tally.excluded:
        for event in slow.wait(1.0):
            first._take(event)
        first._begin()
    mended = MadeUp(["a", "b", "c", "d"], lambda machine, count: 100.0 + count % 3 / 10)
    again = conduct(folder, mended)
    assert not [entry for entry in again._tally.controls if entry.machine == "c"]
    assert [entry for entry in again._tally.controls if entry.machine == "a"], "of the others they are kept"
    again.run()
    assert folder.tally(folder.read_campaign()).excluded == {}
    assert min(folder.read_calibration().controls["c"]) > 99


def test_what_a_machine_measured_before_it_returned_is_not_withdrawn_for_what_it_is_now(campaign):
    folder = campaign(more=CONTROL)
    entries = [
        Entry(What.FINISHED, "2026-01-01T00:00:01+00:00", "point.size-64.r1", "x.a1", "a"),
        Entry(What.EXCLUDED, "2026-01-01T00:00:02+00:00", machine="a", reason="drift"),
        Entry(What.RETURNED, "2026-01-01T00:00:03+00:00", machine="a"),
        Entry(What.FINISHED, "2026-01-01T00:00:04+00:00", "point.size-128.r1", "y.a1", "a"),
    ]
    units = [unit.name for unit in folder.read_campaign().units][:2]
    for entry in entries:
        folder.append(replace(entry, unit={"x.a1": units[0], "y.a1": units[1]}.get(entry.attempt, "")))
    made = conduct(folder, MadeUp([]))
    for name in "ab":
        made._take(Joined(Bench(name, cpus=4)))
    made._exclude(Exclusion("a", "slow", 0))
    assert [entry.unit for entry in folder.entries() if entry.what is What.WITHDRAWN] == [units[1]]


def test_a_control_that_gives_no_figure_has_failed(campaign):
    folder = campaign(repeats=1, more=CONTROL)
    conduct(folder, MadeUp(["a"], fails={("a", "campaign-control"): (Outcome.SKIPPED, 0)})).run()
    own = [entry for entry in folder.entries() if entry.unit == "campaign-control" and entry.what is not What.BEGUN]
    assert "no figure" in folder.tally(folder.read_campaign()).uncontrolled["a"]
    assert own
    assert {entry.what for entry in own} == {What.FAILED}
    assert "gave no figure" in own[0].reason
    assert len(folder.tally(folder.read_campaign()).accepted) == 4


def test_the_result_of_each_attempt_is_read_once(campaign, monkeypatch):
    folder, read = campaign(repeats=8, more=CONTROL), Counter()
    original = Results.of

    def of(self, entry):
        read[entry.attempt] += entry.unit == "campaign-control"
        return original(self, entry)

    monkeypatch.setattr(Results, "of", of)
    conduct(folder, MadeUp(["a", "b"])).run()
    controls = {attempt: times for attempt, times in read.items() if times}
    assert len(controls) > 2
    assert set(controls.values()) == {1}


def test_progress_looks_at_no_unit_that_was_measured(campaign):
    class Unread(dict):
        def __iter__(self):
            raise AssertionError("one look a unit")

        values = items = keys = __iter__

    folder = campaign()
    made = conduct(folder, MadeUp(["a", "b"]))
    made.run()
    made._tally.accepted = Unread(made._tally.accepted)
    progress = made.progress()
    assert progress.measured == sum(machine.measured for machine in progress.machines) == 8


def test_without_any_machine_it_ends_with_what_to_do(campaign):
    folder = campaign()
    executor = MadeUp([])
    with pytest.raises(BenchError, match="no machine is left") as raised:
        conduct(folder, executor).run()
    assert "--resume" in raised.value.hint


def test_results_are_written_though_the_executor_cannot_close(campaign, monkeypatch):
    folder, executor = campaign(), MadeUp(["a"])

    def close():
        raise RequirementError("the cluster is gone")

    monkeypatch.setattr(executor, "close", close)
    with pytest.raises(RequirementError, match="is gone"):
        conduct(folder, executor).run()
    assert folder.run.read_result().finished
    assert folder.read_progress().measured == 8


def test_the_lines_of_an_attempt_are_kept_as_they_come(campaign):
    folder = campaign()
    executor = MadeUp(["a"])
    made = conduct(folder, executor)
    folder.make_attempt("x.a1", {})
    made._take(Grown("x.a1", "trials.jsonl", b'{"one":1}\n{"two":2}\n'))
    assert (folder.path / "attempts/x.a1/trials.jsonl").read_bytes() == b'{"one":1}\n{"two":2}\n'
