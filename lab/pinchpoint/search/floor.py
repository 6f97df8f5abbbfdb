"""Whether there is a rate without loss at all: short of that, no search for one.

Trials at half of the first estimate come before the search, and at a tenth of it if those lost frames. More follow
only while most of those at a load lost frames, until it is certain that most do (a sequential test: an error
of at most 4 % against a fair coin), or MOST_TRIALS have not made it so. A host that disturbs every trial, or a DUT that
loses the same share of frames at any load, has no NDR that means anything: it would tell how long a trial is, not what
the DUT can do. Where that is so, a PDR is looked for only once it is as certain that most trials keep its ratio there.
"""

from collections.abc import Sequence

from pinchpoint.model import units
from pinchpoint.model.trial import Trial

SHARES = (0.1, 0.5)  # of the first estimate
HIGH_SHARE = 0.9  # a load that is compared with half the estimate, to see whether the loss grows
SAME = 0.15  # relative: trials this near to a floor load stand for it
OWN = 1e-3  # and these were made for its sake, their loads being rounded
ERROR = 0.01
MOST_TRIALS = 12  # at one load: where as many lose as do not, no test would end
MOST_DOUBTED = 24  # and where it must be certain
CONSTANT = 4.0  # loss ratios within this factor at very different loads are one constant
UNLIKELY = 5.0  # expected frames of a loss that was not seen at all (e^-5)


class Floor:
    """The floor test of one loss ratio."""

    def __init__(self, estimate_fps: float, loss_ratio: float, min_load_fps: float) -> None:
        self._loads = [share * estimate_fps for share in (*SHARES, HIGH_SHARE)]
        self._is_possible = self._loads[0] >= min_load_fps  # else no load is low enough to tell anything
        self._loss_ratio = loss_ratio

    def next_load_fps(self, trials: Sequence[Trial], is_doubted: bool = False) -> float | None:
        """The load to try next; None when the test has ended (see `refusal`).

        `is_doubted`: of a stricter loss ratio so many trials are spoilt that it has no rate, whatever the load.
        Then it must be certain that they keep this ratio; if MOST_DOUBTED trials do not show it, it is refused.
        """
        if not self._is_possible:
            return None
        low, half, high = self._loads
        at_half = _near(trials, half)
        if self._is_open(at_half, is_doubted) and not _spent(trials, half):
            return half
        if not _most(at_half, self._loss_ratio):
            return half if is_doubted and self._is_undecided(at_half) and not _spent(trials, half) else None
        at_low = _near(trials, low)
        if self._is_open(at_low, is_doubted) and not _spent(trials, low):
            return low
        return None if _most(at_low, self._loss_ratio) or _between(trials, half, high) else high

    def _is_open(self, there: Sequence[Trial], is_doubted: bool) -> bool:
        """Whether more trials are needed at a load to tell whether most of them lose."""
        if not there:
            return True
        is_open = _most(there, self._loss_ratio) and not _certain(there, self._loss_ratio)
        return is_open and (is_doubted or len(there) < MOST_TRIALS)

    def _is_undecided(self, there: Sequence[Trial]) -> bool:
        return not _certain(there, self._loss_ratio) and not _certain_that_few(there, self._loss_ratio)

    def refusal(self, trials: Sequence[Trial], duration_s: float, is_doubted: bool = False) -> str:
        """Why there is no rate at this loss ratio; empty if there may be one. `is_doubted`: as for the next load."""
        if not self._is_possible:
            return ""
        low, half, high = self._loads
        at_low, at_half = _near(trials, low), _near(trials, half)
        what = "frames" if self._loss_ratio == 0 else f"more than {units.loss(self._loss_ratio)} of their frames"
        if _certain(at_low, self._loss_ratio):
            share = len(_losing(at_low, self._loss_ratio)) / len(at_low)
            return f"{share:.0%} of {duration_s:g} s trials at {SHARES[0]:.0%} load lose {what}"
        for load, share in ((low, SHARES[0]), (half, SHARES[1])) if is_doubted else ():
            there = _near(trials, load, OWN)
            if _spent(trials, load) and self._is_undecided(there):
                losing = len(_losing(there, self._loss_ratio))
                return f"{losing} of {len(there)} {duration_s:g} s trials at {share:.0%} load lose {what}"
        if not _certain(at_half, self._loss_ratio):
            return ""
        ratio, ratio_high = _pooled(at_half), _pooled(_between(trials, half, high))
        unseen = ratio * sum(trial.offered for trial in at_low) > UNLIKELY and not _losing(at_low, 0.0)
        if unseen or not ratio / CONSTANT < ratio_high < ratio * CONSTANT:
            return ""
        share = len(_losing(at_half, self._loss_ratio)) / len(at_half)
        return (
            f"the loss hardly depends on the load ({units.loss(ratio)} at {SHARES[1]:.0%}, "
            f"{units.loss(ratio_high)} at {HIGH_SHARE:.0%} load): "
            f"{share:.0%} of {duration_s:g} s trials at {SHARES[1]:.0%} load lose {what}"
        )


def _near(trials: Sequence[Trial], load_fps: float, width: float = SAME) -> list[Trial]:
    return [trial for trial in trials if abs(trial.load_fps - load_fps) <= width * load_fps]


def _spent(trials: Sequence[Trial], load_fps: float) -> bool:
    """Whether as many trials were made for the sake of a floor load as it is worth at most."""
    return len(_near(trials, load_fps, OWN)) >= MOST_DOUBTED


def _between(trials: Sequence[Trial], half: float, high: float) -> list[Trial]:
    """Lossy trials well above half of the estimate that are not overloaded."""
    return [trial for trial in trials if half * (1 + SAME) < trial.load_fps <= high * 1.001]


def _losing(trials: Sequence[Trial], loss_ratio: float) -> list[Trial]:
    return [trial for trial in trials if trial.loss_ratio > loss_ratio]


def _most(trials: Sequence[Trial], loss_ratio: float) -> bool:
    return 2 * len(_losing(trials, loss_ratio)) > len(trials)


def _certain(trials: Sequence[Trial], loss_ratio: float) -> bool:
    """Whether the chance of losing is above one half for all but ERROR of its posterior (uniform before)."""
    losing = len(_losing(trials, loss_ratio))
    return at_most_half(losing, len(trials) - losing) < ERROR


def _certain_that_few(trials: Sequence[Trial], loss_ratio: float) -> bool:
    """Whether the chance of losing is below one half, as certain."""
    losing = len(_losing(trials, loss_ratio))
    return at_most_half(len(trials) - losing, losing) < ERROR


def at_most_half(losing: int, clean: int) -> float:
    """P(chance <= 0.5), Beta(1 + losing, 1 + clean): by symmetry a sum of binomial terms."""
    from math import comb

    tosses = losing + clean + 1
    return sum(comb(tosses, number) for number in range(losing + 1, tosses + 1)) / 2.0**tosses


def _pooled(trials: Sequence[Trial]) -> float:
    offered = sum(trial.offered for trial in trials)
    return sum(trial.lost for trial in trials) / offered if offered else 0.0
