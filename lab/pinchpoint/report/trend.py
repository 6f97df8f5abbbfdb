"""Trends for people and for continuous integration: a table, a line of bars, JUnit's XML; pure."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from xml.etree import ElementTree

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pinchpoint.model import units
from pinchpoint.model.comparison import Trend, TrendChange, TrendSegment
from pinchpoint.report.axes import value_axis
from pinchpoint.report.figures import Figure, error_bars, layout_of, markers

_BARS = "▁▂▃▄▅▆▇█"
_BETWEEN = "│"  # levels
_MOST_BARS = 120  # the newest runs
# XML 1.0 knows no other control characters than tab, line feed and carriage return.
_NO_XML = {code: "�" for code in (*range(0x20), 0x7F, 0xFFFE, 0xFFFF) if chr(code) not in "\t\n\r"}


def render_trends(trends: Sequence[Trend], bars: bool) -> Group:
    """A table with one row a metric, then what to mind; `bars` adds a line of the runs' values to each."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("scenario", overflow="fold")
    for name in ("metric", "runs", "level now"):
        table.add_column(name, justify="right" if name == "runs" else "left", no_wrap=True)
    table.add_column("trend", overflow="fold")
    parts: list[RenderableType] = [table]
    for trend in trends:
        style = "red bold" if trend.worse else "green" if trend.changes else ""
        level = _level(trend.segments[-1], trend.unit) if trend.segments else "-"
        table.add_row(
            Text(trend.scenario), Text(trend.metric), str(len(trend.runs)), Text(level), Text(headline(trend), style)
        )
        lines = [Text(line) for line in ([sparkline(trend)] if bars and trend.runs else []) + list(details(trend))]
        if lines:
            title = Text(f"{trend.scenario}, {trend.metric}:", style="bold")
            parts.append(Padding(Group(title, *lines), (0, 0, 1, 1)))
    return Group(*parts)


def headline(trend: Trend) -> str:
    """What the trend says, in a line."""
    if trend.too_few:
        return f"too few runs to tell a change from chance: {len(trend.runs)} of {trend.fewest}"
    if not trend.changes:
        return f"no change over {len(trend.runs)} runs"
    last = trend.changes[-1]
    return f"{'worse' if last.worse else 'better'} since {_when(last)}: {_by(last)} ({last.run_id})"


def details(trend: Trend) -> Iterator[str]:
    """What the numbers are, every change with what changed there, changes of the bench alone, and runs left out."""
    if trend.segments:
        yield f"now {_level(trend.segments[-1], trend.unit)}: {trend.segments[-1].interval}"
    if trend.definition:
        yield f"{trend.metric}: {trend.definition}"
    for change, old in zip(trend.changes, trend.segments, strict=False):
        new = trend.segments[trend.segments.index(old) + 1]
        levels = f"{units.quantity(old.value, trend.unit)} to {units.quantity(new.value, trend.unit)}"
        there = "; ".join(change.changed) or "nothing that is recorded of host, versions and cores"
        yield f"{_when(change)} {change.run_id}: {levels} ({_by(change)}); changed there: {there}"
    at = {change.run_id for change in trend.changes}
    for run in trend.runs:
        if run.changed and run.run_id not in at:
            yield f"{_time(run.started)} {run.run_id}: same level; changed there: {'; '.join(run.changed)}"
    for reason, lines in groupby(sorted(trend.left_out, key=_reason), key=_reason):
        names = [line.partition(": ")[0] for line in lines]
        yield f"not compared: {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}"


def _reason(left_out: str) -> str:
    return left_out.partition(": ")[2]


def _when(change: TrendChange) -> str:
    return _time(change.started)


def _time(started: str) -> str:
    """To the minute, e.g. `2026-01-02 03:04`."""
    return started[:16].replace("T", " ")


def _by(change: TrendChange) -> str:
    return "from 0" if change.ratio is None else f"{(change.ratio - 1) * 100:+.1f} %"


def _level(segment: TrendSegment, unit: str) -> str:
    spread = units.quantity_range(segment.low, segment.high, unit) if segment.high > segment.low else ""
    return units.quantity(segment.value, unit) + (f" ({spread})" if spread else "")


def sparkline(trend: Trend) -> str:
    """One bar a run from the lowest to the highest value, a rule between levels."""
    first = max(0, len(trend.runs) - _MOST_BARS)
    values = [run.value for run in trend.runs]
    low, high = min(values[first:]), max(values[first:])
    starts = {segment.first for segment in trend.segments[1:]}
    parts = []
    for number in range(first, len(values)):
        share = (values[number] - low) / (high - low) if high > low else 0.5
        parts.append((_BETWEEN if number in starts and number > first else "") + _BARS[round(share * (len(_BARS) - 1))])
    ends = units.quantity_range(low, high, trend.unit) if high > low else units.quantity(high, trend.unit)
    return f"{''.join(parts)}  {ends}"


def render_junit(measured: Iterable[Trend]) -> str:
    """JUnit's XML: a suite for each scenario, a test case for each metric; one that got worse is a failure."""
    root = ElementTree.Element("testsuites", name="pinchpoint trend")
    for scenario, group in groupby(measured, key=lambda trend: trend.scenario):
        trends = list(group)
        counts = {
            "name": xml_text(scenario),
            "tests": str(len(trends)),
            "failures": str(sum(trend.worse for trend in trends)),
            "errors": "0",
            "skipped": str(sum(trend.too_few for trend in trends)),
        }
        suite = ElementTree.SubElement(root, "testsuite", counts)
        for trend in trends:
            _case(suite, trend)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, trend: Trend) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=xml_text(trend.scenario), name=xml_text(trend.metric), time="0"
    )
    text = xml_text("\n".join((headline(trend), *details(trend))))
    if trend.worse:
        ElementTree.SubElement(case, "failure", message=xml_text(headline(trend)), type="worse").text = text
    elif trend.too_few:
        ElementTree.SubElement(case, "skipped", message=xml_text(headline(trend)))
    else:
        ElementTree.SubElement(case, "system-out").text = text


def xml_text(text: str) -> str:
    """Text without the characters that XML 1.0 does not know."""
    return text.translate(_NO_XML)


def trend_figure(trend: Trend) -> Figure | None:
    """x: number of the run, in the order of their start; y: the metric. None without runs.

    A dot is a run with its own interval, a line the level of a segment with its interval, a dotted line a change.
    """
    if not trend.runs:
        return None
    values = [run.value for run in trend.runs]
    y = value_axis(trend.unit, values)
    texts = [
        f"{escape(run.run_id)}<br>{escape(run.started)}<br>{escape(units.quantity(run.value, trend.unit))}"
        for run in trend.runs
    ]
    numbers = list(range(1, len(values) + 1))
    runs = markers(
        trend.metric, numbers, [value / y.divisor for value in values], texts, {"size": 8, "color": "@accent"}
    )
    ends = [
        tuple(end / y.divisor for end in (run.value, run.low or run.value, run.high or run.value)) for run in trend.runs
    ]
    bars = error_bars([(at, low, high) for at, low, high in ends], "@shade1")
    layout = layout_of(height=360, top=18)
    layout["xaxis"] |= {"title": {"text": "run, in the order of their start"}, "rangemode": "tozero"}
    layout["yaxis"] |= {"title": {"text": f"{trend.metric}, {y.label}".rstrip(", ")}}
    layout["shapes"] = [shape for segment in trend.segments for shape in _level_shapes(segment, y.divisor)]
    layout["shapes"] += [_change(segment.first + 0.5) for segment in trend.segments[1:]]
    return {"data": [runs | {"error_y": bars}], "layout": layout | {"showlegend": False}}


def _level_shapes(segment: TrendSegment, divisor: float) -> list[Figure]:
    first, end = segment.first + 0.6, segment.end + 0.4
    low, value, high = (end / divisor for end in (segment.low, segment.value, segment.high))
    across = {"x0": first, "x1": end, "layer": "below"}
    band = {"type": "rect", "y0": low, "y1": high, "fillcolor": "@second", "opacity": 0.2, "line": {"width": 0}}
    line = {"type": "line", "y0": value, "y1": value, "line": {"color": "@second", "width": 2}}
    return [band | across, line | across]


def _change(at: float) -> Figure:
    return {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper",
            "line": {"color": "@bad", "width": 1.5, "dash": "dot"}}  # fmt: skip
