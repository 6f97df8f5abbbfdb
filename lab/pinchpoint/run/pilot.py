"""A pilot: one scenario on several benches, after several starts of the DUT on each, several times after each."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import median
from typing import Any

from pinchpoint.bench.builder import Builder
from pinchpoint.dut.setup import Setup
from pinchpoint.findings.curves import of_repeats
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import preferred
from pinchpoint.measure.registry import measure_of
from pinchpoint.measure.standing import Listener, Stoppable, Task, opened, standing_bench
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.model.scenario import Level, Point, Scenario
from pinchpoint.model.study import Bound
from pinchpoint.run.run import run_all
from pinchpoint.run.scenario import planned
from pinchpoint.stats.variance import Costs
from pinchpoint.store.folder import RunFolder


@dataclass(frozen=True)
class Size:
    """How often each level is repeated."""

    benches: int
    starts: int  # of the DUT, on each bench
    measurements: int  # after each start

    @property
    def every(self) -> Iterator[tuple[int, int, int]]:
        """(bench, start, measurement), each from 1, in the order they are made."""
        return product(range(1, self.benches + 1), range(1, self.starts + 1), range(1, self.measurements + 1))


@dataclass
class Spent:
    """Seconds that each step took, one entry a step."""

    building: list[float] = field(default_factory=list)  # with its removal
    restarting: list[float] = field(default_factory=list)
    measuring: list[float] = field(default_factory=list)

    def costs(self) -> Costs:
        """The median of each step; a bench is built with its DUT started, which is counted as a start."""
        restart_s = median(self.restarting) if self.restarting else 0.0
        building_s = median(self.building) if self.building else 0.0
        return Costs(max(0.0, building_s - restart_s), restart_s, median(self.measuring) if self.measuring else 0.0)


def unit(scenario: Scenario, bench: int, start: int, measurement: int) -> Scenario:
    """The scenario as one measurement of its pilot."""
    name = f"{scenario.name}-bench{bench}-start{start}-{measurement}"
    return replace(scenario, name=name, point=Point(scenario.name, {"bench": bench, "start": start}, measurement))


def run_pilot(
    machines: Machines,
    scenario: Scenario,
    size: Size,
    folder: RunFolder,
    listener: Listener,
    on_stoppable: Callable[[Stoppable], None],
) -> tuple[Mapping[tuple[int, int, int], ScenarioResult], Costs]:
    """Every measurement by its place, and what each step costs; all is kept in `folder` as it ends.

    Raises what a run raises; the bench is then removed, and what was measured stays in the folder.
    """
    units = {place: unit(scenario, *place) for place in size.every}
    with _Benches(machines) as benches:
        result = run_all(machines, [*units.values()], folder, listener, on_stoppable, benches.run)
    by_name = {of_unit.scenario: of_unit for of_unit in result.scenarios}
    return {place: by_name[measured.name] for place, measured in units.items()}, benches.spent.costs()


class _Benches:
    """Runs the units of a pilot; inside the `with` block a bench stands on for the units that share it."""

    def __init__(self, machines: Machines) -> None:
        self.spent = Spent()
        self._machines = machines
        self._stack = ExitStack()  # of the bench that stands
        self._place: tuple[Level, Level] | None = None  # its number, and of the DUT's start there

    def __enter__(self) -> "_Benches":
        return self

    def __exit__(self, *error: Any) -> None:
        took_s = _seconds(lambda: self._stack.__exit__(*error))
        if self.spent.building:
            self.spent.building[-1] += took_s

    def run(self, unit: Scenario, task: Task) -> ScenarioResult:
        """One unit, on the bench that stands if it is of that, after a start of its own if it wants one."""
        place = unit.point.levels["bench"], unit.point.levels["start"]
        if self._place is None or place[0] != self._place[0]:
            self.__exit__(None, None, None)
            self._setup, self._engine = planned(self._machines, unit, task)
            self._stack.enter_context(preferred())
            self.spent.building.append(_seconds(lambda: self._build(task.listener)))
        elif place != self._place:
            self.spent.restarting.append(_seconds(lambda: restart_dut(self._builder, self._setup, task.listener)))
        self._place = place
        setup = replace(self._setup, scenario=replace(self._setup.scenario, name=unit.name, point=unit.point))
        began = time.monotonic()
        with opened(setup, self._engine, task, began) as bench:
            settings = bench.live.settings()
            result = replace(measure_of(unit).run(bench), settings=settings)
        self.spent.measuring.append(time.monotonic() - began)
        task.listener.scenario_ends(result)
        return result

    def _build(self, listener: Listener) -> None:
        self._builder = self._stack.enter_context(standing_bench(self._setup, listener))


def _seconds(step: Callable[[], object]) -> float:
    """How long a step takes."""
    began = time.monotonic()
    step()
    return time.monotonic() - began


def restart_dut(builder: Builder, setup: Setup, listener: Listener) -> None:
    """End the switch and start it again: database, namespaces, links and hugepages stay, rules are made anew."""
    ending = setup.bench.ends_with_it(setup.resources)
    builder.apply([resource for resource in setup.resources if resource not in ending], listener.building)
    builder.apply(setup.resources, listener.building)


def metrics_of(results: Mapping[tuple[int, int, int], ScenarioResult]) -> tuple[str, ...]:
    """Those to judge a pilot by: every rate, or the first metric of a measure without rates."""
    measured = [result for result in results.values() if result.outcome is Outcome.MEASURED]
    rates = dict.fromkeys(rate.name for result in measured for rate in result.rates)
    return tuple(rates) or tuple(dict.fromkeys(result.metrics[0].name for result in measured if result.metrics))[:1]


def nested(
    metric: str, size: Size, results: Mapping[tuple[int, int, int], ScenarioResult]
) -> tuple[list[list[list[float]]], str, str]:
    """The metric's values by bench, start and measurement, its unit, and why there are none; empty if there are."""
    values: dict[tuple[int, int, int], float] = {}
    unit, reasons = "", list[str]()
    for place in size.every:
        repeats = of_repeats([results[place]])
        estimate = repeats.estimates.get(metric)
        if estimate is None or estimate.bound is not Bound.FOUND:
            reasons.append(repeats.notes.get(metric) or results[place].reason or "not measured")
        else:
            values[place], unit = estimate.value, estimate.unit
    if reasons:
        told = f"no number in {len(reasons)} of {len(results)} measurements; the first: {reasons[0].splitlines()[0]}"
        return [], unit, told
    ranges: Sequence[range] = [range(1, count + 1) for count in (size.benches, size.starts, size.measurements)]
    return [[[values[i, j, k] for k in ranges[2]] for j in ranges[1]] for i in ranges[0]], unit, ""
