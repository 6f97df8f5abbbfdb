"""What a device's table of connections holds, how fast it is emptied, and how it ages. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from pinchpoint.measure.served import Flush
from pinchpoint.model import units
from pinchpoint.model.limits import Limit
from pinchpoint.model.measurement import Metric
from pinchpoint.model.study import Bound
from pinchpoint.search.burst import Bounds

CAPACITY, TEAR_DOWN, AGING = "capacity", "tear-down rate", "aging time"
MANY = 1000  # entries: fewer are forgotten in less time than a command takes to start
CLEAR = 2.0  # times what an empty table takes: a flush from here on shows what the entries take


@dataclass(frozen=True)
class Aging:
    """How long closed connections were remembered."""

    entries: int | None  # when the traffic had ended
    lasted_s: float | None  # until none was left, since the engine had ended; None: not measured
    words: str = ""  # why not; else empty


def least(limits: Sequence[Limit]) -> Limit | None:
    """The limit with the fewest places; None where no size is known."""
    known = [limit for limit in limits if limit.size is not None]
    return min(known, key=lambda limit: limit.size or 0, default=None)


def metrics(bounds: Bounds, limits: Sequence[Limit], flushes: Sequence[Flush], aging: Aging) -> Iterator[Metric]:
    """Capacity, tear-down rate, aging time, as far as they are known."""
    smallest = least(limits)
    note = f"held open at once; {smallest.resource} have {smallest.size:,} places" if smallest else "held open at once"
    bound = Bound.AT_LEAST if bounds.lossy is None else Bound.FOUND
    if bounds.lossless:
        lossless, lossy = float(bounds.lossless), None if bounds.lossy is None else float(bounds.lossy)
        yield Metric(CAPACITY, "count", lossless, lossless, lossy, note, bound)
    yield from _tear_down(flushes)
    if aging.lasted_s is not None:
        note = f"until none of {aging.entries or 0:,} closed ones was remembered"
        yield Metric(AGING, "s", aging.lasted_s, note=note)


def _tear_down(flushes: Sequence[Flush]) -> Iterator[Metric]:
    """Of the flush that had most to forget, less what a flush of an empty table takes (RFC 9693)."""
    full = max((flush for flush in flushes if flush.before), key=lambda flush: flush.before or 0, default=None)
    if full is None or not full.before:
        return
    empty_s = median([flush.took_s for flush in flushes if flush.before == 0] or [0.0])
    empty = f"of an empty table it takes {units.seconds(empty_s)}"
    note = f"{full.before:,} connections forgotten in {units.seconds(full.took_s)}, {empty}"
    if full.before >= MANY and full.took_s >= CLEAR * empty_s:
        yield Metric(TEAR_DOWN, "1/s", full.before / (full.took_s - empty_s), note=note)
    else:
        at_least = full.before / full.took_s
        yield Metric(TEAR_DOWN, "1/s", at_least, at_least, None, f"at least: {note}", Bound.AT_LEAST)
