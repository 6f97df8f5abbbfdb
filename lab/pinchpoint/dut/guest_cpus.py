"""The virtual CPUs of a guest: one on each of its NUMA nodes, where frames are steered in it, how loaded they are.

A guest with several has its own receive packet steering (Documentation/networking/scaling.rst): the frames of each
flow are forwarded on one of its CPUs. So every node has a CPU that forwards.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.resource import AnyResource
from pinchpoint.dut import softirq
from pinchpoint.dut.device import Seen
from pinchpoint.dut.places import Places
from pinchpoint.host.guest_kernels import KERNELS, GuestKernels
from pinchpoint.host.interface import Host
from pinchpoint.host.numa import Topology, read_topology
from pinchpoint.model.errors import BenchError
from pinchpoint.model.scenario import Guest, NumaPlacement, Scenario
from pinchpoint.model.trial import ThreadLoad

_OPTIONS = ("CONFIG_NUMA", "CONFIG_ACPI_NUMA", "CONFIG_RPS")  # of a kernel with several nodes that forward
_RUN_NS = re.compile(r"host/thread/(.+)/run_ns")  # of this machine: the guest's process


def probe(machine: Host, kernel: GuestKernels, release: str | None) -> Probe:
    """Whether a kernel was built with what several nodes need."""
    missing = [option for option in _OPTIONS if not kernel.is_configured(machine, option, release)]
    detail = f"the guest's kernel was built without {', '.join(missing)}" if missing else "can be had"
    return Probe("NUMA nodes in a guest", not missing, detail, "leave out guest.numa_nodes, or name another release")


def threads(cpus: Sequence[int], guest: Guest) -> tuple[tuple[str, int], ...]:
    """Where each of several virtual CPUs runs: (pattern of its thread's name, one of the device's CPUs)."""
    if guest.numa_nodes == 1:
        return ()
    kernel = KERNELS[guest.kernel]
    return tuple((kernel.thread(number), cpus[number % len(cpus)]) for number in range(guest.numa_nodes))


def nodes_here(scenario: Scenario, guest: Guest, topology: Topology) -> tuple[int | None, ...]:
    """For each node of a guest that of this machine from which its memory is taken: of its virtual CPU; None: any."""
    cpus = scenario.dut.cpus
    is_free = len(topology.cpus) == 1 or (guest.numa_nodes == 1 and scenario.numa is NumaPlacement.ANY)
    return tuple(None if is_free else topology.node_of(cpus[n % len(cpus)]) for n in range(guest.numa_nodes))


def steered(port: str, places: Places, guest: Guest) -> list[AnyResource]:
    """What makes all CPUs of the guest forward what a port receives; nothing where it has one."""
    if guest.numa_nodes == 1:
        return []
    return softirq.steer([port], range(guest.numa_nodes), places, f"rps_cpus-{port}")


def settings(host: Host, netns: str, guest: Guest, ports: Sequence[str]) -> dict[str, str]:
    """Its nodes and its steering as the guest itself has them. Raises BenchError where they are others."""
    nodes = read_topology(host).cpus
    if len(nodes) != guest.numa_nodes or not all(nodes.values()):
        raise BenchError(
            f"guest.numa_nodes: {guest.numa_nodes} was asked for, the guest has {_told(nodes)}",
            "name another guest.release, or give every node more memory (guest.memory_mb)",
        )
    in_force = {"guest.numa_nodes": str(len(nodes))}
    for port in ports if guest.numa_nodes > 1 else ():
        in_force |= softirq.steered(host, netns, port, range(guest.numa_nodes), " in the guest")
    return in_force


def facts(host: Host) -> dict[str, str]:
    """Its nodes, as the guest itself has them."""
    return {"guest's NUMA nodes": _told(read_topology(host).cpus)}


def _told(nodes: Mapping[int, Sequence[int]]) -> str:
    """`node 0 with CPU 0; node 1 with CPU 1`."""
    return "; ".join(
        f"node {node} with {'CPU ' + ', '.join(map(str, cpus)) if cpus else 'no CPU'}" for node, cpus in nodes.items()
    )


def loads(seen: Seen, traffic_s: float, guest: Guest) -> tuple[ThreadLoad, ...]:
    """Of each CPU of this machine on which virtual CPUs ran: the time of all threads there that forward its frames.

    Frames are divided among several virtual CPUs as the guest's softirqs counted what each handled.
    """
    runs = {match[1]: n for name, n in seen.items() if (match := _RUN_NS.fullmatch(name))}
    core_of = {name: seen.get(f"host/thread/{name}/cpu") for name in runs}
    used_s = defaultdict[float | None, float](float)
    for name, run_ns in runs.items():
        used_s[core_of[name]] += run_ns / 1e9
    received = softirq.received(seen)
    if guest.numa_nodes == 1:
        busiest = core_of.get(max(runs, key=lambda name: runs[name], default=""))
        return (softirq.load_by_time("guest's kernel", busiest, received, used_s.get(busiest), traffic_s),)
    handled = [seen.get(f"guest/softnet/{number}/processed", 0.0) for number in range(guest.numa_nodes)]
    on = defaultdict[float | None, list[int]](list)
    for number in range(guest.numa_nodes):
        name_of = re.compile(KERNELS[guest.kernel].thread(number))
        on[next((core_of[name] for name in runs if name_of.fullmatch(name)), None)].append(number)
    return tuple(
        softirq.load_by_time(
            f"guest's CPU{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}",
            core,
            received * sum(handled[number] for number in numbers) / (sum(handled) or 1.0),
            used_s.get(core),
            traffic_s,
        )
        for core, numbers in on.items()
    )
