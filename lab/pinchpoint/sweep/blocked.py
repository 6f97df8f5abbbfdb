"""The measure `blocked`: how long forwarding stands still while something happens to the DUT."""

import os
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime

from pinchpoint.bench import host
from pinchpoint.diagnose import blocking
from pinchpoint.diagnose.building import judged
from pinchpoint.dut.ovs import switch_versions
from pinchpoint.model.errors import EngineError, InputError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Blocked, Scenario
from pinchpoint.model.trial import TrialValidity
from pinchpoint.observe.bracket import Bracket
from pinchpoint.observe.cpu import BenchProcesses, CpuTime
from pinchpoint.sweep.actions import Action, action_of, timed
from pinchpoint.sweep.build import Stopper
from pinchpoint.sweep.forwarding import LOOK_S, QUIET_S, background
from pinchpoint.sweep.standing import Standing
from pinchpoint.sweep.summary import Found, result_of

WARM_UP_S = 0.5
PHASE = "blocked"


def measure_blocked(bench: Standing) -> ScenarioResult:
    """Every repeat of the action, and what follows from them. Raises Interrupted, BenchError, DutError or EngineError.

    Repeats that an interrupted run finished are taken from its record.
    """
    scenario = bench.scenario
    blocked = blocked_of(scenario)
    made = [one for one in bench.recorded.measurements if one.validity is not TrialValidity.ABORTED]
    stopper = Stopper()
    bench.on_stoppable(stopper)
    bench.record.note_facts(switch_versions(scenario, bench.setup.places))
    bench.listener.phase(PHASE, blocked.repeats)
    most = blocked.repeats + min(blocked.repeats, scenario.search.max_repeats)
    while _valid(made) < blocked.repeats and len(made) < most:
        stopper.check()
        found = _repeat(bench, blocked, len(made) + 1, stopper)
        made.append(found)
        bench.record.keep_measurement(found)
        bench.listener.measurement_ends(found)
    metrics, warnings = blocking.together(made), blocking.warnings(made, blocked.repeats)
    told = any(one.name == blocking.NAMES[0] for one in metrics)
    failed = "" if told else f"no blocked time: {'; '.join(warnings)}\n  hint: lower blocked.load_fps"
    return result_of(scenario, (), Found(metrics, warnings, (), failed), time.monotonic() - bench.began)


def _valid(made: list[Measurement]) -> int:
    return sum(one.validity is TrialValidity.VALID for one in made)


def _repeat(bench: Standing, blocked: Blocked, number: int, stopper: Stopper) -> Measurement:
    scenario, check = bench.scenario, stopper.check
    identity = f"{scenario.name}-{number:04d}"
    bench.listener.measurement_begins(identity, WARM_UP_S + QUIET_S + blocked.before_s + blocked.after_s)
    started, began = datetime.now(UTC), time.monotonic()
    action = action_of(blocked, bench.setup.places, bench.control)
    action.prepare(check)
    cpus = tuple(sorted({*scenario.engine.cpus, *scenario.dut.pmd_cpus}))
    bracket = Bracket([CpuTime(cpus), BenchProcesses(bench.setup.places.bench_id)])
    happened, span_s = _under_traffic(bench, blocked, action, bracket, check)
    observed = bracket.close().flat()
    action.restore(check)
    metrics, cannot = blocking.metrics(happened)
    found = Measurement(
        id=identity,
        scenario=scenario.name,
        kind=str(scenario.measure),
        repeat=number,
        started=started.isoformat(),
        wall_s=time.monotonic() - began,
        metrics=metrics,
        account={"blocked": asdict(blocked), **asdict(happened)},
        observed=observed,
        pmds=(),
        validity=TrialValidity.NOISY_HOST if cannot else TrialValidity.VALID,
        reason=cannot,
    )
    return found if cannot else judged(found, span_s, os.sysconf("SC_CLK_TCK"))


def _under_traffic(
    bench: Standing, blocked: Blocked, action: Action, bracket: Bracket, check: Callable[[], None]
) -> tuple[blocking.Happened, float]:
    """Let it happen while frames are sent; and how long they were looked at, seconds."""
    with background(bench, None, blocked.load_fps) as traffic, host.kept_off(_used(bench.scenario)):
        traffic.warm_up(WARM_UP_S, check)
        traffic.start(check)
        bracket.open()
        opened = time.monotonic()
        _wait(blocked.before_s, check)
        began, took_s = timed(action, check)
        _wait(blocked.after_s, check)
        seen = traffic.finish(began, check)
        span_s = time.monotonic() - opened
    if seen.quiet is None or seen.building is None:
        raise EngineError("nothing was sent", "see engine.log in the run folder")
    return blocking.Happened(seen.quiet, seen.building, took_s), span_s


def _used(scenario: Scenario) -> frozenset[int]:
    """CPUs of what sends and of what forwards: the action's commands stay off them where there are others."""
    return frozenset({*scenario.engine.cpus, *scenario.dut.pmd_cpus})


def _wait(for_s: float, check: Callable[[], None]) -> None:
    until = time.monotonic() + for_s
    while (left_s := until - time.monotonic()) > 0:
        check()
        time.sleep(min(LOOK_S, left_s))


def blocked_of(scenario: Scenario) -> Blocked:
    """The scenario's table. Raises InputError if there is none."""
    if scenario.blocked is None:
        raise InputError(f'{scenario.path}: measure = "blocked" needs a table [blocked]', "see docs/scenario.md")
    return scenario.blocked
