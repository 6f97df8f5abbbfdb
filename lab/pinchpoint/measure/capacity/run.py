"""The measure `capacity`: how many connections a balancer holds at once, how fast it forgets them, how they age."""

import math
import time
from collections.abc import Sequence
from typing import Final

from pinchpoint.account.exhausted import Exhausted, exhausted
from pinchpoint.engine.connections import Load
from pinchpoint.host.priority import kept_off
from pinchpoint.measure.capacity import CAPACITY, Capacity
from pinchpoint.measure.capacity import metrics as shown
from pinchpoint.measure.capacity.metrics import Aging
from pinchpoint.measure.exhaustion import LIMITS
from pinchpoint.measure.kind import MeasureKind, asked
from pinchpoint.measure.served import SETUP_S, Opened, Opener
from pinchpoint.measure.standing import Standing
from pinchpoint.measure.summary import scenario_result
from pinchpoint.model import units
from pinchpoint.model.limits import Limit as Bound
from pinchpoint.model.measurement import Metric
from pinchpoint.model.result import Limit, Outcome, ScenarioResult, Verdict
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import TrialValidity
from pinchpoint.search.burst import Bounds, longest_burst

SEARCH, AGING = "capacity", "aging"
FIRST = 1000  # connections, where no limit is known
MOST_AGED = 2000  # connections whose aging is looked at
SLACK = 3.0  # times the time-out that the device reports, before aging is given up
_POLL_S = 0.05
_USUAL_TRIALS = 9


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands, where the capacity is what local ports allow, or half of the most."""
    asks = asked(scenario, Capacity)
    places = _places(scenario) or asks.most / 2
    trial_s = 2 * places / asks.rate_cps + asks.settle_s + asks.timeout_s + SETUP_S
    aging_s = (scenario.service.closed_s if scenario.service else None) or 0.0
    return _USUAL_TRIALS * trial_s + (aging_s if aging_s <= asks.aging_within_s else 0.0)


def _places(scenario: Scenario) -> int:
    service = scenario.service
    if service is None or service.local_ports is None:
        return 0
    return len(service.locals) * service.local_ports.count * len(service.backends)


def measure_capacity(bench: Standing) -> ScenarioResult:
    """The capacity of the bench's balancer. Raises what a load raises, finished loads kept."""
    with kept_off(bench.scenario.dut.cpus, bench.host):
        opener = Opener(bench)
        return _Measured(bench, opener, opener.limits()).result()


class _UnusableError(Exception):
    """A load whose account never was usable; the message says why."""


class _Measured:
    """The search, then the aging of what it left."""

    def __init__(self, bench: Standing, opener: Opener, limits: Sequence[Bound]) -> None:
        self._bench, self._opener, self._limits = bench, opener, limits
        self._asks = asked(bench.scenario, Capacity)
        self._lossless, self._failed = 0, dict[int, Opened]()

    def result(self) -> ScenarioResult:
        """Capacity, tear-down rate and aging time with their verdict; failed where no load was held."""
        asks, smallest, limited = self._asks, shown.least(self._limits), ""
        half = (smallest.size or 0) // 2 if smallest else FIRST
        self._bench.listener.phase(SEARCH, _USUAL_TRIALS)
        try:
            start = min(asks.start or max(1, half), asks.most)
            bounds = longest_burst(self._fails, start, asks.most, asks.relative_width)
        except _UnusableError as error:
            limited, bounds = str(error), Bounds(self._lossless, None)
        self._bench.listener.phase(AGING, 1)
        return self._summary(bounds, limited, self._aging(bounds))

    def _fails(self, connections: int) -> bool:
        """Whether the device cannot hold this many at once."""
        asks = self._asks
        hold_s = connections / asks.rate_cps + asks.settle_s
        load = Load(connections, asks.rate_cps, 1, asks.timeout_s, hold_s=hold_s, one_isn=True)
        opened = self._opener.valid(SEARCH, load, _figures)
        if opened.judged.validity is not TrialValidity.VALID:
            raise _UnusableError(opened.judged.reason)
        failed = opened.judged.due - opened.client.completed
        if failed > asks.failure_ratio * connections:
            self._failed[connections] = opened
            return True
        self._lossless = max(self._lossless, connections)
        return False

    def _aging(self, bounds: Bounds) -> Aging:
        """How long it is until no closed connection is remembered."""
        asks, balancer = self._asks, self._opener.balancer
        held_s = max((limit.held_s for limit in self._limits if limit.held_s is not None), default=None)
        if held_s is None or held_s > asks.aging_within_s:
            shown_s = "not known" if held_s is None else f"{held_s:g} s"
            words = f"closed ones are remembered for {shown_s}; capacity.aging_within_s is {asks.aging_within_s:g}"
            return Aging(None, None, words)
        count = max(1, min(bounds.lossless, MOST_AGED))
        load = Load(count, asks.rate_cps, 1, asks.timeout_s, one_isn=True)
        began = time.monotonic()
        self._opener.open(AGING, load, figures=_figures)
        ended, entries = time.monotonic(), balancer.tracked()
        if entries is None:
            return Aging(None, None, f"{self._bench.scenario.dut.kind} does not say what it remembers")
        while balancer.tracked():
            if time.monotonic() - ended > SLACK * held_s + asks.timeout_s:
                left = f"{balancer.tracked():,} of {entries:,} are remembered {SLACK * held_s:g} s later"
                return Aging(entries, None, f"{left}, where {held_s:g} s are set")
            time.sleep(_POLL_S)
        now = time.monotonic()
        return Aging(entries, now - ended, most_s=now - began - load.opening_s)

    def _ended(self, limited: str) -> tuple[Limit, Exhausted]:
        if limited:
            return Limit.GENERATOR, Exhausted(None, (limited,))
        if not self._failed:
            words = f"no more than capacity.most = {self._asks.most:,} were tried"
            return Limit.SEARCH_MAXIMUM, Exhausted(None, (words,))
        ended = exhausted(self._limits, [self._failed[min(self._failed)].seen])
        return LIMITS[ended.resource] if ended.resource else Limit.UNEXPLAINED, ended

    def _summary(self, bounds: Bounds, limited: str, aging: Aging) -> ScenarioResult:
        measurements = self._opener.measurements
        limit, ended = self._ended(limited)
        figures = tuple(shown.metrics(bounds, self._limits, self._opener.flushes, aging))
        evidence = (
            *ended.evidence,
            *(f"limit as read back: {bound.resource}: {bound.source}" for bound in self._limits),
        )
        reason = limited or f"even {bounds.lossy or 1:,} connections at once failed: {ended.evidence[0]}"
        return scenario_result(
            self._bench.scenario,
            self._bench.wall_s,
            taken=measurements,
            verdict=Verdict(limit, ended.evidence[0], evidence, (), ()),
            traffic_s=math.fsum(measurement.wall_s for measurement in measurements),
            warnings=(f"no {shown.AGING}: {aging.words}",) if aging.words else (),
            outcome=Outcome.MEASURED if bounds.lossless else Outcome.FAILED,
            reason="" if bounds.lossless else reason,
            metrics=figures,
        )


def _figures(opened: Opened) -> tuple[Metric, ...]:
    """A load's figures: the most connections open at once, and the share that failed."""
    client, due = opened.client, max(1, opened.judged.due)
    note = f"of {units.counted(opened.load.connections, 'connection')}"
    return (
        Metric("held at once", "count", float(client.most_open), note=note),
        Metric("failed", "share", (opened.judged.due - client.completed) / due),
    )


MEASURES: Final = (
    MeasureKind(
        made=Capacity,
        finds="how many connections a balancer holds at once, how fast it forgets them, and how they age",
        table=lambda _: CAPACITY,
        run=measure_capacity,
        expected_s=expected_s,
        main=("capacity", "tear-down rate", "aging time"),
        needs={"port": 2, "backend": 1},
        made_of="load",
        is_served=True,
    ),
)
