"""The measures `bandwidth`, `rr` and `crr`: windows of a socket workload between two hosts of a bench that stands."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from statistics import median_low
from typing import ClassVar, Final, Literal

import msgspec

from pinchpoint.account.validity import judge_window
from pinchpoint.account.windows import Window, together, window_of
from pinchpoint.causes.sockets import moved, source_ports, verdict
from pinchpoint.dut.device import Device, Keys
from pinchpoint.dut.registry import device_of
from pinchpoint.engine.process import find_engine
from pinchpoint.engine.sockets import Place, SocketsRequest
from pinchpoint.engine.workloads import Apart, Pairs, Workloads
from pinchpoint.host.interface import TICKS_PER_S
from pinchpoint.host.priority import kept_off
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Computed, Key, Table, Unset
from pinchpoint.keys.reader import Element, Values, lookup
from pinchpoint.keys.source import Source
from pinchpoint.measure.kernel_ends import kernel_ends
from pinchpoint.measure.kind import TWO_HOSTS, Arrays, MeasureKind, asked
from pinchpoint.measure.loop import Loop, loop_of
from pinchpoint.measure.sockets import windows
from pinchpoint.measure.standing import Begun, Standing
from pinchpoint.measure.summary import scenario_result, valid
from pinchpoint.model.addresses import shown
from pinchpoint.model.errors import BenchError, DutError, UnreachableError
from pinchpoint.model.measurement import THREAD_BUSY, Measurement
from pinchpoint.model.result import Outcome, ScenarioResult, Verdict
from pinchpoint.model.scenario import Between, Closer, Host, Scenario
from pinchpoint.model.site import Site
from pinchpoint.model.trial import TrialValidity
from pinchpoint.model.warning import ResultWarning, Warn
from pinchpoint.observe.snapshot import Bracket

SAME_TROUBLE = 2  # windows in a row that no repeat would mend: one more tells it from a slow moment
SETUP_S = 0.5  # of a window: engines, connections, reading of counters
MOST_OF_A_DATAGRAM = 65_507  # bytes of payload, over UDP and IPv4
_UDP: Final = "udp"
ANY: Final = "0.0.0.0"
_MENDS_ITSELF = (TrialValidity.VALID, TrialValidity.NOISY_HOST)


@dataclass(frozen=True)
class Sockets(Between):
    """A workload over kernel sockets between two hosts."""

    kind: ClassVar[str]
    connections: int
    request_bytes: int
    response_bytes: int
    rate_tps: float | None  # planned transactions per second; None: as fast as they come
    warm_up_s: float
    duration_s: float
    repeats: int
    timeout_s: float
    max_repeats: int = 3  # windows made beyond `repeats`, in place of invalid ones
    transport: Literal["tcp", "udp"] = "tcp"


@dataclass(frozen=True)
class Bandwidth(Sockets):
    """Bytes from client to server, as fast as they go."""

    kind: ClassVar[str] = "bandwidth"


@dataclass(frozen=True)
class RequestResponse(Sockets):
    """Requests and responses over standing connections."""

    kind: ClassVar[str] = "rr"


@dataclass(frozen=True)
class ConnectRequestResponse(Sockets):
    """A connection for each request."""

    kind: ClassVar[str] = "crr"


_KINDS: dict[str, Literal["stream", "rr", "crr"]] = {
    Bandwidth.kind: "stream",
    RequestResponse.kind: "rr",
    ConnectRequestResponse.kind: "crr",
}

_OF_SERVICE: Final = Computed("with a [service] the port of its clients, of its backends; else it must be there")

SOCKETS: Final = Table("sockets",
    "A workload over kernel sockets between two hosts, or between the clients and the backends of a [service]. "
    "`bandwidth`: bytes from client to server as fast as they go. `rr`: requests and responses over standing "
    "connections. `crr`: a connection for each request.", (
    Key("client", kinds.port_name(), "The host that connects.", _OF_SERVICE),
    Key("server", kinds.port_name(), "The host that accepts.", _OF_SERVICE),
    Key("transport", kinds.word("tcp", "udp"),
        "What carries it; over UDP a request and a response are a datagram each, and `bandwidth` is TCP's alone.",
        "tcp"),
    Key("connections", kinds.integer(1, 16_384), "Connections, or transactions under way at once.", 1),
    Key("request_bytes", kinds.integer(1, 1_048_576), "Bytes of a request; with bandwidth, of one write.",
        Computed("1; 131,072 with bandwidth")),
    Key("response_bytes", kinds.integer(0, 1_048_576), "Bytes of a response; with bandwidth there is none.",
        Computed("1; 0 with bandwidth")),
    Key("rate_tps", kinds.number(0.1, 1e8), "Planned transactions per second.", Unset("each begins when one ends")),
    Key("warm_up_s", kinds.number(0, 3600), "Time before the window, not counted, seconds.", 0.5),
    Key("duration_s", kinds.number(0.05, 86_400), "Time counted, the window, seconds.", 10.0),
    Key("repeats", kinds.integer(1, 100), "How often this is repeated, each time on new connections.", 3),
    Key("timeout_s", kinds.number(0.1, 60), "A transaction that takes longer has failed, seconds.", 10.0),
    Key("max_repeats", kinds.integer(0, 100),
        "Windows made beyond `repeats` in place of those that were disturbed, all together.", 3),
), measures=tuple(workload.kind for workload in (Bandwidth, RequestResponse, ConnectRequestResponse)))  # fmt: skip


def check_stream(source: Source, sockets: Values, arrays: Arrays, _: Keys) -> None:
    """Client and server are two hosts, and nothing answers. Fills in the defaults."""
    _check_ends(source, sockets, arrays["host"])
    if sockets.get("response_bytes"):
        source.mismatch(("sockets", "response_bytes"), "0 with bandwidth", sockets["response_bytes"])
    if sockets.get("rate_tps") is not None:
        source.mismatch(("sockets", "rate_tps"), "none with bandwidth", sockets["rate_tps"])
    if sockets.get("transport") == _UDP:
        source.mismatch(("sockets", "transport"), '"tcp" with bandwidth', _UDP)
    sockets.setdefault("request_bytes", 131_072)
    sockets.setdefault("response_bytes", 0)


def check_requests(source: Source, sockets: Values, arrays: Arrays, _: Keys) -> None:
    """Client and server are two hosts, and every request is answered. Fills in the defaults."""
    _check_ends(source, sockets, arrays["host"])
    sockets.setdefault("request_bytes", 1)
    sockets.setdefault("response_bytes", 1)
    if sockets["response_bytes"] == 0:
        source.mismatch(("sockets", "response_bytes"), "1 or more where requests are answered", 0)
    for key in ("request_bytes", "response_bytes"):
        if sockets.get("transport") == _UDP and sockets.get(key, 0) > MOST_OF_A_DATAGRAM:
            source.mismatch(("sockets", key), f"at most {MOST_OF_A_DATAGRAM:,}, a datagram", sockets[key])


def _check_ends(source: Source, sockets: Values, hosts: Sequence[Element]) -> None:
    names = [host.values["name"] for host in hosts if "name" in host.values]
    for key in ("client", "server"):
        if "service" not in source.data and lookup(source.data, ("sockets", key)) is None:
            source.problem(("sockets", key), f"missing; expected {kinds.port_name().expected}")
        if key in sockets and sockets[key] not in names:
            expected = f"the name of a [[host]] ({', '.join(names) or 'there is none'})"
            source.mismatch(("sockets", key), expected, sockets[key])
    if "client" in sockets and sockets["client"] == sockets.get("server"):
        source.problem(("sockets", "server"), f'expected a host other than the client, found "{sockets["client"]}"')


@dataclass(frozen=True)
class Ends:
    """The two hosts of a workload, and what runs between them."""

    scenario: Scenario
    sockets: Sockets
    client: Host
    server: Host

    @classmethod
    def of(cls, scenario: Scenario) -> "Ends":
        """Those that the scenario's `[sockets]` names; of a service the clients' port and the backends'."""
        hosts, sockets = {host.name: host for host in _hosts(scenario)}, asked(scenario, Sockets)
        return cls(scenario, sockets, hosts[sockets.client], hosts[sockets.server])

    @property
    def sites(self) -> dict[str, Site]:
        """The machines of client and server."""
        return {"client": self.scenario.site_of(self.client), "server": self.scenario.site_of(self.server)}

    @property
    def elsewhere(self) -> dict[str, str]:
        """The machines of those that are on another one than the switch or are one: engines and CPUs of their own."""
        away = {name: site.name for name, site in self.sites.items() if site != self.scenario.site}
        ends = {"client": self.client, "server": self.server}
        return away | {name: f"the virtual machine {end.name}" for name, end in ends.items() if end.vm}

    def machine(self, side: str) -> str:
        """The machine of client or server, for people."""
        return self.elsewhere.get(side, self.sites[side].name)

    @property
    def words(self) -> tuple[str, str]:
        """Client and server, for people; where they are, if that may be elsewhere."""
        client, server = (f" on {self.machine(side)}" if self.elsewhere else "" for side in self.sites)
        return self.client.name + client, self.server.name + server

    @property
    def pairs(self) -> int:
        """Pairs of threads: as many as either side has CPUs, each with a connection at least."""
        return min(len(self.client.cpus), len(self.server.cpus), self.sockets.connections)

    @property
    def cpus(self) -> tuple[int, ...]:
        """All that take part on the switch's machine."""
        return self.cpus_at(self.scenario.site)

    def cpus_at(self, site: Site) -> tuple[int, ...]:
        """All that take part at a site: of the pairs; where the switch is, its own and of the relay if there is one."""
        scenario = self.scenario
        ends = (end for end in (self.client, self.server) if scenario.site_of(end) == site)
        used = {cpu for end in ends for cpu in (end.cpus[: self.pairs] if end.pinned else end.cpus)}
        if site == scenario.site:
            used |= {*scenario.dut.cpus, *(scenario.engine.cpus[:1] if device_of(scenario).relayed(scenario) else ())}
        return tuple(sorted(used))

    @property
    def moving(self) -> tuple[str, ...]:
        """Those of them whose threads the kernel moves among CPUs."""
        ends = {"client": self.client, "server": self.server}
        return tuple(side for side, end in ends.items() if not end.pinned)


def _hosts(scenario: Scenario) -> tuple[Host, ...]:
    """Its hosts; of a service two with a thread each, on the first and the last CPU of the engine."""
    if (service := scenario.service) is None:
        return scenario.hosts
    cpus = scenario.engine.cpus
    return (
        Host(service.client_port, shown(service.clients.first), cpus[:1]),
        Host(service.server_port, ANY, cpus[-1:]),
    )


def requests(ends: Ends, netns: tuple[str, str], trial: str) -> tuple[SocketsRequest, ...]:
    """One workload a pair, the connections dealt evenly; `netns` are the client's and the server's."""
    workload, pairs, service = ends.sockets, ends.pairs, ends.scenario.service
    address = ends.server.address.partition("/")[0]
    clients = service.clients if service else None
    shares = [workload.connections // pairs + (k < workload.connections % pairs) for k in range(pairs)]
    kind = _KINDS[ends.scenario.measure.kind]
    rate = None if kind == "stream" else workload.rate_tps
    return tuple(
        SocketsRequest(
            trial=f"{trial}-{k + 1}" if pairs > 1 else trial,
            kind=kind,
            transport=workload.transport,
            client=_place(ends.client, netns[0], k),
            server=_place(ends.server, netns[1], k),
            sources=tuple(shown(clients.first + number) for number in range(clients.count)) if clients else (),
            listen=address,
            port=service.backends[0].port if service else 0,
            target=service.end if service else None,
            connections=share,
            request_bytes=workload.request_bytes,
            response_bytes=0 if kind == "stream" else workload.response_bytes,
            rate_tps=None if rate is None else rate * share / workload.connections,
            warm_up_s=workload.warm_up_s,
            duration_s=workload.duration_s,
            transactions=None,
            timeout_s=workload.timeout_s,
            # The server closes: the client's ports are not kept for a minute, and no segment is missing.
            close="client" if service and service.closes is Closer.CLIENT else "server",
            wait="block",
            repeats=1,
            sample_interval_s=None,  # nobody listens, and writing one wakes a thread on a measuring core
        )
        for k, share in enumerate(shares)
    )


def _place(end: Host, netns: str, pair: int) -> Place:
    """Where an end's thread of a pair runs; a virtual machine's own CPU n is on the n-th that is named."""
    cpus = tuple(range(len(end.cpus))) if end.vm else end.cpus
    return Place(netns, cpus[pair]) if end.pinned else Place(netns, cpus[pair], cpus)


def expected_s(scenario: Scenario) -> float:
    """Seconds on a bench that stands."""
    sockets = asked(scenario, Sockets)
    return sockets.repeats * seconds(sockets)


def measure_sockets(bench: Standing) -> ScenarioResult:
    """All windows of the bench's scenario. Raises what a window raises, finished windows kept.

    Windows of an interrupted run are not made again if they can be judged; the others count for
    nothing, or a run that is resumed because of them would end with them at once.
    """
    ends = Ends.of(bench.scenario)
    loop = loop_of(bench, lambda recorded: recorded.validity in _MENDS_ITSELF)
    bench.task.listener.phase("windows", ends.sockets.repeats)
    if not _enough(loop.records, ends):
        device, *others = bench.scenario.sites
        with ExitStack() as kept:
            for site in (device, *(site for site in others if site.is_lab)):  # there counters are read
                kept.enter_context(kept_off(ends.cpus_at(site), bench.setup.places.at(site)))
            if service := bench.scenario.service:
                asked_by = f'measure = "{bench.scenario.measure.kind}"'
                kept.enter_context(kernel_ends(bench, service, asked_by, service.clients.count))
            _measure(bench, ends, loop)
    return summary(bench.scenario, ends, loop.records, bench.wall_s)


def _measure(bench: Standing, ends: Ends, loop: Loop[Measurement]) -> None:
    """Windows until they are enough."""
    environment, log = dict(bench.setup.places.environment), bench.task.engine_log
    alone = partial(Workloads, bench.host, command=bench.engine, environment=environment, log=log)
    make = partial(_apart, bench, ends, environment) if ends.elsewhere else alone
    with closing(Pairs(ends.pairs, make)) as pairs:
        bench.task.note_facts({**pairs.open(), **bench.live.versions()})
        bracket = bench.bracket(*bench.host_time(ends.cpus))
        bench.task.on_stoppable(pairs)
        while not _enough(loop.records, ends):
            _window(bench, ends, pairs, bracket, loop)


def _apart(bench: Standing, ends: Ends, environment: Mapping[str, str]) -> Apart:
    """A client and a server, each to be started on its own machine."""
    log, of_end, sites = bench.task.engine_log, bench.setup.places.of_end, ends.sites
    on_client = of_end(ends.client.name, sites["client"])
    on_server = of_end(ends.server.name, sites["server"])
    client = Workloads(on_client, command=[find_engine(on_client)], environment=environment, log=log)
    server = Workloads(on_server, command=[find_engine(on_server)], environment=environment, log=log)
    return Apart(client, server, ends.machine("client"), ends.machine("server"))


def _window(bench: Standing, ends: Ends, pairs: Pairs, bracket: Bracket, loop: Loop[Measurement]) -> None:
    """One window, valid or not. Raises Interrupted or DutError after keeping it, else EngineError or BenchError."""
    places, device = bench.setup.places, device_of(bench.scenario)
    netns = (places.host_netns(ends.client.name), places.host_netns(ends.server.name))
    begun = Begun(bench.scenario, loop.begin(seconds(ends.sockets)), 1 + len(valid(loop.records)))
    with _reaching(ends), loop.observing(bracket):
        results = pairs.run(requests(ends, netns, begun.id))
    seen = loop.seen.flat()
    window_s = max((run.duration_s for result in results for run in result.runs), default=0.0)
    traffic_s = ends.sockets.warm_up_s + window_s
    account = {
        "pairs": [msgspec.to_builtins(result) for result in results],
        "together_share": together(results),
        "traffic_s": traffic_s,
        "ticks_per_s": TICKS_PER_S,
        "elsewhere": ends.elsewhere,
        "moving": ends.moving,
    }
    ended = begun.ended((), account, seen, threads=device.loads(seen, traffic_s))
    if pairs.stop_requested:
        loop.stop()
    loop.kept(_judged(ended, loop.died, device))


@contextmanager
def _reaching(ends: Ends) -> Iterator[None]:
    """Inside, the client has to reach the server."""
    try:
        yield
    except UnreachableError as error:
        # The hosts exist: what keeps them apart is the bench (rules, bridges), not this machine.
        client, server = ends.words
        hint = "check that the scenario's rules forward both directions, and ARP between the hosts"
        if ends.scenario.service:
            hint = 'measure = "verify" shows what the service does with each connection'
        raise BenchError(f"{client} cannot reach {server}: {error.message}", hint) from error


def seconds(sockets: Sockets) -> float:
    """About how long one window takes, its reading included."""
    return SETUP_S + sockets.warm_up_s + sockets.duration_s


def _enough(measurements: Sequence[Measurement], ends: Ends) -> bool:
    """Whether all repeats are there, or so much was invalid that more would not help."""
    wanted = ends.sockets.repeats
    in_vain = [measurement.validity not in _MENDS_ITSELF for measurement in measurements[-SAME_TROUBLE:]]
    stuck = len(in_vain) == SAME_TROUBLE and all(in_vain)
    return len(valid(measurements)) >= wanted or len(measurements) >= wanted + ends.sockets.max_repeats or stuck


def _judged(measurement: Measurement, died: DutError | None, device: Device) -> Measurement:
    window = window_of(measurement)
    judged = judge_window(window, "" if died is None else died.message)
    validity = judged.validity
    own, handled = device.metrics(measurement.observed), device.handled(measurement.observed)
    metrics = () if validity is TrialValidity.ABORTED else windows.of_window(window, own, handled)
    told = replace(measurement, metrics=metrics, change=window.change)
    return replace(told, validity=validity, reason=judged.reason, cause=judged.cause)


def summary(scenario: Scenario, ends: Ends, measurements: Sequence[Measurement], wall_s: float) -> ScenarioResult:
    """What the windows say together: the valid ones, or the disturbed ones, named as such, if none was valid."""
    usable, workload = valid(measurements), ends.sockets
    disturbed = [measurement for measurement in measurements if measurement.validity is TrialValidity.NOISY_HOST]
    judged = usable or disturbed
    read = [window_of(measurement) for measurement in judged]
    rates = [measurement.metrics[0].value for measurement in judged]
    limit = judged[rates.index(median_low(rates))] if judged else None
    if read:
        pinched: Verdict | None = verdict(read, workload.rate_tps, workload.connections, device_of(scenario))
    else:
        pinched = source_ports([window_of(measurement) for measurement in measurements])
    # Why nothing can be said, in the words of the last window; a generator at its limit gives no rate of the DUT.
    reason = "" if judged else (measurements[-1].reason if measurements else "no window was measured")
    return replace(
        scenario_result(scenario, wall_s, measurements),
        outcome=Outcome.MEASURED if judged else Outcome.FAILED,
        reason=reason,
        metrics=windows.over_repeats([measurement.metrics for measurement in judged], disturbed=not usable),
        threads=limit.threads if limit else (),
        verdict=pinched,
        traffic_s=math.fsum(workload.warm_up_s + workload.duration_s for _ in measurements),
        warnings=tuple(_warnings(scenario, workload.repeats, measurements, read, limit)),
    )


def _warnings(
    scenario: Scenario,
    wanted: int,
    measurements: Sequence[Measurement],
    read: Sequence[Window],
    limit: Measurement | None,
) -> Iterator[ResultWarning]:
    yield from (Warn.TRANSACTIONS_FAILED.of(lost) for window in read[:1] if (lost := window.failures))
    losses = ((window.id, window.relay_losses) for window in read)
    yield from (Warn.RELAY_LOST.of(lost, window=name) for name, lost in losses if lost)
    yield from (Warn.NOT_STATIONARY.of(told) for window in read if (told := moved(window)))
    made, usable = len(measurements), len(valid(measurements))
    reasons = [measurement.reason for measurement in measurements if measurement.validity is not TrialValidity.VALID]
    last = reasons[-1] if reasons else ""
    if usable < wanted:
        yield Warn.FEW_WINDOWS.of(last, valid=usable, windows=made, asked=wanted)
    elif made > usable:
        yield Warn.WINDOWS_REPEATED.of(last, discarded=made - usable, windows=made)
    if limit is not None:
        counts = {metric.name: int(metric.value) for metric in limit.metrics if metric.unit == "count"}
        built = device_of(scenario).contents(scenario)
        yield from windows.invisible(built, counts.get("datapath flows"), counts.get("datapath masks"))


BUSY: Final = ("client busy", "server busy", "relay busy", THREAD_BUSY, "cycles per packet")
BANDWIDTH: Final = MeasureKind(
    made=Bandwidth,
    finds="TCP goodput between two hosts or through a service",
    table=lambda _: SOCKETS,
    run=measure_sockets,
    expected_s=expected_s,
    main=("goodput", "retransmits", *BUSY),
    needs=TWO_HOSTS,
    check=check_stream,
    made_of="window",
)
RR: Final = replace(
    BANDWIDTH,
    made=RequestResponse,
    finds="requests over standing connections",
    main=("transactions", *windows.LATENCIES, "failed share", *BUSY),
    columns=windows.LATENCIES,
    check=check_requests,
)
CRR: Final = replace(RR, made=ConnectRequestResponse, finds="a connection for each request")
