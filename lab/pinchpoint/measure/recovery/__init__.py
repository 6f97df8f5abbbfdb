"""What a scenario says of the measure `recovery`.

How long frames are lost after an overload (RFC 2544, section 26.5).
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset


@dataclass(frozen=True)
class Recovery:
    """An overload that ends, and the loss after it."""

    kind: ClassVar[str] = "recovery"
    throughput_fps: float | None  # None: the NDR, which is searched first
    overload_share: float  # of the throughput
    overload_s: float
    reduced_share: float  # of the throughput, from then on
    reduced_s: float
    repeats: int


RECOVERY: Final = Table("recovery",
    "RFC 2544, section 26.5: an overload, then a lower load in the same transmission; the time from the change to the "
    "last frame lost.", (
    Key("throughput_fps", kinds.number(1, 1e9), "The rate that the shares refer to, frames per second.",
        Unset("the NDR, which is searched first")),
    Key("overload_share", kinds.number(1, 10), "The overload, as a share of the throughput.", 1.1),
    Key("overload_s", kinds.number(0.1, 3600), "Length of the overload, seconds.", 60.0),
    Key("reduced_share", kinds.number(0.01, 1), "The load after the overload, as a share of the throughput.", 0.5),
    Key("reduced_s", kinds.number(0.1, 3600), "How long to wait for recovery, seconds.", 10.0),
    Key("repeats", kinds.integer(1, 1000), "Number of overloads.", 5),
), measures=("recovery",))  # fmt: skip
