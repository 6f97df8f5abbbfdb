"""Histograms of several engines, added up."""

import base64
import json
import struct
import zlib
from collections import Counter
from contextlib import suppress
from pathlib import Path
from statistics import pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.engine.histogram import decode, merged
from pinchpoint.engine.streams import Latency
from pinchpoint.model import hdr
from pinchpoint.model.errors import EngineError

GOLDEN = Path(__file__).parents[3] / "protocol" / "golden"
DIGITS = 3
HALF = 1024  # slots of half a bucket with three digits


def index_of(value):
    """Where HdrHistogram counts a value, from its own definition: 2,048 slots, doubling from there."""
    bucket = max(0, value.bit_length() - 11)
    return (bucket + 1) * HALF + (value >> bucket) - HALF


def zigzag(number):
    raw, encoded = (number << 1) ^ (number >> 63), bytearray()
    while raw > 0x7F and len(encoded) < 8:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)


def encoded(values):
    counts = {}
    for value in values:
        counts[index_of(value)] = counts.get(index_of(value), 0) + 1
    payload, at = b"", 0
    for index, count in sorted(counts.items()):
        if index > at:
            payload += zigzag(-(index - at))
        payload += zigzag(count)
        at = index + 1
    plain = struct.pack(">iiiiqqd", 0x1C849313, len(payload), 0, DIGITS, 1, 1 << 40, 1.0) + payload
    packed = zlib.compress(plain)
    return base64.b64encode(struct.pack(">ii", 0x1C849314, len(packed)) + packed).decode()


def latency(values):
    mean = sum(values) / len(values)
    return Latency(len(values), min(values), mean, pstdev(values), max(values), 0, 0, 0, 0, 0, (), encoded(values))


NANOSECONDS = st.lists(st.integers(1, 10**11), min_size=1, max_size=200)


@given(NANOSECONDS)
def test_every_value_is_found_again_within_the_histograms_precision(values):
    histogram = decode(encoded(values))
    assert sum(histogram.values()) == len(values)
    for element, exact in zip(sorted(histogram.elements()), sorted(values), strict=True):
        assert exact <= element <= exact * (1 + 2 * 10**-DIGITS) + 1


@given(NANOSECONDS)
def test_what_is_encoded_here_is_what_the_engine_would_have_sent(values):
    assert decode(hdr.encode(Counter(values))) == decode(encoded(values))


@given(NANOSECONDS, NANOSECONDS)
def test_percentiles_of_two_engines_are_those_of_all_their_values(first, second):
    both = merged([latency(first), latency(second)])
    everything = sorted(first + second)
    assert both.count == len(everything)
    assert (both.min_ns, both.max_ns) == (everything[0], everything[-1])
    assert both.mean_ns == pytest.approx(sum(everything) / len(everything))
    assert both.stddev_ns == pytest.approx(pstdev(everything), abs=1e-3 * both.mean_ns)
    median = everything[-(-len(everything) // 2) - 1]
    assert median <= both.p50_ns <= median * 1.002 + 1
    assert list(both.curve) == sorted(both.curve)


def test_the_slow_half_of_one_engine_is_not_averaged_away():
    both = merged([latency([1000] * 99), latency([1_000_000] * 99)])
    assert both.p50_ns == pytest.approx(1000, rel=0.002)
    assert both.p99_ns == pytest.approx(1_000_000, rel=0.002)


def test_the_engines_own_example_is_read():
    messages = [json.loads(line) for line in (GOLDEN / "sockets.jsonl").read_text().splitlines()]
    told = next(message for message in messages if message["type"] == "sockets_result")["runs"][0]["latency"]
    assert sum(decode(told["histogram"]).values()) > 0


def test_nothing_measured_is_none():
    assert merged([]) is None


@pytest.mark.parametrize("text", ["", "no base64!", "AAAA", base64.b64encode(b"\x1c\x84\x93\x14\0\0\0\4junk").decode()])
def test_what_is_no_histogram_is_refused_with_its_beginning(text):
    with pytest.raises(EngineError, match="cannot be read"):
        decode(text)


@given(st.binary(max_size=200))
def test_foreign_bytes_end_in_an_engine_error_or_a_histogram(data):
    packed = zlib.compress(struct.pack(">iiiiqqd", 0x1C849313, len(data), 0, 3, 1, 1 << 40, 1.0) + data)
    text = base64.b64encode(struct.pack(">ii", 0x1C849314, len(packed)) + packed).decode()
    with suppress(EngineError):
        decode(text)
