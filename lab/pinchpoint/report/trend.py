"""Trends for people and for continuous integration: a table, a line of bars, JUnit's XML; pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from xml.etree import ElementTree

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pinchpoint.model import units
from pinchpoint.model.comparison import Trend, TrendChange, TrendSegment
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import Interval
from pinchpoint.report import plot
from pinchpoint.report.plot import Figure
from pinchpoint.report.tables import ABSENT, Cell, table_of
from pinchpoint.report.terminal import draw

_BARS = "▁▂▃▄▅▆▇█"
_BETWEEN = "│"  # levels
_MOST_BARS = 120  # the newest runs
# XML 1.0 knows no other control characters than tab, line feed and carriage return.
_NO_XML = {code: "�" for code in (*range(0x20), 0x7F, 0xFFFE, 0xFFFF) if chr(code) not in "\t\n\r"}


def render_trends(trends: Sequence[Trend], bars: bool) -> Group:
    """A table with one row a metric, then what to mind; `bars` adds a line of the runs' values to each."""
    rows, notes = list[tuple[str | Cell, ...]](), list[RenderableType]()
    for trend in trends:
        level = _level(trend.segments[-1], trend.unit) if trend.segments else ABSENT
        mark = "bad" if trend.worse else "good" if trend.changes else ""
        rows.append((trend.scenario, trend.metric, str(len(trend.runs)), level, Cell(headline(trend), mark=mark)))
        lines = [*([sparkline(trend)] if bars and trend.runs else []), *details(trend)]
        if lines:
            title = Text(f"{trend.scenario}, {trend.metric}:", style="bold")
            notes.append(Padding(Group(title, *map(Text, lines)), (0, 0, 1, 1)))
    headings = {name: name for name in ("scenario", "metric", "runs", "level now", "trend")}
    return Group(draw(table_of(headings, rows, words=("scenario", "metric", "level now", "trend"))), *notes)


def headline(trend: Trend) -> str:
    """What the trend says, in a line."""
    if trend.too_few:
        return f"too few runs to tell a change from chance: {len(trend.runs)} of {trend.fewest}"
    if not trend.changes:
        return f"no change over {len(trend.runs)} runs"
    last = trend.changes[-1]
    return f"{'worse' if last.worse else 'better'} since {_time(last.started)}: {_by(last)} ({last.run_id})"


def details(trend: Trend) -> Iterator[str]:
    """What the numbers are, every change with what changed there, changes of the bench alone, and runs left out."""
    if trend.segments:
        yield f"now {_level(trend.segments[-1], trend.unit)}: {trend.segments[-1].interval}"
    if trend.definition:
        yield f"{trend.metric}: {trend.definition}"
    for change, (old, new) in zip(trend.changes, pairwise(trend.segments), strict=True):
        levels = f"{units.quantity(old.value, trend.unit)} to {units.quantity(new.value, trend.unit)}"
        there = "; ".join(change.changed) or "no recorded fact of host, versions and cores"
        yield f"{_time(change.started)} {change.run_id}: {levels} ({_by(change)}); changed there: {there}"
    at = {change.run_id for change in trend.changes}
    for run in trend.runs:
        if run.changed and run.run_id not in at:
            yield f"{_time(run.started)} {run.run_id}: same level; changed there: {'; '.join(run.changed)}"
    by_reason = grouped((reason, name) for name, _, reason in (run.partition(": ") for run in trend.left_out))
    for reason, names in sorted(by_reason.items()):
        yield f"not compared: {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}"


def _time(started: str) -> str:
    """To the minute, e.g. `2026-01-02 03:04`."""
    return started[:16].replace("T", " ")


def _by(change: TrendChange) -> str:
    return "from 0" if change.ratio is None else f"{(change.ratio - 1) * 100:+.1f} %"


def _level(segment: TrendSegment, unit: str) -> str:
    spread = f" ({units.quantity_range(segment.low, segment.high, unit)})" if segment.high > segment.low else ""
    return units.quantity(segment.value, unit) + spread


def sparkline(trend: Trend) -> str:
    """One bar a run from the lowest to the highest value, a rule between levels."""
    first = max(0, len(trend.runs) - _MOST_BARS)
    values = [run.value for run in trend.runs[first:]]
    low, high = min(values), max(values)
    starts = {segment.first for segment in trend.segments[1:]}
    bars = ""
    for number, value in enumerate(values, first):
        share = (value - low) / (high - low) if high > low else 0.5
        bars += _BETWEEN if number in starts and number > first else ""
        bars += _BARS[round(share * (len(_BARS) - 1))]
    ends = units.quantity_range(low, high, trend.unit) if high > low else units.quantity(high, trend.unit)
    return f"{bars}  {ends}"


@dataclass(frozen=True)
class Case:
    """A test case of JUnit's: one metric of one scenario."""

    scenario: str
    metric: str
    text: str
    fault: str = ""  # "failure", "error" or "skipped"; empty: none
    message: str = ""  # of the fault
    kind: str = ""  # of a failure or an error
    attributes: Mapping[str, str] = field(default_factory=dict)


def junit(program: str, suites: Mapping[str, Sequence[Case]], took_s: float | None = None) -> str:
    """JUnit's XML: a suite of test cases for each name; `took_s`: seconds that each took, None: not known."""
    root = ElementTree.Element("testsuites", name=program)
    for name, cases in suites.items():
        faults = Counter(case.fault for case in cases)
        counts = {"failures": faults["failure"], "errors": faults["error"], "skipped": faults["skipped"]}
        told = {key: str(count) for key, count in {"tests": len(cases), **counts}.items()}
        time = {} if took_s is None else {"time": f"{took_s:.1f}"}
        suite = ElementTree.SubElement(root, "testsuite", {"name": _xml_text(name), **told, **time})
        for case in cases:
            names = {"classname": _xml_text(case.scenario), "name": _xml_text(case.metric)}
            element = ElementTree.SubElement(suite, "testcase", {**names, **case.attributes})
            fault = {"message": _xml_text(case.message), **({"type": case.kind} if case.kind else {})}
            outcome = ElementTree.SubElement(element, case.fault or "system-out", fault if case.fault else {})
            if case.fault != "skipped":
                outcome.text = _xml_text(case.text)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def render_junit(measured: Iterable[Trend]) -> str:
    """JUnit's XML: a suite for each scenario, a test case for each metric; one that got worse is a failure."""
    return junit("pinchpoint trend", grouped((trend.scenario, _case(trend)) for trend in measured))


def _case(trend: Trend) -> Case:
    fault, kind = ("failure", "worse") if trend.worse else ("skipped" if trend.too_few else "", "")
    text = "\n".join((headline(trend), *details(trend)))
    return Case(trend.scenario, trend.metric, text, fault, headline(trend), kind, {"time": "0"})


def _xml_text(text: str) -> str:
    """Text without the characters that XML 1.0 does not know."""
    return text.translate(_NO_XML)


def trend_figure(trend: Trend) -> Figure | None:
    """x: number of the run, in the order of their start; y: the metric. None without runs.

    A dot is a run with its own interval, a line the level of a segment with its interval, a dotted line a change.
    """
    if not trend.runs:
        return None
    y = plot.value_axis(trend.unit, [run.value for run in trend.runs])
    points = list[plot.Point]()
    for number, run in enumerate(trend.runs, 1):
        told = (run.run_id, run.started, units.quantity(run.value, trend.unit))
        points.append((number, run.value / y.divisor, "<br>".join(map(escape, told))))
    bars = plot.error_bars([Interval.of(run) / y.divisor for run in trend.runs], "@shade1")
    runs = plot.markers(trend.metric, points, {"size": 8, "color": "@accent"}, error_y=bars)
    shapes = [shape for segment in trend.segments for shape in _level_shapes(segment, y.divisor)]
    shapes += [plot.line_at("x", segment.first + 0.5, "@bad", dash="dot") for segment in trend.segments[1:]]
    x = plot.axis("run, in the order of their start", rangemode="tozero")
    title = f"{trend.metric}, {y.label}".rstrip(", ")
    return plot.figure([runs], 360, 18, x, plot.axis(title), showlegend=False, shapes=shapes)


def _level_shapes(segment: TrendSegment, divisor: float) -> list[Figure]:
    low, value, high = (end / divisor for end in (segment.low, segment.value, segment.high))
    across = {"x0": segment.first + 0.6, "x1": segment.end + 0.4, "layer": "below"}
    band = {"type": "rect", "y0": low, "y1": high, "fillcolor": "@second", "opacity": 0.2, "line": {"width": 0}}
    line = {"type": "line", "y0": value, "y1": value, "line": {"color": "@second", "width": 2}}
    return [band | across, line | across]
