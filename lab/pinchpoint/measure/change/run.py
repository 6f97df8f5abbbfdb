"""The measure `change`: connections are opened at a steady rate while something happens.

Counts become windows of at least `WINDOW_S`, long enough for each backend to have `EXPECTED` connections, which
Pearson's chi-square test needs. A window is right where no connection failed that was due in it, where the backends
that serve have equal shares as far as chance allows, and where one that is away has none.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from math import ceil
from typing import ClassVar, Final

import msgspec

from pinchpoint.account.validity import by_account
from pinchpoint.dut.device import Keys
from pinchpoint.dut.services import Rebalanced, Reconfiguration
from pinchpoint.engine.connections import Account, ConnectionsRequest, Load, Outage, Sample, watched
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.measure.kind import Arrays, MeasureKind, asked
from pinchpoint.measure.loop import NOTHING_OF_THE_DEVICE, Loop, once
from pinchpoint.measure.served import Ends, ends_of, equal_by_chance
from pinchpoint.measure.standing import Begun, Standing
from pinchpoint.measure.summary import result_of
from pinchpoint.measure.traffic import judged
from pinchpoint.model import units
from pinchpoint.model.errors import EngineError, InputError, PinchpointError
from pinchpoint.model.measurement import Bound, Measurement, Metric
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Range, Scenario, Service
from pinchpoint.observe.snapshot import Observation

SETUP_S = 1.0  # of the engine
LOOK_S = 0.01
BEFORE_END_S = 0.2
STOPPED_AGAIN_S = 0.2

Step = tuple[float, Callable[[], None]]
"""When to do what, seconds since the first connection was due."""
WINDOW_S: Final = 0.1
EXPECTED: Final = 20  # connections of each backend in a window
CHANCE: Final = 1e-5
"""Of equal shares as uneven as this; of a hundred windows of a fair hash one in a thousand is taken."""
CYCLE_S: Final = 1.0  # after which each tuple of a hash comes again
_EDGE_S: Final = 0.005  # by which a sample may be early for the window that it ends


class Event(StrEnum):
    """What happens while connections are opened."""

    SILENT = "silent"
    RESET = "reset"
    REMOVE = "remove"
    ADD = "add"
    RELOAD = "reload"

    @property
    def asks(self) -> Reconfiguration | None:
        """What the balancer has to be able to do; None: it happens to a backend."""
        return None if self in (Event.SILENT, Event.RESET) else Reconfiguration(self)

    @property
    def returns(self) -> bool:
        """Whether the backend comes back after `for_s`."""
        return self in (Event.SILENT, Event.RESET, Event.REMOVE)


_DOES: Final = {
    Event.SILENT: "the backend answers nothing for a time, as a machine without power",
    Event.RESET: "it answers everything by a reset, as a machine on which nothing listens",
    Event.REMOVE: "the balancer is made to remove it, and to add it again",
    Event.ADD: "the balancer begins without it and is made to add it",
    Event.RELOAD: "the balancer is made to load its configuration again",
}


@dataclass(frozen=True)
class Changed:
    """What happens, and the connections that see it."""

    kind: ClassVar[str] = "change"
    event: str
    backend: int
    at_s: float
    for_s: float
    after_s: float
    rate_cps: float
    requests: int
    hold_s: float
    timeout_s: float

    @property
    def happens(self) -> Event:
        """The event as a value of `Event`."""
        return Event(self.event)

    @property
    def opening_s(self) -> float:
        """For how long connections are opened."""
        return self.at_s + (self.for_s if self.happens.returns else 0.0) + self.after_s


CHANGE: Final = Table("change",
    "Connections are opened at a steady rate while something happens to the balancer or to a backend: which break, and "
    "how long it takes until the others are dealt as the scheduler promises. "
    + " ".join(f'"{word}": {does}.' for word, does in _DOES.items()), (
    Key("event", kinds.word(*Event), "What happens.", Event.SILENT.value),
    Key("backend", kinds.integer(0, 255), "The backend that it happens to: its number, from 0.", 0),
    Key("at_s", kinds.number(1, 3600), "When it happens, seconds since the first connection.", 2.0),
    Key("for_s", kinds.number(1, 3600), "How long the backend is away, seconds; not with add and reload.", 3.0),
    Key("after_s", kinds.number(1, 3600), "How long connections are opened after the last change, seconds.", 3.0),
    Key("rate_cps", kinds.number(10, 100_000), "Connections per second.", 500.0),
    Key("requests", kinds.integer(1, 100), "Requests of each, which one backend has to answer.", 2),
    Key("hold_s", kinds.number(0, 60), "How long each is open before its first request, seconds.", 0.0),
    Key("timeout_s", kinds.number(0.01, 60), "A connection that waits longer has failed, seconds.", 1.0),
), measures=("change",))  # fmt: skip


def check_keys(source: Source, changed: Values, arrays: Arrays, keys: Keys) -> None:
    """The backend is there, and the device can do what is asked of it."""
    backends = len(arrays["backend"])
    if (backend := changed.get("backend")) is not None and backends and backend >= backends:
        source.mismatch(("change", "backend"), f"a number from 0 to {backends - 1}", backend)
    if "event" not in changed or keys.services is None:
        return
    asked, can = Event(changed["event"]).asks, keys.services.changes
    if asked and asked not in can:
        words = [f'"{event}"' for event in Event if event.asks is None or event.asks in can]
        source.mismatch(("change", "event"), f"{' or '.join(words)} of this device", changed["event"])


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


def is_right(window: Window, away: int | None, weights: Sequence[int] = ()) -> bool:
    """Whether nothing failed and the backends that serve have their shares, by weights or equal ones."""
    served = [count for number, count in enumerate(window.dealt) if number != away]
    weights = [weight for number, weight in enumerate(weights) if number != away]
    strayed = 0 if away is None else window.dealt[away]
    is_wrong = window.failed > 0 or strayed > 0 or not sum(served)
    return not is_wrong and equal_by_chance(served, weights) >= CHANCE


def right_after(windows: Sequence[Window], phase: Phase, weights: Sequence[int]) -> float | None:
    """Seconds from the change to the first window from which on all are right; None: the last one is not."""
    verdicts = [is_right(window, phase.away, weights) for window in windows]
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
    yield from (_right(course, phase, service.weights) for phase in after)
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
        cautions.append(f"{last.shortfall:,} more were not opened: the host took the engine's core")
    yield Metric("broken", "count", float(broken), note=share, cautions=tuple(cautions))
    yield from (Metric(name, "count", float(count)) for name, count in ways.items())


def _right(course: Course, phase: Phase, weights: Sequence[int]) -> Metric:
    time_s = right_after(course.windows(phase), phase, weights)
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
    if not service.scheduler.is_hash:
        return
    joins = 1 / len(service.backends)
    least = {"right after": joins if changed.happens is Event.ADD else 0.0, "right after return": joins}
    for phase, name in zip(phases, ("tuples moved", "tuples moved at return"), strict=False):
        moved, whole = course.moved(phase.from_s, phase.away)
        if whole:
            have_to = units.quantity(least[phase.name], "share")
            note = f"{moved:,} of {whole:,} whose backend stayed; at least {have_to} have to"
            yield Metric(name, "share", moved / whole, note=note)


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    changed = asked(scenario, Changed)
    return changed.opening_s + changed.timeout_s + changed.hold_s + SETUP_S


def measure_change(bench: Standing) -> ScenarioResult:
    """Open the connections, let it happen, and judge. Raises EngineError or BenchError where nothing can be said."""
    measurement = once(bench, _measure)
    failed = measurement.reason if measurement.validity in NOTHING_OF_THE_DEVICE else ""
    return result_of(bench.scenario, (), bench.wall_s, () if failed else measurement.metrics, failed=failed)


def _measure(bench: Standing, loop: Loop[Measurement]) -> Measurement:
    changed = asked(bench.scenario, Changed)
    bench.task.on_stoppable(loop)
    begun = Begun(bench.scenario, loop.begin(expected_s(bench.scenario)))
    with ends_of(bench) as ends:
        service = ends.service
        happened, samples, account, seen = _under_connections(bench, changed, ends, loop.check)
    told = {
        "change": asdict(changed),
        "happened": [asdict(event) for event in happened],
        "samples": msgspec.to_builtins(samples),
        "engine": msgspec.to_builtins(account),
    }
    figures, counted = metrics(changed, service, happened, samples), by_account(account)
    return judged(begun.ended(figures, told, seen.flat(), judged=counted, load=account), seen.elapsed_s)


def _under_connections(
    bench: Standing, changed: Changed, ends: Ends, check: Callable[[], None]
) -> tuple[list[Happened], list[Sample], Account, Observation]:
    """Let it happen while connections are opened, and see what the host does meanwhile.

    The balancer is left with all of its backends.
    """
    ports = _ports(changed, ends.service)
    bracket, seen = bench.host_bracket(), list[Observation]()
    count, asks = round(changed.rate_cps * changed.opening_s), (changed.rate_cps, changed.requests, changed.timeout_s)
    load = Load(count, *asks, hold_s=changed.hold_s, client_ports=ports)
    ends.prepare(load)
    request = watched(ends.request(load), _outages(changed), by_tuple=ports is not None)
    with ExitStack() as restored:
        steps = _steps(bench, changed, restored)
        load_opened = restored.enter_context(opening(ends, load, request))
        # The host is watched until just before the last connection is due: what follows is waiting.
        last: Step = (changed.opening_s - BEFORE_END_S, lambda: seen.append(bracket.close()))
        happened = followed(load_opened, [(0.0, bracket.open), *steps, last], check)
    account = load_opened.account()
    account.of_client(ends.service.address)
    return happened[1 : 1 + len(steps)], load_opened.samples, account, seen[0]


class Opening:
    """A load under way in a thread of its own."""

    def __init__(self, ends: Ends, load: Load, request: ConnectionsRequest) -> None:
        """It begins at once."""
        self.samples: list[Sample] = []
        self.began: float | None = None  # when the first connection was due, on the monotonic clock
        self._ends, self._pool = ends, ThreadPoolExecutor(1, "connections")
        self._account = self._pool.submit(ends.connect, load, request, self._heard)

    def is_running(self) -> bool:
        """Whether connections are opened, or wait for their ends."""
        return not self._account.done()

    def account(self) -> Account:
        """The whole account, once it has ended. Raises EngineError."""
        return self._account.result()

    def end(self) -> None:
        """End it if it runs."""
        while self.is_running():
            with suppress(PinchpointError):  # it has gone: `account` says how
                self._ends.stop()
            wait([self._account], timeout=STOPPED_AGAIN_S)
        self._pool.shutdown()

    def _heard(self, sample: Sample) -> None:
        # A sample is read late, never early: the earliest start is the nearest to the truth.
        began = time.monotonic() - sample.elapsed_s
        self.began = began if self.began is None else min(self.began, began)
        self.samples.append(sample)


@contextmanager
def opening(ends: Ends, load: Load, request: ConnectionsRequest) -> Iterator[Opening]:
    """The load runs inside the block, at most."""
    begun = Opening(ends, load, request)
    try:
        yield begun
    finally:
        begun.end()


def _ports(changed: Changed, service: Service) -> Range | None:
    """Of each client, so that each tuple comes again after a cycle; None where nothing hangs on the tuple."""
    if not service.scheduler.is_hash:
        return None
    return Range(service.client_ports.first, max(1, round(changed.rate_cps * CYCLE_S / service.clients.count)))


def _outages(changed: Changed) -> list[Outage]:
    if changed.happens not in (Event.SILENT, Event.RESET):
        return []
    return [Outage(changed.backend, changed.at_s, changed.at_s + changed.for_s, changed.happens is Event.RESET)]


def _nothing() -> None:
    """What happens to a backend, the engine does by itself."""


def _steps(bench: Standing, changed: Changed, restored: ExitStack) -> list[Step]:
    """The changes; `restored` gets what undoes them. Raises InputError if the balancer cannot."""
    event, backend = changed.happens, changed.backend
    if event.asks is None:
        return [(changed.at_s, _nothing), (changed.at_s + changed.for_s, _nothing)]
    balancer: Rebalanced | None = bench.live.rebalanced()
    if balancer is None:
        raise InputError(f'{bench.scenario.path}: change.event = "{event}": the device cannot do it')
    if event is Event.RELOAD:
        return [(changed.at_s, balancer.reload)]
    restored.callback(balancer.add, backend)
    adding = partial(balancer.add, backend)
    if event is Event.ADD:
        balancer.remove(backend)
        return [(changed.at_s, adding)]
    return [(changed.at_s, partial(balancer.remove, backend)), (changed.at_s + changed.for_s, adding)]


def followed(load: Opening, steps: Sequence[Step], check: Callable[[], None]) -> list[Happened]:
    """Take each step at its time until the load has ended. Raises EngineError if it ends too early.

    The last step may be taken when it has: how long ago the first connection was due, is known to be no less.
    """
    left, happened = deque(steps), list[Happened]()
    while load.is_running():
        check()
        if left and load.began is not None and time.monotonic() - load.began >= left[0][0]:
            happened.append(_act(load.began, *left.popleft()))
        else:
            time.sleep(LOOK_S)
    load.account().of_client()  # raises what ended it
    if len(left) > 1:
        raise EngineError("the load ended before everything had happened", "see its log in the run folder")
    for _, act in left:
        act()
    return happened


def _act(began: float, at_s: float, act: Callable[[], None]) -> Happened:
    if act is _nothing:
        return Happened(at_s, at_s)
    begun_s = time.monotonic() - began
    act()
    return Happened(begun_s, time.monotonic() - began)


MEASURE: Final = MeasureKind(
    made=Changed,
    finds="which connections break when a backend leaves or comes, and when the balance is right again",
    table=lambda _: CHANGE,
    run=measure_change,
    expected_s=expected_s,
    main=("broken", "refused", "reset", "timed out connecting", "timed out answering", "timed out closing",
          "right after", "right after return", "moved connections", "tuples moved", "tuples moved at return",
          "share of backend "),
    needs={"port": 2, "backend": 1},
    check=check_keys,
    made_of="connection",
    has_limit=False,
    is_served=True,
)  # fmt: skip
