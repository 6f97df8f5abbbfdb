"""NUMA: which nodes this machine has, where the two ends of the traffic go, and where memory is taken.

Placing is pure and tested on made-up machines; only `read_topology` and `memory_on` touch this one.
Sources: Documentation/ABI/stable/sysfs-devices-node, set_mempolicy(2).
"""

import ctypes
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pinchpoint.model.errors import InputError, RequirementError
from pinchpoint.model.scenario import Host, MeasureKind, NumaPlacement, Point, Scenario

NODES = Path("/sys/devices/system/node")
_MPOL_DEFAULT, _MPOL_BIND = 0, 2
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261, "s390x": 270}
_GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236, "riscv64": 236, "ppc64le": 260, "s390x": 269}
_MASK_BITS = 1024  # nodes that a kernel can be built for
_WORD_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
_SOCKETS = (MeasureKind.BANDWIDTH, MeasureKind.RR, MeasureKind.CRR)


Moved = Callable[[Scenario, tuple[int, ...]], Scenario]
"""Puts a scenario's device on other CPUs."""
Place = Callable[[Scenario], tuple[Scenario, dict[str, str]]]


@dataclass(frozen=True)
class Topology:
    """The machine's nodes with their CPUs; a node may have memory alone."""

    cpus: Mapping[int, tuple[int, ...]]  # node -> CPUs, rising

    def node_of(self, cpu: int) -> int | None:
        """The node that a CPU belongs to; None if the machine does not have it."""
        return next((node for node, cpus in self.cpus.items() if cpu in cpus), None)

    def nodes_of(self, cpus: Collection[int]) -> tuple[int, ...]:
        """The nodes of several CPUs, rising."""
        return tuple(sorted({node for cpu in cpus if (node := self.node_of(cpu)) is not None}))

    @property
    def with_cpus(self) -> tuple[int, ...]:
        """The nodes on which a thread can run."""
        return tuple(sorted(node for node, cpus in self.cpus.items() if cpus))


@dataclass(frozen=True)
class Ends:
    """The CPUs of the two ends of the traffic: client and server, or engine and PMDs."""

    first: tuple[int, ...]
    second: tuple[int, ...]


@dataclass(frozen=True)
class Placed:
    """Where the two ends go, and the nodes on which their memory is."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    first_nodes: tuple[int, ...]
    second_nodes: tuple[int, ...]


def cpu_list(text: str) -> tuple[int, ...]:
    """A kernel's CPU list, e.g. `0-3,8,10-11`; empty text is no CPU. Raises ValueError."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not 0 <= low <= high < 1 << 20:
            raise ValueError(f"{part!r} is not a range of CPUs")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def read_topology(folder: Path = NODES, usable: Collection[int] | None = None) -> Topology:
    """The nodes of the machine that runs this, with `usable` CPUs (None: those that this process may use).

    A kernel without NUMA has one node with all of them. Raises InputError for a file that is none of the kernel's.
    """
    allowed = os.sched_getaffinity(0) if usable is None else set(usable)
    nodes: dict[int, tuple[int, ...]] = {}
    for place in folder.glob("node[0-9]*"):
        try:
            cpus = cpu_list((place / "cpulist").read_text())
            nodes[int(place.name.removeprefix("node"))] = tuple(cpu for cpu in cpus if cpu in allowed)
        except OSError:
            continue  # a node that went offline meanwhile
        except ValueError as error:
            raise InputError(f"{place / 'cpulist'}: {error}") from error
    return Topology(dict(sorted(nodes.items())) or {0: tuple(sorted(allowed))})


def place(placement: NumaPlacement, topology: Topology, wanted: Ends, taken: Sequence[int] = ()) -> Placed:
    """CPUs for both ends, as many as `wanted` has, and as `placement` says.

    What is on the right node already stays. New CPUs are the lowest that neither the other end nor
    `taken` has; only if there are too few of these are CPUs shared, those first that `taken` names first.
    Raises RequirementError if the machine has too few nodes, or a node too few CPUs.
    """
    if placement is NumaPlacement.ANY:
        first, second = wanted.first, wanted.second
    elif placement is NumaPlacement.SAME:
        node = _home(topology, wanted.first, (*topology.nodes_of(wanted.second), *topology.with_cpus))
        first = _on(topology, node, wanted.first, (*wanted.second, *taken))
        second = _on(topology, node, wanted.second, (*first, *taken))
    else:
        if len(topology.with_cpus) < 2:
            raise RequirementError("impossible here: this machine has only one NUMA node", 'numa = "same" or "any"')
        home = _home(topology, wanted.first, topology.with_cpus)
        others = [node for node in (*topology.nodes_of(wanted.second), *topology.with_cpus) if node != home]
        first = _on(topology, home, wanted.first, taken)
        second = _on(topology, others[0], wanted.second, taken)
    return Placed(first, second, topology.nodes_of(first), topology.nodes_of(second))


def _home(topology: Topology, cpus: Sequence[int], otherwise: Sequence[int]) -> int:
    nodes = topology.nodes_of(cpus[:1])
    return nodes[0] if nodes else otherwise[0]


def _on(topology: Topology, node: int, wanted: Sequence[int], taken: Sequence[int]) -> tuple[int, ...]:
    here = topology.cpus[node]
    if len(wanted) > len(here):
        raise RequirementError(
            f"{len(wanted)} CPUs are wanted on NUMA node {node}, which has {len(here)} usable ones", 'numa = "any"'
        )
    if all(cpu in here for cpu in wanted):
        return tuple(wanted)
    free = [cpu for cpu in here if cpu not in taken] + [cpu for cpu in dict.fromkeys(taken) if cpu in here]
    kept = [cpu for cpu in wanted if cpu in here]
    return tuple(sorted([*kept, *(cpu for cpu in free if cpu not in kept)][: len(wanted)]))


def placed(scenario: Scenario, topology: Topology, moved: Moved, relays: bool) -> tuple[Scenario, dict[str, str]]:
    """The scenario with its CPUs where its `numa` wants them, and facts for the record.

    The ends are client and server of socket workloads, else the engine and the switch's PMDs. In the
    former the device and the engine, which may be its relay (`relays`), are on the server's node. `moved` puts
    the device on other CPUs.
    Raises RequirementError.
    """
    if scenario.numa is NumaPlacement.ANY:
        return scenario, {}
    if scenario.measure in _SOCKETS and scenario.sockets is not None:
        return _placed_hosts(scenario, topology, moved, relays)
    found = place(scenario.numa, topology, Ends(scenario.engine.cpus, scenario.dut.cpus))
    _refuse_shared(scenario, topology, found.second, {"engine": (scenario.engine.cpus, found.first)})
    changed = _with_cpus(moved(scenario, found.second), found.first)
    return changed, _facts(scenario, topology, {"engine": found.first, "device": found.second})


def _placed_hosts(
    scenario: Scenario, topology: Topology, moved: Moved, relays: bool
) -> tuple[Scenario, dict[str, str]]:
    sockets, dut, engine = scenario.sockets, scenario.dut, scenario.engine
    assert sockets is not None
    hosts = {one.name: one for one in scenario.hosts}
    client, server = hosts[sockets.client], hosts[sockets.server]
    found = place(scenario.numa, topology, Ends(client.cpus, server.cpus), dut.cpus)
    taken, node = (*found.first, *found.second), found.second_nodes[0]
    pmds = _on(topology, node, dut.cpus, taken)
    relay = _on(topology, node, engine.cpus, (*(cpu for cpu in taken if cpu not in pmds), *pmds))
    ends = {"client": (client.cpus, found.first), "server": (server.cpus, found.second)}
    _refuse_shared(scenario, topology, pmds, {**ends, "engine": (engine.cpus, relay)})
    now = {client.name: found.first, server.name: found.second}
    changed = replace(_with_cpus(moved(scenario, pmds), relay), hosts=tuple(_moved(one, now) for one in scenario.hosts))
    fourth = "relay" if relays else "engine"
    facts = {"client": found.first, "server": found.second, "switch": pmds, fourth: relay}
    return changed, _facts(scenario, topology, facts)


_Move = tuple[tuple[int, ...], tuple[int, ...]]  # CPUs as the scenario has them, and as they are placed


def _refuse_shared(scenario: Scenario, topology: Topology, pmds: tuple[int, ...], others: Mapping[str, _Move]) -> None:
    """Raises RequirementError where the switch would share a CPU that the scenario gives it alone."""
    for name, (before, after) in others.items():
        if set(pmds) & set(after) and not set(scenario.dut.cpus) & set(before):
            node = _words(topology.nodes_of(set(pmds) & set(after)))
            what = "engine and PMDs" if name == "engine" else f"{name} and switch"
            raise RequirementError(f"NUMA node {node} has too few CPUs for {what} to have their own", 'numa = "any"')


def _with_cpus(scenario: Scenario, engine: tuple[int, ...]) -> Scenario:
    """Other CPUs for the engine."""
    return replace(scenario, engine=replace(scenario.engine, cpus=engine))


def _moved(one: Host, cpus: Mapping[str, tuple[int, ...]]) -> Host:
    return replace(one, cpus=cpus.get(one.name, one.cpus))


def _facts(scenario: Scenario, topology: Topology, found: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    ends = ((name, _words(cpus), _words(topology.nodes_of(cpus))) for name, cpus in found.items())
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
    """Nodes for the memory of the switch's daemons: those of its PMDs; None where the scenario leaves it open."""
    if scenario.numa is NumaPlacement.ANY or len(topology.cpus) < 2:
        return None
    return topology.nodes_of(scenario.dut.cpus) or None


@contextmanager
def memory_on(nodes: Collection[int] | None) -> Iterator[None]:
    """Inside, this thread and the processes that it starts take memory from `nodes` alone; None changes nothing.

    A policy is inherited over fork and exec (set_mempolicy(2)), so no launcher is needed, and ends with
    the process. Raises RequirementError if the kernel refuses, e.g. a node that does not exist.
    """
    if nodes is None:
        yield
        return
    before = _policy()
    _set_policy(_MPOL_BIND, nodes)
    try:
        yield
    finally:
        _set_policy(*before)


def _policy() -> tuple[int, tuple[int, ...]]:
    """(mode, nodes) of the calling thread."""
    mode, mask = ctypes.c_int(), _mask(())
    _system_call(_GET_MEMPOLICY, ctypes.byref(mode), mask, _MASK_BITS, None, 0)
    nodes = tuple(bit for bit in range(_MASK_BITS) if mask[bit // _WORD_BITS] >> bit % _WORD_BITS & 1)
    return mode.value, nodes


def _set_policy(mode: int, nodes: Collection[int]) -> None:
    if mode == _MPOL_DEFAULT or not nodes:
        _system_call(_SET_MEMPOLICY, mode, None, 0)
    else:
        # The kernel reads one bit less than the length passed to it.
        _system_call(_SET_MEMPOLICY, mode, _mask(nodes), _MASK_BITS + 1)


def _mask(nodes: Collection[int]) -> "ctypes.Array[ctypes.c_ulong]":
    words = (ctypes.c_ulong * (_MASK_BITS // _WORD_BITS + 1))()
    for node in nodes:
        words[node // _WORD_BITS] |= 1 << node % _WORD_BITS
    return words


def _system_call(numbers: Mapping[str, int], *arguments: object) -> None:
    machine = platform.machine()
    if machine not in numbers:
        raise RequirementError(f"binding memory to NUMA nodes is not known for {machine}", 'numa = "any"')
    call = ctypes.CDLL(None, use_errno=True).syscall
    # Each of the arguments is as wide as a register.
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    if call(ctypes.c_long(numbers[machine]), *wide) < 0:
        reason = os.strerror(ctypes.get_errno())
        raise RequirementError(f"the kernel does not bind memory to a NUMA node: {reason}", 'numa = "any"')
