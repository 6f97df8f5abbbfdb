"""The measure `capacity`: how many connections a balancer holds at once, how fast it forgets them, how they age."""

import math
import time
from dataclasses import replace
from typing import Final

from pinchpoint.account.exhausted import exhausted
from pinchpoint.engine.connections import Load
from pinchpoint.host.priority import kept_off
from pinchpoint.measure.capacity import CAPACITY, Capacity
from pinchpoint.measure.capacity import metrics as shown
from pinchpoint.measure.capacity.metrics import Aging
from pinchpoint.measure.kind import MeasureKind, asked
from pinchpoint.measure.served import LIMITS, SETUP_S, Opened, Opener
from pinchpoint.measure.standing import Standing
from pinchpoint.measure.summary import scenario_result
from pinchpoint.model import units
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
    asks, service = asked(scenario, Capacity), scenario.service
    ports = service.local_ports.count if service and service.local_ports else 0
    places = ports * len(service.locals) * len(service.backends) if service else 0
    trial_s = 2 * (places or asks.most / 2) / asks.rate_cps + asks.settle_s + asks.timeout_s + SETUP_S
    aging_s = (service.closed_s if service else None) or 0.0
    return _USUAL_TRIALS * trial_s + (aging_s if aging_s <= asks.aging_within_s else 0.0)


def measure_capacity(bench: Standing) -> ScenarioResult:
    """The capacity of the bench's balancer. Raises what a load raises, finished loads kept."""
    with kept_off(bench.scenario.dut.cpus, bench.host):
        return _Measured(bench, Opener(bench, _figures)).result()


class _UnusableError(Exception):
    """A load whose account never was usable; the message says why."""


class _Measured:
    """The search, then the aging of what it left."""

    def __init__(self, bench: Standing, opener: Opener) -> None:
        self._bench, self._opener, self._limits = bench, opener, opener.balancer.limits()
        self._asks = asked(bench.scenario, Capacity)
        self._lossless, self._failed = 0, dict[int, Opened]()

    def result(self) -> ScenarioResult:
        """Capacity, tear-down rate and aging time with their verdict; failed where no load was held."""
        bench, asks, smallest, limited = self._bench, self._asks, shown.least(self._limits), ""
        half = (smallest.size or 0) // 2 if smallest else FIRST
        bench.listener.phase(SEARCH, _USUAL_TRIALS)
        try:
            start = min(asks.start or max(1, half), asks.most)
            bounds = longest_burst(self._fails, start, asks.most, asks.relative_width)
        except _UnusableError as error:
            limited, bounds = str(error), Bounds(self._lossless, None)
        bench.listener.phase(AGING, 1)
        aging, verdict = self._aging(bounds), self._verdict(limited)
        reason = limited or f"even {bounds.lossy or 1:,} connections at once failed: {verdict.headline}"
        return replace(
            scenario_result(bench.scenario, bench.wall_s, self._opener.measurements),
            verdict=verdict,
            traffic_s=math.fsum(measurement.wall_s for measurement in self._opener.measurements),
            warnings=(f"no {shown.AGING}: {aging.words}",) if aging.words else (),
            outcome=Outcome.MEASURED if bounds.lossless else Outcome.FAILED,
            reason="" if bounds.lossless else reason,
            metrics=tuple(shown.metrics(bounds, self._limits, self._opener.flushes, aging)),
        )

    def _fails(self, connections: int) -> bool:
        """Whether the device cannot hold this many at once."""
        asks = self._asks
        hold_s = connections / asks.rate_cps + asks.settle_s
        load = Load(connections, asks.rate_cps, 1, asks.timeout_s, hold_s=hold_s, one_isn=True)
        opened = self._opener.valid(SEARCH, load)
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
        self._opener.open(AGING, Load(count, asks.rate_cps, 1, asks.timeout_s, one_isn=True))
        ended, entries = time.monotonic(), balancer.tracked()
        if entries is None:
            return Aging(None, None, f"{self._bench.scenario.dut.kind} does not say what it remembers")
        while balancer.tracked():
            if time.monotonic() - ended > SLACK * held_s + asks.timeout_s:
                left = f"{balancer.tracked():,} of {entries:,} are remembered {SLACK * held_s:g} s later"
                return Aging(entries, None, f"{left}, where {held_s:g} s are set")
            time.sleep(_POLL_S)
        return Aging(entries, time.monotonic() - ended)

    def _verdict(self, limited: str) -> Verdict:
        """What ended the search; `limited` says why its last load was not usable."""
        limit, lines = Limit.GENERATOR, [limited]
        if not limited and not self._failed:
            limit, lines = Limit.SEARCH_MAXIMUM, [f"no more than capacity.most = {self._asks.most:,} were tried"]
        elif not limited:
            ended = exhausted(self._limits, [self._failed[min(self._failed)].seen])
            limit, lines = LIMITS[ended.resource] if ended.resource else Limit.UNEXPLAINED, list(ended.evidence)
        read_back = (f"limit as read back: {bound.resource}: {bound.source}" for bound in self._limits)
        return Verdict(limit, lines[0], (*lines, *read_back), (), ())


def _figures(opened: Opened) -> tuple[Metric, ...]:
    """A load's figures: the most connections open at once, and the share that failed."""
    client, due = opened.client, opened.judged.due
    note = f"of {units.counted(opened.load.connections, 'connection')}"
    return (
        Metric("held at once", "count", float(client.most_open), note=note),
        Metric("failed", "share", (due - client.completed) / max(1, due)),
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
