"""A device that runs already, watched: what was read of it, and what that says."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pinchpoint.model.causes import Sign, Suspicion
from pinchpoint.model.offload import OffloadTruth
from pinchpoint.model.trial import Hop, ThreadLoad


@dataclass(frozen=True)
class RecordHead:
    """The first line of a recording: what is watched."""

    schema: int
    kind: str  # of device
    variant: str  # which of the kind's hop graphs; a word of the device's own
    place: str  # where it was found
    ports: tuple[str, ...]
    host: str
    started: str  # ISO 8601, UTC
    facts: Mapping[str, str] = field(default_factory=dict)  # versions
    unread: Mapping[str, str] = field(default_factory=dict)  # what could not be read, and why
    are_totals: bool = False  # text that a device printed once: counts since it began, over a time that is not known
    truncated: Mapping[str, str] = field(default_factory=dict)  # of texts: files of which only the begin was read
    missing: Mapping[str, str] = field(default_factory=dict)  # of texts: commands, and what they would show


@dataclass(frozen=True)
class TextReading:
    """What a device printed once, read from texts: totals since it began to count."""

    variant: str  # as of a RecordHead, and so the rest
    ports: tuple[str, ...]
    facts: Mapping[str, str]
    missing: Mapping[str, str]
    elapsed_s: float  # in which its threads counted; 1 where that is not known: shares do not depend on it
    counters: Mapping[str, int]
    gauges: Mapping[str, float]


@dataclass(frozen=True)
class Reading:
    """One line of a recording: what changed since the reading before."""

    at_s: float  # seconds since 1970, UTC, when it was read
    elapsed_s: float
    differences: Mapping[str, int]
    gauges: Mapping[str, float]
    went_back: tuple[str, ...] = ()  # counters that were reset meanwhile
    unpaired: tuple[str, ...] = ()  # counters of what was made or removed meanwhile


@dataclass(frozen=True)
class Crossing:
    """What went over a wire in one direction."""

    sent: int  # frames, by the device at one end
    received: int  # by the device at the other end
    unsure: int  # frames of the readings that the ends of the time cut in two

    @property
    def lost(self) -> int:
        """Frames that vanished between the two counters for certain; 0 where the readings' ends may be all of it."""
        missing = self.sent - self.received
        return missing if missing > self.unsure else 0


@dataclass(frozen=True)
class Wire:
    """Between two devices of a path."""

    hosts: tuple[str, str]
    ports: tuple[str, str]  # empty: the rates did not tell which, and all ports are counted together
    there: Crossing  # from the first to the second
    back: Crossing
    ahead_s: float | None  # the second host's clock; None: the rates did not tell, and both were believed


@dataclass(frozen=True)
class Joined:
    """What several devices along one path say of the same time."""

    seconds: float
    hosts: tuple[tuple[str, "Watched"], ...]  # in the order of the path
    wires: tuple[Wire, ...]  # one between each two


@dataclass(frozen=True)
class Watched:
    """What some seconds of a running device say."""

    seconds: float  # 0: counts are totals since it began
    hops: tuple[Hop, ...]  # in the order of the path; counts are of these seconds
    threads: tuple[ThreadLoad, ...]
    signs: Mapping[Sign, float]
    suspicions: tuple[Suspicion, ...]
    resets: tuple[str, ...] = ()
    offload: OffloadTruth | None = None  # None: no flow is said to be offloaded
    waited: Mapping[str, float] = field(default_factory=dict)  # forwarding thread -> share of the time without its core
    unread: Mapping[str, str] = field(default_factory=dict)  # what could not be read, and why
    unsure: Mapping[str, int] = field(default_factory=dict)  # place -> frames of drops that may not be counted yet
    left_out: int = 0  # readings, since ports or threads came or went, or counters were reset meanwhile
    truncated: Mapping[str, str] = field(default_factory=dict)  # as of a RecordHead
    missing: Mapping[str, str] = field(default_factory=dict)  # likewise
