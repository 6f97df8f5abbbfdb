"""Collectors for the host: what it did to the CPUs and threads that the bench uses.

Formats: proc(5); schedstat: Documentation/scheduler/sched-stats.rst in the kernel.
"""

import re
import time
from collections.abc import Iterator, Sequence

from pinchpoint.host.interface import PROC, TICKS_PER_S, Host
from pinchpoint.observe.snapshot import Forwarding, Snapshot, origin


class CpuSteal:
    """Time that the hypervisor gave to others, by CPU."""

    name = "cpu"

    def __init__(self, host: Host, cpus: Sequence[int]) -> None:
        self._host, self._cpus = host, tuple(cpus)
        self._origin = origin(host)

    def can_run(self) -> str | None:
        """Why /proc/stat cannot be read; None where it is mounted."""
        return None if self._host.exists(f"{PROC}/stat") else f"{PROC}/stat: not mounted"

    def snapshot(self) -> Snapshot:
        """`host/cpu/N/steal_ticks`, in ticks of 1/SC_CLK_TCK seconds."""
        at_s = time.monotonic()
        wanted = {f"cpu{cpu}": cpu for cpu in self._cpus}
        counters = {}
        for line in self._host.read(f"{PROC}/stat").splitlines():
            words = line.split()
            if words and words[0] in wanted and len(words) > 8:
                counters[f"{self._origin}/cpu/{wanted[words[0]]}/steal_ticks"] = int(words[8])
        return Snapshot(at_s, counters)


def ticks_to_seconds(ticks: float) -> float:
    """Clock ticks of /proc/stat as seconds."""
    return ticks / TICKS_PER_S


class PacketThreads:
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

    def snapshot(self) -> Snapshot:
        """`host/thread/NAME/{run,run_delay}_ns`, `.../involuntary_switches`; gauge `.../cpu`.

        Of threads that forward nothing (e.g. of a slow path): `host/sibling/NAME/run_ns`, gauge `.../cpu`.
        """
        at_s = time.monotonic()
        counters: dict[str, int] = {}
        gauges: dict[str, float] = {}
        read = self._host.read
        for task, thread, forwards in self._threads():
            try:
                run, delay = read(f"{task}/schedstat").split()[:2]
                status = read(f"{task}/status")
                cpu = read(f"{task}/stat").rpartition(")")[2].split()[36]
            except (OSError, IndexError, ValueError):
                continue  # a thread that ended between listing and reading
            if not forwards:
                counters[f"{self._origin}/sibling/{thread}/run_ns"] = int(run)
                gauges[f"{self._origin}/sibling/{thread}/cpu"] = int(cpu)
                continue
            counters[f"{self._origin}/thread/{thread}/run_ns"] = int(run)
            counters[f"{self._origin}/thread/{thread}/run_delay_ns"] = int(delay)
            gauges[f"{self._origin}/thread/{thread}/cpu"] = int(cpu)
            if match := re.search(r"^nonvoluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE):
                counters[f"{self._origin}/thread/{thread}/involuntary_switches"] = int(match[1])
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
