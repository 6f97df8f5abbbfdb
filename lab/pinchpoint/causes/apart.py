"""What else loses frames where one reason takes a share of them at any load. Pure.

The search ends with that share as its number, and its evidence lies at low loads. A second cause shows only in the
trials at higher loads, and there only once the frames of the first one are taken out of the account.
"""

from collections.abc import Sequence
from dataclasses import replace

from pinchpoint.model.trial import Drop, Hop, Trial, TrialValidity

NEARLY_ALL = 0.9  # of the trials at a load and above must lose frames: a stray loss of the host does so in few
NEAR_LIMIT = 1.1  # losing trials up to this multiple of the lowest load are evidence


def reason_of(drop: Drop) -> str:
    """Why the frames were dropped, wherever that was; trials stored before reasons were have the name only."""
    return drop.reason or drop.name


def losing_apart(trials: Sequence[Trial], reason: str, loss_ratio: float) -> list[Trial]:
    """The trials at the lowest load from which nearly all lose more than `loss_ratio` apart from that reason.

    The frames dropped for `reason` count as received in them.
    """
    apart = [_without(trial, reason) for trial in trials if trial.validity is TrialValidity.VALID]
    losing = sorted((trial for trial in apart if trial.loss_ratio > loss_ratio), key=lambda trial: trial.load_fps)
    for lowest, first in enumerate(losing):
        above = sum(trial.load_fps >= first.load_fps for trial in apart)
        if len(losing) - lowest >= NEARLY_ALL * above:
            return [trial for trial in losing[lowest:] if trial.load_fps <= first.load_fps * NEAR_LIMIT]
    return []


def _without(trial: Trial, reason: str) -> Trial:
    frames = sum(drop.frames for hop in trial.ledger.hops for drop in hop.drops if reason_of(drop) == reason)
    received = min(trial.offered, trial.received + frames)
    ledger = replace(trial.ledger, received=received, hops=tuple(_hop(hop, reason) for hop in trial.ledger.hops))
    return replace(trial, received=received, ledger=ledger)


def _hop(hop: Hop, reason: str) -> Hop:
    return replace(hop, drops=tuple(drop for drop in hop.drops if reason_of(drop) != reason))
