"""One scenario from its file to its result: build, warm up, search, latency, verdict, take down."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pinchpoint.bench import host
from pinchpoint.bench.builder import Builder
from pinchpoint.bench.plan import describe, plan
from pinchpoint.bench.resource import ENVIRONMENT_MARK
from pinchpoint.diagnose.cache_line import distance
from pinchpoint.diagnose.verdict import verdict
from pinchpoint.dut.ovs import switch_versions
from pinchpoint.dut.refusal import explain_refused_rule
from pinchpoint.dut.unixctl import Unixctl
from pinchpoint.engine.process import ProcessInstrument, find_engine
from pinchpoint.model import units
from pinchpoint.model.errors import PinchpointError
from pinchpoint.model.result import LatencyPoint, Rate, ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import PmdLoad, Trial, TrialValidity
from pinchpoint.observe.bracket import Bracket
from pinchpoint.search import SearchOutcome, find_rates
from pinchpoint.search.repeat import until_valid
from pinchpoint.sweep.listener import Listener
from pinchpoint.sweep.measure import WARM_UP, Measurer
from pinchpoint.sweep.setup import Setup, collectors, prepare

WARM_UP_FPS = 1e6  # too little to overload most benches
WARM_UP_S = 0.5
LONGEST_WARM_UP_S = 30.0
MOST_ATTACHED = 1_000_000  # characters
MOST_MOVES = 3  # of the cores between near and far, that a search follows
MOST_LATENCY_REPEATS = 3  # a disturbed latency is still told, with a note


@dataclass(frozen=True)
class Record:
    """Where a scenario's findings go as they are made."""

    keep: Callable[[Trial], None]
    note_plan: Callable[[str, tuple[str, ...]], None]
    note_facts: Callable[[Mapping[str, str]], None]
    attach: Callable[[str, str], None]
    engine_log: Path | None


@contextmanager
def standing_bench(setup: Setup, listener: Listener) -> Iterator[None]:
    """The bench stands inside the block, and is gone after it, however the block ends."""
    builder = Builder(setup.places.bench_id)
    try:
        builder.apply(setup.resources, listener.building)
    except host.CommandFailed as error:
        raise explain_refused_rule(error, setup.scenario, setup.places) from error
    try:
        yield
    except BaseException as error:
        try:
            builder.undo()
        except PinchpointError as left:
            error.add_note(str(left))  # what failed first is what the user must know first
        raise
    builder.undo()


def run_scenario(
    scenario: Scenario,
    record: Record,
    listener: Listener,
    recorded: Sequence[Trial] = (),
    on_measurer: Callable[[Measurer], None] = lambda _: None,
) -> ScenarioResult:
    """Everything about one scenario. Whatever goes wrong, finished trials are kept and the bench is removed.

    `recorded` are its trials from an interrupted run. `on_measurer` is handed the
    measurer as soon as there is one, so that a signal handler can stop it.
    """
    began = time.monotonic()
    engine = [find_engine()]  # before anything is built
    setup = prepare(scenario)
    record.note_plan(scenario.name, describe(plan((), setup.resources)))
    with standing_bench(setup, listener):
        control = Unixctl(setup.places.control)
        instrument = ProcessInstrument(
            setup.engine, command=engine, environment={ENVIRONMENT_MARK: setup.places.bench_id}, log=record.engine_log
        )
        try:
            facts = {**instrument.open(), **switch_versions(setup.places)}
            bracket = Bracket(collectors(setup, control))
            record.note_facts({**facts, **{f"cannot observe {k}": why for k, why in bracket.cannot.items()}})
            measurer = Measurer(scenario, instrument, bracket, record.keep, listener, recorded)
            on_measurer(measurer)
            with host.kept_off(scenario.dut.pmd_cpus):
                result = measure_scenario(scenario, measurer, listener, began)
            _attach_flows(scenario.name, control, record)
        except PinchpointError:
            _attach_log(scenario.name, setup, record)
            raise
        finally:
            instrument.close()
            control.close()
    listener.scenario_ends(result)
    return result


def _attach_flows(name: str, control: Unixctl, record: Record) -> None:
    """The datapath's flows as they stand; the result does not depend on them."""
    with suppress(PinchpointError):
        record.attach(f"{name}.datapath-flows.txt", control.call("dpctl/dump-flows", "-m")[:MOST_ATTACHED])


def _attach_log(name: str, setup: Setup, record: Record) -> None:
    """The switch's log, which goes with the bench; what failed is told either way."""
    with suppress(PinchpointError, OSError):
        log = Path(setup.places.log).read_text(errors="replace")
        record.attach(f"{name}.ovs-vswitchd.log", log[-MOST_ATTACHED:])


def measure_scenario(scenario: Scenario, measurer: Measurer, listener: Listener, began: float) -> ScenarioResult:
    """All trials of one scenario on a bench that stands, and what follows from them."""
    listener.phase(WARM_UP, 1)
    measurer.trial(WARM_UP, *warm_up(scenario))
    listener.phase("search", expected_trials(scenario))
    outcome, searched = _search(scenario, measurer)
    listener.phase("latency", len(scenario.latency.at))
    latency = tuple(_latency(share, outcome, scenario, measurer) for share in scenario.latency.at)
    return _summary(scenario, measurer.trials, searched, outcome, latency, time.monotonic() - began)


def _search(scenario: Scenario, measurer: Measurer) -> tuple[SearchOutcome, Sequence[Trial]]:
    """The search's outcome and its trials; begun anew when the cores have moved for good."""

    def measure(duration_s: float, load_fps: float) -> Trial:
        return measurer.trial("search", duration_s, load_fps)

    search, began = scenario.search, time.monotonic()
    for _ in range(MOST_MOVES + 1):
        measurer.mode.forget()
        first = len(measurer.trials)
        left_s = max(0.0, search.max_duration_s - (time.monotonic() - began))
        outcome = find_rates(measure, replace(search, max_duration_s=left_s), time.monotonic)
        if not measurer.mode.has_left(search.max_repeats):
            break
    return outcome, measurer.trials[first:]


def warm_up(scenario: Scenario) -> tuple[float, float]:
    """(seconds, frames per second) of the warm-up: every five-tuple twice, within reason."""
    load_fps = min(WARM_UP_FPS, scenario.search.max_load_fps)
    flows = sum(stream.flows for stream in scenario.streams)
    return min(LONGEST_WARM_UP_S, max(WARM_UP_S, 2 * flows / load_fps)), load_fps


def expected_trials(scenario: Scenario) -> int:
    """About how many trials a search takes, for the time estimate: 1.7 x the goal's own, as seen on quiet DUTs."""
    search = scenario.search
    return round(1.7 * search.duration_sum_s / search.trial_duration_s) + 4


def _latency(share: float, outcome: SearchOutcome, scenario: Scenario, measurer: Measurer) -> LatencyPoint:
    ndr = outcome.rates[0]
    if ndr.lower_fps is None:
        return LatencyPoint(share, 0.0, "", None, f"no NDR to take {share:.0%} of")
    load_fps = share * ndr.lower_fps

    def measure(duration_s: float, load: float) -> Trial:
        return measurer.trial("latency", duration_s, load)

    repeats = min(MOST_LATENCY_REPEATS, scenario.search.max_repeats)
    trial = until_valid(measure, scenario.latency.duration_s, load_fps, repeats)
    note = "" if trial.validity is TrialValidity.VALID else f"{trial.validity.value}: {trial.reason}"
    if not note and trial.lost:
        note = f"lost {units.loss(trial.loss_ratio)} of its frames"
    return LatencyPoint(share, load_fps, trial.id, trial.latency, note, trial.witness.loopback)


def _summary(
    scenario: Scenario,
    trials: Sequence[Trial],
    searched: Sequence[Trial],
    outcome: SearchOutcome,
    latency: tuple[LatencyPoint, ...],
    wall_s: float,
) -> ScenarioResult:
    invalid = Counter(str(trial.validity) for trial in trials if trial.validity is not TrialValidity.VALID)
    cores = distance([trial for trial in searched if trial.validity is TrialValidity.VALID])
    return ScenarioResult(
        scenario=scenario.name,
        title=scenario.title,
        rates=outcome.rates,
        latency=latency,
        pmds=_at_the_limit(outcome.rates[0], searched),
        verdict=verdict(outcome.rates[0], searched, ring=min(port.ring for port in scenario.ports)),
        generator_ceiling_fps=outcome.generator_ceiling_fps or max((t.offered_fps for t in searched), default=None),
        trials=len(trials),
        invalid_trials=dict(invalid),
        traffic_s=sum(trial.sent_duration_s for trial in trials),
        wall_s=wall_s,
        cache_line=cores,
        warnings=(cores.note,) if cores and cores.note else (),
    )


def _at_the_limit(ndr: Rate, searched: Sequence[Trial]) -> tuple[PmdLoad, ...]:
    """The packet threads' load at the highest load that satisfied the goal, else at the lowest judged one."""
    judged = [trial for trial in searched if trial.validity is TrialValidity.VALID]
    below = ndr.upper_fps or float("inf")
    reached = [trial for trial in judged if trial.loss_ratio <= ndr.loss_ratio and trial.offered_fps < below]
    if reached:
        return max(reached, key=lambda trial: trial.load_fps).pmds
    return min(judged, key=lambda trial: trial.load_fps).pmds if judged else ()
