"""Collectors for the host: what it did to the CPUs and threads that the bench uses.

Formats: proc(5); schedstat: Documentation/scheduler/sched-stats.rst in the kernel.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from pinchpoint.observe.snapshot import Snapshot


class CpuSteal:
    """Time that the hypervisor gave to others, by CPU."""

    name = "cpu"

    def __init__(self, cpus: Sequence[int]) -> None:
        self._cpus = tuple(cpus)

    def can_run(self) -> str | None:
        """Always, on Linux."""
        return None if Path("/proc/stat").exists() else "/proc/stat: not mounted"

    def snapshot(self) -> Snapshot:
        """`host/cpu/N/steal_ticks`, in ticks of 1/SC_CLK_TCK seconds."""
        at_s = time.monotonic()
        wanted = {f"cpu{cpu}": cpu for cpu in self._cpus}
        counters = {}
        for line in Path("/proc/stat").read_text().splitlines():
            words = line.split()
            if words and words[0] in wanted and len(words) > 8:
                counters[f"host/cpu/{wanted[words[0]]}/steal_ticks"] = int(words[8])
        return Snapshot(at_s, counters)


def ticks_to_seconds(ticks: float) -> float:
    """Clock ticks of /proc/stat as seconds."""
    return ticks / os.sysconf("SC_CLK_TCK")


class PacketThreads:
    """How long a device's forwarding threads were runnable but did not run, and what its other threads used.

    `polling` matches the names of threads that poll its ports; its main thread forwards where `main` matches it.
    """

    name = "threads"

    def __init__(self, pidfile: str, polling: re.Pattern[str], main: re.Pattern[str]) -> None:
        self._pidfile = Path(pidfile)
        self._polling = polling
        self._main = main

    def can_run(self) -> str | None:
        """Needs the kernel's scheduler statistics."""
        return None if Path("/proc/self/schedstat").exists() else "/proc/self/schedstat: CONFIG_SCHED_INFO is off"

    def snapshot(self) -> Snapshot:
        """`host/thread/NAME/{run,run_delay}_ns`, `.../involuntary_switches`; gauge `.../cpu`.

        Of threads that forward nothing (upcalls, revalidation): `host/sibling/NAME/run_ns`, gauge `.../cpu`.
        """
        at_s = time.monotonic()
        counters: dict[str, int] = {}
        gauges: dict[str, float] = {}
        for task, thread, forwards in self._threads():
            try:
                run, delay = (task / "schedstat").read_text().split()[:2]
                status = (task / "status").read_text()
                cpu = (task / "stat").read_text().rpartition(")")[2].split()[36]
            except (OSError, IndexError, ValueError):
                continue  # a thread that ended between listing and reading
            if not forwards:
                counters[f"host/sibling/{thread}/run_ns"] = int(run)
                gauges[f"host/sibling/{thread}/cpu"] = int(cpu)
                continue
            counters[f"host/thread/{thread}/run_ns"] = int(run)
            counters[f"host/thread/{thread}/run_delay_ns"] = int(delay)
            gauges[f"host/thread/{thread}/cpu"] = int(cpu)
            if found := re.search(r"^nonvoluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE):
                counters[f"host/thread/{thread}/involuntary_switches"] = int(found[1])
        return Snapshot(at_s, counters, gauges)

    def _threads(self) -> Iterator[tuple[Path, str, bool]]:
        """(its place in /proc, its name, whether it may forward frames) of every thread of the DUT."""
        try:
            tasks = Path(f"/proc/{int(self._pidfile.read_text())}/task")
            for task in tasks.iterdir():
                comm = (task / "comm").read_text().strip()
                main = task.name == tasks.parent.name
                if main and self._main.fullmatch(comm):
                    yield task, "main", True
                elif self._polling.fullmatch(comm):
                    yield task, comm, True
                else:
                    yield task, f"{comm.replace('/', '-')}-{task.name}", False
        except (OSError, ValueError):
            return  # the daemon is gone: its absence shows where it is asked for packets
