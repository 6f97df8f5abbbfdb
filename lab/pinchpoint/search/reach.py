"""How high a search may go: its own maximum, what is known of the generator, and what the generator has shown.

Each mode of the machine's cores has a reach of its own, since a generator that falls short in one may keep up in
another. What is known only saves trials: a generator that falls short is noticed by itself.
"""

from collections.abc import Sequence

from pinchpoint.model import units
from pinchpoint.model.result import Ceiling, Limit
from pinchpoint.model.scenario import Search
from pinchpoint.model.trial import Trial

HEADROOM = 1.08  # over a known ceiling: a test of two seconds may have met a slow moment
MARGIN = 0.98  # of the offered rate seen: a load that the generator can keep up
GENTLE = 0.7  # of the load that was too high
FAR_SHORT = 0.4
MOST_LOWERINGS = 8  # in one search
ONE_MODE = 2.0  # distances of the cores within this factor belong together


def same_mode(one_ns: float | None, other_ns: float | None) -> bool:
    """Whether two distances of the cores belong to one mode; what was not probed fits any."""
    if one_ns is None or other_ns is None:
        return True
    return max(one_ns, other_ns) < ONE_MODE * min(one_ns, other_ns)


class Reach:
    """The highest load that may be tried in one mode of the cores."""

    def __init__(self, search: Search, ceilings: Sequence[Ceiling] = (), distance_ns: float | None = None) -> None:
        """`ceilings` are the generator's own, of any mode; `distance_ns` is that of this mode, None: not known."""
        self._search = search
        self._known: Ceiling | None = None
        self._offered_fps = 0.0  # the highest rate offered by a generator that fell short
        self._lowerings = 0
        self.top_fps = search.max_load_fps
        fitting = [one for one in ceilings if same_mode(one.distance_ns, distance_ns)]
        highest = max(fitting, key=lambda one: one.fps, default=None)
        if highest is not None and HEADROOM * highest.fps < search.max_load_fps:
            self._known = highest
            self.top_fps = HEADROOM * highest.fps

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing left to try."""
        return self.top_fps <= self._search.min_load_fps

    def lower(self, limited: Trial) -> bool:
        """Come below a load that the generator could not keep up with; False if that makes no sense.

        Not at once to what it offered: a DUT that is overloaded keeps all rings full, and
        that slows the generator too. Unless it fell far short, a little lower comes first.
        """
        self._offered_fps = max(self._offered_fps, limited.offered_fps)
        offered_fps = MARGIN * min(limited.offered_fps, limited.load_fps)
        fell_far_short = limited.offered_fps < FAR_SHORT * limited.load_fps
        self.top_fps = offered_fps if fell_far_short else max(offered_fps, GENTLE * limited.load_fps)
        self._lowerings += 1
        return self._lowerings <= MOST_LOWERINGS and not self.is_empty

    def fell_short(self) -> str:
        """Why nothing more can be tried."""
        if self.is_empty:
            return f"{self.limit()}, below search.min_load_fps"
        return f"{self.limit()}, and fell short of ever lower loads, last {units.fps(self.top_fps)}"

    @property
    def limited_by(self) -> Limit:
        """What bounds the reach."""
        is_generator = self._offered_fps or self._known is not None
        return Limit.GENERATOR if is_generator else Limit.SEARCH_MAXIMUM

    def limit(self) -> str:
        """What bounds the reach, as it was measured."""
        if self._offered_fps:
            return f"generator-limited: the engine offers at most {units.fps(self._offered_fps)} on this bench"
        if self._known is None:
            return "search.max_load_fps reached"
        distance_ns = self._known.distance_ns
        apart = "" if distance_ns is None else f" (cores {units.nanoseconds(distance_ns)} apart)"
        return (
            f"generator-limited: without the device the engine offered {units.fps(self._known.fps)}{apart}, "
            f"and no load above {HEADROOM:g} times that was tried"
        )
