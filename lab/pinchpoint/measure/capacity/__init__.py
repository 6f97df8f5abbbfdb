"""What a scenario says of the measure `capacity`.

How many connections a balancer holds at once, how fast it forgets them, and how they age.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset


@dataclass(frozen=True)
class Capacity:
    """How many connections are held at once, and how that is looked for."""

    kind: ClassVar[str] = "capacity"
    start: int | None  # None: half of the least that a limit allows
    most: int
    rate_cps: float
    failure_ratio: float
    relative_width: float
    settle_s: float
    timeout_s: float
    aging_within_s: float


CAPACITY: Final = Table("capacity",
    "How the capacity of the table of connections is searched (RFC 9693): a number of connections is opened, all are "
    "held open at the same time, then each has to answer a request. The number grows exponentially until some fail, "
    "then the bounds are halved. The engine's first CPU drives clients and backends.", (
    Key("start", kinds.integer(1, 60_000_000), "The number tried first.", Unset("half of what its limits allow")),
    Key("most", kinds.integer(1, 60_000_000), "The largest number tried.", 1_000_000),
    Key("rate_cps", kinds.number(1, 1e7),
        "At which they are opened, and answered later; the device must bear it. Connections per second.", 5000.0),
    Key("failure_ratio", kinds.number(0, 1, below=True), "Share of them that may fail.", 0.0),
    Key("relative_width", kinds.number(0.0001, 0.5), "The search ends when its bounds are this close.", 0.02),
    Key("settle_s", kinds.number(0, 600), "For how long all are held, once the last is open, seconds.", 0.5),
    Key("timeout_s", kinds.number(0.01, 60), "A connection that waits longer has failed, seconds.", 1.0),
    Key("aging_within_s", kinds.number(0, 86_400),
        "How long closed connections are remembered is measured where that takes no longer than this, seconds; a small "
        "service.closed_s makes it short.", 60.0),
), measures=("capacity",))  # fmt: skip
