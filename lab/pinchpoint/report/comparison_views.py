"""How comparisons are put into words, the same on the page and in the terminal."""

from collections.abc import Iterator
from dataclasses import dataclass

from pinchpoint.model import units
from pinchpoint.model.comparison import Comparison, ComparisonKind, Decision, Difference, Differences, MetricComparison
from pinchpoint.model.duet import DuetSummary
from pinchpoint.model.study import Estimate

SAME_NUMBER = "no ratio"
LONGEST = 160  # characters of a value in a table

_PLACES = (
    ("scenario", "scenario keys"),
    ("in_force", "settings in force"),
    ("versions", "versions"),
    ("host", "host"),
)


@dataclass(frozen=True)
class Row:
    """One metric as it stands in a table."""

    metric: str
    mode: str
    a: str
    a_spread: str
    b: str
    b_spread: str
    ratio: str
    ratio_spread: str
    sentence: str
    grade: str  # "good", "bad", "mind" or "": how the sentence is to be marked


def places(found: Differences) -> Iterator[tuple[str, tuple[Difference, ...]]]:
    """What differs, by where it was found; places without a difference are left out."""
    for name, words in _PLACES:
        if differing := getattr(found, name):
            yield words, differing


def nothing_differs(found: Differences) -> bool:
    """Whether no difference between the benches is known."""
    return not any(True for _ in places(found))


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


def row(one: MetricComparison) -> Row:
    """A metric's numbers as texts."""
    spread = "" if one.low is None or one.high is None else f"{one.low:.4f} .. {one.high:.4f}"
    return Row(
        metric=one.metric,
        mode=one.mode,
        a=_value(one.a),
        a_spread=_spread(one.a),
        b=_value(one.b),
        b_spread=_spread(one.b),
        ratio=SAME_NUMBER if one.ratio is None else f"{one.ratio:.4f}",
        ratio_spread=spread,
        sentence=one.sentence,
        grade=_grade(one),
    )


def shortened(text: str) -> str:
    """A value that fits a table's cell."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def _value(found: Estimate | None) -> str:
    return "-" if found is None else units.quantity(found.value, found.unit)


def _spread(found: Estimate | None) -> str:
    if found is None or found.low is None or found.high is None:
        return ""
    return units.quantity_range(found.low, found.high, found.unit)


def _grade(one: MetricComparison) -> str:
    if one.decision in (Decision.REFUSED, Decision.TOO_FEW):
        return "mind"
    return {True: "good", False: "bad", None: ""}[one.better]
