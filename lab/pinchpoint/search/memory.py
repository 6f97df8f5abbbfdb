"""Devices with memory: what they carry depends on the load before, as of a policer's bucket or a lasting collapse.

One load is tried just above an estimate after a rest, and one just below it after an overload. Where, pair after pair,
the higher one is carried and the lower one is not, the order of the trials decides, and no single rate is right: then
trials after rests give the rested rate, and what is forwarded late in an overload is the sustained one.
"""

from enum import Enum, auto
from statistics import median

from pinchpoint.model.measurement import Interval
from pinchpoint.model.trial import Trial
from pinchpoint.search.claims import BESIDE
from pinchpoint.search.slices import late_fps
from pinchpoint.search.track import EXACT

REST = 5.0  # trials that a rest lasts: longer than what a device is likely to remember
APART = BESIDE  # relative: the loads of a pair, below and above the estimate
PAIRS = 4  # all of which must show it: a device that moves does so by chance in one of 250


class Role(Enum):
    """What a trial is for."""

    SEARCH = auto()
    REST = auto()
    AFTER_REST = auto()
    OVERLOAD = auto()
    AFTER_OVERLOAD = auto()


PAIR = (Role.OVERLOAD, Role.AFTER_OVERLOAD, Role.REST, Role.AFTER_REST)
BOTH = (*PAIR[2:], *PAIR[:2])  # for as long as the budget lasts: both rates have trials beside them


class Memory:
    """What trials have shown of a device's memory."""

    def __init__(self, *, is_known: bool = False) -> None:
        self.is_known = is_known  # whether there is some, or none: beforehand, or by pairs
        self.is_there = False
        self.about_fps = 0.0  # the estimate that the pairs are beside of; 0: none has begun
        self.overloads: list[Trial] = []
        self.after_overloads: list[Trial] = []
        self._planned: list[Role] = []
        self._pairs = 0
        self._lost = False  # after the last overload

    def plan(self, about_fps: float) -> None:
        """Begin with the pairs."""
        self.about_fps, self._planned = about_fps, list(PAIR)

    @property
    def role(self) -> Role:
        """Of the next trial."""
        return self._planned[0] if self._planned else Role.SEARCH

    def load_fps(self, highest_fps: float, least_fps: float) -> float:
        """Of the next trial, unless it is one after a rest once there is memory."""
        if self.role in (Role.OVERLOAD, Role.REST):
            return highest_fps if self.role is Role.OVERLOAD else least_fps
        if self.is_there:  # on either side of what is sustained, by turns
            return self.sustained.value * (1 + (APART if len(self.after_overloads) % 2 else -APART) / 2)
        return self.about_fps * (1 + (APART if self.role is Role.AFTER_REST else -APART))

    def note(self, trial: Trial, loss_ratio: float) -> None:
        """Take one usable trial in the role that was asked for."""
        role, lost = self._planned.pop(0), trial.loss_ratio > loss_ratio
        if role is Role.OVERLOAD:
            self.overloads.append(trial)
        elif role is Role.AFTER_OVERLOAD:
            self._lost = lost
            self.after_overloads += [trial] if self.is_there else []
        elif role is Role.AFTER_REST and not self.is_known:
            self._pairs += 1
            is_reversed = self._lost and not lost
            self.is_there = is_reversed and self._pairs == PAIRS
            self.is_known = self.is_there or not is_reversed
            self._planned = [] if self.is_known else list(PAIR)
        if self.is_there and not self._planned:
            self._planned = list(BOTH)

    @property
    def sustained(self) -> Interval:
        """What the device forwards late in an overload: between all that was measured, and no finer than slices are."""
        late = [late_fps(trial) for trial in self.overloads]
        return Interval(median(late), min(late), max(late)).widened(EXACT, EXACT)
