"""nginx as a kind of device (ngx_stream_proxy_module, ngx_stream_upstream_module, ngx_stream_split_clients_module).

The upstream is in shared memory (`zone`), so that all workers deal to the backends in one turn. The local address is
a hash of the client's address and port. A backend that refuses stays in the turn (`max_fails=0`). Only connections
that failed or were repeated are logged: each costs a line.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pinchpoint.bench.requirements import Probe, packaged
from pinchpoint.dut import proxy
from pinchpoint.dut.device import Keys, RawScenario, Read, Types
from pinchpoint.dut.nginx.live import OWN_CONNECTIONS, STATUS, Files, NginxLive
from pinchpoint.dut.places import Places
from pinchpoint.dut.services import Reconfiguration
from pinchpoint.host.interface import Host
from pinchpoint.keys.source import Source
from pinchpoint.model.scenario import Scenario, Scheduler, Service

PROGRAM = "nginx"
MODULE = "/usr/lib/nginx/modules/ngx_stream_module.so"
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_TUPLE = '"$remote_addr:$remote_port"'
_MOST_LOCALS = 100
_SPARE = 16  # descriptors of a worker that are no connection: logs, its event queue


@dataclass(frozen=True)
class NginxDut(proxy.ProxyDut):
    """Nginx as a TCP proxy (its stream module): its CPUs, descriptors and backlog."""

    kind: str = "nginx"


@dataclass(frozen=True)
class NginxBench(proxy.ProxyBench):
    """One bench of nginx, planned: its ports, nginx.conf and the daemon."""

    @property
    def _files(self) -> Files:
        return Files(str(self.places.directory), self.config_path, self.socket_path)

    def config(self) -> Sequence[str]:
        """Lines of nginx.conf, which names every backend."""
        return tuple(config(self.scenario, self._files))

    def argv(self) -> Sequence[str]:
        """In the foreground, a master and its workers."""
        return (PROGRAM, "-c", self.config_path, "-e", self._files.errors)

    def open(self) -> NginxLive:
        """Once its status page answers. Raises DutError."""
        sysctls, most = proxy.sysctls(self.scenario), worker_connections(self.scenario)
        return NginxLive(self.scenario, self.places, self.daemon(), sysctls, self._files, most)


def worker_connections(scenario: Scenario) -> int:
    """Of each worker: two for each of its connections, and those of its own; else as many as it has descriptors."""
    dut, most = proxy.spec(scenario), proxy.served(scenario).max_connections
    if most is None:
        return dut.descriptors - _SPARE
    return 2 * -(-most // len(dut.cpus)) + OWN_CONNECTIONS


def config(scenario: Scenario, files: Files) -> Iterator[str]:
    """Lines of nginx.conf for the scenario's service."""
    dut, service = proxy.spec(scenario), proxy.served(scenario)
    yield f"load_module {MODULE};"
    yield "daemon off;"
    yield "user root;"  # the folder of the bench is root's
    yield f"worker_processes {len(dut.cpus)};"
    yield f"worker_cpu_affinity {' '.join(map(_mask, dut.cpus))};"
    yield f"pid {files.folder}/nginx-own.pid;"
    yield f"error_log {files.errors} error;"
    yield f"events {{ worker_connections {worker_connections(scenario)}; }}"
    yield "stream {"
    yield from (f"  {line}" for line in _stream(service, dut.backlog, files))
    yield "}"
    yield "http {"
    yield "  access_log off;"
    yield from (f"  {name}_temp_path {files.folder}/nginx-{name};" for name in _TEMPORARY)
    yield f"  server {{ listen unix:{files.socket}; location = {STATUS} {{ stub_status; }} }}"
    yield "}"


def _stream(service: Service, backlog: int, files: Files) -> Iterator[str]:
    yield f"split_clients {_TUPLE} $local {{"
    *others, last = service.locals
    yield from (f"  {_percent(len(service.locals))}% {local};" for local in others)
    yield f"  * {last};"
    yield "}"
    yield 'map "$status $upstream_addr" $has_failed { "~^200 [^,]+$" 0; default 1; }'
    yield "log_format failures '$status|$upstream_addr|$upstream_connect_time';"
    yield f"access_log {files.failures} failures if=$has_failed;"
    yield "upstream servers {"
    yield "  zone servers 1m;"
    if service.scheduler is Scheduler.HASH:
        yield f"  hash {_TUPLE};"
    yield from (f"  server {backend.end} max_fails=0;" for backend in service.backends)
    yield "}"
    yield "server {"
    yield f"  listen {service.end} backlog={backlog} reuseport;"
    yield "  proxy_pass servers;"
    yield "  proxy_bind $local;"
    yield f"  proxy_connect_timeout {round(proxy.CONNECT_S * 1000)}ms;"
    yield f"  proxy_timeout {round((service.established_s or proxy.LONG_S) * 1000)}ms;"
    yield "}"


def _percent(parts: int) -> str:
    """The share of each part, rounded down to the hundredth that split_clients takes."""
    return f"{10_000 // parts / 100:.2f}"


def _mask(cpu: int) -> str:
    """A CPU as worker_cpu_affinity has it: binary digits."""
    return f"{1 << cpu:b}"


@dataclass(frozen=True)
class NginxDevice(proxy.ProxyDevice):
    """The kind `nginx`: a TCP proxy that deals clients to its local addresses by a hash of address and port."""

    def read(self, raw: RawScenario, source: Source) -> Callable[[], Read]:
        """A service with no more local addresses than split_clients divides evenly."""
        local = raw.tables.get("service", {}).get("local")
        if local is not None and local.count > _MOST_LOCALS:
            wanted = f"at most {_MOST_LOCALS} addresses of nginx, which divides clients by hundredths of a percent"
            source.mismatch(("service", "local"), wanted, local.count)
        return super().read(raw, source)

    def probes(self, host: Host) -> Iterator[Probe]:
        """The program, its module, its tools."""
        yield from proxy.programs(host, PROGRAM, "nginx")
        there = host.exists(MODULE)
        detail = MODULE if there else f"{MODULE}: missing"
        yield packaged("nginx stream module", there, detail, "libnginx-mod-stream")

    def bench(self, scenario: Scenario, places: Places) -> NginxBench:
        return NginxBench(scenario, places)


_CAN = replace(proxy.SERVICES, changes=(Reconfiguration.RELOAD,))
DEVICE = NginxDevice(
    "nginx",
    "nginx with its stream module",
    Types(NginxDut),
    Keys(proxy.KEYS, actions=proxy.ACTIONS, services=_CAN),
)
