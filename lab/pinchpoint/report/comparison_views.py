"""How comparisons are put into words, the same on the page and in the terminal."""

from collections.abc import Iterator, Sequence

from pinchpoint.model import units
from pinchpoint.model.comparison import Comparison, ComparisonKind, Decision, Difference, Differences, MetricComparison
from pinchpoint.model.duet import DuetSummary
from pinchpoint.model.study import Estimate
from pinchpoint.report.tables import ABSENT, Cell, Column, Table, column

SAME_NUMBER = "no ratio"
LONGEST = 160  # characters of a value in a table

_PLACES = (
    ("scenario", "scenario keys"),
    ("in_force", "settings in force"),
    ("versions", "versions"),
    ("host", "host"),
)


def places(differences: Differences) -> Iterator[tuple[str, tuple[Difference, ...]]]:
    """What differs, by where it was found; places without a difference are left out."""
    for name, words in _PLACES:
        if differing := getattr(differences, name):
            yield words, differing


def nothing_differs(differences: Differences) -> bool:
    """Whether no difference between the benches is known."""
    return not any(True for _ in places(differences))


def answers(comparison: Comparison) -> Iterator[str]:
    """What every judged metric says, or why it says nothing."""
    for part in comparison.scenarios:
        where = f"{part.a}: " if len(comparison.scenarios) > 1 else ""
        yield from (f"{where}{metric.metric}: {metric.sentence}" for metric in part.metrics if metric.judged)


def method(comparison: Comparison) -> str:
    """How it was measured, in one sentence."""
    if comparison.kind is ComparisonKind.UNPAIRED:
        return (
            "Two stored runs, unpaired: the intervals of both are combined at their worst ends, and whatever "
            "changed on the host between the runs is part of every difference"
        )
    if comparison.kind is ComparisonKind.DUET:
        return (
            "Measured as a duet: both benches stood at once, and one engine overloaded them in alternating slices "
            "(A B B A ...); neighbours are compared by Wilcoxon's signed ranks"
        )
    if comparison.kind is ComparisonKind.TRIALS:
        trials = "Measured by alternating trials (A B, B A ...) of both benches, which stood at once"
        return f"{trials}. Not as a duet: {comparison.why}" if comparison.why else trials
    turns = (
        "Measured in turns (A B B A ...), each time on a bench built anew; neighbours are compared by "
        "Wilcoxon's signed ranks, with a fixed number of pairs"
    )
    return f"{turns}. Not as a duet: {comparison.why}" if comparison.why else turns


def duet_lines(duet: DuetSummary) -> tuple[str, ...]:
    """How the slices were cut, how many were used, and what freezing cost."""
    cut, thaw = duet.slicing, duet.thaw
    lost = sum(duet.discarded.values())
    row = f"{cut.in_a_row} slices" if cut.in_a_row > 1 else "slices"
    warming = f" and the first {cut.warming} are not compared" if cut.warming else ""
    lines = [
        f"{row} of {units.seconds(cut.length_s)}, of which {units.seconds(cut.settle_s + cut.discard_s)} are "
        f"not counted{warming} after each change of the bench; {units.fps(duet.load_fps)} offered",
        f"{duet.used:,} of {duet.slices:,} slices used in {duet.quads_used:,} quads, {lost:,} discarded",
    ]
    costs = {
        "switching benches took": thaw.switch_s and units.seconds(thaw.switch_s),
        "lowers the rate right after a thaw by": _percent(thaw.early_loss),
        "lowers the counted rate by": _percent(thaw.residual_loss),
    }
    lines += [", ".join(f"{what} {value}" for what, value in costs.items() if value)]
    return tuple(filter(None, lines))


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def difference_table(differences: Differences, title: str) -> Table:
    """One row a difference: where and what, then A and B."""
    rows = [
        (f"{place}: {difference.what}", difference)
        for place, differing in places(differences)
        for difference in differing
    ]
    return Table(
        (
            column("what", title, (what for what, _ in rows), is_number=False),
            column("a", "A", (_shortened(difference.a) for _, difference in rows), is_number=False),
            column("b", "B", (_shortened(difference.b) for _, difference in rows), is_number=False),
        )
    )


def metric_table(metrics: Sequence[MetricComparison]) -> Table:
    """One row a metric: both numbers and their ratio with their intervals, and what it says."""
    said = (
        Cell(metric.sentence, mark=grade(metric)) if metric.judged else Cell("not judged", mark="dim")
        for metric in metrics
    )
    dim = ["" if metric.judged else "dim" for metric in metrics]
    marked = list(zip(metrics, dim, strict=True))
    return Table(
        (
            Column(
                "metric",
                "metric",
                tuple(Cell(metric.metric, metric.mode, mark or "strong") for metric, mark in marked),
                is_number=False,
            ),
            Column("a", "A", tuple(_cell(metric.a, mark) for metric, mark in marked)),
            Column("b", "B", tuple(_cell(metric.b, mark) for metric, mark in marked)),
            Column("ratio", "B / A", tuple(_ratio(metric, mark) for metric, mark in marked)),
            Column("sentence", "what it says", tuple(said), is_number=False),
        )
    )


def _ratio(metric: MetricComparison, mark: str) -> Cell:
    spread = "" if metric.low is None or metric.high is None else f"{metric.low:.4f} .. {metric.high:.4f}"
    return Cell(SAME_NUMBER if metric.ratio is None else f"{metric.ratio:.4f}", spread, mark)


def _shortened(text: str) -> str:
    """A value that fits a table's cell."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def _cell(estimate: Estimate | None, mark: str) -> Cell:
    if estimate is None:
        return Cell(ABSENT, mark=mark)
    whole = estimate.low is not None and estimate.high is not None
    spread = units.quantity_range(estimate.low or 0.0, estimate.high or 0.0, estimate.unit) if whole else ""
    return Cell(units.quantity(estimate.value, estimate.unit), spread, mark)


def grade(metric: MetricComparison) -> str:
    """How what it says is to be marked: "good", "bad", "mind" or not at all."""
    if metric.decision in (Decision.REFUSED, Decision.TOO_FEW):
        return "mind"
    return {True: "good", False: "bad", None: ""}[metric.better]
