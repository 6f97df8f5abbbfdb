"""A comparison of two benches that stand at once, from both scenarios to the run folder.

It is resumable at any stretch of slices and any trial.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from pinchpoint.bench.plan import describe, plan
from pinchpoint.dut import requirements
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.setup import Setup
from pinchpoint.engine.process import find_engine
from pinchpoint.findings.curves import curves
from pinchpoint.findings.paired_benches import alternation, rate_metric, rate_name, rate_of, why_hopeless
from pinchpoint.host.machines import Machines
from pinchpoint.measure.listener import Listener
from pinchpoint.measure.rates.keys import Rates
from pinchpoint.measure.standing import Recorded, Standing, Stoppable, Undoable
from pinchpoint.model.comparison import ComparisonRequest, Method
from pinchpoint.model.duet import MEASURED, Stretch
from pinchpoint.model.errors import InputError, StoreError
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Outcome, RunResult, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import ALTERNATING, Trial
from pinchpoint.run.alternate import FEWEST_TURNS, alternate, turn_s
from pinchpoint.run.build_time import BuildTime
from pinchpoint.run.checkpoint import Growing, RunContext
from pinchpoint.run.duet import measure_duet
from pinchpoint.run.host_recovery import AWAITED_S, outliving
from pinchpoint.run.paired_benches import SIDES, Pair, prepare_both, standing_both
from pinchpoint.run.run import so_far, unmeasured
from pinchpoint.run.scenario import host_facts_of
from pinchpoint.stats.alternating import Turn
from pinchpoint.stats.duet import compare_slices, length_of
from pinchpoint.store.codec import SCHEMA
from pinchpoint.store.folder import RunFolder

BUILDING_S = 10.0  # both benches made, warmed up and removed
CALIBRATING_S = 10.0
SHORTEST_S = 5.0  # of slices on two benches, however small a budget


def expected_s(request: ComparisonRequest) -> float:
    """About how long both benches take that stand at once."""
    return CALIBRATING_S + request.benches * BUILDING_S + (request.slices_s or 0.0)


def why_no_duet(a: Scenario, b: Scenario) -> str:
    """Why two scenarios cannot be measured at once, whatever the machine; empty if they can."""
    others = sorted({scenario.measure.kind for scenario in (a, b) if not isinstance(scenario.measure, Rates)})
    nics = [
        {address for port in scenario.ports for address in (port.pci, port.engine_pci)} - {None} for scenario in (a, b)
    ]
    unfrozen = [why for scenario in (a, b) if (why := device_of(scenario).freezing(scenario).why_not)]
    reasons = {
        f'slices measure rates, and measure = "{next(iter(others), "")}" needs a bench alone': bool(others),
        next(iter(unfrozen), ""): bool(unfrozen),
        "connections of a service are established on a bench alone": any(scenario.established for scenario in (a, b)),
        "both benches stand on one host, and the scenarios name two": _addresses(a) != _addresses(b),
        "both benches need the same NIC": bool(nics[0] & nics[1]),
        "one engine drives the ports of both benches, and engine.cpus differ": a.engine.cpus != b.engine.cpus,
        "the engine of one bench would run on a CPU of the other's switch": bool(
            set(a.engine.cpus) & {*a.dut.cpus, *b.dut.cpus}
        ),
        "what arrives at a port with several queues cannot be counted by slices": any(
            port.queues > 1 for scenario in (a, b) for port in scenario.ports
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _addresses(scenario: Scenario) -> list[str]:
    return [remote.address if remote else "" for remote in scenario.remotes]


def require_duet(machines: Machines, a: Scenario, b: Scenario) -> None:
    """Raises InputError where A and B cannot be measured at once, RequirementError where this machine lacks memory."""
    if why := why_no_duet(a, b):
        raise InputError(f"no duet of {a.path} and {b.path}: {why}", "--method turns")
    requirements.require_together(a, b, machines)


def run_duet(
    machines: Machines,
    units: Sequence[Scenario],
    folder: RunFolder,
    listener: Listener,
    on_stoppable: Callable[[Stoppable], None],
    awaited_s: float = AWAITED_S,
) -> RunResult:
    """Measure `units`, A and B, until the folder holds as many seconds of slices as were asked for.

    A host that is lost is awaited for `awaited_s`; then both benches are built anew.

    Whatever is measured when it ends is kept and becomes the result, however it ends. Raises what building and
    measuring raise.
    """
    run = _Run(machines, units, RunContext(folder, listener, on_stoppable), awaited_s)
    if not so_far(folder).finished:
        run.whole()
    return so_far(folder)


def _wall_s(stretches: Sequence[Stretch], trials: Sequence[Trial]) -> float:
    """Seconds that slices and trials took, as stored."""
    return math.fsum([*(stretch.wall_s for stretch in stretches), *(trial.wall_s for trial in trials)])


class _Run:
    """One run between its first action and its last."""

    def __init__(self, machines: Machines, units: Sequence[Scenario], context: RunContext, awaited_s: float) -> None:
        self._machines = machines
        self._units = units
        self._awaited_s = awaited_s
        self._context = context
        self._files = Growing(context.folder, units, {})
        self._settings: dict[str, Mapping[str, str]] = {}
        self._stretches = list(context.folder.read_stretches())
        self._warnings: tuple[str, ...] = ()
        self._began = time.monotonic()
        self._turns = alternation(context.folder.read_trials(), [unit.name for unit in units], units[0].search)
        request, budget_s = self._request, self._files.info.budget_s
        spent_s = _wall_s(self._stretches, context.folder.read_trials())
        whole_s = expected_s(request) if budget_s is None else budget_s
        self._time = BuildTime(whole_s - spent_s, request.benches, is_limit=budget_s is not None)

    @property
    def _request(self) -> ComparisonRequest:
        """What was asked for, or what became of it."""
        request = self._files.info.comparison
        assert request is not None and request.slices_s is not None
        return request

    def whole(self) -> None:
        self._context.on_stoppable(Undoable())
        try:
            outliving(self._machines, self._units, self._both, self._context.on_stoppable, awaited_s=self._awaited_s)
        except BaseException as error:
            try:
                self._conclude(False)
            except StoreError as unwritten:
                error.add_note(str(unwritten))  # what failed first is what the user must know first
            raise
        self._conclude(True)

    def _both(self) -> None:
        """Both benches are built as often as asked for, as far as the time goes, and measured for an equal share."""
        while self._is_going_on():
            with self._time.building():
                self._stood()

    def _is_going_on(self) -> bool:
        if self._time.is_over:
            return False
        slices_s = self._request.slices_s or 0.0
        if self._request.method is Method.TRIALS:
            return True
        return slices_s - self._measured_s > slices_s / self._request.benches / 2

    @property
    def _measured_s(self) -> float:
        return math.fsum(length_of(stretch) for stretch in self._stretches if stretch.phase == MEASURED)

    def _stood(self) -> None:
        """Both benches once, on their host."""
        a, b = self._units
        engine = [find_engine(self._machines.opened(a.remote))]  # before anything is built
        if a.remote:
            self._files.note_facts(host_facts_of(self._machines, a.remote))
        self._context.listener.scenario_begins(a, 1, 1)
        setups = prepare_both(self._machines, a, b)
        for unit, setup in zip(self._units, setups, strict=True):
            self._files.note_plan(unit.name, describe(plan((), setup.resources)))
            self._files.note_facts({**setup.facts, **setup.bench.facts()})
        with standing_both(setups, self._context.listener):
            first, second = (self._standing(setup, engine) for setup in setups)
            try:
                self._measured(first, second)
            finally:
                first.live.close()
                second.live.close()

    def _measured(self, a: Standing, b: Standing) -> None:
        self._time.stands()
        for bench in (a, b):
            self._settings[bench.scenario.name] = bench.live.settings()
        number = 1 + max((stretch.benches for stretch in self._stretches), default=0)

        def keep(stretch: Stretch) -> None:
            marked = replace(stretch, benches=number)
            self._context.folder.append_stretch(marked)
            self._stretches.append(marked)

        def enough(stretches: Sequence[Stretch]) -> bool:
            return self._time.is_up or (self._request.may_fall_back and bool(why_hopeless(stretches)))

        told = measure_duet(a, b, self._until_s(), keep, tuple(self._stretches), enough, then=self._then)
        self._warnings = tuple(dict.fromkeys((*self._warnings, *told)))

    def _until_s(self) -> float:
        """How many seconds of slices there are to be when these benches are removed."""
        request = self._request
        if request.method is not Method.DUET:
            return 0.0
        slices_s, share_s = request.slices_s or 0.0, self._time.share_s(SHORTEST_S)
        if self._time.builds_left == 1:
            return min(slices_s, self._measured_s + (share_s if self._time.is_limit else slices_s))
        return min(slices_s, self._measured_s + min(share_s, slices_s / request.benches))

    def _then(self, pair: Pair) -> None:
        """Alternating trials, where slices can give no ratio."""
        if self._request.method is Method.DUET:
            why = why_hopeless(self._stretches) if self._request.may_fall_back else ""
            if not why:
                return
            self._files.note_comparison(replace(self._request, method=Method.TRIALS, metrics=(), why=why))
            self._time.again()
        self._turns.build()
        self._context.listener.phase(ALTERNATING, 1)
        share_s = self._time.share_s(FEWEST_TURNS * turn_s(pair))
        alternate(pair, self._turns, time.monotonic() + share_s)

    def _standing(self, setup: Setup, engine: Sequence[str]) -> Standing:
        context, record = self._context, self._files.record()
        trials = tuple(trial for trial in context.folder.read_trials() if trial.scenario == setup.scenario.name)
        return Standing(
            setup,
            setup.bench.open(),
            engine,
            record,
            context.listener,
            self._began,
            Recorded(trials),
            context.on_stoppable,
        )

    def _conclude(self, is_finished: bool) -> None:
        self._files.flush()  # run.json
        turns = self._turns.turns if self._request.method is Method.TRIALS else None
        conclude(self._units, self._context.folder, is_finished, self._settings, self._warnings, turns)


def conclude(
    units: Sequence[Scenario],
    folder: RunFolder,
    is_finished: bool,
    settings: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    warnings: tuple[str, ...] = (),
    turns: Sequence[Turn] | None = None,
) -> None:
    """Write what the folder's slices, or `turns`, say of A and of B as the run's result.

    `settings`: in force, by the unit's name.
    """
    stretches, trials = folder.read_stretches(), folder.read_trials()
    measured = [stretch for stretch in stretches if stretch.phase == MEASURED and stretch.slices]
    quads = compare_slices(measured).quads if measured and turns is None else ()
    wall_s = _wall_s(stretches, trials)
    results = list[ScenarioResult]()
    for side, unit in zip(SIDES, units, strict=True) if measured or turns is not None else ():
        rates = (rate_metric(quads, side),) if quads else ()
        if turns:
            rate = rate_of(turns, side)
            rates = (Metric(rate_name(unit.search), rate.unit, rate.value, rate.low, rate.high, rate.interval),)
        sliced_s = math.fsum(part.length_s for stretch in measured for part in stretch.slices if part.side == side)
        own = [trial for trial in trials if trial.scenario == unit.name and trial.phase == ALTERNATING]
        results.append(
            replace(
                unmeasured(unit, Outcome.MEASURED, "", wall_s),
                metrics=rates,
                settings=settings.get(unit.name, {}),
                trials=len(own),
                traffic_s=sliced_s + math.fsum(trial.sent_duration_s for trial in own),
                warnings=warnings if side == SIDES[0] else (),
            )
        )
    drawn = tuple(curves(folder.read_info().sweeps, results))
    folder.write_result(RunResult(SCHEMA, folder.run_id, is_finished, tuple(results), drawn, ()))
