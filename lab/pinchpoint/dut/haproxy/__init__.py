"""HAProxy, mode tcp, in a namespace between two veth ports, asked at its stats socket.

Sources: HAProxy's configuration manual, 2.6: sections 3, 4.2, 5; its management guide, 2.6: sections 9.1 and 9.3. A
source address belongs to a server line, so there is a line for each local address and backend. Lines that follow each
other are of different backends: round robin over the lines is round robin over the backends.
"""

import csv
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pinchpoint.bench.requirements import Probe
from pinchpoint.dut import proxy
from pinchpoint.dut.device import Keys, RawScenario, Types, in_force, programs
from pinchpoint.dut.program import LogTail, answer
from pinchpoint.dut.proxy_live import ProxyLive
from pinchpoint.dut.services import Reconfiguration, served
from pinchpoint.host.interface import PROC, Host, names_in
from pinchpoint.host.processes import children
from pinchpoint.model.addresses import bracketed
from pinchpoint.model.errors import BenchError, DutError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Guest, ProxyHeader, Scheduler, Service
from pinchpoint.observe.snapshot import Collector, Snapshot

PROGRAM = "haproxy"
MOST_LINES = 4095  # of servers that "balance roundrobin" deals to
_BACKEND = re.compile(r"backend(\d{1,4})-local\d{1,5}")
_COUNTED = {"FRONTEND": ("stot",), "BACKEND": ("econ", "eresp", "wretr", "wredis", "cli_abrt", "srv_abrt")}
_OF_BACKENDS = ("stot", "econ", "wretr", "wredis")
_INFO = ("PoolFailed", "CumConns")
_GAUGES = ("CurrConns", "Idle_pct")
_MOST_OPEN = "haproxy/most_open"
_NO_PORT = "no free ports"  # connect(2) said EADDRNOTAVAIL
_READ = ("Maxconn", "Maxsock", "Ulimit-n", "Nbthread")


def info(text: str) -> dict[str, str]:
    """`show info`: name -> value. Raises DutError where it is something else."""
    lines = (line.partition(":") for line in text.splitlines())
    fields = {name.strip(): value.strip() for name, colon, value in lines if colon}
    if "Version" not in fields:
        raise DutError(f"haproxy's stats socket answers {text[:100]!r} to show info")
    return fields


def _rows(text: str) -> list[dict[str, str]]:
    """`show stat`: its lines, by column. Raises DutError where there is no table."""
    rows = list(csv.reader(text.removeprefix("# ").splitlines()))
    if not rows or rows[0][:2] != ["pxname", "svname"]:
        raise DutError(f"haproxy's stats socket answers {text[:100]!r} to show stat")
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]


def stat(text: str) -> dict[str, int]:
    """`show stat`: `haproxy/FIELD` of the service, `haproxy/backend/N/FIELD` of all lines of one backend.

    Fields that are empty or no number are left out. Raises DutError where there is no table.
    """
    counters: dict[str, int] = {}
    for values in _rows(text):
        name = values.get("svname", "")
        server = _BACKEND.fullmatch(name)
        place = f"haproxy/backend/{int(server[1])}" if server else "haproxy"
        for field in _OF_BACKENDS if server else _COUNTED.get(name, ()):
            if (value := values.get(field, "")).isdecimal():
                counters[f"{place}/{field}"] = counters.get(f"{place}/{field}", 0) + int(value)
    return counters


def most_open(text: str) -> dict[str, float]:
    """`show stat`: the most connections of clients at the same time (smax), as a gauge; none where it is not shown."""
    shown = [values.get("smax", "") for values in _rows(text) if values.get("svname") == "FRONTEND"]
    return {_MOST_OPEN: float(sum(map(int, shown)))} if shown and all(map(str.isdecimal, shown)) else {}


class Stats(Collector):
    """Haproxy's counters, read from its stats socket (`show info`, `show stat`)."""

    name = "haproxy"

    def __init__(self, host: Host, socket: str, log: str) -> None:
        self._host, self._socket = host, socket
        self._log, self._without_port = LogTail(host, log), 0

    def read(self, at_s: float) -> Snapshot:
        """As `stat`, and `haproxy/info/{PoolFailed,CumConns}`; gauges CurrConns and Idle_pct, `haproxy/most_open` since
        the last one.

        econ: connections to a backend that failed; wretr: attempts that were repeated; wredis: given to another
        backend. `haproxy/no_free_port`: attempts for which no local port was free, as its log says.
        """
        self._without_port += self._log.more().count(_NO_PORT)
        told = info(answer(self._host, self._socket, "show info\n"))
        shown = answer(self._host, self._socket, "show stat\n")
        answer(self._host, self._socket, "clear counters\n")  # of maxima alone: the others stay as they are
        counters = stat(shown)
        counters |= {f"haproxy/info/{name}": int(told[name]) for name in _INFO if told.get(name, "").isdecimal()}
        counters["haproxy/no_free_port"] = self._without_port
        gauges = {f"haproxy/info/{name}": float(told[name]) for name in _GAUGES if told.get(name, "").isdecimal()}
        return Snapshot(at_s, counters, {**gauges, **most_open(shown)})


_BALANCE = {
    Scheduler.ROUND_ROBIN: "roundrobin", Scheduler.HASH: "hash src,concat(:,sess.port)", Scheduler.SOURCE: "source",
    Scheduler.LEAST: "leastconn",
}  # fmt: skip


class HaproxyLive(ProxyLive):
    """A haproxy that stands; its servers can be drained while it runs (management guide, 9.3: set server)."""

    reloads = signal.SIGUSR2
    no_port = ("haproxy/no_free_port",)

    def __init__(self, bench: proxy.ProxyBench) -> None:
        super().__init__(bench, Stats(bench.places.host, bench.file(proxy.SOCKET), bench.daemon().log))

    def answers(self) -> bool:
        """Whether its stats socket does."""
        return bool(self._info())

    def tasks(self) -> Sequence[str]:
        """The threads of the master's children: one process, or two while the former one has connections."""
        host = self.places.host
        places = [f"{PROC}/{pid}/task" for pid in sorted(children(host, self.pid))]
        numbers = ((place, sorted(filter(str.isdecimal, names_in(host, place)), key=int)) for place in places)
        return [f"{place}/{number}" for place, of_threads in numbers for number in of_threads]

    def program_settings(self) -> Mapping[str, str]:
        """What bounds it. Raises BenchError where it took fewer connections than the service asks for."""
        told = self._info()
        if (asked := self.service.max_connections) is not None:
            in_force("maxconn", str(asked), told.get("Maxconn"))
        return {f"haproxy {name}": told[name] for name in _READ if name in told}

    def table(self) -> Limit:
        """Its maxconn. It accepts no more then: clients wait in the accept queue, which may overflow."""
        most = self._info().get("Maxconn", "")
        return Limit(Resource.TABLE, int(most) if most.isdecimal() else None, 0.0, f"maxconn {most}", _MOST_OPEN)

    def versions(self) -> Mapping[str, str]:
        return {"haproxy": self._info()["Version"]}

    def dumps(self) -> Mapping[str, str]:
        """Its configuration and the state of its servers, too."""
        host = self.places.host
        servers = answer(host, self._socket, "show servers state\n")
        return {**super().dumps(), "haproxy.cfg": host.read(self._bench.config_path), "haproxy-servers.txt": servers}

    def remove(self, backend: int) -> None:
        """Deal no new connections to it; those that it has go on. Raises BenchError."""
        self._state(backend, "drain")

    def add(self, backend: int) -> None:
        """Deal new connections to it again. Raises BenchError."""
        self._state(backend, "ready")

    def _state(self, backend: int, state: str) -> None:
        for local in range(len(self.service.locals)):
            words = f"set server servers/backend{backend}-local{local} state {state}"
            if said := answer(self.places.host, self._socket, f"{words}\n").strip():
                raise BenchError(f"haproxy answers {said[:100]!r} to {words}")

    def _info(self) -> dict[str, str]:
        return info(answer(self.places.host, self._socket, "show info\n"))


def _checked(service: Service, number: int, local: int) -> str:
    """How a line learns of its backend's health: the first of each backend asks, the others follow it."""
    if service.health_s is None:
        return ""
    if local:
        return f" track servers/backend{number}-local0"
    return f" check inter {round(service.health_s * 1000)}ms fall 2 rise 1"


_SENDS = {None: "", ProxyHeader.TEXT: " send-proxy", ProxyHeader.BINARY: " send-proxy-v2"}
"""What a server line says of the PROXY header (configuration manual, 5.2)."""


class HaproxyBench(proxy.ProxyBench):
    """One bench of haproxy, planned: its ports, haproxy.cfg and the daemon."""

    live_type = HaproxyLive

    def config(self) -> Iterator[str]:
        """Lines of haproxy.cfg, which names every backend."""
        service, dut = served(self.scenario), proxy.spec(self.scenario)
        yield "global"
        yield f"  nbthread {len(dut.cpus)}"
        yield f"  cpu-map auto:1/1-{len(dut.cpus)} {' '.join(map(str, dut.cpus))}"  # 2.6 does not bind by other forms
        yield f"  stats socket {self.file(proxy.SOCKET)} mode 600 level admin"
        yield f"  ulimit-n {dut.descriptors}"  # with maxconn alone, haproxy lowers its limit to what that needs
        if service.max_connections is not None:  # without it, haproxy takes half of its descriptors
            yield f"  maxconn {service.max_connections}"
        yield "defaults"
        yield "  mode tcp"
        idle_ms = round((service.established_s or proxy.LONG_S) * 1000)
        yield f"  timeout connect {round(proxy.CONNECT_S * 1000)}ms"
        yield from (f"  timeout {end} {idle_ms}ms" for end in ("client", "server"))
        yield "frontend service"
        yield from (f"  bind {end} backlog {dut.backlog}" for end in service.listens)
        if service.scheduler is Scheduler.HASH:
            yield "  tcp-request connection set-var(sess.port) src_port"
        yield "  default_backend servers"
        yield "backend servers"
        yield f"  balance {_BALANCE[service.scheduler]}"
        if service.scheduler.is_hash:
            yield "  hash-type map-based sdbm avalanche"
        for local, source in enumerate(service.locals):
            for number, backend in enumerate(service.backends):
                line = f"  server backend{number}-local{local} {backend.end} source {bracketed(source)}"
                line += f" weight {service.weights[number]}{_SENDS[service.proxy_protocol]}"
                yield f"{line}{_checked(service, number, local)}"

    def argv(self) -> Sequence[str]:
        """In the foreground, a master and its worker: the master is what reloads."""
        return (PROGRAM, "-W", "-db", "-f", self.config_path)


class HaproxyDevice(proxy.ProxyDevice):
    """The kind `haproxy`: a TCP proxy with a server line for each pair of local address and backend."""

    bench_type = HaproxyBench

    def check(self, raw: RawScenario) -> None:
        """A service with no more server lines than it deals to."""
        local, backends = raw.tables.get("service", {}).get("local"), len(raw.arrays.get("backend", ()))
        if local is not None and local.count * backends > MOST_LINES:
            wanted = f"at most {MOST_LINES // max(1, backends):,} addresses for {backends} backends of haproxy"
            raw.mismatch(("service", "local"), wanted, local.count)
        super().check(raw)

    def probes(self, host: Host, guest: Guest | None = None) -> Iterator[Probe]:
        """The program and its tools."""
        yield from programs(host, {PROGRAM: "haproxy"})
        yield from super().probes(host)


_CAN = replace(proxy.CONFIGURED, changes=tuple(Reconfiguration), weighs_pairs=True)
_KEYS = Keys(proxy.KEYS, actions=proxy.ACTIONS, services=_CAN)
DEVICE = HaproxyDevice("haproxy", "HAProxy, mode tcp", Types(proxy.ProxyDut), _KEYS)
