"""The keys of the measures that RFC 2544 defines beside throughput: bursts and frame loss rate."""

from typing import Final

from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset

BURST: Final = Table(
    "burst",
    "How the longest burst without loss is searched (RFC 2544, 26.4, as updated by RFC 9004). One [[stream]] from "
    "a port with one queue.",
    (
        Key("repeats", kinds.integer(1, 1000), "Number of independent searches; RFC 9004 asks for 50.", 50),
        Key(
            "rate_fps",
            kinds.number(1, 1e9),
            "Frames per second within a burst.",
            Unset("back to back: as fast as the engine presents them"),
        ),
        Key(
            "throughput_fps",
            kinds.number(1, 1e9),
            "The DUT's throughput, for the corrected buffer time.",
            Unset("its NDR, which is searched first, as set in [search]"),
        ),
        Key("max_frames", kinds.integer(2, 100_000_000), "Length of the longest burst tried.", 1_000_000),
        Key(
            "relative_width",
            kinds.number(0.0001, 0.5),
            "A search ends when its bounds are this close, relative to the upper one.",
            0.01,
        ),
    ),
    measures=("burst",),
)

LOSS_CURVE: Final = Table(
    "loss_curve",
    "The loads at which frame loss rate is measured (RFC 2544, 26.3): from the highest downwards until two in a row "
    "lose nothing.",
    (
        Key(
            "max_load_fps",
            kinds.number(1, 1e9),
            "100 % load, frames per second, all streams together.",
            Unset("the highest that the engine offers in full, up to search.max_load_fps"),
        ),
        Key("step", kinds.number(0.005, 0.1), "Difference from one load to the next, as a share of the highest.", 0.1),
        Key("repeats", kinds.integer(1, 100), "Trials at each load; 6 give an interval of 97 %.", 6),
        Key("duration_s", kinds.number(0.05, 3600), "Length of each trial, seconds.", 1.0),
    ),
    measures=("loss_curve",),
)
