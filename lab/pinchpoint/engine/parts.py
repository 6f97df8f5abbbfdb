"""What messages of the seam are made of, and what several of them share (protocol/README.md)."""

from typing import Literal

import msgspec

Status = Literal["completed", "stopped", "aborted"]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all parts of a message."""


class Message(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True, kw_only=True):
    """Base of all messages; `type` tells them apart."""


class Latency(Part, frozen=True):
    """A distribution of times."""

    count: int
    min_ns: int
    mean_ns: float
    stddev_ns: float
    max_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    p9999_ns: int
    curve: tuple[tuple[float, int], ...]
    histogram: str
