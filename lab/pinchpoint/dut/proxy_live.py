"""A proxy that stands: its worker threads, what it was given by the kernel, the limits of its connections."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import ClassVar

from pinchpoint.bench.actions import daemon_pid
from pinchpoint.bench.resource import AnyResource
from pinchpoint.dut import softirq
from pinchpoint.dut.addresses import read_sysctls, sysctls_in_force
from pinchpoint.dut.device import Action, Check, in_force
from pinchpoint.dut.program import START_TIMEOUT_S, await_start, kept_log
from pinchpoint.dut.proxy import RANGE, RELOAD, SOCKET, SPARE_DESCRIPTORS, TW_REUSE, ProxyBench, sysctls
from pinchpoint.dut.services import local_pool, served
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.host.processes import field
from pinchpoint.model import units
from pinchpoint.model.errors import BenchError, DutError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Change, Closer, Range
from pinchpoint.observe.cpu import PacketThreads
from pinchpoint.observe.printed import TCP_COUNTERS, TCP_PORTS, TIME_WAIT_S, TcpStack
from pinchpoint.observe.snapshot import Collector, Snapshot

REUSED_S = 1.0  # after which tcp_tw_reuse takes a port: its last time stamp is of another second (tcp_twsk_unique)
_FLUSH_TIMEOUT_S = 5.0  # a program closes its end of a connection that was aborted
_AGAIN_S = 2.0  # without new workers: a signal may be lost on a program that is still starting
_LOWEST_PORT, _HIGHEST_PORT = 1024, 65_535  # that need no privilege; that there are
_OF_EACH = 2  # descriptors: a proxy has two sockets for each connection
OPEN = "host/descriptors/open"
_OPEN_PAIRS = "host/descriptors/pairs"
_NONE = re.compile("(?!)")
_OPEN_FILES = re.compile(r"^Max open files\s+(\d+)", re.MULTILINE)
READ = tuple(
    f"net/ipv4/tcp_{name}" for name in ("fin_timeout", "max_tw_buckets", "tw_reuse", "abort_on_overflow", "syncookies")
)
"""Of the namespace, as the kernel has them: a bench leaves them alone."""


class Workers(PacketThreads):
    """The threads or processes that move data, each as `worker-N`."""

    name = "workers"

    def __init__(self, host: Host, tasks: Callable[[], Sequence[str]]) -> None:
        """`tasks`: the place of each in /proc, in an order that lasts."""
        super().__init__(host, "", _NONE, _NONE)
        self._tasks = tasks

    def _threads(self) -> Iterator[tuple[str, str, bool]]:
        return ((task, f"worker-{number}", True) for number, task in enumerate(self._tasks(), start=1))


class OpenFiles(Collector):
    """The files that processes have open (proc(5), /proc/PID/fd)."""

    name = "descriptors"

    def __init__(self, host: Host, processes: Callable[[], Sequence[str]]) -> None:
        """`processes`: the place of each in /proc."""
        self._host, self._processes = host, processes

    def read(self, at_s: float) -> Snapshot:
        """Gauges of all processes: `host/descriptors/open`; `pairs`, these by twos, as connections have them."""
        count = 0
        for place in self._processes():
            with suppress(OSError):  # it has ended meanwhile
                count += len(self._host.names(f"{place}/fd"))
        return Snapshot(at_s, {}, {OPEN: float(count), _OPEN_PAIRS: count / _OF_EACH})


class ProxyLive(softirq.KernelLive):
    """A proxy that stands; a kind says what its program answers.

    As a balancer it has connections of two sockets each, one of which closes first and then waits.
    """

    # Counters that rise where no local port is free, no file can be opened, a backend does not answer:
    no_port: ClassVar[tuple[str, ...]] = ()
    no_descriptor: ClassVar[tuple[str, ...]] = ()
    no_answer: ClassVar[tuple[str, ...]] = ()
    reloads: ClassVar[int | None] = None  # the signal on which its first process loads the configuration again
    binds: ClassVar[bool] = True  # each worker to a CPU of its own; otherwise each may run on all of them

    def __init__(self, bench: ProxyBench, program: Collector) -> None:
        """Wait until it serves; `program`: its own counters. Raises DutError with the end of its log."""
        super().__init__(bench)
        self.words = f"a proxy of kind {bench.scenario.dut.kind}"
        self.service, self.cpus = served(bench.scenario), bench.scenario.dut.cpus
        self._bench, self._daemon, self._socket, self._program = bench, bench.daemon(), bench.file(SOCKET), program
        self._stack = TcpStack(self.places.host, self.places.dut_netns)
        await_start(self._daemon, self.places.host, self._serves, f"{self._daemon.name} does not serve")

    def answers(self) -> bool:
        """Whether the program says that it is ready. Raises DutError where it says nothing."""
        raise NotImplementedError

    def tasks(self) -> Sequence[str]:
        """The place in /proc of each worker."""
        raise NotImplementedError

    def processes(self) -> Sequence[str]:
        """The place in /proc of each process that has workers."""
        return list(dict.fromkeys(task.partition("/task/")[0] for task in self.tasks()))

    def program_settings(self) -> Mapping[str, str]:
        """What the running program says of its settings. Raises BenchError where one is not in force."""
        raise NotImplementedError

    def table(self) -> Limit:
        """How many connections the running program takes."""
        raise NotImplementedError

    def action(self, change: Change, resources: Sequence[AnyResource]) -> Action:
        """A reload, where the program can. Raises InputError."""
        if change.action == RELOAD and self.reloads is not None:
            return Action(self._reload, ends_processes=True)
        return super().action(change, resources)

    @property
    def pid(self) -> int:
        """The program's process. Raises DutError if it has ended."""
        return daemon_pid(self._daemon, self.places.host)

    def own(self) -> list[Collector]:
        """The namespace's TCP, the files of its processes, and the program's counters."""
        return [self._stack, OpenFiles(self.places.host, self.processes), self._program]

    def witnesses(self) -> list[Collector]:
        """What the softirqs and the workers did."""
        return [*super().witnesses(), Workers(self.places.host, self.tasks)]

    def settings(self) -> Mapping[str, str]:
        """Sysctls, offloads, descriptors, backlog, CPUs and the program's own. Raises BenchError."""
        places, wanted = self.places, sysctls(self._scenario)
        settings = sysctls_in_force(places.host, places.dut_netns, wanted, (*READ, RANGE))
        settings |= {f"checksum offload of {port.name}": self._offload(port.name) for port in self._scenario.ports}
        settings |= {f"CPUs of worker-{number}": cpus for number, cpus in enumerate(self._bound(), start=1)}
        settings["descriptors"] = str(self.descriptors())
        settings["backlog"] = " + ".join(map(str, self.backlogs()))
        return {**super().settings(), **settings, **self.program_settings()}

    def unchanging(self) -> Mapping[str, str]:
        """Its processes, and the places of its accept queues."""
        return {"processes": ", ".join(self.processes()), "backlog": " + ".join(map(str, self.backlogs()))}

    def dumps(self) -> Mapping[str, str]:
        """The routes of its namespace, as ip-route(8) lists them."""
        return {"routes.txt": self.run("ip", "route", "show")}

    def log(self) -> tuple[str, str] | None:
        """What the program printed."""
        return kept_log(self.places.host, f"{self._daemon.name}.log", self._daemon.log)

    def sysctls(self, names: Sequence[str]) -> dict[str, str]:
        """Sysctls of its namespace, by name."""
        return read_sysctls(self.places.host, self.places.dut_netns, names)

    def descriptors(self) -> int:
        """That each process of the program may open, the least of them (RLIMIT_NOFILE). Raises DutError."""
        limits = [_OPEN_FILES.search(self._file(process, "limits")) for process in self.processes()]
        known = [int(limit[1]) for limit in limits if limit]
        if not known or len(known) < len(limits):
            raise DutError(f"the kernel does not say how many files {self._daemon.name} may open")
        return min(known)

    def backlogs(self) -> tuple[int, ...]:
        """Places in the accept queue of each listening socket."""
        return listening(self.run("ss", "-H", "-l", "-t", "-n"))

    def _serves(self) -> bool:
        return self.answers() and len(self.tasks()) >= len(self.cpus)

    def _offload(self, port: str) -> str:
        return in_force(f"tx-checksumming of {port}", "off", offload(self.run("ethtool", "-k", port)))

    def _bound(self) -> list[str]:
        """The CPUs on which each worker may run, as the kernel lists them. Raises BenchError where they are others."""
        allowed = [self._allowed(task) for task in self.tasks()]
        if self.binds and sorted(allowed) != sorted(map(str, self.cpus)):
            raise BenchError(f"a worker each was to run on CPUs {self.cpus}, they run on {', '.join(allowed)}")
        return allowed

    def _allowed(self, task: str) -> str:
        return field(self._file(task, "status"), "Cpus_allowed_list") or "not known"

    def _file(self, task: str, name: str) -> str:
        try:
            return self.places.host.read(f"{task}/{name}")
        except OSError as error:
            raise DutError(f"a worker of {self._daemon.name} is gone: {error}") from error

    def limits(self) -> tuple[Limit, ...]:
        """Local ports, descriptors, the program's table, the accept queue, the backends, the workers."""
        service = self.service
        first, last = map(int, self.sysctls([RANGE])[RANGE].split())
        places, pool = local_pool(service, Range(first, last - first + 1))
        held_s, why = self._held_s()
        backlogs, workers = self.backlogs(), len(self.tasks())
        queues = f"backlog of {units.counted(len(backlogs), 'listening socket')}: {' + '.join(map(str, backlogs))}"
        servers = units.counted(len(service.backends), "backend")
        cores = f"{units.counted(workers, 'worker')} on CPUs {', '.join(map(str, self.cpus))}"
        overflows, failures = (f"{TCP_COUNTERS}{name}" for name in ("ListenOverflows", "AttemptFails"))
        return (
            # Ports in TIME_WAIT that may be used again occupy no place.
            Limit(
                Resource.LOCAL_PORTS, places, held_s, f"{pool}{why}", "" if self._reuses else TCP_PORTS, self.no_port
            ),
            *tabled(self.table(), self.descriptors(), len(self.processes()), self.no_descriptor),
            Limit(Resource.ACCEPT_QUEUE, None, None, queues, refused=(overflows,)),  # a connection only passes it
            Limit(Resource.BACKEND, None, None, servers, refused=(failures, *self.no_answer)),
            Limit(Resource.WORKER, None, None, cores),
            softirq.QDISC,
        )

    @property
    def _reuses(self) -> bool:
        """Whether the kernel uses a port in TIME_WAIT again, for which both ends need time stamps."""
        return self.service.timestamps and self.sysctls([TW_REUSE])[TW_REUSE] == "1"

    def _held_s(self) -> tuple[float, str]:
        """For how long a local port stays occupied once its connection has closed, and why."""
        if self.service.closes is not Closer.CLIENT:
            return 0.0, "; backends close first"
        if self._reuses:
            return REUSED_S, f", each held for up to {REUSED_S:g} s in TIME_WAIT (tcp_tw_reuse = 1, time stamps)"
        return TIME_WAIT_S, f", each held for {TIME_WAIT_S:g} s in TIME_WAIT"

    @contextmanager
    def doubled(self, resource: Resource) -> Iterator[str]:
        """Inside, each local address has twice as many ports. Raises BenchError of any other resource.

        Yields what was changed, as read back.
        """
        if resource is not Resource.LOCAL_PORTS:
            raise BenchError(f"{resource} cannot be doubled while it runs")
        before = self.sysctls([RANGE])[RANGE]
        first, last = twice(*map(int, before.split()))
        try:
            self.run("sysctl", "-qw", f"{RANGE}={first} {last}")
            yield f"ip_local_port_range = {self.sysctls([RANGE])[RANGE]} instead of {before}"
        finally:
            self.run("sysctl", "-qw", f"{RANGE}={before}")

    def remove(self, backend: int) -> None:
        """A kind whose program can says so in its `Services.changes`."""
        raise NotImplementedError

    def add(self, backend: int) -> None:
        """A kind whose program can says so in its `Services.changes`."""
        raise NotImplementedError

    def reload(self) -> None:
        """Have it load its configuration again; returns when new workers serve. Raises BenchError, DutError."""
        self._reload(lambda: None)

    def _reload(self, check: Check) -> None:
        """As many new workers as before come to serve; those before them serve the connections that they have."""
        if self.reloads is None:
            raise BenchError(f"{self.words} cannot load its configuration while it runs")
        before = frozenset(self.tasks())
        now = asked = began = time.monotonic()
        self.places.host.signal([self.pid], self.reloads)
        while not self._serves_anew(before):
            check()
            now = time.monotonic()
            if now > began + START_TIMEOUT_S:
                raise DutError(f"no new workers serve {START_TIMEOUT_S:g} s after the reload", "see the program's log")
            if now > asked + _AGAIN_S and not frozenset(self.tasks()) - before:
                self.places.host.signal([self.pid], self.reloads)
                asked = now
            time.sleep(0.01)

    def _serves_anew(self, before: frozenset[str]) -> bool:
        with suppress(DutError):
            return len(frozenset(self.tasks()) - before) >= len(self.cpus) and self.answers()
        return False

    def flush(self) -> None:
        """Abort every connection and forget those in TIME_WAIT (ss(8), -K). Raises BenchError where any stays."""
        deadline, left = time.monotonic() + _FLUSH_TIMEOUT_S, self.tracked()
        while left:
            try:
                self.run("ss", "-K", "-H", "-t", "-n", "state", "connected")
            except CommandFailed as error:
                raise BenchError(f"the kernel closes no sockets: {error.output}", _MEND) from error
            left = self.tracked()
            if left and time.monotonic() > deadline:
                raise BenchError(f"{left:,} sockets are still there after ss -K", _MEND)
            time.sleep(0.02)

    def tracked(self) -> int | None:
        """Sockets of connections, two for one that is open, one for one in TIME_WAIT."""
        return max(0, self._stack.remembered() - len(self.backlogs()))


def tabled(table: Limit, descriptors: int, processes: int, refused: tuple[str, ...]) -> tuple[Limit, ...]:
    """The descriptors of a proxy and its table of connections.

    They are one limit where the table has every place that the descriptors bear: a larger one finds none beyond those
    that the program does not need itself. `descriptors`: of each process; `refused`: counters that rise where no file
    can be opened.
    """
    most = descriptors * processes // _OF_EACH
    words = f"RLIMIT_NOFILE {descriptors:,} of {processes} processes, {_OF_EACH} for each connection"
    own = Limit(Resource.DESCRIPTORS, most, 0.0, words, _OPEN_PAIRS, refused)
    if table.size is None or _OF_EACH * table.size + SPARE_DESCRIPTORS * processes <= descriptors * processes:
        return own, table
    both = f"{words}; {table.source} leaves room for no more"
    bears = max(0, descriptors - SPARE_DESCRIPTORS) * processes // _OF_EACH
    size = table.size if table.size <= most else bears
    return (replace(own, size=size, source=both, used=table.used, refused=(*refused, *table.refused)),)


_MEND = "boot a kernel with CONFIG_INET_DIAG_DESTROY; or wait for TIME_WAIT to end"


def twice(first: int, last: int) -> tuple[int, int]:
    """A range of twice as many ports that holds the one given. Raises BenchError where there are not as many."""
    count = 2 * (last - first + 1)
    start = min(first, _HIGHEST_PORT + 1 - count)
    if start < _LOWEST_PORT:
        raise BenchError(f"local ports {first} to {last} cannot be doubled: there are {_HIGHEST_PORT:,} of them")
    return start, start + count - 1


def listening(text: str) -> tuple[int, ...]:
    """`ss -H -l -t -n`: the backlog of each listening socket, which is in its column Send-Q."""
    rows = (line.split() for line in text.splitlines())
    return tuple(int(words[2]) for words in rows if len(words) > 3 and words[0] == "LISTEN" and words[2].isdecimal())


def offload(text: str) -> str:
    """`ethtool -k`: whether the kernel leaves checksums to the interface, "on" or "off"."""
    match = re.search(r"^tx-checksumming: (on|off)", text, re.MULTILINE)
    return match[1] if match else "not known"
