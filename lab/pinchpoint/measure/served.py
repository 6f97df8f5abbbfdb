"""Connections through a balancer that stands: one load after the other, each with its account and what was seen."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from pinchpoint.account.exhausted import Seen, pushed_back
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.services import Balancer
from pinchpoint.engine.connections import RING, Account, Client, Load, Tuples, command, connect
from pinchpoint.measure.ends import ends_of
from pinchpoint.measure.standing import Standing, Undoable
from pinchpoint.model import units
from pinchpoint.model.errors import EngineError, InputError
from pinchpoint.model.limits import Limit, Wanted, too_few
from pinchpoint.model.measurement import Measurement, Metric
from pinchpoint.model.scenario import Scenario, Service, Validity
from pinchpoint.model.trial import TrialValidity

TRIES = 3  # of one load
SETUP_S = 1.0  # around a load, for estimates: the flush, the engine's start, counters read twice


@dataclass(frozen=True)
class Flush:
    """That a load began with no connection remembered."""

    before: int | None  # connections that were remembered; None: the device does not say
    after: int | None  # 0: proven
    took_s: float


@dataclass(frozen=True)
class Judged:
    """What a load says about the device."""

    validity: TrialValidity
    due: int  # connections that it was to bear: those that the device did not let in are among them
    reason: str = ""


def judge(seen: Seen, rules: Validity) -> Judged:
    """Whether a load's account can be used. Raises EngineError where there is none.

    Connections that were not opened in time are the device's failures where it did not take their SYNs, the generator's
    where its core was busy, and else nobody's: the host gave the core to others.
    """
    client = answered(seen.account)
    opened, missing = client.opened, client.shortfall
    due = opened + missing
    if pushed_back(seen.account):
        return Judged(TrialValidity.VALID, due)
    busy = f"its core was {units.share(seen.busy_share)} busy"
    figures = f"{missing:,} of {due:,} connections were not opened in time: {busy}"
    if missing > rules.shortfall_ratio * due and seen.is_generator_full:
        return Judged(TrialValidity.GENERATOR_LIMITED, opened, figures)
    if missing > rules.gap_shortfall_ratio * due:
        return Judged(TrialValidity.NOISY_HOST, opened, f"{figures}, and others had it")
    missed = sum(port.rx_missed or 0 for port in seen.account.ports)
    if missed and opened > client.completed:
        validity = TrialValidity.GENERATOR_LIMITED if seen.is_generator_full else TrialValidity.NOISY_HOST
        words = f"the engine's rings of {RING:,} frames had no place for {missed:,}: {busy}"
        return Judged(validity, opened, words)
    return Judged(TrialValidity.VALID, opened)


def answered(account: Account) -> Client:
    """The client's account. Raises EngineError where it never began."""
    if account.client is None:
        raise EngineError("nobody answered for the service's address: the engine found no way to it")
    return account.client


def of_service(scenario: Scenario) -> Service:
    """What is balanced. Raises InputError where nothing is."""
    if scenario.service is None:
        raise InputError(f"{scenario.path}: expected a [service]")
    return scenario.service


def balancer_of(bench: Standing) -> Balancer:
    """The device as a balancer. Raises InputError where it does not say what bounds it."""
    if (balancer := bench.live.balancer()) is None:
        kind = bench.scenario.dut.kind
        raise InputError(
            f"{bench.scenario.path}: {kind} does not say what bounds its connections, and cannot forget them",
            f'measure = "{bench.scenario.measure.kind}" needs both; another dut.kind has them',
        )
    return balancer


def suffices(scenario: Scenario, limits: Sequence[Limit], wanted: Wanted) -> None:
    """Nothing, where every limit has places for a load. Raises InputError with the figure where one has not."""
    for limit in limits:
        if limit.size is None or limit.held_s is None or not (missing := too_few(limit.size, limit.held_s, wanted)):
            continue
        measure = scenario.measure.kind
        raise InputError(
            f"{scenario.path}: {limit.size:,} places ({limit.resource}: {limit.source}) are too few for "
            f"{wanted.connections:,} connections at {wanted.cps:g} per second: {missing:,} would fail",
            f"write a lower {measure}.rate_cps, fewer {measure}.connections, or give the service more",
        )


def flushed(balancer: Balancer) -> Flush:
    """Let the device forget all connections. Raises BenchError where it remembers some."""
    before, began = balancer.tracked(), time.monotonic()
    balancer.flush()
    return Flush(before, balancer.tracked(), time.monotonic() - began)


@dataclass(frozen=True)
class Opened:
    """One load: what was asked, its account, and what was seen."""

    load: Load
    judged: Judged
    seen: Seen

    @property
    def client(self) -> Client:
        """The client's account. Raises EngineError where it never began."""
        return answered(self.seen.account)


def stored(measurement: Measurement) -> Opened:
    """A load from its record."""
    account, stored_load, judged = (measurement.account[name] for name in ("engine", "load", "judged"))
    load = msgspec.convert(stored_load, Load)
    seen = Seen(msgspec.convert(account, Account), measurement.observed, measurement.threads, traffic_s(load))
    return Opened(load, msgspec.convert(judged, Judged), seen)


class Opener:
    """Opens loads on one bench and keeps each as it ends."""

    def __init__(self, bench: Standing) -> None:
        self._bench, scenario = bench, bench.scenario
        self.service, self.balancer = of_service(scenario), balancer_of(bench)
        self._ends = ends_of(bench, self.service)
        self._tuples = Tuples(self.service.clients.count, self.service.client_ports)
        self._bracket = bench.bracket()
        bench.record.note_facts(bench.live.ready())
        self._recorded = list(bench.recorded.measurements)
        self._count = len(self._recorded)
        self.measurements: list[Measurement] = []
        self.flushes: list[Flush] = []
        bench.on_stoppable(Undoable())

    def limits(self) -> tuple[Limit, ...]:
        """What bounds the connections, as read back now."""
        return self.balancer.limits()

    def open(
        self,
        phase: str,
        load: Load,
        *,
        flush: bool = True,
        figures: Callable[[Opened], tuple[Metric, ...]] = lambda _: (),
    ) -> Opened:
        """One load, begun with an empty table if it is to be flushed. Raises EngineError, DutError or BenchError.

        A run that continues an interrupted one takes the same load of that for an answer.
        """
        measurement = self._replayed(phase, load)
        if measurement is None:
            measurement = self._bench.keep(self._run(phase, load, flush, figures))
        else:
            self._bench.listener.measurement_ends(measurement)
        self.measurements.append(measurement)
        return stored(measurement)

    def valid(self, phase: str, load: Load, figures: Callable[[Opened], tuple[Metric, ...]] = lambda _: ()) -> Opened:
        """The same until its account can be used, `TRIES` times at most; then the last one."""
        for _ in range(TRIES - 1):
            opened = self.open(phase, load, figures=figures)
            if opened.judged.validity is TrialValidity.VALID:
                return opened
        return self.open(phase, load, figures=figures)

    def _replayed(self, phase: str, load: Load) -> Measurement | None:
        wanted = _asked(load)
        for number, measurement in enumerate(self._recorded):
            if measurement.account.get("phase") == phase and _asked(stored(measurement).load) == wanted:
                return self._recorded.pop(number)
        return None

    def _run(self, phase: str, load: Load, flush: bool, figures: Callable[[Opened], tuple[Metric, ...]]) -> Measurement:
        bench, scenario = self._bench, self._bench.scenario
        self._count += 1
        begun = bench.begin(self._count, lasting_s(load))
        if empty := flushed(self.balancer) if flush else None:
            self.flushes.append(empty)
        load = _with_ports(load, self._tuples)
        argv = command(bench.engine, scenario.engine.cpus[0], self._ends.words, self.service, load, self._ends.dpdk)
        self._bracket.open()
        account = connect(bench.host, argv, bench.setup.places.environment, load)
        observed = self._bracket.close().flat()
        lasted_s = traffic_s(load)
        seen = Seen(account, observed, device_of(scenario).loads(observed, lasted_s), lasted_s)
        judged = judge(seen, scenario.validity)
        told: Mapping[str, object] = {"load": load, "judged": judged, "flushed": empty, "limits": self.limits()}
        return begun.ended(
            figures(Opened(load, judged, seen)),
            {"phase": phase, **msgspec.to_builtins(told), "engine": msgspec.to_builtins(account)},
            observed,
            threads=seen.threads,
            validity=judged.validity,
            reason=judged.reason,
        )


def traffic_s(load: Load) -> float:
    """How long a load is under way where nothing fails."""
    return load.opening_s + load.hold_s


def lasting_s(load: Load) -> float:
    """About how long a load takes, whatever fails."""
    return traffic_s(load) + SETUP_S


def _with_ports(load: Load, tuples: Tuples) -> Load:
    return replace(load, client_ports=tuples.take(load.connections))


def _asked(load: Load) -> Load:
    return replace(load, client_ports=None)
