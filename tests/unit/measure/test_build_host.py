"""What a build does about the host: where its commands run, and what is kept of one that was disturbed."""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pinchpoint.account import cpus
from pinchpoint.host.local import Local
from pinchpoint.measure.build import run as build
from pinchpoint.measure.build.run import Build
from pinchpoint.measure.standing import Standing, Task
from pinchpoint.measure.traffic import Traffic
from pinchpoint.model.trial import TrialValidity
from pinchpoint.scenario.study import load_study

STUDY = Path(__file__).parents[3] / "studies" / "bridge-scale"
UNDER_TRAFFIC = {sweep.group: sweep for sweep in load_study(STUDY)[1]}["build-traffic"].scenarios[0]


class Items:
    """All made in no time; notes whether CPUs were kept free meanwhile."""

    def __init__(self, kept_free):
        self.kept_free = kept_free
        self.there = 0
        self.made_beside = None

    def make(self, watch):
        self.made_beside = tuple(self.kept_free)
        self.there = watch.count
        watch.reach(watch.count)

    def remove(self, watch):
        self.there = 0

    def shown(self):
        return self.there


@pytest.fixture
def made(monkeypatch):
    """The items of a build without a switch."""
    kept_free = []
    items = Items(kept_free)

    @contextmanager
    def kept_off(cpus, host):
        kept_free.extend(cpus)
        yield
        kept_free.clear()

    @contextmanager
    def no_background(*_):
        yield SimpleNamespace(start=lambda _: None, finish=lambda *_: Traffic(None, ()))

    @contextmanager
    def no_items(*_):
        yield items

    monkeypatch.setattr(build, "kept_off", kept_off)
    monkeypatch.setattr(build, "background", no_background)
    monkeypatch.setattr(build, "items", no_items)
    monkeypatch.setattr(build, "_process", lambda _: SimpleNamespace(resident_bytes=lambda: 0, cpu_s=lambda: 0.0))
    return items


def standing(scenario, earlier=()):
    kept = []
    task = Task(keep=kept.append, records=earlier)
    places = SimpleNamespace(bench_id="none-such", pidfile=lambda name: name, machine=Local())
    setup = SimpleNamespace(scenario=scenario, places=places)
    live = SimpleNamespace(versions=lambda: {})
    return Standing(setup, live, (), task, 0.0), kept


def test_commands_keep_off_the_cpus_of_engine_and_pmd_while_traffic_runs(made):
    build.measure_build(standing(UNDER_TRAFFIC)[0])
    assert made.made_beside == (0, 1)


def test_commands_run_anywhere_without_traffic(made):
    quiet = replace(UNDER_TRAFFIC, measure=replace(UNDER_TRAFFIC.measure, probe_rules=0, load_fps=0.0))
    build.measure_build(standing(quiet)[0])
    assert made.made_beside == ()


def test_a_disturbed_build_is_told_and_not_made_again_by_resume(made, monkeypatch):
    monkeypatch.setattr(cpus, "noise", lambda *_: "7 % of the window were stolen from CPU 1")
    bench, kept = standing(UNDER_TRAFFIC)
    result = build.measure_build(bench)
    assert kept[0].validity is TrialValidity.NOISY_HOST
    assert any("stolen from CPU 1" in warning.text for warning in result.warnings)
    assert result.measure == Build.kind
    made.made_beside = None
    again, more = standing(UNDER_TRAFFIC, kept)
    assert build.measure_build(again).metrics == result.metrics
    assert (made.made_beside, more) == (None, [])
