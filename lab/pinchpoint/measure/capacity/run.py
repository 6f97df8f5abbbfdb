"""The measure `capacity`: how many connections a balancer holds at once, how fast it forgets them, how they age."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import ClassVar, Final

from pinchpoint.causes.exhausted import exhausted
from pinchpoint.causes.signs import what_to_do
from pinchpoint.dut.registry import device_of
from pinchpoint.engine.connections import Load
from pinchpoint.host.priority import kept_off
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset
from pinchpoint.measure.kind import MeasureKind, asked
from pinchpoint.measure.served import SETUP_S, Flush, Opened, Opener, ends_of, held_s, remembered
from pinchpoint.measure.standing import Standing
from pinchpoint.measure.summary import scenario_result
from pinchpoint.model import units
from pinchpoint.model.limits import Limit
from pinchpoint.model.measurement import Bound, Metric
from pinchpoint.model.result import Limit as Pinch
from pinchpoint.model.result import Outcome, ScenarioResult, Verdict
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.trial import TrialValidity
from pinchpoint.model.warning import Warn
from pinchpoint.search.burst import Bounds, longest_burst

SEARCH, AGING = "capacity", "aging"
FIRST = 1000  # connections, where no limit is known
MOST_AGED = 2000  # connections whose aging is looked at
SLACK = 3.0  # times the time-out that the device reports, before aging is given up
_USUAL_TRIALS = 9
MANY = 1000  # entries: fewer are forgotten in less time than a command takes to start
CLEAR = 2.0  # times what an empty table takes: a flush from here on shows what the entries take


@dataclass(frozen=True)
class Capacity:
    """How many connections are held at once, and how that is looked for."""

    kind: ClassVar[str] = "capacity"
    start: int | None  # None: half of the least that a limit allows
    most: int
    rate_cps: float
    failure_ratio: float
    relative_width: float
    settle_s: float
    timeout_s: float
    aging_within_s: float


CAPACITY: Final = Table("capacity",
    "How the capacity of the table of connections is searched (RFC 9693): a number of connections is opened, all are "
    "held open at the same time, then each has to answer a request. The number grows exponentially until some fail, "
    "then the bounds are halved. The engine's first CPU drives clients and backends.", (
    Key("start", kinds.integer(1, 60_000_000), "The number tried first.", Unset("half of what its limits allow")),
    Key("most", kinds.integer(1, 60_000_000), "The largest number tried.", 1_000_000),
    Key("rate_cps", kinds.number(1, 1e7),
        "Connections per second that are opened, and later answered; the device must sustain it.", 5000.0),
    Key("failure_ratio", kinds.number(0, 1, below=True), "Share of them that may fail.", 0.0),
    Key("relative_width", kinds.number(0.0001, 0.5), "The search ends when its bounds are this close.", 0.02),
    Key("settle_s", kinds.number(0, 600), "For how long all are held, once the last is open, seconds.", 0.5),
    Key("timeout_s", kinds.number(0.01, 60), "A connection that waits longer has failed, seconds.", 1.0),
    Key("aging_within_s", kinds.number(0, 86_400),
        "The time for which closed connections are remembered is measured up to this limit, seconds; a small "
        "service.closed_s makes it short.", 60.0),
), measures=("capacity",))  # fmt: skip


@dataclass(frozen=True)
class Aging:
    """How long closed connections were remembered."""

    entries: int | None  # when the traffic had ended
    lasted_s: float | None  # until none was left, since the engine had ended; None: not measured
    words: str = ""  # why not; else empty


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
    with ends_of(bench) as ends, kept_off(bench.scenario.dut.cpus, bench.host):
        return _Measured(bench, Opener(ends, _figures)).result()


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
        bench, asks, smallest, limited = self._bench, self._asks, least(self._limits), ""
        half = (smallest.size or 0) // 2 if smallest else FIRST
        bench.task.listener.phase(SEARCH, _USUAL_TRIALS)
        try:
            start = min(asks.start or max(1, half), asks.most)
            bounds = longest_burst(self._fails, start, asks.most, asks.relative_width)
        except _UnusableError as error:
            limited, bounds = str(error), Bounds(self._lossless, None)
        bench.task.listener.phase(AGING, 1)
        aging, verdict = self._aging(bounds), self._verdict(limited)
        reason = limited or f"even {bounds.lossy or 1:,} connections at once failed: {verdict.headline}"
        return replace(
            scenario_result(bench.scenario, bench.wall_s, self._opener.measurements),
            verdict=verdict,
            traffic_s=math.fsum(measurement.wall_s for measurement in self._opener.measurements),
            warnings=(Warn.NO_AGING_TIME.of(aging.words),) if aging.words else (),
            outcome=Outcome.MEASURED if bounds.lossless else Outcome.FAILED,
            reason="" if bounds.lossless else reason,
            metrics=tuple(metrics(bounds, self._limits, self._opener.flushes, aging)),
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
        closed_s = held_s(self._limits)
        if closed_s is None or closed_s > asks.aging_within_s:
            shown_s = "not known" if closed_s is None else f"{closed_s:g} s"
            words = f"closed ones are remembered for {shown_s}; capacity.aging_within_s is {asks.aging_within_s:g}"
            return Aging(None, None, words)
        count = max(1, min(bounds.lossless, MOST_AGED))
        self._opener.open(AGING, Load(count, asks.rate_cps, 1, asks.timeout_s, one_isn=True))
        ended, entries = time.monotonic(), balancer.tracked()
        if entries is None:
            return Aging(None, None, f"{self._bench.scenario.dut.kind} does not say what it remembers")
        if left := remembered(balancer, SLACK * closed_s + asks.timeout_s):
            words = f"{left:,} of {entries:,} are remembered {SLACK * closed_s:g} s later, where {closed_s:g} s are set"
            return Aging(entries, None, words)
        return Aging(entries, time.monotonic() - ended)

    def _verdict(self, limited: str) -> Verdict:
        """What ended the search; `limited` says why its last load was not usable."""
        limit, lines = Pinch.GENERATOR, [limited]
        if not limited and not self._failed:
            limit, lines = Pinch.SEARCH_MAXIMUM, [f"no more than capacity.most = {self._asks.most:,} were tried"]
        elif not limited:
            ended = exhausted(self._limits, [self._failed[min(self._failed)].seen])
            mended = what_to_do(ended[0].cause, device_of(self._bench.scenario))
            limit, lines = ended[0].cause.limit, [*(candidate.words for candidate in ended), *mended]
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


def least(limits: Sequence[Limit]) -> Limit | None:
    """The limit with the fewest places; None where no size is known."""
    known = [limit for limit in limits if limit.size is not None]
    return min(known, key=lambda limit: limit.size or 0, default=None)


def metrics(bounds: Bounds, limits: Sequence[Limit], flushes: Sequence[Flush], aging: Aging) -> Iterator[Metric]:
    """Capacity, tear-down rate, aging time, as far as they are known."""
    smallest = least(limits)
    note = f"held open at once; {smallest.resource} have {smallest.size:,} places" if smallest else "held open at once"
    bound = Bound.AT_LEAST if bounds.lossy is None else Bound.FOUND
    if bounds.lossless:
        lossless, lossy = float(bounds.lossless), None if bounds.lossy is None else float(bounds.lossy)
        yield Metric("capacity", "count", lossless, lossless, lossy, note, bound)
    yield from _tear_down(flushes)
    if aging.lasted_s is not None:
        note = f"until none of {aging.entries or 0:,} closed ones was remembered"
        yield Metric("aging time", "s", aging.lasted_s, note=note)


def _tear_down(flushes: Sequence[Flush]) -> Iterator[Metric]:
    """Of the flush that had most to forget, less what a flush of an empty table takes (RFC 9693)."""
    full = max((flush for flush in flushes if flush.before), key=lambda flush: flush.before or 0, default=None)
    if full is None or not full.before:
        return
    empty_s = median([flush.took_s for flush in flushes if flush.before == 0] or [0.0])
    empty = f"of an empty table it takes {units.seconds(empty_s)}"
    note = f"{full.before:,} connections forgotten in {units.seconds(full.took_s)}, {empty}"
    if full.before >= MANY and full.took_s >= CLEAR * empty_s:
        yield Metric("tear-down rate", "1/s", full.before / (full.took_s - empty_s), note=note)
    else:
        at_least = full.before / full.took_s
        yield Metric("tear-down rate", "1/s", at_least, at_least, None, f"at least: {note}", Bound.AT_LEAST)


MEASURE: Final = MeasureKind(
    made=Capacity,
    finds="how many connections a balancer holds at once, how fast it forgets them, and how they age",
    table=lambda _: CAPACITY,
    run=measure_capacity,
    expected_s=expected_s,
    main=("capacity", "tear-down rate", "aging time"),
    needs={"port": 2, "backend": 1},
    made_of="load",
    is_served=True,
)
