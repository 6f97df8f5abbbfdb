"""A campaign on virtual time, by the scheduler that real ones have, on machines that fail: how it scales.

The bound below which no schedule can be, also one that knows every failure in advance: the longest unit; and
for the units of each requirement, and for all units, the time at which the machines that may measure them have been
up for as long as these units take. Work that a failure destroys is not part of it.
"""

import heapq
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from pinchpoint.campaign.schedule import Limits, Scheduler
from pinchpoint.model.campaign import Bench, Control, Requirement, Unit

_UP, _DOWN, _END = 0, 1, 2


@dataclass(frozen=True)
class Faults:
    """How often machines fail, and for how long; exponentially distributed. None: never."""

    between_s: float | None = None
    down_s: float = 600.0
    spread: float = 0.0  # standard deviation of a unit's real time, as a share of what was expected
    seed: int = 1


@dataclass
class Simulated:
    """What a campaign did in virtual time: its length, its losses, and the scheduler's own time."""

    makespan_s: float = 0.0
    bound_s: float = 0.0
    measured: int = 0
    lost: int = 0  # attempts that a failure destroyed
    controls: int = 0
    skipped: int = 0
    own_s: float = 0.0  # the scheduler's own time
    cost: float = 0.0
    finished: Counter[str] = field(default_factory=Counter)  # by unit: how often

    @property
    def own_per_unit_s(self) -> float:
        """The scheduler's own time for each measured unit."""
        return self.own_s / max(1, self.measured)


_NO_FAULTS: Final = Faults()
Answer = TypeVar("Answer")


def simulate(
    units: Sequence[Unit],
    benches: Sequence[Bench],
    limits: Limits,
    control: Control | None = None,
    faults: Faults = _NO_FAULTS,
    now_s: Callable[[], float] = time.perf_counter,
) -> Simulated:
    """Run the whole campaign. Time is virtual; `now_s` only says what the scheduler itself takes."""
    return _Simulation(units, benches, limits, control, faults, now_s).run()


class _Simulation:
    def __init__(
        self,
        units: Sequence[Unit],
        benches: Sequence[Bench],
        limits: Limits,
        control: Control | None,
        faults: Faults,
        now_s: Callable[[], float],
    ) -> None:
        self._units, self._benches = units, {bench.name: bench for bench in benches}
        self._faults, self._now_s = faults, now_s
        self._random, real = random.Random(faults.seed), random.Random(faults.seed + 1)
        self._real_s = {unit.name: unit.expected_s * max(0.1, real.gauss(1, faults.spread)) for unit in units}
        self._simulated = Simulated()
        self._scheduler = self._own(Scheduler, units, limits, control)
        self._events: list[tuple[float, int, int, str]] = []
        self._count = 0
        # By machine: which event ends its attempt, how long that takes, and when it began.
        self._attempt: dict[str, tuple[int, float, float]] = {}
        self._down: dict[str, list[tuple[float, float]]] = {}

    def run(self) -> Simulated:
        for name in self._benches:
            self._at(0.0, _UP, name)
            self._fail_after(0.0, name)
        while self._events:
            at_s, number, kind, machine = heapq.heappop(self._events)
            if kind == _END:
                self._ended(machine, number, at_s)
            elif kind == _DOWN:
                self._went(machine, at_s)
            else:
                self._own(self._scheduler.joined, self._benches[machine])
            self._start(self._scheduler.free() if kind == _DOWN else [machine], at_s)
            if self._own(self._scheduler.is_over):
                break
        self._simulated.skipped = len(self._scheduler.unmeasured)
        self._simulated.cost = self._scheduler.cost
        self._simulated.bound_s = self._bound([unit for unit in self._units if unit.name in self._simulated.finished])
        return self._simulated

    def _own(self, call: Callable[..., Answer], *arguments: object) -> Answer:
        """What the scheduler answers; it takes time of its own."""
        began = self._now_s()
        answer = call(*arguments)
        self._simulated.own_s += self._now_s() - began
        return answer

    def _at(self, at_s: float, kind: int, machine: str) -> int:
        self._count += 1
        heapq.heappush(self._events, (at_s, self._count, kind, machine))
        return self._count

    def _fail_after(self, at_s: float, machine: str) -> None:
        if self._faults.between_s is not None:
            self._at(at_s + self._random.expovariate(1 / self._faults.between_s), _DOWN, machine)

    def _went(self, machine: str, at_s: float) -> None:
        began_s = self._attempt.pop(machine, (0, 0.0, at_s))[2]
        if self._own(self._scheduler.left, machine, at_s - began_s) is not None:
            self._simulated.lost += 1
        back_s = at_s + self._random.expovariate(1 / self._faults.down_s)
        self._down.setdefault(machine, []).append((at_s, back_s))
        self._at(back_s, _UP, machine)
        self._fail_after(back_s, machine)

    def _ended(self, machine: str, number: int, at_s: float) -> None:
        which, took_s, _ = self._attempt.get(machine, (0, 0.0, 0.0))
        if which != number:
            return  # its machine has failed meanwhile
        del self._attempt[machine]
        unit = self._scheduler.finished(machine, took_s)
        if unit is self._scheduler.control_unit:
            self._simulated.controls += 1
            return
        self._simulated.measured += 1
        self._simulated.finished[unit.name] += 1
        self._simulated.makespan_s = at_s

    def _start(self, machines: Iterable[str], at_s: float) -> None:
        for machine in machines:
            if machine not in self._scheduler.benches or machine in self._attempt:
                continue
            unit = self._own(self._scheduler.take, machine, at_s)
            if unit is not None:
                took_s = self._real_s.get(unit.name, unit.expected_s)
                self._attempt[machine] = (self._at(at_s + took_s, _END, machine), took_s, at_s)

    def _bound(self, units: Sequence[Unit]) -> float:
        """See the module's text."""
        by_requirement: dict[Requirement, list[Unit]] = {}
        for unit in units:
            by_requirement.setdefault(unit.requirement, []).append(unit)
        longest_s = max((self._real_s[unit.name] for unit in units), default=0.0)
        bounds = [longest_s, self._time_for(units, list(self._benches))]
        for requirement, own in by_requirement.items():
            able = [name for name, bench in self._benches.items() if requirement.met_by(bench)]
            bounds.append(self._time_for(own, able))
        return max(bounds)

    def _time_for(self, units: Sequence[Unit], machines: Sequence[str]) -> float:
        """When these machines have been up for as long as the units take, together."""
        work_s = math.fsum(self._real_s[unit.name] for unit in units)
        changes = [(0.0, len(machines))]
        for name in machines:
            for from_s, to_s in self._down.get(name, ()):
                changes += [(from_s, -1), (to_s, 1)]
        return _reached(work_s, sorted(changes))


def _reached(work_s: float, changes: Sequence[tuple[float, int]]) -> float:
    """When so much is done, by machines of which so many more are up from each time on."""
    up, at_s = 0, 0.0
    for from_s, more in changes:
        if up and work_s <= up * (from_s - at_s):
            break
        work_s -= up * (from_s - at_s)
        up, at_s = up + more, from_s
    return at_s + work_s / up if up else at_s


def made_up(count: int, machines: int, seed: int = 1) -> tuple[list[Unit], list[Bench]]:
    """Units of one to ten minutes, a tenth of which need a label that a fifth of the machines have."""
    chance = random.Random(seed)
    anywhere, labelled = Requirement(cpus=2), Requirement(labels=("nic",), cpus=2)
    benches = [Bench(f"m{n:04}", labels=("nic",) if n % 5 == 0 else (), cpus=4) for n in range(machines)]
    units = [
        Unit(f"u{n:06}", f"u{n:06}", 1, labelled if n % 10 == 0 else anywhere, chance.uniform(60, 600))
        for n in range(count)
    ]
    return units, benches
