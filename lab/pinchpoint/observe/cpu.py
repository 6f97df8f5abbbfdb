"""Collectors for processor time: what every CPU of the bench did, and which of its processes and threads used it.

Formats: proc(5), proc_stat(5), proc_pid_stat(5). Both count in ticks of 1/SC_CLK_TCK seconds; a
process's ticks hold those of its threads that have ended. schedstat: Documentation/scheduler/sched-stats.rst.
"""

import gzip
import os
import re
from collections.abc import Iterator, Sequence

from pinchpoint.host.interface import PROC, TICKS_PER_S, Host
from pinchpoint.host.processes import field, marked_pids, stat, ticks_and_cpu
from pinchpoint.observe.snapshot import Collector, Forwarding, Snapshot, origin

_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_NOT_BUSY = ("idle", "iowait", "steal")
_OF_PROCESSES = ("user", "nice", "system")
IRQ_TIME = "CONFIG_IRQ_TIME_ACCOUNTING=y"
"""The time of interrupts is taken out of that of the process they interrupt."""
# A CPU's idle time is a clock's, without the interrupts and softirqs in between. The clock of a tickless kernel stops
# with each interrupt (kernel/time/tick-sched.c, tick_nohz_irq_enter). Others look at what runs at each tick.
_IDLE_TIME = "CONFIG_NO_HZ_COMMON=y"


class CpuSteal(Collector):
    """Time that the hypervisor gave to others, by CPU."""

    name = "cpu"

    def __init__(self, host: Host, cpus: Sequence[int]) -> None:
        self._host, self._cpus = host, frozenset(cpus)
        self._origin = origin(host)

    def can_run(self) -> str | None:
        """Why /proc/stat cannot be read; None where it is mounted."""
        return None if self._host.exists(f"{PROC}/stat") else f"{PROC}/stat: not mounted"

    def read(self, at_s: float) -> Snapshot:
        """`host/cpu/N/steal_ticks`, in ticks of 1/SC_CLK_TCK seconds."""
        return Snapshot(at_s, {f"{place}/steal_ticks": ticks["steal"] for place, ticks in self._ticks()})

    def _ticks(self) -> Iterator[tuple[str, dict[str, int]]]:
        """(how its names begin, state -> ticks) of each of the CPUs."""
        for cpu, ticks in cpu_ticks(self._host.read(f"{PROC}/stat")).items():
            if cpu in self._cpus:
                yield f"{self._origin}/cpu/{cpu}", ticks


class CpuTime(CpuSteal):
    """Where the time of each CPU went: to nobody, to processes, to the kernel's softirqs."""

    name = "cpu-time"

    def __init__(self, host: Host, cpus: Sequence[int]) -> None:
        super().__init__(host, cpus)
        self._separate, self._idle = is_configured(host, IRQ_TIME), is_configured(host, _IDLE_TIME)

    def read(self, at_s: float) -> Snapshot:
        """`host/cpu/N/{busy,unused,processes,softirq,irq,steal}_ticks`.

        Gauges, 0 or 1: `host/irq_time_separate`, `host/idle_time_measured`. `unused` has what the hypervisor took.
        """
        counters: dict[str, int] = {}
        for place, ticks in self._ticks():
            counters[f"{place}/busy_ticks"] = sum(n for s, n in ticks.items() if s not in _NOT_BUSY)
            counters[f"{place}/unused_ticks"] = sum(ticks[state] for state in _NOT_BUSY)
            counters[f"{place}/processes_ticks"] = sum(ticks[state] for state in _OF_PROCESSES)
            counters |= {f"{place}/{state}_ticks": ticks[state] for state in ("softirq", "irq", "steal")}
        # Unknown counts as separate: a disturbance is then missed rather than invented.
        gauges = {
            f"{self._origin}/irq_time_separate": float(self._separate is not False),
            f"{self._origin}/idle_time_measured": float(self._idle is True),
        }
        return Snapshot(at_s, counters, gauges)


def cpu_ticks(text: str) -> dict[int, dict[str, int]]:
    """`/proc/stat`: CPU -> state -> ticks since boot; lines that are not of one CPU are skipped."""
    by_cpu: dict[int, dict[str, int]] = {}
    for line in text.splitlines():
        words = line.split()
        numbers = words[1 : len(_STATES) + 1]
        cpu = words[0].removeprefix("cpu") if words and words[0].startswith("cpu") else ""
        if cpu.isdigit() and len(numbers) == len(_STATES) and all(number.isdigit() for number in numbers):
            by_cpu[int(cpu)] = dict(zip(_STATES, map(int, numbers), strict=True))
    return by_cpu


def is_configured(host: Host, option: str) -> bool | None:
    """Whether the kernel was built with an option, by its own configuration; None: that cannot be read."""
    for path in (f"{PROC}/config.gz", f"/boot/config-{host.release()}"):
        try:
            text = host.read_bytes(path)
            text = gzip.decompress(text) if path.endswith(".gz") else text
        except (OSError, EOFError):
            continue
        return option in text.decode(errors="replace").splitlines()
    return None


class BenchProcesses(Collector):
    """Processor time of every process of the bench by its name, and of the lab itself."""

    name = "processes"

    def __init__(self, host: Host, bench_id: str) -> None:
        self._host, self._bench_id = host, bench_id
        self._names: dict[tuple[int, str], str] = {}  # process and its name -> what it is called here
        self._used: dict[str, int] = {}  # how many of one name there have been

    def can_run(self) -> str | None:
        """Why /proc cannot be read; None where it is mounted."""
        return None if self._host.exists(f"{PROC}/self/stat") else f"{PROC}: not mounted"

    def read(self, at_s: float) -> Snapshot:
        """`host/process/NAME/ticks`, gauge `.../cpu`; the second of one name is `NAME-2`.

        A process keeps what it is called as long as it runs, and none is called so after it; so all time
        of one that was not there before is of the time since.
        `lab` is this process with those that it has started and waited for.
        """
        own = os.times()
        spent_s = own.user + own.system + own.children_user + own.children_system
        counters = {"host/process/lab/ticks": round(spent_s * TICKS_PER_S)}
        gauges: dict[str, float] = {}
        for name, ticks, cpu in self._processes():
            counters[f"host/process/{name}/ticks"] = ticks
            gauges[f"host/process/{name}/cpu"] = cpu
        return Snapshot(at_s, counters, gauges, sparse=True)

    def _processes(self) -> Iterator[tuple[str, int, int]]:
        """(name, ticks, CPU it ran on last) by process, in the order of their ids."""
        for pid in sorted(marked_pids(self._host, self._bench_id)):
            place = f"{PROC}/{pid}"
            try:
                name = process_name(self._host.read_bytes(f"{place}/cmdline"))
                ticks, cpu = ticks_and_cpu(stat(self._host, place))
            except (OSError, ValueError, IndexError):
                continue  # it ended between listing and reading
            yield self._called(pid, name), ticks, cpu

    def _called(self, pid: int, name: str) -> str:
        if (pid, name) not in self._names:
            number = self._used[name] = self._used.get(name, 0) + 1
            self._names[pid, name] = name if number == 1 else f"{name}-{number}"
        return self._names[pid, name]


def process_name(cmdline: bytes) -> str:
    """The program's name; an engine that relays is `relay`. Raises ValueError if there is none."""
    words = [word.decode(errors="replace") for word in cmdline.split(b"\0") if word]
    if not words:
        raise ValueError("no command line")
    name = words[0].rpartition("/")[2] or "unnamed"
    return "relay" if name == "pinchpoint-engine" and "relay" in words[1:2] else name


def ticks_to_seconds(ticks: float) -> float:
    """Clock ticks of /proc/stat as seconds."""
    return ticks / TICKS_PER_S


class PacketThreads(Collector):
    """How long a device's forwarding threads were runnable but did not run, and what its other threads used.

    `polling` matches the names of threads that poll its ports; its main thread forwards where `main` matches it.
    """

    name = "threads"

    def __init__(self, host: Host, pidfile: str, polling: re.Pattern[str], main: re.Pattern[str]) -> None:
        self._host, self._pidfile = host, pidfile
        self._origin = origin(host)
        self._polling = polling
        self._main = main

    def can_run(self) -> str | None:
        """Needs the kernel's scheduler statistics."""
        there = self._host.exists(f"{PROC}/self/schedstat")
        return None if there else f"{PROC}/self/schedstat: CONFIG_SCHED_INFO is off"

    def read(self, at_s: float) -> Snapshot:
        """`host/thread/NAME/{run,run_delay}_ns`, `.../involuntary_switches`; gauge `.../cpu`.

        Of threads that forward nothing (e.g. of a slow path): `host/sibling/NAME/run_ns`, gauge `.../cpu`.
        """
        counters: dict[str, int] = {}
        gauges: dict[str, float] = {}
        for task, thread, forwards in self._threads():
            try:
                run, delay = self._host.read(f"{task}/schedstat").split()[:2]
                status = self._host.read(f"{task}/status")
                _, cpu = ticks_and_cpu(stat(self._host, task))
            except (OSError, IndexError, ValueError):
                continue  # a thread that ended between listing and reading
            place = f"{self._origin}/{'thread' if forwards else 'sibling'}/{thread}"
            counters[f"{place}/run_ns"] = int(run)
            gauges[f"{place}/cpu"] = cpu
            if forwards:
                counters[f"{place}/run_delay_ns"] = int(delay)
                if switches := field(status, "nonvoluntary_ctxt_switches"):
                    counters[f"{place}/involuntary_switches"] = int(switches)
        return Snapshot(at_s, counters, gauges)

    def forwarding(self) -> Forwarding:
        """The threads that may forward frames."""
        threads = ((task.rpartition("/")[2], name) for task, name, forwards in self._threads() if forwards)
        return Forwarding({int(number): name for number, name in threads})

    def _threads(self) -> Iterator[tuple[str, str, bool]]:
        """(its place in /proc, its name, whether it may forward frames) of every thread of the DUT."""
        try:
            pid = int(self._host.read(self._pidfile))
            for number in self._host.names(f"{PROC}/{pid}/task"):
                task = f"{PROC}/{pid}/task/{number}"
                comm = self._host.read(f"{task}/comm").strip()
                if int(number) == pid and self._main.fullmatch(comm):
                    yield task, "main", True
                elif self._polling.fullmatch(comm):
                    yield task, comm, True
                else:
                    yield task, f"{comm.replace('/', '-')}-{number}", False
        except (OSError, ValueError):
            return  # the daemon is gone: its absence shows where it is asked for packets
