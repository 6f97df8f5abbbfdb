"""Collectors for processor time: what every CPU of the bench did, and which of its processes used it.

Formats: proc(5), proc_stat(5), proc_pid_stat(5). Both count in ticks of 1/SC_CLK_TCK seconds; a
process's ticks hold those of its threads that have ended.
"""

import gzip
import os
import time
from collections.abc import Iterator, Sequence

from pinchpoint.host.interface import PROC, TICKS_PER_S, Host
from pinchpoint.host.processes import marked_pids
from pinchpoint.observe.snapshot import Snapshot, origin

_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_NOT_BUSY = ("idle", "iowait", "steal")
_OF_PROCESSES = ("user", "nice", "system")
_IRQ_TIME, _IDLE_TIME = "CONFIG_IRQ_TIME_ACCOUNTING=y", "CONFIG_NO_HZ_COMMON=y"


class CpuTime:
    """Where the time of each CPU went: to nobody, to processes, to the kernel's softirqs."""

    name = "cpu-time"

    def __init__(self, host: Host, cpus: Sequence[int]) -> None:
        self._host, self._cpus = host, frozenset(cpus)
        self._origin = origin(host)
        self._separate, self._idle = irq_time_is_separate(host), idle_time_is_measured(host)

    def can_run(self) -> str | None:
        """Why /proc/stat cannot be read; None where it is mounted."""
        return None if self._host.exists(f"{PROC}/stat") else f"{PROC}/stat: not mounted"

    def snapshot(self) -> Snapshot:
        """`host/cpu/N/{busy,unused,processes,softirq,irq,steal}_ticks`.

        Gauges, 0 or 1: `host/irq_time_separate`, `host/idle_time_measured`. `unused` has what the hypervisor took.
        """
        at_s = time.monotonic()
        counters: dict[str, int] = {}
        for cpu, ticks in cpu_ticks(self._host.read(f"{PROC}/stat")).items():
            if cpu in self._cpus:
                place = f"{self._origin}/cpu/{cpu}"
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


def irq_time_is_separate(host: Host) -> bool | None:
    """Whether the time of interrupts is taken out of that of the process they interrupt; None: not known."""
    return _is_configured(host, _IRQ_TIME)


def idle_time_is_measured(host: Host) -> bool | None:
    """Whether a CPU's idle time is a clock's, without the interrupts and softirqs in between; None: not known.

    The clock of a tickless kernel stops with each interrupt (kernel/time/tick-sched.c, tick_nohz_irq_enter). Others
    look at what runs at each tick.
    """
    return _is_configured(host, _IDLE_TIME)


def _is_configured(host: Host, option: str) -> bool | None:
    """From the kernel's own configuration, where it can be read."""
    for path in (f"{PROC}/config.gz", f"/boot/config-{host.release()}"):
        try:
            text = host.read_bytes(path)
            text = gzip.decompress(text) if path.endswith(".gz") else text
        except (OSError, EOFError):
            continue
        return option in text.decode(errors="replace").splitlines()
    return None


class BenchProcesses:
    """Processor time of every process of the bench by its name, and of the lab itself."""

    name = "processes"

    def __init__(self, host: Host, bench_id: str) -> None:
        self._host, self._bench_id = host, bench_id
        self._names: dict[tuple[int, str], str] = {}  # process and its name -> what it is called here
        self._used: dict[str, int] = {}  # how many of one name there have been

    def can_run(self) -> str | None:
        """Why /proc cannot be read; None where it is mounted."""
        return None if self._host.exists(f"{PROC}/self/stat") else f"{PROC}: not mounted"

    def snapshot(self) -> Snapshot:
        """`host/process/NAME/ticks`, gauge `.../cpu`; the second of one name is `NAME-2`.

        A process keeps what it is called as long as it runs, and none is called so after it; so all time
        of one that was not there before is of the time since.
        `lab` is this process with those that it has started and waited for.
        """
        at_s = time.monotonic()
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
                ticks, cpu = process_ticks(self._host.read(f"{place}/stat"))
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


def process_ticks(stat: str) -> tuple[int, int]:
    """`/proc/PID/stat`: (ticks in user and kernel, CPU it ran on last). Raises ValueError or IndexError."""
    words = stat.rpartition(")")[2].split()
    return int(words[11]) + int(words[12]), int(words[36])
