"""What a scenario says of the measure `load`.

What given rates cost the DUT.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table


@dataclass(frozen=True)
class Load:
    """The rates at which the DUT's load is measured."""

    kind: ClassVar[str] = "load"
    at_fps: tuple[float, ...]
    duration_s: float
    repeats: int


LOAD: Final = Table("load", "The rates at which the DUT's load is measured.", (
    Key("at_fps", kinds.numbers(1, 1e9), "Frames per second, all streams together."),
    Key("duration_s", kinds.number(0.05, 3600), "Length of each trial, seconds.", 1.0),
    Key("repeats", kinds.integer(1, 100), "Trials at each rate.", 3),
), measures=("load",))  # fmt: skip
