"""The live bench of a task: building it, its listener, and where its results are stored."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from pinchpoint.account.connections import ledger_of, witness_of
from pinchpoint.account.validity import VALID, Judgement, LoadJudgement
from pinchpoint.bench.builder import Builder
from pinchpoint.dut.device import Live
from pinchpoint.dut.setup import EngineEnd, Setup, collectors, witnesses
from pinchpoint.engine import protocol
from pinchpoint.engine.connections import Account
from pinchpoint.engine.process import ProcessInstrument
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.host.priority import preferred
from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.measurement import Measurement, Metric
from pinchpoint.model.result import Ceiling, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Record, ThreadLoad, Trial
from pinchpoint.observe.cpu import BenchProcesses, CpuTime
from pinchpoint.observe.snapshot import Bracket, Collector

Kept = TypeVar("Kept", bound=Record)


class Listener:
    """What is happening, for whoever wants to show it. Does nothing; the progress display overrides what it shows."""

    def scenario_begins(self, scenario: Scenario, number: int, total: int) -> None:
        """`number` of `total` scenarios starts."""

    def building(self, number: int, total: int, what: str) -> None:
        """One action of the bench's plan starts."""

    def phase(self, name: str, expected_trials: int) -> None:
        """A phase starts that will take about `expected_trials` more trials."""

    def trial_begins(self, trial_id: str, duration_s: float, load_fps: float) -> None:
        """The engine starts to send."""

    def trial_ends(self, trial: Trial) -> None:
        """A trial is judged and stored."""

    def measurement_begins(self, name: str, expected_s: float) -> None:
        """A workload or a build starts that will take about `expected_s`; `name` is its id."""

    def measurement_ends(self, measurement: Measurement) -> None:
        """A workload or a build is accounted for and stored."""

    def scenario_ends(self, result: ScenarioResult) -> None:
        """Everything about a scenario is known, also that it is impossible, needless or failed."""

    def run_left(self, left_s: float) -> None:
        """What the rest of the whole run will take, as estimated now."""


class Interrupted(PinchpointError):
    """The user asked to stop; what was measured so far is saved."""

    exit_code = 130


class Stoppable(Protocol):
    """Whatever measures; a signal handler tells it to stop."""

    def stop(self) -> None:
        """End what runs; the measure then raises Interrupted once its account is kept."""


class Undoable:
    """What a signal finds while something is built or tried that leaves nothing to keep: KeyboardInterrupt ends it."""

    def __init__(self) -> None:
        self._is_over = False

    def stop(self) -> None:
        """Raise KeyboardInterrupt from whatever runs; nothing any more once it is over."""
        if not self._is_over:
            raise KeyboardInterrupt

    def end(self) -> None:
        """What follows must not be cut short, such as the storing of a result."""
        self._is_over = True


def _forget(*_: object) -> None:
    """Keep nothing."""


def bracket_of(collectors: Sequence[Collector], note_facts: Callable[[Mapping[str, str]], None] = _forget) -> Bracket:
    """Round whatever happens, on a bench or on a device that runs already; what cannot be read is noted."""
    bracket = Bracket(collectors)
    note_facts({f"cannot observe {name}": why for name, why in bracket.cannot.items()})
    return bracket


@dataclass(frozen=True)
class Task:
    """What a scenario is measured with: who is shown it, who may stop it, where its findings go, and what is known.

    Left out, nothing is shown, kept or known.
    """

    listener: Listener = field(default_factory=Listener)
    on_stoppable: Callable[[Stoppable], None] = _forget
    keep: Callable[[Record], None] = _forget
    note_plan: Callable[[str, tuple[str, ...]], None] = _forget
    note_facts: Callable[[Mapping[str, str]], None] = _forget
    note_ceilings: Callable[[str, tuple[Ceiling, ...]], None] = _forget
    attach: Callable[[str, str], object] = _forget
    engine_log: Path | None = None
    records: Sequence[Record] = ()  # of an interrupted run
    ceilings: tuple[Ceiling, ...] | None = None  # that its search began with; None: that is not recorded

    def recorded(self, kind: type[Kept]) -> list[Kept]:
        """The records of that kind, of an interrupted run."""
        return [record for record in self.records if isinstance(record, kind)]


@dataclass(frozen=True)
class Begun:
    """A measurement that is under way."""

    scenario: Scenario
    id: str  # unique within the run
    repeat: int = 1
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    began_s: float = field(default_factory=time.monotonic)

    def ended(
        self,
        metrics: Iterable[Metric],
        account: Mapping[str, object],
        observed: Mapping[str, float],
        *,
        threads: Sequence[ThreadLoad] = (),
        judged: Judgement = VALID,
        load: Account | None = None,
    ) -> Measurement:
        """The whole measurement; its ledger and its witness are those of a `load` of connections."""
        due = judged.due if isinstance(judged, LoadJudgement) else None
        return Measurement(
            id=self.id,
            scenario=self.scenario.name,
            kind=self.scenario.measure.kind,
            repeat=self.repeat,
            started=self.started,
            wall_s=time.monotonic() - self.began_s,
            metrics=tuple(metrics),
            account=account,
            observed=observed,
            threads=tuple(threads),
            validity=judged.validity,
            reason=judged.reason,
            cause=judged.cause,
            ledger=ledger_of(load.of_client(), due) if load else None,
            witness=witness_of(load) if load else None,
        )


@dataclass(frozen=True)
class Standing:
    """Everything that a measure needs of a bench that stands."""

    setup: Setup
    live: Live  # the device
    engine: Sequence[str]  # the command that starts one
    task: Task
    began: float  # on the monotonic clock, building included
    ceilings: Sequence[Ceiling] = ()  # the generator's own on a bench of this shape, one for each mode of the cores

    @property
    def scenario(self) -> Scenario:
        """The scenario that the bench was built for."""
        return self.setup.scenario

    @property
    def host(self) -> Host:
        """The machine on which it stands."""
        return self.setup.places.machine

    @property
    def cpus(self) -> tuple[int, ...]:
        """Its own, on the device's machine: of what sends and of what forwards."""
        return tuple(sorted(self.scenario.cpus_at(self.scenario.site)))

    @property
    def wall_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began

    def bracket(self, *more: Collector) -> Bracket:
        """Round a trial: all that can be counted on this bench, and `more`. What cannot is noted among its facts."""
        return bracket_of([*collectors(self.setup, self.live), *more], self.task.note_facts)

    def witness_bracket(self) -> Bracket:
        """Round windows of a trial: what is cheap enough to read while frames are sent."""
        return bracket_of(witnesses(self.setup, self.live))

    def host_bracket(self) -> Bracket:
        """Round something that is done to the bench: the time of its CPUs and of its processes."""
        return bracket_of(self.host_time(self.cpus))

    def host_time(self, cpus: Iterable[int]) -> tuple[Collector, Collector]:
        """The time of the bench's processes, and of these CPUs of the device's host.

        The CPUs are nearest to the traffic: reading every process takes time, in a guest that of its own CPU.
        """
        times = CpuTime(self.host, tuple(sorted(set(cpus))))
        return BenchProcesses(self.host, self.setup.places.bench_id), times


def engine_process(bench: Standing, ports: protocol.Open, host: Host, command: Sequence[str]) -> ProcessInstrument:
    """An engine of the bench, to be started on that host."""
    environment = dict(bench.setup.places.environment)
    return ProcessInstrument(ports, host, command=command, environment=environment, log=bench.task.engine_log)


@contextmanager
def live_bench(setup: Setup, engine: Sequence[str], task: Task) -> Iterator[Standing]:
    """The bench stands inside the block, its device open to be asked. Raises what building raises."""
    began = time.monotonic()
    with preferred(), standing_bench(setup, task.listener), opened(setup, engine, task, began) as bench:
        yield bench


@contextmanager
def opened(setup: Setup, engine: Sequence[str], task: Task, began: float) -> Iterator[Standing]:
    """A bench that stands, its device open to be asked inside the block."""
    live = setup.bench.open()
    try:
        yield Standing(setup, live, engine, task, began)
    finally:
        live.close()


@contextmanager
def standing_bench(setup: Setup, listener: Listener) -> Iterator[Builder]:
    """The bench stands inside the block, on all of its hosts, and is gone after it, however the block ends."""
    with ExitStack() as stack:
        for end in setup.engines:
            if end.resources:
                stack.enter_context(_engine_end(end, setup.places.bench_id, listener))
        yield stack.enter_context(_device_bench(setup, listener))


@contextmanager
def _engine_end(end: EngineEnd, bench_id: str, listener: Listener) -> Iterator[None]:
    """What an engine's host has of the bench."""
    builder = Builder(bench_id, end.host)
    builder.apply(end.resources, listener.building)
    with _undone(builder, f"{end.site.name}: "):  # a host that is lost undoes it itself: it is not waited for here
        yield


@contextmanager
def _device_bench(setup: Setup, listener: Listener) -> Iterator[Builder]:
    places = setup.places
    builder = Builder(places.bench_id, places.outside, guests=places.guests)
    try:
        builder.apply(setup.resources, listener.building)
    except CommandFailed as error:
        if refusal := setup.bench.refusal(error):
            raise refusal from error
        raise
    with _undone(builder):
        yield builder


@contextmanager
def _undone(builder: Builder, where: str = "") -> Iterator[None]:
    """What was built is removed at the end; what remains after an error is a note of that error."""
    try:
        yield
    except BaseException as error:
        try:
            builder.undo()
        except PinchpointError as left:
            error.add_note(f"{where}{left}")  # what failed first is what the user must know first
        raise
    builder.undo()


RunUnit = Callable[..., ScenarioResult]
"""What measures a scenario on a bench of its own, called as run/scenario.py's `run_scenario` without its machines."""
