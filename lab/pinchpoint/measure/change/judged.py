"""What samples say of a change: which connections broke, and when the balance was right again. Pure.

Counts become windows of at least `WINDOW_S`, long enough for each backend to have `EXPECTED` connections, which
Pearson's chi-square test needs. A window is right where no connection failed that was due in it, where the backends
that serve have equal shares as far as chance allows, and where one that is away has none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from pinchpoint.engine.connections import Sample
from pinchpoint.measure.change import Changed, Event
from pinchpoint.measure.served import equal_by_chance
from pinchpoint.model import units
from pinchpoint.model.measurement import Metric
from pinchpoint.model.scenario import Scheduler, Service
from pinchpoint.model.study import Bound

WINDOW_S: Final = 0.1
EXPECTED: Final = 20  # connections of each backend in a window
CHANCE: Final = 1e-5
"""Of equal shares as uneven as this; of a hundred windows of a fair hash one in a thousand is taken."""
CYCLE_S: Final = 1.0  # after which each tuple of a hash comes again
_EDGE_S: Final = 0.005  # by which a sample may be early for the window that it ends


@dataclass(frozen=True)
class Happened:
    """When something was done, seconds since the first connection was due."""

    begun_s: float
    done_s: float  # when it was in force; of what happens to a backend the same


@dataclass(frozen=True)
class Phase:
    """From a change to the next one, or to the end."""

    name: str
    from_s: float
    until_s: float
    away: int | None  # the backend that is not to serve


@dataclass(frozen=True)
class Window:
    """What became of the connections that were due in it."""

    from_s: float
    until_s: float
    failed: float
    dealt: tuple[float, ...]  # connections answered, by backend


def phases(changed: Changed, happened: Sequence[Happened]) -> tuple[Phase, ...]:
    """Those after each change."""
    event, ends = changed.happens, [*(change.begun_s for change in happened[1:]), changed.opening_s]
    names, away = ("right after", "right after return"), changed.backend if event.returns else None
    rows = zip(names, happened, ends, (away, None), strict=False)
    return tuple(Phase(name, change.begun_s, until_s, backend) for name, change, until_s, backend in rows)


class Course:
    """Cumulative counts as functions of the time at which connections were due, from one sample at least."""

    def __init__(self, changed: Changed, samples: Sequence[Sample], backends: int) -> None:
        self._changed, self._samples, self.backends = changed, samples, backends
        self.window_s = window_s(changed, backends)

    def _at(self, due_s: float) -> Sample:
        """The first sample not earlier; the last one if there is none."""
        late = (sample for sample in self._samples if sample.elapsed_s >= due_s - _EDGE_S)
        return next(late, self._samples[-1])

    def failed(self, due_s: float) -> int:
        """Connections due until then that failed. One that times out does so when it has waited for that long."""
        changed = self._changed
        soon, late = self._at(due_s + changed.hold_s), self._at(due_s + changed.hold_s + changed.timeout_s)
        timed_out = late.timed_out_connecting + late.timed_out_answering + late.timed_out_closing
        return soon.refused + soon.reset + timed_out

    def dealt(self, due_s: float) -> tuple[int, ...]:
        """Connections due until then that were answered, by backend."""
        counts = self._at(due_s + self._changed.hold_s).backends
        return (*counts, *[0] * (self.backends - len(counts)))

    def windows(self, phase: Phase) -> tuple[Window, ...]:
        """The windows of a phase, from the first sample in it."""
        in_phase = (sample.elapsed_s for sample in self._samples if sample.elapsed_s >= phase.from_s)
        first_s, length_s = next(in_phase, phase.until_s), self.window_s
        count = max(0, int((phase.until_s - first_s) / length_s))
        return tuple(self._window(first_s + n * length_s, first_s + (n + 1) * length_s) for n in range(count))

    def _window(self, from_s: float, until_s: float) -> Window:
        dealt = zip(self.dealt(from_s), self.dealt(until_s), strict=True)
        failed = self.failed(until_s) - self.failed(from_s)
        return Window(from_s, until_s, failed, tuple(after - before for before, after in dealt))

    def moved(self, from_s: float, but: int | None) -> tuple[int, int]:
        """Of the tuples that came again within a cycle, without those of `but`: those that moved, and all."""
        before, after = self._at(from_s), self._at(from_s + CYCLE_S + self._changed.hold_s)
        left = _without(after.left, but) - _without(before.left, but)
        return left, left + _without(after.kept, but) - _without(before.kept, but)


def _without(counts: Sequence[int], but: int | None) -> int:
    return sum(count for backend, count in enumerate(counts) if backend != but)


def window_s(changed: Changed, backends: int) -> float:
    """The length of a window, a multiple of the distance of samples."""
    return WINDOW_S * max(1, ceil(EXPECTED * backends / changed.rate_cps / WINDOW_S))


def is_right(window: Window, away: int | None) -> bool:
    """Whether nothing failed and the backends that serve have equal shares."""
    served = [count for number, count in enumerate(window.dealt) if number != away]
    strayed = 0 if away is None else window.dealt[away]
    if window.failed > 0 or strayed > 0 or not sum(served):
        return False
    return equal_by_chance(served) >= CHANCE


def right_after(windows: Sequence[Window], phase: Phase) -> float | None:
    """Seconds from the change to the first window from which on all are right; None: the last one is not."""
    verdicts = [is_right(window, phase.away) for window in windows]
    if not verdicts or not verdicts[-1]:
        return None
    wrong = [number for number, right in enumerate(verdicts) if not right]
    return windows[wrong[-1]].until_s - phase.from_s if wrong else 0.0


def metrics(
    changed: Changed, service: Service, happened: Sequence[Happened], samples: Sequence[Sample]
) -> Iterator[Metric]:
    """All figures, from samples of which the last one has every connection's end. None without a sample."""
    if not samples:
        return
    course, after = Course(changed, samples, len(service.backends)), phases(changed, happened)
    yield from _broken(changed, happened, course, samples[-1])
    yield from (_right(course, phase) for phase in after)
    yield from _shares(course, after)
    yield from _moved(changed, service, course, after, samples[-1])


def _broken(changed: Changed, happened: Sequence[Happened], course: Course, last: Sample) -> Iterator[Metric]:
    ways = {
        "refused": last.refused,
        "reset": last.reset,
        "timed out connecting": last.timed_out_connecting,
        "timed out answering": last.timed_out_answering,
        "timed out closing": last.timed_out_closing,
    }
    broken = sum(ways.values())
    share = f"{units.quantity(broken / max(1, last.opened), 'share')} of {last.opened:,} connections"
    cautions = []
    if happened and (early := course.failed(happened[0].begun_s - changed.hold_s - WINDOW_S)):
        cautions.append(f"{early:,} of them failed before anything had happened")
    if last.shortfall:
        cautions.append(f"{last.shortfall:,} more were not opened: the engine's core was taken away")
    yield Metric("broken", "count", float(broken), note=share, cautions=tuple(cautions))
    yield from (Metric(name, "count", float(count)) for name, count in ways.items())


def _right(course: Course, phase: Phase) -> Metric:
    time_s = right_after(course.windows(phase), phase)
    if time_s is None:
        watched_s = phase.until_s - phase.from_s
        note = "at least: the balance was not right for as long as it was watched"
        return Metric(phase.name, "s", watched_s, watched_s, None, note, Bound.AT_LEAST)
    return Metric(phase.name, "s", time_s, note=f"known to {course.window_s:.1f} s", bound=Bound.FOUND)


def _shares(course: Course, phases: Sequence[Phase]) -> Iterator[Metric]:
    """Of what was answered in the second half of each phase, when whatever happens at once has happened."""
    for phase, when in zip(phases, ("", " after return"), strict=False):
        windows = course.windows(phase)
        counts = [sum(dealt) for dealt in zip(*(window.dealt for window in windows[len(windows) // 2 :]), strict=True)]
        for number, count in enumerate(counts if sum(counts) else ()):
            yield Metric(f"share of backend {number}{when}", "share", count / sum(counts))


def _moved(
    changed: Changed, service: Service, course: Course, phases: Sequence[Phase], last: Sample
) -> Iterator[Metric]:
    note = "two backends answered requests of the same one"
    yield Metric("moved connections", "count", float(last.wrong_backend), note=note)
    if service.scheduler is not Scheduler.HASH:
        return
    joins = 1 / len(service.backends)
    least = {"right after": joins if changed.happens is Event.ADD else 0.0, "right after return": joins}
    for phase, name in zip(phases, ("tuples moved", "tuples moved at return"), strict=False):
        moved, whole = course.moved(phase.from_s, phase.away)
        if whole:
            have_to = units.quantity(least[phase.name], "share")
            note = f"{moved:,} of {whole:,} whose backend stayed; at least {have_to} have to"
            yield Metric(name, "share", moved / whole, note=note)
