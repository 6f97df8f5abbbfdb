"""Two builds compared, for continuous integration: JUnit's XML, GitHub's annotations, a Markdown summary; pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.comparison import Comparison, Judged, MetricComparison, State
from pinchpoint.report.comparison import number_cell, places
from pinchpoint.report.markdown import plain, table_text
from pinchpoint.report.tables import Cell, table_of
from pinchpoint.report.trend import Case, junit

_SAID: Final = {
    State.REGRESSION: ("❌", "HEAD is worse by more than the margin of {margin}"),
    State.MIND: ("⚠️", "not clearly worse by more than the margin of {margin}"),
    State.PASSED: ("✅", "not worse by more than the margin of {margin}"),
    State.UNDECIDED: ("❔", "could not be decided"),
}
_ANNOTATED: Final = {
    State.REGRESSION: ("error", "regression"),
    State.MIND: ("warning", "within the margin, or not clearly beyond it"),
    State.UNDECIDED: ("warning", "could not be decided"),
}
_HEADINGS: Final = {
    "scenario": "scenario", "metric": "metric", "a": "BASE", "b": "HEAD", "ratio": "HEAD / BASE", "sentence": "",
}  # fmt: skip
_MOST_DIFFERENCES: Final = 20


def headline(judgements: Sequence[Judged], margin: float) -> str:
    """The outcome in a line."""
    states = [judgement.state for judgement in judgements]
    if State.REGRESSION in states:
        return f"HEAD is worse than BASE by more than {units.percent(margin)}"
    if State.UNDECIDED in states or not states:
        return "It could not be decided whether HEAD is worse than BASE"
    return f"HEAD is not clearly worse than BASE by more than {units.percent(margin)}"


def render_junit(judgements: Sequence[Judged], margin: float, took_s: float | None = None) -> str:
    """A suite with a test case for each judged metric: a regression is a failure, what was not decided an error.

    `took_s`: seconds that all measurements took together; None: not known, as of stored runs.
    """
    faults = {State.REGRESSION: "failure", State.UNDECIDED: "error"}
    cases = []
    for judgement in judgements:
        text, fault = _line(judgement, margin), faults.get(judgement.state, "")
        kind = str(judgement.state) if fault else ""
        cases.append(Case(judgement.scenario, judgement.metric.metric, text, fault, text, kind))
    return junit("pinchpoint ci", {"pinchpoint ci": cases}, took_s)


def annotations(judgements: Sequence[Judged], margin: float) -> Iterator[str]:
    """GitHub's workflow commands: an error for a regression, a warning for what is to be minded or not decided."""
    for judgement in judgements:
        if judgement.state in _ANNOTATED:
            level, words = _ANNOTATED[judgement.state]
            title = _property(f"{judgement.metric.metric}: {words}")
            yield f"::{level} title={title}::{_data(_line(judgement, margin))}"
    if not judgements:
        yield "::warning title=pinchpoint ci::no metric could be judged"


def render_summary(comparison: Comparison, by_metric: Sequence[Judged], margin: float) -> str:
    """Markdown for a pull request: the outcome, a table of the metrics, what differs between the benches."""
    a, b = plain(comparison.a.name), plain(comparison.b.name)
    measured = f"BASE (A) is {a}, HEAD (B) is {b}; measured as {plain(str(comparison.kind))}"
    why = f", since {plain(comparison.why)}" if comparison.why else ""
    parts = [f"### Pinchpoint: {plain(headline(by_metric, margin))}", f"{measured}{why}."]
    if by_metric:
        rows = [_row(judgement.scenario, judgement.metric, _SAID[judgement.state][0]) for judgement in by_metric]
        parts.append(table_text(table_of(_HEADINGS, rows, words=("scenario", "metric", "sentence"))))
    notes = dict.fromkeys(f"Warning: {note}" for part in comparison.scenarios for note in part.notes)
    notes |= dict.fromkeys(line for part in comparison.scenarios for line in part.definitions)
    parts += ["\n".join(f"- {plain(note)}" for note in notes)] if notes else []
    parts += _differences(comparison)
    return "\n\n".join(parts) + "\n"


def _line(judgement: Judged, margin: float) -> str:
    told = _SAID[judgement.state][1].format(margin=units.percent(margin))
    return f"{judgement.scenario}: {judgement.metric.metric}: {told}: {judgement.metric.sentence}"


def _row(scenario: str, metric: MetricComparison, mark: str) -> tuple[str | Cell, ...]:
    spread = f"{interval.low:.3f} to {interval.high:.3f}" if (interval := metric.interval) else ""
    ratio = "" if metric.ratio is None else Cell(f"{metric.ratio:.3f}", spread)
    name = f"{mark} {metric.metric}"
    return scenario, name, number_cell(metric.a), number_cell(metric.b), ratio, metric.sentence


def _differences(comparison: Comparison) -> Iterator[str]:
    parts = [comparison.differences, *(part.differences for part in comparison.scenarios)]
    every = dict.fromkeys(difference for part in parts for _, differing in places(part) for difference in differing)
    lines = [f"- `{_code(difference.what)}`: {plain(difference.a)} → {plain(difference.b)}" for difference in every]
    if lines:
        more = [f"- and {len(lines) - _MOST_DIFFERENCES} more"] if len(lines) > _MOST_DIFFERENCES else []
        yield "\n".join(("What differs between the benches:\n", *lines[:_MOST_DIFFERENCES], *more))


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
