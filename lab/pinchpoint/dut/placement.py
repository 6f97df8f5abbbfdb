"""Where a scenario's parts run: on which kernel, where its guest leaves that open, and on which NUMA nodes."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from pinchpoint.bench.requirements import Probe
from pinchpoint.dut import vm_bench
from pinchpoint.dut.device import Device
from pinchpoint.dut.registry import device_of
from pinchpoint.dut.vm import suited
from pinchpoint.host.guest_kernels import AUTO, KERNELS, GuestKernels, booted
from pinchpoint.host.interface import Host
from pinchpoint.host.machines import Machines
from pinchpoint.host.numa import Topology, read_topology
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.groups import grouped
from pinchpoint.model.guest import When
from pinchpoint.model.scenario import Between, NumaPlacement, Point, Scenario

Cpus = tuple[int, ...]
Placed = tuple[Scenario, dict[str, str]]
"""A scenario with its CPUs in their places, and facts for the record."""
_ONE_NODE = "impossible here: this machine has only one NUMA node"
_BUSY_S = 120.0  # what a boot may take on a busy machine: a kernel that does not boot says so sooner
_LOOK_S = 30.0  # what the doctor awaits


def chosen(scenarios: Sequence[Scenario], lab: Host) -> tuple[Scenario, ...]:
    """The same, each with a kernel for its guest, which stands on the lab's own machine, or without one it needs not.

    Where files leave it open all get the same, if one suits them all.

    It is the first that boots here and has what the devices need; where there is none, the one that lacks least.
    """
    scenarios = _with_needed(scenarios, lab)
    left_open = [scenario for scenario in scenarios if scenario.guest and scenario.guest.kernel == AUTO]
    if not left_open:
        return tuple(scenarios)
    guests = [scenario.guest for scenario in left_open if scenario.guest]
    words = [word for word in KERNELS if all(word in suited(guest) for guest in guests)]
    if not words:
        return tuple(chosen([scenario], lab)[0] for scenario in scenarios)
    word = _best(words, left_open, lab)
    return tuple(_with_kernel(scenario, word) if scenario in left_open else scenario for scenario in scenarios)


def _with_needed(scenarios: Sequence[Scenario], lab: Host) -> list[Scenario]:
    """The same, guests that are wanted only where they are needed decided: all of them stand, or none.

    One of each kind and way is asked, since the others need the same.
    """
    open_ones = [scenario for scenario in scenarios if scenario.guest and scenario.guest.when is When.NEEDED]
    kinds = {(scenario.dut.kind, scenario.dut.io): replace(scenario, guest=None) for scenario in open_ones}
    is_needed = any(_lacking(scenario, lab) for scenario in kinds.values())

    def decided(scenario: Scenario) -> Scenario:
        if scenario.guest is None or scenario.guest.when is not When.NEEDED:
            return scenario
        return replace(scenario, guest=replace(scenario.guest, when=When.ALWAYS) if is_needed else None)

    return [decided(scenario) for scenario in scenarios]


def _best(words: Sequence[str], scenarios: Sequence[Scenario], lab: Host) -> str:
    """The last is not booted to find out: nothing else is left, and its bench shows it."""
    lacks = dict[str, int]()
    for word in words:
        lacks[word] = sum(_lacking(_with_kernel(scenario, word), lab) for scenario in scenarios)
        if not lacks[word] and (word == words[-1] or not booted(lab, word, _BUSY_S).why_not):
            return word
    return min(words, key=lambda word: lacks[word] or 1)


def _lacking(scenario: Scenario, lab: Host) -> int:
    return sum(not probe.ok for probe in device_of(scenario).needs(scenario, lab))


def _with_kernel(scenario: Scenario, word: str) -> Scenario:
    assert scenario.guest is not None
    guest = replace(scenario.guest, kernel=word)
    return replace(scenario, guest=guest, defaulted=scenario.defaulted - {"guest.kernel"})


def boots(machine: Host) -> Mapping[str, Probe]:
    """Whether the kernels that are here boot, by the word of each; all are booted at once."""
    here = {word: kernel for word, kernel in KERNELS.items() if _is_here(machine, kernel)}
    with ThreadPoolExecutor() as pool:
        attempts = pool.map(lambda word: booted(machine, word, _LOOK_S), here)
    probes = dict[str, Probe]()
    for (word, kernel), boot in zip(here.items(), attempts, strict=True):
        detail = boot.why_not or f"{kernel.TITLE} boots, {kernel.runs_on(machine)}: {boot.took_s:.1f} s"
        if boot.is_late:
            why = "this machine is busy, or emulates it slowly; a run awaits it longer"
            detail = f"not booted after {_LOOK_S:g} s: {why}"
        hint = "" if boot.is_late else kernel.mended_by()
        probes[word] = Probe(f'guest.kernel = "{word}"', not boot.why_not, detail, hint, needed=False)
    return probes


def _is_here(machine: Host, kernel: GuestKernels) -> bool:
    programs = all(machine.which(name) for name, _ in kernel.PROGRAMS)
    return programs and all(machine.exists(path) for _, path in kernel.files())


def place(
    placement: NumaPlacement, topology: Topology, wanted: tuple[Cpus, Cpus], taken: Sequence[int] = ()
) -> tuple[Cpus, Cpus]:
    """CPUs for both ends of the traffic, client and server, or engine and switch: as many as `wanted` has.

    What is on the right node already stays. New CPUs are the lowest that neither the other end nor
    `taken` has; only if there are too few of these are CPUs shared, those first that `taken` names first.
    Raises RequirementError if the machine has too few nodes, or a node too few CPUs.
    """
    if placement is NumaPlacement.ANY:
        return wanted
    first, second = wanted
    if placement is NumaPlacement.SAME:
        node = _home(topology, first, (*topology.nodes_of(second), *topology.with_cpus))
        placed_first = _on(topology, node, first, (*second, *taken))
        return placed_first, _on(topology, node, second, (*placed_first, *taken))
    if len(topology.with_cpus) < 2:
        raise RequirementError(_ONE_NODE, 'numa = "same" or "any"')
    home = _home(topology, first, topology.with_cpus)
    others = [node for node in (*topology.nodes_of(second), *topology.with_cpus) if node != home]
    return _on(topology, home, first, taken), _on(topology, others[0], second, taken)


def _home(topology: Topology, cpus: Sequence[int], otherwise: Sequence[int]) -> int:
    nodes = topology.nodes_of(cpus[:1])
    return nodes[0] if nodes else otherwise[0]


def _on(topology: Topology, node: int, wanted: Sequence[int], taken: Sequence[int]) -> Cpus:
    here = topology.cpus[node]
    if len(wanted) > len(here):
        told = f"{len(wanted)} CPUs are needed on NUMA node {node}, which has {len(here)} usable ones"
        raise RequirementError(told, 'numa = "any"')
    if all(cpu in here for cpu in wanted):
        return tuple(wanted)
    free = [cpu for cpu in here if cpu not in taken] + [cpu for cpu in dict.fromkeys(taken) if cpu in here]
    kept = [cpu for cpu in wanted if cpu in here]
    return tuple(sorted([*kept, *(cpu for cpu in free if cpu not in kept)][: len(wanted)]))


def topology_of(scenario: Scenario, host: Host) -> Topology:
    """The NUMA nodes among which its CPUs are: those of its bench's host, or of the guest that has the whole bench."""
    guest = scenario.guest
    return vm_bench.topology(guest) if guest and scenario.holds_bench else read_topology(host)


def placed(scenario: Scenario, topology: Topology) -> Placed:
    """The scenario with its CPUs where its `numa` wants them, and facts for the record; the device's memory is on the
    nodes of its CPUs.

    The ends are client and server of socket workloads, else the engine and the switch. In the former the device and
    the engine, which may be its relay, are on the server's node. Raises RequirementError.
    """
    device = device_of(scenario)
    open_ends = {host.name for host in scenario.hosts if not host.cpus}
    moved, facts = _moved(filled(scenario, topology), topology, device, open_ends)
    return device.on_nodes(moved, topology), facts


def filled(scenario: Scenario, topology: Topology) -> Scenario:
    """The scenario with the CPUs of ends that have all of their machine's, on the nodes that its `numa` wants.

    Two ends that pin their threads share the CPUs of a node out, as far as there is more than one.
    Raises RequirementError where there are too few nodes.
    """
    ends = scenario.measure
    if not isinstance(ends, Between) or all(host.cpus for host in scenario.hosts):
        return scenario
    on_nodes = [topology.cpus[node] for node in topology.with_cpus]
    pools = [tuple(sorted(cpu for cpus in on_nodes for cpu in cpus))] * 2
    if scenario.numa is NumaPlacement.SAME:
        pools = [max(on_nodes, key=len)] * 2
    if scenario.numa is NumaPlacement.DIFFERENT:
        if len(on_nodes) < 2:
            raise RequirementError(_ONE_NODE, 'numa = "same" or "any"')
        pools = on_nodes[:2]
    hosts = {host.name: host for host in scenario.hosts}
    are_alone = all(hosts[name].pinned and not hosts[name].cpus for name in (ends.client, ends.server))
    if are_alone and pools[0] == pools[1] and len(pools[0]) > 1:
        pools = [pools[0][::2], pools[0][1::2]]
    own = {ends.client: pools[0], ends.server: pools[1]}
    own = {name: host.cpus or own.get(name, pools[0]) for name, host in hosts.items()}
    return replace(scenario, hosts=tuple(replace(host, cpus=own[host.name]) for host in scenario.hosts))


def _moved(scenario: Scenario, topology: Topology, device: Device, open_ends: Collection[str]) -> Placed:
    """`open_ends`: those whose CPUs the scenario leaves to the machine."""
    if scenario.numa is NumaPlacement.ANY:
        return scenario, {}
    if isinstance(scenario.measure, Between) and scenario.hosts:  # else they are ends of a service, at the engine's
        return _moved_hosts(scenario, scenario.measure, topology, device, open_ends)
    engine, dut = place(scenario.numa, topology, (scenario.engine.cpus, scenario.dut.cpus))
    _refuse_shared(scenario, topology, dut, {"engine": (scenario.engine.cpus, engine)})
    changed = _with_cpus(device.moved(scenario, dut), engine)
    return changed, _facts(scenario, topology, {"engine": engine, "device": dut})


def _moved_hosts(
    scenario: Scenario, ends: Between, topology: Topology, device: Device, open_ends: Collection[str]
) -> Placed:
    dut, engine = scenario.dut, scenario.engine
    hosts = {host.name: host for host in scenario.hosts}
    client, server = hosts[ends.client], hosts[ends.server]
    on_client, on_server = place(scenario.numa, topology, (client.cpus, server.cpus), dut.cpus)
    taken, node = (*on_client, *on_server), topology.nodes_of(on_server)[0]
    switch = _on(topology, node, dut.cpus, taken)
    relay = _on(topology, node, engine.cpus, (*(cpu for cpu in taken if cpu not in switch), *switch))
    shared = {"client": (client.cpus, on_client), "server": (server.cpus, on_server), "engine": (engine.cpus, relay)}
    named = {"client": ends.client, "server": ends.server}
    _refuse_shared(
        scenario, topology, switch, {end: cpus for end, cpus in shared.items() if named.get(end) not in open_ends}
    )
    now = {client.name: on_client, server.name: on_server}
    moved_hosts = tuple(replace(host, cpus=now.get(host.name, host.cpus)) for host in scenario.hosts)
    changed = replace(_with_cpus(device.moved(scenario, switch), relay), hosts=moved_hosts)
    word = "relay" if device.relayed(scenario) else "engine"
    cpus = {"client": on_client, "server": on_server, "switch": switch, word: relay}
    return changed, _facts(scenario, topology, cpus)


def _refuse_shared(
    scenario: Scenario, topology: Topology, device: Cpus, others: Mapping[str, tuple[Cpus, Cpus]]
) -> None:
    """Raises RequirementError where the switch would share a CPU that the scenario gives it alone.

    `others`: the CPUs of each as the scenario has them, and as they are placed.
    """
    for name, (before, after) in others.items():
        if set(device) & set(after) and not set(scenario.dut.cpus) & set(before):
            node = _words(topology.nodes_of(set(device) & set(after)))
            told = f"NUMA node {node} has too few CPUs for {name} and switch to have their own"
            raise RequirementError(told, 'numa = "any"')


def _with_cpus(scenario: Scenario, engine: Cpus) -> Scenario:
    """Other CPUs for the engine."""
    return replace(scenario, engine=replace(scenario.engine, cpus=engine))


def _facts(scenario: Scenario, topology: Topology, cpus_by_end: Mapping[str, Cpus]) -> dict[str, str]:
    ends = ((name, _words(cpus), _words(topology.nodes_of(cpus))) for name, cpus in cpus_by_end.items())
    words = "; ".join(f"{name} on CPU {cpus}, node {node}" for name, cpus, node in ends)
    return {f"NUMA placement of {scenario.name}": f"{scenario.numa}: {words}"}


def _words(numbers: Collection[int]) -> str:
    return ", ".join(map(str, numbers)) or "unknown"


def alike(units: Sequence[Scenario], topology: Topology) -> dict[str, str]:
    """Units that need not be measured, by name, with the reason: the same bench stands for `numa = "any"` already.

    Only on a machine with one node: on others memory is bound for "same", and free for "any".
    """
    if len(topology.cpus) > 1:
        return {}
    free: dict[tuple[str, int], list[Scenario]] = defaultdict(list)
    for unit in units:
        if unit.numa is NumaPlacement.ANY:
            free[unit.point.group, unit.point.repeat].append(_bench_of(filled(unit, topology)))
    return {
        unit.name: "places everything as numa = any does here: one NUMA node"
        for unit in units
        if unit.numa is NumaPlacement.SAME and _same_bench(unit, topology) in free[unit.point.group, unit.point.repeat]
    }


def _same_bench(unit: Scenario, topology: Topology) -> Scenario | None:
    try:
        return _bench_of(placed(unit, topology)[0])
    except RequirementError:
        return None


def _bench_of(unit: Scenario) -> Scenario:
    """What is built and measured, whatever it is called."""
    nameless = Point(unit.point.group, {}, unit.point.repeat)
    return replace(unit, name="", title="", numa=NumaPlacement.ANY, point=nameless, defaulted=frozenset())


def daemon_nodes(scenario: Scenario, topology: Topology) -> tuple[int, ...] | None:
    """Nodes for the memory of the switch's daemons: those of its CPUs; None where the scenario leaves it open."""
    if scenario.numa is NumaPlacement.ANY or len(topology.cpus) < 2:
        return None
    return topology.nodes_of(scenario.dut.cpus) or None


def alike_there(units: Sequence[Scenario], machines: Machines) -> dict[str, str]:
    """The same, on the host of each unit's bench; where that is not connected, none are alike."""
    reasons: dict[str, str] = {}
    on_hosts = grouped((unit.site, unit) for unit in units if not unit.holds_bench)
    for site, own in on_hosts.items():
        if (topology := machines.topology(site)) is not None:
            reasons |= alike(own, topology)
    in_guests = grouped((unit.guest, unit) for unit in units if unit.guest and unit.holds_bench)
    for guest, own in in_guests.items():
        reasons |= alike(own, vm_bench.topology(guest))
    return reasons
