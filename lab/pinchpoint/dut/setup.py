"""What a scenario needs on this machine, as data: the bench, the engine's request, the collectors."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import msgspec

from pinchpoint.bench import requirements
from pinchpoint.bench.journal import STATE_DIRECTORY
from pinchpoint.bench.requirements import Probe
from pinchpoint.bench.resource import AnyResource, Daemon, Hugepages, Relay
from pinchpoint.bulk.making import veth_resources
from pinchpoint.dut import remote_endpoints, vm_bench, vm_ends
from pinchpoint.dut.attach import HEADERS, HUGEPAGE_MB, mtu, pci_arguments
from pinchpoint.dut.captures import check_captures
from pinchpoint.dut.device import Attachment, Bench, Live, Pages
from pinchpoint.dut.placement import chosen, daemon_nodes, placed, topology_of
from pinchpoint.dut.places import Places
from pinchpoint.dut.registry import device_of
from pinchpoint.engine import protocol
from pinchpoint.engine.process import find_engine
from pinchpoint.host import hugepages
from pinchpoint.host.guest import Guest
from pinchpoint.host.interface import Host
from pinchpoint.host.machines import Machines
from pinchpoint.host.numa import Topology
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import Scenario
from pinchpoint.model.site import Site
from pinchpoint.observe.cpu import CpuSteal
from pinchpoint.observe.relay import Relays
from pinchpoint.observe.snapshot import Collector

LINK_TIMEOUT_S = 20.0  # a switch looks for a vhost server about once a second


@dataclass(frozen=True)
class EngineEnd:
    """An engine of a bench, and what its machine has of that bench."""

    site: Site
    host: Host
    engine: protocol.Open
    resources: tuple[AnyResource, ...]  # on its host; none where that is the device's, whose bench has them

    @property
    def ports(self) -> tuple[str, ...]:
        """Those that it opens, by their names; none for an end of a socket workload."""
        return tuple(port.name for port in self.engine.ports)


@dataclass(frozen=True)
class Setup:
    """Everything decided before the first action."""

    scenario: Scenario
    bench: Bench
    resources: tuple[AnyResource, ...]
    engines: tuple[EngineEnd, ...]  # one for each site that has one
    facts: Mapping[str, str] = field(default_factory=dict)  # what was decided and the plan does not show

    @property
    def engine(self) -> protocol.Open:
        """What the one engine of a bench on one machine opens."""
        (end,) = self.engines
        return end.engine

    @property
    def places(self) -> Places:
        """Where everything of the bench is found."""
        return self.bench.places


def prepare(
    scenario: Scenario,
    machines: Machines,
    state_directory: Path = STATE_DIRECTORY,
    beside: Setup | None = None,
    stands: bool = False,
) -> Setup:
    """Decide names and places; reads the hugepage pool and the NUMA nodes, changes nothing.

    `beside` is a bench that will stand at the same time and is built first: its hugepages are not free any more.
    With `stands` it stands already, and what seems to be free is what its engine will take, and its device if that
    has not taken all of its pages yet.
    Raises RequirementError if the machine cannot place the scenario's ends as its `numa` wants,
    or a port has more queues than the engine CPUs, InputError if a capture cannot be replayed.
    """
    (scenario,) = chosen([scenario], machines.lab)
    bench_id = secrets.token_hex(3)
    host = machines.opened(scenario.site)
    check_captures(scenario, host)
    topology = topology_of(scenario, host)
    scenario, facts = placed(scenario, topology)
    device = device_of(scenario)
    sites = {site.name: machines.opened(site) for site in scenario.sites}
    vms = {end.name: Guest(host) for end in vm_ends.machines_of(scenario)}
    bench = device.bench(scenario, Places(bench_id, PurePosixPath(state_directory / bench_id), host, sites, vms))
    pages = Pages(*hugepages.pool(host)) if beside is None else _left_by(beside, stands)
    nodes = daemon_nodes(scenario, topology)
    engine = [find_engine(host)] if device.has_engine(scenario) else []
    wanted = (*bench.resources(pages, engine), *veth_resources(scenario.measure, bench_id))
    resources = tuple(_on_nodes(resource, nodes) for resource in wanted)
    engines = tuple(_engine_end(scenario, bench, site) for site in scenario.sites if scenario.has_engine_at(site))
    return Setup(scenario, bench, resources, engines, facts)


def _engine_end(scenario: Scenario, bench: Bench, site: Site) -> EngineEnd:
    """What it opens, and what its host has of the bench. Raises RequirementError where an interface cannot be lent."""
    engine = replace(scenario.engine, cpus=scenario.engine_cpus_at(site))
    opened = engine_request(bench, replace(scenario, ports=scenario.ports_at(site), engine=engine))
    is_beside = site == scenario.site
    resources = () if is_beside else tuple(remote_endpoints.resources(scenario, site, bench.places))
    return EngineEnd(site, bench.places.at(site), opened, resources)


def _left_by(bench: Setup, stands: bool) -> Pages:
    """The pool as it will be once `bench`, and an engine with its ports, has all its pages."""
    wanted = device_of(bench.scenario).pages(bench.scenario)
    host = bench.places.machine
    held = hugepages.held(host, bench.places.bench_id) if stands else 0  # read first: what it takes meanwhile is free
    total, free = hugepages.pool(host)
    if stands:
        return Pages(total, max(0, free - max(_engine_pages(bench, bench.scenario.site), wanted - held)))
    added = sum(resource.after - resource.before for resource in bench.resources if isinstance(resource, Hugepages))
    return Pages(total + added, max(0, free + added - wanted))


def _on_nodes(resource: AnyResource, nodes: tuple[int, ...] | None) -> AnyResource:
    return msgspec.structs.replace(resource, memory_nodes=nodes) if isinstance(resource, Daemon) else resource


def engine_request(bench: Bench, scenario: Scenario) -> protocol.Open:
    """The ports the engine opens: the other ends of the device's. Raises InputError or RequirementError."""
    return joint_request({"": (scenario, bench)})


def planned_ends(scenario: Scenario, host: Host) -> tuple[Attachment, ...]:
    """How the engine would open each of the scenario's ports on a bench on that host. Raises InputError."""
    bench = device_of(scenario).bench(scenario, Places("", PurePosixPath("/"), host))
    return tuple(bench.attachment(number, port) for number, port in enumerate(scenario.ports))


def joint_request(benches: Mapping[str, tuple[Scenario, Bench]]) -> protocol.Open:
    """The ports of several benches, opened by one engine; a port's name begins with its bench's (the key)."""
    driven: dict[int, list[str]] = {}
    ports: list[protocol.PortRequest] = []
    with_dpdk = dict[str, Scenario]()
    for prefix, (scenario, bench) in benches.items():
        for core, name in _driven(scenario):
            driven.setdefault(core, []).append(prefix + name)
        for port in scenario.ports:
            end, name, ring = bench.attachment(len(ports), port), prefix + port.name, port.ring
            answers, behind = _answers(scenario, port.name), end.ring_behind
            ports.append(protocol.PortRequest(name, end.backend, end.device, end.netns, ring, ring, answers, behind))
            if end.backend == "dpdk":
                with_dpdk[prefix] = scenario
    addresses = (scenario.link(port).far.nic for scenario in with_dpdk.values() for port in scenario.ports)
    memory_mb = sum(scenario.engine.memory_mb for scenario in with_dpdk.values())
    eal = ("--in-memory", "--single-file-segments", "-m", str(memory_mb))
    return protocol.Open(
        workers=tuple(protocol.WorkerRequest(core, tuple(names)) for core, names in driven.items()),
        eal_args=(*pci_arguments(addresses), *eal) if with_dpdk else (),
        ports=tuple(ports),
        link_timeout_s=LINK_TIMEOUT_S,
        longest_frame_bytes=max(map(mtu, with_dpdk.values())) + HEADERS if with_dpdk else msgspec.UNSET,
    )


def _answers(scenario: Scenario, port: str) -> tuple[protocol.Address, ...]:
    """Whom a port answers for while frames are sent to backends whose connections stand."""
    service, established = scenario.service, scenario.established
    if not (service and established and port == service.server_port):
        return ()
    backends = dict.fromkeys(backend.address for backend in service.backends)
    return tuple(protocol.Address(address, established.server_mac) for address in backends)


def _driven(scenario: Scenario) -> Iterator[tuple[int, str]]:
    """Ports by CPU, dealt round robin: queue q of port k belongs to CPU (k + q) mod n of the engine's."""
    if lacking := next(requirements.queues(scenario), None):
        raise RequirementError(f"{scenario.path}: {lacking.detail}", lacking.hint)
    cpus = scenario.engine.cpus
    for place, port in enumerate(scenario.ports):
        yield from ((cpus[(place + queue) % len(cpus)], port.name) for queue in range(port.queues))


def await_engine_pages(*benches: Setup) -> None:
    """Return once the hugepages are free that one engine takes for all of these benches; on each host its own.

    Raises RequirementError naming who holds them.
    """
    hosts = {end.site.address: end for bench in benches for end in bench.engines}  # by any of their names
    for end in hosts.values():
        if pages := sum(_engine_pages(bench, end.site) for bench in benches):
            where = f" on {end.site.name}" if len(hosts) > 1 else ""
            hugepages.wait_for(end.host, pages, f"the engine{where}")


def _engine_pages(bench: Setup, site: Site) -> int:
    """2 MiB pages that an engine at a site takes for the bench's ports."""
    ends = [end for end in bench.engines if end.site.address == site.address and end.engine.eal_args]
    return len(ends) * -(-bench.scenario.engine.memory_mb // HUGEPAGE_MB)


def collectors(setup: Setup, live: Live) -> list[Collector]:
    """All that can be counted on this bench; the last one is nearest to the traffic."""
    relays = [resource for resource in setup.resources if isinstance(resource, Relay)]
    of_relays: list[Collector] = [Relays(setup.places.machine, relays)] if relays and setup.scenario.hosts else []
    return [*of_relays, *_steal(setup), *live.collectors()]


def witnesses(setup: Setup, live: Live) -> list[Collector]:
    """Readers of what the host and the device's threads did, cheap enough to run while frames are sent."""
    return [*_steal(setup), *live.witnesses()]


def _steal(setup: Setup) -> list[Collector]:
    """An engine elsewhere says itself what was stolen from it."""
    return [CpuSteal(setup.places.machine, sorted(setup.scenario.cpus_at(setup.scenario.site)))]


_LESS = "use less: --set dut.memory_mb=512 --set engine.memory_mb=256"


def require_together(a: Scenario, b: Scenario, machines: Machines) -> None:
    """As `require`, of two benches at once. Raises RequirementError."""
    require(a, machines)
    require(b, machines)
    if lacking := lacking_together(a, b, machines):
        raise lacking


def lacking_together(a: Scenario, b: Scenario, machines: Machines) -> RequirementError | None:
    """What one host lacks for two benches at once, where each alone could be built; None if it has memory for both."""
    pages = device_of(a).pages(a) + device_of(b).pages(b)
    if not pages or (probe := requirements.hugepages(machines.opened(a.site), pages, _LESS)).ok:
        return None
    return RequirementError(f"not enough memory for both benches at once: {probe.detail}", probe.hint)


def require(scenario: Scenario, machines: Machines) -> None:
    """Raises RequirementError naming all that is missing, each with its remedy, on the host of its bench."""
    if missing := lacking(scenario, machines):
        hosts = ", ".join(site.address or "this machine" for site in scenario.sites)
        told = "; ".join(f"{probe.name}: {probe.detail}" for probe in missing)
        hints = dict.fromkeys(probe.hint for probe in missing if probe.hint)
        raise RequirementError(
            f"{Path(scenario.path).name} cannot run on {hosts}: {told}", "\n        ".join(hints) or None
        )


def lacking(scenario: Scenario, machines: Machines) -> list[Probe]:
    """All that the hosts of its bench lack for a scenario."""
    (scenario,) = chosen([scenario], machines.lab)
    return [probe for site in scenario.sites for probe in _lacking(scenario, site, machines.opened(site))]


def _lacking(scenario: Scenario, site: Site, host: Host) -> list[Probe]:
    """What one of them lacks; named with the machine where that is not the device's."""
    is_device = site == scenario.site
    runs_engine = scenario.has_engine_at(site) and not (is_device and site.is_lab)  # there it is looked for anyway
    is_inside = scenario.holds_bench  # then its CPUs are the guest's, and checked as the file is read
    polls = is_device and bool(scenario.ports_at(site) or scenario.dut.polls)  # an engine with ports does
    own = device_of(scenario).needs(scenario, host) if is_device else remote_endpoints.needs(scenario, site, host)
    cpus = () if is_inside else tuple(scenario.cpus_at(site))
    probes = (
        requirements.root(host),
        *([remote_endpoints.engine(host)] if runs_engine else []),
        *own,
        *(vm_ends.needs(scenario, host) if is_device else ()),
        requirements.cpus(host, cpus, 2 if polls and not is_inside else 1),
        *(requirements.queues(scenario) if is_device else ()),
    )
    where = "" if is_device else f" on {site.name}"
    return [replace(probe, name=f"{probe.name}{where}") for probe in probes if not probe.ok]


def absent_cpus(scenario: Scenario, lab: Host) -> dict[str, frozenset[int]]:
    """By key the CPUs that cannot be used on the lab's own machine, of those that the scenario names there.

    None of a bench in a guest, whose CPUs they are.
    """
    here = next((site for site in scenario.sites if site.is_lab), None)
    if here is None or scenario.holds_bench:
        return {}
    of_dut = next((name for name in vars(scenario.dut) if name.endswith("cpus")), "cpus")
    ends = scenario.ends_at(here)
    named = {"engine.cpus": scenario.engine_cpus_at(here)}
    if here == scenario.site:
        named[f"dut.{of_dut}"] = scenario.dut.cpus
    named |= {f"host[{number}].cpus": host.cpus for number, host in enumerate(scenario.hosts, 1) if host in ends}
    return {key: absent for key, cpus in named.items() if (absent := frozenset(cpus) - lab.cpus())}


def unplaceable(units: Sequence[Scenario], machines: Machines) -> frozenset[str]:
    """Those, by name, for which their machine lacks CPUs or NUMA nodes; nothing is known of one that is not connected.

    Of a plain look: whatever else may be missing, `lacking` finds.
    """
    topologies = {site: machines.topology(site) for site in {unit.site for unit in units}}
    return frozenset(
        unit.name for unit in units if absent_cpus(unit, machines.lab) or not _is_placed(unit, topologies[unit.site])
    )


def _is_placed(unit: Scenario, topology: Topology | None) -> bool:
    own = vm_bench.topology(unit.guest) if unit.guest and unit.holds_bench else topology
    try:
        return own is None or bool(placed(unit, own))
    except RequirementError:
        return False
