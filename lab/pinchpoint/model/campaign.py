"""Campaigns: a matrix of points, and the machines that measure it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pinchpoint.model.study import SweepInfo

HERE = "here"
"""The name of this machine where a campaign file names none."""


@dataclass(frozen=True)
class Bench:
    """A machine that measures one unit at a time."""

    name: str
    address: str = ""  # a destination of ssh(1); empty: this machine, a node of a cluster, or a site
    hosts: Mapping[str, str] = field(default_factory=dict)  # of a site: by the scenarios' names, destinations of ssh(1)
    sudo: bool = True  # whether root is reached by it where the user is not root
    labels: tuple[str, ...] = ()
    cpus: int | None = None  # None: not known
    cost_per_hour: float = 0.0  # of measuring, in any currency

    @property
    def addresses(self) -> tuple[str, ...]:
        """The machines that it is made of, by ssh; empty: this machine, or a node of a cluster."""
        return tuple(self.hosts.values()) or ((self.address,) if self.address else ())


@dataclass(frozen=True)
class Requirement:
    """Which machines may measure a unit."""

    labels: tuple[str, ...] = ()  # all of them
    cpus: int = 0  # at least
    only_on: tuple[str, ...] = ()  # empty: on any
    not_on: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()  # that a site has under these names, at least; empty: a machine that is no site

    def met_by(self, bench: Bench) -> bool:
        """Whether that machine may; one whose number of CPUs is not known may try."""
        is_named = (not self.only_on or bench.name in self.only_on) and bench.name not in self.not_on
        has_all = set(self.labels) <= set(bench.labels) and (bench.cpus is None or self.cpus <= bench.cpus)
        return is_named and has_all and self.is_placed_on(bench)

    def is_placed_on(self, bench: Bench) -> bool:
        """Whether the hosts that the scenario names are there: all of them at a site, and none at any other machine."""
        return set(self.hosts) <= set(bench.hosts) if self.hosts else not bench.hosts


@dataclass(frozen=True)
class Unit:
    """One measurement that a campaign needs; its scenario has the same name."""

    name: str
    point: str  # which other machines, and other repeats, measure as well
    repeat: int
    requirement: Requirement
    expected_s: float
    priority: int = 0  # the highest first
    coarse: int = 0  # with a budget the lowest first
    programs: Mapping[str, str] = field(default_factory=dict)  # keys that only a command line may set


@dataclass(frozen=True)
class Control:
    """A scenario that every machine measures again and again."""

    unit: Unit
    scenario: Mapping[str, object]  # plain
    every_s: float
    tolerance: float  # the largest difference, as a share, that a machine may have


@dataclass(frozen=True)
class Campaign:
    """What `campaign.json` holds: enough to go on with it. The scenarios of the units stand in `run.json`."""

    name: str
    title: str
    units: tuple[Unit, ...]
    benches: tuple[Bench, ...]  # empty: the nodes of a cluster, or this machine
    sweeps: tuple[SweepInfo, ...]
    every_machine: bool  # measures every point; otherwise any does
    retries: int  # of a unit that failed
    budget_s: float | None = None
    budget_cost: float | None = None
    control: Control | None = None
    ceiling: bool = True  # whether the engine's own highest rate is measured


class What(StrEnum):
    """What a line of a campaign's log says of an attempt or a machine."""

    BEGUN = "begun"
    FINISHED = "finished"
    FAILED = "failed"
    IMPOSSIBLE = "impossible"  # on that machine
    LOST = "lost"  # its machine has vanished
    INTERRUPTED = "interrupted"
    WITHDRAWN = "withdrawn"  # finished, on a machine that was excluded
    SKIPPED = "skipped"  # no time or money was left for the unit
    EXCLUDED = "excluded"  # a machine
    RETURNED = "returned"  # a machine, excluded by an earlier start of the campaign


@dataclass(frozen=True)
class Entry:
    """One line of `attempts.jsonl`."""

    what: What
    at: str  # ISO 8601, UTC
    unit: str = ""
    attempt: str = ""
    machine: str = ""
    wall_s: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class MachineFactor:
    """How a machine's figures relate to the others' at equal points."""

    machine: str
    factor: float  # its figures over the median machine's
    low: float
    high: float
    n: int  # figures it rests on


@dataclass(frozen=True)
class Exclusion:
    """A machine that measures no more."""

    machine: str
    reason: str
    since: int  # its first control figure that is not what the others, or it itself, had; 0: all


@dataclass(frozen=True)
class Calibration:
    """`calibration.json`: how machines differ, and which are excluded for it."""

    figure: str  # what was compared, e.g. "the first figure of every point measured on several machines"
    confidence: float
    factors: tuple[MachineFactor, ...]
    machine_sd: float | None  # of the machines' effects, as a share; None: too little to tell
    repeat_sd: float | None  # of repeats on one machine
    exclusions: tuple[Exclusion, ...]
    controls: Mapping[str, tuple[float, ...]]  # by machine, in order of time


@dataclass(frozen=True)
class MachineProgress:
    """What one machine does, and has done."""

    name: str
    state: str  # "measures", "idle", "gone" or "excluded"
    unit: str = ""  # that it measures
    measured: int = 0  # units that count
    lost: int = 0
    reason: str = ""  # why excluded


@dataclass(frozen=True)
class Progress:
    """`machines.json`: how far a campaign is, and what each machine does."""

    at: str  # ISO 8601, UTC
    units: int
    measured: int
    left_out: int  # failed, impossible or skipped
    withdrawn: int
    left_s: float | None  # until the campaign ends, about
    cost: float
    machines: tuple[MachineProgress, ...]
