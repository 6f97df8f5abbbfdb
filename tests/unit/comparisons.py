"""Made-up results of two groups measured in turns, and of stored runs."""

from dataclasses import replace

from sweeps import base

from pinchpoint.model.comparison import ComparisonRequest
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import CacheLine, Outcome, RunInfo, RunResult, ScenarioResult
from pinchpoint.model.scenario import Point, Sweep
from pinchpoint.run.order import in_turns, info
from pinchpoint.run.run import unmeasured
from pinchpoint.scenario.plain import to_plain
from pinchpoint.store.codec import SCHEMA

NAME = "cycles per packet at 1.00 Mpps"


def side(label: str, scenario=None, pairs: int = 8) -> Sweep:
    """A or B as the command makes it of a scenario."""
    scenario = scenario or base()
    group = f"{label}-forward"
    scenario = replace(scenario, name=group, title=f"{label}: {scenario.title}", point=Point(group, {}))
    return Sweep(group, scenario.title, (), (scenario,), pairs, "in turns", 1)


def result_of(unit, value: float | None, distance_ns: float | None = None, name: str = NAME, bound=None, far=0.0):
    """A result with one metric; None: it failed."""
    if value is None:
        return unmeasured(unit, Outcome.FAILED, "no valid trial\n  hint: wait", 1.0)
    unit_of = "fps" if name == "NDR" else "cycles"
    cores = None if distance_ns is None else CacheLine(distance_ns, distance_ns, distance_ns, 2, far, "")
    return replace(
        unmeasured(unit, Outcome.MEASURED, "", 1.0),
        metrics=(Metric(name, unit_of, value, bound=bound),),
        cache_line=cores,
    )


def paired_run(a, b, *, other=None, **request) -> tuple[RunInfo, RunResult]:
    """A run whose repeat n of A is `a[n - 1]`: a value, or arguments of `result_of`."""
    sweeps = side("A", pairs=len(a)), side("B", other, pairs=len(b))
    units = in_turns(*sweeps, len(a))
    values = {"A-forward": a, "B-forward": b}
    results = tuple(_result(unit, values[unit.point.group][unit.point.repeat - 1]) for unit in units)
    asked = ComparisonRequest("A-forward", "B-forward", len(a), **request)
    return run_info(units, tuple(info(sweep) for sweep in sweeps), asked), RunResult(SCHEMA, "run", True, results)


def _result(unit, value) -> ScenarioResult:
    return result_of(unit, **value) if isinstance(value, dict) else result_of(unit, value)


def run_info(units, sweeps=(), comparison=None, run_id="run", **more) -> RunInfo:
    fields = {"versions": {"pinchpoint": "1"}, "host": {"kernel": "6.1"}, **more}
    return RunInfo(
        SCHEMA, run_id, "2026-01-02T03:04:05Z", ("pinchpoint",), tuple(to_plain(unit) for unit in units), {}, {},
        sweeps=sweeps, comparison=comparison, **fields,
    )  # fmt: skip
