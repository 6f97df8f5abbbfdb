"""What a machine is, recorded with every run, since no number means anything without it; what it offers for a bench.

Sources: Documentation/ABI/stable/sysfs-devices-system-cpu; os-release(5).
"""

import platform
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata

from pinchpoint import __version__
from pinchpoint.host import hugepages, numa
from pinchpoint.host.cpu_settings import CPUS, cpu_settings, threads
from pinchpoint.host.interface import PROC, Host, names_in, printed_by, text_at
from pinchpoint.host.nics import Nic, all_nics
from pinchpoint.host.numa import NODES, Topology
from pinchpoint.host.processes import field, kib


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


def versions(host: Host) -> dict[str, str]:
    """Of everything that takes part on the lab's own machine."""
    by_program = {"pinchpoint": __version__, "python": platform.python_version()}
    with suppress(metadata.PackageNotFoundError):
        by_program["MLRsearch"] = metadata.version("MLRsearch")
    if told := printed_by(host, "ip", "-V").strip():
        by_program["iproute2"] = told.partition("\n")[0].strip()
    return by_program


def _os_name(host: Host) -> str:
    """PRETTY_NAME of os-release(5); the kernel's name where there is none."""
    text = text_at(host, "/etc/os-release") or text_at(host, "/usr/lib/os-release")
    match = re.search("^PRETTY_NAME=(.*)", text, re.MULTILINE)
    return "".join(shlex.split(match[1])) if match else platform.system()


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
    return Machine(topology, cores, frozenset(numa.cpus_at(host, f"{CPUS}/isolated")), all_nics(host), pages, free)
