"""Two benches that stand at once: compared by alternating slices or trials, or one as a ratio to the other; pure."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median

from pinchpoint.findings import comparing
from pinchpoint.model import units
from pinchpoint.model.comparison import Comparison, ComparisonKind, Decision, MetricComparison
from pinchpoint.model.duet import FORWARDED, MEASURED, RELATIVE, SIDES, DuetSummary, Stretch
from pinchpoint.model.measurement import CYCLES, NORMAL, Bound, Estimate, Interval, Metric, fewest_for_interval
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.scenario import Search
from pinchpoint.model.trial import ALTERNATING, WARM_UP, Trial, TrialValidity
from pinchpoint.stats import duet as duets
from pinchpoint.stats.alternating import LIMITED, Alternated, Alternation, StairTrial, Turn, compare_turns
from pinchpoint.stats.duet import NOT_OVERLOADED, Duet, Quad, compare_slices, counted, in_parts, loss_after_thaw
from pinchpoint.stats.paired import PairedDifference

BAND = (0.05, 0.95)  # of the time
MOST_NOT_OVERLOADED = 0.05  # of the slices: more would leave out the moments in which a bench is fast
BUSY = 0.5  # of a forwarding thread's time: one that waits for frames most of the time takes few in a turn
NARROW = 0.04  # half of an interval, as a share, at which slices end: 0.05 is aimed at, and stopping early flatters
MOST_USED_S = 30.0  # of slices that could be used: half of an interval shrinks with the root of the time
LEAST_USED = 0.02  # of the slices: with fewer, whole trials of the same time say more
LEAST_TRIED_S = 4.9  # of slices, before too few could be used: two stretches, which whole groups of slices do not fill
UNIT = "x"
_UNUSABLE = (TrialValidity.ABORTED, TrialValidity.NOISY_HOST, TrialValidity.COUNTER_MISMATCH)
_OF_BENCHES = "the interval is for these two benches: two builds of one file differ by a few per cent, which"


def of_duet(info: RunInfo, result: RunResult, stretches: Sequence[Stretch]) -> Comparison:
    """Of a run that measured two benches in alternating slices, as far as it got."""
    assert info.comparison is not None
    measured = [stretch for stretch in stretches if stretch.phase == MEASURED and stretch.slices]
    duet = compare_slices(stretches) if measured else None
    metric = _forwarded(duet, info.comparison.margin)
    summary = duet.summary if duet else None
    notes = (*_warnings(result), *(_notes_of_slices(duet) if duet else ()))
    return comparing.of_two_benches(info, result, ComparisonKind.DUET, (metric,), notes, summary)


def _warnings(result: RunResult) -> Iterable[str]:
    return dict.fromkeys(warning.text for scenario in result.scenarios for warning in scenario.warnings)


def _forwarded(duet: Duet | None, margin: float | None) -> MetricComparison:
    why = why_refused(duet.summary) if duet else "no slice was measured"
    base = comparing.refused(FORWARDED, "fps", why)
    if why or duet is None:
        return base
    assert duet.difference is not None  # else every slice was discarded, which has a reason
    a, b = (over_time(_rates(duet.quads, side)) for side in SIDES)
    base = replace(base, a=a, b=b, n=len(duet.quads), method=interval_of(duet))
    return comparing.with_ratio(base, duet.difference, margin, of="quad")


def why_refused(summary: DuetSummary) -> str:
    """Why there is no ratio, or none that may be reported; empty if there is one."""
    slow, slices = summary.discarded.get(NOT_OVERLOADED, 0), summary.slices - summary.discarded.get(duets.TOO_SHORT, 0)
    if slices and slow > MOST_NOT_OVERLOADED * slices:
        share = units.share(slow / slices)
        return f"the engine could not overload the devices in {share} of the slices: they may forward more than that"
    if summary.quads_used:
        return ""
    if summary.discarded.get(duets.NOTHING, 0) >= slices / 2:  # of one bench all of them
        return "A or B forwarded nothing"
    return f"every slice was discarded ({_reasons(summary)})"


def interval_of(duet: Duet) -> str:
    """What the interval of the ratio is, in words. The duet has a ratio."""
    assert duet.difference is not None
    words = _interval(duet.difference, "times two benches", f"{len(duet.quads):,} quads")
    return words if duet.difference.level is None else f"{words} A B B A"


def _interval(ratio: PairedDifference, builds: str, made: str) -> str:
    """`builds`: what builds are called; `made`: what blocks and builds consist of."""
    blocks = f"{ratio.n} {builds}" if ratio.is_of_builds else units.counted(ratio.n, "block")
    if ratio.level is None:
        return f"range of {blocks} of {made}; an interval at 95 % needs {fewest_for_interval()}"
    return f"95 %, Wilcoxon's signed ranks over {blocks} of {made}"


def over_time(rates_fps: Sequence[float], unit: str = "fps") -> Estimate:
    """The median of momentary rates, and between which two they lay for most of the time. At least one."""
    ranked = sorted(rates_fps)
    low, high = (ranked[round(share * (len(ranked) - 1))] for share in BAND)
    words = f"{BAND[0] * 100:g} % to {BAND[1] * 100:g} % of the time"
    return Estimate(unit, median(ranked), low, high, len(ranked), words)


def _rates(quads: Sequence[Quad], side: str) -> list[float]:
    return [quad.a_fps if side == "A" else quad.b_fps for quad in quads]


def rate_metric(quads: Sequence[Quad], side: str) -> Metric:
    """What one bench forwarded, as a figure of its own."""
    return _as_metric(FORWARDED, over_time(_rates(quads, side)))


def turns_metric(turns: Sequence[Turn], side: str, search: Search) -> Metric:
    """The same of the loads that its staircase visited, at least one."""
    return _as_metric(rate_name(search), rate_of(turns, side))


def _as_metric(name: str, rate: Estimate) -> Metric:
    return Metric(name, rate.unit, *Interval.of(rate).figures, rate.interval)


def _reasons(summary: DuetSummary) -> str:
    """Why slices were discarded, with their numbers."""
    return "; ".join(f"{reason}: {count:,}" for reason, count in summary.discarded.items())


def _notes_of_slices(duet: Duet) -> Iterator[str]:
    summary = duet.summary
    if lost := sum(summary.discarded.values()):
        share = units.share(lost / summary.slices)
        yield f"{lost:,} of {summary.slices:,} slices ({share}) are not used: {_reasons(summary)}"
    if duet.difference is None or not duet.difference.is_of_builds:
        yield f"{_OF_BENCHES} --benches {fewest_for_interval()} or more includes"
    yield f"compared is the {FORWARDED}, not the loss-free rate: `--metric NDR` compares that in turns"
    yield "cycles per packet are unknown: the clock of a frozen thread runs on"


def rate_name(search: Search) -> str:
    """What alternating trials compare: the rate of the first loss ratio."""
    ratio = search.loss_ratios[0]
    return "NDR" if ratio == 0 else f"PDR {ratio * 100:g} %"


def tried(trial: Trial, search: Search) -> StairTrial | None:
    """The trial as its staircase sees it; None: its account cannot be used.

    One that the engine limits counts at what was offered.
    """
    if trial.validity in _UNUSABLE or trial.offered_fps <= 0:
        return None
    loses = trial.loss_ratio > search.loss_ratios[0]
    is_highest = trial.offered_fps < LIMITED * trial.load_fps or trial.load_fps >= search.max_load_fps
    return StairTrial(min(trial.load_fps, trial.offered_fps), loses, is_highest and not loses, _cycles(trial))


def _cycles(trial: Trial) -> float | None:
    busiest = trial.busiest_cost
    return busiest[1] if busiest is not None and busiest[0] >= BUSY else None


def alternation(trials: Iterable[Trial], names: Sequence[str], search: Search) -> Alternation:
    """The turns of a run's stored trials, in the order of time; `names`: of the scenarios A and B.

    A warm-up of A begins a build.
    """
    sides, before = dict(zip(names, SIDES, strict=True)), ("", "")
    levels = Alternation(search.min_load_fps, search.max_load_fps)
    for trial in trials:
        side = sides.get(trial.scenario, "")
        if (trial.phase, side) == (WARM_UP, SIDES[0]) != before:
            levels.build()
        elif trial.phase == ALTERNATING and levels.builds:
            levels.answer(side, tried(trial, search))
        before = trial.phase, side
    return levels


def of_trials(info: RunInfo, result: RunResult, made: Alternation, search: Search) -> Comparison:
    """Of a run that measured two benches by alternating trials, as far as it got."""
    assert info.comparison is not None
    compared, margin = compare_turns(made.turns), info.comparison.margin
    rate, cost = _rate(compared, search, margin), _cost(compared, margin)
    metrics: tuple[MetricComparison, ...] = (rate,)
    if cost is not None and rate.decision is Decision.REFUSED:
        rate = replace(rate, judged=False)
        metrics = (cost, rate)
    elif cost is not None:
        metrics = (rate, replace(cost, judged=False))
    notes = (*_warnings(result), *_notes_of_trials(compared, rate, search))
    return comparing.of_two_benches(info, result, ComparisonKind.TRIALS, metrics, notes)


def _rate(compared: Alternated, search: Search, margin: float | None) -> MetricComparison:
    base = comparing.refused(rate_name(search), "fps", "too few alternating trials had a usable account")
    if compared.rate is None:
        return base
    base = replace(base, a=rate_of(compared.turns, "A"), b=rate_of(compared.turns, "B"))
    judged = _of_turns(base, compared.rate, compared, margin)
    bounds = (compared.a_is_bound, compared.b_is_bound)
    if not any(bounds):
        return judged
    names = " and ".join(side for side, is_bound in zip(SIDES, bounds, strict=True) if is_bound)
    most = units.fps(max(turn.a.fps for turn in compared.turns))
    why = f"{names} forwarded all that the engine offers ({most})"
    # A bound shows a difference on its own side, and none on the other.
    shown = {(True, False): Decision.LOWER, (False, True): Decision.HIGHER}.get(bounds)
    if judged.decision is shown:
        return replace(judged, sentence=f"{judged.sentence}; at least that, since {why}")
    return replace(base, sentence=f"not compared: {why}")


def _cost(compared: Alternated, margin: float | None) -> MetricComparison | None:
    """Of the cycles that a packet costs at one load; None where the device counts none."""
    if compared.cycles is None:
        return None
    costs = [[getattr(turn, side.lower()).cycles for turn in compared.turns] for side in SIDES]
    a, b = (over_time([value for value in side if value], "cycles") for side in costs)
    return _of_turns(replace(comparing.refused(CYCLES, "cycles", ""), a=a, b=b), compared.cycles, compared, margin)


def _of_turns(
    base: MetricComparison, ratio: PairedDifference, compared: Alternated, margin: float | None
) -> MetricComparison:
    method = _interval(ratio, "builds", units.counted(len(compared.turns), "turn"))
    base = replace(base, n=len(compared.turns), method=method)
    return comparing.with_ratio(base, ratio, margin, of="turn")


def rate_of(turns: Sequence[Turn], side: str) -> Estimate:
    """The rate of one bench: the median of the loads that its staircase visited. At least one turn."""
    return over_time([getattr(turn, side.lower()).fps for turn in turns])


def _notes_of_trials(compared: Alternated, rate: MetricComparison, search: Search) -> Iterator[str]:
    if not rate.judged:
        yield f"{rate.metric}: {rate.sentence}; the {CYCLES} at the highest load on offer are compared instead"
    if compared.rate is not None and not compared.rate.is_of_builds:
        yield f"{_OF_BENCHES} {fewest_for_interval()} builds or more include (--benches, with a budget large enough)"
    yield f"{rate.metric}: half of the trials of {units.seconds(search.trial_duration_s)} lose no more at this load"


def of_reference() -> Metric:
    """The relative rate of the reference itself."""
    return Metric(RELATIVE, UNIT, 1.0, 1.0, 1.0, "the reference")


def not_overloaded(most_fps: float | None) -> Metric:
    """The relative rate of a point that can be no reference: its own search ended with the highest load."""
    most = "" if most_fps is None else f" with {units.fps(most_fps)}, the most that was offered"
    return _no_ratio(f"the engine cannot overload it{most}")


def _no_ratio(why: str) -> Metric:
    return Metric(RELATIVE, UNIT, 0.0, note=why, bound=Bound.REFUSED)


def relative_metrics(stretches: Sequence[Stretch], reference: str, needs_interval: bool = False) -> tuple[Metric, ...]:
    """The ratio of B, a point, to A, its reference, and what the point forwarded; with a note where there is no ratio.

    What slices measure is the rate forwarded under overload, so that this is what the ratio is of. Where the engine
    could overload the reference but not the point, it is a bound: the point forwards as much at least.
    `needs_interval`: there is no ratio either where too few slices could be used for an interval.
    """
    measured = counted(stretches)
    if not any(stretch.slices for stretch in measured):
        return (_no_ratio("no slice was measured"),)
    why_a, why_b = (_why_not_overloaded(measured, side, reference) for side in SIDES)
    is_bound = bool(why_b) and not why_a
    duet = compare_slices(stretches, carried="B" if is_bound else "")
    if why := why_a or why_refused(duet.summary):
        return (_no_ratio(why),)
    assert duet.difference is not None  # else every slice was discarded, which has a reason
    if needs_interval and duet.difference.level is None:
        return (_no_ratio(interval_of(duet)),)
    cost = _thaw_cost(measured)
    ratio = _widened(duet.difference, cost)
    note = f"{interval_of(duet)}, widened by {units.share(abs(cost))} for the cost of a thaw"
    note += f"; of the {FORWARDED}, relative to {reference}"
    rate = rate_metric(duet.quads, "B")
    if not is_bound:
        return Metric(RELATIVE, UNIT, *ratio.figures, note), rate
    at_least = Metric(RELATIVE, UNIT, ratio.low, ratio.low, None, f"{why_b}; {note}", Bound.AT_LEAST)
    return at_least, replace(rate, high=None, bound=Bound.AT_LEAST)


def _widened(ratio: PairedDifference, cost: float) -> PairedDifference:
    """The ratio with what a thaw may have cost in its interval."""
    return ratio.widened(-min(0.0, cost), max(0.0, cost))


def _thaw_cost(measured: Sequence[Stretch]) -> float:
    """By which share the ratio of B to A may be too low, because a thaw costs B more than A; negative: too high.

    The bench whose tables are larger finds less of them in the caches. Half of the parts follow a thaw.
    """
    a, b = (loss_after_thaw(measured, side) or 0.0 for side in SIDES)
    return math.sqrt((1 - a) / (1 - b)) - 1


def is_enough(stretches: Sequence[Stretch]) -> bool:
    """Whether more slices would be wasted: the interval is narrow, enough could be used, or the ratio is surely none,
    since the reference cannot be overloaded, or only a bound, since the point cannot.
    """
    measured = counted(stretches)
    if not any(stretch.slices for stretch in measured):
        return False
    if surely_not_overloaded(measured, "A"):
        return True
    is_bound = surely_not_overloaded(measured, "B")
    duet = compare_slices(stretches, carried="B" if is_bound else "")
    if math.fsum(quad.length_s for quad in duet.quads) >= MOST_USED_S:
        return True
    if duet.difference is None or duet.difference.level is None:
        return False
    ratio = _widened(duet.difference, _thaw_cost(measured))
    return is_bound or max(ratio.high - ratio.value, ratio.value - ratio.low) <= NARROW * ratio.value


def surely_not_overloaded(stretches: Sequence[Stretch], side: str) -> bool:
    """Whether the engine could not overload the bench in more slices than chance explains, and a ratio bears."""
    share, number = _without_overload(counted(stretches), side)
    return number > 0 and share - NORMAL * math.sqrt(share * (1 - share) / number) > MOST_NOT_OVERLOADED


def why_hopeless(stretches: Sequence[Stretch]) -> str:
    """Why more slices would give no ratio of two benches either; empty if they may."""
    measured = counted(stretches)
    if any(surely_not_overloaded(measured, side) for side in SIDES):
        return why_refused(compare_slices(stretches).summary)
    if sum(map(duets.length_of, measured)) < LEAST_TRIED_S:
        return ""
    summary = compare_slices(stretches).summary
    is_poor = summary.used < LEAST_USED * summary.slices
    return f"{summary.used:,} of {summary.slices:,} slices could be used ({_reasons(summary)})" if is_poor else ""


def _without_overload(measured: Sequence[Stretch], side: str) -> tuple[float, int]:
    """(share of the slices of a bench in which it was not overloaded, how many could have been)."""
    every = [part for stretch in measured for part in in_parts(stretch) if part.side == side]
    reasons = [reason for part in every for reason in part.reasons if reason in ("", NOT_OVERLOADED)]
    return reasons.count(NOT_OVERLOADED) / max(1, len(reasons)), len(reasons)


def _why_not_overloaded(measured: Sequence[Stretch], side: str, reference: str) -> str:
    """That the engine could not overload one of the two, and how much it offered; empty if it did."""
    share, _ = _without_overload(measured, side)
    if share <= MOST_NOT_OVERLOADED:
        return ""
    name = f"its reference {reference}" if side == "A" else "it"
    own = (part for stretch in measured for part in stretch.slices if part.side == side and part.length_s)
    offered = f"all that was offered ({units.fps(median(part.offered / part.length_s for part in own))})"
    return f"the engine could not overload {name}, which forwarded {offered} in {units.share(share)} of its slices"
