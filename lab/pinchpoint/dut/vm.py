"""A device in a guest: the same kind, with its bench built in a kernel of its own (`host/guest.py`).

What the kind plans is made in the guest. Only what it joins to the engine is replaced: in the place of each veth pair
stands a tap in the engine's namespace and, in the guest, the interface that reads and writes it. So a kind knows
nothing of guests but whether it can run in one, and which of its resources the guest's kernel lacks.

It has a virtual CPU on each of its NUMA nodes. With several it has its own receive packet steering
(Documentation/networking/scaling.rst): the frames of each flow are forwarded on one of its CPUs. So every node has a
CPU that forwards. A guest with the whole bench: `vm_bench.py`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec

from pinchpoint.bench import resource as bench_resource
from pinchpoint.bench.requirements import Probe, Remedy, command
from pinchpoint.bench.resource import AnyResource, Command, Daemon, GuestKernel, Inside, Namespace, TextFile, Veth
from pinchpoint.dut import softirq
from pinchpoint.dut.attach import foundation, mtu, stamps
from pinchpoint.dut.device import Attachment, Bench, Device, Freezing, Live, Pages, RawScenario, Seen, between
from pinchpoint.dut.places import Places
from pinchpoint.host.guest import Guest
from pinchpoint.host.guest_kernels import AUTO, KERNELS, BootPlan, GuestKernels, is_release
from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.host.numa import Topology, read_topology
from pinchpoint.keys.lexical import Path
from pinchpoint.model.errors import BenchError, PinchpointError
from pinchpoint.model.guest import EMULATED, PROCESSOR, REAL, Holds, When
from pinchpoint.model.hops import HopGraph, Party, Place, Refused
from pinchpoint.model.scenario import (
    Batch,
    Between,
    Change,
    NumaPlacement,
    Port,
    Scenario,
)
from pinchpoint.model.scenario import Guest as Wanted
from pinchpoint.model.trial import ThreadLoad
from pinchpoint.observe.cpu import PacketThreads
from pinchpoint.observe.snapshot import Collector

DEFAULT = AUTO  # of `guest.kernel`
_TUN = "/dev/net/tun"
_KERNEL = "guest-kernel"  # the process that is the guest's kernel
_ANY = re.compile(r".*")
_LEAST_OF_NODE_MB = 64
_OPTIONS = ("CONFIG_NUMA", "CONFIG_ACPI_NUMA", "CONFIG_RPS")  # of a kernel with several nodes that forward
_ABOUT_AUTO = (
    "the first of the others that boots on this machine and has what the device needs, the same for all points of a "
    "run; the result names it"
)
# The guest reads a tap when it comes to it. What finds the tap's queue full is refused, as the engine knows; some of
# these frames are also in the tap's own tx_dropped, which is left out.
_REFUSED = Refused("queue of the tap {port} full", Party.DUT)
_TAP = Place("tap", ("host/link/engine/{port}/tx_packets",), ("host/link/dut/{port}/rx_packets",))


def check(raw: RawScenario, device: Device) -> None:
    """Whether the file asks for a guest that can be; its problems are noted."""
    guest = raw.tables["guest"]
    if not guest.get("kernel"):
        return
    if guest.get("when") is When.NEEDED and device.why_no_guest(raw.dut):
        guest.clear()
        return
    needs_ends = bool(raw.measure and issubclass(raw.measure, Between) and not raw.tables.get("service"))
    guest.setdefault("holds", Holds.BENCH if needs_ends else Holds.DEVICE)
    _check_kernel(raw)
    if why := device.why_no_guest(raw.dut):
        raw.problem(("guest",), f"expected no [guest] where {why}")
    if raw.measure and issubclass(raw.measure, Batch | Change):
        told = "expected a measure that sends frames and changes nothing, or a socket workload, with a [guest]"
        raw.problem(("guest",), told)
    if guest["holds"] is Holds.BENCH:
        _check_bench(raw)
    elif needs_ends:
        raw.mismatch(("guest", "holds"), f'"{Holds.BENCH}" where a workload runs between two hosts', guest["holds"])
    elif guest.get("cpus", 0) not in (0, None, guest.get("numa_nodes", 1)):
        wanted = f'none, or guest.holds = "{Holds.BENCH}": a device alone has one virtual CPU for each NUMA node'
        raw.mismatch(("guest", "cpus"), wanted, guest["cpus"])
    backend = raw.tables["engine"].get("backend", "auto")
    if backend not in ("auto", "af_packet"):
        raw.mismatch(("engine", "backend"), '"auto" or "af_packet" where there is a [guest]', backend)


def _check_bench(raw: RawScenario) -> None:
    """Whether a whole bench can be in the guest: on its virtual CPUs, without machines and cables outside."""
    guest = raw.tables["guest"]
    nodes = guest.get("numa_nodes", 1)
    count = guest.get("cpus") or nodes
    if count % nodes:
        raw.mismatch(("guest", "cpus"), f"a multiple of guest.numa_nodes, which is {nodes}", count)
    places: list[tuple[Path, Any]] = [(("engine", "cpus"), raw.tables["engine"].get("cpus", ()))]
    places += [(("dut", name), value) for name, value in raw.dut.items() if name.endswith("cpus")]
    places += [((*host.at, "cpus"), host.values.get("cpus", ())) for host in raw.hosts]
    for place, cpus in places:
        if beyond := [cpu for cpu in cpus or () if cpu >= count]:
            told = f"expected virtual CPUs of the guest, 0 to {count - 1}, found {', '.join(map(str, beyond))}"
            raw.problem(place, f"{told}; guest.cpus gives it more")
    for host in raw.hosts:
        for key in ("interface", "end_interface", "runs_on"):
            if value := host.values.get(key):
                told = f'expected none where the whole bench is in a [guest], found "{value}"'
                raw.problem((*host.at, key), told)
    if raw.tables.get("service"):
        told = f'"{Holds.DEVICE}" where there is a [service]: its clients and backends are outside'
        raw.mismatch(("guest", "holds"), told, guest["holds"])


def _check_kernel(raw: RawScenario) -> None:
    """Whether the kernel, or one of all where it is left open, can have that memory, these CPUs and that release."""
    guest = raw.tables["guest"]
    word, release, nodes = guest["kernel"], guest.get("release"), guest.get("numa_nodes", 1)
    cpus = max(nodes, guest.get("cpus") or 1)
    candidates = [kernel for kernel in KERNELS if _suits(kernel, release, cpus)] if word == AUTO else [word]
    least_mb = min(KERNELS[candidate].LEAST_MB for candidate in candidates)
    if (memory_mb := guest.get("memory_mb", least_mb)) < least_mb:
        wanted = f"at least {least_mb} where guest.kernel is {_words(candidates)}"
        raw.mismatch(("guest", "memory_mb"), wanted, memory_mb)
    if not _suits(candidates[0], None, cpus):
        others = _words(kernel for kernel in KERNELS if _suits(kernel, None, cpus))
        wanted = f'1, or guest.kernel = {others}: "{word}" has one CPU and one NUMA node'
        key = "numa_nodes" if nodes > 1 else "cpus"
        raw.mismatch(("guest", key), wanted, guest[key])
    elif memory_mb < nodes * _LEAST_OF_NODE_MB:
        wanted = f"at least {nodes * _LEAST_OF_NODE_MB} where guest.numa_nodes is {nodes}"
        raw.mismatch(("guest", "memory_mb"), wanted, memory_mb)
    if not _suits(candidates[0], release, 1):
        others = _words(kernel for kernel in KERNELS if _suits(kernel, release, 1))
        raw.mismatch(("guest", "release"), f"none, or guest.kernel = {others}, of which there are several", release)


def _suits(word: str, release: str | None, cpus: int) -> bool:
    kernel = KERNELS[word]
    return (kernel.HAS_RELEASES or not release) and (kernel.HAS_CPUS or cpus == 1)


def _words(words: Iterable[str]) -> str:
    return " or ".join(f'"{word}"' for word in words)


def suited(guest: Wanted) -> list[str]:
    """The kernels that can be what a guest shall be; for a file that was read there is one."""
    return [
        word
        for word, kernel in KERNELS.items()
        if _suits(word, guest.release, guest.virtual_cpus) and guest.memory_mb >= kernel.LEAST_MB
    ]


def probes(
    machine: Host, kernels: Sequence[GuestKernels] = tuple(KERNELS.values()), release: str | None = None, nodes: int = 2
) -> Iterator[Probe]:
    """What a machine must have for a guest with one of these kernels and so many NUMA nodes."""
    for kernel in kernels:
        yield from kernel_probes(machine, kernel, release)
        if nodes > 1 and kernel.HAS_CPUS and all(machine.exists(path) for _, path in kernel.files(release)):
            yield _nodes_probe(machine, kernel, release)
    yield command(machine, "unshare", "util-linux")
    there = machine.exists(_TUN)
    detail = _TUN if there else f"this kernel has no {_TUN}"
    yield Probe("taps", there, detail, "modprobe tun", remedy=Remedy(modules=("tun",)))


def kernel_probes(machine: Host, kernel: GuestKernels, release: str | None = None) -> Iterator[Probe]:
    """The kernel, and the program that runs it."""
    yield from (command(machine, name, package) for name, package in kernel.PROGRAMS)
    for name, path in kernel.files(release):
        there = machine.exists(path)
        yield Probe(name, there, path if there else f"{path}: missing", kernel.provided_by(release))


def kernels() -> Mapping[str, str]:
    """The words of `guest.kernel`, and what each stands for."""
    return {AUTO: _ABOUT_AUTO, **{word: kernel.ABOUT for word, kernel in KERNELS.items()}}


def named(guest: Wanted) -> Wanted:
    """The guest with a kernel that is named: where that is left open, the first that suits."""
    return replace(guest, kernel=suited(guest)[0]) if guest.kernel == AUTO else guest


def in_guest(device: Device, scenario: Scenario) -> Device:
    """The device as the scenario wants it: itself, or alone in a guest."""
    return device if scenario.guest is None else cast(Device, GuestedDevice(device, named(scenario.guest)))


class Guested:
    """A kind of device in a guest, alone or with its whole bench; what is not said here is as the kind says it."""

    def __init__(self, device: Device, guest: Wanted) -> None:
        self._device, self._guest = device, guest

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def needs(self, scenario: Scenario, host: Host) -> Iterator[Probe]:
        """The guest's; where its kernel can be asked, the device's."""
        guest = self._guest
        probed = list(probes(host, [KERNELS[guest.kernel]], guest.release, guest.numa_nodes))
        yield from probed
        if all(probe.ok for probe in probed):
            yield from self._device.needs(replace(scenario, guest=guest), host)

    def standing_s(self, scenario: Scenario) -> float:
        """A kernel boots, too."""
        return self._device.standing_s(scenario) + KERNELS[self._guest.kernel].STANDING_S

    def freezing(self, scenario: Scenario) -> Freezing:
        return Freezing(why_not="a device in a guest is not frozen")


class GuestedDevice(Guested):
    """A kind of device alone in a guest."""

    def bench(self, scenario: Scenario, places: Places) -> Bench:
        """The device's, on a guest that has not been started."""
        bench = self._device.bench(scenario, replace(places, host=Guest(places.outside)))
        return GuestedBench(scenario, bench.places, bench, self._guest)

    def graph(self, scenario: Scenario) -> HopGraph:
        """The device's, with a tap in the place of the veth pair with which it begins."""
        graph = self._device.graph(scenario)
        places = (replace(place, name=place.name.replace("veth", "tap")) for place in graph.places[1:])
        return replace(graph, refused=_REFUSED, places=(_TAP, *places))

    def loads(self, seen: Seen, traffic_s: float) -> tuple[ThreadLoad, ...]:
        """Of the CPUs of this machine on which the guest's run."""
        return _loads(seen, traffic_s, self._guest)


@dataclass(frozen=True)
class GuestedBench(Bench):
    """One bench of a device in a guest, planned; the host of its places is the guest."""

    device: Bench
    guest: Wanted  # with a kernel that is named

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """The guest, and the device's own within it."""
        places = self.places
        taps = [bench_resource.Tap(port.name, places.engine_netns, mtu(self.scenario)) for port in self.scenario.ports]
        there = (self._there(resource) for resource in self.device.resources(pages, engine))
        return [
            *foundation(places, pages),
            Namespace(places.engine_netns),
            *taps,
            *self.booted([tap.name for tap in taps]),
            *(Inside(resource) for resources in there for resource in resources),
        ]

    def attachment(self, number: int, port: Port) -> Attachment:
        """A tap of the port's name, by af_packet."""
        return Attachment("af_packet", f"{port.name}{stamps(self.scenario)}", self.places.engine_netns)

    def facts(self) -> Mapping[str, str]:
        """The device's, and what the guest is."""
        kernel, nodes = self._guests_kernel, self.guest.numa_nodes
        each = "one CPU" if (count := self.guest.virtual_cpus // nodes) == 1 else f"{count} CPUs"
        cpus = each if nodes == 1 else f"{nodes} NUMA nodes with {each} each"
        told = f"{kernel.TITLE}, {cpus} ({kernel.runs_on(self.places.outside)}), {self.guest.memory_mb:,} MiB"
        return {**self.device.facts(), "guest": told}

    def refusal(self, error: CommandFailed) -> PinchpointError | None:
        """As of the device."""
        return self.device.refusal(error)

    def ends_with_it(self, resources: Sequence[AnyResource]) -> list[AnyResource]:
        """As of the device."""
        inside = [resource.resource for resource in resources if isinstance(resource, Inside)]
        return [Inside(resource) for resource in self.device.ends_with_it(inside)]

    def open(self) -> Live:
        """The device, and its guest."""
        ports = [port.name for port in self.scenario.ports]
        return cast(Live, GuestedLive(self.device.open(), self.places, self.guest, ports))

    @property
    def _guests_kernel(self) -> GuestKernels:
        return KERNELS[self.guest.kernel]

    @property
    def _init(self) -> str:
        return f"{self.places.directory}/guest-init"

    def booted(self, taps: Sequence[str]) -> list[AnyResource]:
        """The guest, and what it begins with."""
        places, cpus, threads = self.places, self.cpus_outside(), self.threads()
        files = (places.pidfile("guest"), places.pidfile(_KERNEL), f"{places.directory}/guest.log")
        where, kernel = (places.bench_id, places.engine_netns, cpus), self._guests_kernel
        return [
            TextFile(self._init, (kernel.init_line(self.guest.release),)),
            GuestKernel(kernel.command(self.boot_plan(taps)), *files, *where, threads),
        ]

    def cpus_outside(self) -> tuple[int, ...]:
        """The CPUs of the machine on which its virtual ones run."""
        return self.scenario.dut.cpus

    def threads(self) -> tuple[tuple[str, int], ...]:
        """Those of its virtual CPUs that are kept to one CPU each; see `GuestKernel`."""
        return _threads(self.scenario.dut.cpus, self.guest)

    def boot_plan(self, taps: Sequence[str]) -> BootPlan:
        """With what it boots."""
        places, guest, threads = self.places, self.guest, self.threads()
        shares_cpu = len(threads) > 1 and len({cpu for _, cpu in threads}) == 1
        nodes = _nodes_here(self.scenario, guest, read_topology(places.outside))
        here = (places.outside, str(places.directory), self._init)
        return BootPlan(*here, guest.memory_mb, mtu(self.scenario), taps, guest.release, nodes, shares_cpu)

    def _there(self, resource: AnyResource) -> list[AnyResource]:
        """What stands in the guest for one of the device's resources."""
        places, names = self.places, [port.name for port in self.scenario.ports]
        match resource:
            case bench_resource.MarkedProcesses() | Namespace(name=places.engine_netns):
                return []
            case Veth(peer_netns=places.engine_netns):
                interface = self._guests_kernel.interface(names.index(resource.name))
                return [
                    Command(("ip", "link", "set", "dev", interface, "netns", resource.netns, "name", resource.name)),
                    Command(("ip", "-n", resource.netns, "link", "set", "dev", resource.name, "up")),
                    *_steered(resource.name, places, self.guest),
                ]
            case Daemon():  # CPUs and nodes are this machine's
                return [msgspec.structs.replace(resource, cpus=None, memory_nodes=None)]
        return [resource]


class LiveGuested:
    """A device that stands in a guest, or its whole bench; what is not said here is as the device says it."""

    def __init__(self, device: Live, places: Places, guest: Wanted, ports: Sequence[str] = ()) -> None:
        self._device, self._places, self._guest, self._ports = device, places, guest, ports
        self._guests_kernel = KERNELS[guest.kernel]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def settings(self) -> Mapping[str, str]:
        """The device's; the kernel's release and nodes. Raises BenchError where they are not those asked for."""
        host, wanted = self._places.host, self._guest
        release = host.release()
        if wanted.release and not is_release(release, wanted.release):
            hint = self._guests_kernel.provided_by(wanted.release)
            raise BenchError(f"guest.release: {wanted.release} was asked for, {release} runs", hint)
        nodes = _settings(host, self._places.dut_netns, wanted, self._ports)
        processor = EMULATED if self._guests_kernel.is_emulated(self._places.outside) else REAL
        own = {"guest.kernel": wanted.kernel, "guest.release": release, PROCESSOR: processor}
        return {**self._device.settings(), **own, **nodes}

    def ready(self) -> Mapping[str, str]:
        """The device's facts; the kernel as it names itself."""
        host = self._places.host
        nodes = told(read_topology(host).cpus)
        return {**self._device.ready(), "guest's kernel": host.release(), "guest's NUMA nodes": nodes}


class GuestedLive(LiveGuested):
    """A device that stands alone in a guest."""

    def collectors(self) -> list[Collector]:
        """The device's, and the guest's process on this machine: nearest to the traffic, since reading the others is
        work for the guest.
        """
        return [*self._with_cpus(self._device.collectors()), self._process()]

    def witnesses(self) -> list[Collector]:
        """The device's, and the guest's process on this machine."""
        return [*self._with_cpus(self._device.witnesses()), self._process()]

    def _with_cpus(self, collectors: Sequence[Collector]) -> list[Collector]:
        """What each of several CPUs handled; kinds that look at the kernel's softirqs read it themselves."""
        is_read = self._guest.numa_nodes == 1 or any(isinstance(collector, softirq.Softnet) for collector in collectors)
        return [*collectors, *([] if is_read else [softirq.Softnet(self._places.host, range(self._guest.numa_nodes))])]

    def _process(self) -> Collector:
        return PacketThreads(self._places.outside, self._places.pidfile(_KERNEL), self._guests_kernel.VCPU, _ANY)


def _nodes_probe(machine: Host, kernel: GuestKernels, release: str | None) -> Probe:
    """Whether a kernel was built with what several nodes need."""
    missing = [option for option in _OPTIONS if not kernel.is_configured(machine, option, release)]
    detail = f"the guest's kernel was built without {', '.join(missing)}" if missing else "available"
    return Probe("NUMA nodes in a guest", not missing, detail, "leave out guest.numa_nodes, or name another release")


def _threads(cpus: Sequence[int], guest: Wanted) -> tuple[tuple[str, int], ...]:
    """Where each of several virtual CPUs runs: (pattern of its thread's name, one of the device's CPUs)."""
    if guest.numa_nodes == 1:
        return ()
    return tuple((KERNELS[guest.kernel].thread(n), cpus[n % len(cpus)]) for n in range(guest.numa_nodes))


def _nodes_here(scenario: Scenario, guest: Wanted, topology: Topology) -> tuple[int | None, ...]:
    """For each node of a guest that of this machine from which its memory is taken: of its virtual CPU; None: any."""
    cpus = scenario.dut.cpus
    is_free = len(topology.cpus) == 1 or (guest.numa_nodes == 1 and scenario.numa is NumaPlacement.ANY)
    return tuple(None if is_free else topology.node_of(cpus[n % len(cpus)]) for n in range(guest.numa_nodes))


def _steered(port: str, places: Places, guest: Wanted) -> list[AnyResource]:
    """What makes all CPUs of the guest forward what a port receives; nothing where it has one."""
    nodes = range(guest.numa_nodes)
    return softirq.steer([port], nodes, places, f"rps_cpus-{port}") if len(nodes) > 1 else []


def _settings(host: Host, netns: str, guest: Wanted, ports: Sequence[str]) -> dict[str, str]:
    """Its nodes and its steering as the guest itself has them. Raises BenchError where they are others."""
    nodes = read_topology(host).cpus
    if len(nodes) != guest.numa_nodes or not all(nodes.values()):
        raise BenchError(
            f"guest.numa_nodes: {guest.numa_nodes} was asked for, the guest has {told(nodes)}",
            "name another guest.release, or give every node more memory (guest.memory_mb)",
        )
    in_force = {"guest.numa_nodes": str(len(nodes))}
    for port in ports if guest.numa_nodes > 1 else ():
        in_force |= softirq.steered(host, netns, port, range(guest.numa_nodes), " in the guest")
    return in_force


def told(nodes: Mapping[int, Sequence[int]]) -> str:
    """`node 0 with CPU 0; node 1 with CPU 1`."""
    words = {node: f"CPU {', '.join(map(str, cpus))}" if cpus else "no CPU" for node, cpus in nodes.items()}
    return "; ".join(f"node {node} with {cpus}" for node, cpus in words.items())


def _loads(seen: Seen, traffic_s: float, guest: Wanted) -> tuple[ThreadLoad, ...]:
    """Of each CPU of this machine on which virtual CPUs ran: the time of all threads there that forward its frames.

    Frames are divided among several virtual CPUs as the guest's softirqs counted what each handled.
    """
    runs = between(seen, "host/thread/", "/run_ns")  # of this machine: the guest's process
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
    loads = list[ThreadLoad]()
    for core, numbers in on.items():
        name = f"guest's CPU{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
        frames = received * sum(handled[number] for number in numbers) / (sum(handled) or 1.0)
        loads.append(softirq.load_by_time(name, core, frames, used_s.get(core), traffic_s))
    return tuple(loads)
