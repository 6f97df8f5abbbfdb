"""What a scenario says of the measure `rates`.

NDR and PDRs, then latency.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table


@dataclass(frozen=True)
class Rates:
    """At which shares of the NDR latency is measured, once the rates are known."""

    kind: ClassVar[str] = "rates"
    at: tuple[float, ...]
    duration_s: float


LATENCY: Final = Table("latency", "Where latency is measured, once the NDR is known.", (
    Key("at", kinds.numbers(0.001, 1, may_be_empty=True), "Shares of the NDR; [] measures none.", [0.5, 0.9]),
    Key("duration_s", kinds.number(0.05, 3600), "Length of each, seconds.", 2.0),
), measures=("rates",))  # fmt: skip
