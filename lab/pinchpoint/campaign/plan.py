"""What a campaign would take: points, time, machines and cost, by the scheduler on virtual time; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from pinchpoint.campaign.schedule import Limits
from pinchpoint.campaign.simulate import simulate
from pinchpoint.model.campaign import Bench, Campaign


@dataclass(frozen=True)
class Group:
    """One scenario file with one variant and one build."""

    name: str
    units: int
    work_s: float


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


def plan_of(asked: Campaign, benches: Sequence[Bench]) -> Plan:
    """The forecast on these machines; a campaign without any takes for ever."""
    able = [unit for unit in asked.units if any(unit.requirement.met_by(bench) for bench in benches)]
    named = {unit.name for unit in able}
    found = simulate(able, benches, Limits.of(asked), asked.control)
    by_group: dict[str, list[float]] = {}
    groups = sorted((sweep.group for sweep in asked.sweeps), key=len, reverse=True)
    for unit in asked.units:
        name = next((group for group in groups if unit.name.startswith(group)), unit.point)
        by_group.setdefault(name, []).append(unit.expected_s)
    return Plan(
        points=len({unit.point for unit in asked.units}),
        units=len(asked.units),
        groups=tuple(Group(name, len(each), sum(each)) for name, each in by_group.items()),
        machines=tuple(bench.name for bench in benches),
        work_s=sum(unit.expected_s for unit in able),
        makespan_s=found.makespan_s,
        cost=found.cost,
        skipped=found.skipped,
        impossible=tuple(unit.name for unit in asked.units if unit.name not in named)[:20],
    )
