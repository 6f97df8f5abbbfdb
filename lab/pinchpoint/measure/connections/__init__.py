"""What a scenario says of the measure `connections`.

How many connections a second a balancer opens, in a burst and for ever, and what ends either.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.kinds import Kind, MismatchError
from pinchpoint.model.levels import CONFIDENCE
from pinchpoint.model.scenario import Search, SearchMethod

WORKS: Final = ("syn", "abandon", "reset", "request")
MOST_WEIGHT: Final = 1_000_000
MOST_REPEATS: Final = 8  # of a discarded trial


@dataclass(frozen=True)
class Connections:
    """How the rate at which connections can be opened is looked for."""

    kind: ClassVar[str] = "connections"
    failure_ratios: tuple[float, ...]
    min_cps: float
    max_cps: float
    trial_duration_s: float
    ramp_s: float
    max_traffic_s: float
    relative_width: float
    work: str
    requests: int
    hold_s: float
    timeout_s: float
    early_reuse: bool
    sustain_within_s: float
    confirm: bool

    @property
    def search(self) -> Search:
        """The same search as for rates, of connections in place of frames."""
        return Search(
            method=SearchMethod.THRESHOLD,
            confidence=CONFIDENCE,
            max_traffic_s=self.max_traffic_s,
            min_load_fps=self.min_cps,
            max_load_fps=self.max_cps,
            loss_ratios=self.failure_ratios,
            trial_duration_s=self.trial_duration_s,
            initial_trial_duration_s=self.trial_duration_s,
            duration_sum_s=self.trial_duration_s,
            exceed_ratio=0.5,
            relative_width=self.relative_width,
            preceding_targets=0,
            expansion_coefficient=2,
            max_duration_s=86_400.0,
            max_repeats=MOST_REPEATS,
            drain_s=self.timeout_s,
        )

    @property
    def is_closing(self) -> bool:
        """Whether every connection is closed, so that its place is free some time after."""
        return all(part.partition(":")[0] in ("request", "reset") for part in self.work.split(","))


def work() -> Kind:
    """Kinds of work with weights, as the engine's `connect --work` takes them."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise MismatchError
        for part in value.split(","):
            name, _, weight = part.partition(":")
            kinds.check(name in WORKS and (":" not in part or weight.isdecimal()))
            kinds.check(not weight or 0 < int(weight) <= MOST_WEIGHT)
        return value

    return Kind(
        'kinds of work (syn, abandon, reset, request), each with a weight if there are several: "request:98,reset:2"',
        read,
    )


CONNECTIONS: Final = Table("connections",
    "How the maximum connection establishment rate is searched (RFC 9693, RFC 9411). There are two: the burst rate is "
    "of trials that begin with an empty table of connections; the sustained one can go on for ever. The engine's first "
    "CPU drives clients and backends.", (
    Key("failure_ratios", kinds.numbers(0, 1, below=True),
        "One burst rate for each: the share of the connections that may fail.", [0.0, 1e-5]),
    Key("min_cps", kinds.number(1, 1e8), "Lowest rate tried, connections per second.", 10.0),
    Key("max_cps", kinds.number(1, 1e8), "Highest rate tried, connections per second.", 1e6),
    Key("trial_duration_s", kinds.number(0.05, 3600),
        "For how long a trial opens connections at its full rate, seconds. Part of the burst rate's definition.", 1.0),
    Key("ramp_s", kinds.number(0, 600), "How long a trial takes before that to reach its rate, seconds.", 0.0),
    Key("max_traffic_s", kinds.number(0.05, 86_400),
        "Seconds of trials after which the burst rate is given with the interval reached.", 20.0),
    Key("relative_width", kinds.number(0.0001, 0.5),
        "The search ends when the interval is this narrow, relative to its upper end.", 0.02),
    Key("work", work(), "What is done with a connection; docs/engine.md has the words.", "request"),
    Key("requests", kinds.integer(1, 100), "Requests of each.", 1),
    Key("hold_s", kinds.number(0, 600), "How long each is held open before its first request, seconds.", 0.0),
    Key("timeout_s", kinds.number(0.01, 60), "A connection that takes longer has failed, seconds.", 1.0),
    Key("early_reuse", kinds.boolean(),
        "Give connections random initial sequence numbers, as hosts do: newer kernels give up a closed connection "
        "whose port they need for one with a higher number. Otherwise all have the same number, so that closed "
        "connections keep their places for their whole time.", False),
    Key("sustain_within_s", kinds.number(0, 86_400),
        "The sustained rate is confirmed by traffic where that takes no longer than this, seconds; a small "
        "service.closed_s makes it short.", 60.0),
    Key("confirm", kinds.boolean(),
        "Then double the resource that ends it, and see whether the sustained rate doubles.", False),
), measures=("connections",))  # fmt: skip
