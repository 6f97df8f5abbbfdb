"""Latency histograms of several engines, added up: percentiles cannot be.

The engine sends HdrHistogram's V2 compressed form in base64 (protocol/README.md, "Latency").
Format: HistogramLogWriter's payload as in the reference implementation's EncodableHistogram,
cookies 0x1c849314 (compressed) and 0x1c849313, counts as ZigZag LEB128 with runs of zeros negative.
"""

import base64
import binascii
import math
import struct
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from pinchpoint.engine.streams import Latency
from pinchpoint.model.errors import EngineError
from pinchpoint.model.trial import LatencySummary

_COMPRESSED, _PLAIN = 0x1C849314, 0x1C849313
_HEADER = struct.Struct(">iiiiqqd")  # cookie, payload bytes, offset, digits, lowest, highest, ratio
_OUTER = struct.Struct(">ii")  # cookie, compressed bytes
_MOST_BYTES = 64 * 1024 * 1024
_VARINT_BYTES = 9
_CURVE = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)


def decode(text: str) -> Counter[int]:
    """Value in nanoseconds -> how often, each value the highest of its bucket. Raises EngineError."""
    try:
        return _decode(base64.b64decode(text, validate=True))
    except (binascii.Error, struct.error, zlib.error, ValueError, IndexError) as error:
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


def _decode(data: bytes) -> Counter[int]:
    cookie, size = _OUTER.unpack_from(data)
    if cookie != _COMPRESSED:
        raise ValueError(f"cookie {cookie:#x}")
    plain = zlib.decompressobj().decompress(data[_OUTER.size : _OUTER.size + size], _MOST_BYTES)
    cookie, size, _, digits, lowest, _, _ = _HEADER.unpack_from(plain)
    if cookie != _PLAIN or not 0 <= digits <= 5 or lowest < 1:
        raise ValueError(f"cookie {cookie:#x}, {digits} digits, lowest {lowest}")
    unit, half = lowest.bit_length() - 1, max(1, math.ceil(math.log2(2 * 10**digits))) - 1
    counts: Counter[int] = Counter()
    index = 0
    for count in _counts(plain[_HEADER.size : _HEADER.size + size]):
        if count < 0:
            index -= count
            continue
        if index >= (65 - half) << half:
            raise ValueError(f"index {index} is beyond 64-bit values")
        if count:
            counts[_highest(index, unit, half)] += count
        index += 1
    return counts


def _counts(payload: bytes) -> Iterator[int]:
    """ZigZag LEB128 of at most nine bytes, the ninth with eight bits."""
    place = 0
    while place < len(payload):
        raw = shift = 0
        for number in range(_VARINT_BYTES):
            byte = payload[place]
            place += 1
            last = number == _VARINT_BYTES - 1
            raw |= (byte if last else byte & 0x7F) << shift
            shift += 7
            if last or not byte & 0x80:
                break
        yield (raw >> 1) ^ -(raw & 1)


def _highest(index: int, unit: int, half: int) -> int:
    """The highest value that is counted at an index: buckets are halves of doubling resolution.

    `unit` and `half` are the logarithms to base 2 of the lowest value and of half a bucket's slots.
    """
    bucket = max(0, (index >> half) - 1)
    return ((index - (bucket << half) + 1) << (bucket + unit)) - 1
