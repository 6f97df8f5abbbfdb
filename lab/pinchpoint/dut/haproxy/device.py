"""HAProxy as a kind of device (HAProxy's configuration manual, 2.6: sections 3, 4.2, 5).

A source address belongs to a server line, so there is a line for each local address and backend. Lines that follow
each other are of different backends: round robin over the lines is round robin over the backends.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pinchpoint.bench.requirements import Probe
from pinchpoint.dut import proxy
from pinchpoint.dut.device import Keys, RawScenario, Read, Types
from pinchpoint.dut.haproxy.live import HaproxyLive
from pinchpoint.dut.places import Places
from pinchpoint.dut.services import Reconfiguration
from pinchpoint.host.interface import Host
from pinchpoint.keys.source import Source
from pinchpoint.model.addresses import bracketed
from pinchpoint.model.scenario import Scenario, Scheduler

PROGRAM = "haproxy"
MOST_LINES = 4095  # of servers that "balance roundrobin" deals to


@dataclass(frozen=True)
class HaproxyDut(proxy.ProxyDut):
    """Haproxy as a TCP proxy: its CPUs, descriptors and backlog."""

    kind: str = "haproxy"


@dataclass(frozen=True)
class HaproxyBench(proxy.ProxyBench):
    """One bench of haproxy, planned: its ports, haproxy.cfg and the daemon."""

    def config(self) -> Sequence[str]:
        """Lines of haproxy.cfg, which names every backend."""
        return tuple(config(self.scenario, self.socket_path))

    def argv(self) -> Sequence[str]:
        """In the foreground, a master and its worker: the master is what reloads."""
        return (PROGRAM, "-W", "-db", "-f", self.config_path)

    def open(self) -> HaproxyLive:
        """Once its stats socket answers. Raises DutError."""
        return HaproxyLive(
            self.scenario, self.places, self.daemon(), proxy.sysctls(self.scenario), self.socket_path, self.config_path
        )


def config(scenario: Scenario, socket: str) -> Iterator[str]:
    """Lines of haproxy.cfg for the scenario's service; `socket`: where it answers questions."""
    service, dut = proxy.served(scenario), proxy.spec(scenario)
    yield "global"
    yield f"  nbthread {len(dut.cpus)}"
    yield f"  cpu-map auto:1/1-{len(dut.cpus)} {' '.join(map(str, dut.cpus))}"  # 2.6 does not bind by other forms
    yield f"  stats socket {socket} mode 600 level admin"
    yield f"  ulimit-n {dut.descriptors}"  # with maxconn alone, haproxy lowers its limit to what that needs
    if service.max_connections is not None:  # without it, haproxy takes half of its descriptors
        yield f"  maxconn {service.max_connections}"
    yield "defaults"
    yield "  mode tcp"
    idle_ms = round((service.established_s or proxy.LONG_S) * 1000)
    yield f"  timeout connect {round(proxy.CONNECT_S * 1000)}ms"
    yield from (f"  timeout {end} {idle_ms}ms" for end in ("client", "server"))
    yield "frontend service"
    yield f"  bind {service.end} backlog {dut.backlog}"
    if service.scheduler is Scheduler.HASH:
        yield "  tcp-request connection set-var(sess.port) src_port"
    yield "  default_backend servers"
    yield "backend servers"
    if service.scheduler is Scheduler.HASH:
        yield "  balance hash src,concat(:,sess.port)"
        yield "  hash-type map-based sdbm avalanche"
    else:
        yield "  balance roundrobin"
    for local, source in enumerate(service.locals):
        for number, backend in enumerate(service.backends):
            yield f"  server backend{number}-local{local} {backend.end} source {bracketed(source)}"


@dataclass(frozen=True)
class HaproxyDevice(proxy.ProxyDevice):
    """The kind `haproxy`: a TCP proxy with a server line for each pair of local address and backend."""

    def read(self, raw: RawScenario, source: Source) -> Callable[[], Read]:
        """A service with no more server lines than it deals to."""
        local, backends = raw.tables.get("service", {}).get("local"), len(raw.arrays.get("backend", ()))
        if local is not None and local.count * backends > MOST_LINES:
            wanted = f"at most {MOST_LINES // max(1, backends):,} addresses for {backends} backends of haproxy"
            source.mismatch(("service", "local"), wanted, local.count)
        return super().read(raw, source)

    def probes(self, host: Host) -> Iterator[Probe]:
        """The program and its tools."""
        return proxy.programs(host, PROGRAM, "haproxy")

    def bench(self, scenario: Scenario, places: Places) -> HaproxyBench:
        return HaproxyBench(scenario, places)


_CAN = replace(proxy.SERVICES, changes=tuple(Reconfiguration))
DEVICE = HaproxyDevice(
    "haproxy", "HAProxy, mode tcp", Types(HaproxyDut), Keys(proxy.KEYS, actions=proxy.ACTIONS, services=_CAN)
)
