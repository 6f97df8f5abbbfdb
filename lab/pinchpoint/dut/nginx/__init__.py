"""nginx with its stream module, in a namespace between two veth ports.

Sources: ngx_stream_proxy_module, ngx_stream_upstream_module, ngx_stream_split_clients_module,
ngx_http_stub_status_module. The upstream is in shared memory (`zone`), so that all workers deal to the backends in one
turn. The local address is a hash of the client's address and port. A backend that refuses stays in the turn
(`max_fails=0`). Only connections that failed or were repeated are logged: each costs a line.

nginx does not say with which settings it runs. What the kernel knows of its workers and sockets is read back; the
number of connections of a worker is as in the file that it loaded.
"""

import re
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pinchpoint.bench.requirements import Probe, packaged
from pinchpoint.dut import proxy
from pinchpoint.dut.device import Keys, RawScenario, Types, programs
from pinchpoint.dut.program import LogTail, braced, exchange, get, kept_log
from pinchpoint.dut.proxy_live import ProxyLive
from pinchpoint.dut.services import Reconfiguration, served
from pinchpoint.host.interface import PROC, Host
from pinchpoint.host.processes import children, insisted
from pinchpoint.model.errors import BenchError, DutError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Guest, ProxyHeader, Scenario, Scheduler
from pinchpoint.observe.printed import TCP_PAIRS
from pinchpoint.observe.snapshot import Collector, Snapshot

PROGRAM = "nginx"
MODULE = "/usr/lib/nginx/modules/ngx_stream_module.so"
STATUS = "/status"
OWN_CONNECTIONS = 3  # of a worker: the status page's socket, the channel to its master, one who asks for the status
NAMES = {99: "no_local_port", 111: "refused", 110: "timed_out", 113: "no_route"}
"""What connect(2) says, by errno."""
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_TUPLE = '"$remote_addr:$remote_port"'
_METHODS: Mapping[Scheduler, tuple[str, ...]] = {
    Scheduler.ROUND_ROBIN: (), Scheduler.HASH: (f"hash {_TUPLE};",), Scheduler.SOURCE: ("hash $remote_addr;",),
    Scheduler.LEAST: ("least_conn;",),
}  # fmt: skip
_MOST_LOCALS = 100
_SPARE = 16  # descriptors of a worker that are no connection: logs, its event queue
_ACTIVE = re.compile(r"Active connections: (\d{1,19})")
_ACCEPTED = re.compile(r"^\s*(\d{1,19}) (\d{1,19}) (\d{1,19})\s*$", re.MULTILINE)
_STATUS = re.compile(r"[1-5]\d\d")
_SERVER = re.compile(r"^Server: nginx/(\S{1,40})\r$", re.MULTILINE)
_ERRNO = re.compile(r" connect\(\)(?: to \S+)? failed \((\d{1,3}):")  # at once, or later
_FULL = re.compile(r" (\d+) worker_connections are not enough")
_LATE = "upstream timed out (110: "  # after proxy_connect_timeout
_NO_DESCRIPTOR = "(24: "  # EMFILE, of socket(2) and accept(2)
_OTHER = "other"
_ERRORS = "-errors.log"
_FAILURES = "-failures.log"  # of connections that failed or were repeated
_PAGE_TIMEOUT_S = 5.0
_FAILED = ("400", "403", "500", "502", "503", _OTHER)  # session statuses of the stream module, beside 200


def worker_connections(scenario: Scenario) -> int:
    """Of each worker: two for each of its connections, and those of its own; else as many as it has descriptors."""
    dut, most = proxy.spec(scenario), served(scenario).max_connections
    if most is None:  # each worker holds the listening sockets of the others, too
        return dut.descriptors - _SPARE - served(scenario).virtual_count * (len(dut.cpus) - 1)
    return 2 * -(-most // len(dut.cpus)) + own_connections(scenario)


def own_connections(scenario: Scenario) -> int:
    """Of each worker, that are no client's: one for each listening socket among them."""
    return served(scenario).virtual_count + OWN_CONNECTIONS


def status(text: str) -> tuple[int, int, int]:
    """A stub status page: connections accepted, those handled, those active now. Raises DutError."""
    accepted, active = _ACCEPTED.search(text), _ACTIVE.search(text)
    if not accepted or not active:
        raise DutError(f"nginx's status page reads {text[:100]!r}")
    return int(accepted[1]), int(accepted[2]), int(active[1])


def failures(text: str) -> dict[str, int]:
    """The log of failures, `STATUS|ADDRESSES|TIMES` each: `nginx/status/N`, and attempts at another backend.

    Connections that succeeded at another backend have the status 200 and are attempts alone.
    """
    counters = {"nginx/retries": 0, **{f"nginx/status/{word}": 0 for word in _FAILED}}
    for line in text.splitlines():
        word, *rest = line.split("|")
        if _STATUS.fullmatch(word) and len(rest) == 2:
            counters["nginx/retries"] += rest[0].count(",")
            if word != "200":
                counters[f"nginx/status/{word if word in _FAILED else _OTHER}"] += 1
    return counters


def errors(text: str) -> dict[str, int]:
    """The error log: `nginx/connect/WORD`, attempts that failed, by errno; no descriptor; no place in a worker."""
    counters = {f"nginx/connect/{word}": 0 for word in (*NAMES.values(), _OTHER)}
    for number in map(int, _ERRNO.findall(text)):
        counters[f"nginx/connect/{NAMES.get(number, _OTHER)}"] += 1
    counters["nginx/connect/timed_out"] += text.count(_LATE)
    counters["nginx/no_descriptor"] = text.count(_NO_DESCRIPTOR)
    return {**counters, "nginx/worker_connections_not_enough": len(_FULL.findall(text))}


class Status(Collector):
    """What nginx counted, and what its logs say; they are read from where they were left."""

    name = "nginx"

    def __init__(self, host: Host, bench: proxy.ProxyBench) -> None:
        self._host, self._socket = host, bench.file(proxy.SOCKET)
        self._failures, self._errors = LogTail(host, bench.file(_FAILURES)), LogTail(host, bench.file(_ERRORS))
        self._logged = Counter[str]()

    def read(self, at_s: float) -> Snapshot:
        """`nginx/{accepted,handled}`, those of the page's own readers among them; what `failures` and `errors` say.

        Gauge `nginx/active`. Accepted and not handled: the worker had no place for it. What the page alone says is left
        out where no place is free for who asks for it.
        """
        # The logs first: while the page is waited for, what the load has left behind fails as well.
        for told in (failures(self._failures.more()), errors(self._errors.more())):
            self._logged.update(told)
        counters, gauges = dict(self._logged), dict[str, float]()
        if page := self._page():
            counters["nginx/accepted"], counters["nginx/handled"], active = page
            gauges["nginx/active"] = float(active)
        return Snapshot(at_s, counters, gauges)

    def _page(self) -> tuple[int, int, int] | None:
        """The status page's numbers; None where connections that stay leave no place for who asks.

        A worker without a free place resets who asks: asked again until one is free. Raises DutError.
        """
        try:
            return insisted(lambda: status(get(self._host, self._socket, STATUS)), DutError, _PAGE_TIMEOUT_S, 0.02)
        except DutError as error:
            if isinstance(error.__cause__, ConnectionResetError | TimeoutError):
                return None
            raise


class NginxLive(ProxyLive):
    """An nginx that stands."""

    reloads = signal.SIGHUP
    no_port = ("nginx/connect/no_local_port",)
    no_descriptor = ("nginx/no_descriptor",)
    no_answer = ("nginx/connect/timed_out",)

    def __init__(self, bench: proxy.ProxyBench) -> None:
        self._most, self._own = worker_connections(bench.scenario), own_connections(bench.scenario)
        super().__init__(bench, Status(bench.places.host, bench))

    def answers(self) -> bool:
        """Whether its status page does."""
        return bool(status(get(self.places.host, self._socket, STATUS)))

    def tasks(self) -> Sequence[str]:
        """Folders in /proc of its worker processes, by process id."""
        return [f"{PROC}/{pid}" for pid in sorted(children(self.places.host, self.pid))]

    def program_settings(self) -> Mapping[str, str]:
        """How many connections each worker takes, and how many workers run. Raises BenchError if they are too few."""
        workers, wanted = len(self.tasks()), len(self.cpus)
        if workers != wanted:
            raise BenchError(f"worker_processes: {wanted} was set, {workers} run")
        return {"nginx worker_processes": str(workers), "nginx worker_connections": str(self._most)}

    def table(self) -> Limit:
        """The connections of its workers."""
        workers = len(self.tasks())
        each = f"worker_connections {self._most:,} of {workers} workers"
        source = f"{each}, two for each connection, {self._own} own"
        size = (self._most - self._own) // 2 * workers
        return Limit(Resource.TABLE, size, 0.0, source, TCP_PAIRS, ("nginx/worker_connections_not_enough",))

    def versions(self) -> Mapping[str, str]:
        """Its own, from the head of its answer."""
        match = _SERVER.search(exchange(self.places.host, self._socket, STATUS))
        return {"nginx": match[1]} if match else {}

    def dumps(self) -> Mapping[str, str]:
        """The configuration that it loaded, too."""
        return {**super().dumps(), "nginx.conf": self.places.host.read(self._bench.config_path)}

    def log(self) -> tuple[str, str] | None:
        """The error log; what the program printed where there is none."""
        return kept_log(self.places.host, "nginx-errors.log", self._bench.file(_ERRORS)) or super().log()


class NginxBench(proxy.ProxyBench):
    """One bench of nginx, planned: its ports, nginx.conf and the daemon."""

    live_type = NginxLive

    def config(self) -> Iterator[str]:
        """Lines of nginx.conf, which names every backend."""
        dut = proxy.spec(self.scenario)
        yield f"load_module {MODULE};"
        yield "daemon off;"
        yield "user root;"  # the folder of the bench is root's
        yield f"worker_processes {len(dut.cpus)};"
        yield f"worker_cpu_affinity {' '.join(f'{1 << cpu:b}' for cpu in dut.cpus)};"
        yield f"pid {self.file('-own.pid')};"
        yield f"error_log {self.file(_ERRORS)} error;"
        yield f"events {{ worker_connections {worker_connections(self.scenario)}; }}"
        yield from braced("stream", *self._stream())
        folders = (f"{name}_temp_path {self.file(f'-{name}')};" for name in _TEMPORARY)
        page = f"server {{ listen unix:{self.file(proxy.SOCKET)}; location = {STATUS} {{ stub_status; }} }}"
        yield from braced("http", "access_log off;", *folders, page)

    def _stream(self) -> Iterator[str]:
        service = served(self.scenario)
        *others, last = service.locals
        share = 10_000 // len(service.locals) / 100  # rounded down to the hundredth that split_clients takes
        shares = (f"{share:.2f}% {local};" for local in others)
        yield from braced(f"split_clients {_TUPLE} $local", *shares, f"* {last};")
        yield 'map "$status $upstream_addr" $has_failed { "~^200 [^,]+$" 0; default 1; }'
        yield "log_format failures '$status|$upstream_addr|$upstream_connect_time';"
        yield f"access_log {self.file(_FAILURES)} failures if=$has_failed;"
        failing = "max_fails=0"
        if service.health_s is not None:
            failing = f"max_fails=1 fail_timeout={round(service.health_s)}s"
        each = zip(service.backends, service.weights, strict=True)
        servers = (f"server {backend.end} weight={weight} {failing};" for backend, weight in each)
        yield from braced("upstream servers", "zone servers 1m;", *_METHODS[service.scheduler], *servers)
        listening = f"backlog={proxy.spec(self.scenario).backlog} reuseport"
        yield from braced(
            "server",
            *(f"listen {end} {listening};" for end in service.listens),
            "proxy_pass servers;",
            "proxy_bind $local;",
            *(("proxy_protocol on;",) if service.proxy_protocol else ()),
            f"proxy_connect_timeout {round(proxy.CONNECT_S * 1000)}ms;",
            f"proxy_timeout {round((service.established_s or proxy.LONG_S) * 1000)}ms;",
        )

    def argv(self) -> Sequence[str]:
        """In the foreground, a master and its workers."""
        return (PROGRAM, "-c", self.config_path, "-e", self.file(_ERRORS))


class NginxDevice(proxy.ProxyDevice):
    """The kind `nginx`: a TCP proxy that deals clients to its local addresses by a hash of address and port."""

    bench_type = NginxBench

    def check(self, raw: RawScenario) -> None:
        """A service with no more local addresses than split_clients divides evenly, and checks in whole seconds."""
        service = raw.tables.get("service", {})
        local, health_s = service.get("local"), service.get("health_s")
        if local is not None and local.count > _MOST_LOCALS:
            wanted = f"at most {_MOST_LOCALS} addresses of nginx, which divides clients by hundredths of a percent"
            raw.mismatch(("service", "local"), wanted, local.count)
        if service.get("proxy_protocol") == ProxyHeader.BINARY:
            raw.mismatch(("service", "proxy_protocol"), f'"{ProxyHeader.TEXT}" where dut.kind is "nginx"', "v2")
        if health_s is not None and health_s % 1:
            raw.mismatch(("service", "health_s"), "whole seconds of nginx (fail_timeout)", health_s)
        super().check(raw)

    def probes(self, host: Host, guest: Guest | None = None) -> Iterator[Probe]:
        """The program, its module, its tools."""
        yield from programs(host, {PROGRAM: "nginx"})
        yield from super().probes(host)
        there = host.exists(MODULE)
        detail = MODULE if there else f"{MODULE}: missing"
        yield packaged("nginx stream module", there, detail, "libnginx-mod-stream", "nginx-mod-stream")


_CAN = replace(proxy.CONFIGURED, changes=(Reconfiguration.RELOAD,))
_KEYS = Keys(proxy.KEYS, actions=proxy.ACTIONS, services=_CAN)
DEVICE = NginxDevice("nginx", "nginx with its stream module", Types(proxy.ProxyDut), _KEYS)
