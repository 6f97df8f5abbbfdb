"""Connections through a balancer that stands: the engine's two ends, one load after the other, and those that stand.

The engine's clients are behind one port of the device, its backends behind another. Each load has its account and what
was seen meanwhile.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count

import msgspec

from pinchpoint.account.validity import LoadJudgement, Seen, judge_load
from pinchpoint.dut.device import Live
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.services import Balancer, await_forgotten
from pinchpoint.dut.setup import await_engine_pages
from pinchpoint.engine import connections, protocol
from pinchpoint.engine.connections import (
    RING,
    Account,
    Client,
    ConnectionsRequest,
    ConnectionsSample,
    Load,
    Sample,
    Times,
    Tuples,
)
from pinchpoint.engine.process import ProcessInstrument, Progress
from pinchpoint.measure.loop import loop_of
from pinchpoint.measure.standing import Begun, Standing, Undoable, engine_process
from pinchpoint.model import units
from pinchpoint.model.errors import BenchError, EngineError, HostLostError, InputError, PinchpointError
from pinchpoint.model.limits import Limit, Resource, Wanted, too_few
from pinchpoint.model.measurement import Measurement, Metric
from pinchpoint.model.scenario import Established, Scenario, Service
from pinchpoint.model.trial import TrialValidity

TRIES = 3  # of one load
POLL_S = 0.05  # between two looks at what a balancer remembers
SETUP_S = 1.0  # around a load, for estimates: the flush, counters read twice; at the first the engine's start
HINT = 'measure = "verify" shows what the service does with each; more established.timeout_s, or fewer connections'
_JOINING = Load(connections=1, rate_cps=1e3, requests=1, timeout_s=1.0)
_HELD = (Resource.LOCAL_PORTS, Resource.TABLE, Resource.DESCRIPTORS)  # one place for each connection that stands


class Ends:
    """The engine's ends of a service on a bench that stands: one engine, whose ports stay open from load to load."""

    def __init__(self, bench: Standing, service: Service) -> None:
        """It opens nothing yet."""
        self.bench, self.service = bench, service
        self._ports = (service.client_port, service.server_port)
        self._cpus = bench.scenario.engine.cpus[: _queues(bench, self._ports)]
        self._instrument: ProcessInstrument | None = None
        self._opened: tuple[int, ...] = ()  # its cores
        self._loads = count(1)

    def request(self, load: Load) -> ConnectionsRequest:
        """What the engine is asked for."""
        trial = f"{self.bench.scenario.name}-{next(self._loads)}"
        return connections.request(trial, self._ports, self.service, load)

    def connect(
        self,
        load: Load,
        request: ConnectionsRequest | None = None,
        heard: Callable[[Sample], None] | None = None,
    ) -> Account:
        """Open the connections until each has ended; `heard` gets samples as they come. Raises EngineError.

        `request`: what is asked for instead of `request(load)`.
        """
        samples = list[Sample]()

        def took(progress: Progress) -> None:
            if isinstance(progress, ConnectionsSample):
                samples.append(progress.counts())
                if heard is not None:
                    heard(samples[-1])

        instrument = self.prepare(load)
        try:
            account = instrument.connect(request or self.request(load), load.lasting_s, took).account(samples)
        except PinchpointError:
            self.close()  # what it has left to say is of this load
            raise
        if account.client is None:
            self.close()
        return account

    def stop(self) -> None:
        """End the load that runs; `connect` then returns its account."""
        if self._instrument is not None:
            self._instrument.stop()

    def close(self) -> None:
        """End the engine; may be called twice."""
        instrument, self._instrument = self._instrument, None
        if instrument is not None:
            instrument.close()

    def prepare(self, load: Load = _JOINING) -> ProcessInstrument:
        """The engine on the cores that a load is divided among, started anew where it has others. Raises EngineError.

        One connection that is in no account is opened where the ports are rings: a device answers nothing before those
        have been joined.
        """
        cores = tuple(load.divided(self._cpus, self.service))
        if self._instrument is not None and self._opened == cores:
            return self._instrument
        self.close()
        opens = self._opens(cores)
        self._instrument = instrument = engine_process(self.bench, opens, self.bench.host, self.bench.engine)
        try:
            await_engine_pages(self.bench.setup)
            self.bench.task.note_facts(instrument.open())
            if opens.eal_args:
                joined = instrument.connect(self.request(_JOINING), _JOINING.lasting_s)
                joined.account().of_client(self.service.address)
        except PinchpointError:
            self.close()
            with suppress(BenchError):
                self.bench.live.unchanging()  # an engine fails to start where the device has died: that is the error
            raise
        self._opened = cores
        return instrument

    def _opens(self, cores: tuple[int, ...]) -> protocol.Open:
        """Each core has a queue of both ports."""
        bench = self.bench.setup.engine
        ring = min(port.ring for port in self.bench.scenario.ports) if bench.eal_args else RING
        ports = [
            msgspec.structs.replace(port, rx_ring=ring, tx_ring=ring, answers=())
            for name in self._ports
            for port in bench.ports
            if port.name == name
        ]
        workers = [protocol.WorkerRequest(core, self._ports) for core in cores]
        return msgspec.structs.replace(bench, ports=tuple(ports), workers=tuple(workers))


def _queues(bench: Standing, names: tuple[str, str]) -> int | None:
    """Of each port of the engine; None: any number, as the kernel spreads frames over packet sockets."""
    ports = {port.name: port for port in bench.scenario.ports}
    backends = {port.backend for port in bench.setup.engine.ports if port.name in names}
    return None if backends == {"af_packet"} else min(ports[name].queues for name in names)


@contextmanager
def ends_of(bench: Standing) -> Iterator[Ends]:
    """The ends of the scenario's service; their engine ends with the block. Raises InputError where it has none."""
    scenario, service = bench.scenario, bench.scenario.service
    if service is None:
        raise InputError(f"{scenario.path}: expected a [service]")
    with closing(Ends(bench, service)) as ends:
        yield ends


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


def held_s(limits: Sequence[Limit]) -> float | None:
    """For how long closed connections are remembered; None: nothing says so."""
    return max((limit.held_s for limit in limits if limit.held_s is not None), default=None)


def remembered(balancer: Balancer, within_s: float) -> int:
    """How many connections are remembered when that time has passed; 0 as soon as none is."""
    return await_forgotten(lambda: balancer.tracked() or 0, within_s, POLL_S)


def percentiles(name: str, times: Times | None, note: str) -> Iterator[Metric]:
    """The median and the 99th percentile of times of connections."""
    if times:
        yield Metric(f"{name} p50", "ns", float(times.p50), note=note)
        yield Metric(f"{name} p99", "ns", float(times.p99), note=note)


def equal_by_chance(counts: Sequence[float], weights: Sequence[int] = ()) -> float:
    """That shares by weights, equal without any, come out so unevenly or worse: Pearson's chi-square test."""
    from scipy.special import chdtrc  # half a second that only this needs

    if len(counts) < 2:
        return 1.0
    weights = weights or [1] * len(counts)
    each = sum(counts) / sum(weights)
    pairs = zip(counts, weights, strict=True)
    squares = math.fsum((count - each * weight) ** 2 / (each * weight) for count, weight in pairs)
    return float(chdtrc(len(counts) - 1, squares))


@dataclass(frozen=True)
class Flush:
    """That a load began with no connection remembered."""

    before: int | None  # connections that were remembered; None: the device does not say
    after: int | None  # 0: proven
    took_s: float


@dataclass(frozen=True)
class Opened:
    """One load: what was asked, its account, and what was seen."""

    load: Load
    judged: LoadJudgement
    seen: Seen

    @property
    def client(self) -> Client:
        """The client's account. Raises EngineError where it never began."""
        return self.seen.account.of_client()


@dataclass(frozen=True)
class State:
    """What must stay as it is while connections are opened, as read back."""

    limits: tuple[Limit, ...]
    others: Mapping[str, str]  # rules and processes of the device, by what they are

    def since(self, before: "State") -> str:
        """What has changed of what was told both times, in words; empty where nothing has."""
        texts, former = self._texts(), before._texts()
        both = [(name, former[name], text) for name, text in texts.items() if name in former]
        return "; ".join(_difference(name, was, text) for name, was, text in both if text != was)

    def _texts(self) -> dict[str, str]:
        known = [limit for limit in self.limits if limit.size is not None]
        places = {str(limit.resource): f"{limit.size:,} places, held for {limit.held_s} s" for limit in known}
        return {**self.others, **places}


def state_of(live: Live, balancer: Balancer) -> State:
    """Raises BenchError where a setting is not in force or cannot be read, DutError if the device has died."""
    live.settings()
    return State(balancer.limits(), live.unchanging())


def looked_again(before: State, live: Live, balancer: Balancer) -> tuple[tuple[Limit, ...], str]:
    """The limits now, and in words what has changed since; empty if nothing. Raises DutError, HostLostError."""
    try:
        now = state_of(live, balancer)
    except HostLostError:
        raise
    except BenchError as error:
        changed = error.message.partition("\n")[0]
        return before.limits, f"changed since the beginning: {changed}"
    changed = now.since(before)
    return now.limits, f"changed since the beginning: {changed}" if changed else ""


def _difference(name: str, before: str, now: str) -> str:
    """Of a text of several lines how many came and went, with the first of them; of a short one both."""
    former, lines = before.splitlines(), now.splitlines()
    if max(len(former), len(lines)) <= 1:
        return f"{name}: {now or 'none'} instead of {before or 'none'}"
    gone, new = [line for line in former if line not in lines], [line for line in lines if line not in former]
    first = next(iter([*gone, *new]), "in another order").strip()
    return f"{name}: {units.counted(len(gone), 'line')} gone, {units.counted(len(new), 'line')} new: {first}"


def _stored(measurement: Measurement) -> Opened:
    """A load from its record."""
    account, stored_load, judged = (measurement.account[name] for name in ("engine", "load", "judged"))
    load = msgspec.convert(stored_load, Load)
    seen = Seen(msgspec.convert(account, Account), measurement.observed, measurement.threads, _traffic_s(load))
    return Opened(load, msgspec.convert(judged, LoadJudgement), seen)


def _traffic_s(load: Load) -> float:
    """How long a load is under way where nothing fails."""
    return load.opening_s + load.hold_s


class Opener:
    """Opens loads on one bench, each begun with an empty table, and keeps each as it ends."""

    def __init__(self, ends: Ends, figures: Callable[[Opened], tuple[Metric, ...]]) -> None:
        """`figures` are those of one load."""
        bench = ends.bench
        self._bench, self._figures, self._ends, self.balancer = bench, figures, ends, balancer_of(bench)
        self._tuples = Tuples(ends.service.clients.count, ends.service.client_ports)
        self._bracket, self._loop = bench.bracket(), loop_of(bench)
        ends.prepare()
        bench.task.note_facts(bench.live.ready())
        self._beginning, self._is_watched = state_of(bench.live, self.balancer), True
        self.measurements = self._loop.records
        self.flushes: list[Flush] = []
        self.traffic_s = 0.0  # for which connections were opened, of all loads
        bench.task.on_stoppable(Undoable())

    def open(self, phase: str, load: Load) -> Opened:
        """One load. Raises EngineError, DutError or BenchError.

        A run that continues an interrupted one takes the same load of that for an answer, unless the device was
        changed during it.
        """
        wanted = replace(load, client_ports=None)

        def answers(recorded: Measurement) -> bool:
            is_same = recorded.account.get("phase") == phase and recorded.validity is not TrialValidity.CHANGED
            return is_same and replace(_stored(recorded).load, client_ports=None) == wanted

        measurement = self._loop.replayed(answers) or self._loop.kept(self._run(phase, load))
        self.traffic_s += load.opening_s
        return _stored(measurement)

    def valid(self, phase: str, load: Load) -> Opened:
        """The same until its account can be used, `TRIES` times at most; then the last one."""
        for _ in range(TRIES - 1):
            opened = self.open(phase, load)
            if opened.judged.validity is TrialValidity.VALID:
                return opened
        return self.open(phase, load)

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Inside, what was set up is changed on purpose."""
        self._is_watched = False
        try:
            yield
        finally:
            self._is_watched = True

    def _run(self, phase: str, load: Load) -> Measurement:
        scenario, lasted_s = self._bench.scenario, _traffic_s(load)
        begun = Begun(scenario, self._loop.begin(lasted_s + SETUP_S), self._loop.number)
        self._ends.prepare(load)
        self.flushes.append(self._flushed())
        load = replace(load, client_ports=self._tuples.take(load.connections))
        with self._loop.observing(self._bracket):
            account = self._ends.connect(load)
        observed = self._loop.whole().flat()
        seen = Seen(account, observed, device_of(scenario).loads(observed, lasted_s), lasted_s)
        limits, changed = self._looked_again()
        judged, flushed = judge_load(seen, scenario.validity, changed), self.flushes[-1]
        told = {"phase": phase, "load": load, "judged": judged, "flushed": flushed, "limits": limits, "engine": account}
        metrics, plain = self._figures(Opened(load, judged, seen)), msgspec.to_builtins(told)
        return begun.ended(metrics, plain, observed, threads=seen.threads, judged=judged, load=account)

    def _looked_again(self) -> tuple[tuple[Limit, ...], str]:
        if not self._is_watched:
            return self.balancer.limits(), ""
        return looked_again(self._beginning, self._bench.live, self.balancer)

    def _flushed(self) -> Flush:
        """Let the device forget all connections. Raises BenchError where it remembers some."""
        before, began = self.balancer.tracked(), time.monotonic()
        self.balancer.flush()
        return Flush(before, self.balancer.tracked(), time.monotonic() - began)


def established(bench: Standing, wanted: Established) -> Scenario:
    """Open the connections that the scenario's frames belong to; the scenario with frames to where they went.

    The engine that opened them has ended when this returns, and no end has closed one: a device knows them until
    its time-out. Raises BenchError where one of them was not established, EngineError.
    """
    scenario, balancer = bench.scenario, bench.live.balancer()
    (stream,) = scenario.streams
    bench.task.on_stoppable(Undoable())
    with ends_of(bench) as ends:
        load = replace(connections.left(wanted), in_order=True)  # opened by one core, as frames are sent
        ends.prepare(load)
        if balancer:
            require_places(balancer.limits(), wanted)
        leaving = connections.leaving(ends.request(connections.left(wanted)), wanted, stream)
        next_hop = next_hop_of(ends.connect(load, leaving), ends.service, wanted)
    tracked = balancer.tracked() if balancer else None
    known = "" if tracked is None else f"; the device knows {tracked:,}"
    bench.task.note_facts({"established connections": f"{wanted.connections:,} opened{known}"})
    return replace(scenario, streams=(replace(stream, eth_dst=next_hop),))


def require_places(limits: Sequence[Limit], wanted: Established) -> None:
    """Raises BenchError where connections that all stand at the same time have no places."""
    for limit in limits:
        if limit.size is not None and limit.size < wanted.connections and limit.resource in _HELD:
            wish = f"{wanted.connections:,} connections stand at the same time"
            message = f"{wish}, and {limit.resource} are {limit.size:,}: {limit.source}"
            raise BenchError(message, "fewer established.connections")


def next_hop_of(account: Account, service: Service, wanted: Established) -> str:
    """The Ethernet address at which the service is. Raises BenchError, EngineError."""
    client = account.client
    if client is None or account.next_hop is None:
        raise EngineError(f"nobody answered for {service.address}: the engine found no way to the service")
    if client.established < wanted.connections:
        failed = ", ".join(f"{count:,} {words}" for words, count in client.failures.items()) or "the others not opened"
        of = f"{client.established:,} of {wanted.connections:,} connections were established"
        raise BenchError(f"{of} through {service.address}:{service.port}: {failed}", HINT)
    return account.next_hop
