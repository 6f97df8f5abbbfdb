"""Two builds compared, for continuous integration: JUnit's XML, GitHub's annotations, a Markdown summary; pure."""

from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree import ElementTree

from pinchpoint.model import units
from pinchpoint.model.comparison import Comparison, Difference, MetricComparison
from pinchpoint.model.regression import Judged, State
from pinchpoint.model.study import Estimate
from pinchpoint.report.markdown import plain
from pinchpoint.report.trend import xml_text

_WORDS: Final = {
    State.REGRESSION: "regression",
    State.MIND: "within the margin, or not surely beyond it",
    State.PASSED: "no regression",
    State.UNDECIDED: "could not be decided",
}
_MARKS: Final = {State.REGRESSION: "❌", State.MIND: "⚠️", State.PASSED: "✅", State.UNDECIDED: "❔"}
_LEVELS: Final = {State.REGRESSION: "error", State.MIND: "warning", State.UNDECIDED: "warning"}
_MOST_DIFFERENCES: Final = 20


def headline(found: Sequence[Judged], margin: float) -> str:
    """The outcome in a line."""
    states = [one.state for one in found]
    if State.REGRESSION in states:
        return f"HEAD is worse than BASE by more than {units.percent(margin)}"
    if State.UNDECIDED in states or not states:
        return "It could not be decided whether HEAD is worse than BASE"
    return f"HEAD is not surely worse than BASE by more than {units.percent(margin)}"


def render_junit(found: Sequence[Judged], margin: float, took_s: float | None = None) -> str:
    """A suite with a test case for each judged metric: a regression is a failure, what was not decided an error.

    `took_s`: seconds that all measurements took together; None: not known, as of stored runs.
    """
    counts = {
        "name": "pinchpoint ci",
        "tests": str(len(found)),
        "failures": str(sum(one.state is State.REGRESSION for one in found)),
        "errors": str(sum(one.state is State.UNDECIDED for one in found)),
        "skipped": "0",
        **({} if took_s is None else {"time": f"{took_s:.1f}"}),
    }
    root = ElementTree.Element("testsuites", name="pinchpoint ci")
    suite = ElementTree.SubElement(root, "testsuite", counts)
    for one in found:
        case = ElementTree.SubElement(
            suite, "testcase", classname=xml_text(one.scenario), name=xml_text(one.metric.metric)
        )
        tag = {State.REGRESSION: "failure", State.UNDECIDED: "error"}.get(one.state)
        text = xml_text(_line(one, margin))
        if tag:
            ElementTree.SubElement(case, tag, message=text, type=str(one.state)).text = text
        else:
            ElementTree.SubElement(case, "system-out").text = text
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def annotations(found: Sequence[Judged], margin: float) -> Iterator[str]:
    """GitHub's workflow commands: an error for a regression, a warning for what is to be minded or not decided."""
    for one in found:
        if level := _LEVELS.get(one.state):
            title = f"{one.metric.metric}: {_WORDS[one.state]}"
            yield f"::{level} title={_property(title)}::{_data(_line(one, margin))}"
    if not found:
        yield "::warning title=pinchpoint ci::no metric could be judged"


def render_summary(found: Comparison, by_metric: Sequence[Judged], margin: float) -> str:
    """Markdown for a pull request: the outcome, a table of the metrics, what differs between the benches."""
    rows = [
        f"| {plain(one.scenario)} | {_MARKS[one.state]} {plain(one.metric.metric)} "
        f"| {_estimate(one.metric.a, one.metric.unit)} | {_estimate(one.metric.b, one.metric.unit)} "
        f"| {_ratio(one.metric)} | {plain(one.metric.sentence)} |"
        for one in by_metric
    ]
    parts = [
        f"### Pinchpoint: {plain(headline(by_metric, margin))}",
        f"BASE (A) is {plain(found.a.name)}, HEAD (B) is {plain(found.b.name)}; measured as {plain(str(found.kind))}"
        + (f", since {plain(found.why)}." if found.why else "."),
    ]
    if rows:
        head = "| scenario | metric | BASE | HEAD | HEAD / BASE | |\n|---|---|---:|---:|---:|---|"
        parts.append("\n".join((head, *rows)))
    notes = dict.fromkeys(note for part in found.scenarios for note in part.notes)
    parts += ["\n".join(f"- Mind: {plain(one)}" for one in notes)] if notes else []
    parts += _differences(found)
    return "\n\n".join(parts) + "\n"


def _line(one: Judged, margin: float) -> str:
    words = {
        State.REGRESSION: f"HEAD is worse by more than the margin of {units.percent(margin)}",
        State.MIND: f"not surely worse by more than the margin of {units.percent(margin)}",
        State.PASSED: f"not worse by more than the margin of {units.percent(margin)}",
        State.UNDECIDED: "could not be decided",
    }
    return f"{one.scenario}: {one.metric.metric}: {words[one.state]}: {one.metric.sentence}"


def _estimate(found: Estimate | None, unit: str) -> str:
    if found is None:
        return "-"
    spread = (
        "" if found.low is None or found.high is None else f" ({units.quantity_range(found.low, found.high, unit)})"
    )
    return plain(units.quantity(found.value, unit) + spread)


def _ratio(one: MetricComparison) -> str:
    if one.ratio is None:
        return "-"
    return f"{one.ratio:.3f}" + (f" ({one.low:.3f} to {one.high:.3f})" if one.low and one.high else "")


def _differences(found: Comparison) -> Iterator[str]:
    places = [found.differences, *(part.differences for part in found.scenarios)]
    every: list[Difference] = []
    for place in places:
        every += [*place.scenario, *place.in_force, *place.versions, *place.host]
    lines = [f"- `{_code(one.what)}`: {plain(one.a)} → {plain(one.b)}" for one in dict.fromkeys(every)]
    if lines:
        more = [f"- and {len(lines) - _MOST_DIFFERENCES} more"] if len(lines) > _MOST_DIFFERENCES else []
        yield "\n".join(("What differs between the benches:\n", *lines[:_MOST_DIFFERENCES], *more))


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
