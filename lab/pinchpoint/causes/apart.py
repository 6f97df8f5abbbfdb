"""What else loses frames where drops of one kind take a share of them at any load. Pure.

The search ends with that share as its number, and its evidence lies at low loads. A second cause shows only in the
trials at higher loads, and there only once the frames of the first one are taken out of the account.
"""

from collections.abc import Sequence
from dataclasses import replace

from pinchpoint.causes.levels import NEAR_LIMIT
from pinchpoint.model.hops import DropKind
from pinchpoint.model.trial import Hop, Trial, TrialValidity

NEARLY_ALL = 0.9  # of the trials at a load and above must lose frames: a stray loss of the host does so in few


def losing_apart(trials: Sequence[Trial], kind: DropKind, loss_ratio: float) -> list[Trial]:
    """The trials at the lowest load from which nearly all lose more than `loss_ratio` apart from drops of a kind.

    The frames dropped so count as received in them.
    """
    apart = [_without(trial, kind) for trial in trials if trial.validity is TrialValidity.VALID]
    losing = sorted((trial for trial in apart if trial.loss_ratio > loss_ratio), key=lambda trial: trial.load_fps)
    for lowest, first in enumerate(losing):
        above = sum(trial.load_fps >= first.load_fps for trial in apart)
        if len(losing) - lowest >= NEARLY_ALL * above:
            return [trial for trial in losing[lowest:] if trial.load_fps <= first.load_fps * NEAR_LIMIT]
    return []


def _without(trial: Trial, kind: DropKind) -> Trial:
    frames = sum(drop.frames for hop in trial.ledger.hops for drop in hop.drops if drop.kind is kind)
    received = min(trial.offered, trial.received + frames)
    ledger = replace(trial.ledger, received=received, hops=tuple(_hop(hop, kind) for hop in trial.ledger.hops))
    return replace(trial, received=received, ledger=ledger)


def _hop(hop: Hop, kind: DropKind) -> Hop:
    return replace(hop, drops=tuple(drop for drop in hop.drops if drop.kind is not kind))
