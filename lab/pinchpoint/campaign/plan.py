"""What a campaign would take: points, time, machines and cost, by the scheduler on virtual time; pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pinchpoint.campaign.schedule import Limits, needs
from pinchpoint.campaign.simulate import simulate
from pinchpoint.model.campaign import Bench, Campaign, Requirement, Unit


@dataclass(frozen=True)
class Group:
    """One scenario file with one variant and one build."""

    name: str
    units: int
    work_s: float
    machines: tuple[str, ...]  # that can measure one of them, or more


@dataclass(frozen=True)
class Plan:
    """What `--dry-run` says."""

    points: int
    units: int
    groups: tuple[Group, ...]
    machines: tuple[str, ...]
    work_s: float  # of all machines together, without the control
    makespan_s: float
    cost: float
    skipped: int  # for which the budget has no time or money
    impossible: tuple[str, ...]  # that no machine can measure
    reasons: tuple[str, ...]  # of these, in the same order


def plan_of(asked: Campaign, benches: Sequence[Bench]) -> Plan:
    """The forecast on these machines; a campaign without any takes for ever."""
    can = {one: [bench.name for bench in benches if one.met_by(bench)] for one in {u.requirement for u in asked.units}}
    able = [unit for unit in asked.units if can[unit.requirement]]
    named = {unit.name for unit in able}
    found = simulate(able, benches, Limits.of(asked), asked.control)
    by_group: dict[str, list[Unit]] = {}
    groups = sorted((sweep.group for sweep in asked.sweeps), key=len, reverse=True)
    for unit in asked.units:
        name = next((group for group in groups if unit.name.startswith(group)), unit.point)
        by_group.setdefault(name, []).append(unit)
    impossible = [unit for unit in asked.units if unit.name not in named][:20]
    return Plan(
        points=len({unit.point for unit in asked.units}),
        units=len(asked.units),
        groups=tuple(_group(name, each, [bench.name for bench in benches], can) for name, each in by_group.items()),
        machines=tuple(bench.name for bench in benches),
        work_s=math.fsum(unit.expected_s for unit in able),
        makespan_s=found.makespan_s,
        cost=found.cost,
        skipped=found.skipped,
        impossible=tuple(unit.name for unit in impossible),
        reasons=tuple(f"no machine {needs(unit.requirement)}" for unit in impossible),
    )


def _group(
    name: str, units: Sequence[Unit], machines: Sequence[str], can: Mapping[Requirement, Sequence[str]]
) -> Group:
    able = {machine for unit in units for machine in can[unit.requirement]}
    work_s = math.fsum(unit.expected_s for unit in units)
    return Group(name, len(units), work_s, tuple(machine for machine in machines if machine in able))
