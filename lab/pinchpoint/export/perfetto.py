"""The timeline of runs in Chrome's Trace Event Format (JSON), which ui.perfetto.dev draws.

Each scenario is a process, whose tracks hold slices (`X`) and counters (`C`); `M` names them. Times are microseconds
since the first trial was called for. The engine's first frame follows some time after that, which is not stored: what
the engine timed since then stands as if there were none, too early by at most the slice's `first_frame_within_s`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from pinchpoint.export.tables import Stored, when
from pinchpoint.model import units
from pinchpoint.model.duet import Stretch
from pinchpoint.model.errors import InputError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.trial import Record, Sample, ThreadLoad, Trial, WorkerWitness

_BEGIN: Final = Sample(0.0, 0, 0, received=0)
_DUET: Final = "comparison"  # the process of stretches that are of no point of a sweep


@dataclass
class _Timeline:
    """Events so far, and the numbers of processes and of their tracks."""

    events: list[dict[str, Any]] = field(default_factory=list)
    dropped: dict[str, Counter[str]] = field(default_factory=dict)  # by process, frames of its trials so far
    _processes: dict[str, int] = field(default_factory=dict)
    _tracks: dict[tuple[str, str], int] = field(default_factory=dict)

    def slice(
        self, process: str, track: str, name: str, at_s: float, length_s: float, about: Mapping[str, object]
    ) -> None:
        """A stretch of time on a track; neighbours on it meet to the nanosecond."""
        begin_ns, end_ns = round(at_s * 1e9), round((at_s + length_s) * 1e9)
        place = {"pid": self._process(process), "tid": self._track(process, track)}
        times = {"ts": begin_ns / 1e3, "dur": (end_ns - begin_ns) / 1e3}
        known = {key: value for key, value in about.items() if value not in (None, "")}
        self.events.append({"ph": "X", "name": name, **place, **times, "args": known})

    def counter(self, process: str, name: str, at_s: float, values: Mapping[str, float | None]) -> None:
        """Values from a time on; those that are None are not known."""
        known = {key: value for key, value in values.items() if value is not None}
        if known:
            place = {"pid": self._process(process), "ts": round(at_s * 1e9) / 1e3}
            self.events.append({"ph": "C", "name": name, **place, "args": known})

    def _process(self, name: str) -> int:
        if name not in self._processes:
            self._processes[name] = len(self._processes) + 1
            self._name("process_name", name, pid=self._processes[name])
        return self._processes[name]

    def _track(self, process: str, name: str) -> int:
        if (process, name) not in self._tracks:
            self._tracks[process, name] = len(self._tracks) + 1
            self._name("thread_name", name, pid=self._process(process), tid=self._tracks[process, name])
        return self._tracks[process, name]

    def _name(self, what: str, name: str, **place: int) -> None:
        self.events.append({"ph": "M", "name": what, **place, "args": {"name": name}})


def of_runs(runs: Sequence[Stored]) -> dict[str, Any]:
    """Trials, measurements and duets, each where it was made; those without a stored time are left out.

    Raises InputError if nothing has a time.
    """
    stamped: list[tuple[datetime, str, Record | Stretch]] = sorted(
        ((began, run.info.run_id, entry) for run in runs for entry in _entries(run) if (began := when(entry.started))),
        key=lambda row: row[0],
    )
    if not stamped:
        raise InputError("these runs hold nothing that has a time", "pinchpoint export RUN --format csv -o FOLDER")
    origin, timeline = stamped[0][0], _Timeline()
    for began, run_id, entry in stamped:
        process, at_s = entry.scenario or _DUET, (began - origin).total_seconds()
        process = process if len(runs) == 1 else f"{run_id} {process}"
        if isinstance(entry, Trial):
            _trial(timeline, process, at_s, entry)
        elif isinstance(entry, Measurement):
            _measurement(timeline, process, at_s, entry)
        elif isinstance(entry, Stretch):
            _stretch(timeline, process, at_s, entry)
    return {"displayTimeUnit": "ms", "otherData": {"begins": origin.isoformat()}, "traceEvents": timeline.events}


def _entries(run: Stored) -> Iterator[Record | Stretch]:
    yield from run.trials
    yield from run.measurements
    yield from run.stretches


def _trial(timeline: _Timeline, process: str, at_s: float, trial: Trial) -> None:
    counted = ("id", "validity", "reason", "offered", "received", "lost", "sent_duration_s")
    about = {name: getattr(trial, name) for name in counted}
    about["unexplained"] = trial.ledger.unexplained
    about["first_frame_within_s"] = max(0.0, trial.wall_s - trial.sent_duration_s)
    timeline.slice(process, "trials", f"{trial.phase} {units.fps(trial.load_fps)}", at_s, trial.wall_s, about)
    for before, after in pairwise((_BEGIN, *trial.samples)):
        if after.elapsed_s > before.elapsed_s:
            _sample(timeline, process, at_s, before, after)
    for worker in trial.witness.workers:
        track = f"engine {worker.where}"
        for began_s, length_ns in _gaps(worker):
            timeline.slice(process, track, "gap", at_s + began_s, length_ns / 1e9, {})
    _threads(timeline, process, at_s, trial.threads)
    _drops(timeline, process, at_s, trial)


def _sample(timeline: _Timeline, process: str, at_s: float, before: Sample, after: Sample) -> None:
    """What was counted between two samples, on a track of its own."""
    names = ("offered", "received", "lost", "gaps_s")
    totals = ((name, getattr(before, name), getattr(after, name)) for name in names)
    about = {name: None if None in (was, now) else now - was for name, was, now in totals}
    name = "lost is not countable" if about["lost"] is None else "loses" if about["lost"] > 0 else "lossless"
    about["gap_max_s"] = after.gap_max_s
    timeline.slice(process, "samples", name, at_s + before.elapsed_s, after.elapsed_s - before.elapsed_s, about)


def _gaps(worker: WorkerWitness) -> Sequence[tuple[float, int]]:
    """When a core stood still, in seconds since its trial began, and for how many nanoseconds: those that are kept."""
    if worker.gaps_longest or worker.gap_max_at_s is None:
        return worker.gaps_longest
    return ((worker.gap_max_at_s, worker.gap_max_ns),)


def _threads(timeline: _Timeline, process: str, at_s: float, threads: Sequence[ThreadLoad]) -> None:
    """The figures of each of the device's threads over a trial, from its begin on."""
    for thread in threads:
        busy = None if thread.busy_share is None else 100 * thread.busy_share
        own = {"busy, %": busy, "received": thread.received, "slow path": thread.slow_path, **thread.detail}
        timeline.counter(process, thread.name, at_s, own)


def _drops(timeline: _Timeline, process: str, at_s: float, trial: Trial) -> None:
    """Frames dropped at named places in the trials so far: as they were before this one, and once it was read."""
    own = Counter[str]()
    for hop in trial.ledger.hops:
        for drop in hop.drops:
            own[f"{hop.name}: {drop.name}"] += drop.frames
    total = timeline.dropped.setdefault(process, Counter())
    timeline.counter(process, "drops", at_s, {name: total[name] for name in own})
    total.update(own)
    timeline.counter(process, "drops", at_s + trial.wall_s, {name: total[name] for name in own})


def _measurement(timeline: _Timeline, process: str, at_s: float, measurement: Measurement) -> None:
    figures = {f"{metric.name}, {metric.unit}": metric.value for metric in measurement.metrics}
    about = {"id": measurement.id, "validity": str(measurement.validity), "reason": measurement.reason, **figures}
    name = f"{measurement.kind} {measurement.repeat}"
    timeline.slice(process, "measurements", name, at_s, measurement.wall_s, about)
    _threads(timeline, process, at_s, measurement.threads)


def _stretch(timeline: _Timeline, process: str, at_s: float, stretch: Stretch) -> None:
    """A request of alternating slices, and below it those of either bench."""
    about = {"id": stretch.id, "benches": stretch.benches, "load_fps": stretch.load_fps, "reason": stretch.reason}
    timeline.slice(process, "stretches", stretch.phase, at_s, stretch.wall_s, about)
    for part in stretch.slices:
        counts = {"offered": part.offered, "refused": part.refused, "received": part.received, "gap_s": part.gap_s}
        timeline.slice(process, f"slices of {part.side}", part.side, at_s + part.at_s, part.length_s, counts)
