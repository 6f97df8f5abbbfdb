"""A running haproxy, as its stats socket tells (HAProxy's management guide, 2.6: sections 9.1 and 9.3)."""

import csv
import re
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from pinchpoint.bench.resource import Daemon
from pinchpoint.dut.control_socket import answer
from pinchpoint.dut.log_tail import LogTail
from pinchpoint.dut.places import Places
from pinchpoint.dut.proxy_live import ProxyBalancer, ProxyLive
from pinchpoint.dut.tcp_stack import TcpStack
from pinchpoint.host.interface import PROC, Host
from pinchpoint.host.processes import children
from pinchpoint.model.errors import BenchError, DutError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Scenario
from pinchpoint.observe.snapshot import Collector, Snapshot

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
    fields = {
        name.strip(): value.strip() for name, colon, value in (ln.partition(":") for ln in text.splitlines()) if colon
    }
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


class Stats:
    """Haproxy's counters, read from its stats socket (`show info`, `show stat`)."""

    name = "haproxy"

    def __init__(self, host: Host, socket: str, log: str) -> None:
        self._host, self._socket = host, socket
        self._log, self._without_port = LogTail(host, log), 0

    def can_run(self) -> str | None:
        """Always: the bench stands once the socket answers."""
        return None

    def snapshot(self) -> Snapshot:
        """As `stat`, and `haproxy/info/{PoolFailed,CumConns}`; gauges CurrConns and Idle_pct, `haproxy/most_open` since
        the last one.

        econ: connections to a backend that failed; wretr: attempts that were repeated; wredis: given to another
        backend. `haproxy/no_free_port`: attempts for which no local port was free, as its log says.
        """
        at_s = time.monotonic()
        self._without_port += self._log.more().count(_NO_PORT)
        told = info(answer(self._host, self._socket, "show info\n"))
        shown = answer(self._host, self._socket, "show stat\n")
        answer(self._host, self._socket, "clear counters\n")  # of maxima alone: the others stay as they are
        counters = stat(shown)
        counters |= {f"haproxy/info/{name}": int(told[name]) for name in _INFO if told.get(name, "").isdecimal()}
        counters["haproxy/no_free_port"] = self._without_port
        gauges = {f"haproxy/info/{name}": float(told[name]) for name in _GAUGES if told.get(name, "").isdecimal()}
        return Snapshot(at_s, counters, {**gauges, **most_open(shown)})


class HaproxyBalancer(ProxyBalancer):
    """Its servers can be drained while it runs (management guide, 9.3: set server)."""

    def __init__(self, live: ProxyLive, stack: TcpStack, socket: str) -> None:
        super().__init__(live, stack)
        self._socket = socket

    def remove(self, backend: int) -> None:
        """Deal no new connections to it; those that it has go on. Raises BenchError."""
        self._state(backend, "drain")

    def add(self, backend: int) -> None:
        """Deal new connections to it again. Raises BenchError."""
        self._state(backend, "ready")

    def _state(self, backend: int, state: str) -> None:
        for local in range(len(self._live.service.locals)):
            words = f"set server servers/backend{backend}-local{local} state {state}"
            if said := answer(self._live.places.host, self._socket, f"{words}\n").strip():
                raise BenchError(f"haproxy answers {said[:100]!r} to {words}")


class HaproxyLive(ProxyLive):
    """A haproxy that stands."""

    reloads: ClassVar[int | None] = signal.SIGUSR2
    no_port: ClassVar[tuple[str, ...]] = ("haproxy/no_free_port",)

    def __init__(
        self, scenario: Scenario, places: Places, daemon: Daemon, wanted: Mapping[str, str], socket: str, config: str
    ) -> None:
        self._socket, self._config = socket, config
        self._stats = Stats(places.host, socket, daemon.log)
        super().__init__(scenario, places, daemon, wanted)

    def answers(self) -> bool:
        """Whether its stats socket does."""
        return bool(self._info())

    def balancer(self) -> HaproxyBalancer:
        """Its limits, its sockets, its servers."""
        return HaproxyBalancer(self, self._stack, self._socket)

    def tasks(self) -> Sequence[str]:
        """The threads of the master's children: one process, or two while the former one has connections."""
        places = [f"{PROC}/{pid}/task" for pid in sorted(children(self.places.host, self.pid))]
        return [f"{place}/{number}" for place in places for number in sorted(self._numbers(place))]

    def program(self) -> Collector:
        return self._stats

    def program_settings(self) -> Mapping[str, str]:
        """What bounds it. Raises BenchError where it took fewer connections than the service asks for."""
        told = self._info()
        if (asked := self.service.max_connections) is not None and told.get("Maxconn") != str(asked):
            raise BenchError(f"maxconn: {asked} was set, {told.get('Maxconn')} is in force")
        return {f"haproxy {name}": told[name] for name in _READ if name in told}

    def table(self) -> Limit:
        """Its maxconn. It accepts no more then: clients wait in the accept queue, which may overflow."""
        most = self._info().get("Maxconn", "")
        size = int(most) if most.isdecimal() else None
        return Limit(Resource.TABLE, size, 0.0, f"maxconn {most}", _MOST_OPEN)

    def versions(self) -> Mapping[str, str]:
        return {"haproxy": self._info()["Version"]}

    def dumps(self) -> Mapping[str, str]:
        """Its configuration and the state of its servers, too."""
        host = self.places.host
        servers = answer(host, self._socket, "show servers state\n")
        return {**super().dumps(), "haproxy.cfg": host.read(self._config), "haproxy-servers.txt": servers}

    def _info(self) -> dict[str, str]:
        return info(answer(self.places.host, self._socket, "show info\n"))

    def _numbers(self, place: str) -> list[int]:
        with suppress(OSError):
            return [int(name) for name in self.places.host.names(place) if name.isdecimal()]
        return []  # it has ended meanwhile
