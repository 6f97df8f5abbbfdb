"""The frames that trials lost, added up by reason and place. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pinchpoint.causes.levels import NEAR_LIMIT
from pinchpoint.model import units
from pinchpoint.model.hops import DropKind
from pinchpoint.model.trial import Drop, Hop, Trial, TrialValidity


@dataclass(frozen=True)
class Group:
    """Frames lost for the same reason, wherever that was."""

    limits: str  # whose doing, as in Drop
    drops: tuple[Drop, ...]  # of different names, the largest first, each with the frames of all trials

    @property
    def frames(self) -> int:
        """Frames lost for this reason at all places together."""
        return sum(drop.frames for drop in self.drops)

    @property
    def kind(self) -> DropKind:
        """Of the place at which most were lost."""
        return self.drops[0].kind

    @property
    def port(self) -> str:
        """The port at which most were lost; empty if they were lost at none."""
        return self.drops[0].port

    def words(self) -> str:
        """The reason, with the place where it met most frames."""
        first = self.drops[0]
        if len(self.drops) == 1:
            return first.name
        several = first.reason.replace("{port}", f"{len(self.drops)} ports")
        return f"{several}, {units.share(first.frames / self.frames)} of them: {first.name}"


def by_reason(trials: Sequence[Trial]) -> list[Group]:
    """What counters name, added up by reason first and by place second; most frames first."""
    by_name: dict[str, Drop] = {}
    for drop in (drop for trial in trials for hop in trial.ledger.hops for drop in hop.drops):
        seen = by_name.get(drop.name)
        by_name[drop.name] = replace(drop, frames=drop.frames + (seen.frames if seen else 0))
    reasons: dict[tuple[str, str], list[Drop]] = {}
    for drop in sorted(by_name.values(), key=lambda drop: -drop.frames):
        if drop.frames:
            reasons.setdefault((drop.reason or drop.name, drop.limits), []).append(drop)
    groups = [Group(limits, tuple(drops)) for (_, limits), drops in reasons.items()]
    return sorted(groups, key=lambda group: -group.frames)


def named(groups: Sequence[Group]) -> tuple[str, ...]:
    """The most frequent drops that counters name, each a sentence."""
    drops = sorted((drop for group in groups for drop in group.drops), key=lambda drop: -drop.frames)
    return tuple(f"{units.frames(drop.frames)} of them: {drop.name} ({drop.counter})" for drop in drops[:4])


def shares(groups: Sequence[Group], frames: int) -> str:
    """The three largest groups, each with its share of `frames`."""
    return ", ".join(f"{units.share(group.frames / frames)} {group.words()}" for group in groups[:3])


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
