"""Devices with memory: what they carry depends on the load before, as of a policer's bucket or a lasting collapse.

Near an estimate one load is tried just above it after a rest, and one just below it after an overload. Where, pair
after pair, the higher one is carried and the lower one is not, the order of the trials decides, and no single rate is
right: then trials after rests give the rested rate, and what is forwarded late in an overload is the sustained one.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from statistics import median

from pinchpoint.model.trial import Trial
from pinchpoint.search.slices import late_fps

REST = 5.0  # trials that a rest lasts: longer than what a device is likely to remember
APART = 0.03  # relative: the loads of a pair, below and above the estimate
PAIRS = 4  # all of which must show it: a device that moves does so by chance in one of 250
EXACT = 0.01  # relative: what late slices measure no more exactly


class Role(Enum):
    """What a trial is for."""

    SEARCH = auto()
    REST = auto()
    AFTER_REST = auto()
    OVERLOAD = auto()
    AFTER_OVERLOAD = auto()


PAIR = (Role.OVERLOAD, Role.AFTER_OVERLOAD, Role.REST, Role.AFTER_REST)
BOTH = (*(Role.REST, Role.AFTER_REST) * 3, Role.OVERLOAD, Role.AFTER_OVERLOAD)


@dataclass
class Memory:
    """What trials have shown of a device's memory."""

    is_known: bool = False  # whether pairs have shown that there is some, or none
    is_there: bool = False
    about_fps: float = 0.0  # the estimate that the pairs are beside of
    overloads: list[Trial] = field(default_factory=list)
    after_overloads: list[Trial] = field(default_factory=list)
    _planned: list[Role] = field(default_factory=list)
    _pairs: int = 0
    _lost: bool = False

    def plan(self, about_fps: float) -> None:
        """Begin with the pairs."""
        self.about_fps, self._planned = about_fps, list(PAIR)

    @property
    def is_planned(self) -> bool:
        """Whether pairs have begun."""
        return self.about_fps > 0

    @property
    def role(self) -> Role:
        """Of the next trial."""
        return self._planned[0] if self._planned else Role.SEARCH

    def load_fps(self, highest_fps: float, least_fps: float) -> float:
        """Of the next trial, unless it is one after a rest once there is memory."""
        sustained_fps = self.sustained_fps if self.is_there else self.about_fps
        side = 1 if self.is_there and len(self.after_overloads) % 2 else -1
        return {
            Role.OVERLOAD: highest_fps,
            Role.REST: least_fps,
            Role.AFTER_OVERLOAD: sustained_fps * (1 + side * APART / 2)
            if self.is_there
            else (1 - APART) * sustained_fps,
            Role.AFTER_REST: (1 + APART) * self.about_fps,
        }[self.role]

    def note(self, trial: Trial, loss_ratio: float) -> None:
        """One usable trial in the role that was asked for."""
        role = self._planned.pop(0)
        lost = trial.loss_ratio > loss_ratio
        if role is Role.OVERLOAD:
            self.overloads.append(trial)
        elif role is Role.AFTER_OVERLOAD:
            self._lost = lost
            if self.is_there:
                self.after_overloads.append(trial)
        elif role is Role.AFTER_REST and not self.is_known:
            self._pairs += 1
            is_reversed = self._lost and not lost
            self.is_there = is_reversed and self._pairs == PAIRS
            self.is_known = self.is_there or not is_reversed
            self._planned = [] if self.is_known else list(PAIR)
        if self.is_there and not self._planned:
            self._planned = list(BOTH)

    @property
    def sustained_fps(self) -> float:
        """What the device forwards late in an overload."""
        return median(late_fps(trial) for trial in self.overloads)

    @property
    def ends_fps(self) -> tuple[float, float]:
        """Of the interval of that: all that was measured, and no finer than slices are."""
        late = [late_fps(trial) for trial in self.overloads]
        return min(late) * (1 - EXACT), max(late) * (1 + EXACT)
