"""The measures `bandwidth`, `rr` and `crr`: windows of a socket workload between two hosts of a bench that stands."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median_low
from typing import Final, Literal

import msgspec

from pinchpoint.dut import remote_endpoints
from pinchpoint.dut.device import Device
from pinchpoint.dut.registry import device_of
from pinchpoint.engine.pairs import Pairs
from pinchpoint.engine.process import find_engine
from pinchpoint.engine.remote_endpoints import Apart, ServerEngine
from pinchpoint.engine.sockets import Place, SocketsRequest, SocketsResult
from pinchpoint.engine.workload import Workloads
from pinchpoint.host.interface import TICKS_PER_S
from pinchpoint.host.priority import kept_off
from pinchpoint.host.processes import ENVIRONMENT_MARK
from pinchpoint.measure.kind import TWO_HOSTS, MeasureKind, asked
from pinchpoint.measure.sockets import (
    SOCKETS,
    Bandwidth,
    ConnectRequestResponse,
    RequestResponse,
    Sockets,
    check_requests,
    check_stream,
    windows,
)
from pinchpoint.measure.sockets import metrics as socket_metrics
from pinchpoint.measure.sockets.verdict import moved, source_ports, verdict
from pinchpoint.measure.sockets.windows import Window
from pinchpoint.measure.standing import Begun, Interrupted, Standing
from pinchpoint.measure.summary import scenario_result
from pinchpoint.model.errors import BenchError, DutError, RequirementError, UnreachableError
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.result import Outcome, ScenarioResult
from pinchpoint.model.scenario import Host, Scenario
from pinchpoint.model.terms import THREAD_BUSY
from pinchpoint.model.trial import TrialValidity
from pinchpoint.observe.bracket import Bracket

SAME_TROUBLE = 2  # windows in a row that no repeat would mend: one more tells it from a slow moment
SETUP_S = 0.5  # of a window: engines, connections, reading of counters
_MENDS_ITSELF = (TrialValidity.VALID, TrialValidity.NOISY_HOST)
_KINDS: dict[str, Literal["stream", "rr", "crr"]] = {
    Bandwidth.kind: "stream",
    RequestResponse.kind: "rr",
    ConnectRequestResponse.kind: "crr",
}


@dataclass(frozen=True)
class Ends:
    """The two hosts of a workload, and what runs between them."""

    scenario: Scenario
    sockets: Sockets
    client: Host
    server: Host

    @classmethod
    def of(cls, scenario: Scenario) -> "Ends":
        """Those that the scenario's `[sockets]` names."""
        hosts, sockets = {host.name: host for host in scenario.hosts}, asked(scenario, Sockets)
        return cls(scenario, sockets, hosts[sockets.client], hosts[sockets.server])

    @property
    def machines(self) -> dict[str, str]:
        """Of client and server, as the scenario names them; empty where both are on the switch's."""
        ends = {"client": self.client, "server": self.server}
        sites = {name: remote_endpoints.site_of(self.scenario, end) for name, end in ends.items()}
        return {name: site.host for name, site in sites.items() if site}

    @property
    def elsewhere(self) -> dict[str, str]:
        """The machines of those of them that are not on the switch's."""
        ends = {"client": self.client, "server": self.server}
        return {
            name: on for name, on in self.machines.items() if not remote_endpoints.is_here(self.scenario, ends[name])
        }

    @property
    def words(self) -> tuple[str, str]:
        """Client and server, for people."""
        where = {name: f" on {machine}" for name, machine in self.machines.items()}
        return self.client.name + where.get("client", ""), self.server.name + where.get("server", "")

    @property
    def pairs(self) -> int:
        """Pairs of threads: as many as either side has CPUs, each with a connection at least."""
        return min(len(self.client.cpus), len(self.server.cpus), self.sockets.connections)

    @property
    def beside_lab(self) -> tuple[int, ...]:
        """CPUs of the lab's own machine that the pairs use."""
        ends = {"client": self.client, "server": self.server}
        sites = {name: remote_endpoints.site_of(self.scenario, end) for name, end in ends.items()}
        here = (end for name, end in ends.items() if (site := sites[name]) and site.remote is None)
        return tuple(sorted({cpu for end in here for cpu in end.cpus[: self.pairs]}))

    @property
    def cpus(self) -> tuple[int, ...]:
        """All that take part on the switch's machine: of the pairs, of the switch, of the relay if there is one."""
        ends = (end for end in (self.client, self.server) if remote_endpoints.is_here(self.scenario, end))
        used = (cpu for end in ends for cpu in end.cpus[: self.pairs])
        relay = self.scenario.engine.cpus[:1] if device_of(self.scenario).relayed(self.scenario) else ()
        return tuple(sorted({*used, *self.scenario.dut.cpus, *relay}))


def requests(ends: Ends, netns: tuple[str, str], trial: str) -> tuple[SocketsRequest, ...]:
    """One workload a pair, the connections dealt evenly; `netns` are the client's and the server's."""
    workload, pairs = ends.sockets, ends.pairs
    address = ends.server.address.partition("/")[0]
    shares = [workload.connections // pairs + (k < workload.connections % pairs) for k in range(pairs)]
    kind = _KINDS[ends.scenario.measure.kind]
    rate = None if kind == "stream" else workload.rate_tps
    return tuple(
        SocketsRequest(
            trial=f"{trial}-{k + 1}" if pairs > 1 else trial,
            kind=kind,
            transport="tcp",
            client=Place(netns[0], ends.client.cpus[k]),
            server=Place(netns[1], ends.server.cpus[k]),
            sources=(),
            listen=address,
            port=0,
            target=None,
            connections=share,
            request_bytes=workload.request_bytes,
            response_bytes=0 if kind == "stream" else workload.response_bytes,
            rate_tps=None if rate is None else rate * share / workload.connections,
            warm_up_s=workload.warm_up_s,
            duration_s=workload.duration_s,
            transactions=None,
            timeout_s=workload.timeout_s,
            # The server closes: the client's ports are not kept for a minute, and no segment is missing.
            close="server",
            wait="block",
            repeats=1,
            sample_interval_s=None,  # nobody listens, and writing one wakes a thread on a measuring core
        )
        for k, share in enumerate(shares)
    )


class WindowMeasurer:
    """Makes the windows of one scenario on one bench, and keeps each as it ends."""

    def __init__(self, bench: Standing, ends: Ends, pairs: Pairs, bracket: Bracket) -> None:
        self._bench = bench
        self._ends = ends
        self._pairs = pairs
        self._bracket = bracket
        self._count = len(bench.recorded.measurements)

    def stop(self) -> None:
        """End the running window; `window` then raises Interrupted once its account is kept."""
        self._pairs.stop()

    def window(self, repeat: int) -> Measurement:
        """One window, valid or not. Raises Interrupted or DutError after keeping it, else EngineError or BenchError."""
        self._count += 1
        measurement, died = self._measured(self._bench.begin(self._count, seconds(self._ends.sockets), repeat))
        self._bench.keep(measurement)
        if died is not None:
            raise died
        if self._pairs.stop_requested:
            raise Interrupted("interrupted", "pinchpoint run --resume RUN continues where it stopped")
        return measurement

    def _measured(self, begun: Begun) -> tuple[Measurement, DutError | None]:
        places, workload = self._bench.setup.places, self._ends.sockets
        netns = (places.host_netns(self._ends.client.name), places.host_netns(self._ends.server.name))
        self._bracket.open()
        results = self._run(requests(self._ends, netns, begun.id))
        died: DutError | None = None
        seen: dict[str, float] = {}
        try:
            seen = self._bracket.close().flat()
        except DutError as error:
            died = error
        window_s = max((run.duration_s for result in results for run in result.runs), default=0.0)
        traffic_s = workload.warm_up_s + window_s
        account = {
            "pairs": [msgspec.to_builtins(result) for result in results],
            "together_share": windows.together(results),
            "traffic_s": traffic_s,
            "ticks_per_s": TICKS_PER_S,
            "elsewhere": self._ends.elsewhere,
        }
        ended = begun.ended((), account, seen, threads=device_of(self._bench.scenario).loads(seen, traffic_s))
        return _judged(ended, died, device_of(self._bench.scenario)), died

    def _run(self, wanted: Sequence[SocketsRequest]) -> list[SocketsResult]:
        try:
            return [pair.result for pair in self._pairs.run(wanted)]
        except RequirementError:
            self._bracket.close()  # a switch that has died says so here
            raise
        except UnreachableError as error:
            self._bracket.close()
            # The hosts exist: what keeps them apart is the bench (rules, bridges), not this machine.
            client, server = self._ends.words
            hint = "see that the scenario's rules forward both directions, and ARP between the hosts"
            raise BenchError(f"{client} cannot reach {server}: {error.message}", hint) from error


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
    measurements = [measurement for measurement in bench.recorded.measurements if measurement.validity in _MENDS_ITSELF]
    bench.listener.phase("windows", ends.sockets.repeats)
    if not _enough(measurements, ends):
        lab = next((site for site in bench.scenario.engines if site.remote is None), None)
        with kept_off(ends.cpus, bench.host), kept_off(ends.beside_lab, bench.setup.places.at(lab)):
            _measure(bench, ends, measurements)
    return summary(bench.scenario, ends, measurements, bench.wall_s)


def _measure(bench: Standing, ends: Ends, measurements: list[Measurement]) -> None:
    """Adds windows to `measurements` until they are enough."""
    places, record = bench.setup.places, bench.record
    environment = {ENVIRONMENT_MARK: places.bench_id}
    alone = partial(Workloads, bench.host, command=bench.engine, environment=environment, log=record.engine_log)
    make = partial(_apart, bench, ends, environment) if ends.machines else alone
    with Pairs(ends.pairs, make) as pairs:
        record.note_facts({**pairs.open(), **bench.live.versions()})
        measurer = WindowMeasurer(bench, ends, pairs, bench.bracket(*bench.host_time(ends.cpus)))
        bench.on_stoppable(measurer)
        while not _enough(measurements, ends):
            measurements.append(measurer.window(1 + len(_valid(measurements))))


def _apart(bench: Standing, ends: Ends, environment: Mapping[str, str]) -> Apart:
    """A client and a server, each to be started on its own machine."""
    log, at = bench.record.engine_log, bench.setup.places.at
    on_client, on_server = (at(remote_endpoints.site_of(ends.scenario, end)) for end in (ends.client, ends.server))
    client = Workloads(on_client, command=[find_engine(on_client)], environment=environment, log=log)
    server = ServerEngine(on_server, command=[find_engine(on_server)], environment=environment, log=log)
    return Apart(client, server, ends.machines["client"], ends.machines["server"])


def seconds(sockets: Sockets) -> float:
    """About how long one window takes, its reading included."""
    return SETUP_S + sockets.warm_up_s + sockets.duration_s


def _enough(measurements: Sequence[Measurement], ends: Ends) -> bool:
    """Whether all repeats are there, or so much was invalid that more would not help."""
    wanted = ends.sockets.repeats
    in_vain = [measurement.validity not in _MENDS_ITSELF for measurement in measurements[-SAME_TROUBLE:]]
    stuck = len(in_vain) == SAME_TROUBLE and all(in_vain)
    return len(_valid(measurements)) >= wanted or len(measurements) >= wanted + ends.sockets.max_repeats or stuck


def _valid(measurements: Sequence[Measurement]) -> list[Measurement]:
    return [measurement for measurement in measurements if measurement.validity is TrialValidity.VALID]


def _judged(measurement: Measurement, died: DutError | None, device: Device) -> Measurement:
    window = windows.read(measurement)
    validity, reason = windows.judge(window)
    if died is not None:
        validity = TrialValidity.ABORTED
        reason = f"{reason}; {died.message}" if reason else died.message
    own, handled = device.metrics(measurement.observed), device.handled(measurement.observed)
    metrics = () if validity is TrialValidity.ABORTED else socket_metrics.of_window(window, own, handled)
    return replace(measurement, metrics=metrics, validity=validity, reason=reason, change=window.change)


def summary(scenario: Scenario, ends: Ends, measurements: Sequence[Measurement], wall_s: float) -> ScenarioResult:
    """What the windows say together: the valid ones, or the disturbed ones, named as such, if none was valid."""
    valid = _valid(measurements)
    disturbed = [measurement for measurement in measurements if measurement.validity is TrialValidity.NOISY_HOST]
    judged = valid or disturbed
    read = [windows.read(measurement) for measurement in judged]
    limit = _middle(judged)
    # Why nothing can be said, in the words of the last window; a generator at its limit gives no rate of the DUT.
    reason = "" if judged else (measurements[-1].reason if measurements else "no window was measured")
    return scenario_result(
        scenario,
        wall_s,
        taken=measurements,
        outcome=Outcome.MEASURED if judged else Outcome.FAILED,
        reason=reason,
        metrics=socket_metrics.over_repeats([measurement.metrics for measurement in judged], disturbed=not valid),
        threads=limit.threads if limit else (),
        verdict=(
            verdict(read, ends.sockets.rate_tps, ends.sockets.connections)
            if read
            else source_ports([windows.read(measurement) for measurement in measurements])
        ),
        traffic_s=math.fsum(ends.sockets.warm_up_s + ends.sockets.duration_s for _ in measurements),
        warnings=tuple(_warnings(scenario, ends, measurements, read, limit)),
    )


def _middle(judged: Sequence[Measurement]) -> Measurement | None:
    if not judged:
        return None
    rates = [measurement.metrics[0].value for measurement in judged]
    return judged[rates.index(median_low(rates))]


def _warnings(
    scenario: Scenario,
    ends: Ends,
    measurements: Sequence[Measurement],
    read: Sequence[Window],
    limit: Measurement | None,
) -> list[str]:
    lines = [lost for window in read[:1] if (lost := windows.failures(window))]
    lines += [f"{window.id}: {lost}" for window in read if (lost := windows.relay_losses(window))]
    lines += [line for window in read if (line := moved(window))]
    valid, wanted = len(_valid(measurements)), ends.sockets.repeats
    reasons = [measurement.reason for measurement in measurements if measurement.validity is not TrialValidity.VALID]
    last = reasons[-1] if reasons else ""
    if valid < wanted:
        lines.append(f"{valid} of {len(measurements)} windows were valid, not {wanted}; the last invalid one: {last}")
    elif len(measurements) > valid:
        lines.append(
            f"{len(measurements) - valid} of {len(measurements)} windows discarded and repeated; the last one: {last}"
        )
    if limit is not None:
        counts = {metric.name: int(metric.value) for metric in limit.metrics if metric.unit == "count"}
        built = device_of(scenario).contents(scenario)
        lines += socket_metrics.invisible(built, counts.get("datapath flows"), counts.get("datapath masks"))
    return lines


BUSY: Final = ("client busy", "server busy", "relay busy", THREAD_BUSY, "cycles per packet")
_REQUESTS: Final = MeasureKind(
    made=RequestResponse,
    finds="requests over standing connections",
    table=lambda _: SOCKETS,
    run=measure_sockets,
    expected_s=expected_s,
    main=("transactions", "latency p50", "latency p99", "latency p99.9", "failed share", *BUSY),
    needs=TWO_HOSTS,
    check=check_requests,
    made_of="window",
)
_STREAM: Final = replace(
    _REQUESTS,
    made=Bandwidth,
    finds="TCP goodput between two hosts",
    main=("goodput", "retransmits", *BUSY),
    check=check_stream,
)
MEASURES: Final = (
    _STREAM,
    _REQUESTS,
    replace(_REQUESTS, made=ConnectRequestResponse, finds="a connection for each request"),
)
