"""A comparison out of alternating slices: the ratio with its interval, rates over time, what was discarded; pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from pinchpoint.findings import comparing
from pinchpoint.model import units
from pinchpoint.model.comparison import Comparison, ComparisonKind, Decision, HoldsFor, MetricComparison
from pinchpoint.model.duet import FORWARDED, MEASURED, DuetSummary, Stretch
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import RunInfo, RunResult
from pinchpoint.model.study import Estimate
from pinchpoint.stats.duet import NOT_OVERLOADED, NOTHING, TOO_SHORT, Duet, Quad, compare_slices
from pinchpoint.stats.paired import fewest_pairs

BAND = (0.05, 0.95)  # of the time
MOST_NOT_OVERLOADED = 0.05  # of the slices: more would leave out the moments in which a bench is fast


def of_duet(info: RunInfo, result: RunResult, stretches: Sequence[Stretch]) -> Comparison:
    """Of a run that measured two benches in alternating slices, as far as it got."""
    request = info.comparison
    assert request is not None
    measured = [stretch for stretch in stretches if stretch.phase == MEASURED and stretch.slices]
    duet = compare_slices(stretches) if measured else None
    warnings = {warning: None for scenario in result.scenarios for warning in scenario.warnings}
    notes = (*warnings, *(_notes(duet.summary) if duet else ()))
    metrics = (_metric(duet, request.margin),)
    return comparing.of_two_benches(info, result, ComparisonKind.DUET, metrics, notes, duet.summary if duet else None)


def _metric(duet: Duet | None, margin: float | None) -> MetricComparison:
    base = MetricComparison(FORWARDED, "fps", True, Decision.REFUSED, "not compared: no slice was measured")
    if duet is None:
        return base
    if why := why_refused(duet.summary):
        return replace(base, sentence=f"not compared: {why}")
    ratio = duet.difference
    assert ratio is not None  # else every slice was discarded, which has a reason
    base = replace(
        base,
        a=over_time([quad.a_fps for quad in duet.quads]),
        b=over_time([quad.b_fps for quad in duet.quads]),
        n=len(duet.quads),
        method=interval_of(duet),
    )
    return comparing.with_ratio(base, ratio, holds_for(duet.summary.benches), margin, of="quad")


def holds_for(builds: int) -> HoldsFor:
    """What an interval is for that was made over so many builds of both benches."""
    return HoldsFor.NEXT_BUILD if builds >= fewest_pairs() else HoldsFor.BENCHES


def why_refused(summary: DuetSummary) -> str:
    """Why there is no ratio, or none that may be reported; empty if there is one."""
    slow, slices = summary.discarded.get(NOT_OVERLOADED, 0), summary.slices - summary.discarded.get(TOO_SHORT, 0)
    if slices and slow > MOST_NOT_OVERLOADED * slices:
        share = units.share(slow / slices)
        return f"the engine could not overload the devices in {share} of the slices: they may forward more than that"
    if summary.quads_used:
        return ""
    if summary.discarded.get(NOTHING, 0) >= slices / 2:  # of one bench all of them
        return "A or B forwarded nothing"
    return f"every slice was discarded ({reasons(summary)})"


def interval_of(duet: Duet) -> str:
    """What the interval of the ratio is, in words. The duet has a ratio."""
    ratio = duet.difference
    assert ratio is not None
    several = holds_for(duet.summary.benches) is HoldsFor.NEXT_BUILD
    blocks = f"{len(duet.blocks)} times two benches" if several else units.counted(len(duet.blocks), "block")
    if ratio.confidence is None:
        return f"range of {blocks} of {len(duet.quads):,} quads; an interval at 95 % needs {fewest_pairs()}"
    return f"95 %, Wilcoxon's signed ranks over {blocks} of {len(duet.quads):,} quads A B B A"


def over_time(rates_fps: Sequence[float]) -> Estimate:
    """The median of momentary rates, and between which two they lay for most of the time. At least one."""
    ranked = sorted(rates_fps)
    low, high = (ranked[round(share * (len(ranked) - 1))] for share in BAND)
    words = f"{BAND[0] * 100:g} % to {BAND[1] * 100:g} % of the time"
    return Estimate("fps", median(ranked), low, high, len(ranked), words)


def rate_metric(quads: Sequence[Quad], side: str) -> Metric:
    """The same as a figure of one bench."""
    interval = over_time([quad.a_fps if side == "A" else quad.b_fps for quad in quads])
    return Metric(FORWARDED, interval.unit, interval.value, interval.low, interval.high, interval.interval)


def reasons(summary: DuetSummary) -> str:
    """Why slices were discarded, with their numbers."""
    return "; ".join(f"{reason}: {count:,}" for reason, count in summary.discarded.items())


def _notes(summary: DuetSummary) -> Iterator[str]:
    if lost := sum(summary.discarded.values()):
        share = units.share(lost / summary.slices)
        yield f"{lost:,} of {summary.slices:,} slices ({share}) are not used: {reasons(summary)}"
    if summary.benches < fewest_pairs():
        yield (
            "the interval is for these two benches: two that are built anew from one file differ by some per cent, "
            f"which --benches {fewest_pairs()} or more includes"
        )
    yield f"compared is the {FORWARDED}, not the loss-free rate: `--metric NDR` compares that in turns"
    yield "cycles per packet are unknown: the clock of a frozen thread runs on"
