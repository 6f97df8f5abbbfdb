"""What a machine is, recorded with every run, since no number means anything without it; what it offers for a bench.

Sources: Documentation/ABI/stable/sysfs-devices-system-cpu, Documentation/ABI/testing/sysfs-class-net.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata

from pinchpoint import __version__
from pinchpoint.host import hugepages, numa
from pinchpoint.host.cpu_settings import CPUS, cpu_settings, threads
from pinchpoint.host.interface import PROC, SYS, Host, names_in, text_at
from pinchpoint.host.numa import NODES, Topology
from pinchpoint.host.processes import field, kib

_NET = f"{SYS}/class/net"


def host_facts(host: Host) -> dict[str, str]:
    """Processor, cores and how they are set, memory, kernel of a host; values for people."""
    cpuinfo = text_at(host, f"{PROC}/cpuinfo")
    return {
        "processor": field(cpuinfo, "model name") or platform.processor(),
        "cpus": ", ".join(map(str, sorted(host.cpus()))),
        "virtual machine": "yes" if "hypervisor" in field(cpuinfo, "flags").split() else "no",
        "memory": f"{kib(text_at(host, f'{PROC}/meminfo'), 'MemTotal') / 2**20:.1f} GiB",
        "kernel": host.release(),
        "system": _os_name(host),
        "numa nodes": str(sum(re.fullmatch("node[0-9]+", name) is not None for name in names_in(host, NODES)) or 1),
        "kernel options": text_at(host, f"{PROC}/cmdline").strip(),
        **cpu_settings(host),
    }


def modules_folder(host: Host) -> str:
    """Where the modules of the running kernel are."""
    return f"/lib/modules/{host.release()}"


def versions() -> dict[str, str]:
    """Of everything that takes part."""
    by_program = {"pinchpoint": __version__, "python": platform.python_version()}
    with suppress(metadata.PackageNotFoundError):
        by_program["MLRsearch"] = metadata.version("MLRsearch")
    if shutil.which("ip") is not None:
        told = subprocess.run(["ip", "-V"], capture_output=True, text=True, timeout=10, check=False).stdout
        by_program |= {"iproute2": told.partition("\n")[0].strip()} if told.strip() else {}
    return by_program


def _os_name(host: Host) -> str:
    """PRETTY_NAME of os-release(5); the kernel's name where there is none."""
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        for line in text_at(host, path).splitlines():
            if line.startswith("PRETTY_NAME="):
                return "".join(shlex.split(line.partition("=")[2]))
    return platform.system()


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
        cores = (tuple(cpu for cpu in self.threads.get(own, (own,)) if cpu in usable) for own in usable)
        return list(dict.fromkeys(cores))


def look(host: Host) -> Machine:
    """What there is; what cannot be read counts as absent. Raises InputError for files that are not."""
    topology = numa.read_topology(host)
    usable = [cpu for cpus in topology.cpus.values() for cpu in cpus]
    cores = {cpu: core or (cpu,) for cpu, core in threads(host, usable).items()}
    pages, free = hugepages.pool(host)
    return Machine(topology, cores, frozenset(numa.cpus_at(host, f"{CPUS}/isolated")), tuple(_nics(host)), pages, free)


def _nics(host: Host) -> Iterator[Nic]:
    for name in names_in(host, _NET):
        device = f"{_NET}/{name}/device"
        if host.exists(device):
            is_up = text_at(host, f"{_NET}/{name}/operstate").strip() == "up"
            driver = os.path.basename(os.path.realpath(f"{device}/driver"))  # noqa: PTH119
            yield Nic(name, os.path.basename(os.path.realpath(device)), driver, is_up)  # noqa: PTH119
