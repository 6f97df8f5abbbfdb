"""What a scenario says of the measure `burst`.

The longest burst without loss (RFC 2544, 26.4; RFC 9004).
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from pinchpoint.dut.device import Keys
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.measure.kind import Arrays


@dataclass(frozen=True)
class Burst:
    """How the longest burst without loss is looked for."""

    kind: ClassVar[str] = "burst"
    repeats: int  # searches, each from a burst of its own to its end
    rate_fps: float | None  # within a burst; None: back to back, as fast as the engine goes
    throughput_fps: float | None  # of the DUT, for the correction; None: its NDR is searched first
    max_frames: int  # longest burst tried
    relative_width: float  # a search ends when its bounds are this close, relative to the upper one


BURST: Final = Table("burst",
    "How the longest burst without loss is searched (RFC 2544, 26.4, as updated by RFC 9004). One [[stream]] from a "
    "port with one queue.", (
    Key("repeats", kinds.integer(1, 1000), "Number of independent searches; RFC 9004 asks for 50.", 50),
    Key("rate_fps", kinds.number(1, 1e9), "Frames per second within a burst.",
        Unset("back to back: as fast as the engine presents them")),
    Key("throughput_fps", kinds.number(1, 1e9), "The DUT's throughput, for the corrected buffer time.",
        Unset("its NDR, which is searched first, as set in [search]")),
    Key("max_frames", kinds.integer(2, 100_000_000), "Length of the longest burst tried.", 1_000_000),
    Key("relative_width", kinds.number(0.0001, 0.5),
        "A search ends when its bounds are this close, relative to the upper one.", 0.01),
), measures=("burst",))  # fmt: skip


def check_keys(source: Source, _: Values, arrays: Arrays, __: Keys) -> None:
    """One stream from one queue: frames of several would not come back to back, but side by side."""
    if len(arrays["stream"]) > 1:
        source.problem(("stream",), f'expected one [[stream]] with measure = "burst", found {len(arrays["stream"])}')
    senders = {stream.values.get("tx_port") for stream in arrays["stream"]}
    for port in arrays["port"]:
        queues = port.values.get("queues", 1)
        if port.values.get("name") in senders and queues > 1:
            source.mismatch((*port.at, "queues"), "1 where a burst is sent: one core sends it", queues)
