"""Open vSwitch as a kind of device: what `pinchpoint.dut.device` asks of every kind, what a machine must have for it,
and what the switch's own program says of itself.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pinchpoint.bench.requirements import Probe, command, hugepages, kernel_module, packaged
from pinchpoint.bench.resource import AnyResource, TapLinks
from pinchpoint.dut import device, nics
from pinchpoint.dut.attach import by_dpdk, by_veth, pages_of
from pinchpoint.dut.device import Attachment, Flavour, Freezing, Pages, RawScenario, Read, Starter, programs
from pinchpoint.dut.ovs import bench as made
from pinchpoint.dut.ovs import counters, guests, hops, reading
from pinchpoint.dut.ovs import texts as printed_texts
from pinchpoint.dut.ovs.collectors import MODULES
from pinchpoint.dut.ovs.in_service import attach
from pinchpoint.dut.ovs.kinds import kinds_of, of_other_kinds, own_kind
from pinchpoint.dut.ovs.live import OvsLive
from pinchpoint.dut.ovs.ovn import logical_names
from pinchpoint.dut.ovs.places import OvsPlaces
from pinchpoint.dut.ovs.ports import RULE_SYNTAX, refused_rule, refused_rules, refused_vdpa
from pinchpoint.dut.ovs.spec import (
    AFXDP,
    DEFAULT_MB,
    IN_KERNEL,
    KEYS,
    LARGEST_FRAME,
    LINKED,
    MADE_BY_SWITCH,
    TYPES,
    Datapath,
    OvsPort,
    cards,
    pinned_queues,
    rules,
    spec,
)
from pinchpoint.dut.places import Places
from pinchpoint.dut.watching import Attached, Watchable
from pinchpoint.engine.protocol import BackendName
from pinchpoint.host.interface import CommandFailed
from pinchpoint.host.interface import Host as Machine
from pinchpoint.host.numa import Topology
from pinchpoint.keys.reader import Values
from pinchpoint.model.errors import BenchError, InputError, PinchpointError, RequirementError
from pinchpoint.model.hops import HopGraph
from pinchpoint.model.scenario import Batch, Guest, Host, Port, Scenario
from pinchpoint.model.watch import TextReading

_SWITCH = dict.fromkeys(("ovs-vsctl", "ovs-ofctl", "ovsdb-server", "ovsdb-tool"), "openvswitch-switch")
_PACKAGES = {
    **dict.fromkeys(("ip", "ss"), "iproute2"),
    "sysctl": "procps", "taskset": "util-linux", "ethtool": "ethtool",
}  # fmt: skip
_OTHERWISE = 'set dut.datapath = "af_packet"'
_STARTING_RULE = 'rules = """\nin_port={left},actions=output:{right}\n"""'
STARTERS = (
    Starter(rank=10, kind="ovs", words="Open vSwitch with DPDK", title="Open vSwitch with DPDK, one rule",
        why="one PMD thread, one rule, vhost-user ports", polls=True, ring=4096,
        dut=f'kind = "ovs"\ndatapath = "dpdk"\npmd_cpus = {{cpus}}\n{_STARTING_RULE}'),
    Starter(rank=20, kind="ovs", words="Open vSwitch in user space over veth", title="Open vSwitch over veth, one rule",
        why="one PMD thread, one rule, packet sockets, no hugepages", polls=True,
        dut=f'kind = "ovs"\ndatapath = "af_packet"\npmd_cpus = {{cpus}}\n{_STARTING_RULE}'),
)  # fmt: skip
_STARTERS = dict(zip((Datapath.DPDK, Datapath.AF_PACKET), STARTERS, strict=True))
_BACKENDS: Mapping[Datapath, BackendName] = {Datapath.DPDK: "dpdk", Datapath.AF_XDP: "af_xdp"}  # of others: af_packet
_LIBRARIES, _POOL_DRIVER = "/usr/lib", "librte_mempool_ring"
_FIRST_LINE = re.compile(r"\S+ \(Open vSwitch\) \S+")


def program(host: Machine, datapath: Datapath) -> Probe:
    """Whether the datapath's switch is installed where Debian or Fedora has it."""
    path, debians = made.installed(host, datapath), Path(made.VSWITCHD[datapath])
    wrong = what_is_wrong(host, path, datapath) if path == made.ELSEWHERE else ""
    found, package = host.which(path), debians.parent.name
    detail = wrong or found or "not installed"
    probe = packaged(debians.name, bool(found) and not wrong, detail, package, package.replace("-switch", ""))
    return replace(probe, hint=f"{probe.hint}; where it has another path: --set dut.vswitchd=PATH")


def pool_driver(host: Machine) -> Probe:
    """Whether DPDK's driver of pools is there: Debian's switch has no buffers without it, and does not depend on it."""
    folders = [f"{_LIBRARIES}/{name}/dpdk" for name in host.names(_LIBRARIES) if name.endswith("-linux-gnu")]
    versions = [f"{folder}/{name}" for folder in folders if host.exists(folder) for name in host.names(folder)]
    paths = (f"{version}/{name}" for version in versions for name in host.names(version))
    found = next((path for path in paths if Path(path).name.startswith(_POOL_DRIVER)), None)
    return packaged(f"{_POOL_DRIVER}.so", found is not None, found or "not installed", "librte-meta-mempool")


def _own_program(host: Machine, path: str, datapath: Datapath) -> Probe:
    """A program given as dut.vswitchd is asked for its name and version before it runs as the switch."""
    wrong = what_is_wrong(host, path, datapath)
    hint = "set dut.vswitchd to the path of an ovs-vswitchd; for dpdk, of one built with DPDK"
    return Probe("dut.vswitchd", not wrong, f"{path}: {wrong or told_version(host, path)}", hint)


def _needs(
    host: Machine, datapath: Datapath, pages: int, guest: Guest | None, own: str | None = None
) -> Iterator[Probe]:
    """The programs of a datapath, of which `own` is given as dut.vswitchd, hugepages or modules of the kernel."""
    yield from programs(host, _SWITCH, "openvswitch")
    yield from programs(host, _PACKAGES)
    yield _own_program(host, own, datapath) if own else program(host, datapath)
    if datapath is Datapath.DPDK and not own and host.which("apt-get"):
        yield pool_driver(host)
    if datapath is Datapath.DPDK:
        yield hugepages(host, pages, _OTHERWISE)
    if datapath is Datapath.TC:
        otherwise = 'set guest.kernel = "qemu", or dut.datapath = "kernel"'
        yield from (kernel_module(host, name, otherwise, guest) for name in MODULES)
        yield command(host, "tc", "iproute2")
    if datapath in IN_KERNEL:
        yield kernel_module(host, "openvswitch", _OTHERWISE, guest)


def told_version(host: Machine, path: str) -> str:
    """What `PROGRAM --version` says, in one line. Raises BenchError or RequirementError if it does not run."""
    lines = host.run([path, "--version"], timeout_s=10.0).splitlines()
    return ", ".join(line.strip() for line in lines if line.strip())


def what_is_wrong(host: Machine, path: str, datapath: Datapath) -> str:
    """Why a build of one's own cannot be the switch of this datapath; empty if it can."""
    if host.which(path) is None:
        return "not executable" if host.exists(path) else "no such file"
    if not Path(path).name.startswith(made.SWITCH):
        return f"its name does not begin with {made.SWITCH}, by which its threads are found"
    try:
        version = told_version(host, path)
    except (BenchError, RequirementError, OSError) as error:
        return f"--version failed: {error}"
    if not _FIRST_LINE.match(version):
        return f"--version says {version[:100]!r}, expected '{made.SWITCH} (Open vSwitch) VERSION'"
    if datapath is Datapath.DPDK and "DPDK" not in version:
        return f"built without DPDK ({version})"
    return ""


# Switch, engine and their removal; DPDK also takes and clears its hugepages.
_STANDING_S = {Datapath.DPDK: 4.5, Datapath.AF_XDP: 4.0, Datapath.AF_PACKET: 3.0} | dict.fromkeys(IN_KERNEL, 3.0)
_YOUNG_S = 8.0  # until a guest's kernel has run for long enough
_RULE_S, _BRIDGE_S, _PORT_S = 20e-6, 0.1, 10e-3  # of each, made and removed


@dataclass(frozen=True)
class OvsBench(device.Bench):
    """One bench of a private switch, planned."""

    places: OvsPlaces

    def resources(self, pages: Pages, engine: Sequence[str]) -> list[AnyResource]:
        """Everything to build; the taps of ports made in bulk are removed before the switch ends."""
        asked = self.scenario.measure
        taps = [TapLinks(self.places.dut_netns)] if isinstance(asked, Batch) and asked.what == "ports" else []
        return [*made.bench(self.scenario, self.places, pages, engine), *taps]

    def attachment(self, number: int, port: Port) -> Attachment:
        """A vhost-user server, a NIC, the far end of a veth pair, or what the switch made. Raises InputError."""
        kind = own_kind(self.scenario, port)
        if spec(self.scenario).datapath is Datapath.DPDK and kind not in LINKED | MADE_BY_SWITCH:
            return by_dpdk(self.scenario, self.places, number, port)
        end = by_veth(self.scenario, self.places, port, "af_xdp" if kind == AFXDP else "af_packet")
        return replace(end, netns=self.places.dut_netns) if kind in MADE_BY_SWITCH else end

    def facts(self) -> Mapping[str, str]:
        """The program's path, version and SHA-256, under a name that no other program of the run has."""
        host, dut = self.places.outside, spec(self.scenario)
        path = made.program(self.scenario, host)
        name = f"switch program for {dut.datapath}" if dut.vswitchd is None else f"switch {path} program"
        digest = host.run(["sha256sum", path]).split()[0]
        return {name: f"{path}: {told_version(host, path)}, sha256 {digest}"}

    def refusal(self, error: CommandFailed) -> PinchpointError | None:
        """A refused rule, with its place in the scenario, or ports that it does not have."""
        return refused_vdpa(error, self.scenario) or refused_rule(error, self.scenario, self.places)

    def ends_with_it(self, resources: Sequence[AnyResource]) -> list[AnyResource]:
        """The switch and its rules; bridges, ports and settings come back from its database."""
        return made.ends_with_the_switch(self.scenario, self.places, resources)

    def open(self) -> OvsLive:
        return OvsLive(self.scenario, self.places)


@dataclass(frozen=True)
class OvsDevice(counters.CountedDevice, Watchable):
    """The kind `ovs`: a private Open vSwitch, with any of its datapaths."""

    largest_frame: ClassVar[int] = LARGEST_FRAME  # by port.mtu; without it ports keep their MTU of 1500
    text_marks: ClassVar[tuple[bytes, ...]] = printed_texts.MARKS
    text_example: ClassVar[str] = "pmd-stats-show"
    rule_syntax: ClassVar[str] = RULE_SYNTAX

    def read(self, raw: RawScenario) -> Callable[[], Read]:
        """Bridges, rules, ports and settings."""
        return reading.read(raw)

    def needs(self, scenario: Scenario, host: Machine) -> Iterator[Probe]:
        """The programs of its datapath, hugepages or a kernel module, and what that datapath can do."""
        dut = spec(scenario)
        yield from _needs(host, dut.datapath, made.hugepages_needed(scenario), scenario.guest, dut.vswitchd)
        yield from guests.needs(scenario, host)
        if dut.datapath is Datapath.DPDK:
            yield from nics.needs(host, cards(scenario))
            yield from nics.shared(host, (nic for link in scenario.links for nic in link.device.shared_nics))
        if dut.datapath in IN_KERNEL and dut.tunnels:
            detail = "not possible with the kernel datapath: the kernel delivers packets for its own addresses itself"
            yield Probe("tunnels", False, detail, 'set dut.datapath = "af_packet", "af_xdp" or "dpdk"')

    def refused(self, scenarios: Sequence[Scenario], host: Machine, folder: str) -> Iterator[str]:
        """Rules that ovs-ofctl does not read."""
        return refused_rules(scenarios, host, folder)

    def flavours(self, host: Machine, guest: Guest | None = None) -> Iterator[Flavour]:
        """One for each datapath, with the hugepages of a scenario that leaves every size at its default."""
        pages = pages_of(DEFAULT_MB + device.ENGINE_MEMORY_MB)
        for datapath in (datapath for datapath in Datapath if guest is None or datapath in IN_KERNEL):
            probes = _needs(host, datapath, pages, guest)
            marked = tuple(replace(probe, needed=datapath not in IN_KERNEL) for probe in probes)
            starter = _STARTERS.get(datapath)
            words = starter.words if starter else f'{self.title}, dut.datapath = "{datapath}"'
            yield Flavour(words, marked, _BACKENDS.get(datapath, "af_packet"), starter, datapath in IN_KERNEL)

    def pages(self, scenario: Scenario) -> int:
        """Those of switch, engine and relay."""
        return made.hugepages_needed(scenario)

    def standing_s(self, scenario: Scenario) -> float:
        """By datapath, rules, bridges, idle ports and guests; seen on a machine of two cores."""
        dut = spec(scenario)
        answers = sum(responder.ipv4.count for responder in dut.arp_responders)
        ports_s = _BRIDGE_S * (len(dut.bridges) - 1) + _PORT_S * dut.extra_ports.count
        young_s = _YOUNG_S if scenario.guest else 0.0
        switch_s = _STANDING_S[dut.datapath] + young_s + _RULE_S * (rules(scenario) + answers) + ports_s
        return switch_s + guests.standing_s(scenario)

    def contents(self, scenario: Scenario) -> Mapping[str, int]:
        """OpenFlow rules and idle ports."""
        return {"OpenFlow rules": rules(scenario), "extra ports": spec(scenario).extra_ports.count}

    def relayed(self, scenario: Scenario) -> tuple[Host, ...]:
        """All hosts of a DPDK switch that are no virtual machines."""
        return made.relayed_hosts(scenario)

    def why_no_guest(self, dut: Values) -> str:
        """Only the kernel's datapaths can."""
        datapath = dut.get("datapath", Datapath.KERNEL)
        return "" if datapath in IN_KERNEL else f'dut.datapath is "{datapath}"'

    def moved(self, scenario: Scenario, cpus: tuple[int, ...]) -> Scenario:
        """Other CPUs for the switch; queues stay with the PMD thread that they are pinned to."""
        dut = spec(scenario)
        now = dict(zip(dut.pmd_cpus, cpus, strict=True))
        ports = tuple(_repinned(port, now) for port in scenario.ports)
        return replace(scenario, dut=replace(dut, pmd_cpus=cpus), ports=ports)

    def on_nodes(self, scenario: Scenario, topology: Topology) -> Scenario:
        """DPDK memory on the nodes of its PMDs, e.g. `dpdk-socket-mem=0,1024`.

        Without it the memory of a single number is all on node 0, wherever the PMDs are. What the scenario itself
        says, other datapaths and machines with one node stay as they are.
        """
        dut, key = spec(scenario), "dpdk-socket-mem"
        if dut.datapath is not Datapath.DPDK or len(topology.cpus) < 2 or key in dut.other_config:
            return scenario
        used = topology.nodes_of(dut.pmd_cpus) or topology.with_cpus[:1]
        memory = ",".join(str(dut.memory_mb if node in used else 0) for node in range(max(topology.cpus) + 1))
        return replace(scenario, dut=replace(dut, other_config={**dut.other_config, key: memory}))

    def bench(self, scenario: Scenario, places: Places) -> OvsBench:
        return OvsBench(scenario, OvsPlaces.of(places))

    def freezing(self, scenario: Scenario) -> Freezing:
        """By its daemon, unless the kernel or guests forward as well."""
        if spec(scenario).datapath in IN_KERNEL:
            return Freezing(why_not="both benches would share the kernel's one datapath, which cannot be frozen")
        if spec(scenario).nics:
            return Freezing(why_not="both benches would need the NICs")
        if spec(scenario).guests:
            return Freezing(why_not="the guests in its path would go on polling")
        return Freezing(made.SWITCH)

    def graph(self, scenario: Scenario) -> HopGraph:
        """By datapath and kinds of ports, with the guests in the path."""
        links = {port.name: scenario.link(port) for port in scenario.ports}
        nics = frozenset(name for name, link in links.items() if link.device.nic)
        graph = hops.graph(spec(scenario).datapath, nics, frozenset(links), of_other_kinds(scenario))
        cables = {name for name in nics if not links[name].far.nic}  # an interface refuses as any cable does
        refused_at = {port: refused for port, refused in graph.refused_at.items() if port not in cables}
        return hops.with_guests(replace(graph, refused_at=refused_at), [port.name for port in spec(scenario).inner])

    def attach(self, place: str | None, host: Machine) -> Attached:
        """By its run directory."""
        return attach(place, host)

    def of_texts(self, texts: Mapping[str, str]) -> TextReading | None:
        """What its commands printed."""
        return printed_texts.read(texts)

    def logical_names(self, seen: Mapping[str, float]) -> Mapping[str, str]:
        """Of an OVN host."""
        return logical_names(seen)

    def watched_graph(self, variant: str, seen: Mapping[str, float], ports: Sequence[str]) -> HopGraph:
        """By datapath and kinds of ports, from where the switch itself counts."""
        try:
            datapath = Datapath(variant)
            return hops.in_service(datapath, kinds_of(seen, ports, datapath))
        except ValueError:
            raise InputError(f"no datapath {variant!r}", f"one of {', '.join(Datapath)}") from None


def _repinned(port: Port, now: Mapping[int, int]) -> Port:
    if not isinstance(port, OvsPort):
        return port
    pairs = (f"{queue}:{now.get(cpu, cpu)}" for queue, cpu in pinned_queues(port.rxq_affinity))
    return replace(port, rxq_affinity=",".join(pairs))


DEVICE = OvsDevice("ovs", "Open vSwitch", TYPES, KEYS, counters.FIGURES, is_default=True, starters=STARTERS)
