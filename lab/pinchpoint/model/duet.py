"""A duet: two benches that stand at once, overloaded in alternating slices of one request (A B B A ...)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

FORWARDED = "forwarded rate under overload"
"""The metric that slices measure: what the device forwards while it is offered more than it can carry."""

RELATIVE = "relative rate"
"""The metric of a sweep's point: its forwarded rate under overload, as a multiple of its reference's."""

SIDES = ("A", "B")
"""The two benches; A is the reference."""


def pair_order(number: int) -> tuple[str, str]:
    """Who comes first in the pair of this number, from 0: A B, B A, A B, ..., so that a drift meets both alike."""
    a, b = SIDES
    return (a, b) if number % 2 == 0 else (b, a)


CALIBRATION = "calibration"
MEASURED = "measured"


@dataclass(frozen=True)
class Slicing:
    """How time is cut."""

    length_s: float  # of a slice, from its begin to its end
    settle_s: float  # after a switch to the other bench: nothing is sent yet
    discard_s: float  # after that: sent, but not counted
    in_a_row: int = 1  # slices that make one of A B B A
    warming: int = 0  # of the first slices after a thaw: counted, but not compared; fewer than in_a_row


@dataclass(frozen=True)
class Slice:
    """What the engine counted in one slice; what it discarded after a switch is not part of it."""

    side: str  # "A" or "B"
    at_s: float  # begin of what is counted, since the stretch began
    length_s: float  # of what is counted
    offered: int
    refused: int  # of those offered: the port's ring did not take them
    received: int
    gap_s: float  # in which the engine's core stood still
    thawed: bool  # the slice before was of the other bench
    switch_s: float | None = None  # to switch benches, one frozen and the other thawed; None: not thawed


@dataclass(frozen=True)
class Stretch:
    """One request to the engine: some seconds of alternating slices. A line of slices.jsonl."""

    id: str
    phase: str  # CALIBRATION or MEASURED
    started: str  # ISO 8601, UTC
    wall_s: float
    load_fps: float  # offered to the bench whose turn it is
    ring: int  # descriptors of the shortest port
    slicing: Slicing
    slices: tuple[Slice, ...]
    reason: str = ""  # why it ended before its time; empty if it did not
    cache_line_ns: float | None = None  # from the engine's core to the switches' core, mean of before and after
    benches: int = 1  # number of the two benches it was measured on: both are built anew several times
    scenario: str = ""  # B, a point of a sweep whose reference is A; empty: of a comparison


@dataclass(frozen=True)
class DuetMoment:
    """The rates of both benches at one time."""

    at_s: float  # of measured time, since the first slice
    a_fps: float
    b_fps: float


@dataclass(frozen=True)
class Thaw:
    """What a freeze costs the bench after it."""

    switch_s: float | None  # median time to freeze one bench and thaw the other; None: nothing was frozen
    early_loss: float | None  # share by which less is forwarded in the first milliseconds; None: not measured
    residual_loss: float | None  # the same of what is counted, against slices without a thaw before them


@dataclass(frozen=True)
class DuetSummary:
    """How a duet was measured, and what of it was used."""

    slicing: Slicing
    load_fps: float  # of the last stretch
    slices: int  # made
    used: int  # in a quad that was compared
    discarded: Mapping[str, int]  # reason -> slices
    quads: int  # A B B A: made
    quads_used: int
    thaw: Thaw
    benches: int = 1  # how many times both were built
    series: tuple[DuetMoment, ...] = field(default_factory=tuple)
