"""Two scenarios measured in turns, or two stored runs, compared metric by metric; pure.

A number belongs to the mode of the machine's cores in which it was measured (cache_line.py), and
only numbers of one mode are compared.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from pinchpoint.account.facts import TWO_MODES, differ
from pinchpoint.findings import differences, wording
from pinchpoint.findings.curves import DISTURBED, metrics_of
from pinchpoint.model import units
from pinchpoint.model.comparison import (
    Compared,
    Comparison,
    ComparisonKind,
    ComparisonRequest,
    Decision,
    Differences,
    HoldsFor,
    MetricComparison,
    Pair,
    Side,
)
from pinchpoint.model.duet import DuetSummary
from pinchpoint.model.levels import CONFIDENCE
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import BOUNDS, ModeRates, Outcome, Rate, RateStatus, RunInfo, RunResult, ScenarioResult
from pinchpoint.model.study import Bound
from pinchpoint.stats.estimate import bound_of, estimate
from pinchpoint.stats.paired import PairedDifference, compare_pairs, fewest_pairs

SCHEMA = 3
UNPROBED = ""  # the mode of numbers whose cores' distance nobody measured
_MOVED = "the cores moved between near and far"


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
    differing, plain = _what_differs(request, info, result)
    title = str(plain.get("title", "")).removeprefix("A: ")
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


def _what_differs(
    request: ComparisonRequest, info: RunInfo, result: RunResult
) -> tuple[Differences, Mapping[str, object]]:
    """What differs between the two benches of a comparison, and A's effective scenario."""
    plains = [_plain_of(info, group) for group in (request.a, request.b)]
    in_force = [
        next((scenario.settings for scenario in side if scenario.settings), {}) for side in _sides(request, result)
    ]
    return differences.between(plains[0], plains[1], (in_force[0], in_force[1]), (info, info)), plains[0]


def _sides(request: ComparisonRequest, result: RunResult) -> list[list[ScenarioResult]]:
    """What was measured of A and of B; a budget ends with whole pairs."""
    made = [scenario for scenario in result.scenarios if scenario.outcome is not Outcome.SKIPPED]
    return [[scenario for scenario in made if scenario.group == group] for group in (request.a, request.b)]


def _plain_of(info: RunInfo, group: str) -> Mapping[str, object]:
    return next(scenario for scenario in info.scenarios if group_of(scenario) == group)


def group_of(plain: Mapping[str, object]) -> str:
    """The group of an effective scenario as run.json keeps it."""
    point = plain.get("point")
    return str(point.get("group", "")) if isinstance(point, Mapping) else ""


def _paired_metrics(
    request: ComparisonRequest, a: Mapping[int, ScenarioResult], b: Mapping[int, ScenarioResult]
) -> Iterator[MetricComparison]:
    names = _names([*a.values(), *b.values()])
    judged = request.metrics or names[:1]
    for name in (*judged, *(name for name in names if name not in judged)):
        compared = [*paired(name, a, b, name in judged, request.margin)]
        yield from compared if name in judged else [metric for metric in compared if _tells(metric)]


def _tells(metric: MetricComparison) -> bool:
    """Whether a metric that nobody asked for is worth a row: it has a ratio, and not all its numbers are the same."""
    return metric.ratio is not None and len({value for pair in metric.pairs for value in (pair.a, pair.b)} - {None}) > 1


def _names(results: Sequence[ScenarioResult]) -> list[str]:
    """Every metric's name, the measure's main one first."""
    first = [rate.name for result in results for rate in result.rates]
    return list(dict.fromkeys((*first, *(metric.name for result in results for metric in metrics_of(result)))))


def paired(
    name: str,
    a: Mapping[int, ScenarioResult],
    b: Mapping[int, ScenarioResult],
    judged: bool = True,
    margin: float | None = None,
) -> Iterator[MetricComparison]:
    """One metric over the pairs `a[n]` with `b[n]`: a comparison for each mode of the cores that has enough pairs.

    The mode with the most pairs comes first, and is always there.
    """
    numbers = sorted(set(a) & set(b))
    read = {n: (readings(a[n], name), readings(b[n], name)) for n in numbers}
    modes = modes_of(
        reading.distance_ns for both in read.values() for side in both for reading in side if not reading.why_not
    )
    unit = next((reading.metric.unit for both in read.values() for side in both for reading in side), "")
    by_mode = [(mode, [_pair(n, *read[n], mode, modes) for n in numbers]) for mode in modes]
    by_mode.sort(key=lambda mode_pairs: -sum(not pair.left_out for pair in mode_pairs[1]))
    for place, (mode, pairs) in enumerate(by_mode):
        if not place or sum(not pair.left_out for pair in pairs) >= fewest_pairs(CONFIDENCE):
            yield _compared(name, unit, mode if len(modes) > 1 else UNPROBED, pairs, judged, margin)


def _pair(
    number: int, a: Sequence[Reading], b: Sequence[Reading], mode: str, modes: Mapping[str, tuple[float, float]]
) -> Pair:
    first = "A" if number % 2 else "B"
    mine, other = (_chosen(side, mode, modes) for side in (a, b))
    values = [reading.metric.value if reading and not reading.why_not else None for reading in (mine, other)]
    reasons = [_why_not(label, side, reading) for label, side, reading in (("A", a, mine), ("B", b, other))]
    if mine is None and other is None and a and b:
        reasons = ["both measured in another mode of the cores"]
    if not any(reasons) and mine and other and mine.distance_ns and other.distance_ns:
        apart = differ(mine.distance_ns, other.distance_ns)
        reasons = ["A and B in different modes of the cores"] if apart else reasons
    if not any(reasons) and any(value is None or value <= 0 for value in values):
        reasons = ["a number is 0: there is no ratio"]
    return Pair(number, first, values[0], values[1], next((reason for reason in reasons if reason), ""))


def _chosen(side: Sequence[Reading], mode: str, modes: Mapping[str, tuple[float, float]]) -> Reading | None:
    """The number of this mode; else what says that there is none in any."""
    there = sorted(
        (reading for reading in side if in_mode(reading, mode, modes)), key=lambda reading: bool(reading.why_not)
    )
    return next(iter(there), None) or next((reading for reading in side if reading.why_not), None)


def _why_not(label: str, side: Sequence[Reading], chosen: Reading | None) -> str:
    if chosen is None:
        return f"{label} measured in another mode of the cores" if side else f"{label} has no number"
    return f"{label} {chosen.why_not}" if chosen.why_not else ""


def readings(result: ScenarioResult, name: str) -> tuple[Reading, ...]:
    """The metric's numbers in one result, one for each mode of the cores that it tells apart."""
    if result.outcome is not Outcome.MEASURED:
        return (Reading(Metric(name, "", 0.0), None, result.outcome.value),)
    by_mode = tuple(
        Reading(metric, mode.distance_ns, _why_unusable(mode, rate) or unusable(metric))
        for mode in result.modes
        for rate in mode.rates
        if rate.name == name
        for metric in [_of_rate(rate)]
    )
    if by_mode:
        return by_mode
    distance_ns = result.cache_line.median_ns if result.cache_line else None
    moved = _MOVED if result.cache_line and 0 < result.cache_line.far_share < 1 else ""
    return tuple(
        Reading(metric, distance_ns, unusable(metric) or (f"while {moved}" if moved else ""))
        for metric in metrics_of(result)
        if metric.name == name
    )


def _why_unusable(mode: ModeRates, rate: Rate) -> str:
    if mode.slowed:
        return "was slowed by a neighbour"  # whose load nobody knows, nor whether it was the same twice
    return "was refused a number" if rate.status is RateStatus.REFUSED else ""


def _of_rate(rate: Rate) -> Metric:
    quoted_fps = rate.quoted_fps or rate.upper_fps or 0.0
    return Metric(rate.name, "fps", quoted_fps, rate.lower_fps, rate.upper_fps, bound=BOUNDS[rate.status])


def unusable(metric: Metric) -> str:
    """Why a metric's number cannot be compared; empty if it can."""
    words = {Bound.AT_LEAST: "is a lower bound only", Bound.BELOW: "is an upper bound only"}
    words[Bound.REFUSED] = "was refused a number"
    return words.get(bound_of(metric), f"was {DISTURBED}" if metric.disturbed else "")


def modes_of(distances: Iterator[float | None]) -> dict[str, tuple[float, float]]:
    """Modes of the cores, nearest first: label -> shortest and longest distance; numbers without distance are one."""
    measured = list(distances)
    known = sorted(distance_ns for distance_ns in measured if distance_ns is not None)
    groups: list[list[float]] = []
    for distance in known:
        if groups and distance < TWO_MODES * groups[-1][-1]:
            groups[-1].append(distance)
        else:
            groups.append([distance])
    modes = {f"cores {units.nanoseconds(median(group))} apart": (group[0], group[-1]) for group in groups}
    return modes | ({UNPROBED: (0.0, 0.0)} if None in measured or not modes else {})


def in_mode(reading: Reading, mode: str, modes: Mapping[str, tuple[float, float]]) -> bool:
    """Whether a number was measured in this mode."""
    if reading.distance_ns is None:
        return mode == UNPROBED
    low, high = modes[mode]
    return mode != UNPROBED and low <= reading.distance_ns <= high


def _compared(
    name: str, unit: str, mode: str, pairs: Sequence[Pair], judged: bool, margin: float | None
) -> MetricComparison:
    kept = [pair for pair in pairs if not pair.left_out]
    left_out = Counter(pair.left_out for pair in pairs if pair.left_out)
    base = MetricComparison(
        name, unit, judged, Decision.REFUSED, "", mode=mode, pairs=tuple(pairs), left_out=dict(left_out)
    )
    if not kept:
        reasons = ", ".join(f"{reason} in {count} of {len(pairs)}" for reason, count in left_out.items())
        return replace(base, sentence=f"not compared: no pair has two numbers ({reasons or 'none was measured'})")
    a, b = [pair.a or 0.0 for pair in kept], [pair.b or 0.0 for pair in kept]
    difference = compare_pairs(a, b, confidence=CONFIDENCE)
    base = replace(
        base,
        a=estimate([Metric(name, unit, value) for value in a]),
        b=estimate([Metric(name, unit, value) for value in b]),
        n=difference.n,
        method=difference.method,
    )
    return with_ratio(base, difference, HoldsFor.NEXT_BUILD, margin, of="pair")


def with_ratio(
    base: MetricComparison, ratio: PairedDifference, holds_for: HoldsFor, margin: float | None, *, of: str
) -> MetricComparison:
    """`base` with the ratio of B to A, the decision, and its sentence; `of` is what `base.n` counts.

    `holds_for` counts where the ratio has an interval with a confidence.
    """
    compared = replace(
        base,
        ratio=ratio.ratio,
        low=ratio.low,
        high=ratio.high,
        confidence=ratio.confidence,
        p_value=ratio.p_value,
        largest_hidden=ratio.largest_hidden,
        decision=decision_of(ratio),
        holds_for=holds_for if ratio.confidence is not None else None,
    )
    compared = replace(compared, better=wording.better(compared))
    return replace(compared, sentence=wording.sentence(compared, margin, of))


def decision_of(difference: PairedDifference) -> Decision:
    """What the ratio of pairs, or of blocks of slices, says."""
    if difference.confidence is None:
        return Decision.TOO_FEW
    if not difference.differs:
        return Decision.NOT_FOUND
    return Decision.HIGHER if difference.ratio > 1 else Decision.LOWER


def _notes(
    request: ComparisonRequest,
    a: Mapping[int, ScenarioResult],
    b: Mapping[int, ScenarioResult],
    metrics: Sequence[MetricComparison],
) -> Iterator[str]:
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
    others = sum(not metric.judged for metric in metrics)
    if others:
        yield (
            f"{units.counted(others, 'other metric')} beside: each interval holds for itself, "
            "so that of 20 metrics without a difference one shows one"
        )
    judged = len({metric.metric for metric in metrics if metric.judged})
    if judged > 1:
        yield f"{judged} metrics judged: each alone errs in 5 % of the cases in which there is no difference"
