"""The measure `change`: connections are opened at a steady rate while something happens."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Final

import msgspec

from pinchpoint.dut.services import Rebalanced
from pinchpoint.engine.connections import SPARE_S, Account, Load, command
from pinchpoint.engine.watched import Outage, Sample, Watched, lasting_s, options
from pinchpoint.measure.carried import judged
from pinchpoint.measure.change import CHANGE, Changed, Event, check_keys
from pinchpoint.measure.change.judged import CYCLE_S, Happened, metrics
from pinchpoint.measure.ends import ends_of
from pinchpoint.measure.kind import MeasureKind, asked
from pinchpoint.measure.standing import Standing
from pinchpoint.measure.summary import Findings, result_of
from pinchpoint.model.errors import EngineError, InputError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import ScenarioResult
from pinchpoint.model.scenario import Range, Scenario, Scheduler, Service
from pinchpoint.observe.bracket import Bracket
from pinchpoint.observe.snapshot import Observation

SETUP_S = 1.0  # of the engine
LOOK_S = 0.01
BEFORE_END_S = 0.2

Check = Callable[[], None]


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    changed = asked(scenario, Changed)
    return changed.opening_s + changed.timeout_s + changed.hold_s + SETUP_S


def measure_change(bench: Standing) -> ScenarioResult:
    """Open the connections, let it happen, and judge. Raises EngineError or BenchError where nothing can be said."""
    measurement = bench.once(lambda: _measure(bench))
    return result_of(bench.scenario, (), Findings(measurement.metrics, ()), bench.wall_s)


def _measure(bench: Standing) -> Measurement:
    scenario, changed, service = bench.scenario, asked(bench.scenario, Changed), _service(bench.scenario)
    stopper = bench.stopper()
    begun = bench.begin(1, expected_s(scenario))
    bracket = bench.host_bracket()
    happened, samples, account, seen = _under_connections(bench, changed, service, bracket, stopper.check)
    told = {
        "change": asdict(changed),
        "happened": [asdict(event) for event in happened],
        "samples": msgspec.to_builtins(samples),
        "engine": msgspec.to_builtins(account),
    }
    return judged(begun.ended(metrics(changed, service, happened, samples), told, seen.flat()), seen.elapsed_s)


def _service(scenario: Scenario) -> Service:
    if scenario.service is None:
        raise InputError(f"{scenario.path}: expected a [service] to change")
    return scenario.service


def _under_connections(
    bench: Standing, changed: Changed, service: Service, bracket: Bracket, check: Check
) -> tuple[list[Happened], list[Sample], Account, Observation]:
    """Let it happen while connections are opened, and see what the host does meanwhile.

    The balancer is left with all of its backends.
    """
    ports = _ports(changed, service)
    load = Load(
        round(changed.rate_cps * changed.opening_s),
        changed.rate_cps,
        changed.requests,
        changed.timeout_s,
        hold_s=changed.hold_s,
        client_ports=ports,
    )
    ends, core = ends_of(bench, service), bench.scenario.engine.cpus[0]
    opening = command(bench.engine, core, ends.words, service, load, ends.dpdk)
    argv = [*opening, *options(ports is not None, _outages(changed))]
    places = bench.setup.places
    with ExitStack() as restored:
        steps = _steps(bench, changed, restored)
        watched = Watched(bench.host, argv, places.environment, f"{places.directory}/connect-{time.monotonic_ns()}")
        restored.callback(watched.end)
        # Of an engine that has ended nobody can be asked what time it took: the host is watched until just before.
        host = Bracketed(bracket, changed.opening_s - BEFORE_END_S)
        happened = _follow(watched, steps, host, lasting_s(load) + SPARE_S, check)
    account = watched.account()
    if not watched.samples or account.client is None or host.seen is None:
        raise EngineError(f"nobody answered for {service.address}: the engine found no way to the service")
    return happened, watched.samples, account, host.seen


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


Step = tuple[float, Callable[[], None]]


def _nothing() -> None:
    """What happens to a backend, the engine does by itself."""


def _steps(bench: Standing, changed: Changed, restored: ExitStack) -> list[Step]:
    """When to do what; `restored` gets what undoes it. Raises InputError if the balancer cannot."""
    event, backend = changed.happens, changed.backend
    if event.asks is None:
        return [(changed.at_s, _nothing), (changed.at_s + changed.for_s, _nothing)]
    balancer: Rebalanced | None = bench.live.rebalanced()
    if balancer is None:
        raise InputError(f'{bench.scenario.path}: change.event = "{event}": the device cannot do it')
    if event is Event.RELOAD:
        return [(changed.at_s, balancer.reload)]
    restored.callback(balancer.add, backend)
    if event is Event.ADD:
        balancer.remove(backend)
        return [(changed.at_s, lambda: balancer.add(backend))]
    steps = (lambda: balancer.remove(backend), lambda: balancer.add(backend))
    return [(changed.at_s, steps[0]), (changed.at_s + changed.for_s, steps[1])]


class Bracketed:
    """What the host does from the first connection until `until_s` later."""

    def __init__(self, bracket: Bracket, until_s: float) -> None:
        self._bracket, self._until_s, self._is_open = bracket, until_s, False
        self.seen: Observation | None = None

    def look(self, elapsed_s: float) -> None:
        """Read the counters when it is time."""
        if not self._is_open:
            self._bracket.open()
            self._is_open = True
        elif self.seen is None and elapsed_s >= self._until_s:
            self.seen = self._bracket.close()

    def end(self) -> None:
        """Nothing is to be seen any more."""
        if self._is_open and self.seen is None:
            self.seen = self._bracket.close()


def _follow(watched: Watched, steps: Sequence[Step], host: Bracketed, limit_s: float, check: Check) -> list[Happened]:
    """Take each step at its time until the engine has ended. Raises EngineError if it does not."""
    left, happened, until = list(steps), list[Happened](), time.monotonic() + limit_s
    while watched.look():
        check()
        if time.monotonic() > until:
            raise EngineError(f"the engine did not end within {limit_s:g} s")
        if watched.began is not None:
            host.look(time.monotonic() - watched.began)
        if left and watched.began is not None and time.monotonic() - watched.began >= left[0][0]:
            at_s, act = left.pop(0)
            happened.append(_act(watched.began, at_s, act))
            continue
        time.sleep(LOOK_S)
    watched.look()
    host.end()
    if left:
        raise EngineError("the engine ended before everything had happened", "see its log in the run folder")
    return happened


def _act(began: float, at_s: float, act: Callable[[], None]) -> Happened:
    if act is _nothing:
        return Happened(at_s, at_s)
    begun_s = time.monotonic() - began
    act()
    return Happened(begun_s, time.monotonic() - began)


MEASURES: Final = (
    MeasureKind(
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
    ),
)
