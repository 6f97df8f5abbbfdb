"""The measure `change`: connections are opened at a steady rate while something happens."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import Final

import msgspec

from pinchpoint.dut.services import Rebalanced
from pinchpoint.engine.connections import SPARE_S, Account, Load, Outage, Sample, Watched, options
from pinchpoint.measure.carried import judged
from pinchpoint.measure.change import CHANGE, Changed, Event, check_keys
from pinchpoint.measure.change.judged import CYCLE_S, Happened, metrics
from pinchpoint.measure.kind import MeasureKind, asked
from pinchpoint.measure.served import Ends, answered, ends_of
from pinchpoint.measure.standing import Standing
from pinchpoint.measure.summary import result_of
from pinchpoint.model.errors import EngineError, InputError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Range, Scenario, Scheduler, Service
from pinchpoint.observe.snapshot import Observation

SETUP_S = 1.0  # of the engine
LOOK_S = 0.01
BEFORE_END_S = 0.2

Step = tuple[float, Callable[[], None]]
"""When to do what, seconds since the first connection was due."""


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    changed = asked(scenario, Changed)
    return changed.opening_s + changed.timeout_s + changed.hold_s + SETUP_S


def measure_change(bench: Standing) -> ScenarioResult:
    """Open the connections, let it happen, and judge. Raises EngineError or BenchError where nothing can be said."""
    measurement = bench.once(lambda: _measure(bench))
    return result_of(bench.scenario, (), bench.wall_s, measurement.metrics)


def _measure(bench: Standing) -> Measurement:
    changed, check = asked(bench.scenario, Changed), bench.stopper().check
    begun, ends = bench.begin(1, expected_s(bench.scenario)), ends_of(bench)
    happened, samples, account, seen = _under_connections(bench, changed, ends, check)
    told = {
        "change": asdict(changed),
        "happened": [asdict(event) for event in happened],
        "samples": msgspec.to_builtins(samples),
        "engine": msgspec.to_builtins(account),
    }
    return judged(begun.ended(metrics(changed, ends.service, happened, samples), told, seen.flat()), seen.elapsed_s)


def _under_connections(
    bench: Standing, changed: Changed, ends: Ends, check: Callable[[], None]
) -> tuple[list[Happened], list[Sample], Account, Observation]:
    """Let it happen while connections are opened, and see what the host does meanwhile.

    The balancer is left with all of its backends.
    """
    ports, places = _ports(changed, ends.service), bench.setup.places
    bracket, seen = bench.host_bracket(), list[Observation]()
    count, asks = round(changed.rate_cps * changed.opening_s), (changed.rate_cps, changed.requests, changed.timeout_s)
    load = Load(count, *asks, hold_s=changed.hold_s, client_ports=ports)
    argv = [*ends.command(load), *options(ports is not None, _outages(changed))]
    with ExitStack() as restored:
        steps = _steps(bench, changed, restored)
        watched = Watched(bench.host, argv, places.environment, f"{places.directory}/connect-{time.monotonic_ns()}")
        restored.callback(watched.end)
        # Of an engine that has ended nobody can be asked what time it took: the host is watched until just before.
        last: Step = (changed.opening_s - BEFORE_END_S, lambda: seen.append(bracket.close()))
        happened = _follow(watched, [(0.0, bracket.open), *steps, last], load.lasting_s + SPARE_S, check)
    account = watched.account()
    answered(account, ends.service.address)
    return happened[1 : 1 + len(steps)], watched.samples, account, seen[0]


def _ports(changed: Changed, service: Service) -> Range | None:
    """Of each client, so that each tuple comes again after a cycle; None where nothing hangs on the tuple."""
    if service.scheduler is not Scheduler.HASH:
        return None
    return Range(service.client_ports.first, max(1, round(changed.rate_cps * CYCLE_S / service.clients.count)))


def _outages(changed: Changed) -> list[Outage]:
    if changed.happens not in (Event.SILENT, Event.RESET):
        return []
    is_reset = changed.happens is Event.RESET
    return [Outage(changed.backend, changed.at_s, changed.at_s + changed.for_s, is_reset)]


def _nothing() -> None:
    """What happens to a backend, the engine does by itself."""


def _steps(bench: Standing, changed: Changed, restored: ExitStack) -> list[Step]:
    """The changes; `restored` gets what undoes them. Raises InputError if the balancer cannot."""
    event, backend = changed.happens, changed.backend
    if event.asks is None:
        return [(changed.at_s, _nothing), (changed.at_s + changed.for_s, _nothing)]
    balancer: Rebalanced | None = bench.live.rebalanced()
    if balancer is None:
        raise InputError(f'{bench.scenario.path}: change.event = "{event}": the device cannot do it')
    if event is Event.RELOAD:
        return [(changed.at_s, balancer.reload)]
    restored.callback(balancer.add, backend)
    adding = partial(balancer.add, backend)
    if event is Event.ADD:
        balancer.remove(backend)
        return [(changed.at_s, adding)]
    return [(changed.at_s, partial(balancer.remove, backend)), (changed.at_s + changed.for_s, adding)]


def _follow(watched: Watched, steps: Sequence[Step], limit_s: float, check: Callable[[], None]) -> list[Happened]:
    """Take each step at its time until the engine has ended. Raises EngineError if it does not.

    The last step may be taken when it has: how long ago the first connection was due, is known to be no less.
    """
    left, happened, until = deque(steps), list[Happened](), time.monotonic() + limit_s
    while watched.look():
        check()
        if time.monotonic() > until:
            raise EngineError(f"the engine did not end within {limit_s:g} s")
        if left and watched.began is not None and time.monotonic() - watched.began >= left[0][0]:
            happened.append(_act(watched.began, *left.popleft()))
            continue
        time.sleep(LOOK_S)
    watched.look()
    if len(left) > 1:
        raise EngineError("the engine ended before everything had happened", "see its log in the run folder")
    for _, act in left:
        act()
    return happened


def _act(began: float, at_s: float, act: Callable[[], None]) -> Happened:
    if act is _nothing:
        return Happened(at_s, at_s)
    begun_s = time.monotonic() - began
    act()
    return Happened(begun_s, time.monotonic() - began)


MEASURE: Final = MeasureKind(
    made=Changed,
    finds="which connections break when a backend leaves or comes, and when the balance is right again",
    table=lambda _: CHANGE,
    run=measure_change,
    expected_s=expected_s,
    main=(
        "broken",
        "refused",
        "reset",
        "timed out connecting",
        "timed out answering",
        "timed out closing",
        "right after",
        "right after return",
        "moved connections",
        "tuples moved",
        "tuples moved at return",
        "share of backend ",
    ),
    needs={"port": 2, "backend": 1},
    check=check_keys,
    made_of="connection",
    has_limit=False,
    is_served=True,
)
