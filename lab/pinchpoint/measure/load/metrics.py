"""What is told of a measurement at one load."""

from collections.abc import Mapping, Sequence
from statistics import median

from pinchpoint.measure.forwarding import of_threads
from pinchpoint.model import units
from pinchpoint.model.measurement import Metric
from pinchpoint.model.trial import ThreadFigure, Trial


def of_load(at_fps: float, trials: Sequence[Trial], figures: Mapping[str, ThreadFigure]) -> tuple[Metric, ...]:
    """Metrics of the measure `load` at one rate: the medians over `trials`, all valid, with their extremes."""
    every = [(*of_threads(trial.threads, figures), Metric("loss", "share", trial.loss_ratio)) for trial in trials]
    if not every:
        return ()
    at = f"at {units.fps(at_fps)}"
    values: dict[tuple[str, str], list[float]] = {}
    for metrics in every:
        for metric in metrics:
            values.setdefault((metric.name, metric.unit), []).append(metric.value)
    return tuple(
        Metric(f"{name} {at}", unit, median(repeats), min(repeats), max(repeats), _extremes(len(repeats)))
        for (name, unit), repeats in values.items()
    )


def _extremes(count: int) -> str:
    return f"median, lowest and highest of {count} trials" if count > 1 else "one trial"
