"""Two scenarios measured in turns, compared metric by metric; what every comparison of results needs; pure.

A number belongs to the mode of the machine's cores in which it was measured (account/facts.py), and
only numbers of one mode are compared. What the ratio of a metric of two benches says stands here for all comparisons:
which way is better, its sentence, whether B got worse.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from pinchpoint.account.facts import TWO_MODES, differ
from pinchpoint.findings import differences
from pinchpoint.findings.curves import DISTURBED, metrics_of
from pinchpoint.findings.findings import direction
from pinchpoint.model import units
from pinchpoint.model.comparison import (
    Compared,
    Comparison,
    ComparisonKind,
    ComparisonRequest,
    Decision,
    HoldsFor,
    Judged,
    MetricComparison,
    Pair,
    Side,
    State,
)
from pinchpoint.model.duet import DuetSummary, pair_order
from pinchpoint.model.effective import group_of
from pinchpoint.model.guest import PROCESSOR, REAL
from pinchpoint.model.measurement import CONFIDENCE, Bound, Metric, fewest_for_interval
from pinchpoint.model.result import BOUNDS, SCHEMA, Outcome, RunInfo, RunResult, ScenarioResult
from pinchpoint.stats.estimate import bound_of, estimate
from pinchpoint.stats.paired import PairedDifference, compare_pairs

UNPROBED = ""  # the mode of numbers whose cores' distance nobody measured

Margin = float | None
"""The share below which a difference does not matter; None: none was given."""
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
    sides = Side(request.a, info.started), Side(request.b, info.started)
    defined = tuple(meanings(metrics, result.scenarios))
    compared = Compared(request.a, request.b, title, {}, differing, metrics, notes, duet, defined)
    of_benches = Comparison(SCHEMA, kind, *sides, differing, (compared,))
    return replace(of_benches, margin=request.margin, finished=result.finished, why=request.why)


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
    name: str, a: ByRepeat, b: ByRepeat, judged: bool = True, margin: Margin = None
) -> Iterator[MetricComparison]:
    """One metric over the pairs `a[n]` with `b[n]`: a comparison for each mode of the cores that has enough pairs.

    The mode with the most pairs comes first, and is always there. Beside a real processor an emulated one is refused.
    """
    in_force = ([result.settings for result in side.values() if result.settings] for side in (a, b))
    processors = [{settings.get(PROCESSOR, REAL) for settings in side} for side in in_force]
    if all(processors) and processors[0] != processors[1]:
        yield refused(name, "", "numbers of an emulated and of a real processor", judged)
        return
    read = {n: (readings(a[n], name), readings(b[n], name)) for n in sorted(set(a) & set(b))}
    every = [reading for both in read.values() for side in both for reading in side]
    modes = modes_of([reading for reading in every if not reading.why_not])
    unit = next((reading.metric.unit for reading in every), "")
    by_mode = [(mode, [_pair(n, *both, mode, modes) for n, both in read.items()]) for mode in modes]
    by_mode.sort(key=lambda mode_pairs: -sum(not pair.left_out for pair in mode_pairs[1]))
    for place, (mode, pairs) in enumerate(by_mode):
        if not place or sum(not pair.left_out for pair in pairs) >= fewest_for_interval():
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
    return Pair(number, pair_order(number - 1)[0], a_value, b_value, why)


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


def _compared(name: str, unit: str, mode: str, pairs: Sequence[Pair], judged: bool, margin: Margin) -> MetricComparison:
    kept = [pair for pair in pairs if not pair.left_out]
    left_out = Counter(pair.left_out for pair in pairs if pair.left_out)
    reasons = ", ".join(f"{reason} in {count} of {len(pairs)}" for reason, count in left_out.items())
    none = refused(name, unit, f"no pair has two numbers ({reasons or 'none was measured'})", judged)
    base = replace(none, mode=mode, pairs=tuple(pairs), left_out=dict(left_out))
    if not kept:
        return base
    a, b = [pair.a or 0.0 for pair in kept], [pair.b or 0.0 for pair in kept]
    difference = replace(compare_pairs(a, b, confidence=CONFIDENCE), is_of_builds=True)
    of_a, of_b = (estimate([Metric(name, unit, value) for value in values]) for values in (a, b))
    base = replace(base, a=of_a, b=of_b, n=difference.n, method=difference.meaning)
    return with_ratio(base, difference, margin, of="pair")


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
        yield f"{units.counted(others, 'other metric')} not judged: of 20 without a difference, about one will show one"
    judged = len({metric.metric for metric in metrics if metric.judged})
    if judged > 1:
        yield f"{judged} metrics judged: each alone has a 5 % chance of showing a difference where there is none"


def meanings(metrics: Sequence[MetricComparison], results: Sequence[ScenarioResult]) -> Iterator[str]:
    """What each rate that is judged means: the length of its trials stands beside it."""
    for name in dict.fromkeys(metric.metric for metric in metrics if metric.judged):
        for meaning in sorted({result.definition_of(name) for result in results} - {""}):
            yield f"{name}: {meaning}"


def refused(metric: str, unit: str, why: str, is_judged: bool = True) -> MetricComparison:
    """A metric without a ratio."""
    return MetricComparison(metric, unit, is_judged, Decision.REFUSED, f"not compared: {why}")


def with_ratio(base: MetricComparison, ratio: PairedDifference, margin: Margin, *, of: str) -> MetricComparison:
    """`base` with the ratio of B to A, the decision, and its sentence; `of` is what `base.n` counts."""
    holds_for = HoldsFor.NEXT_BUILD if ratio.is_of_builds else HoldsFor.BENCHES
    compared = replace(base, ratio=ratio.value, low=ratio.low, high=ratio.high, confidence=ratio.level)
    compared = replace(compared, p_value=ratio.p_value, largest_hidden=ratio.largest_hidden)
    compared = replace(compared, holds_for=holds_for if ratio.level is not None else None)
    return decided(compared, decision_of(ratio), margin, of)


def decided(compared: MetricComparison, decision: Decision, margin: Margin, of: str = "pair") -> MetricComparison:
    """A metric whose ratio is known, with what that says."""
    compared = replace(compared, decision=decision)
    compared = replace(compared, better=_better(compared))
    return replace(compared, sentence=_sentence(compared, margin, of))


def decision_of(difference: PairedDifference) -> Decision:
    """What the ratio of pairs, or of blocks of slices, says."""
    if difference.level is None:
        return Decision.TOO_FEW
    if not difference.differs:
        return Decision.NOT_FOUND
    return Decision.HIGHER if difference.value > 1 else Decision.LOWER


def _better(metric: MetricComparison) -> bool | None:
    """Whether B is the better one; None if no difference was found, neither is better, or it is of two benches only."""
    rising = direction(metric.metric, metric.unit)
    if not rising or metric.holds_for is HoldsFor.BENCHES or metric.decision not in (Decision.HIGHER, Decision.LOWER):
        return None
    return (metric.decision is Decision.HIGHER) == (rising > 0)


def _sentence(metric: MetricComparison, margin: Margin, of: str) -> str:
    """What the comparison says, e.g. `B is 2.1 % [1.6 .. 2.6 %] lower`."""
    ratio = metric.interval
    assert ratio is not None
    if metric.decision is Decision.TOO_FEW:
        return f"unknown: {ratio.meaning}; the ratios of the {of}s lie between {ratio.low:.4g} and {ratio.high:.4g}"
    of_benches = metric.holds_for is HoldsFor.BENCHES
    if metric.decision is Decision.NOT_FOUND:
        hidden = metric.largest_hidden or 0.0
        where = " between these two benches" if of_benches else ""
        ends = f"B / A is {ratio.value:.3f} [{ratio.low:.3f} .. {ratio.high:.3f}]"
        excluded = f"one of up to {percent(hidden)} cannot be excluded"
        return f"no difference found{where}: {ends}; {excluded}{_margin_hidden(metric, hidden, margin, of)}"
    smaller, larger = sorted((abs(1 - ratio.low), abs(1 - ratio.high)))
    ends = f"[{percent(smaller).removesuffix(' %')} .. {percent(larger)}]"
    text = f"B is {percent(abs(1 - ratio.value))} {ends} {metric.decision.value}"
    if of_benches:
        return f"of these two benches, {text}; one build of each cannot tell the build from the change"
    return f"{text}, within the margin of {percent(margin)}" if margin is not None and larger <= margin else text


def _margin_hidden(metric: MetricComparison, hidden: float, margin: Margin, of: str) -> str:
    if margin is None:
        return ""
    if hidden <= margin:
        return f": the same within the margin of {percent(margin)}"
    text = f": a difference beyond the margin of {percent(margin)} is not excluded"
    # Intervals shrink with the square root of the number of pairs.
    needed = math.ceil(metric.n * (hidden / margin) ** 2) if metric.n else 0
    return f"{text}; about {units.counted(needed, of)} would decide" if needed else text


def percent(share: float) -> str:
    """A share as a percentage with two digits that count, e.g. `2.1 %`, `0.83 %`, `14.2 %`."""
    value = share * 100
    return f"{value:.1f} %" if value >= 0.995 else f"{value:.2f} %"


def judged(comparison: Comparison, margin: float) -> tuple[Judged, ...]:
    """Every metric to be judged, with what is known of it; `margin` is the share that B may be worse by."""
    asked = [(part.b, metric) for part in comparison.scenarios for metric in part.metrics if metric.judged]
    return tuple(Judged(scenario, metric, _state(metric, margin)) for scenario, metric in asked)


def is_answer(metric: MetricComparison) -> bool:
    """Whether a comparison came to a ratio with an interval."""
    return metric.decision not in (Decision.REFUSED, Decision.TOO_FEW)


def why_undecided(metric: MetricComparison) -> str:
    """Why a metric cannot be judged against a limit, and what to do."""
    if is_answer(metric) and not direction(metric.metric, metric.unit):
        return f"{metric.metric}: neither higher nor lower is better; name another with --metric"
    more = f" (--benches {fewest_for_interval()} builds enough)" if metric.holds_for is HoldsFor.BENCHES else ""
    return f"{metric.metric}: {metric.sentence}{more}"


def _state(metric: MetricComparison, margin: float) -> State:
    rising, ratio = direction(metric.metric, metric.unit), metric.interval
    if ratio is None or not is_answer(metric) or not rising or metric.holds_for is HoldsFor.BENCHES:
        return State.UNDECIDED
    at_best = 1 - ratio.high if metric.decision is Decision.LOWER else ratio.low - 1
    is_worse = metric.better is False
    if is_worse and at_best > margin:
        return State.REGRESSION
    at_worst = 1 - ratio.low if rising > 0 else ratio.high - 1
    return State.MIND if is_worse or at_worst > margin else State.PASSED
