"""Trends over stored runs: what may be compared, its change points, and what changed there; pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median_high
from typing import Final

from pinchpoint.findings import differences
from pinchpoint.findings.curves import DISTURBED, metrics_of, of_repeats
from pinchpoint.findings.findings import direction
from pinchpoint.model.comparison import Difference, Trend, TrendChange, TrendRun, TrendSegment
from pinchpoint.model.effective import by_name
from pinchpoint.model.errors import InputError, choices
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import Bound, Estimate
from pinchpoint.model.result import Outcome, Rate, RunInfo, RunResult, ScenarioResult
from pinchpoint.stats.change_points import FEWEST_VALUES
from pinchpoint.stats.change_points import segments as cut
from pinchpoint.stats.estimate import bound_of, median_interval

StoredRun = tuple[RunInfo, RunResult]

_NOT_COMPARED = frozenset({"memory"})  # a MiB more or less
_MODES_APART = 1.5  # two distances of the cores that differ by more are two modes of the machine
_MOST_DIFFERENCES = 3  # named of one run
FEWEST_RUNS: Final = FEWEST_VALUES  # of a trend that can have a change


@dataclass(frozen=True)
class _Measured:
    """One scenario in one run: its repeats, and what they were measured on."""

    info: RunInfo
    repeats: tuple[ScenarioResult, ...]
    plain: differences.Plain  # the effective scenario
    estimates: Mapping[str, Estimate]  # by metric
    notes: Mapping[str, str]

    @property
    def rates(self) -> Mapping[str, Rate]:
        return {rate.name: rate for repeat in self.repeats for rate in repeat.rates}

    def definition_of(self, metric: str) -> str:
        return next(filter(None, (repeat.definition_of(metric) for repeat in self.repeats)), "")


def trends(stored: Sequence[StoredRun], scenarios: Sequence[str] = (), metrics: Sequence[str] = ()) -> Sequence[Trend]:
    """The trends of these scenarios and metrics, or of all scenarios and of each one's main metrics.

    Only runs whose scenario and rate have the definition of the newest run's are compared; the others are
    named with what differs. Raises InputError if nothing was measured, or a scenario or metric is unknown.
    """
    measured = grouped(of_run for run in sorted(stored, key=_started) for of_run in _measured(*run))
    unknown = [name for name in scenarios if name not in measured]
    if unknown or not measured:
        hint = choices(unknown[0], measured, "measured") if measured else "pinchpoint run --resume RUN finishes a run"
        raise InputError(f"no run has measured {', '.join(unknown) or 'anything'}", hint)
    wanted = [(name, runs) for name, runs in measured.items() if name in scenarios or not scenarios]
    return tuple(trend for name, runs in wanted for trend in _trends(name, runs, metrics))


def _started(run: StoredRun) -> datetime:
    try:
        return datetime.fromisoformat(run[0].started)
    except ValueError as error:
        raise InputError(f"{run[0].run_id}: run.json: started: {run[0].started!r} is no time") from error


def _measured(info: RunInfo, result: RunResult) -> Iterator[tuple[str, _Measured]]:
    """The scenarios that a run measured, by name."""
    plains = by_name(info.scenarios)
    measured = [scenario for scenario in result.scenarios if scenario.outcome is Outcome.MEASURED]
    for name, repeats in grouped((_name(scenario), scenario) for scenario in measured).items():
        both = of_repeats(repeats)
        plain = plains.get(repeats[0].scenario, {})
        yield name, _Measured(info, tuple(repeats), plain, both.estimates, both.notes)


def _name(result: ScenarioResult) -> str:
    """The name that all repeats of a point share: that of the first."""
    return result.scenario.removesuffix(f".r{result.repeat}") if result.repeat > 1 else result.scenario


def _trends(name: str, runs: Sequence[_Measured], metrics: Sequence[str]) -> Iterator[Trend]:
    newest = runs[-1]
    wanted = metrics or tuple(newest.rates) or tuple(newest.estimates)[:1]
    known = dict.fromkeys(metric for run in runs for metric in (*run.rates, *run.estimates))
    if unknown := [metric for metric in wanted if metric not in known]:
        raise InputError(f"{name}: no metric {', '.join(unknown)}", choices(unknown[0], known, "its metrics"))
    for metric in wanted:
        yield _trend(name, metric, runs)


def _trend(name: str, metric: str, runs: Sequence[_Measured]) -> Trend:
    reasons = [(run, _incomparable(metric, run, runs[-1])) for run in runs]
    kept = [run for run, reason in reasons if not reason]
    points = tuple(_point(metric, before, run) for before, run in zip([None, *kept], kept, strict=False))
    values = [point.value for point in points]
    levels = tuple(_segment(values, segment.first, segment.end) for segment in cut(values) if values)
    unit = next((run.estimates[metric].unit for run in kept), "")
    definition, less = runs[-1].definition_of(metric), direction(metric, unit) < 0
    changes = tuple(_change(old, new, points, less) for old, new in pairwise(levels))
    left_out = tuple(f"{run.info.run_id}: {reason}" for run, reason in reasons if reason)
    return Trend(name, metric, unit, definition, points, levels, changes, left_out, FEWEST_RUNS)


def _incomparable(metric: str, run: _Measured, newest: _Measured) -> str:
    """Why this run's number is no point of the newest one's series; empty if it is."""
    if other := _otherwise(run, newest):
        return other
    mine, its = run.definition_of(metric), newest.definition_of(metric)
    if mine and its and mine != its:
        return f"another definition: {mine}"
    estimate = run.estimates.get(metric)
    if estimate is None:
        return run.notes.get(metric) or "not measured"
    if estimate.bound is not Bound.FOUND:
        return run.notes.get(metric) or estimate.bound.words
    return (run.notes.get(metric) or DISTURBED) if _is_disturbed(metric, run) else ""


def _otherwise(run: _Measured, newest: _Measured) -> str:
    """What a run measured or was measured on that does not compare with the newest; empty if all does."""
    if run.plain != newest.plain:  # seldom, and long to look through
        if other := differences.defining(run.plain, newest.plain):
            return f"another definition: {_words(other)}"
        if other := differences.scenarios(run.plain, newest.plain):
            return f"another scenario: {_words(other)}"
    if other := differences.guests(differences.in_force(run.repeats), differences.in_force(newest.repeats)):
        return f"another machine: {_words(other)}"
    return ""


def _is_disturbed(metric: str, run: _Measured) -> bool:
    """Whether no undisturbed trial is behind any repeat: an estimate rests on such numbers only for want of others."""
    metrics = [measured for repeat in run.repeats for measured in metrics_of(repeat) if measured.name == metric]
    return all(measured.disturbed for measured in metrics if bound_of(measured) is not Bound.REFUSED)


def _words(other: Sequence[Difference]) -> str:
    lines = [f"{difference.what} {difference.a}, now {difference.b}" for difference in other]
    more = f" and {len(lines) - _MOST_DIFFERENCES} more" if len(lines) > _MOST_DIFFERENCES else ""
    return "; ".join(lines[:_MOST_DIFFERENCES]) + more


def _point(metric: str, before: _Measured | None, run: _Measured) -> TrendRun:
    estimate, changed = run.estimates[metric], _changed(before, run) if before else ()
    return TrendRun(run.info.run_id, run.info.started, estimate.value, estimate.low, estimate.high, changed)


def _changed(before: _Measured, now: _Measured) -> tuple[str, ...]:
    """What the two runs were measured on, where it differs: `kernel 6.1 -> 6.2`."""
    differing = differences.mappings(_conditions(before), _conditions(now), differences.NOT_RECORDED)
    lines = [f"{difference.what} {difference.a} -> {difference.b}" for difference in differing]
    old_ns, new_ns = _distance_ns(before), _distance_ns(now)
    if min(old_ns, new_ns) and max(old_ns, new_ns) / min(old_ns, new_ns) > _MODES_APART:
        lines.append(f"cores apart {old_ns:.0f} ns -> {new_ns:.0f} ns")
    return tuple(lines)


def _conditions(run: _Measured) -> dict[str, str]:
    host = {key: value for key, value in run.info.host.items() if key not in _NOT_COMPARED}
    return {**host, **run.info.versions}


def _distance_ns(run: _Measured) -> float:
    """Of the cores, the median over repeats; 0 if it was not measured."""
    known = [repeat.cache_line.median_ns for repeat in run.repeats if repeat.cache_line]
    return median_high(known) if known else 0.0


def _segment(values: Sequence[float], first: int, end: int) -> TrendSegment:
    level = median_interval(values[first:end], "runs")
    return TrendSegment(first, end, level.value, level.low, level.high, level.meaning)


def _change(old: TrendSegment, new: TrendSegment, points: Sequence[TrendRun], less: bool) -> TrendChange:
    point = points[new.first]
    ratio = new.value / old.value if old.value else None
    return TrendChange(point.run_id, point.started, ratio, (new.value > old.value) is less, point.changed)
