"""What a scenario says of the measure `loss_curve`.

Frame loss rate against offered load (RFC 2544, 26.3).
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset


@dataclass(frozen=True)
class LossCurve:
    """At which loads the frame loss rate is measured."""

    kind: ClassVar[str] = "loss_curve"
    max_load_fps: float | None  # 100 % load; None: the highest that the generator offers in full
    step: float  # from one load to the next, as a share of the highest
    repeats: int  # trials at each load
    duration_s: float  # of each


LOSS_CURVE: Final = Table("loss_curve",
    "The loads at which frame loss rate is measured (RFC 2544, 26.3): from the highest downwards until two in a row "
    "lose nothing.", (
    Key("max_load_fps", kinds.number(1, 1e9), "100 % load, frames per second, all streams together.",
        Unset("the highest that the engine offers in full, up to search.max_load_fps")),
    Key("step", kinds.number(0.005, 0.1), "Difference from one load to the next, as a share of the highest.", 0.1),
    Key("repeats", kinds.integer(1, 100), "Trials at each load; 6 give an interval of 97 %.", 6),
    Key("duration_s", kinds.number(0.05, 3600), "Length of each trial, seconds.", 1.0),
), measures=("loss_curve",))  # fmt: skip
