"""Two benches that stand at once: what a signal ends, and a pair of trials that is cut short."""

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import trials
from comparisons import side
from slices import constant, stretch
from sweeps import base

from pinchpoint.findings.paired_benches import alternation
from pinchpoint.host.local import Local
from pinchpoint.host.machines import Machines
from pinchpoint.measure.standing import Listener, Task
from pinchpoint.model.comparison import ComparisonRequest, Method
from pinchpoint.model.trial import ALTERNATING, WARM_UP
from pinchpoint.run import comparison, paired_benches, run, scenario
from pinchpoint.run.checkpoint import Growing, RunContext
from pinchpoint.run.comparison import BothBenches, alternate
from pinchpoint.run.paired_benches import LivePair, first_of_pair, warm_pair
from pinchpoint.run.run import describe_run
from pinchpoint.scenario.plain import to_plain
from pinchpoint.stats.alternating import Alternation
from pinchpoint.store.folder import RunFolder


def asked(tmp_path, on_stoppable=print, **request):
    """A and B, and the context of a run that compares them as a duet."""
    units = [side(label).scenarios[0] for label in "AB"]
    folder = RunFolder.create(tmp_path, "compare")
    wanted = ComparisonRequest("A-forward", "B-forward", 1, method=Method.DUET, **request)
    plain = [to_plain(unit) for unit in units]
    folder.write_info(describe_run(Local(), folder.run_id, ["pinchpoint"], plain, {}, comparison=wanted))
    return units, RunContext(Machines(Local()), folder, Listener(), on_stoppable)


def test_a_signal_ends_building_both_again_at_once(tmp_path, monkeypatch):
    measured_before = SimpleNamespace(stop=lambda: None)
    stoppable = [measured_before]
    units, context = asked(tmp_path, stoppable.append, slices_s=10.0, benches=2)
    monkeypatch.setattr(scenario, "planned", lambda *_: stoppable[-1].stop())
    with pytest.raises(KeyboardInterrupt):
        BothBenches(units, Growing(context.folder, units), context).run(units[0], Task(Listener(), stoppable.append))


def test_what_both_took_together_is_counted_once_and_an_earlier_run_of_it_too(tmp_path, monkeypatch):
    units, context = asked(tmp_path, slices_s=10.0)
    context.folder.append_stretch(stretch(constant(), length_s=4.0))
    now = [0.0]

    def build(benches):
        now[0] += 30.0
        benches._slices.keep(stretch(constant(), length_s=6.0, seed=2))

    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(comparison, "time", clock)
    monkeypatch.setattr(run, "time", clock)
    monkeypatch.setattr(BothBenches, "_build", build)
    results = run.run_all(context, units, run_one=None).scenarios
    assert [result.wall_s for result in results] == pytest.approx([17.0, 17.0])


@pytest.mark.parametrize(("recorded", "more"), [(0, 4), (3, 1), (4, 1)])
def test_a_resumed_comparison_makes_no_more_builds_than_were_asked_for(recorded, more, tmp_path, monkeypatch):
    """However little the builds before measured; what the last of them left is measured on new benches."""
    units, context = asked(tmp_path, slices_s=40.0, benches=4)
    for number in range(1, 1 + recorded):
        context.folder.append_stretch(replace(stretch(constant(), length_s=2.0, seed=number), benches=number))
    built = []

    def build(benches):
        benches._time.stands()
        left_s = benches._until_s() - benches._slices.measured_s
        built.append(left_s)
        benches._slices.keep(stretch(constant(), length_s=left_s, seed=10 + len(built)))

    monkeypatch.setattr(BothBenches, "_build", build)
    BothBenches(units, Growing(context.folder, units), context).run(units[0], Task())
    assert len(built) == more
    assert sum(built) == pytest.approx(40.0 - 2.0 * recorded, abs=0.1)


def test_the_first_bench_is_frozen_but_while_the_engine_of_both_runs(monkeypatch):
    done = []

    @contextmanager
    def told(begin, end, value=None):
        done.append(begin)
        yield value
        done.append(end)

    def built(machines, unit, *_):
        setup = SimpleNamespace(scenario=unit, bench=None, places=SimpleNamespace(bench_id=unit.name))
        live = SimpleNamespace(ready=dict)
        bench = SimpleNamespace(setup=setup, scenario=unit, live=live, task=Task(), host=None, engine=[])
        return told(f"build {unit.name}", f"remove {unit.name}", bench)

    def engine(*_, **__):
        return SimpleNamespace(open=lambda: done.append("open") or {}, close=lambda: done.append("close"))

    monkeypatch.setattr(paired_benches, "built_bench", built)
    monkeypatch.setattr(paired_benches, "frozen", lambda setup: told("freeze", "thaw"))
    monkeypatch.setattr(paired_benches, "thawed", lambda setup: told("thaw", "freeze"))
    monkeypatch.setattr(paired_benches, "kept_off", lambda *_: nullcontext())
    monkeypatch.setattr(paired_benches, "ProcessInstrument", engine)
    monkeypatch.setattr(paired_benches, "joint_request", lambda _: None)
    monkeypatch.setattr(paired_benches, "await_engine_pages", lambda *_: None)
    monkeypatch.setattr(LivePair, "warm_up", lambda _, side: done.append(f"warm {side}"))
    a, b = (side(label).scenarios[0] for label in "AB")
    with first_of_pair(None, a, Task()) as first, built(None, b) as second, warm_pair(first, second):
        done.append("measure")
    assert done == [
        "build A-forward", "freeze", "build B-forward",
        "thaw", "open", "warm A", "warm B", "measure", "close", "freeze",
        "remove B-forward", "thaw", "remove A-forward",
    ]  # fmt: skip


def test_a_trial_whose_pair_is_cut_short_counts_as_it_does_from_the_record():
    unit, recorded = base(), []

    def made_by(name, *_, owner):
        def trial(load_fps):
            if name == "B":
                raise KeyboardInterrupt
            recorded.append(replace(trials.trial(load_fps), phase=ALTERNATING))
            return recorded[-1]

        return trial

    live = Alternation(unit.search.min_load_fps, unit.search.max_load_fps)
    live.build()
    pair = SimpleNamespace(benches={"A": SimpleNamespace(scenario=unit)}, trials=made_by)
    with pytest.raises(KeyboardInterrupt):
        alternate(pair, live, 0.0)
    warm_up = replace(recorded[0], phase=WARM_UP)
    stored = alternation([warm_up, *recorded], [warm_up.scenario, "b"], unit.search)
    assert live.begun == stored.begun == 1
    assert live.load_fps("A") == stored.load_fps("A")
