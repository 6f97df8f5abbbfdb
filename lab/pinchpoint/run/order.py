"""The units of a run: every point of every sweep as often as it repeats, in the order they are measured; pure."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pinchpoint.model.duet import SIDES, pair_order
from pinchpoint.model.errors import InputError
from pinchpoint.model.scenario import Factor, Level, Scenario, Sweep
from pinchpoint.model.study import SweepInfo


def info(sweep: Sweep) -> SweepInfo:
    """What a report needs of a sweep, without its scenarios."""
    measure = sweep.scenarios[0].measure.kind
    return SweepInfo(sweep.group, sweep.title, measure, sweep.factors, sweep.repeats, sweep.order, sweep.seed)


def units(sweeps: Iterable[Sweep], budgeted: bool = False) -> tuple[Scenario, ...]:
    """Every scenario that the sweeps make, repeats included, in the order they are measured.

    One group follows the other, each in its own order. With a budget, passes come before
    groups and within a pass the coarse picture before its details (`coarseness`), so that
    whenever the time is up every group has a curve. Raises InputError when two have one name.
    """
    if budgeted:
        ranked = sorted(
            (unit for sweep in sweeps for unit in _grouped(sweep, by_point=False, coarse_first=True)),
            key=lambda ranked_unit: ranked_unit[0],
        )
        ordered = tuple(unit for _, unit in ranked)
    else:
        ordered = tuple(unit for sweep in sweeps for _, unit in _grouped(sweep, by_point=sweep.order == "listed"))
    _refuse_doubles(ordered)
    return ordered


def in_turns(a: Sweep, b: Sweep, pairs: int) -> tuple[Scenario, ...]:
    """Two scenarios measured in turns, A B B A A B B A ...: a drift over the run meets both alike.

    Repeat n of A and repeat n of B are neighbours. Raises InputError when both have one name.
    """
    scenarios = dict(zip(SIDES, (a.scenarios[0], b.scenarios[0]), strict=True))
    ordered = [_repeated(scenarios[side], 1 + number) for number in range(pairs) for side in pair_order(number)]
    _refuse_doubles(ordered)
    return tuple(ordered)


def _grouped(sweep: Sweep, by_point: bool, coarse_first: bool = False) -> Iterator[tuple[tuple[int, int], Scenario]]:
    """The units of one sweep, each with (repeat, coarseness)."""
    if by_point:
        for scenario in sweep.scenarios:
            yield from (((repeat, 0), _repeated(scenario, repeat)) for repeat in _repeats(sweep))
        return
    shuffled = random.Random(sweep.seed)
    for repeat in _repeats(sweep):
        scenarios = list(sweep.scenarios)
        if sweep.order == "random":
            shuffled.shuffle(scenarios)
        if coarse_first and repeat == 1:
            scenarios.sort(key=lambda scenario: coarseness(sweep.factors, scenario.point.levels))
        # The reference comes before the points that are relative to it.
        scenarios.sort(key=lambda scenario: scenario.name != scenario.point.reference)
        for scenario in scenarios:
            coarse = coarseness(sweep.factors, scenario.point.levels) if repeat == 1 else 0
            yield (repeat, coarse), _repeated(scenario, repeat)


def _repeats(sweep: Sweep) -> range:
    return range(1, sweep.repeats + 1)


def _repeated(scenario: Scenario, repeat: int) -> Scenario:
    """The scenario as its repeat of this number; the first keeps its name."""
    name = scenario.name if repeat == 1 else f"{scenario.name}.r{repeat}"
    return replace(scenario, name=name, point=replace(scenario.point, repeat=repeat))


def coarseness(factors: Sequence[Factor], levels: Mapping[str, Level]) -> int:
    """In which round of halving a point comes: 0 for the ends of every factor, 1 for its middle, and so on.

    Factors of words have no middle: all their levels come in round 0.
    """
    return max((_round(factor, levels.get(factor.name)) for factor in factors), default=0)


def _round(factor: Factor, level: Level | None) -> int:
    if not ordered(factor) or level not in factor.levels:
        return 0
    place, low, high = factor.levels.index(level), 0, len(factor.levels) - 1
    if place in (low, high):
        return 0
    rounds = 1
    while (middle := (low + high) // 2) != place:
        low, high = (middle, high) if place > middle else (low, middle)
        rounds += 1
    return rounds


def ordered(factor: Factor) -> bool:
    """Whether the levels are numbers that rise or fall from the first to the last."""
    numbers = [level for level in factor.levels if isinstance(level, int | float) and not isinstance(level, bool)]
    return len(numbers) == len(factor.levels) and numbers in (sorted(numbers), sorted(numbers, reverse=True))


def _refuse_doubles(scenarios: Sequence[Scenario]) -> None:
    paths: dict[str, str] = {}
    for unit in scenarios:
        if unit.name in paths:
            raise InputError(
                f"{unit.path}: {unit.name}: another scenario has this name ({paths[unit.name]})", "rename one file"
            )
        paths[unit.name] = unit.path
