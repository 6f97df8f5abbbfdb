"""What a machine offers for a bench: its cores, its NICs, its hugepages.

Sources: Documentation/ABI/stable/sysfs-devices-system-cpu, Documentation/ABI/testing/sysfs-class-net.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from pinchpoint.host import hugepages, numa
from pinchpoint.host.interface import SYS, Host
from pinchpoint.host.numa import Topology, cpu_list

_CPUS = f"{SYS}/devices/system/cpu"
_NET = f"{SYS}/class/net"


@dataclass(frozen=True)
class Nic:
    """A network interface that a device of the machine is behind."""

    name: str
    bus: str  # its place on the bus, e.g. a PCI address
    driver: str
    is_up: bool


@dataclass(frozen=True)
class Machine:
    """Cores and nodes of CPUs that this process may use."""

    topology: Topology
    threads: Mapping[int, tuple[int, ...]]  # CPU -> the CPUs of its core, itself among them
    isolated: frozenset[int]  # from the scheduler (isolcpus=)
    nics: tuple[Nic, ...]
    pages: int  # of 2 MiB in the pool
    free_pages: int

    def cores(self, node: int) -> list[tuple[int, ...]]:
        """The cores of a node, each as its usable CPUs."""
        usable = self.topology.cpus.get(node, ())
        cores = {
            tuple(cpu for cpu in self.threads.get(usable_cpu, (usable_cpu,)) if cpu in usable): None
            for usable_cpu in usable
        }
        return list(cores)


def look(host: Host) -> Machine:
    """What there is; what cannot be read counts as absent. Raises InputError for files that are not."""
    topology = numa.read_topology(host)
    usable = [cpu for cpus in topology.cpus.values() for cpu in cpus]
    threads = {cpu: _list(host, f"{_CPUS}/cpu{cpu}/topology/thread_siblings_list") or (cpu,) for cpu in usable}
    pages, free = hugepages.pool(host)
    return Machine(topology, threads, frozenset(_list(host, f"{_CPUS}/isolated")), tuple(_nics(host)), pages, free)


def _list(host: Host, path: str) -> tuple[int, ...]:
    with suppress(OSError, ValueError):
        return cpu_list(host.read(path))
    return ()


def _nics(host: Host) -> Iterator[Nic]:
    try:
        names = sorted(host.names(_NET))
    except OSError:
        return
    for name in names:
        device = f"{_NET}/{name}/device"
        if host.exists(device):
            state = ""
            with suppress(OSError):
                state = host.read(f"{_NET}/{name}/operstate").strip()
            driver = os.path.basename(os.path.realpath(f"{device}/driver"))  # noqa: PTH119
            yield Nic(name, os.path.basename(os.path.realpath(device)), driver, state == "up")  # noqa: PTH119
