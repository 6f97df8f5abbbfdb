"""Where a scenario's ends run on this machine's NUMA nodes, its device moved as its kind wants."""

from collections.abc import Sequence

from pinchpoint.bench import numa
from pinchpoint.dut.registry import device_of
from pinchpoint.host.machines import Machines
from pinchpoint.host.numa import Topology
from pinchpoint.model.scenario import Scenario


def placed(scenario: Scenario, topology: Topology) -> tuple[Scenario, dict[str, str]]:
    """As `numa.placed`, with the device's memory on the nodes of its CPUs. Raises RequirementError."""
    device = device_of(scenario)
    moved, facts = numa.placed(scenario, topology, device.moved, relays=bool(device.relayed(scenario)))
    return device.on_nodes(moved, topology), facts


def alike(units: Sequence[Scenario], topology: Topology) -> dict[str, str]:
    """Units that need not be measured on this machine, by name, with the reason; see `numa.alike`."""
    return numa.alike(units, topology, lambda unit: placed(unit, topology))


def alike_there(units: Sequence[Scenario], machines: Machines) -> dict[str, str]:
    """The same, on the host of each unit's bench; where that is not connected, none are alike."""
    reasons: dict[str, str] = {}
    for remote in dict.fromkeys(unit.remote for unit in units):
        if (topology := machines.topology(remote)) is not None:
            reasons |= alike([unit for unit in units if unit.remote == remote], topology)
    return reasons
