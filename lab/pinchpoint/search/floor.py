"""Whether a DUT loses frames at any load: then there is no rate for the ratio, and the loss ratio is the number.

Once there is an estimate, one trial is made at half of it. More follow, there and then at a tenth, only once a trial
well below the estimate exceeded the ratio: until it is certain that most do, or that few do, or MOST_TRIALS were made.

* Most trials at a tenth of the estimate exceed the ratio: stalls or pauses cost frames whatever the load.
* Most at half do, and the pooled loss ratio is the same well above: frames are lost one by one, and where most trials
  happen to lose none says how long a trial is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.special import bdtr, bdtrc, betainc, stdtrit  # scipy.stats takes a second to import

from pinchpoint.model.result import LossFloor
from pinchpoint.model.trial import Trial

LOW_SHARE, HALF_SHARE, HIGH_SHARE = 0.1, 0.5, 0.9  # of the estimate
SAME = 0.15  # relative: trials this near to a load stand for it
ERROR = 0.01  # of saying that most trials exceed the ratio
FEW_ERROR = 0.02  # of saying that few do: what is wrongly believed then, the search itself may still see
DOUBTED_ERROR = 0.001  # of the same where a stricter ratio is exceeded at any load: then this is all there is to see
MOST_TRIALS = 24  # at one load: where as many exceed as do not, no test would end
CONSTANT = 4.0  # loss ratios within this factor at different loads are one constant
UNLIKELY = 5.0  # expected frames of a loss that was not seen at all (e^-5)


@dataclass(frozen=True)
class Doubts:
    """Why one clean trial at half of the estimate may not be enough."""

    is_stricter_lost: bool = (
        False  # a stricter ratio is exceeded at any load: most trials must be seen to keep this one
    )
    is_lapsing: bool = False  # most trials within the capacity exceed the ratio: perhaps at any load

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return self.is_stricter_lost or self.is_lapsing


class Floor:
    """The floor test of one loss ratio."""

    def __init__(self, estimate_fps: float, loss_ratio: float, min_load_fps: float, confidence: float) -> None:
        self.estimate_fps = estimate_fps
        self._low, self._half, self._high = (share * estimate_fps for share in (LOW_SHARE, HALF_SHARE, HIGH_SHARE))
        self._is_possible = self._low >= min_load_fps  # else no load is low enough to tell anything
        self._loss_ratio, self._confidence = loss_ratio, confidence

    def next_load_fps(self, trials: Sequence[Trial], doubts: Doubts) -> float | None:
        """The load to try next; None when the test has ended."""
        if not self._is_possible:
            return None
        if self._is_open(trials, self._half, doubts):
            return self._half
        if not self._is_certain(trials, self._half):
            return None
        if self._is_open(trials, self._low, doubts):
            return self._low
        return None if self._is_certain(trials, self._low) or self._above_half(trials) else self._high

    def found(self, trials: Sequence[Trial], doubts: Doubts, *, is_over: bool = False) -> LossFloor | None:
        """The share of frames that is lost at any load; None while that is not certain.

        `is_over`: no more trials will be made, so that the likelier answer is given.
        """
        at_low, at_half = _near(trials, self._low), _near(trials, self._half)
        if not self._is_possible or len(at_half) < 2:
            return None
        if doubts.is_stricter_lost and not self._is_few(trials, self._half, doubts):
            is_open = self._is_open(trials, self._half, doubts) and not is_over
            return None if is_open else self._lost(self._half, at_half)
        is_low_open = self._is_open(trials, self._low, doubts) and not is_over
        if is_low_open or not self._is_certain(trials, self._half, is_over=is_over):
            return None
        if len(at_low) > 1 and self._is_certain(trials, self._low, is_over=is_over):
            return self._lost(self._low, at_low)
        return self._lost(self._half, at_half) if self._is_constant(trials) else None

    def _is_constant(self, trials: Sequence[Trial]) -> bool:
        """Whether one share of the frames is lost at half, well above it and, as far as can be seen, at a tenth.

        Where there is no trial well above, a tenth stands for it. Without a trial at a tenth that would show the
        share, it may as well be that the DUT has become slower than half of the estimate.
        """
        at_half, at_low, above = _near(trials, self._half), _near(trials, self._low), self._above_half(trials)
        of_one = fmean(trial.offered for trial in at_half) * LOW_SHARE / HALF_SHARE
        would_show = _pooled(at_half) * (sum(trial.offered for trial in at_low) or of_one) > UNLIKELY
        unseen = would_show and not _pooled(at_low)
        return not unseen and bool(above or _pooled(at_low)) and _is_alike(at_half, above or at_low)

    def _is_open(self, trials: Sequence[Trial], load_fps: float, doubts: Doubts) -> bool:
        """Whether more trials are needed at a load to tell whether most of them exceed the ratio."""
        there = _near(trials, load_fps)
        is_suspect = any(trial.load_fps <= self._high and trial.loss_ratio > self._loss_ratio for trial in trials)
        if not there or not (is_suspect or doubts.any):
            return not there
        decided = self._is_certain(trials, load_fps) or self._is_few(trials, load_fps, doubts)
        return not decided and len(there) < MOST_TRIALS

    def _is_certain(self, trials: Sequence[Trial], load_fps: float, *, is_over: bool = False) -> bool:
        """Whether most trials exceed the ratio: by the posterior of their share (uniform before), all but ERROR of it.

        Where no more trials will be made: whether that is likelier than not.
        """
        is_last = is_over or len(_near(trials, load_fps)) >= MOST_TRIALS
        return self._chance_below_half(trials, load_fps) < (0.5 if is_last else ERROR)

    def _is_few(self, trials: Sequence[Trial], load_fps: float, doubts: Doubts) -> bool:
        """Whether few do, as certainly."""
        return self._chance_below_half(trials, load_fps) > 1 - (DOUBTED_ERROR if doubts.is_stricter_lost else FEW_ERROR)

    def _chance_below_half(self, trials: Sequence[Trial], load_fps: float) -> float:
        there = _near(trials, load_fps)
        exceeding = self._exceeding(there)
        return float(betainc(1 + exceeding, 1 + len(there) - exceeding, 0.5))

    def _exceeding(self, trials: Sequence[Trial]) -> int:
        return sum(trial.loss_ratio > self._loss_ratio for trial in trials)

    def _above_half(self, trials: Sequence[Trial]) -> list[Trial]:
        """Those well above half of the estimate that did not overload the DUT."""
        return [trial for trial in trials if self._half * (1 + SAME) < trial.load_fps <= self._high * 1.001]

    def _lost(self, load_fps: float, there: Sequence[Trial]) -> LossFloor:
        """Pooled, with Student's interval over the trials."""
        ratio, count = _pooled(there), len(there)
        ratios = [trial.loss_ratio for trial in there]
        half = float(stdtrit(count - 1, (1 + self._confidence) / 2)) * stdev(ratios) / count**0.5
        return LossFloor(ratio, max(0.0, fmean(ratios) - half), fmean(ratios) + half, load_fps, count)


def _near(trials: Sequence[Trial], load_fps: float) -> list[Trial]:
    return [trial for trial in trials if abs(trial.load_fps - load_fps) <= SAME * load_fps]


def _is_alike(some: Sequence[Trial], others: Sequence[Trial]) -> bool:
    """Whether the loss ratios may be within CONSTANT of each other: few frames of a small ratio come by chance.

    Given how many frames were lost in all, those of the others are binomial.
    """
    lost, others_lost = (sum(trial.lost for trial in trials) for trials in (some, others))
    offered, others_offered = (sum(trial.offered for trial in trials) for trials in (some, others))
    least, most = (share / (offered + share) for share in (others_offered / CONSTANT, others_offered * CONSTANT))
    return bool(
        bdtr(others_lost, lost + others_lost, least) >= ERROR
        and bdtrc(others_lost - 1, lost + others_lost, most) >= ERROR
    )


def _pooled(trials: Sequence[Trial]) -> float:
    offered = sum(trial.offered for trial in trials)
    return sum(trial.lost for trial in trials) / offered if offered else 0.0
