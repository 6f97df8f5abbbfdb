"""Which trials of a search were set aside, why, and whether that moved the rates.

Setting aside may not depend on the loss. A disturbance can only add to what a trial loses; so,
at one offered rate and one distance of the cores,

* rejected trials that lost nothing may not be more frequent than kept ones that lost nothing:
  otherwise what lost is favoured, and rates come out too low;
* rejected trials that lost more than their disturbance can explain may not be more frequent than
  kept ones that lost: otherwise what lost nothing is favoured, and rates come out too high.

Both are tested exactly: given how many trials of a load were rejected and how many show the
mark, the number that are both is hypergeometric (Fisher 1935), and loads are independent.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pinchpoint.diagnose.cache_line import TWO_MODES, of_trial
from pinchpoint.diagnose.validity import cause, explained_frames
from pinchpoint.model import units
from pinchpoint.model.measurement import Metric
from pinchpoint.model.trial import Trial, TrialValidity

MANY = 0.25  # of a search's trials set aside, from which the user is told
ALARM = 0.01  # probability of so uneven a rejection if it does not depend on the loss
SAME_LOAD = 0.01  # relative width of what counts as one offered rate
NEAR_RATE = 0.1  # relative distance of a load from a rate


@dataclass(frozen=True)
class Rejections:
    """What was set aside of a search's trials."""

    trials: int
    by_cause: Mapping[str, int]  # the most frequent first
    too_low_p: float  # of as many lossless ones among the rejected, if rejecting does not depend on the loss
    too_high_p: float  # of as many losing ones

    @property
    def share(self) -> float:
        """Of all trials."""
        return sum(self.by_cause.values()) / self.trials if self.trials else 0.0

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The share, with its causes."""
        if not self.trials:
            return ()
        return (Metric("trials set aside", "share", self.share, note=self._causes()),)

    @property
    def warnings(self) -> tuple[str, ...]:
        """That many were set aside, or that it was not even-handed; none on a quiet host."""
        found = []
        if self.share > MANY:
            found.append(f"{units.share(self.share)} of {self.trials} trials set aside: {self._causes()}")
        for p, which, way in (
            (self.too_low_p, "lost nothing", "too low"),
            (self.too_high_p, "lost more than their disturbance explains", "too high"),
        ):
            if p < ALARM:
                found.append(
                    f"trials that {which} were set aside more often than others at the same load (p = {p:.1g}): "
                    f"the rates may be {way}"
                )
        return tuple(found)

    def _causes(self) -> str:
        return ", ".join(f"{count} {words}" for words, count in self.by_cause.items())


def of_search(trials: Sequence[Trial]) -> Rejections:
    """Of the trials of one search, of all modes of the cores. Those beyond the generator's reach are no noise."""
    by_cause = Counter(cause(trial) for trial in trials if trial.validity is not TrialValidity.VALID)
    judged = [trial for trial in trials if trial.validity in (TrialValidity.VALID, TrialValidity.NOISY_HOST)]
    return Rejections(
        trials=len(trials),
        by_cause=dict(by_cause.most_common()),
        too_low_p=_surplus(judged, lambda trial: trial.lost == 0),
        too_high_p=_surplus(judged, _lost_by_itself),
    )


def _lost_by_itself(trial: Trial) -> bool:
    """Whether it lost frames, and if it was disturbed, more than the disturbance can have cost."""
    kept = trial.validity is TrialValidity.VALID
    return trial.lost > (0 if kept else explained_frames(trial))


def _surplus(trials: Sequence[Trial], marked: Callable[[Trial], bool]) -> float:
    """The probability of at least so many marked trials among the rejected, load by load."""
    distribution, observed = [1.0], 0
    for alike in _alike(trials):
        rejected = [trial for trial in alike if trial.validity is not TrialValidity.VALID]
        observed += sum(map(marked, rejected))
        one = _hypergeometric(len(alike), sum(map(marked, alike)), len(rejected))
        distribution = _sum_of(distribution, one)
    return min(1.0, sum(distribution[observed:]))


def _alike(trials: Sequence[Trial]) -> list[list[Trial]]:
    """The trials by offered rate and mode of the cores, but groups all rejected or all kept, which say nothing."""
    groups: dict[tuple[int, int], list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.offered_fps > 0:
            distance_ns = of_trial(trial) or 1.0
            load = round(math.log(trial.offered_fps) / SAME_LOAD)
            groups[load, round(math.log(distance_ns, TWO_MODES))].append(trial)
    return [one for one in groups.values() if len({trial.validity for trial in one}) == 2]


def _hypergeometric(total: int, marked: int, drawn: int) -> list[float]:
    """P(k of `drawn` are marked) for k = 0, 1, ..., `drawn`."""
    ways = math.comb(total, drawn)
    return [math.comb(marked, k) * math.comb(total - marked, drawn - k) / ways for k in range(drawn + 1)]


def _sum_of(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """The distribution of the sum of two independent counts."""
    found = [0.0] * (len(one) + len(other) - 1)
    for i, p in enumerate(one):
        for j, q in enumerate(other):
            found[i + j] += p * q
    return found


def held_back(trials: Sequence[Trial], rate_fps: float | None, relative_width: float) -> str:
    """A warning if gaps of the engine's core held back more of the load than a search distinguishes; empty if not.

    Looked at are the valid trials whose loads are near `rate_fps`. Between two gaps the device met the whole
    load, and rates are told by what was offered: they may be too low by as much as was held back.
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
