"""What fails however few connections are opened, where it fails, and loads that surely failed. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pinchpoint.engine.connections import Client
from pinchpoint.model.measurement import CONFIDENCE, NORMAL
from pinchpoint.model.result import LossFloor, Rate, RateStatus
from pinchpoint.model.trial import Trial

LAPSES: Final = 0.02  # of a load's connections, that a host which paused may cost
FEWEST: Final = 2  # trials with the lowest loads
FAR: Final = 2.0  # times these: other loads
ALIKE: Final = 0.7  # of the share that the lowest loads complete: twice an overload completes half of it
HALF: Final = 0.5  # of the share that they fail: what few connections fail alone is no share
_STAGES: Final = {
    "refused": "SYN", "timed out connecting": "SYN", "reset": "data", "timed out answering": "data",
    "timed out closing": "FIN", "unfinished": "FIN",
}  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """Where most of the connections that failed did so."""

    name: str  # SYN, data or FIN
    words: str  # with the figures


def stage(clients: Iterable[Client]) -> Stage | None:
    """Of the connections of several loads; None where none of them failed once it was opened."""
    failures = Counter[str]()
    for client in clients:
        failures.update(client.failures)
    if not failures:
        return None
    ((how, count),) = failures.most_common(1)
    return Stage(_STAGES[how], f"at the {_STAGES[how]}: {count:,} of {failures.total():,} {how}")


def judged(rate: Rate, trials: Sequence[Trial]) -> Rate:
    """The same rate, as far as usable trials bear it out.

    Where none of them kept the ratio and the same share fails at loads far apart, that share is the number. An interval
    ends at a load that surely failed.
    """
    if not any(trial.loss_ratio <= rate.loss_ratio for trial in trials):
        floor = _always(trials, rate)
        return replace(rate, status=RateStatus.LOSES_ALWAYS, floor=floor, upper_fps=None) if floor else rate
    return _within_failed(rate, trials)


def _always(trials: Sequence[Trial], rate: Rate) -> LossFloor | None:
    """The share that fails at any rate, where there is one; an overload carries no more of a higher load."""
    by_load = sorted(trials, key=lambda trial: trial.offered_fps)
    low = by_load[:FEWEST]
    if len(low) < FEWEST or rate.status is RateStatus.REFUSED:
        return None
    failed = _share(low)

    def is_alike(trial: Trial) -> bool:
        """Whether a load far above the lowest ones fails about the same share."""
        carried, least_cps = 1 - trial.loss_ratio, FAR * low[-1].offered_fps
        return trial.offered_fps >= least_cps and carried >= ALIKE * (1 - failed) and trial.loss_ratio >= HALF * failed

    alike = [trial.offered_fps for trial in by_load if is_alike(trial)]
    if not alike:
        return None
    within = [trial for trial in by_load if trial.offered_fps <= max(alike)]
    share = _share(within)
    half = _half_width(within, share)
    ends = max(0.0, share - half), min(1.0, share + half)
    return LossFloor(share, *ends, by_load[0].offered_fps, len(within))


def _half_width(trials: Sequence[Trial], share: float) -> float:
    """Of the share's interval: a trial's connections fail together, so trials are what was sampled.

    The variance of a ratio of sums (Cochran 1977, 2.11), at least that of independent connections.
    """
    from scipy.special import stdtrit  # half a second that only this needs

    count, offered = len(trials), sum(trial.offered for trial in trials)
    squares = math.fsum((trial.lost - share * trial.offered) ** 2 for trial in trials)
    of_trials = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * math.sqrt(squares * count / (count - 1)) / offered
    return max(of_trials, NORMAL * math.sqrt(share * (1 - share) / offered))


def rests_on(rate: Rate, trials: Sequence[Trial]) -> Sequence[Trial]:
    """The usable trials whose share fails at any rate, without the overloads; none where none does."""
    count = rate.floor.trials if rate.floor and rate.status is RateStatus.LOSES_ALWAYS else 0
    return sorted(trials, key=lambda trial: trial.offered_fps)[:count]


def _share(trials: Sequence[Trial]) -> float:
    return sum(trial.lost for trial in trials) / sum(trial.offered for trial in trials)


def _within_failed(rate: Rate, trials: Sequence[Trial]) -> Rate:
    if rate.status is not RateStatus.FOUND or rate.estimate_fps is None:
        return rate
    kept_cps = max(trial.offered_fps for trial in trials if trial.loss_ratio <= rate.loss_ratio)
    failed = (trial.offered_fps for trial in trials if trial.loss_ratio > rate.loss_ratio + LAPSES)
    least_cps = min((cps for cps in failed if cps > max(kept_cps, rate.estimate_fps)), default=None)
    if least_cps is None or (rate.upper_fps is not None and rate.upper_fps <= least_cps):
        return rate
    return replace(rate, upper_fps=least_cps)
