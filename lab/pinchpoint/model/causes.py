"""What may limit a device, and what speaks for it: observations of one kind each, suspicions, counter-experiments."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pinchpoint.model import units
from pinchpoint.model.hops import DropKind


class Sign(StrEnum):
    """One observation of losing trials, whatever a device calls its counters. Shares are between 0 and 1."""

    BUSY = "busy share of the busiest forwarding thread"
    IDLEST = "busy share of the idlest forwarding thread"
    CYCLES = "cycles per packet"
    NDR_OF_MRR = "rate without loss, of the most that the device forwards"
    PASSES = "passes through the datapath for each frame"
    WILDCARD_SHARE = "share of the passes that the classifier had to answer"
    SUBTABLES = "subtables searched for each classifier hit"
    SLOW_PATH = "lookups by the slow path, for each frame"
    SLOW_PATH_TIME = "share of the forwarding thread's busy time that the slow path took"
    FLOWS_OF_LIMIT = "datapath flows in the table, of their limit"
    TRACKED_OF_LIMIT = "tracked connections, of their limit"
    TRACKED = "tracked connections where they are nearest to a limit"
    TRACKING_LIMIT = "limit of the connections there"
    UNTRACKED = "frames for which connection tracking had no room, of those that entered"
    COPIES = "frames sent for each frame that entered"
    RING = "frames that the smallest ring holds"
    RING_S = "time for which the smallest ring holds this load"
    SILENCE = "longest silence of the device beyond what its thread waited in all, in times of the ring"
    SILENCE_OF_GAP = "longest silence of the device, in times of the longest gap of the engine's own core"
    WAITED = "wait of the forwarding thread for its core, in times of the ring"
    WAITED_SHARE = "share of the trial for which the forwarding thread waited for its core"
    ENGINE_GAP = "longest gap of the engine's own core, in times of the ring"
    BURST_OF_RING = "largest burst that was sent, of the smallest ring"
    ENGINE_BUSY = "busy share of the engine's receiving core"
    ON_MAIN_THREAD = "share of the frames that the device's main thread had to forward"
    LOST_ON_MAIN = "share of the dropped frames that came in at ports of the device's main thread"
    CLAIMED = "share of the datapath's flows that are said to be offloaded"
    SOFTWARE = "share of the frames that entered which software handled"
    ONE_WAY = "share of the frames that no stream answers"
    SQUEEZES = "times a second that a softirq ended with frames still waiting"
    UNNAMED = "share of the lost frames that no counter names"
    NEIGHBOURS = "next hops whose Ethernet address is not known"
    RULES_WALKED = "rules that a chain has each frame compared with, one after the other"
    RULES_NAMED = "share of the frames dropped by rules for which the rule can be named"
    DROPS_OF_TRACKING = "share of them dropped by rules that follow what connection tracking found"
    MIRRORED_TO = "share of the frames that entered at ports to which a mirror sends"
    CONTENDED = "sends that waited for another thread's lock, for each frame"
    LINE_SHARE = (
        "share of its line rate at which the fullest link was used"  # stored so; of those at which frames waited
    )
    PAUSES = "pause frames that the engine's NICs received"  # stored so; at ports that lost frames
    PLAN_KEPT = "transactions, of those that were planned, while hardly any failed"
    FULLEST = "busy share of its busiest thread or CPU"
    OUTSIDE = "share of one CPU that processes outside the bench took"
    UNDER_WAY = "transactions under way by rate and latency, of the connections"
    PORTLESS = "connections that found no source port"
    REFUSED = "refusals, of the connections that failed"
    USED = "share of its places in use"
    BEHIND = "backends that answer fewer connections than others, by about as many as failed"

    def shown(self, value: float) -> str:
        """A value of it, for people."""
        if self in SHARES:
            return units.share(value)
        if self is Sign.RING_S:
            return units.nanoseconds(value * 1e9)
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


SHARES = frozenset((
    Sign.BUSY, Sign.IDLEST, Sign.NDR_OF_MRR, Sign.UNNAMED, Sign.RULES_NAMED, Sign.DROPS_OF_TRACKING, Sign.MIRRORED_TO,
    Sign.WILDCARD_SHARE, Sign.SLOW_PATH_TIME, Sign.FLOWS_OF_LIMIT, Sign.TRACKED_OF_LIMIT, Sign.UNTRACKED,
    Sign.WAITED_SHARE, Sign.BURST_OF_RING, Sign.ENGINE_BUSY, Sign.ON_MAIN_THREAD, Sign.LOST_ON_MAIN, Sign.CLAIMED,
    Sign.SOFTWARE, Sign.ONE_WAY, Sign.LINE_SHARE, Sign.PLAN_KEPT, Sign.FULLEST, Sign.UNDER_WAY, Sign.REFUSED,
    Sign.USED, Sign.OUTSIDE,
))  # fmt: skip
"""The signs to be written in per cent."""


class Experiment(units.Worded):
    """What a counter-experiment changes; all else stays as the scenario says. The value is the level of its factor."""

    PLAIN = "plain", "one rule that forwards and nothing else"
    NO_TRACKING = "no tracking", "rules that track no connection"
    FEW_FLOWS = "few flows", "few five-tuples"
    LARGE_RING = "large ring", "a longer ring"
    LARGE_FLOW_LIMIT = "large flow limit", "a limit of datapath flows that is not reached"
    LARGE_TRACKING_LIMIT = "large tracking limit", "a limit of tracked connections that is not reached"
    SHORT_FRAMES = "short frames", "the shortest frames"
    MORE_CORES = "more cores", "one more forwarding core"
    MORE_ENGINE_CORES = "more engine cores", "one more core for the engine"
    ONE_OUTPUT = "one output", "one output for each frame"
    BOTH_WAYS = "both ways", "traffic both ways"

    @property
    def streams(self) -> int:
        """Times as many streams as before, at most. A device that forwards them side by side forwards as much more."""
        return 2 if self is Experiment.BOTH_WAYS else 1


@dataclass(frozen=True)
class Signs:
    """What was observed: medians over the losing trials. What could not be observed is absent, never zero."""

    values: Mapping[Sign, float] = field(default_factory=dict)
    lost: Mapping[DropKind, float] = field(default_factory=dict)  # shares of the lost frames
    rule: str = ""  # that dropped most, as its device prints it; empty: no rule can be named


@dataclass(frozen=True)
class Suspicion:
    """A cause whose signature fits."""

    cause: str  # its name in the catalogue
    title: str
    share: float  # of the losses, or of the forwarding thread's time, that it would explain, by its signature
    evidence: tuple[str, ...]  # each a sentence with its figures
    mend: str  # what the user can do
    experiment: Experiment | None = None  # the cheapest that tells; None: nothing can be tried


class Standing(StrEnum):
    """What became of a suspicion."""

    CONFIRMED = "confirmed"
    EXCLUDED = "excluded"
    UNDECIDED = "undecided"  # the interval holds both answers
    NOT_TRIED = "not tried"


FORWARDED, NDR = "forwarded rate", "NDR"
CYCLES, LOSS = "packets for each cycle of the forwarding thread", "loss"
"""What a counter-experiment compares."""


@dataclass(frozen=True)
class Turned:
    """One figure of trials in turns, of the changed bench against the unchanged one."""

    gain: float | None  # by what factor the changed bench does better: median over the pairs; None: no pair shows it
    pairs: int  # that show the figure
    better_in: int  # of them, by more than the least effect
    is_better: bool  # surely, by more than that
    is_no_better: bool
    is_worse: bool
    is_no_worse: bool = False  # at this load; False where stored before this was judged


@dataclass(frozen=True)
class Turns:
    """What trials of both benches in turns show, each with its whole account."""

    load_fps: float
    pairs: int
    rate: Turned  # frames carried a second; an unchanged bench that carried all that was offered shows no gain
    cycles: Turned  # packets for each cycle of a forwarding thread that was busy
    loss: Turned  # of the offered frames
    before: Signs  # of the unchanged bench
    after: Signs
    dropped_before: Mapping[DropKind, float]  # shares of the offered frames
    dropped_after: Mapping[DropKind, float]


@dataclass(frozen=True)
class Tried:
    """One counter-experiment and what came of it."""

    experiment: Experiment
    scenario: str  # the unit that was measured
    figure: str  # FORWARDED or NDR
    ratio: float | None  # to the unchanged bench; None: there is none
    low: float | None
    high: float | None
    reason: str = ""  # why there is no ratio
    pairs: int = 0  # of trials in turns that the ratio is the median of; 0: slices or searches were compared

    @property
    def is_of_time(self) -> bool:
        """Whether the ratio is of what a saturated thread forwards, and so of the time that a frame takes."""
        return self.figure == FORWARDED


@dataclass(frozen=True)
class Branch:
    """A suspicion with what was tried."""

    suspicion: Suspicion
    standing: Standing
    reason: str  # why it was not tried, or has no ratio; empty otherwise
    tried: Tried | None = None

    @property
    def explains(self) -> float | None:
        """The share of the device's time for a packet, or of its missing rate, that the experiment took away."""
        ratio = self.tried.ratio if self.tried else None
        return None if not ratio else max(0.0, 1 - 1 / ratio)


@dataclass(frozen=True)
class Explanation:
    """Why a rate is what it is: the tree of what was suspected, tried, excluded and confirmed."""

    scenario: str
    branches: tuple[Branch, ...]  # confirmed ones first, by what they explain
    control: Tried | None = None  # the same device that only forwards
    passes: "CostOfAPass | None" = None


@dataclass(frozen=True)
class CostOfAPass:
    """What one more pass through the datapath costs; cycles of the forwarding thread."""

    passes: float  # for each frame
    cycles: float  # of a frame in all
    each: float
    low: float
    high: float
