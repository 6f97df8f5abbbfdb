"""A running nginx: its workers, its status page (ngx_http_stub_status_module), its logs.

nginx does not say with which settings it runs. What the kernel knows of its workers and sockets is read back; the
number of connections of a worker is as in the file that it loaded.
"""

import re
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pinchpoint.bench.resource import Daemon
from pinchpoint.dut.control_socket import exchange, get
from pinchpoint.dut.log_tail import LogTail
from pinchpoint.dut.places import Places
from pinchpoint.dut.proxy_live import ProxyLive
from pinchpoint.dut.tcp_stack import PAIRS
from pinchpoint.host.interface import PROC, Host
from pinchpoint.host.processes import children
from pinchpoint.model.errors import BenchError, DutError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Scenario
from pinchpoint.observe.snapshot import Collector, Snapshot

STATUS = "/status"
OWN_CONNECTIONS = 4  # of a worker: two listening sockets, the channel to its master, one who asks for the status
_ACTIVE = re.compile(r"Active connections: (\d{1,19})")
_ACCEPTED = re.compile(r"^\s*(\d{1,19}) (\d{1,19}) (\d{1,19})\s*$", re.MULTILINE)
_STATUS = re.compile(r"[1-5]\d\d")
_SERVER = re.compile(r"^Server: nginx/(\S{1,40})\r$", re.MULTILINE)
_ERRNO = re.compile(r" connect\(\)(?: to \S+)? failed \((\d{1,3}):")  # at once, or later
_FULL = re.compile(r" (\d+) worker_connections are not enough")
NAMES = {99: "no_local_port", 111: "refused", 110: "timed_out", 113: "no_route"}
"""What connect(2) says, by errno."""
_LATE = "upstream timed out (110: "  # after proxy_connect_timeout
_NO_DESCRIPTOR = "(24: "  # EMFILE, of socket(2) and accept(2)
_OTHER = "other"
_PAGE_TIMEOUT_S = 5.0
_FAILED = ("400", "403", "500", "502", "503", _OTHER)  # session statuses of the stream module, beside 200


@dataclass(frozen=True)
class Files:
    """Where everything of one nginx is."""

    folder: str
    config: str
    socket: str

    @property
    def failures(self) -> str:
        """The log of connections that failed or were repeated."""
        return f"{self.folder}/nginx-failures.log"

    @property
    def errors(self) -> str:
        """Where `error_log` is written."""
        return f"{self.folder}/nginx-errors.log"


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


class Status:
    """What nginx counted, and what its logs say; they are read from where they were left."""

    name = "nginx"

    def __init__(self, host: Host, files: Files) -> None:
        self._host, self._files = host, files
        self._failures, self._errors = LogTail(host, files.failures), LogTail(host, files.errors)
        self._logged = Counter[str]()

    def can_run(self) -> str | None:
        """Always: the bench stands once the page answers."""
        return None

    def snapshot(self) -> Snapshot:
        """`nginx/{accepted,handled}`, those of the page's own readers among them; what `failures` and `errors` say.

        Gauge `nginx/active`. Accepted and not handled: the worker had no place for it.
        """
        at_s = time.monotonic()
        accepted, handled, active = self._page()
        for told in (failures(self._failures.more()), errors(self._errors.more())):
            self._logged.update(told)
        counters = {"nginx/accepted": accepted, "nginx/handled": handled, **self._logged}
        return Snapshot(at_s, counters, {"nginx/active": float(active)})

    def _page(self) -> tuple[int, int, int]:
        """The status page. A worker without a free place resets who asks for it: asked again until one is free."""
        deadline = time.monotonic() + _PAGE_TIMEOUT_S
        while True:
            try:
                return status(get(self._host, self._files.socket, STATUS))
            except DutError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.02)


class NginxLive(ProxyLive):
    """An nginx that stands."""

    reloads: ClassVar[int | None] = signal.SIGHUP
    no_port: ClassVar[tuple[str, ...]] = ("nginx/connect/no_local_port",)
    no_descriptor: ClassVar[tuple[str, ...]] = ("nginx/no_descriptor",)
    no_answer: ClassVar[tuple[str, ...]] = ("nginx/connect/timed_out",)

    def __init__(
        self, scenario: Scenario, places: Places, daemon: Daemon, wanted: Mapping[str, str], files: Files, most: int
    ) -> None:
        self._files, self._most = files, most
        self._status = Status(places.host, files)
        super().__init__(scenario, places, daemon, wanted)

    def answers(self) -> bool:
        """Whether its status page does."""
        return bool(status(get(self.places.host, self._files.socket, STATUS)))

    def tasks(self) -> Sequence[str]:
        """Folders in /proc of its worker processes, by process id."""
        return [f"{PROC}/{pid}" for pid in sorted(children(self.places.host, self.pid))]

    def program(self) -> Collector:
        """Its status page and its logs."""
        return self._status

    def program_settings(self) -> Mapping[str, str]:
        """How many connections each worker takes, and how many workers run. Raises BenchError if they are too few."""
        workers, wanted = len(self.tasks()), len(self._scenario.dut.cpus)
        if workers != wanted:
            raise BenchError(f"worker_processes: {wanted} was set, {workers} run")
        return {"nginx worker_processes": str(workers), "nginx worker_connections": str(self._most)}

    def table(self) -> Limit:
        """The connections of its workers."""
        workers = len(self.tasks())
        source = (
            f"worker_connections {self._most:,} of {workers} workers, two for each connection, {OWN_CONNECTIONS} own"
        )
        size = (self._most - OWN_CONNECTIONS) // 2 * workers
        return Limit(Resource.TABLE, size, 0.0, source, PAIRS, ("nginx/worker_connections_not_enough",))

    def versions(self) -> Mapping[str, str]:
        """Its own, from the head of its answer."""
        match = _SERVER.search(exchange(self.places.host, self._files.socket, STATUS))
        return {"nginx": match[1]} if match else {}

    def dumps(self) -> Mapping[str, str]:
        """The configuration that it loaded, too."""
        return {**super().dumps(), "nginx.conf": self.places.host.read(self._files.config)}

    def log(self) -> tuple[str, str] | None:
        """The error log; what the program printed where there is none."""
        try:
            return "nginx-errors.log", self.places.host.read(self._files.errors)
        except OSError:
            return super().log()
