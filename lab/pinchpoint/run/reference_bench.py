"""A reference bench that stands, frozen, while the other points of its group are built and measured beside it."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial

from pinchpoint.causes.explained import OF_LOSSES
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import prepare
from pinchpoint.engine.process import find_engine
from pinchpoint.findings.paired_benches import is_enough, relative_metrics
from pinchpoint.host.machines import Machines
from pinchpoint.host.priority import preferred
from pinchpoint.measure.forwarding import Tells, of_trial
from pinchpoint.measure.listener import Listener
from pinchpoint.measure.rates.run import measure_rates
from pinchpoint.measure.standing import Record, Recorded, RunUnit, Standing
from pinchpoint.measure.summary import Findings, result_of
from pinchpoint.model.causes import Turns
from pinchpoint.model.duet import Stretch
from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Relative, Scenario
from pinchpoint.model.study import Bound
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.run.bench import standing_bench
from pinchpoint.run.duet import measure_duet
from pinchpoint.run.explaining import experiment_of
from pinchpoint.run.interleaved import measure_turns, overload
from pinchpoint.run.paired_benches import Pair, frozen, thawed

MOST_S = 60.0  # of slices of one point, however few of them could be used and however wide its interval is then
EXPLAINED_S = 15.0  # of slices of a counter-experiment, whose trials in turns have decided before


class ReferenceBench:
    """The bench of one reference, until `drop`."""

    def __init__(self, machines: Machines, reference: Scenario, listener: Listener, record: Record) -> None:
        """Build it. Raises what building raises, nothing left behind.

        Its warm-ups are of no result, so that nothing of them is kept in `record`; what is known of programs is.
        """
        self._stack = ExitStack()
        silent = replace(record, keep=lambda _: None, keep_measurement=lambda _: None, attach=lambda name, text: None)
        self._machines = machines
        with ExitStack() as made:
            engine = [find_engine(machines.opened(reference.remote))]
            setup = prepare(reference, machines)
            made.enter_context(preferred())
            made.enter_context(standing_bench(setup, listener))
            live = setup.bench.open()
            made.callback(live.close)
            made.enter_context(frozen(setup))
            self._standing = Standing(setup, live, engine, silent, listener, time.monotonic())
            self._connection = machines.connection(reference.remote)
            self._stack = made.pop_all()

    @property
    def scenario(self) -> Scenario:
        """The scenario of the bench that stands."""
        return self._standing.scenario

    @property
    def is_gone(self) -> bool:
        """Whether its host was lost meanwhile, even if it is connected again: it has undone the bench itself."""
        return self._machines.connection(self.scenario.remote) != self._connection

    def drop(self) -> None:
        """Remove it. Raises BenchError for what remains."""
        with suppress(PinchpointError) if self.is_gone else nullcontext():
            self._stack.close()

    def measured(
        self,
        run_one: RunUnit,
        unit: Scenario,
        recorded: Sequence[Stretch],
        keep: Callable[[Stretch], None],
        arguments: tuple[Record, Listener, Recorded, Callable[..., None]],
    ) -> ScenarioResult:
        """A point beside it, its own rates included where the point wants them. Raises what measuring raises."""
        planned = partial(prepare, beside=self._standing.setup, stands=True)
        measure = partial(self._measure, stretches=list(recorded), keep=keep)
        result = run_one(unit, *arguments, planned=planned, measure=measure)
        return replace(result, reference=self.scenario.name)

    def _measure(self, bench: Standing, stretches: list[Stretch], keep: Callable[[Stretch], None]) -> ScenarioResult:
        if bench.scenario.point.relative is Relative.TRIED:
            return self._tried(bench, stretches, keep)
        began, trials = time.monotonic(), list[Trial]()
        alone = bench.scenario.point.relative is Relative.ALONE
        searched = None if alone else measure_rates(bench)

        def overloaded(pair: Pair) -> None:
            if alone:  # else its search has shown the same
                trials.append(overload(pair))

        warnings = self._duet(bench, MOST_S, stretches, keep, overloaded)
        metrics, wall_s = relative_metrics(stretches, self.scenario.name), time.monotonic() - began
        if searched is None:
            metrics += _explaining(trials, device_of(bench.scenario))
            return result_of(bench.scenario, trials, Findings(metrics, warnings), wall_s)
        return replace(
            searched, metrics=(*metrics, *searched.metrics), warnings=(*searched.warnings, *warnings), wall_s=wall_s
        )

    def _tried(self, bench: Standing, stretches: list[Stretch], keep: Callable[[Stretch], None]) -> ScenarioResult:
        """A counter-experiment: trials in turns until they are certain, then slices where those say how much."""
        began, trials, turns = time.monotonic(), list[Trial](), list[Turns]()
        is_below = experiment_of(bench.scenario) in OF_LOSSES

        def in_turns(pair: Pair) -> None:
            turns.append(measure_turns(pair, is_below, trials))

        warnings = self._duet(bench, 0.0 if is_below else EXPLAINED_S, stretches, keep, in_turns)
        sliced = () if is_below else relative_metrics(stretches, self.scenario.name, needs_interval=True)
        # Where slices give no ratio the trials in turns are the answer, so that it is no result that they do not.
        metrics = tuple(metric for metric in sliced if metric.bound is not Bound.REFUSED)
        warnings += tuple(f"no ratio of slices: {metric.note}" for metric in sliced if metric.bound is Bound.REFUSED)
        metrics += _explaining(trials, device_of(bench.scenario))
        wall_s = time.monotonic() - began
        result = result_of(bench.scenario, trials, Findings(metrics, warnings), wall_s)
        return replace(result, turns=turns[-1])

    def _duet(
        self,
        bench: Standing,
        length_s: float,
        stretches: list[Stretch],
        keep: Callable[[Stretch], None],
        first: Callable[[Pair], None] = lambda _: None,
    ) -> tuple[str, ...]:
        def kept(stretch: Stretch) -> None:
            name = bench.scenario.name
            named = replace(stretch, scenario=name, id=f"{name}-{stretch.id}")
            stretches.append(named)
            keep(named)

        standing = replace(self._standing, on_stoppable=bench.on_stoppable)
        with thawed(self._standing.setup):
            return measure_duet(standing, bench, length_s, kept, tuple(stretches), is_enough, first)


def _explaining(trials: Sequence[Trial], device: Tells) -> tuple[Metric, ...]:
    """Cycles, lookups and tables of the last trial: of the point alone, since slices do not measure them."""
    seen = [trial for trial in trials if trial.validity is not TrialValidity.ABORTED]
    metrics = of_trial(seen[-1], device) if seen else ()
    return tuple(replace(metric, note="; ".join(filter(None, (metric.note, "in a short trial")))) for metric in metrics)
