"""Between a search and its trials: valid trials only, and in time."""

from collections import Counter
from collections.abc import Callable
from statistics import median

from pinchpoint.model import units
from pinchpoint.model.scenario import Search
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.search.repeat import Measure, until_valid


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
    ) -> None:
        self.search = search
        self.valid = 0
        self.ceiling_fps: float | None = None  # the highest rate offered by a generator that fell short
        self._measure = measure
        self._now_s = now_s
        self._end_s = now_s() + search.max_duration_s
        self._trials = 0
        self._offered: dict[float, list[float]] = {}  # of valid trials, by intended load

    def measure(self, duration_s: float, load_fps: float) -> Trial:
        """A valid trial. Raises GeneratorLimitedError or StoppedError."""
        validities: Counter[TrialValidity] = Counter()

        def counted(duration_s: float, load_fps: float) -> Trial:
            trial = self._in_time(duration_s, load_fps)
            validities[trial.validity] += 1
            return trial

        trial = until_valid(counted, duration_s, load_fps, self.search.max_repeats)
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
        self._offered.setdefault(load_fps, []).append(trial.offered_fps)
        return trial

    def offered_fps(self, load_fps: float | None) -> float | None:
        """The median rate that valid trials at an intended load really offered."""
        return None if load_fps is None else median(self._offered[load_fps])

    def _in_time(self, duration_s: float, load_fps: float) -> Trial:
        if self._now_s() >= self._end_s:
            raise StoppedError(
                f"search.max_duration_s = {self.search.max_duration_s:g} s reached after {self._trials} trials, "
                f"{self.valid} of them valid"
            )
        self._trials += 1
        return self._measure(duration_s, load_fps)
