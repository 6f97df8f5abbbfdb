"""Two stored runs compared: what differs between their benches, then the ratio of every number they share; pure.

The ratios divide the worst ends of both intervals, so they cover at least as often as those. What no
interval holds is what changed on the host between the runs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb

from pinchpoint.findings import differences, wording
from pinchpoint.findings.comparing import (
    SCHEMA,
    UNPROBED,
    Reading,
    group_of,
    in_mode,
    modes_of,
    readings,
)
from pinchpoint.findings.curves import metrics_of
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
from pinchpoint.model.levels import CONFIDENCE
from pinchpoint.model.result import RunInfo, RunResult, ScenarioResult
from pinchpoint.stats.estimate import estimate
from pinchpoint.stats.ratio import ratio

_GUESTS_KERNEL = "guest.kernel"  # among the settings in force

Run = tuple[RunInfo, RunResult]
METHOD = "unpaired: the worst ends of both intervals"


@dataclass(frozen=True)
class _Point:
    """One point of a run with all its repeats."""

    plain: Mapping[str, object]
    repeats: tuple[ScenarioResult, ...]


def of_runs(a: Run, b: Run, metrics: Sequence[str] = (), margin: float | None = None) -> Comparison:
    """Every scenario that both runs have, found by group and levels; two runs of one scenario each by that."""
    points_a, points_b = _points(*a), _points(*b)
    if len(points_a) == len(points_b) == 1:
        common = [(next(iter(points_a)), next(iter(points_b)))]
    else:
        common = [(key, key) for key in points_a if key in points_b]
    parts = tuple(_compared(points_a[point], points_b[two], a[0], b[0], metrics, margin) for point, two in common)
    taken_a, taken_b = {point for point, _ in common}, {two for _, two in common}
    of_all = [_part_differences(points_a[point], points_b[two], a[0], b[0]) for point, two in common]
    return Comparison(
        schema=SCHEMA,
        kind=ComparisonKind.UNPAIRED,
        a=Side(a[0].run_id, a[0].started),
        b=Side(b[0].run_id, b[0].started),
        differences=_of_the_whole(of_all, a[0], b[0]),
        scenarios=parts,
        only_a=tuple(points_a[key].repeats[0].scenario for key in points_a if key not in taken_a),
        only_b=tuple(points_b[key].repeats[0].scenario for key in points_b if key not in taken_b),
        margin=margin,
        finished=a[1].finished and b[1].finished,
    )


def _points(info: RunInfo, result: RunResult) -> dict[tuple[str, str], _Point]:
    plains = {str(scenario.get("name")): scenario for scenario in info.scenarios}
    points: dict[tuple[str, str], list[ScenarioResult]] = {}
    for scenario in result.scenarios:
        group = scenario.group or group_of(plains.get(scenario.scenario, {})) or scenario.scenario
        points.setdefault((group, json.dumps(dict(scenario.levels), sort_keys=True)), []).append(scenario)
    return {key: _Point(plains.get(each[0].scenario, {}), tuple(each)) for key, each in points.items()}


def _part_differences(a: _Point, b: _Point, info_a: RunInfo, info_b: RunInfo) -> Differences:
    return differences.between(a.plain, b.plain, (_in_force(a), _in_force(b)), (info_a, info_b))


def _in_force(point: _Point) -> Mapping[str, str]:
    return next((repeat.settings for repeat in point.repeats if repeat.settings), {})


def _guests_kernels(a: _Point, b: _Point) -> tuple[Difference, ...]:
    """Where the guests' kernels are of two kinds: user-mode Linux and an emulated processor do not compare."""
    kernels = [_in_force(point).get(_GUESTS_KERNEL, "") for point in (a, b)]
    return (Difference(_GUESTS_KERNEL, *kernels),) if all(kernels) and kernels[0] != kernels[1] else ()


def _of_the_whole(parts: Sequence[Differences], info_a: RunInfo, info_b: RunInfo) -> Differences:
    """What all scenarios differ by; hosts in any case."""
    versions = [name for name in (parts[0].versions if parts else ()) if all(name in part.versions for part in parts)]
    scenario = [
        difference
        for difference in (parts[0].scenario if parts else ())
        if all(difference in part.scenario for part in parts)
    ]
    in_force = [
        difference
        for difference in (parts[0].in_force if parts else ())
        if all(difference in part.in_force for part in parts)
    ]
    host = differences.mappings(info_a.host, info_b.host)
    return Differences(tuple(scenario), tuple(in_force), tuple(versions), host)


def _compared(
    a: _Point, b: _Point, info_a: RunInfo, info_b: RunInfo, metrics: Sequence[str], margin: float | None
) -> Compared:
    other = (*differences.defining(a.plain, b.plain), *_guests_kernels(a, b))
    names = _names((*a.repeats, *b.repeats))
    judged = tuple(metrics) or names[:1]
    compared: list[MetricComparison] = []
    for name in (*judged, *(name for name in names if name not in judged)):
        metric = _metric(name, a, b, other, name in judged, margin)
        if metric.judged or metric.ratio is not None:
            compared.append(metric)
    notes = ["unpaired: what changed on the host between the two runs is part of every difference"]
    if any(len(point.repeats) == 1 for point in (a, b)):
        notes.append("of one measurement each interval is that measurement's own: how far repeats lie apart is unknown")
    return Compared(
        a.repeats[0].scenario,
        b.repeats[0].scenario,
        a.repeats[0].title,
        a.repeats[0].levels,
        _part_differences(a, b, info_a, info_b),
        tuple(compared),
        tuple(notes),
    )


def _names(results: Sequence[ScenarioResult]) -> tuple[str, ...]:
    first = [rate.name for result in results for rate in result.rates]
    return tuple(dict.fromkeys((*first, *(metric.name for result in results for metric in metrics_of(result)))))


def _metric(
    name: str, a: _Point, b: _Point, other: Sequence[Difference], judged: bool, margin: float | None
) -> MetricComparison:
    sides = [[reading for result in point.repeats for reading in readings(result, name)] for point in (a, b)]
    unit = next((reading.metric.unit for side in sides for reading in side if reading.metric.unit), "")
    base = MetricComparison(name, unit, judged, Decision.REFUSED, "", method=METHOD)
    if why := _refused(name, a, b, other):
        return replace(base, sentence=f"not compared: {why}")
    mode, chosen = _one_mode(sides)
    if chosen is None:
        return replace(base, sentence=f"not compared: {_nothing(sides)}")
    compared = replace(base, mode=mode, left_out=_left_out(sides, chosen))
    return _judged(compared, chosen, margin)


def _refused(name: str, a: _Point, b: _Point, other: Sequence[Difference]) -> str:
    """How the definitions differ; empty if they are the same."""
    differing = [f"{difference.what} is {difference.a} in A and {difference.b} in B" for difference in other]
    defined = [{repeat.definition_of(name) for repeat in point.repeats} - {""} for point in (a, b)]
    if not differing and all(defined) and defined[0] != defined[1]:
        differing = [f"A is {_either(defined[0])}, B is {_either(defined[1])}"]
    return f"numbers of different definitions: {'; '.join(differing)}" if differing else ""


def _either(words: set[str]) -> str:
    return " or ".join(sorted(words))


def _decidable(a: int, b: int) -> bool:
    """Whether ranges of this many repeats, if they lie apart, do so by chance in at most 5 % of the cases.

    Of n and m repeats that differ in nothing all of one side are the smaller ones in 2 of C(n + m, n) orders.
    Single measurements have intervals of their own; a note says so.
    """
    return a == b == 1 or 2 / comb(a + b, a) <= 1 - CONFIDENCE


def _one_mode(sides: Sequence[Sequence[Reading]]) -> tuple[str, tuple[list[Reading], list[Reading]] | None]:
    """The mode of the cores in which both sides have most numbers, and those; None if there is none."""
    usable = [[reading for reading in side if not reading.why_not and reading.metric.value > 0] for side in sides]
    modes = modes_of(reading.distance_ns for side in usable for reading in side)
    best = None
    for mode in modes:
        inside = tuple([reading for reading in side if in_mode(reading, mode, modes)] for side in usable)
        if all(inside) and (best is None or min(map(len, inside)) > min(map(len, best[1]))):
            best = (mode, inside)
    if best is None:
        return UNPROBED, None
    return (best[0] if len(modes) > 1 else UNPROBED), (best[1][0], best[1][1])


def _nothing(sides: Sequence[Sequence[Reading]]) -> str:
    reasons_of_sides = []
    for label, side in zip("AB", sides, strict=True):
        reasons = dict.fromkeys(reading.why_not for reading in side if reading.why_not)
        if not any(not reading.why_not and reading.metric.value > 0 for reading in side):
            reasons_of_sides.append(f"{label} {', '.join(reasons) or 'has no number'}")
    return "; ".join(reasons_of_sides) or "A and B were measured in different modes of the cores"


def _left_out(sides: Sequence[Sequence[Reading]], chosen: tuple[list[Reading], list[Reading]]) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for label, side, kept in zip("AB", sides, chosen, strict=True):
        for reading in side:
            if reading not in kept:
                reason = f"{label} {reading.why_not or 'in another mode of the cores'}"
                reasons[reason] = reasons.get(reason, 0) + 1
    return reasons


def _judged(
    compared: MetricComparison, chosen: tuple[list[Reading], list[Reading]], margin: float | None
) -> MetricComparison:
    a, b = (estimate([reading.metric for reading in side]) for side in chosen)
    quotient = ratio(b, a)
    if quotient is None or quotient.low is None or quotient.high is None:
        value = b.value / a.value
        sentence = f"B is {wording.percent(abs(1 - value))} {'higher' if value >= 1 else 'lower'}: no interval is known"
        return replace(compared, a=a, b=b, ratio=value, decision=Decision.TOO_FEW, sentence=sentence)
    if not _decidable(a.n, b.n):
        sentence = (
            f"unknown: {a.n} and {b.n} repeats are too few to decide; at the worst ends of both ranges B / A lies "
            f"between {quotient.low:.4g} and {quotient.high:.4g}"
        )
        few = replace(compared, a=a, b=b, decision=Decision.TOO_FEW, sentence=sentence)
        return replace(few, ratio=quotient.value, low=quotient.low, high=quotient.high)
    decision = Decision.NOT_FOUND
    if quotient.tells_apart:
        decision = Decision.HIGHER if quotient.value > 1 else Decision.LOWER
    hidden = max(quotient.high - 1, 1 - quotient.low)
    compared = replace(
        compared,
        a=a,
        b=b,
        ratio=quotient.value,
        low=quotient.low,
        high=quotient.high,
        largest_hidden=hidden,
        decision=decision,
        holds_for=HoldsFor.RUNS,
        method=f"{METHOD}; A: {a.interval}; B: {b.interval}",
    )
    compared = replace(compared, better=wording.better(compared))
    return replace(compared, sentence=wording.sentence(compared, margin))
