"""Curves cut into series along one factor, and the published curves that belong to them; pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pinchpoint.model import units
from pinchpoint.model.groups import grouped
from pinchpoint.model.measurement import Estimate
from pinchpoint.model.result import Outcome
from pinchpoint.model.scenario import Factor, Level
from pinchpoint.model.study import Curve, CurvePoint, Published, PublishedPoint


@dataclass(frozen=True)
class Series:
    """The points of a curve along one factor, all other factors at one level each."""

    curve: Curve
    factor: Factor
    others: Mapping[str, Level]
    points: tuple[CurvePoint, ...]

    @property
    def label(self) -> str:
        """The other factors' levels, e.g. `connections 32, numa any`; empty if there are none."""
        return listed_levels(self.others, self.curve)

    def having(self, metric: str) -> list[tuple[Level, Estimate]]:
        """Level and estimate of every point that has the metric, in order."""
        having = (point for point in self.points if metric in point.estimates)
        return [(point.levels[self.factor.name], point.estimates[metric]) for point in having]

    def without(self, metric: str) -> list[CurvePoint]:
        """The points that were tried and have no number of the metric, in order."""
        return [point for point in self.tried if metric not in point.estimates]

    @property
    def tried(self) -> list[CurvePoint]:
        """The points of which a number was to be expected, in order."""
        return [point for point in self.points if point.outcome in (Outcome.MEASURED, Outcome.FAILED)]

    def at(self, level: Level) -> CurvePoint | None:
        """The point at a level of the factor."""
        return next((point for point in self.points if point.levels[self.factor.name] == level), None)


def with_unit(level: Level | None, unit: str) -> str:
    """A level with its factor's unit, e.g. `1,518 B`."""
    return f"{units.level(level)} {unit}".rstrip()


def listed_levels(levels: Mapping[str, Level], curve: Curve | None = None) -> str:
    """Levels by factor, e.g. `connections 32, numa any`, in the units of the curve's; empty if there are none."""
    units_of = {factor.name: factor.unit for factor in curve.factors} if curve else {}
    return ", ".join(f"{name} {with_unit(level, units_of.get(name, ''))}" for name, level in levels.items())


def levels_of(curve: Curve, point: CurvePoint) -> str:
    """Where a point of the curve stands, e.g. `five-tuples 512, numa any`; empty if the curve has no factors."""
    named = [(factor.name, with_unit(point.levels.get(factor.name), factor.unit)) for factor in curve.factors]
    return ", ".join(f"{name} {level}" for name, level in named)


def factor_of(curve: Curve, name: str) -> Factor | None:
    """The named factor; without a name that of numbers with the most levels, of several the one that spans most."""
    if name:
        return next((factor for factor in curve.factors if factor.name == name), None)
    return max(curve.factors, key=_breadth, default=None)


def _breadth(factor: Factor) -> tuple[bool, int, float]:
    numbers = [level for level in factor.levels if not isinstance(level, str | bool)]
    numeric = len(numbers) == len(factor.levels) > 0
    return numeric, len(factor.levels), max(numbers) - min(numbers) if numeric else 0.0


def series(curve: Curve, factor_name: str = "") -> tuple[Series, ...]:
    """The curve's points by the levels of its other factors; none if it lacks the factor."""
    factor = factor_of(curve, factor_name)
    if factor is None:
        return ()
    parts = grouped(
        (tuple((name, level) for name, level in point.levels.items() if name != factor.name), point)
        for point in curve.points
        if factor.name in point.levels
    )
    return tuple(Series(curve, factor, dict(others), tuple(points)) for others, points in parts.items())


def along(factor: Factor, level: Level) -> str:
    """A level in words, e.g. `512 five-tuples`, `frame size 64 B`."""
    if isinstance(level, str | bool) or factor.unit:
        return f"{factor.name} {with_unit(level, factor.unit)}"
    name = _singular(factor.name) if level == 1 else factor.name
    return f"{units.level(level)} {name}"


def within(
    points: Sequence[tuple[Level, float]], estimates: Sequence[tuple[Level, Estimate]]
) -> Sequence[tuple[Level, float]]:
    """The published points between our first and last level, if there are two; else all of them."""
    ours = [level for level, _ in estimates if not isinstance(level, str | bool)]
    if not ours:
        return points
    low, high = min(ours), max(ours)
    inside = [(level, value) for level, value in points if not isinstance(level, str | bool) and low <= level <= high]
    return inside if len(inside) > 1 else points


def published_for(
    published: Sequence[Published], part: Series, metric: str = ""
) -> Iterator[tuple[Published, list[tuple[Level, float]]]]:
    """Published curves of the group, metric (empty: any) and factor, each with its points that fit the other levels."""
    for figures in published:
        is_same = (figures.group, figures.factor) == (part.curve.group, part.factor.name)
        if not is_same or metric not in ("", figures.metric):
            continue
        points = [(point.levels[figures.factor], point.value) for point in figures.points if fits(point, part)]
        if points:
            yield figures, points


def fits(point: PublishedPoint, part: Series) -> bool:
    """Whether a published point is one of the series: its levels of other factors are the series' own."""
    others = {name: level for name, level in point.levels.items() if name != part.factor.name}
    is_on = part.factor.name in point.levels
    return is_on and all(part.others.get(name, level) == level for name, level in others.items())


def _singular(plural: str) -> str:
    """The noun of one: `rule` of `rules`, `prefix` of `prefixes`."""
    return plural.removesuffix("es") if plural.endswith("xes") else plural.removesuffix("s")
