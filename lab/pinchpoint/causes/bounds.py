"""A rate against what bounds it: the device under overload, pauses that the rings bear, the generator. Pure.

A polling thread looks busy at any load: at a third of its load it spends four times the cycles on each packet, since
its batches are small. What it can do shows under overload, and there alone.

A device that stands still for t seconds loses nothing while its ring takes up load x t frames. Where it forwards more
under overload than it carries without loss, half of the trials meet a pause that is longer than that, or a burst.

A rate within reach of the generator's own ceiling is "at least", never found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from pinchpoint.account.facts import may_be_alike
from pinchpoint.model import units
from pinchpoint.model.groups import grouped
from pinchpoint.model.result import (
    CEILING_ERROR,
    FAR_BELOW_MRR,
    Ceiling,
    Limit,
    PauseGap,
    Rate,
    RateStatus,
    ReceiveRate,
)
from pinchpoint.model.trial import ThreadLoad, Trial

OVERLOAD: Final = 1.2  # times the rate, offered at least: what a device forwards of less may be all that was asked
TOP: Final = 0.9  # of the highest load: the trials from there on are overloads


@dataclass(frozen=True)
class Overload:
    """Trials at the highest load, medians; `rate_fps` is the rate that they are compared with."""

    rate_fps: float
    forwarded_fps: float
    cycles: Mapping[str, float]  # per packet, by forwarding thread

    @property
    def ndr_of_mrr(self) -> float:
        """The rate, of what the device forwards at most."""
        return self.rate_fps / self.forwarded_fps

    def busy_share(self, load: ThreadLoad, traffic_s: float) -> float | None:
        """Of a thread in another trial: the time that its packets would take under overload; else as it counted."""
        cycles = self.cycles.get(load.name)
        if cycles is None or not load.clock_hz or traffic_s <= 0:
            return load.busy_share
        needed = min(1.0, load.received / traffic_s * cycles / load.clock_hz)
        return needed if load.busy_share is None else min(needed, load.busy_share)


def overload(trials: Sequence[Trial], rate_fps: float | None) -> Overload | None:
    """What the trials at the highest loads show; None where none of them was an overload of that rate."""
    counted = [trial for trial in trials if trial.is_whole and trial.sent_duration_s > 0]
    highest_fps = max((trial.offered_fps for trial in counted), default=0.0)
    if not rate_fps or highest_fps < OVERLOAD * rate_fps:
        return None
    top = [trial for trial in counted if trial.offered_fps >= TOP * highest_fps]
    loads = (load for trial in top for load in trial.threads)
    cycles = grouped((load.name, load.cycles_per_packet) for load in loads if load.cycles_per_packet)
    forwarded_fps = median(trial.forwarded_fps for trial in top)
    medians = {name: median(costs) for name, costs in cycles.items()}
    return Overload(rate_fps, forwarded_fps, medians) if forwarded_fps else None


def pause_gap(ndr: Rate, mrr: ReceiveRate | None, ring: int) -> PauseGap | None:
    """The gap between an NDR and the MRR as a pause against a ring of `ring` frames; None where they lie near.

    Twice the ring bears the same pause at twice the load, up to what the device forwards.
    """
    if mrr is None or ndr.status is not RateStatus.FOUND or not ndr.quoted_fps:
        return None
    if (ndr.upper_fps or ndr.quoted_fps) >= FAR_BELOW_MRR * mrr.lower_fps:
        return None
    return PauseGap(ring, ring / ndr.quoted_fps, 2 * ring, min(2 * ndr.quoted_fps, mrr.estimate_fps))


def in_mode(ceilings: Sequence[Ceiling], distance_ns: float | None) -> Ceiling | None:
    """The newest that was measured while the cores were about `distance_ns` apart; None: none was.

    What was not probed, here or there, cannot tell modes apart, and fits.
    """
    fitting = [ceiling for ceiling in ceilings if may_be_alike(distance_ns, ceiling.distance_ns)]
    return max(fitting, key=lambda ceiling: ceiling.measured, default=None)


def held_against(rates: Sequence[Rate], ceiling: Ceiling | None, seen_fps: float | None) -> tuple[Rate, ...]:
    """The same rates, those within reach of the ceiling "at least"; `seen_fps` is the most that was offered here.

    Where that is more than the ceiling, the ceiling was only a lower bound and says nothing.
    """
    if ceiling is None or ceiling.is_surpassed(seen_fps):
        return tuple(rates)
    return tuple(_held(rate, ceiling) for rate in rates)


def _held(rate: Rate, ceiling: Ceiling) -> Rate:
    quoted = rate.quoted_fps
    told = rate.status in (RateStatus.FOUND, RateStatus.AT_LEAST)
    if not told or quoted is None or quoted < (1 - CEILING_ERROR) * ceiling.fps:
        return rate
    reason = (
        f"generator-limited: within {units.share(CEILING_ERROR)} of the {units.fps(ceiling.fps)} that the engine "
        "offers without the device"
    )
    rate = replace(rate, status=RateStatus.AT_LEAST, limited_by=Limit.GENERATOR, reason=reason)
    return replace(rate, upper_fps=None, estimate_fps=None, band=None)
