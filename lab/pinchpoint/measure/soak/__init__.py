"""What a scenario says of the measure `soak`.

Loss over a long time.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from pinchpoint.dut.device import Keys
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.measure.kind import Arrays, one_queue


@dataclass(frozen=True)
class Soak:
    """A long time at one load, seen in windows."""

    kind: ClassVar[str] = "soak"
    load_fps: float | None  # None: `share` of the NDR, which is searched first
    share: float
    duration_s: float
    window_s: float


SOAK: Final = Table("soak",
    "A long time at one load, divided into windows without gaps between them. Each window is stored as it ends; "
    "`--resume` continues for the rest of the time.", (
    Key("load_fps", kinds.number(1, 1e9), "Frames per second, all streams together.",
        Unset("`share` of the NDR, which is searched first")),
    Key("share", kinds.number(0.01, 1), "Share of the NDR, where `load_fps` is not set.", 0.9),
    Key("duration_s", kinds.number(1, 2_592_000), "Length of all windows together, seconds.", 3600.0),
    Key("window_s", kinds.number(0.1, 3600),
        "Length of one window, seconds. Counters of host and switch are read at each end, on a core of the lab.", 10.0),
), measures=("soak",))  # fmt: skip


def check_keys(source: Source, soak: Values, arrays: Arrays, _: Keys) -> None:
    """A window fits into the soak, and every port has one queue."""
    one_queue(source, Soak.kind, arrays)
    if {"window_s", "duration_s"} <= soak.keys() and soak["window_s"] > soak["duration_s"]:
        lengths = f"{soak['window_s']:g} and {soak['duration_s']:g}"
        source.problem(("soak", "window_s"), f"expected at most soak.duration_s, found {lengths}")
