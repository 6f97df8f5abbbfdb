"""A bench that stands, and where the findings about its scenario go."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pinchpoint.dut.device import Live
from pinchpoint.dut.setup import Setup, collectors, witnesses
from pinchpoint.host.interface import Host
from pinchpoint.measure.listener import Listener
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import Ceiling, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import Trial
from pinchpoint.observe.cpu import BenchProcesses, CpuTime
from pinchpoint.observe.snapshot import Bracket, Collector


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


@dataclass(frozen=True)
class Record:
    """Where a scenario's findings go as they are made."""

    keep: Callable[[Trial], None]
    keep_measurement: Callable[[Measurement], None]
    note_plan: Callable[[str, tuple[str, ...]], None]
    note_facts: Callable[[Mapping[str, str]], None]
    attach: Callable[[str, str], object]
    engine_log: Path | None
    note_ceilings: Callable[[str, tuple[Ceiling, ...]], None] = lambda scenario, ceilings: None


@dataclass(frozen=True)
class Recorded:
    """What an interrupted run already knows about a scenario."""

    trials: Sequence[Trial] = ()
    measurements: Sequence[Measurement] = ()
    ceilings: tuple[Ceiling, ...] | None = None  # that its search began with; None: that is not recorded


@dataclass(frozen=True)
class Standing:
    """Everything that a measure needs of a bench that stands."""

    setup: Setup
    live: Live  # the device
    engine: Sequence[str]  # the command that starts one
    record: Record
    listener: Listener
    began: float  # on the monotonic clock, building included
    recorded: Recorded = field(default_factory=Recorded)
    on_stoppable: Callable[[Stoppable], None] = lambda _: None
    ceilings: Sequence[Ceiling] = ()  # the generator's own on a bench of this shape, one for each mode of the cores

    @property
    def scenario(self) -> Scenario:
        """The scenario that the bench was built for."""
        return self.setup.scenario

    @property
    def host(self) -> Host:
        """The machine on which it stands."""
        return self.setup.places.machine

    def bracket(self, *more: Collector) -> Bracket:
        """Round a trial: all that can be counted on this bench, and `more`. What cannot is noted among its facts."""
        bracket = Bracket([*collectors(self.setup, self.live), *more])
        self.record.note_facts({f"cannot observe {name}": why for name, why in bracket.cannot.items()})
        return bracket

    def witness_bracket(self) -> Bracket:
        """Round windows of a trial: what is cheap enough to read while frames are sent."""
        return Bracket(witnesses(self.setup, self.live))

    def host_bracket(self, cpus: Iterable[int]) -> Bracket:
        """Round something that is done to the bench: the time of these CPUs and of its processes."""
        return Bracket(self.host_time(cpus))

    def host_time(self, cpus: Iterable[int]) -> tuple[Collector, Collector]:
        """The time of these CPUs of the device's host, and of the bench's processes."""
        times = CpuTime(self.host, tuple(sorted(set(cpus))))
        return times, BenchProcesses(self.host, self.setup.places.bench_id)


RunUnit = Callable[..., ScenarioResult]
"""What measures a scenario on a bench of its own, called as run/scenario.py's `run_scenario` without its machines."""
