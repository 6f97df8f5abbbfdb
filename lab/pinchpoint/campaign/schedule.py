"""Which unit a free machine measures next, and a forecast by that; pure.

List scheduling: whenever a machine is free, it takes from the waiting units that it may measure the one of
the highest priority; of these one that the fewest machines for its work may measure; of these the longest (LPT;
Graham, "Bounds on Multiprocessing Timing Anomalies", 1969). With a budget the coarse picture comes before its
details instead, and what no time or money is left for is skipped.
"""

import heapq
import math
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from pinchpoint.model.campaign import Bench, Campaign, Control, Requirement, Unit
from pinchpoint.model.groups import grouped
from pinchpoint.model.result import Outcome

MOST_LOST = 10  # machines that vanished under one unit: then it is the unit; chance loses one of 100,000 five times
MOST_FAILURES = 3  # in a row on one machine, of different units: then it is the machine

_Order = tuple[float, ...]
_Entry = tuple[_Order, int, Unit]


@dataclass(frozen=True)
class Limits:
    """What a campaign may take."""

    time_s: float | None = None
    cost: float | None = None
    retries: int = 1


@dataclass
class _Waiting:
    """Units of one requirement."""

    requirement: Requirement
    entries: list[_Entry] = field(default_factory=list)  # sorted, the next one first
    work_s: float = 0.0
    machines: int = 0

    def remove(self, entry: _Entry) -> Unit:
        """That unit waits no more."""
        self.entries.remove(entry)
        self.work_s -= entry[2].expected_s
        return entry[2]


class Scheduler:
    """The state of a campaign, as far as it decides what is measured next."""

    def __init__(
        self, units: Iterable[Unit], limits: Limits, control: Control | None = None, cost: float = 0.0
    ) -> None:
        """`cost` is what earlier starts of the campaign have cost."""
        self._limits, self._control = limits, control
        self._waiting: dict[Requirement, _Waiting] = {}
        self._benches: dict[str, Bench] = {}
        self._fitting: dict[str, list[_Waiting]] = {}
        self._banned: dict[str, dict[str, str]] = {}  # unit -> machine -> why not there
        self._failures, self._lost = Counter[str](), Counter[str]()  # of a unit
        self._in_a_row: dict[str, set[str]] = {}  # units that failed on a machine since one did not
        self._running: dict[str, Unit] = {}  # by machine
        self._controlled_s: dict[str, float] = {}
        self._just_controlled: set[str] = set()  # never twice in a row, however long it takes
        self._count = 0
        self._ratio = (0.0, 0.0)  # spent, expected
        self.cost = cost
        self.unmeasured: dict[str, tuple[Outcome, str]] = {}  # by unit, and why
        for unit in units:
            self.add(unit)

    # What there is to measure

    def add(self, unit: Unit) -> None:
        """A unit waits to be measured."""
        waiting = self._waiting.get(unit.requirement)
        if waiting is None:
            waiting = self._waiting[unit.requirement] = _Waiting(unit.requirement)
            for name, bench in self._benches.items():
                if unit.requirement.met_by(bench):
                    self._fitting[name].append(waiting)
                    waiting.machines += 1
        self._count += 1
        is_budgeted = self._limits.time_s is not None or self._limits.cost is not None
        order = (-unit.priority, *((unit.coarse,) if is_budgeted else ()), -unit.expected_s)
        insort(waiting.entries, (order, self._count, unit))
        waiting.work_s += unit.expected_s

    # Machines

    def joined(self, bench: Bench) -> None:
        """A machine is there."""
        if bench.name in self._benches:
            return
        self._benches[bench.name] = bench
        fitting = self._fitting[bench.name] = []
        for waiting in self._waiting.values():
            if waiting.requirement.met_by(bench):
                fitting.append(waiting)
                waiting.machines += 1

    def left(self, machine: str, wall_s: float = 0.0) -> Unit | None:
        """A machine is gone; the unit that it measured for `wall_s` waits again, and is returned."""
        if machine not in self._benches:
            return None
        running = self._ended(machine, wall_s) if machine in self._running else None
        del self._benches[machine]
        for waiting in self._fitting.pop(machine):
            waiting.machines -= 1
        self._controlled_s.pop(machine, None)
        self._just_controlled.discard(machine)
        if running is None or running is self.control_unit:
            return None
        self._lost[running.name] += 1
        if self._lost[running.name] >= MOST_LOST:
            why = f"{MOST_LOST} machines were lost while they measured it"
            self.unmeasured[running.name] = (Outcome.FAILED, why)
        else:
            self.add(running)
        return running

    @property
    def benches(self) -> Mapping[str, Bench]:
        """Those that are there."""
        return self._benches

    @property
    def control_unit(self) -> Unit | None:
        """The unit that every machine measures again and again."""
        return self._control.unit if self._control else None

    def free(self) -> list[str]:
        """Machines that measure nothing."""
        return [name for name in self._benches if name not in self._running]

    # What is measured next

    def take(self, machine: str, now_s: float) -> Unit | None:
        """The unit that this free machine measures from now on; None: there is none for it."""
        skipped = list[tuple[_Waiting, _Entry, str]]()
        best: tuple[_Waiting, _Entry] | None = None
        for waiting, entry in self._candidates(machine):
            unit = entry[2]
            no_time, no_money = self._no_time(unit, now_s), self._no_money(unit, self._benches[machine])
            if not no_time and not no_money:
                best = waiting, entry
                break
            if no_time or not self._is_paid_elsewhere(unit, machine):
                skipped.append((waiting, entry, no_time or no_money))
        for waiting, entry, why in skipped:
            self.unmeasured[waiting.remove(entry).name] = (Outcome.SKIPPED, why)
        if best is None:
            return None
        control = self._control
        if control and self._is_due(control, machine, now_s):
            self._controlled_s[machine] = now_s
            self._just_controlled.add(machine)
            self._running[machine] = control.unit
        else:
            self._just_controlled.discard(machine)
            self._running[machine] = best[0].remove(best[1])
        return self._running[machine]

    def _candidates(self, machine: str) -> Iterator[tuple[_Waiting, _Entry]]:
        """The units that it may measure, the next one first."""

        def ranked(place: int, waiting: _Waiting) -> Iterator[tuple[_Order, _Waiting, _Entry]]:
            share_s = waiting.work_s / max(1, waiting.machines)
            for entry in waiting.entries:
                (priority, *rest), count, unit = entry
                if machine not in self._banned.get(unit.name, ()):
                    yield (priority, -share_s, *rest, place, count), waiting, entry

        queues = (ranked(place, waiting) for place, waiting in enumerate(self._fitting[machine]))
        for _, waiting, entry in heapq.merge(*queues, key=itemgetter(0)):
            yield waiting, entry

    def _is_due(self, control: Control, machine: str, now_s: float) -> bool:
        """Whether the machine measures the control before anything else: its time has come, and there is some."""
        bench, last_s = self._benches[machine], self._controlled_s.get(machine)
        if machine in self._just_controlled or not control.unit.requirement.is_placed_on(bench):
            return False
        if last_s is not None and now_s - last_s < control.every_s:
            return False
        return not self._no_time(control.unit, now_s) and not self._no_money(control.unit, bench)

    def _no_time(self, unit: Unit, now_s: float) -> str:
        """Why there is no time for the unit; empty if there is."""
        needs_s = self.predicted_s(unit)
        if self._limits.time_s is None or now_s + needs_s <= self._limits.time_s:
            return ""
        return f"no time: {max(0.0, self._limits.time_s - now_s):.0f} s of the budget left, it needs {needs_s:.0f} s"

    def _no_money(self, unit: Unit, bench: Bench) -> str:
        """Why there is no money for the unit on that machine; empty if there is, or it costs nothing there."""
        if self._limits.cost is None:
            return ""
        cost, left = self._cost_of(unit, bench), self._money_left()
        return f"no money: {left:.4g} of the budget left, it costs {cost:.4g} on {bench.name}" if cost > left else ""

    def _is_paid_elsewhere(self, unit: Unit, machine: str) -> bool:
        """Whether there is money for the unit on another machine that may measure it, now or once that is free."""
        left, banned = self._money_left(), {machine, *self._banned.get(unit.name, ())}
        others = [bench for name, bench in self._benches.items() if name not in banned]
        return any(self._cost_of(unit, bench) <= left and unit.requirement.met_by(bench) for bench in others)

    def _cost_of(self, unit: Unit, bench: Bench) -> float:
        return self.predicted_s(unit) / 3600 * bench.cost_per_hour

    def _money_left(self) -> float:
        """Of the budget, less what runs; never below what a machine costs that costs nothing."""
        planned = math.fsum(self._cost_of(unit, self._benches[name]) for name, unit in self._running.items())
        return max(0.0, (self._limits.cost or 0.0) - self.cost - planned)

    def predicted_s(self, unit: Unit) -> float:
        """What it will take, by what finished units took of what was expected of them."""
        spent, expected = self._ratio
        return unit.expected_s * (spent / expected if expected else 1.0)

    # How it ended

    def _ended(self, machine: str, wall_s: float) -> Unit:
        self.cost += wall_s / 3600 * self._benches[machine].cost_per_hour
        return self._running.pop(machine)

    def finished(self, machine: str, wall_s: float) -> Unit:
        """What the machine measured is finished."""
        unit = self._ended(machine, wall_s)
        self._ratio = (self._ratio[0] + wall_s, self._ratio[1] + unit.expected_s)
        self._in_a_row.pop(machine, None)
        return unit

    def failed(self, machine: str, wall_s: float, reason: str) -> bool:
        """It failed. Returns whether the machine is the likely cause: too much failed there in a row."""
        unit = self._ended(machine, wall_s)
        if unit is not self.control_unit:
            self._failures[unit.name] += 1
            if self._failures[unit.name] > self._limits.retries:
                self.unmeasured[unit.name] = (Outcome.FAILED, reason)
            else:
                others = (bench for name, bench in self._benches.items() if name != machine)
                if any(unit.requirement.met_by(bench) for bench in others):
                    self._ban(unit, machine, reason)
                self.add(unit)
        units = self._in_a_row.setdefault(machine, set())
        units.add(unit.name)
        return len(units) >= MOST_FAILURES

    def impossible(self, machine: str, wall_s: float, reason: str) -> None:
        """That machine lacks something that the unit needs."""
        self._ban(self._running[machine], machine, reason)
        self.interrupted(machine, wall_s)

    def interrupted(self, machine: str, wall_s: float) -> None:
        """It was interrupted, and waits again."""
        unit = self._ended(machine, wall_s)
        if unit is not self.control_unit:
            self.add(unit)

    def _ban(self, unit: Unit, machine: str, reason: str) -> None:
        """The unit is tried on that machine no more."""
        self._banned.setdefault(unit.name, {})[machine] = reason

    # What is left

    def left_s(self) -> float:
        """Seconds of measuring that wait, as predicted, shared by the machines that are there."""
        spent, expected = self._ratio
        waiting = math.fsum(queue.work_s for queue in self._waiting.values())
        return waiting * (spent / expected if expected else 1.0) / max(1, len(self._benches))

    def waiting(self) -> Iterator[Unit]:
        """Units that wait, in no order."""
        for queue in self._waiting.values():
            yield from (entry[2] for entry in queue.entries)

    def is_over(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._running and not any(queue.entries for queue in self._waiting.values())

    def give_up(self) -> None:
        """Nothing runs, and no machine that is there can measure what waits."""
        for unit in list(self.waiting()):
            reasons = self._banned.get(unit.name, {})
            why = next(iter(reasons.values()), "") or f"no available machine {needs(unit.requirement)}"
            kind = Outcome.FAILED if self._failures[unit.name] else Outcome.IMPOSSIBLE
            self.unmeasured[unit.name] = (kind, why)
        for queue in self._waiting.values():
            queue.entries.clear()
            queue.work_s = 0.0


def needs(requirement: Requirement) -> str:
    """What a machine must be, as the end of a sentence."""
    parts = []
    if requirement.hosts:
        table = ", ".join(f'{name} = "ADDRESS"' for name in requirement.hosts)
        parts.append(
            f"has the hosts {', '.join(requirement.hosts)}, which its scenario names: [[machine]] hosts = {{{table}}}"
        )
    if requirement.labels:
        parts.append(f"has the labels {', '.join(requirement.labels)}")
    if requirement.cpus:
        parts.append(f"has {requirement.cpus} CPUs")
    if requirement.only_on:
        parts.append(f"is {' or '.join(requirement.only_on)}")
    return " and ".join(parts) or "may measure it"


@dataclass(frozen=True)
class Group:
    """One scenario file with one variant and one build."""

    name: str
    units: int
    work_s: float
    machines: tuple[str, ...]  # that can measure one of them, or more


@dataclass(frozen=True)
class Plan:
    """A campaign before it starts: its points, its units and how long they take on these machines."""

    points: int
    units: int
    groups: tuple[Group, ...]
    machines: tuple[str, ...]
    work_s: float  # of all machines together, without the control
    makespan_s: float
    cost: float
    skipped: int  # for which the budget has no time or money
    impossible: tuple[str, ...]  # that no machine can measure
    reasons: tuple[str, ...]  # of these, in the same order


def plan_of(asked: Campaign, benches: Sequence[Bench]) -> Plan:
    """The forecast on these machines; a campaign without any takes for ever."""
    requirements = {unit.requirement for unit in asked.units}
    can = {needed: [bench.name for bench in benches if needed.met_by(bench)] for needed in requirements}
    able = [unit for unit in asked.units if can[unit.requirement]]
    impossible = [unit for unit in asked.units if not can[unit.requirement]][:20]
    makespan_s, scheduler = _forecast(able, benches, asked)
    groups = sorted((sweep.group for sweep in asked.sweeps), key=len, reverse=True)
    by_group = grouped(
        (next((group for group in groups if unit.name.startswith(group)), unit.point), unit) for unit in asked.units
    )
    return Plan(
        points=len({unit.point for unit in asked.units}),
        units=len(asked.units),
        groups=tuple(_group(name, own, benches, can) for name, own in by_group.items()),
        machines=tuple(bench.name for bench in benches),
        work_s=math.fsum(unit.expected_s for unit in able),
        makespan_s=makespan_s,
        cost=scheduler.cost,
        skipped=len(scheduler.unmeasured),
        impossible=tuple(unit.name for unit in impossible),
        reasons=tuple(f"no machine {needs(unit.requirement)}" for unit in impossible),
    )


def _group(
    name: str, units: Sequence[Unit], benches: Sequence[Bench], can: Mapping[Requirement, Sequence[str]]
) -> Group:
    able = {machine for unit in units for machine in can[unit.requirement]}
    machines = tuple(bench.name for bench in benches if bench.name in able)
    return Group(name, len(units), math.fsum(unit.expected_s for unit in units), machines)


def _forecast(units: Sequence[Unit], benches: Sequence[Bench], asked: Campaign) -> tuple[float, Scheduler]:
    """The whole campaign on virtual time, without failures: the seconds that it takes, and the scheduler afterwards."""
    scheduler = Scheduler(units, Limits(asked.budget_s, asked.budget_cost, asked.retries), asked.control)
    for bench in benches:
        scheduler.joined(bench)
    running, free = list[tuple[float, str, float]](), scheduler.free()  # when it ends, the machine, how long it takes
    at_s = makespan_s = 0.0
    while free:
        for machine in free:
            if (unit := scheduler.take(machine, at_s)) is not None:
                heapq.heappush(running, (at_s + unit.expected_s, machine, unit.expected_s))
        free = []
        if running:
            at_s, machine, took_s = heapq.heappop(running)
            if scheduler.finished(machine, took_s) is not scheduler.control_unit:
                makespan_s = at_s
            free = [machine]
    return makespan_s, scheduler
