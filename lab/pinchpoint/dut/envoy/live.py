"""A running envoy, as its admin interface tells (Envoy's operations guide: administration interface, statistics)."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pinchpoint.bench.resource import Daemon
from pinchpoint.dut.control_socket import get
from pinchpoint.dut.places import Places
from pinchpoint.dut.proxy_live import ProxyLive
from pinchpoint.dut.tcp_stack import TcpStack
from pinchpoint.host.interface import PROC, Host
from pinchpoint.model.errors import BenchError, DutError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Scenario
from pinchpoint.observe.snapshot import Collector, Snapshot

CLUSTER = "servers"
_STATS = f"/stats?filter=^(listener%5C..*downstream_cx|cluster%5C.{CLUSTER}%5C.(upstream_cx|bind_errors)|server%5C.)"
_LINE = re.compile(r"([^:\s]+): (\d{1,19})")
_WORKER = re.compile(r"listener\..+\.worker_(\d{1,4})\.downstream_cx_(total|active)")
_OF_CLUSTER = re.compile(rf"cluster\.{CLUSTER}\.(\w+)")
_COUNTED = (
    *("upstream_cx_total", "upstream_cx_connect_fail", "upstream_cx_connect_timeout", "upstream_cx_overflow"),
    *("upstream_cx_connect_attempts_exceeded", "upstream_cx_none_healthy", "bind_errors"),
)
_ACTIVE = "upstream_cx_active"
_BREAKER = re.compile(rf"^{CLUSTER}::default_priority::max_connections::(\d+)$", re.MULTILINE)
_THREAD = re.compile(r"wrk:worker_(\d+)")


def stats(text: str) -> tuple[dict[str, int], dict[str, float]]:
    """`/stats`: counters and gauges.

    `envoy/worker/N/accepted` and `envoy/NAME` of the cluster; gauges `envoy/worker/N/active` and
    `envoy/upstream_cx_active`. Lines that are no number are left out.
    """
    counters, gauges = dict[str, int](), dict[str, float]()
    for line in text.splitlines():
        if not (told := _LINE.fullmatch(line.strip())):
            continue
        name, value = told[1], int(told[2])
        if match := _WORKER.fullmatch(name):
            worker = f"envoy/worker/{int(match[1]) + 1}"
            if match[2] == "total":
                counters[f"{worker}/accepted"] = counters.get(f"{worker}/accepted", 0) + value
            else:
                gauges[f"{worker}/active"] = gauges.get(f"{worker}/active", 0.0) + value
        elif (match := _OF_CLUSTER.fullmatch(name)) and match[1] in _COUNTED:
            counters[f"envoy/{match[1]}"] = value
        elif match and match[1] == _ACTIVE:
            gauges[f"envoy/{_ACTIVE}"] = float(value)
    return counters, gauges


def server_info(text: str) -> Mapping[str, Any]:
    """`/server_info`. Raises DutError where it is something else."""
    try:
        info = json.loads(text)
    except ValueError as error:
        raise DutError(f"envoy's admin interface answers {text[:100]!r} to /server_info") from error
    if not isinstance(info, dict) or not isinstance(info.get("version"), str):
        raise DutError(f"envoy's admin interface names no version: {text[:100]!r}")
    return info


def breaker(text: str) -> int | None:
    """`/clusters`: how many connections the cluster's circuit breaker lets through; None: not shown."""
    match = _BREAKER.search(text)
    return int(match[1]) if match else None


class Stats:
    """Envoy's counters, read from `/stats` of its admin interface."""

    name = "envoy"

    def __init__(self, host: Host, socket: str, stack: TcpStack) -> None:
        self._host, self._socket, self._stack = host, socket, stack
        self._without_syn = 0

    def can_run(self) -> str | None:
        """Always: the bench stands once it answers."""
        return None

    def snapshot(self) -> Snapshot:
        """As `stats`, and `envoy/without_syn`: connections to backends for which no SYN was sent.

        envoy counts one that found no free port as one that failed, as it does where a backend refuses. But the kernel
        sent a SYN for the latter only. Its count is read later: the difference is too small rather than too big.
        """
        at_s = time.monotonic()
        counters, gauges = stats(get(self._host, self._socket, _STATS))
        total, sent = counters.get("envoy/upstream_cx_total"), self._stack.opened()
        if total is not None and sent is not None:
            counters["envoy/without_syn"] = self._without_syn = max(self._without_syn, total - sent)
        return Snapshot(at_s, counters, gauges)


class EnvoyLive(ProxyLive):
    """An envoy that stands."""

    no_port: ClassVar[tuple[str, ...]] = ("envoy/without_syn",)
    no_answer: ClassVar[tuple[str, ...]] = ("envoy/upstream_cx_connect_timeout",)
    binds: ClassVar[bool] = False

    def __init__(
        self, scenario: Scenario, places: Places, daemon: Daemon, wanted: Mapping[str, str], socket: str, config: str
    ) -> None:
        self._socket, self._config = socket, config
        self._stats = Stats(places.host, socket, TcpStack(places.host, places.dut_netns))
        super().__init__(scenario, places, daemon, wanted)

    def answers(self) -> bool:
        """Whether it is live."""
        return get(self.places.host, self._socket, "/ready").strip() == "LIVE"

    def tasks(self) -> Sequence[str]:
        """Folders in /proc of its worker threads, by worker. Raises DutError if it has gone."""
        place, read = f"{PROC}/{self.pid}/task", self.places.host.read
        try:
            names = {task: read(f"{place}/{task}/comm").strip() for task in self.places.host.names(place)}
        except OSError as error:
            raise DutError(f"envoy is gone: {error}") from error
        task_of = {int(match[1]): task for task, name in names.items() if (match := _THREAD.fullmatch(name))}
        return [f"{place}/{task}" for _, task in sorted(task_of.items())]

    def program(self) -> Collector:
        return self._stats

    def program_settings(self) -> Mapping[str, str]:
        """Its workers and its breaker. Raises BenchError where one is not in force."""
        options = self._info().get("command_line_options", {})
        workers, wanted = options.get("concurrency"), len(self._scenario.dut.cpus)
        if workers != wanted:
            raise BenchError(f"concurrency: {wanted} was set, {workers} is in force")
        most, asked = self._breaker(), self.service.max_connections
        if asked is not None and most != asked:
            raise BenchError(f"max_connections of the circuit breaker: {asked} was set, {most} is in force")
        return {"envoy concurrency": str(workers), "envoy max_connections": str(most)}

    def table(self) -> Limit:
        """The circuit breaker of its cluster."""
        most = self._breaker()
        source = f"circuit breaker, max_connections {most}"
        return Limit(Resource.TABLE, most, 0.0, source, f"envoy/{_ACTIVE}", ("envoy/upstream_cx_overflow",))

    def versions(self) -> Mapping[str, str]:
        return {"envoy": str(self._info()["version"])}

    def dumps(self) -> Mapping[str, str]:
        """The bootstrap that it loaded, too."""
        return {**super().dumps(), "envoy.json": self.places.host.read(self._config)}

    def _info(self) -> Mapping[str, Any]:
        return server_info(get(self.places.host, self._socket, "/server_info"))

    def _breaker(self) -> int | None:
        return breaker(get(self.places.host, self._socket, "/clusters"))
