"""A device that runs already, watched: what was read of it, and what that says."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pinchpoint.model.causes import Sign, Suspicion
from pinchpoint.model.offload import OffloadTruth
from pinchpoint.model.trial import Hop, PmdLoad


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


@dataclass(frozen=True)
class Reading:
    """One line of a recording: what changed since the reading before."""

    at_s: float  # seconds since 1970, UTC, when it was read
    elapsed_s: float
    differences: Mapping[str, int]
    gauges: Mapping[str, float]
    went_back: tuple[str, ...] = ()  # counters that were reset meanwhile


@dataclass(frozen=True)
class Watched:
    """What some seconds of a running device say."""

    seconds: float
    hops: tuple[Hop, ...]  # in the order of the path; counts are of these seconds
    threads: tuple[PmdLoad, ...]
    signs: Mapping[Sign, float]
    suspicions: tuple[Suspicion, ...]
    resets: tuple[str, ...] = ()
    offload: OffloadTruth | None = None  # None: no flow is said to be offloaded
