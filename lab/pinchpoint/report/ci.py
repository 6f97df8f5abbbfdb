"""Two builds compared, for continuous integration: JUnit's XML, GitHub's annotations, a Markdown summary; pure."""

from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree import ElementTree

from pinchpoint.model import units
from pinchpoint.model.comparison import Comparison, Difference, Judged, MetricComparison, State
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


def headline(judgements: Sequence[Judged], margin: float) -> str:
    """The outcome in a line."""
    states = [judgement.state for judgement in judgements]
    if State.REGRESSION in states:
        return f"HEAD is worse than BASE by more than {units.percent(margin)}"
    if State.UNDECIDED in states or not states:
        return "It could not be decided whether HEAD is worse than BASE"
    return f"HEAD is not surely worse than BASE by more than {units.percent(margin)}"


def render_junit(judgements: Sequence[Judged], margin: float, took_s: float | None = None) -> str:
    """A suite with a test case for each judged metric: a regression is a failure, what was not decided an error.

    `took_s`: seconds that all measurements took together; None: not known, as of stored runs.
    """
    counts = {
        "name": "pinchpoint ci",
        "tests": str(len(judgements)),
        "failures": str(sum(judgement.state is State.REGRESSION for judgement in judgements)),
        "errors": str(sum(judgement.state is State.UNDECIDED for judgement in judgements)),
        "skipped": "0",
        **({} if took_s is None else {"time": f"{took_s:.1f}"}),
    }
    root = ElementTree.Element("testsuites", name="pinchpoint ci")
    suite = ElementTree.SubElement(root, "testsuite", counts)
    for judgement in judgements:
        case = ElementTree.SubElement(
            suite, "testcase", classname=xml_text(judgement.scenario), name=xml_text(judgement.metric.metric)
        )
        tag = {State.REGRESSION: "failure", State.UNDECIDED: "error"}.get(judgement.state)
        text = xml_text(_line(judgement, margin))
        if tag:
            ElementTree.SubElement(case, tag, message=text, type=str(judgement.state)).text = text
        else:
            ElementTree.SubElement(case, "system-out").text = text
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def annotations(judgements: Sequence[Judged], margin: float) -> Iterator[str]:
    """GitHub's workflow commands: an error for a regression, a warning for what is to be minded or not decided."""
    for judgement in judgements:
        if level := _LEVELS.get(judgement.state):
            title = f"{judgement.metric.metric}: {_WORDS[judgement.state]}"
            yield f"::{level} title={_property(title)}::{_data(_line(judgement, margin))}"
    if not judgements:
        yield "::warning title=pinchpoint ci::no metric could be judged"


def render_summary(comparison: Comparison, by_metric: Sequence[Judged], margin: float) -> str:
    """Markdown for a pull request: the outcome, a table of the metrics, what differs between the benches."""
    rows = [
        f"| {plain(judgement.scenario)} | {_MARKS[judgement.state]} {plain(metric.metric)} "
        f"| {_estimate(metric.a, metric.unit)} | {_estimate(metric.b, metric.unit)} "
        f"| {_ratio(metric)} | {plain(metric.sentence)} |"
        for judgement in by_metric
        for metric in [judgement.metric]
    ]
    a, b = plain(comparison.a.name), plain(comparison.b.name)
    parts = [
        f"### Pinchpoint: {plain(headline(by_metric, margin))}",
        f"BASE (A) is {a}, HEAD (B) is {b}; measured as {plain(str(comparison.kind))}"
        + (f", since {plain(comparison.why)}." if comparison.why else "."),
    ]
    if rows:
        head = "| scenario | metric | BASE | HEAD | HEAD / BASE | |\n|---|---|---:|---:|---:|---|"
        parts.append("\n".join((head, *rows)))
    notes = dict.fromkeys(note for part in comparison.scenarios for note in part.notes)
    parts += ["\n".join(f"- Warning: {plain(note)}" for note in notes)] if notes else []
    parts += _differences(comparison)
    return "\n\n".join(parts) + "\n"


def _line(judgement: Judged, margin: float) -> str:
    words = {
        State.REGRESSION: f"HEAD is worse by more than the margin of {units.percent(margin)}",
        State.MIND: f"not surely worse by more than the margin of {units.percent(margin)}",
        State.PASSED: f"not worse by more than the margin of {units.percent(margin)}",
        State.UNDECIDED: "could not be decided",
    }
    return f"{judgement.scenario}: {judgement.metric.metric}: {words[judgement.state]}: {judgement.metric.sentence}"


def _estimate(estimate: Estimate | None, unit: str) -> str:
    if estimate is None:
        return "-"
    spread = (
        ""
        if estimate.low is None or estimate.high is None
        else f" ({units.quantity_range(estimate.low, estimate.high, unit)})"
    )
    return plain(units.quantity(estimate.value, unit) + spread)


def _ratio(metric: MetricComparison) -> str:
    if metric.ratio is None:
        return "-"
    return f"{metric.ratio:.3f}" + (f" ({metric.low:.3f} to {metric.high:.3f})" if metric.low and metric.high else "")


def _differences(comparison: Comparison) -> Iterator[str]:
    places = [comparison.differences, *(part.differences for part in comparison.scenarios)]
    every: list[Difference] = []
    for place in places:
        every += [*place.scenario, *place.in_force, *place.versions, *place.host]
    lines = [
        f"- `{_code(difference.what)}`: {plain(difference.a)} → {plain(difference.b)}"
        for difference in dict.fromkeys(every)
    ]
    if lines:
        more = [f"- and {len(lines) - _MOST_DIFFERENCES} more"] if len(lines) > _MOST_DIFFERENCES else []
        yield "\n".join(("What differs between the benches:\n", *lines[:_MOST_DIFFERENCES], *more))


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
