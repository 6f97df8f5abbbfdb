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
    """A metric as a row of a table, its value with its unit."""

    name: str
    value: str  # with its unit
    interval: str  # empty if none is known
    note: str  # what to mind about this one
    sort: str


@dataclass(frozen=True)
class MetricsView:
    """The metrics of a scenario: the main ones, all of them, and the note that they share."""

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


def metrics_view(listed: Sequence[Metric], measure: str) -> MetricsView:
    """Everything that a scenario found; notes that all metrics share stand once."""
    notes = [metric.remarks for metric in listed]
    shared = [note for note in notes[0] if note and all(note in each for each in notes)] if len(notes) > 1 else []

    def rows(metrics: Sequence[Metric]) -> tuple[MetricRow, ...]:
        return tuple(_row(metric, shared) for metric in metrics)

    return MetricsView(rows(main_metrics(measure, listed)), rows(listed), "; ".join(shared))


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
    main = [
        metric for wanted in (declared.main if declared else ()) for metric in metrics if _named(metric.name, wanted)
    ]
    return tuple(main or metrics[:_FEW])


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
    names = dict.fromkeys(
        metric.name for measurement in made for metric in main_metrics(measurement.kind, measurement.metrics)
    )
    columns = tuple(names)[:_FEW]
    return MeasurementsView(tuple(made), columns, tuple(_measurement(measurement, columns) for measurement in made))


def _measurement(measurement: Measurement, columns: Sequence[str]) -> MeasurementRow:
    metrics = {metric.name: metric for metric in measurement.metrics}
    return MeasurementRow(
        id=measurement.id,
        repeat=measurement.repeat,
        validity=measurement.validity,
        reason=measurement.reason,
        cells=tuple(
            (units.quantity(metrics[name].value, metrics[name].unit), f"{metrics[name].value:.10g}")
            if name in metrics
            else (ABSENT, "")
            for name in columns
        ),
        took=words.seconds(measurement.wall_s),
        took_s=measurement.wall_s,
    )
