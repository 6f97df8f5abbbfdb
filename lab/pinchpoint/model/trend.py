"""One metric of one scenario over stored runs, and where its level changed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TrendRun:
    """What one run says about the metric."""

    run_id: str
    started: str  # ISO 8601, UTC
    value: float
    low: float | None  # of the run's own interval; None: none is known
    high: float | None
    changed: tuple[str, ...]  # what differs from the run before: host, versions, distance of the cores


@dataclass(frozen=True)
class TrendSegment:
    """Runs `first` to `end` - 1, of one level."""

    first: int
    end: int
    value: float  # the median of the runs
    low: float
    high: float
    interval: str  # what low and high are


@dataclass(frozen=True)
class TrendChange:
    """Where one segment ends and the next begins."""

    run_id: str  # the first run of the new level
    started: str
    ratio: float | None  # new level / old one; None: the old one is 0
    worse: bool
    changed: tuple[str, ...]  # what differs between the last run before and this one


@dataclass(frozen=True)
class Trend:
    """A metric over runs of one definition, in the order of their start."""

    scenario: str
    metric: str
    unit: str
    definition: str  # of a rate; empty for other metrics
    runs: tuple[TrendRun, ...]
    segments: tuple[TrendSegment, ...]  # empty without runs
    changes: tuple[TrendChange, ...]  # one fewer than segments
    left_out: tuple[str, ...]  # runs that cannot be compared with the newest one, each with the reason
    fewest: int  # runs below which no change can be distinguished from chance

    @property
    def too_few(self) -> bool:
        """Whether there are too few runs to tell a change from chance."""
        return len(self.runs) < self.fewest

    @property
    def worse(self) -> bool:
        """Whether the latest level is worse than the one before it."""
        return bool(self.changes) and self.changes[-1].worse
