"""What a reader who counts the trials finds: shares of losing trials by load, held against what is claimed."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median, stdev

from scipy.special import bdtr, bdtrc, stdtrit  # scipy.stats takes a second to import

from pinchpoint.model.measurement import CONFIDENCE, Interval
from pinchpoint.model.result import Claim, LossFloor, LossShare
from pinchpoint.model.trial import Trial

BESIDE = 0.03  # relative: trials this near to a rate, on either side, are held against it
# Relative: those so near support it. They are tried 1.5 % beside an estimate that still moves a little.
SUPPORT = 0.02
NEAR = 0.15  # relative: trials this near to a load stand for it; that load was a share of earlier estimates
ERROR = 1 - CONFIDENCE  # of saying that a claim does not hold, by the binomial of each side
WITHIN = 0.9  # of a device's capacity: trials up to there were not overloaded, though its level moves by a tenth
CONSTANT = 4.0  # loss ratios within this factor at different loads are one: an overload changes them by more
ALIKE_ERROR = 0.01  # of saying that they are not
FAR = 2.0  # times the rate: far above a threshold at which a ring is full or a device overloaded, more is lost
FEWEST_LOSING = 2  # trials at each distance: one may have met a pause


def claim(trials: Sequence[Trial], loss_ratio: float, rate_fps: float) -> Claim:
    """Whether at most half of the trials just below a rate lose, and at least half of those just above."""
    below = [trial for trial in trials if (1 - BESIDE) * rate_fps <= trial.offered_fps <= rate_fps]
    above = [trial for trial in trials if rate_fps < trial.offered_fps <= (1 + BESIDE) * rate_fps]
    low, high = _share(below, loss_ratio, rate_fps), _share(above, loss_ratio, rate_fps)
    too_many = bdtrc(low.losing - 1, low.trials, 0.5) < ERROR if low.losing else False
    too_few = high.trials > 0 and bdtr(high.losing, high.trials, 0.5) < ERROR
    return Claim(low, high, not (too_many or too_few), supported=min(near(trials, rate_fps)) > 0)


def near(trials: Sequence[Trial], rate_fps: float) -> tuple[int, int]:
    """How many trials support a rate from below and from above; a load has no finer steps than a frame a trial."""
    below = above = 0
    for trial in trials:
        off_fps = trial.offered_fps - rate_fps
        if abs(off_fps) <= max(SUPPORT * rate_fps, 1 / trial.duration_s):
            below, above = below + (off_fps <= 0), above + (off_fps > 0)
    return below, above


def nearest_supported(trials: Sequence[Trial], rate: Interval) -> float | None:
    """The rate if trials on both sides support it, else the nearest load in its interval, tried or between two."""
    tried = sorted(trial.offered_fps for trial in trials)
    between = ((low + high) / 2 for low, high in pairwise(tried))
    loads = (load_fps for load_fps in (*tried, *between) if rate.low <= load_fps <= rate.high)
    nearest = sorted((rate.value, *loads), key=lambda load_fps: abs(load_fps - rate.value))
    return next((load_fps for load_fps in nearest if min(near(trials, load_fps)) > 0), None)


def share_near(trials: Sequence[Trial], loss_ratio: float, load_fps: float) -> LossShare | None:
    """How many trials near a load lost; None where there is none."""
    around = [trial for trial in trials if abs(trial.offered_fps - load_fps) <= NEAR * load_fps]
    return _share(around, loss_ratio, load_fps) if around else None


def constant_loss(trials: Sequence[Trial], loss_ratio: float, rate_fps: float, confidence: float) -> LossFloor | None:
    """The share of frames that is lost at loads up to the rate and far above it, below capacity; None: none is seen."""
    most_fps = WITHIN * max(trial.offered_fps * (1 - trial.loss_ratio) for trial in trials)
    low = [trial for trial in trials if trial.offered_fps <= (1 + NEAR) * rate_fps]
    high = [trial for trial in trials if FAR * rate_fps <= trial.offered_fps <= most_fps]
    if min(_losing(low, loss_ratio), _losing(high, loss_ratio)) < FEWEST_LOSING or not _is_alike(low, high):
        return None
    within = [*low, *high]
    ratios = [trial.loss_ratio for trial in within]
    half = float(stdtrit(len(ratios) - 1, (1 + confidence) / 2)) * stdev(ratios) / len(ratios) ** 0.5
    lost = sum(trial.lost for trial in within) / sum(trial.offered for trial in within)
    least_fps = min(trial.offered_fps for trial in within)
    return LossFloor(lost, max(0.0, lost - half), lost + half, least_fps, len(within))


def _losing(trials: Sequence[Trial], loss_ratio: float) -> int:
    return sum(trial.loss_ratio > loss_ratio for trial in trials)


def _share(trials: Sequence[Trial], loss_ratio: float, load_fps: float) -> LossShare:
    at_fps = median(trial.offered_fps for trial in trials) if trials else load_fps
    return LossShare(at_fps, _losing(trials, loss_ratio), len(trials))


def _is_alike(some: Sequence[Trial], others: Sequence[Trial]) -> bool:
    """Whether the loss ratios may be within CONSTANT of each other: of all lost frames, the others' are binomial."""
    lost, others_lost = (sum(trial.lost for trial in trials) for trials in (some, others))
    offered, others_offered = (sum(trial.offered for trial in trials) for trials in (some, others))
    least, most = (share / (offered + share) for share in (others_offered / CONSTANT, others_offered * CONSTANT))
    low, high = bdtr(others_lost, lost + others_lost, least), bdtrc(others_lost - 1, lost + others_lost, most)
    return bool(min(low, high) >= ALIKE_ERROR)
