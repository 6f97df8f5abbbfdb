"""Two points whose numbers stand over each other, by the levels that a comparison names; pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pinchpoint.model.duet import RELATIVE
from pinchpoint.model.measurement import Interval, is_rate, ratio
from pinchpoint.model.scenario import Level
from pinchpoint.model.series import listed_levels
from pinchpoint.model.study import Curve, CurvePoint, FindingRequest, Study

Levels = Mapping[str, Level]


@dataclass(frozen=True)
class PointPair:
    """A point and the one by which it is divided; all levels that the request leaves open are alike."""

    label: str  # those levels, e.g. `connections 1`; empty if there are none
    over: CurvePoint
    under: CurvePoint
    metric: str  # the request's; within a curve of relative rates that of two points the relative one

    @property
    def ratio(self) -> Interval | None:
        """None if a number is missing or zero, or both are only bounds."""
        return ratio(self.over.estimates.get(self.metric), self.under.estimates.get(self.metric))


def point_pairs(curves: Mapping[str, Curve], request: FindingRequest) -> Iterator[PointPair]:
    """Every point of the group at the levels `over`, with the one of `against`, or of the group, at `under`."""
    mine, other = curves.get(request.group), curves.get(request.against or request.group)
    if mine is None or other is None:
        return
    for point in mine.points:
        free = {name: level for name, level in point.levels.items() if name not in {**request.over, **request.under}}
        at_under = [partner for partner in other.points if is_at(partner, request.under)]
        partner = next((partner for partner in at_under if _agrees(partner, free)), None)
        if is_at(point, request.over) and partner is not None:
            metric = _metric(request.metric, point, partner) if mine is other else request.metric
            yield PointPair(listed_levels(free, mine), point, partner, metric)


def is_at(point: CurvePoint, levels: Levels) -> bool:
    """Whether a point has these levels."""
    return all(point.levels.get(name) == level for name, level in levels.items())


def _agrees(point: CurvePoint, levels: Levels) -> bool:
    """Whether a point, maybe of another curve, has these levels of the factors that it has."""
    return all(point.levels.get(name, level) == level for name, level in levels.items())


def _metric(metric: str, *points: CurvePoint) -> str:
    return RELATIVE if is_rate(metric) and all(RELATIVE in point.estimates for point in points) else metric


def published_ratio(study: Study, request: FindingRequest, over: Levels, under: Levels) -> float | None:
    """The original's ratio of the points at these levels; None where it has not both."""
    number = published_number(study, request.group, request.metric, over)
    divisor = published_number(study, request.against or request.group, request.metric, under)
    return number / divisor if number is not None and divisor else None


def published_number(study: Study, group: str, metric: str, levels: Levels) -> float | None:
    """The original's number of a group at these levels; None where it has none."""
    own = (figures for figures in study.published if (figures.group, figures.metric) == (group, metric))
    fitting = (point for figures in own for point in figures.points if point.levels.items() <= levels.items())
    return next((point.value for point in fitting), None)
