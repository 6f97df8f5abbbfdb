"""Two stored runs compared: what differs between their benches, then the ratio of every number they share; pure.

The ratios divide the worst ends of both intervals, so they cover at least as often as those. What no
interval holds is what changed on the host between the runs.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb

from pinchpoint.findings import comparing, differences
from pinchpoint.findings.comparing import UNPROBED, Margin, Reading, in_mode, in_order, modes_of, readings
from pinchpoint.model.comparison import (
    Compared,
    Comparison,
    ComparisonKind,
    Decision,
    Difference,
    Differences,
    HoldsFor,
    MetricComparison,
    Side,
)
from pinchpoint.model.effective import by_name, group_of
from pinchpoint.model.errors import InputError, choices
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import CONFIDENCE, ratio
from pinchpoint.model.result import SCHEMA, RunInfo, RunResult, ScenarioResult
from pinchpoint.stats.estimate import estimate

Run = tuple[RunInfo, RunResult]
METHOD = "unpaired: the worst ends of both intervals"


@dataclass(frozen=True)
class _Point:
    """One point of a run with all its repeats."""

    plain: Mapping[str, object]
    repeats: tuple[ScenarioResult, ...]

    @property
    def in_force(self) -> Mapping[str, str]:
        return differences.in_force(self.repeats)


def of_runs(
    a: Run, b: Run, metrics: Sequence[str] = (), margin: Margin = None, pairs: Sequence[tuple[str, str]] = ()
) -> Comparison:
    """Every scenario that both runs have, found by group and levels; two runs of one scenario each by that.

    `pairs`: these scenarios of A and B instead. Raises InputError for a name that its run has not.
    """
    points_a, points_b = _points(*a), _points(*b)
    if pairs:
        common = [(_named(points_a, mine, a), _named(points_b, other, b)) for mine, other in pairs]
    elif len(points_a) == len(points_b) == 1:
        common = [(next(iter(points_a)), next(iter(points_b)))]
    else:
        common = [(key, key) for key in points_a if key in points_b]
    infos = (a[0], b[0])
    parts = tuple(_compared(points_a[mine], points_b[other], infos, metrics, margin) for mine, other in common)
    taken_a, taken_b = {mine for mine, _ in common}, {other for _, other in common}
    only_a = tuple(point.repeats[0].scenario for key, point in points_a.items() if key not in taken_a)
    only_b = tuple(point.repeats[0].scenario for key, point in points_b.items() if key not in taken_b)
    sides = Side(a[0].run_id, a[0].started), Side(b[0].run_id, b[0].started)
    whole = _of_the_whole([part.differences for part in parts], *infos)
    finished = a[1].finished and b[1].finished
    return Comparison(SCHEMA, ComparisonKind.UNPAIRED, *sides, whole, parts, only_a, only_b, margin, finished)


def _named(points: Mapping[tuple[str, str], _Point], scenario: str, run: Run) -> tuple[str, str]:
    """The key of the point with a scenario of this name. Raises InputError."""
    keys = {repeat.scenario: key for key, point in points.items() for repeat in point.repeats}
    if scenario not in keys:
        raise InputError(f"{run[0].run_id} has no scenario {scenario}", choices(scenario, keys, "its scenarios"))
    return keys[scenario]


def _points(info: RunInfo, result: RunResult) -> dict[tuple[str, str], _Point]:
    plains = by_name(info.scenarios)

    def point_of(scenario: ScenarioResult) -> tuple[str, str]:
        group = scenario.group or group_of(plains.get(scenario.scenario, {})) or scenario.scenario
        return group, json.dumps(dict(scenario.levels), sort_keys=True)

    points = grouped((point_of(scenario), scenario) for scenario in result.scenarios)
    return {key: _Point(plains.get(each[0].scenario, {}), tuple(each)) for key, each in points.items()}


def _of_the_whole(parts: Sequence[Differences], info_a: RunInfo, info_b: RunInfo) -> Differences:
    """What all scenarios differ by; hosts in any case."""
    kinds = ([part.scenario for part in parts], [part.in_force for part in parts], [part.versions for part in parts])
    scenario, in_force, versions = map(_of_all, kinds)
    return Differences(scenario, in_force, versions, differences.hosts(info_a, info_b))


def _of_all(parts: Sequence[tuple[Difference, ...]]) -> tuple[Difference, ...]:
    first = parts[0] if parts else ()
    return tuple(difference for difference in first if all(difference in part for part in parts))


def _compared(a: _Point, b: _Point, infos: tuple[RunInfo, RunInfo], metrics: Sequence[str], margin: Margin) -> Compared:
    other = (*differences.defining(a.plain, b.plain), *differences.guests(a.in_force, b.in_force))
    names = in_order((*a.repeats, *b.repeats), metrics)
    compared = [_metric(name, a, b, other, is_judged, margin) for name, is_judged in names]
    notes = ["unpaired: what changed on the host between the two runs is part of every difference"]
    if any(len(point.repeats) == 1 for point in (a, b)):
        notes.append("one measurement each: an interval is that measurement's own and excludes the spread of repeats")
    first, other_name = a.repeats[0], b.repeats[0].scenario
    differing = differences.between(a.plain, b.plain, (a.in_force, b.in_force), infos)
    shown = tuple(metric for metric in compared if metric.judged or metric.ratio is not None)
    defined = tuple(comparing.meanings(compared, (*a.repeats, *b.repeats)))
    return Compared(
        first.scenario, other_name, first.title, first.levels, differing, shown, tuple(notes), definitions=defined
    )


def _metric(
    name: str, a: _Point, b: _Point, other: Sequence[Difference], judged: bool, margin: Margin
) -> MetricComparison:
    sides = [[reading for result in point.repeats for reading in readings(result, name)] for point in (a, b)]
    unit = next((reading.metric.unit for side in sides for reading in side if reading.metric.unit), "")
    mode, chosen = _one_mode(sides)
    why = _why_refused(name, a, b, other) or ("" if chosen else _nothing(sides))
    base = replace(comparing.refused(name, unit, why, judged), method=METHOD)
    if why or chosen is None:
        return base
    return _with_ratio(replace(base, mode=mode, left_out=_left_out(sides, chosen)), chosen, margin)


def _why_refused(name: str, a: _Point, b: _Point, other: Sequence[Difference]) -> str:
    """How the definitions differ; empty if they are the same."""
    differing = [f"{difference.what} is {difference.a} in A and {difference.b} in B" for difference in other]
    defined = [{repeat.definition_of(name) for repeat in point.repeats} - {""} for point in (a, b)]
    if not differing and all(defined) and defined[0] != defined[1]:
        mine, its = (" or ".join(sorted(words)) for words in defined)
        differing = [f"A is {mine}, B is {its}"]
    return f"numbers of different definitions: {'; '.join(differing)}" if differing else ""


def _decidable(a: int, b: int) -> bool:
    """Whether ranges of this many repeats, if they lie apart, do so by chance in at most 5 % of the cases.

    Of n and m repeats that differ in nothing all of one side are the smaller ones in 2 of C(n + m, n) orders.
    Single measurements have intervals of their own; a note says so.
    """
    return a == b == 1 or 2 / comb(a + b, a) <= 1 - CONFIDENCE


def _is_usable(reading: Reading) -> bool:
    return not reading.why_not and reading.metric.value > 0


def _one_mode(sides: Sequence[Sequence[Reading]]) -> tuple[str, list[list[Reading]] | None]:
    """The mode of the cores in which both sides have most numbers, and those of both; None if there is none."""
    usable = [list(filter(_is_usable, side)) for side in sides]
    modes = modes_of([reading for side in usable for reading in side])
    inside = {
        mode: [[reading for reading in side if in_mode(reading, mode, modes)] for side in usable] for mode in modes
    }
    best = max(modes, key=lambda mode: min(map(len, inside[mode])))
    return (best if len(modes) > 1 else UNPROBED), inside[best] if all(inside[best]) else None


def _nothing(sides: Sequence[Sequence[Reading]]) -> str:
    told = []
    for label, side in zip("AB", sides, strict=True):
        if not any(map(_is_usable, side)):
            reasons = dict.fromkeys(reading.why_not for reading in side if reading.why_not)
            told.append(f"{label} {', '.join(reasons) or 'has no number'}")
    return "; ".join(told) or "A and B were measured in different modes of the cores"


def _left_out(sides: Sequence[Sequence[Reading]], chosen: Sequence[Sequence[Reading]]) -> dict[str, int]:
    lost = [(label, reading) for label, side, kept in zip("AB", sides, chosen, strict=True)
            for reading in side if reading not in kept]  # fmt: skip
    return dict(Counter(f"{label} {reading.why_not or 'in another mode of the cores'}" for label, reading in lost))


def _with_ratio(compared: MetricComparison, chosen: Sequence[Sequence[Reading]], margin: Margin) -> MetricComparison:
    a, b = (estimate([reading.metric for reading in side]) for side in chosen)
    compared, quotient = replace(compared, a=a, b=b, decision=Decision.TOO_FEW), ratio(b, a)
    if quotient is None or not quotient.is_closed:
        value = b.value / a.value
        moved = f"{comparing.percent(abs(1 - value))} {'higher' if value >= 1 else 'lower'}"
        return replace(compared, ratio=value, sentence=f"B is {moved}: no interval is known")
    compared = replace(compared, ratio=quotient.value, low=quotient.low, high=quotient.high)
    if not _decidable(a.n, b.n):
        ends = f"at the worst ends of both ranges B / A lies between {quotient.low:.4g} and {quotient.high:.4g}"
        return replace(compared, sentence=f"unknown: {a.n} and {b.n} repeats are too few to decide; {ends}")
    method = f"{METHOD}; A: {a.interval}; B: {b.interval}"
    compared = replace(compared, largest_hidden=quotient.reach, holds_for=HoldsFor.RUNS, method=method)
    direction = Decision.HIGHER if quotient.value > 1 else Decision.LOWER
    return comparing.decided(compared, direction if quotient.tells_apart else Decision.NOT_FOUND, margin)
