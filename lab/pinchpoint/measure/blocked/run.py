"""The measure `blocked`: how long forwarding stands still while something happens to the DUT."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Final

from pinchpoint.dut.device import Action
from pinchpoint.host.priority import kept_off
from pinchpoint.measure.blocked import Blocked, check_keys, table
from pinchpoint.measure.blocked import metrics as blocking
from pinchpoint.measure.carried import judged
from pinchpoint.measure.kind import MeasureKind, asked
from pinchpoint.measure.standing import Standing, Stopper
from pinchpoint.measure.summary import result_of
from pinchpoint.measure.traffic import LOOK_S, QUIET_S, background
from pinchpoint.model.errors import EngineError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import TrialValidity
from pinchpoint.observe.bracket import Bracket
from pinchpoint.observe.snapshot import Observation, together

WARM_UP_S = 0.5
PHASE = "blocked"

# For estimates, which their own ratio to the time spent corrects.
REPEAT_S = 4.0  # around an action under traffic: the engine's start, a warm-up, a quiet second
ACTION_S = 1.0
MANY, ITEM_S = ("-flows", "-ports"), 1e-3  # actions that have `count` items; of each


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    blocked = asked(scenario, Blocked)
    acting_s = ITEM_S * blocked.count if blocked.action.endswith(MANY) else ACTION_S
    return blocked.repeats * (REPEAT_S + blocked.before_s + acting_s + blocked.after_s)


def measure_blocked(bench: Standing) -> ScenarioResult:
    """Every repeat of the action, and what follows. Raises Interrupted, BenchError, DutError or EngineError."""
    scenario = bench.scenario
    blocked = asked(scenario, Blocked)
    stopper = bench.stopper()
    bench.record.note_facts(bench.live.versions())
    bench.listener.phase(PHASE, blocked.repeats)

    def repeat(number: int) -> Measurement:
        stopper.check()
        return bench.keep(_repeat(bench, blocked, number, stopper))

    spare = min(blocked.repeats, scenario.search.max_repeats)
    made = all_repeats(bench.recorded.measurements, blocked.repeats, spare, repeat)
    metrics, warnings = blocking.together(made), blocking.warnings(made, blocked.repeats)
    told = any(metric.name == blocking.NAMES[0] for metric in metrics)
    failed = "" if told else f"no blocked time: {'; '.join(warnings)}\n  hint: lower blocked.load_fps"
    return result_of(scenario, (), bench.wall_s, metrics, warnings, failed=failed)


def all_repeats(
    recorded: Sequence[Measurement], wanted: int, spare: int, repeat: Callable[[int], Measurement]
) -> list[Measurement]:
    """All repeats, until `wanted` are valid or `spare` more than are missing have been made; `repeat` makes number n.

    Valid ones of an interrupted run are not made again. Its disturbed ones stay in the record, but use up no
    spare one: a run that is resumed because of them would end with them at once.
    """
    made = list(recorded)
    most = len(made) + wanted - _valid(made) + spare
    while _valid(made) < wanted and len(made) < most:
        made.append(repeat(len(made) + 1))
    return made


def _valid(made: Sequence[Measurement]) -> int:
    return sum(measurement.validity is TrialValidity.VALID for measurement in made)


def _repeat(bench: Standing, blocked: Blocked, number: int, stopper: Stopper) -> Measurement:
    check = stopper.check
    begun = bench.begin(number, WARM_UP_S + QUIET_S + blocked.before_s + blocked.after_s)
    action = bench.live.action(blocked, bench.setup.resources)
    action.prepare(check)
    bracket = bench.host_bracket()
    happened, seen = _under_traffic(bench, blocked, action, bracket, check)
    action.restore(check)
    metrics, cannot = blocking.metrics(happened)
    validity = TrialValidity.NOISY_HOST if cannot else TrialValidity.VALID
    account = {"blocked": asdict(blocked), **asdict(happened)}
    ended = begun.ended(metrics, account, seen.flat(), validity=validity, reason=cannot)
    return ended if cannot else judged(ended, seen.elapsed_s)


def _under_traffic(
    bench: Standing, blocked: Blocked, action: Action, bracket: Bracket, check: Callable[[], None]
) -> tuple[blocking.Happened, Observation]:
    """Let it happen while frames are sent, and see what the host does meanwhile."""
    sending = background(bench, None, blocked.load_fps, renewed=action.ends_processes)
    # The action's commands stay off the bench's CPUs where there are others.
    with sending as traffic, kept_off(bench.cpus, bench.host):
        traffic.warm_up(WARM_UP_S, check)
        traffic.start(check)
        bracket.open()
        _wait(blocked.before_s, check)
        # Of a process that ends nobody can be asked afterwards what time it took.
        observed = [bracket.turn()] if action.ends_processes else []
        began = time.monotonic()
        action.act(check)
        took_s = time.monotonic() - began
        _wait(blocked.after_s, check)
        seen = traffic.finish(began, check)
        observed.append(bracket.close())  # while the engine is there, whose time is the bench's
    if seen.quiet is None or seen.building is None:
        raise EngineError("nothing was sent", "see engine.log in the run folder")
    return blocking.Happened(seen.quiet, seen.building, took_s, bool(bench.host.name)), together(observed)


def _wait(for_s: float, check: Callable[[], None]) -> None:
    until = time.monotonic() + for_s
    while (left_s := until - time.monotonic()) > 0:
        check()
        time.sleep(min(LOOK_S, left_s))


MEASURES: Final = (
    MeasureKind(
        made=Blocked,
        finds="how long forwarding stands still while the DUT is changed",
        table=table,
        run=measure_blocked,
        expected_s=expected_s,
        main=("blocked time", "longest silence", "longest gap", "action time"),
        check=check_keys,
        made_of="repeat",
        has_limit=False,
    ),
)
