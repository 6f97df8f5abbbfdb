"""The keys of measures that look at loss over time."""

from typing import Final

from pinchpoint.dut.device import Keys
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table, Unset

MEASURES: Final = ("soak", "recovery", "blocked")
NO_ACTION: Final = {"none": "nothing, as a baseline of the method"}

SOAK = Table(
    "soak",
    "A long time at one load, divided into windows without gaps between them. Each window is stored as it ends; "
    "`--resume` continues for the rest of the time.",
    (
        Key(
            "load_fps",
            kinds.number(1, 1e9),
            "Frames per second, all streams together.",
            Unset("`share` of the NDR, which is searched first"),
        ),
        Key("share", kinds.number(0.01, 1), "Share of the NDR, where `load_fps` is not set.", 0.9),
        Key("duration_s", kinds.number(1, 2_592_000), "Length of all windows together, seconds.", 3600.0),
        Key(
            "window_s",
            kinds.number(0.1, 3600),
            "Length of one window, seconds. Counters of host and switch are read at each end, on a core of the lab.",
            10.0,
        ),
    ),
    measures=("soak",),
)

RECOVERY = Table(
    "recovery",
    "RFC 2544, section 26.5: an overload, then a lower load in the same transmission; the time from the change to the "
    "last frame lost.",
    (
        Key(
            "throughput_fps",
            kinds.number(1, 1e9),
            "The rate that the shares refer to, frames per second.",
            Unset("the NDR, which is searched first"),
        ),
        Key("overload_share", kinds.number(1, 10), "The overload, as a share of the throughput.", 1.1),
        Key("overload_s", kinds.number(0.1, 3600), "Length of the overload, seconds.", 60.0),
        Key("reduced_share", kinds.number(0.01, 1), "The load after the overload, as a share of the throughput.", 0.5),
        Key("reduced_s", kinds.number(0.1, 3600), "How long to wait for recovery, seconds.", 10.0),
        Key("repeats", kinds.integer(1, 1000), "Number of overloads.", 5),
    ),
    measures=("recovery",),
)


def blocked(keys: Keys) -> Table:
    """`[blocked]` of a device with these keys."""
    actions = {**NO_ACTION, **keys.actions}
    settings = keys.settings or kinds.nothing()
    return Table(
        "blocked",
        "A change made to the DUT while frames are sent. "
        + " ".join(f'"{word}": {does}.' for word, does in actions.items()),
        (
            Key("action", kinds.word(*actions), "The change."),
            Key("count", kinds.integer(1, 1_000_000), "Number of items of an action that has many.", 1000),
            Key("settings", settings, 'What is set; with action = "settings" only.', {}),
            Key("load_fps", kinds.number(1, 1e9), "Frames per second, all streams together.", 100_000.0),
            Key("before_s", kinds.number(0.1, 60), "Traffic before the change, seconds.", 1.0),
            Key("after_s", kinds.number(0.1, 600), "Traffic after the change, seconds.", 2.0),
            Key("repeats", kinds.integer(1, 1000), "How often the change is made.", 5),
        ),
        measures=("blocked",),
    )
