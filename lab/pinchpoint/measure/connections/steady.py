"""The rate at which connections are completed for as long as they come, from loads longer than any queue. Pure.

What fills queues and tables at a load's beginning is no rate: only the load's second half counts, as samples have it. A
load above what is carried shows the rate under overload, which may be less than that of a load just above it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.causes.exhausted import exhausted
from pinchpoint.causes.signature import Candidate
from pinchpoint.engine.connections import SAMPLED_S
from pinchpoint.measure.served import Opened
from pinchpoint.model import units
from pinchpoint.model.limits import Limit

MOST_LOADS: Final = 3
ALL: Final = 0.97  # of what was offered: carried
_SETTLED: Final = 0.5  # of a load's time
_MORE: Final = 1.5  # times a load that was carried
_ABOVE: Final = 0.1  # of what an overload left to be completed: by so much a load just above it is more
_FILLS: Final = 1.1  # times what goes into a burst, that has to come within the first half
_ROOM: Final = 0.9  # of the places that a load may take
_LEAST_S: Final = 1.0  # of a load: a shorter one is a burst
SHORTEST_S: Final = 4 * SAMPLED_S  # of a load whose second half has two samples


@dataclass(frozen=True)
class CompletedRate:
    """What a long load came to once its queues had settled."""

    offered_cps: float
    completed_cps: float
    window_s: float
    worker: str  # the busiest forwarding thread with its share; empty: none says
    ended: Sequence[Candidate]  # empty: all was completed, but for what failed without an overload
    failed: int = 0  # connections of the whole load

    @property
    def is_carried(self) -> bool:
        """Whether more would have been completed: the rate is "at least"."""
        return not self.ended


def settled(limits: Sequence[Limit], opened: Opened) -> CompletedRate | None:
    """What a load came to in its second half; None where its samples do not cover that."""
    opening_s, samples = opened.load.opening_s, opened.seen.account.samples
    within = [sample for sample in samples if _SETTLED * opening_s <= sample.elapsed_s <= opening_s]
    if len(within) < 2:
        return None
    first, last = within[0], within[-1]
    window_s = last.elapsed_s - first.elapsed_s
    offered_cps = (last.opened + last.shortfall - first.opened - first.shortfall) / window_s
    completed_cps = (last.completed - first.completed) / window_s
    busiest = max(opened.seen.threads, key=lambda thread: thread.busy_share or 0.0, default=None)
    worker = f"{busiest.name} {units.share(busiest.busy_share)} busy" if busiest and busiest.busy_share else ""
    ended = exhausted(limits, [opened.seen]) if completed_cps < ALL * offered_cps else ()
    return CompletedRate(offered_cps, completed_cps, window_s, worker, ended, sum(opened.client.failures.values()))


def least_s(trial_s: float) -> float:
    """Of a load at the burst rate of such trials: its first half takes what they take in a burst."""
    return max(_LEAST_S, trial_s / _SETTLED)


def next_cps(load_cps: float, steady: CompletedRate, burst: float, lasting_s: float, most_cps: float) -> float | None:
    """A load that may complete more, for `lasting_s`; None: this one tells enough.

    `burst`: connections that are taken at once, above those that are completed for long.
    """
    if steady.is_carried:
        return min(_MORE * load_cps, most_cps) if load_cps < most_cps else None
    surplus_cps = max(_ABOVE * steady.completed_cps, _FILLS * burst / (_SETTLED * lasting_s))
    lower_cps = steady.completed_cps + surplus_cps
    return lower_cps if 0 < lower_cps < ALL * load_cps else None


def room(limits: Sequence[Limit], load_cps: float, life_s: float) -> tuple[float, str]:
    """For how long a load finds places that no connection before it has had, and whose they are; empty: for ever."""
    lasting = [(float("inf"), "")]
    for limit in limits:
        if limit.size and limit.held_s is not None and load_cps * (limit.held_s + life_s) > limit.size:
            lasting.append((_ROOM * limit.size / load_cps, f"{limit.resource}: {limit.size:,} places"))
    return min(lasting)
