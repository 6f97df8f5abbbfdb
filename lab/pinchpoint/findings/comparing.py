"""Two scenarios measured in turns, compared metric by metric; what every comparison of results needs; pure.

A number belongs to the mode of the machine's cores in which it was measured (cache_line.py), and
only numbers of one mode are compared.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from pinchpoint.account.facts import TWO_MODES, differ
from pinchpoint.findings import differences, judging
from pinchpoint.findings.curves import DISTURBED, metrics_of
from pinchpoint.model import units
from pinchpoint.model.comparison import (
    Compared,
    Comparison,
    ComparisonKind,
    ComparisonRequest,
    HoldsFor,
    MetricComparison,
    Pair,
    Side,
)
from pinchpoint.model.duet import DuetSummary
from pinchpoint.model.effective import group_of
from pinchpoint.model.levels import CONFIDENCE
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import BOUNDS, Outcome, RunInfo, RunResult, ScenarioResult
from pinchpoint.model.study import Bound
from pinchpoint.stats.estimate import bound_of, estimate
from pinchpoint.stats.paired import compare_pairs, fewest_pairs

SCHEMA = 3
UNPROBED = ""  # the mode of numbers whose cores' distance nobody measured

Modes = Mapping[str, tuple[float, float]]
"""Modes of the cores: label -> shortest and longest distance, ns."""
ByRepeat = Mapping[int, ScenarioResult]
"""What one side measured, by the number of the repeat."""


@dataclass(frozen=True)
class Reading:
    """One number of one measurement, in one mode; `why_not` says why it cannot be compared."""

    metric: Metric
    distance_ns: float | None
    why_not: str


def of_run(info: RunInfo, result: RunResult) -> Comparison:
    """Of a run that measured two groups in turns (`info.comparison`)."""
    request = info.comparison
    assert request is not None
    a, b = ({scenario.repeat: scenario for scenario in side} for side in _sides(request, result))
    metrics = tuple(_paired_metrics(request, a, b))
    return of_two_benches(info, result, ComparisonKind.PAIRED, metrics, tuple(_notes(request, a, b, metrics)))


def of_two_benches(
    info: RunInfo,
    result: RunResult,
    kind: ComparisonKind,
    metrics: tuple[MetricComparison, ...],
    notes: tuple[str, ...],
    duet: DuetSummary | None = None,
) -> Comparison:
    """The comparison of one scenario on two benches, with what differs between them."""
    request = info.comparison
    assert request is not None
    a, b = (next(plain for plain in info.scenarios if group_of(plain) == group) for group in (request.a, request.b))
    in_a, in_b = map(differences.in_force, _sides(request, result))
    differing = differences.between(a, b, (in_a, in_b), (info, info))
    title = str(a.get("title", "")).removeprefix("A: ")
    return Comparison(
        schema=SCHEMA,
        kind=kind,
        a=Side(request.a, info.started),
        b=Side(request.b, info.started),
        differences=differing,
        scenarios=(Compared(request.a, request.b, title, {}, differing, metrics, notes, duet),),
        margin=request.margin,
        finished=result.finished,
        why=request.why,
    )


def _sides(request: ComparisonRequest, result: RunResult) -> tuple[list[ScenarioResult], list[ScenarioResult]]:
    """What was measured of A and of B; a budget ends with whole pairs."""
    made = [scenario for scenario in result.scenarios if scenario.outcome is not Outcome.SKIPPED]
    a, b = ([scenario for scenario in made if scenario.group == group] for group in (request.a, request.b))
    return a, b


def in_order(results: Sequence[ScenarioResult], wanted: Sequence[str]) -> list[tuple[str, bool]]:
    """The names of all metrics, each with whether it is judged: those that are wanted, else the measure's main one.

    Judged ones come first.
    """
    first = [rate.name for result in results for rate in result.rates]
    names = list(dict.fromkeys((*first, *(metric.name for result in results for metric in metrics_of(result)))))
    judged = tuple(wanted) or names[:1]
    return [*((name, True) for name in judged), *((name, False) for name in names if name not in judged)]


def _paired_metrics(request: ComparisonRequest, a: ByRepeat, b: ByRepeat) -> Iterator[MetricComparison]:
    for name, is_judged in in_order([*a.values(), *b.values()], request.metrics):
        compared = paired(name, a, b, is_judged, request.margin)
        yield from (metric for metric in compared if is_judged or _tells(metric))


def _tells(metric: MetricComparison) -> bool:
    """Whether a metric that nobody asked for is worth a row: it has a ratio, and not all its numbers are the same."""
    return metric.ratio is not None and len({value for pair in metric.pairs for value in (pair.a, pair.b)} - {None}) > 1


def paired(
    name: str, a: ByRepeat, b: ByRepeat, judged: bool = True, margin: float | None = None
) -> Iterator[MetricComparison]:
    """One metric over the pairs `a[n]` with `b[n]`: a comparison for each mode of the cores that has enough pairs.

    The mode with the most pairs comes first, and is always there.
    """
    read = {n: (readings(a[n], name), readings(b[n], name)) for n in sorted(set(a) & set(b))}
    every = [reading for both in read.values() for side in both for reading in side]
    modes = modes_of([reading for reading in every if not reading.why_not])
    unit = next((reading.metric.unit for reading in every), "")
    by_mode = [(mode, [_pair(n, *both, mode, modes) for n, both in read.items()]) for mode in modes]
    by_mode.sort(key=lambda mode_pairs: -sum(not pair.left_out for pair in mode_pairs[1]))
    for place, (mode, pairs) in enumerate(by_mode):
        if not place or sum(not pair.left_out for pair in pairs) >= fewest_pairs(CONFIDENCE):
            yield _compared(name, unit, mode if len(modes) > 1 else UNPROBED, pairs, judged, margin)


def _pair(number: int, a: Sequence[Reading], b: Sequence[Reading], mode: str, modes: Modes) -> Pair:
    mine, other = (_chosen(side, mode, modes) for side in (a, b))
    a_value, b_value = (reading.metric.value if reading and not reading.why_not else None for reading in (mine, other))
    if mine is None and other is None and a and b:
        why = "both measured in another mode of the cores"
    else:
        why = _why_not("A", a, mine) or _why_not("B", b, other)
    if not why and mine and other:
        if mine.distance_ns and other.distance_ns and differ(mine.distance_ns, other.distance_ns):
            why = "A and B in different modes of the cores"
        elif min(mine.metric.value, other.metric.value) <= 0:
            why = "a number is 0: there is no ratio"
    return Pair(number, "A" if number % 2 else "B", a_value, b_value, why)


def _chosen(side: Sequence[Reading], mode: str, modes: Modes) -> Reading | None:
    """The number of this mode; else what says that there is none in any."""
    inside = [reading for reading in side if in_mode(reading, mode, modes)]
    usable = [reading for reading in inside if not reading.why_not]
    return next(iter((*usable, *inside, *(reading for reading in side if reading.why_not))), None)


def _why_not(label: str, side: Sequence[Reading], chosen: Reading | None) -> str:
    if chosen is None:
        return f"{label} measured in another mode of the cores" if side else f"{label} has no number"
    return f"{label} {chosen.why_not}" if chosen.why_not else ""


def readings(result: ScenarioResult, name: str) -> tuple[Reading, ...]:
    """The metric's numbers in one result, one for each mode of the cores that it tells apart."""
    if result.outcome is not Outcome.MEASURED:
        return (Reading(Metric(name, "", 0.0), None, result.outcome.value),)
    by_mode = []
    for mode in result.modes:
        for rate in (rate for rate in mode.rates if rate.name == name):
            quoted_fps = rate.quoted_fps or rate.upper_fps or 0.0
            metric = Metric(name, "fps", quoted_fps, rate.lower_fps, rate.upper_fps, bound=BOUNDS[rate.status])
            # Nobody knows the neighbour's load, nor whether it was the same twice.
            why_not = "was slowed by a neighbour" if mode.slowed else unusable(metric)
            by_mode.append(Reading(metric, mode.distance_ns, why_not))
    if by_mode:
        return tuple(by_mode)
    cores = result.cache_line
    moved = "while the cores moved between near and far" if cores and 0 < cores.far_share < 1 else ""
    distance_ns = cores.median_ns if cores else None
    named = (metric for metric in metrics_of(result) if metric.name == name)
    return tuple(Reading(metric, distance_ns, unusable(metric) or moved) for metric in named)


def unusable(metric: Metric) -> str:
    """Why a metric's number cannot be compared; empty if it can."""
    words = {Bound.AT_LEAST: "is a lower bound only", Bound.BELOW: "is an upper bound only"}
    words[Bound.REFUSED] = "was refused a number"
    return words.get(bound_of(metric), f"was {DISTURBED}" if metric.disturbed else "")


def modes_of(numbers: Sequence[Reading]) -> Modes:
    """The modes in which these were measured, nearest first; numbers without distance are in one of their own."""
    known = sorted(reading.distance_ns for reading in numbers if reading.distance_ns is not None)
    groups: list[list[float]] = []
    for distance in known:
        if groups and distance < TWO_MODES * groups[-1][-1]:
            groups[-1].append(distance)
        else:
            groups.append([distance])
    modes = {f"cores {units.nanoseconds(median(group))} apart": (group[0], group[-1]) for group in groups}
    return modes | ({UNPROBED: (0.0, 0.0)} if len(known) < len(numbers) or not modes else {})


def in_mode(reading: Reading, mode: str, modes: Modes) -> bool:
    """Whether a number was measured in this mode."""
    if reading.distance_ns is None or mode == UNPROBED:
        return reading.distance_ns is None and mode == UNPROBED
    low, high = modes[mode]
    return low <= reading.distance_ns <= high


def _compared(
    name: str, unit: str, mode: str, pairs: Sequence[Pair], judged: bool, margin: float | None
) -> MetricComparison:
    kept = [pair for pair in pairs if not pair.left_out]
    left_out = Counter(pair.left_out for pair in pairs if pair.left_out)
    reasons = ", ".join(f"{reason} in {count} of {len(pairs)}" for reason, count in left_out.items())
    none = judging.refused(name, unit, f"no pair has two numbers ({reasons or 'none was measured'})", judged)
    base = replace(none, mode=mode, pairs=tuple(pairs), left_out=dict(left_out))
    if not kept:
        return base
    a, b = [pair.a or 0.0 for pair in kept], [pair.b or 0.0 for pair in kept]
    difference = compare_pairs(a, b, confidence=CONFIDENCE)
    of_a, of_b = (estimate([Metric(name, unit, value) for value in values]) for values in (a, b))
    base = replace(base, a=of_a, b=of_b, n=difference.n, method=difference.method)
    return judging.with_ratio(base, difference, HoldsFor.NEXT_BUILD, margin, of="pair")


def _notes(request: ComparisonRequest, a: ByRepeat, b: ByRepeat, metrics: Sequence[MetricComparison]) -> Iterator[str]:
    made = len(set(a) & set(b))
    if made < request.pairs:
        yield f"{made} of {request.pairs} pairs were measured"
    for label, side in (("A", a), ("B", b)):
        if failed := [scenario for scenario in side.values() if scenario.outcome is not Outcome.MEASURED]:
            reason = failed[-1].reason.partition("\n")[0]
            yield f"{label} has no numbers in {len(failed)} of {len(side)} repeats; last: {reason}"
    for metric in metrics:
        lost = sum(metric.left_out.values())
        if metric.judged and lost and metric.n:
            where = f" ({metric.mode})" if metric.mode else ""
            why = "; ".join(f"{reason}: {count}" for reason, count in metric.left_out.items())
            pairs = len(metric.pairs)
            yield f"{metric.metric}{where}: {lost} of {pairs} pairs ({lost / pairs:.0%}) left out: {why}"
    if others := sum(not metric.judged for metric in metrics):
        beside = f"{units.counted(others, 'other metric')} beside: each interval holds for itself"
        yield f"{beside}, so that of 20 metrics without a difference one shows one"
    judged = len({metric.metric for metric in metrics if metric.judged})
    if judged > 1:
        yield f"{judged} metrics judged: each alone errs in 5 % of the cases in which there is no difference"
