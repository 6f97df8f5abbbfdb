"""Latency histograms of several engines, added up: percentiles cannot be.

The engine sends HdrHistogram's V2 compressed form in base64 (protocol/README.md, "Latency").
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from pinchpoint.engine.streams import Latency
from pinchpoint.model import hdr
from pinchpoint.model.errors import EngineError
from pinchpoint.model.trial import LatencySummary

_CURVE = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)


def decode(text: str) -> Counter[int]:
    """Value in nanoseconds -> how often, each value the highest of its bucket. Raises EngineError."""
    try:
        return hdr.decode(text)
    except ValueError as error:
        raise EngineError(f"the engine sent a histogram that cannot be read: {error}: {text[:60]!r}") from error


def merged(parts: Sequence[Latency]) -> LatencySummary | None:
    """The distribution of all values together; None if there is none. Raises EngineError.

    Minimum, maximum, mean and standard deviation are exact, percentiles as fine as the histograms.
    """
    parts = [part for part in parts if part.count]
    if not parts:
        return None
    counts: Counter[int] = Counter()
    for part in parts:
        counts.update(decode(part.histogram))
    total, least, most = sum(counts.values()), min(p.min_ns for p in parts), max(p.max_ns for p in parts)
    if total != sum(part.count for part in parts):
        raise EngineError(f"the engine's histograms hold {total} values, its accounts another number")
    values = sorted(counts)
    up_to = list(accumulate(counts[value] for value in values))  # how many are at most as high as each
    ranks = {quantile: bisect_left(up_to, max(1, math.ceil(quantile * total))) for quantile in _CURVE}
    curve = {quantile: min(max(values[rank], least), most) for quantile, rank in ranks.items()}
    curve |= {0.0: least, 1.0: most}
    mean_ns = math.fsum(part.mean_ns * part.count for part in parts) / total
    squares = math.fsum(part.count * (part.stddev_ns**2 + (part.mean_ns - mean_ns) ** 2) for part in parts)
    stddev_ns, steps = math.sqrt(squares / total), tuple(sorted(curve.items()))
    p50, p90, p99, p999, p9999 = (curve[q] for q in _CURVE[1:-1])
    return LatencySummary(total, least, mean_ns, p50, p90, p99, p999, p9999, most, steps, stddev_ns=stddev_ns)
