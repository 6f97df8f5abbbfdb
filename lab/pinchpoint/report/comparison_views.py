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


def places(found: Differences) -> Iterator[tuple[str, tuple[Difference, ...]]]:
    """What differs, by where it was found; places without a difference are left out."""
    for name, words in _PLACES:
        if differing := getattr(found, name):
            yield words, differing


def nothing_differs(found: Differences) -> bool:
    """Whether no difference between the benches is known."""
    return not any(True for _ in places(found))


def answers(found: Comparison) -> Iterator[str]:
    """What every judged metric says, or why it says nothing."""
    for part in found.scenarios:
        where = f"{part.a}: " if len(found.scenarios) > 1 else ""
        yield from (f"{where}{one.metric}: {one.sentence}" for one in part.metrics if one.judged)


def method(found: Comparison) -> str:
    """How it was measured, in one sentence."""
    if found.kind is ComparisonKind.UNPAIRED:
        return (
            "Two stored runs, unpaired: the intervals of both are combined at their worst ends, and whatever "
            "changed on the host between the runs is part of every difference"
        )
    if found.kind is ComparisonKind.DUET:
        return (
            "Measured as a duet: both benches stood at once, and one engine overloaded them in alternating slices "
            "(A B B A ...); neighbours are compared by Wilcoxon's signed ranks"
        )
    if found.kind is ComparisonKind.TRIALS:
        trials = "Measured by alternating trials (A B, B A ...) of both benches, which stood at once"
        return f"{trials}. Not as a duet: {found.why}" if found.why else trials
    turns = (
        "Measured in turns (A B B A ...), each time on a bench built anew; neighbours are compared by "
        "Wilcoxon's signed ranks, with a fixed number of pairs"
    )
    return f"{turns}. Not as a duet: {found.why}" if found.why else turns


def duet_lines(found: DuetSummary) -> tuple[str, ...]:
    """How the slices were cut, how many were used, and what freezing cost."""
    cut, thaw = found.slicing, found.thaw
    lost = sum(found.discarded.values())
    row = f"{cut.in_a_row} slices" if cut.in_a_row > 1 else "slices"
    warming = f" and the first {cut.warming} are not compared" if cut.warming else ""
    lines = [
        f"{row} of {units.seconds(cut.length_s)}, of which {units.seconds(cut.settle_s + cut.discard_s)} are "
        f"not counted{warming} after each change of the bench; {units.fps(found.load_fps)} offered",
        f"{found.used:,} of {found.slices:,} slices used in {found.quads_used:,} quads, {lost:,} discarded",
    ]
    costs = {
        "freezing one switch and thawing the other took": thaw.switch_s and units.seconds(thaw.switch_s),
        "right after a thaw a switch forwarded less by": _percent(thaw.early_loss),
        "in what is counted by": _percent(thaw.residual_loss),
    }
    lines += [", ".join(f"{what} {value}" for what, value in costs.items() if value)]
    return tuple(filter(None, lines))


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def difference_table(found: Differences, title: str) -> Table:
    """One row a difference: where and what, then A and B."""
    rows = [(f"{place}: {one.what}", one) for place, differing in places(found) for one in differing]
    return Table(
        (
            column("what", title, (what for what, _ in rows), is_number=False),
            column("a", "A", (_shortened(one.a) for _, one in rows), is_number=False),
            column("b", "B", (_shortened(one.b) for _, one in rows), is_number=False),
        )
    )


def metric_table(metrics: Sequence[MetricComparison]) -> Table:
    """One row a metric: both numbers and their ratio with their intervals, and what it says."""
    said = (Cell(one.sentence, mark=grade(one)) if one.judged else Cell("not judged", mark="dim") for one in metrics)
    dim = ["" if one.judged else "dim" for one in metrics]
    marked = list(zip(metrics, dim, strict=True))
    return Table(
        (
            Column(
                "metric",
                "metric",
                tuple(Cell(one.metric, one.mode, mark or "strong") for one, mark in marked),
                is_number=False,
            ),
            Column("a", "A", tuple(_cell(one.a, mark) for one, mark in marked)),
            Column("b", "B", tuple(_cell(one.b, mark) for one, mark in marked)),
            Column("ratio", "B / A", tuple(_ratio(one, mark) for one, mark in marked)),
            Column("sentence", "what it says", tuple(said), is_number=False),
        )
    )


def _ratio(one: MetricComparison, mark: str) -> Cell:
    spread = "" if one.low is None or one.high is None else f"{one.low:.4f} .. {one.high:.4f}"
    return Cell(SAME_NUMBER if one.ratio is None else f"{one.ratio:.4f}", spread, mark)


def _shortened(text: str) -> str:
    """A value that fits a table's cell."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def _cell(found: Estimate | None, mark: str) -> Cell:
    if found is None:
        return Cell(ABSENT, mark=mark)
    whole = found.low is not None and found.high is not None
    spread = units.quantity_range(found.low or 0.0, found.high or 0.0, found.unit) if whole else ""
    return Cell(units.quantity(found.value, found.unit), spread, mark)


def grade(one: MetricComparison) -> str:
    """How what it says is to be marked: "good", "bad", "mind" or not at all."""
    if one.decision in (Decision.REFUSED, Decision.TOO_FEW):
        return "mind"
    return {True: "good", False: "bad", None: ""}[one.better]
