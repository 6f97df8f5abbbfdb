"""A pilot: one scenario on several benches, after several starts of the DUT on each, several times after each."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median

from pinchpoint.bench.builder import Builder
from pinchpoint.bench.plan import describe, plan
from pinchpoint.dut.setup import Setup, prepare
from pinchpoint.engine.process import find_engine
from pinchpoint.findings.curves import of_repeats
from pinchpoint.host.machines import Machines
from pinchpoint.measure.registry import measure_of
from pinchpoint.measure.standing import Listener, Record, Recorded, Standing, Stoppable
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.model.scenario import Point, Scenario
from pinchpoint.model.study import Bound
from pinchpoint.run.bench import standing_bench
from pinchpoint.run.checkpoint import Growing, RunContext
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
        for bench in range(1, self.benches + 1):
            for start in range(1, self.starts + 1):
                for measurement in range(1, self.measurements + 1):
                    yield bench, start, measurement


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
    return _Pilot(machines, scenario, size, RunContext(folder, listener, on_stoppable)).whole()


class _Pilot:
    """A pilot between its first bench and its last."""

    def __init__(self, machines: Machines, scenario: Scenario, size: Size, context: RunContext) -> None:
        self._machines = machines
        self._scenario = scenario
        self._size = size
        self._context = context
        self._engine = [find_engine(machines.lab)]  # before anything is built
        self._results: dict[tuple[int, int, int], ScenarioResult] = {}
        self._done: dict[str, ScenarioResult] = {}
        units = [unit(scenario, *place) for place in size.every]
        self._files = Growing(context.folder, units, self._done)
        self._spent = Spent()

    def whole(self) -> tuple[Mapping[tuple[int, int, int], ScenarioResult], Costs]:
        try:
            for bench in range(1, self._size.benches + 1):
                self._bench(bench)
        finally:
            self._files.flush()
        return self._results, self._spent.costs()

    def _bench(self, bench: int) -> None:
        setup = prepare(self._scenario, self._machines)
        record = self._files.record()
        record.note_plan(unit(self._scenario, bench, 1, 1).name, describe(plan((), setup.resources)))
        record.note_facts({**setup.facts, **setup.bench.facts()})
        began, inside_s = time.monotonic(), 0.0
        with standing_bench(setup, self._context.listener) as builder:
            stood = time.monotonic()
            for start in range(1, self._size.starts + 1):
                if start > 1:
                    with _timed(self._spent.restarting):
                        restart_dut(builder, setup, self._context.listener)
                self._measurements(setup, record, bench, start)
            inside_s = time.monotonic() - stood
        self._spent.building.append(time.monotonic() - began - inside_s)

    def _measurements(self, setup: Setup, record: Record, bench: int, start: int) -> None:
        for measurement in range(1, self._size.measurements + 1):
            unit_setup = replace(setup, scenario=unit(setup.scenario, bench, start, measurement))
            number = len(self._results) + 1
            self._context.listener.scenario_begins(unit_setup.scenario, number, sum(1 for _ in self._size.every))
            with _timed(self._spent.measuring):
                result = self._measured(unit_setup, record)
            self._results[bench, start, measurement] = self._done[unit_setup.scenario.name] = result
            self._files.changed(unit_setup.scenario.point.group)
            self._context.listener.scenario_ends(result)

    def _measured(self, setup: Setup, record: Record) -> ScenarioResult:
        live, began, context = setup.bench.open(), time.monotonic(), self._context
        listener, on_stoppable = context.listener, context.on_stoppable
        bench = Standing(setup, live, self._engine, record, listener, began, Recorded(), on_stoppable)
        try:
            settings = live.settings()
            return replace(measure_of(setup.scenario).run(bench), settings=settings)
        finally:
            live.close()


@contextmanager
def _timed(spent: list[float]) -> Iterator[None]:
    began = time.monotonic()
    yield
    spent.append(time.monotonic() - began)


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
        return (
            [],
            unit,
            f"no number in {len(reasons)} of {len(results)} measurements; the first: {reasons[0].splitlines()[0]}",
        )
    ranges: Sequence[range] = [range(1, count + 1) for count in (size.benches, size.starts, size.measurements)]
    return [[[values[i, j, k] for k in ranges[2]] for j in ranges[1]] for i in ranges[0]], unit, ""
