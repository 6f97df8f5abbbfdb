"""Between a search and its trials: valid trials only, in time, below what the generator can offer."""

from collections import Counter
from collections.abc import Callable
from statistics import median

from pinchpoint.model import units
from pinchpoint.model.scenario import Search
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search.repeat import Measure, until_valid

CEILING_MARGIN = 0.98  # of the offered rate seen: a load that the generator can keep up
GENTLE = 0.7  # of the load that was too high
FAR_SHORT = 0.4
MOST_LOWERINGS = 8  # of the maximum load, in one search
NEIGHBOURS = 9  # trials of the loads nearest to a rate say how much of it was really offered


class StoppedError(Exception):
    """The search cannot go on; the message says why."""


class GeneratorLimitedError(Exception):
    """The generator cannot keep up with a load, and a repeat confirmed it."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial.reason)
        self.trial = trial


class Watch:
    """Lets only valid trials through, keeps the time bound, and notes what the warnings need."""

    def __init__(
        self,
        measure: Measure,
        search: Search,
        now_s: Callable[[], float],
        ceiling_fps: float | None,
        began_s: float | None,
    ) -> None:
        """`ceiling_fps`: of the generator, if known. `began_s`: since when search.max_duration_s counts, if not now."""
        self.search = search
        self.valid = 0
        self.traffic_s = 0.0  # of valid trials
        self.ceiling_fps: float | None = None  # the highest rate offered by a generator that fell short
        self.reach_fps = search.max_load_fps  # the highest load that may be tried
        self._known_fps = None
        if ceiling_fps and CEILING_MARGIN * ceiling_fps < search.max_load_fps:
            self._known_fps = ceiling_fps
            self.reach_fps = CEILING_MARGIN * ceiling_fps
        self._measure = measure
        self._now_s = now_s
        self._end_s = (now_s() if began_s is None else began_s) + search.max_duration_s
        self._lowerings = 0
        self._trials = 0
        self._offered: dict[float, list[float]] = {}  # of valid trials, by intended load

    def measure(
        self, duration_s: float, load_fps: float, settles: Callable[[Trial], bool] = lambda trial: False
    ) -> Trial:
        """A valid trial. Raises GeneratorLimitedError or StoppedError.

        `settles` tells of a trial limited by the generator that no repeat is needed to believe it.
        """
        validities: Counter[TrialValidity] = Counter()

        def counted(duration_s: float, load_fps: float) -> Trial:
            trial = self._in_time(duration_s, load_fps)
            validities[trial.validity] += 1
            return trial

        trial = until_valid(counted, duration_s, load_fps, self.search.max_repeats, settles)
        if trial.validity is TrialValidity.GENERATOR_LIMITED:
            self.ceiling_fps = max(self.ceiling_fps or 0.0, trial.offered_fps)
            raise GeneratorLimitedError(trial)
        if trial.validity is not TrialValidity.VALID:
            counts = ", ".join(f"{count} {validity.value}" for validity, count in validities.most_common())
            raise StoppedError(
                f"no valid trial at {units.fps(load_fps)} in {validities.total()} tries ({counts}); "
                f"last: {trial.reason}"
            )
        self.valid += 1
        self.traffic_s += trial.sent_duration_s
        self._offered.setdefault(load_fps, []).append(trial.offered_fps)
        return trial

    def lower(self, limited: Trial) -> bool:
        """Bring the reach below a load that the generator could not keep up with; False if that makes no sense.

        Not at once to what it offered: a DUT that is overloaded keeps all rings full, and
        that slows the generator too. Unless it fell far short, a little lower comes first.
        """
        offered_fps = CEILING_MARGIN * min(limited.offered_fps, limited.load_fps)
        fell_far_short = limited.offered_fps < FAR_SHORT * limited.load_fps
        self.reach_fps = offered_fps if fell_far_short else max(offered_fps, GENTLE * limited.load_fps)
        self._lowerings += 1
        return self._lowerings <= MOST_LOWERINGS and self.reach_fps > self.search.min_load_fps

    def fell_short(self) -> str:
        """Why `lower` gave up."""
        if self.reach_fps <= self.search.min_load_fps:
            return f"{self.ceiling()}, below search.min_load_fps"
        return f"{self.ceiling()}, and fell short of ever lower loads, last {units.fps(self.reach_fps)}"

    def offered_fps(self, load_fps: float | None) -> float | None:
        """The median rate that valid trials at an intended load really offered."""
        return None if load_fps is None else median(self._offered[load_fps])

    def offered_share(self, load_fps: float) -> float:
        """Offered over intended, the median of the valid trials whose loads are nearest to this one."""
        shares = [(abs(load - load_fps), rate / load) for load, rates in self._offered.items() for rate in rates]
        return median(share for _, share in sorted(shares)[:NEIGHBOURS])

    def ceiling(self) -> str:
        """The generator's limit in words; empty if it was never reached."""
        if self.ceiling_fps is not None:
            return f"generator-limited: the engine offers at most {units.fps(self.ceiling_fps)} on this bench"
        known = units.fps(self._known_fps)
        return f"generator-limited: its ceiling on such a bench is {known}" if self._known_fps else ""

    def _in_time(self, duration_s: float, load_fps: float) -> Trial:
        if self._now_s() >= self._end_s:
            raise StoppedError(
                f"search.max_duration_s = {self.search.max_duration_s:g} s reached after {self._trials} trials, "
                f"{self.valid} of them valid"
            )
        self._trials += 1
        return self._measure(duration_s, load_fps)
