"""HdrHistogram's V2 compressed form in base64, the form in which latency histograms are exchanged.

HistogramLogWriter's payload as in the reference implementation's EncodableHistogram: cookies 0x1c849314 (compressed)
and 0x1c849313, counts as ZigZag LEB128 with runs of zeros negative.
"""

import base64
import math
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping

_COMPRESSED, _PLAIN = 0x1C849314, 0x1C849313
_HEADER = struct.Struct(">iiiiqqd")  # cookie, payload bytes, offset, digits, lowest, highest, ratio
_OUTER = struct.Struct(">ii")  # cookie, compressed bytes
_MOST_BYTES = 64 * 1024 * 1024
_VARINT_BYTES = 9
_DIGITS, _HALF = 3, 10  # of what is encoded: its digits, and the logarithm to base 2 of half a bucket's slots


def decode(text: str) -> Counter[int]:
    """Value -> how often, each value the highest of its bucket. Raises ValueError."""
    try:
        return _decode(base64.b64decode(text, validate=True))
    except (struct.error, zlib.error, IndexError) as error:
        raise ValueError(str(error)) from error


def encode(counts: Mapping[int, int]) -> str:
    """Of values and how often each was seen, with three significant digits."""
    slots: Counter[int] = Counter()
    for value, count in counts.items():
        slots[_slot(value)] += count
    payload, following = bytearray(), 0
    for slot, count in sorted(slots.items()):
        if slot > following:
            payload += _varint(following - slot)
        payload += _varint(count)
        following = slot + 1
    plain = _HEADER.pack(_PLAIN, len(payload), 0, _DIGITS, 1, max(2, *counts), 1.0) + bytes(payload)
    packed = zlib.compress(plain)
    return base64.b64encode(_OUTER.pack(_COMPRESSED, len(packed)) + packed).decode()


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


def _varint(number: int) -> bytes:
    """As `_counts` reads it."""
    raw, encoded = (number << 1) ^ (number >> 63), bytearray()
    while raw > 0x7F and len(encoded) < _VARINT_BYTES - 1:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)


def _slot(value: int) -> int:
    """Where a value is counted: buckets are halves of doubling resolution."""
    bucket = max(0, value.bit_length() - _HALF - 1)
    return (bucket << _HALF) + (value >> bucket)


def _highest(index: int, unit: int, half: int) -> int:
    """The highest value that is counted at an index.

    `unit` and `half` are the logarithms to base 2 of the lowest value and of half a bucket's slots.
    """
    bucket = max(0, (index >> half) - 1)
    return ((index - (bucket << half) + 1) << (bucket + unit)) - 1
