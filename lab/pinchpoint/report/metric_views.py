"""What is shown of measures other than rates, as plain values: their metrics, and each measurement made for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.measure import registry
from pinchpoint.model import units
from pinchpoint.model.measurement import Measurement, Metric
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.trial import TrialValidity
from pinchpoint.report import words
from pinchpoint.report.tables import ABSENT, Cell, Column, Table, column

_FEW: Final = 4  # metrics of a measure that is not listed, and columns of measurements


@dataclass(frozen=True)
class MetricRow:
    """One metric."""

    name: str
    value: str  # with its unit
    interval: str  # empty if none is known
    note: str  # what to mind about this one
    sort: str


@dataclass(frozen=True)
class MetricsView:
    """A scenario's metrics."""

    main: tuple[MetricRow, ...]
    every: tuple[MetricRow, ...]
    about: str  # what is true of all of them, e.g. what their intervals are


@dataclass(frozen=True)
class MeasurementRow:
    """One measurement: how far to believe it, and what it found."""

    id: str
    repeat: int
    validity: TrialValidity
    reason: str
    cells: tuple[tuple[str, str], ...]  # text and what to sort by, one a column
    took: str
    took_s: float


@dataclass(frozen=True)
class MeasurementsView:
    """All measurements of a scenario, in the order they were made."""

    made: tuple[Measurement, ...]
    columns: tuple[str, ...]
    rows: tuple[MeasurementRow, ...]


def metrics_view(found: Sequence[Metric], measure: str) -> MetricsView:
    """Everything that a scenario found; notes that all metrics share stand once."""
    notes = [metric.remarks for metric in found]
    shared = [note for note in notes[0] if note and all(note in each for each in notes)] if len(notes) > 1 else []

    def rows(metrics: Sequence[Metric]) -> tuple[MetricRow, ...]:
        return tuple(_row(metric, shared) for metric in metrics)

    return MetricsView(rows(main_metrics(measure, found)), rows(found), "; ".join(shared))


def metric_table(result: ScenarioResult, view: MetricsView) -> Table:
    """One row a main metric."""
    rows = view.main
    return Table(
        (
            column("metric", result.measure, (row.name for row in rows), is_number=False),
            Column(
                "found",
                "found",
                tuple(Cell(row.value, mark="" if place else "strong") for place, row in enumerate(rows)),
            ),
            column("interval", "interval", (row.interval for row in rows)),
            column("note", "note", (row.note for row in rows), is_number=False),
        ),
        result.scenario,
        result.title,
    )


def main_metrics(measure: str, metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metrics that the measure is about, the most important first."""
    declared = registry.find(measure)
    found = [
        metric for wanted in (declared.main if declared else ()) for metric in metrics if _named(metric.name, wanted)
    ]
    return tuple(found or metrics[:_FEW])


def _named(name: str, wanted: str) -> bool:
    return name.startswith(wanted) if wanted.endswith(" ") else name == wanted


def _row(metric: Metric, shared: Sequence[str]) -> MetricRow:
    low, high = metric.low, metric.high
    return MetricRow(
        name=metric.name,
        value=units.quantity(metric.value, metric.unit),
        interval="" if low is None or high is None or low == high else units.quantity_range(low, high, metric.unit),
        note="; ".join(note for note in metric.remarks if note not in shared),
        sort=f"{metric.value:.10g}",
    )


def measurements_view(made: Sequence[Measurement]) -> MeasurementsView:
    """One row a measurement, discarded ones too, with its main figures."""
    names = dict.fromkeys(metric.name for one in made for metric in main_metrics(one.kind, one.metrics))
    columns = tuple(names)[:_FEW]
    return MeasurementsView(tuple(made), columns, tuple(_measurement(one, columns) for one in made))


def _measurement(one: Measurement, columns: Sequence[str]) -> MeasurementRow:
    found = {metric.name: metric for metric in one.metrics}
    return MeasurementRow(
        id=one.id,
        repeat=one.repeat,
        validity=one.validity,
        reason=one.reason,
        cells=tuple(
            (units.quantity(found[name].value, found[name].unit), f"{found[name].value:.10g}")
            if name in found
            else (ABSENT, "")
            for name in columns
        ),
        took=words.seconds(one.wall_s),
        took_s=one.wall_s,
    )
