"""What a device did with the frames of one trial, as metrics: the load of its threads, and what its own counters say.

What was not counted is absent, never zero. A figure that one packet thread alone has is named without the thread, so
that curves from different machines line up; where several threads forward, each has its own figure too, named after it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pinchpoint.model.measurement import Metric
from pinchpoint.model.trial import PmdLoad, Trial

Own = Callable[[Mapping[str, float]], Iterable[Metric]]
"""What a device's own counters say of one trial."""


def of_trial(trial: Trial, own: Own) -> tuple[Metric, ...]:
    """What the DUT did with the frames of one trial: cycles, lookups, and what its own counters say."""
    return (*of_threads(trial.pmds), *own(trial.observed))


def of_threads(pmds: Sequence[PmdLoad]) -> Iterator[Metric]:
    """Of the threads that received frames: all together, then each by its name if there are several."""
    forwarding = [pmd for pmd in pmds if pmd.received > 0]
    if not forwarding:
        return
    yield from _load(forwarding, "")
    yield from _lookups(forwarding)
    if len(forwarding) > 1:
        for pmd in forwarding:
            yield from _load([pmd], f"{pmd.name}: ")


def _load(pmds: Sequence[PmdLoad], prefix: str) -> Iterator[Metric]:
    cycles = [pmd.cycles_per_packet for pmd in pmds if pmd.cycles_per_packet is not None]
    if len(cycles) == len(pmds):
        spent = math.fsum(each * pmd.received for each, pmd in zip(cycles, pmds, strict=True))
        yield Metric(f"{prefix}cycles per packet", "cycles", spent / sum(pmd.received for pmd in pmds))
    busy = [(pmd.busy_share, pmd.name) for pmd in pmds if pmd.busy_share is not None]
    if busy:
        share, name = max(busy)
        note = name if len(pmds) == 1 else f"{name}, the busiest of {len(pmds)}"
        yield Metric(f"{prefix}PMD busy", "share", share, note=note)


def _lookups(pmds: Sequence[PmdLoad]) -> Iterator[Metric]:
    """Where lookups were answered, as shares of all lookups; a recirculated frame is looked up again."""
    answered = {
        "simple match": _sum(pmd.simple_match_hits for pmd in pmds),
        "EMC": _sum(pmd.emc_hits for pmd in pmds),
        "SMC": _sum(pmd.smc_hits for pmd in pmds),
        "megaflow": _sum(pmd.megaflow_hits for pmd in pmds),
        "upcall": _sum(None if pmd.upcalls is None else pmd.upcalls + (pmd.lost_upcalls or 0) for pmd in pmds),
    }
    total = sum(count for count in answered.values() if count is not None)
    if total:
        for name, count in answered.items():
            if count is not None:
                yield Metric(f"{name} share", "share", count / total)
    received, recirculated = sum(pmd.received for pmd in pmds), _sum(pmd.recirculated for pmd in pmds)
    if recirculated is not None:
        yield Metric("passes per packet", "count", (received + recirculated) / received)


def _sum(counts: Iterable[int | None]) -> int | None:
    """Of those counted; None if none was."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
