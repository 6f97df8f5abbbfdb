"""How high a search may go: its own maximum, what is known of the generator (to save trials), and what it has shown."""

import math
from collections.abc import Sequence

from pinchpoint.model import units
from pinchpoint.model.result import Ceiling, Limit
from pinchpoint.model.scenario import Search
from pinchpoint.model.trial import Trial, TrialValidity

HEADROOM = 1.08  # over a known ceiling: a test of two seconds may have met a slow moment
ABOVE = 1.02  # of the most that was offered: a load that shows whether the generator can offer more by now
BELOW = 0.98  # of what was offered by a generator that fell short: MLRsearch's new maximum, which it can offer again
NEARLY = 0.99  # of the most that was offered: a rate above it may be the generator's
UNUSABLE = 3  # trials in which the engine fell short of receiving at loads that no usable trial had: it will again
AWAY = 0.8  # of their lowest load: the next to try
FULL_RINGS = 0.3  # loss ratio beyond which a DUT's full rings slow the generator as well: no evidence of its ceiling


class Reach:
    """The highest load that may be tried."""

    def __init__(self, search: Search, ceilings: Sequence[Ceiling] = ()) -> None:
        """`ceilings`: the generator's own, for each distance of the cores."""
        self._search = search
        self._known = max(ceilings, key=lambda ceiling: ceiling.fps, default=None)
        self._most_offered_fps = 0.0
        self.highest_fps = 0.0  # load of a usable trial
        self._left_fps: list[float] = []  # loads of unusable trials above it
        self._lowered_fps: float | None = None
        self.fell_short_fps: float | None = None  # the most offered by a generator that fell short; None: it never did

    @property
    def top_fps(self) -> float:
        """The highest load worth trying."""
        most_fps = self._search.max_load_fps
        if self._lowered_fps is not None:
            most_fps = min(most_fps, self._lowered_fps)
        elif self.fell_short_fps is not None:
            most_fps = min(most_fps, ABOVE * self._most_offered_fps)
        elif self._known is not None:
            most_fps = min(most_fps, HEADROOM * self._known.fps)
        if len(self._left_fps) >= UNUSABLE:
            most_fps = min(most_fps, max(self.highest_fps, AWAY * min(self._left_fps)))
        return max(most_fps, self._search.min_load_fps)

    @property
    def offered_fps(self) -> float:
        """The most that a usable trial offered (before one, what may be tried): a rate above it is only "at least"."""
        if self.fell_short_fps is not None:
            return self._most_offered_fps
        return min(self._most_offered_fps or math.inf, self.top_fps)

    @property
    def nearly_top_fps(self) -> float:
        """A median from here on may be the generator's, or the search's maximum."""
        return self.offered_fps * (1.0 if self.fell_short_fps is None else NEARLY)

    def note(self, trial: Trial) -> None:
        """Take what one usable trial shows about the generator."""
        self._most_offered_fps = max(self._most_offered_fps, trial.offered_fps)
        self.highest_fps = max(self.highest_fps, trial.load_fps)
        self._left_fps = [load_fps for load_fps in self._left_fps if load_fps > self.highest_fps]
        if self._known is not None and self._known.is_surpassed(self._most_offered_fps):
            self._known = None  # it was met in a slower moment, or while the cores were further apart
        if trial.validity is TrialValidity.GENERATOR_LIMITED and trial.loss_ratio <= FULL_RINGS:
            self.fell_short_fps = max(self.fell_short_fps or 0.0, trial.offered_fps)

    def leave(self, trial: Trial) -> None:
        """Take that a trial was not usable: after UNUSABLE above all usable ones, no load there is tried again."""
        if trial.load_fps > self.highest_fps:
            self._left_fps.append(trial.load_fps)

    def lower(self, limited: Trial) -> bool:
        """Come below a load that the generator could not keep up with (MLRsearch); False if that makes no sense."""
        before_fps = self.top_fps
        self.note(limited)
        self.fell_short_fps = self._most_offered_fps = limited.offered_fps
        self._lowered_fps = BELOW * limited.offered_fps
        return self._search.min_load_fps < self.top_fps < before_fps

    @property
    def limited_by(self) -> Limit:
        """What bounds the reach."""
        is_generator = self.fell_short_fps is not None or self.offered_fps < NEARLY * self._search.max_load_fps
        return Limit.GENERATOR if is_generator else Limit.SEARCH_MAXIMUM

    def limit(self) -> str:
        """What bounds the reach, as it was measured."""
        if self.fell_short_fps is not None:
            return f"generator-limited: the engine offers at most {units.fps(self._most_offered_fps)} on this bench"
        if len(self._left_fps) >= UNUSABLE:
            return f"generator-limited: no trial above {units.fps(self.highest_fps)} had a usable account"
        if self.offered_fps < NEARLY * self.top_fps:
            return f"generator-limited: no trial with a usable account offered more than {units.fps(self.offered_fps)}"
        if self._known is None or HEADROOM * self._known.fps >= self._search.max_load_fps:
            return f"search.max_load_fps = {units.fps(self._search.max_load_fps)} reached"
        distance_ns = self._known.distance_ns
        apart = f" (cores {units.nanoseconds(distance_ns)} apart)" if distance_ns is not None else ""
        return (
            f"generator-limited: without the device the engine offered {units.fps(self._known.fps)}{apart}, "
            f"and no load above {HEADROOM:g} times that was tried"
        )
