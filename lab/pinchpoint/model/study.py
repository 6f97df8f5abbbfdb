"""Studies: scenarios that repeat a published experiment, the published figures, and what follows from both."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pinchpoint.model import units
from pinchpoint.model.measurement import Bound, Estimate, Interval
from pinchpoint.model.scenario import Factor, Level


@dataclass(frozen=True)
class SweepInfo:
    """How one scenario file was swept: what a report needs to draw its curve."""

    group: str  # the file's stem
    title: str
    measure: str
    factors: tuple[Factor, ...]
    repeats: int
    order: str
    seed: int


@dataclass(frozen=True)
class Refusal:
    """That repeats of a point were refused a number of one metric."""

    reason: str  # of the first of them; empty if it gave none
    repeats: int  # that were refused
    of: int  # measured repeats

    def __str__(self) -> str:
        share = f" in {self.repeats} of {self.of} repeats" if self.of > 1 else ""
        return f"refused{share}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class Ratio:
    """One estimate over another, as it is stored."""

    value: float
    low: float | None
    high: float | None
    bound: Bound = Bound.FOUND

    @property
    def interval(self) -> Interval:
        """The same, with its words."""
        return replace(Interval.of(self), bound=self.bound)


class Need(StrEnum):
    """What a bench must have where a conclusion rests on it. Emulated CPUs and nodes of a guest do not count."""

    CPUS = "cpus"  # how many
    NUMA_NODES = "numa_nodes"  # how many with CPUs
    KERNEL_DATAPATH = "kernel_datapath"  # the kernel forwards: 1, else 0
    NIC = "nic"  # ports are at cables: likewise
    HARDWARE_OFFLOAD = "hardware_offload"  # proven: likewise

    @property
    def is_counted(self) -> bool:
        """Whether there may be several of it."""
        return self in (Need.CPUS, Need.NUMA_NODES)

    def words(self, number: int) -> str:
        """E.g. `64 CPUs`, `2 physical NUMA nodes`."""
        named = {
            Need.CPUS: units.counted(number, "CPU"),
            Need.NUMA_NODES: units.counted(number, "physical NUMA node"),
            Need.KERNEL_DATAPATH: "the kernel's datapath",
            Need.NIC: "NICs",
            Need.HARDWARE_OFFLOAD: "a proven hardware offload",
        }
        return named[self]


@dataclass(frozen=True)
class CurvePoint:
    """One point of a sweep: what its repeats found together."""

    levels: Mapping[str, Level]
    outcome: str  # an Outcome's word; measured if one repeat was
    reason: str
    estimates: Mapping[str, Estimate]  # by metric
    verdict: str  # the headline of the first repeat's; empty if there is none
    invisible: str  # why the datapath did not see the factor here; empty if it did
    scenarios: tuple[str, ...]
    limit: str = ""  # a Limit's word, of the same verdict; empty if there is none
    notes: Mapping[str, str] = field(default_factory=dict)  # all remarks, by metric; on all of them under ""
    cautions: Mapping[str, tuple[str, ...]] | None = (
        None  # of the notes, what to mind; None: a run stored before it was
    )
    refusals: Mapping[str, Refusal] = field(default_factory=dict)  # by metric
    bench: Mapping[Need, int] | None = None  # what the benches of all repeats had; None: a run stored before it was
    limits: tuple[str, ...] = ()  # words of the repeats' limits, each once; empty: a run stored before it was

    def to_mind(self, metric: str) -> tuple[str, ...]:
        """What a reader must mind about a metric; under "" about all. A run without cautions has every note minded."""
        if self.cautions is not None:
            return self.cautions.get(metric, ())
        note = self.notes.get(metric, "")
        return (note,) if note else ()


@dataclass(frozen=True)
class Curve:
    """All points of one sweep, in the order of their levels."""

    group: str
    title: str
    measure: str
    factors: tuple[Factor, ...]
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True)
class PublishedPoint:
    """A published figure and the levels at which it was measured."""

    levels: Mapping[str, Level]
    value: float
    source: str = ""  # file and line; empty of a run stored before it was


@dataclass(frozen=True)
class Published:
    """One published curve, whose shape is compared with the measured one."""

    group: str
    metric: str
    unit: str
    factor: str  # the x axis
    title: str  # what was measured, on what
    points: tuple[PublishedPoint, ...]


@dataclass(frozen=True)
class FindingRequest:
    """One sentence that a study asks for; what each kind says: findings/findings.py."""

    kind: str
    group: str
    metric: str
    factor: str
    against: str  # another group, a metric or a level, as the kind wants it; empty if it wants none
    over: Mapping[str, Level] = field(default_factory=dict)  # of compare: the levels of the point that is divided
    under: Mapping[str, Level] = field(default_factory=dict)  # and of the one by which it is; empty: the largest common


@dataclass(frozen=True)
class Finding:
    """One sentence computed from the data, with its numbers."""

    text: str
    warning: bool  # something that a reader must mind rather than something found


@dataclass(frozen=True)
class Conclusion:
    """What the original concludes, as a comparison of two points with an expected outcome."""

    says: str  # in our words
    source: str  # where the original says so, or has the figures
    request: FindingRequest  # of kind compare, with the levels of both points
    least: float | None  # of the ratio that the sentence expects; None: as small as it may be
    most: float | None  # likewise
    needs: Mapping[Need, int] = field(default_factory=dict)  # what it rests on
    published: float | None = None  # the original's ratio, where no published curve has both points


class ConclusionOutcome(StrEnum):
    """What a run says of a conclusion. The value is its words."""

    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"  # only on a bench that has what the conclusion rests on
    NOT_DECIDABLE = "not decidable here"


@dataclass(frozen=True)
class JudgedConclusion:
    """A conclusion beside what was measured; ratios by the levels that both of their points share, as text."""

    conclusion: Conclusion
    outcome: ConclusionOutcome
    theirs: Mapping[str, float]
    ours: Mapping[str, Ratio]
    lacks: Mapping[Need, int | None]  # of what it rests on, how much the benches had; None: there was no bench
    reasons: tuple[str, ...]  # why it is not decidable, beside what the benches lack
    repeats: int = 0  # the fewest on which one of the numbers rests; 0: there is none


@dataclass(frozen=True)
class Step:
    """One step of an original that searched for a cause: a question that one scenario answers."""

    group: str
    question: str
    experiment: str
    published: str  # what the original saw at this step


@dataclass(frozen=True)
class Study:
    """A folder of scenarios that repeats a published experiment."""

    name: str
    title: str
    about: str
    source: str  # what the published figures were measured on
    published: tuple[Published, ...]
    findings: tuple[FindingRequest, ...]
    quick: bool  # run in its short form
    conclusions: tuple[Conclusion, ...] = ()  # the original's
    steps: tuple[Step, ...] = ()  # of an original that searched for a cause
