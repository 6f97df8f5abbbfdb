"""A comparison in words and tables, the same on the page and in the terminal; and the page, with its plots."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.comparison import Comparison, ComparisonKind, Decision, Difference, Differences, MetricComparison
from pinchpoint.model.duet import DuetSummary
from pinchpoint.model.measurement import Estimate, Interval
from pinchpoint.report import plot
from pinchpoint.report.page import filled
from pinchpoint.report.plot import Figure
from pinchpoint.report.tables import ABSENT, Cell, Table, table_of

LONGEST: Final = 160  # characters of a value in a table
_PLACES: Final = {"scenario": "scenario keys", "in_force": "settings in force", "versions": "versions", "host": "host"}
_METHODS: Final = {
    ComparisonKind.UNPAIRED: "Two stored runs, unpaired: the intervals of both are combined at their worst ends, and "
    "whatever changed on the host between the runs is part of every difference",
    ComparisonKind.DUET: "Measured as a duet: both benches stood at once, and one engine overloaded them in "
    "alternating slices (A B B A ...); neighbours are compared by Wilcoxon's signed ranks",
    ComparisonKind.TRIALS: "Measured by alternating trials (A B, B A ...) of both benches, which stood at once",
    ComparisonKind.PAIRED: "Measured in turns (A B B A ...), each time on a newly built bench; neighbours are compared "
    "by Wilcoxon's signed ranks, with a fixed number of pairs",
}
_MOST_BARS: Final = 60  # ratios in one figure
_COLOURS: Final = {"A": "@s0", "B": "@s1"}
_SYMBOLS: Final = {"A": "circle", "B": "diamond"}
_CHANGE: Final = "B / A - 1, %"


def places(differences: Differences) -> list[tuple[str, tuple[Difference, ...]]]:
    """What differs, by where it was found; places without a difference are left out."""
    return [(told, differing) for name, told in _PLACES.items() if (differing := getattr(differences, name))]


def answers(comparison: Comparison) -> Iterator[str]:
    """What every judged metric says, or why it says nothing."""
    for part in comparison.scenarios:
        where = f"{part.a}: " if len(comparison.scenarios) > 1 else ""
        yield from (f"{where}{metric.metric}: {metric.sentence}" for metric in part.metrics if metric.judged)


def method(comparison: Comparison) -> str:
    """How it was measured, in one sentence."""
    is_second_choice = comparison.why and comparison.kind in (ComparisonKind.TRIALS, ComparisonKind.PAIRED)
    return _METHODS[comparison.kind] + (f". Not as a duet: {comparison.why}" if is_second_choice else "")


def duet_lines(duet: DuetSummary) -> tuple[str, ...]:
    """How the slices were cut, how many were used, and what freezing cost."""
    cut, thaw = duet.slicing, duet.thaw
    row = f"{cut.in_a_row} slices" if cut.in_a_row > 1 else "slices"
    warming = f" and the first {cut.warming} are not compared" if cut.warming else ""
    costs = {
        "switching benches took": thaw.switch_s and units.seconds(thaw.switch_s),
        "lowers the rate right after a thaw by": _percent(thaw.early_loss),
        "lowers the counted rate by": _percent(thaw.residual_loss),
    }
    lines = (
        f"{row} of {units.seconds(cut.length_s)}, of which {units.seconds(cut.settle_s + cut.discard_s)} are "
        f"not counted{warming} after each change of the bench; {units.fps(duet.load_fps)} offered",
        f"{duet.used:,} of {duet.slices:,} slices used in {duet.quads_used:,} quads, "
        f"{sum(duet.discarded.values()):,} discarded",
        ", ".join(f"{what} {value}" for what, value in costs.items() if value),
    )
    return tuple(filter(None, lines))


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def difference_table(differences: Differences, title: str) -> Table:
    """One row a difference: where and what, then A and B."""
    rows = (
        (f"{place}: {difference.what}", _shortened(difference.a), _shortened(difference.b))
        for place, differing in places(differences)
        for difference in differing
    )
    return table_of({"what": title, "a": "A", "b": "B"}, rows, words=("what", "a", "b"))


def _shortened(text: str) -> str:
    """A value that fits a table's cell."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def metric_table(metrics: Sequence[MetricComparison]) -> Table:
    """One row a metric: both numbers and their ratio with their intervals, and what it says."""
    rows = []
    for metric in metrics:
        mark = "" if metric.judged else "dim"
        spread = f"{interval.low:.4f} .. {interval.high:.4f}" if (interval := metric.interval) else ""
        ratio = Cell("no ratio" if metric.ratio is None else f"{metric.ratio:.4f}", spread, mark)
        said = Cell(metric.sentence, mark=grade(metric)) if metric.judged else Cell("not judged", mark=mark)
        name = Cell(metric.metric, metric.mode, mark or "strong")
        rows.append((name, number_cell(metric.a, mark), number_cell(metric.b, mark), ratio, said))
    headings = {"metric": "metric", "a": "A", "b": "B", "ratio": "B / A", "sentence": "what it says"}
    return table_of(headings, rows, words=("metric", "sentence"))


def number_cell(estimate: Estimate | None, mark: str = "") -> Cell:
    """The number of one side with its interval."""
    if estimate is None:
        return Cell(ABSENT, mark=mark)
    spread = Interval.of(estimate).ends(estimate.unit)
    return Cell(units.quantity(estimate.value, estimate.unit), spread, mark)


def grade(metric: MetricComparison) -> str:
    """How what it says is to be marked: "good", "bad", "mind" or not at all."""
    if metric.decision in (Decision.REFUSED, Decision.TOO_FEW):
        return "mind"
    return {True: "good", False: "bad", None: ""}[metric.better]


def render_comparison(comparison: Comparison) -> str:
    """The whole page as text; every text from outside is escaped."""
    drawn, values = parts_of(comparison)
    return filled("comparison.html.j2", drawn, **values)


def parts_of(comparison: Comparison) -> tuple[list[Figure], dict[str, object]]:
    """The page's plots, each with the id of its element, and what its template takes."""
    drawn: list[Figure] = []
    sections = []
    for number, part in enumerate(comparison.scenarios, start=1):
        judged = [metric for metric in part.metrics if metric.judged]
        with_pairs = [metric for metric in judged if any(not pair.left_out for pair in metric.pairs)]
        figures = [(f"pairs-{number}-{place}", metric) for place, metric in enumerate(with_pairs)]
        drawn += [{"id": anchor, **pairs_figure(metric)} for anchor, metric in figures]
        if part.duet is not None and part.duet.series:
            drawn.append({"id": f"series-{number}", **series_figure(part.duet)})
        sections.append((part, metric_table(part.metrics), figures))
    asked = [(part.a, metric) for part in comparison.scenarios for metric in part.metrics if metric.judged]
    ratios = [(f"{name}: {metric.metric}", ratio) for name, metric in asked if (ratio := metric.interval)]
    if len(ratios) > 1:
        drawn.append({"id": "ratios", **ratios_figure(ratios[:_MOST_BARS])})
    common = comparison.differences.scenario
    return drawn, {
        "found": comparison,
        "sections": sections,
        "places": places(comparison.differences),
        "own_places": lambda part: [difference for difference in part.differences.scenario if difference not in common],
        "method": method(comparison),
        "grade": grade,
        "duet_lines": duet_lines,
        "forest": len(ratios) > 1,
    }


def pairs_figure(metric: MetricComparison) -> Figure:
    """The difference of each pair as a dot, the estimate as a line, its interval as a band.

    x: number of the pair, in the order of time; y: B / A - 1 in percent.
    """
    data = []
    for first in "AB":
        points = []
        for pair in (pair for pair in metric.pairs if not pair.left_out and pair.first == first):
            a, b = (escape(units.quantity(value, metric.unit)) for value in (pair.a, pair.b))
            points.append((pair.number, _change((pair.b or 0.0) / (pair.a or 1.0)), f"A {a}<br>B {b}"))
        marker = {"symbol": _SYMBOLS[first], "size": 9, "color": _COLOURS[first]}
        hover = "pair %{x}: %{y:.3f} %<br>%{text}<extra></extra>"
        data.append(plot.markers(f"{first} first", points, marker, hovertemplate=hover))
    shapes = [plot.line_at("y", 0.0, "@muted", dash="dot")]
    if ratio := metric.interval:
        shapes.append(plot.shaded("y", _change(ratio.low), _change(ratio.high), "@accent", 0.16))
        shapes.append(plot.line_at("y", _change(ratio.value), "@accent"))
    ends = [0.5, max(pair.number for pair in metric.pairs) + 0.5]
    x = plot.axis("pair, in the order of time", dtick=max(1, len(metric.pairs) // 12), range=ends)
    return plot.figure(data, 320, 18, x, plot.axis(_CHANGE), shapes=shapes)


def series_figure(duet: DuetSummary) -> Figure:
    """The rates of both benches over time, and their ratio moment by moment on an axis of its own.

    x: seconds of slices; y: forwarded frames per second of A and of B; y2: B / A - 1 in percent.
    """
    rates = {"A": [(point.at_s, point.a_fps) for point in duet.series],
             "B": [(point.at_s, point.b_fps) for point in duet.series]}  # fmt: skip
    data = [
        plot.line(
            side, rates[side], {"color": _COLOURS[side]}, mode="lines+markers",
            marker={"symbol": _SYMBOLS[side], "size": 6},
            hovertemplate=f"{side} at %{{x:.1f}} s: %{{y:.4s}} fps<extra></extra>",
        )
        for side in "AB"
    ]  # fmt: skip
    changes = [(point.at_s, _change(point.b_fps / point.a_fps), "") for point in duet.series]
    hover = "B / A - 1 at %{x:.1f} s: %{y:.2f} %<extra></extra>"
    marker = {"color": "@accent", "size": 6}
    data.append(plot.markers("B / A - 1", changes, marker, yaxis="y2", hovertemplate=hover))
    y = plot.axis("forwarded, fps", domain=[0.36, 1.0], rangemode="tozero")
    y2 = plot.axis(_CHANGE, domain=[0.0, 0.28])
    return plot.figure(data, 380, 18, plot.axis("seconds of slices"), y, yaxis2=y2)


def ratios_figure(ratios: Sequence[tuple[str, Interval]]) -> Figure:
    """Every judged ratio with its interval, one row each. x: B / A - 1 in percent; y: scenario and metric."""
    points = [(_change(ratio.value), escape(name), "") for name, ratio in ratios]
    bars = [Interval(_change(ratio.value), _change(ratio.low), _change(ratio.high)) for _, ratio in ratios]
    drawn = plot.markers("", points, {"size": 9, "color": "@accent"}, hovertemplate="%{y}: %{x:.3f} %<extra></extra>",
                         error_x=plot.error_bars(bars, "@accent", 2, 4))  # fmt: skip
    y = plot.axis(autorange="reversed", type="category")
    zero = plot.line_at("x", 0, "@muted", 1, "dot")
    return plot.figure([drawn], 140 + 26 * len(ratios), 12, plot.axis(_CHANGE), y, shapes=[zero])


def _change(ratio: float) -> float:
    return (ratio - 1) * 100
