"""Axes for curves: where a factor's levels stand, and in which unit a metric is drawn."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from pinchpoint.model import units
from pinchpoint.model.scenario import Factor, Level
from pinchpoint.report.figures import Figure, axis

_LOG_FROM: Final = 20.0  # largest over smallest level
_ZERO_BELOW: Final = 4.0  # on a logarithmic axis 0 stands this far left of the smallest other level
_NARROWEST: Final = 0.085  # of the axis, between two ticks with text


@dataclass(frozen=True)
class LevelAxis:
    """Where each level of a factor stands on the x axis."""

    factor: Factor
    levels: tuple[Level, ...]  # those that are drawn, in order
    log: bool
    places: tuple[float, ...]  # x of each level

    @property
    def categorical(self) -> bool:
        """Whether levels are words: between two of them is nothing that a line could run through."""
        return any(isinstance(level, str | bool) for level in self.levels)

    def place(self, level: Level) -> float:
        """X of a level that is drawn."""
        return self.places[self.levels.index(level)]

    def figure(self, narrow: bool = False) -> Figure:
        """The axis for plotly; ticks stand at the levels themselves, as many as have room."""
        ticks = self._ticks(_NARROWEST * (2 if narrow else 1))
        unit = f", {self.factor.unit}" if self.factor.unit else ""
        low, high = self._span()
        margin = (high - low) * 0.05 or 0.5
        return axis() | {
            "type": "log" if self.log else "linear",
            "tickvals": [self.places[place] for place in ticks],
            "ticktext": [escape(units.level(self.levels[place])) for place in ticks],
            "range": [low - margin, high + margin],
            "anchor": "y",
            "title": {"text": escape(f"{self.factor.name}{unit}")},
        }

    def _span(self) -> tuple[float, float]:
        drawn = [self._drawn(place) for place in self.places]
        return min(drawn), max(drawn)

    def _drawn(self, place: float) -> float:
        return math.log10(place) if self.log else place

    def _ticks(self, least: float) -> list[int]:
        """Indexes of levels whose text has room, the last one always among them."""
        low, high = self._span()
        span = (high - low) or 1.0
        shown = [len(self.places) - 1]
        for place in range(len(self.places) - 2, -1, -1):
            room = (self._drawn(self.places[shown[-1]]) - self._drawn(self.places[place])) / span
            widest = max(len(units.level(self.levels[index])) for index in (place, shown[-1]))
            if room >= least * max(1.0, widest / 6):
                shown.append(place)
        return sorted(shown)


def level_axis(factor: Factor, levels: Sequence[Level]) -> LevelAxis:
    """Levels at their value, logarithmic where they span decades; words one beside the other."""
    shown = tuple(levels)
    numbers = [float(level) for level in shown if not isinstance(level, str | bool)]
    if len(numbers) < len(shown) or len(set(numbers)) < len(numbers) or min(numbers, default=0.0) < 0:
        return LevelAxis(factor, shown, log=False, places=tuple(float(place) for place in range(len(shown))))
    positive = [number for number in numbers if number > 0]
    log = len(positive) > 1 and max(positive) / min(positive) >= _LOG_FROM
    if not log:
        return LevelAxis(factor, shown, log=False, places=tuple(numbers))
    left = min(positive) / _ZERO_BELOW
    return LevelAxis(factor, shown, log=True, places=tuple(number or left for number in numbers))


@dataclass(frozen=True)
class ValueAxis:
    """How a metric's values are drawn."""

    divisor: float
    label: str  # the unit


def value_axis(unit: str, values: Sequence[float]) -> ValueAxis:
    """The unit in which the largest value is at least 1."""
    most = max((abs(value) for value in values), default=0.0)
    steps = units.steps(unit)
    divisor, label = next((step for step in steps if most >= step[0]), steps[-1])
    return ValueAxis(divisor, label)
