"""Which trials of a search were discarded, and why; whether the engine's gaps held back its rates. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pinchpoint.model import units
from pinchpoint.model.measurement import Metric
from pinchpoint.model.terms import CAUSES
from pinchpoint.model.trial import Trial, TrialValidity

MANY = 0.25  # share of discarded trials from which there is a warning
NEAR_RATE = 0.1  # relative distance of a load from a rate


@dataclass(frozen=True)
class Rejections:
    """The discarded trials of a search."""

    trials: int
    by_cause: Mapping[str, int]  # the most frequent first

    @property
    def share(self) -> float:
        """Discarded trials as a share (0 to 1) of all trials of the search."""
        return sum(self.by_cause.values()) / self.trials if self.trials else 0.0

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The share, with its causes."""
        if not self.trials:
            return ()
        return (Metric("trials discarded", "share", self.share, note=self._causes()),)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One, if many were discarded."""
        if self.share <= MANY:
            return ()
        return (f"{units.share(self.share)} of {self.trials} trials discarded: {self._causes()}",)

    def _causes(self) -> str:
        return ", ".join(f"{count} {words}" for words, count in self.by_cause.items())


def of_search(trials: Sequence[Trial]) -> Rejections:
    """Of the trials of one search."""
    by_cause = Counter(_cause(trial) for trial in trials if trial.validity is not TrialValidity.VALID)
    return Rejections(len(trials), dict(by_cause.most_common()))


def _cause(trial: Trial) -> str:
    """In words that many trials share; the validity where the cause was not stored."""
    return trial.validity.value.replace("_", " ") if trial.cause is None else CAUSES[trial.cause]


def held_back(trials: Sequence[Trial], rate_fps: float | None, relative_width: float) -> str:
    """A warning if gaps of the engine's core held back more of the load than a search distinguishes; empty if not.

    It looks at the valid trials whose loads are near `rate_fps`. Between two gaps the device met the whole
    load, and rates are offered rates: they may be too low by as much as was held back.
    """
    near = [
        1 - trial.offered / trial.intended
        for trial in trials
        if trial.validity is TrialValidity.VALID and rate_fps and abs(trial.load_fps / rate_fps - 1) <= NEAR_RATE
    ]
    held = median(near) if near else 0.0
    if held <= relative_width:
        return ""
    return (
        f"the engine's core stood still for {units.share(held)} of the trials near the rate (median): frames due "
        "meanwhile were never offered, so the rates may be too low by as much"
    )
