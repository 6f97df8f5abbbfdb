"""Where the two ends of the traffic go on a machine with several NUMA nodes. Pure; tested on made-up machines."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from pinchpoint.host.numa import Topology
from pinchpoint.model.errors import RequirementError
from pinchpoint.model.scenario import Between, NumaPlacement, Point, Scenario

Cpus = tuple[int, ...]
Moved = Callable[[Scenario, Cpus], Scenario]
"""Puts a scenario's device on other CPUs."""
Place = Callable[[Scenario], tuple[Scenario, dict[str, str]]]


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
        raise RequirementError("impossible here: this machine has only one NUMA node", 'numa = "same" or "any"')
    home = _home(topology, first, topology.with_cpus)
    others = [node for node in (*topology.nodes_of(second), *topology.with_cpus) if node != home]
    return _on(topology, home, first, taken), _on(topology, others[0], second, taken)


def _home(topology: Topology, cpus: Sequence[int], otherwise: Sequence[int]) -> int:
    nodes = topology.nodes_of(cpus[:1])
    return nodes[0] if nodes else otherwise[0]


def _on(topology: Topology, node: int, wanted: Sequence[int], taken: Sequence[int]) -> Cpus:
    here = topology.cpus[node]
    if len(wanted) > len(here):
        told = f"{len(wanted)} CPUs are wanted on NUMA node {node}, which has {len(here)} usable ones"
        raise RequirementError(told, 'numa = "any"')
    if all(cpu in here for cpu in wanted):
        return tuple(wanted)
    free = [cpu for cpu in here if cpu not in taken] + [cpu for cpu in dict.fromkeys(taken) if cpu in here]
    kept = [cpu for cpu in wanted if cpu in here]
    return tuple(sorted([*kept, *(cpu for cpu in free if cpu not in kept)][: len(wanted)]))


def placed(scenario: Scenario, topology: Topology, moved: Moved, relays: bool) -> tuple[Scenario, dict[str, str]]:
    """The scenario with its CPUs where its `numa` wants them, and facts for the record.

    The ends are client and server of socket workloads, else the engine and the switch. In the
    former the device and the engine, which may be its relay (`relays`), are on the server's node. `moved` puts
    the device on other CPUs.
    Raises RequirementError.
    """
    if scenario.numa is NumaPlacement.ANY:
        return scenario, {}
    if isinstance(scenario.measure, Between):
        return _placed_hosts(scenario, scenario.measure, topology, moved, relays)
    engine, device = place(scenario.numa, topology, (scenario.engine.cpus, scenario.dut.cpus))
    _refuse_shared(scenario, topology, device, {"engine": (scenario.engine.cpus, engine)})
    changed = _with_cpus(moved(scenario, device), engine)
    return changed, _facts(scenario, topology, {"engine": engine, "device": device})


def _placed_hosts(
    scenario: Scenario, ends: Between, topology: Topology, moved: Moved, relays: bool
) -> tuple[Scenario, dict[str, str]]:
    dut, engine = scenario.dut, scenario.engine
    hosts = {host.name: host for host in scenario.hosts}
    client, server = hosts[ends.client], hosts[ends.server]
    on_client, on_server = place(scenario.numa, topology, (client.cpus, server.cpus), dut.cpus)
    taken, node = (*on_client, *on_server), topology.nodes_of(on_server)[0]
    device = _on(topology, node, dut.cpus, taken)
    relay = _on(topology, node, engine.cpus, (*(cpu for cpu in taken if cpu not in device), *device))
    shared = {"client": (client.cpus, on_client), "server": (server.cpus, on_server), "engine": (engine.cpus, relay)}
    _refuse_shared(scenario, topology, device, shared)
    now = {client.name: on_client, server.name: on_server}
    moved_hosts = tuple(replace(host, cpus=now.get(host.name, host.cpus)) for host in scenario.hosts)
    changed = replace(_with_cpus(moved(scenario, device), relay), hosts=moved_hosts)
    facts = {"client": on_client, "server": on_server, "switch": device, "relay" if relays else "engine": relay}
    return changed, _facts(scenario, topology, facts)


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


def alike(units: Sequence[Scenario], topology: Topology, place: Place) -> dict[str, str]:
    """Units that need not be measured, by name, with the reason: the same bench stands for `numa = "any"` already.

    `place` puts a unit where its `numa` wants it.
    Only on a machine with one node: on others memory is bound for "same", and free for "any".
    """
    if len(topology.cpus) > 1:
        return {}
    free: dict[tuple[str, int], list[Scenario]] = defaultdict(list)
    for unit in units:
        if unit.numa is NumaPlacement.ANY:
            free[unit.point.group, unit.point.repeat].append(_bench_of(unit))
    return {
        unit.name: "places everything as numa = any does here: one NUMA node"
        for unit in units
        if unit.numa is NumaPlacement.SAME and _same_bench(unit, place) in free[unit.point.group, unit.point.repeat]
    }


def _same_bench(unit: Scenario, place: Place) -> Scenario | None:
    try:
        return _bench_of(place(unit)[0])
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
