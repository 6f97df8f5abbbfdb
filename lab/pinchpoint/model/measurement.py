"""One run of a workload, or one build: what was asked, what was found, and who saw it happen.

A trial (model/trial.py) is one transmission of frames; a measurement is anything else
that is measured once: sockets that exchange bytes, rules or ports that are made.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pinchpoint.model.study import Bound
from pinchpoint.model.trial import ThreadLoad, TrialValidity

CARRIED = "that carried packets"
"""The note of a count of items, such as flows, of which only those in use are counted."""


@dataclass(frozen=True)
class Metric:
    """One figure with its interval; every measure yields some, and every curve is drawn from them."""

    name: str  # what it is, the same for every scenario: "NDR", "goodput", "rr p99", "cycles per packet"
    unit: str  # "fps", "bit/s", "1/s", "s", "ns", "cycles", "share", "count", "bytes", "x" (times)
    value: float
    low: float | None = None  # of the interval within this one measurement; None: none is known
    high: float | None = None
    note: str = ""  # what the value and its interval are; of a refused one the reason
    bound: Bound | None = None  # how to read the value; None: by its ends, one end alone being a bound
    cautions: tuple[str, ...] = ()  # what a reader must mind, a sentence each
    disturbed: bool = False  # no valid trial or window stands behind it; a caution says so

    @property
    def remarks(self) -> tuple[str, ...]:
        """Everything to say about the figure, the parts of its note first."""
        lead = ("refused",) if self.bound is Bound.REFUSED else ()
        return tuple(filter(None, (*lead, *self.note.split("; "), *self.cautions)))


@dataclass(frozen=True)
class LevelChange:
    """A rate that fell to less than half within one window, or rose to more than twice, and stayed there."""

    at_s: float  # since the window began
    before: float  # median rate before that; units of the measurement's first metric
    after: float  # median rate from then on


@dataclass(frozen=True)
class Measurement:
    """One measurement with its complete account."""

    id: str  # unique within the run, e.g. "flows-0003"
    scenario: str
    kind: str  # a MeasureKind's word
    repeat: int  # from 1, within the scenario
    started: str  # ISO 8601, UTC
    wall_s: float
    metrics: tuple[Metric, ...]
    account: Mapping[str, object]  # what the instrument answered, as plain data
    observed: Mapping[str, float]  # every counter difference and gauge, by collector
    threads: tuple[ThreadLoad, ...]
    validity: TrialValidity
    reason: str  # why not valid; empty when valid
    change: LevelChange | None = None  # the rate was not stationary in its own window; None: none was seen
