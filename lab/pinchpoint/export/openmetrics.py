"""OpenMetrics text (openmetrics.io, version 1.0.0): figures and windows of runs, and a device that is watched.

Points of runs have timestamps, so that a time series database can take them in later. Those of a watched device
have none, as node_exporter's textfile collector wants it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pinchpoint.export.tables import Stored, when
from pinchpoint.model import former
from pinchpoint.model.measurement import Metric
from pinchpoint.model.watch import RecordHead, Watched

_UNITS: Final[Mapping[str, tuple[str, float]]] = {
    "fps": ("frames_per_second", 1.0), "bit/s": ("bits_per_second", 1.0), "1/s": ("per_second", 1.0),
    "s": ("seconds", 1.0), "ns": ("seconds", 1e-9), "cycles": ("cycles", 1.0), "share": ("ratio", 1.0),
    "x": ("ratio", 1.0), "bytes": ("bytes", 1.0), "count": ("count", 1.0),
}  # fmt: skip
"""A metric's unit -> the end of the family's name, and what the value is multiplied by."""
Labels = tuple[tuple[str, str], ...]


@dataclass
class Family:
    """One metric family: its points by their labels, each a value and its time (seconds since 1970; None: now)."""

    kind: str  # gauge, counter or info
    about: str
    points: dict[Labels, dict[float | None, float]] = field(default_factory=dict)

    def put(self, labels: Mapping[str, str], value: float, at_s: float | None = None) -> None:
        """Add one point; of two at one time the first is kept."""
        self.points.setdefault(tuple(labels.items()), {}).setdefault(at_s, value)


def text(families: Mapping[str, Family]) -> str:
    """The exposition: families by their names, `# EOF` at the end."""
    lines = [line for name, family in families.items() for line in _lines(name, family)]
    return "\n".join((*lines, "# EOF")) + "\n"


def _lines(name: str, family: Family) -> Iterator[str]:
    yield f"# TYPE {name} {family.kind}"
    yield f"# HELP {name} {_escaped(family.about)}"
    end = {"counter": "_total", "info": "_info"}.get(family.kind, "")
    for labels, points in family.points.items():
        shown = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels)
        for at_s, value in sorted(points.items(), key=lambda point: point[0] or 0.0):
            time = "" if at_s is None else f" {at_s:.3f}"
            yield f"{name}{end}{{{shown}}} {value:.17g}{time}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def of_runs(runs: Iterable[Stored]) -> str:
    """Every figure of every scenario, and those of each window or load, at the time it was known."""
    families: dict[str, Family] = {}
    for run in runs:
        info = families.setdefault("pinchpoint_run", Family("info", "a stored run"))
        info.put({"run": run.info.run_id, "version": run.info.versions.get("pinchpoint", "")}, 1)
    for run in runs:
        _results(run, families)
        _windows(run, families)
    return text(families)


def _results(run: Stored, families: dict[str, Family]) -> None:
    ended = _ends(run)
    for result in run.result.scenarios:
        of = {"run": run.info.run_id, "scenario": result.scenario}
        for metric in result.metrics:
            for end, value in (("value", metric.value), ("low", metric.low), ("high", metric.high)):
                if value is not None:
                    labels = {**of, "of": end, "bound": str(metric.bound or "")}
                    _put(families, "", replace(metric, value=value), labels, ended.get(result.scenario))


def _ends(run: Stored) -> dict[str, float]:
    """Scenario -> when the last of its trials or measurements ended; absent where no time is stored."""
    ends: dict[str, float] = {}
    for scenario, began, took_s in run.times:
        ends[scenario] = max(ends.get(scenario, 0.0), began.timestamp() + took_s)
    return ends


def _windows(run: Stored, families: dict[str, Family]) -> None:
    for measurement in run.measurements:
        began = when(measurement.started)
        if began is None:
            continue
        labels = {"run": run.info.run_id, "scenario": measurement.scenario, "validity": str(measurement.validity)}
        for metric in measurement.metrics:
            _put(families, f"{measurement.kind}_", metric, labels, began.timestamp() + measurement.wall_s)


def _put(families: dict[str, Family], lead: str, metric: Metric, labels: Mapping[str, str], at_s: float | None) -> None:
    end, factor = _UNITS.get(metric.unit, (_slug(metric.unit), 1.0))
    called = former.exported_metric(metric.name)
    name = f"pinchpoint_{'window_' if lead else ''}{_slug(lead + called)}_{end}".rstrip("_")
    about = f"{called} of {'one window, load or build' if lead else 'a scenario'}"
    families.setdefault(name, Family("gauge", about)).put(labels, metric.value * factor, at_s)


def _slug(words: str) -> str:
    """A text as part of a family's name; `.` and `%` become words, so that p99.9 and p999 differ."""
    spoken = words.lower().replace("%", " percent ").replace(".", "_point_" if re.search(r"\d\.\d", words) else " ")
    return re.sub(r"[^a-z0-9]+", "_", spoken).strip("_")


@dataclass
class WatchTotals:
    """What a watch has seen so far, as counters; `add` takes one reading after the other."""

    head: RecordHead
    _counts: dict[str, Family] = field(default_factory=dict)
    _gauges: dict[str, Family] = field(default_factory=dict)

    def add(self, watched: Watched) -> None:
        """Add what one reading says."""
        self._gauges = {}
        self._count("watched_seconds", "for which the device was watched", {}, watched.seconds)
        self._count("readings", "of the device's counters", {}, 1)
        self._count("counter_resets", "counters that went back", {}, len(watched.resets))
        for hop in watched.hops:
            for way, frames in (("in", hop.frames_in), ("out", hop.frames_out)):
                if frames is not None:
                    self._count("hop_frames", "at a place of the path", {"hop": hop.name, "way": way}, frames)
            for drop in hop.drops:
                labels = {"hop": hop.name, "drop": drop.name, "responsible": drop.limits}
                self._count("dropped_frames", "for a reason that a counter names", labels, drop.frames)
        for thread in watched.threads:
            of = {"thread": thread.name}
            self._count("thread_received_frames", "by a thread of the device", of, thread.received)
            if thread.busy_share is not None:
                self._gauge("thread_busy_ratio", "share of its time", of, thread.busy_share)
        for suspicion in watched.suspicions:
            cause = {"cause": former.exported_cause(suspicion.cause)}
            self._gauge("suspected_ratio", "share that a likely cause would explain", cause, suspicion.share)

    def text(self) -> str:
        """The exposition: totals since the watch began, gauges of the last reading."""
        info = Family("info", "the device that is watched")
        info.put({"kind": self.head.kind, "place": self.head.place, "host": self.head.host}, 1)
        return text({"pinchpoint_watch": info, **self._counts, **self._gauges})

    def _count(self, name: str, about: str, labels: Mapping[str, str], more: float) -> None:
        points = self._counts.setdefault(f"pinchpoint_watch_{name}", Family("counter", about)).points
        point = points.setdefault(tuple(labels.items()), {None: 0.0})
        point[None] += more

    def _gauge(self, name: str, about: str, labels: Mapping[str, str], value: float) -> None:
        self._gauges.setdefault(f"pinchpoint_watch_{name}", Family("gauge", about)).put(labels, value)
