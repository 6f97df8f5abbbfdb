"""The keys of measures that look at loss over time."""

from typing import Final

from pinchpoint.scenario import kinds
from pinchpoint.scenario.bench_keys import RESERVED_CONFIG
from pinchpoint.scenario.key import Key, Table, Unset

MEASURES: Final = ("soak", "recovery", "blocked")
ACTIONS: Final = {
    "none": "nothing happens: what the method tells of a bench that is left alone",
    "add-flows": "`count` OpenFlow rules come, in one bundle",
    "del-flows": "`count` OpenFlow rules go, other ones than those that forward",
    "add-ports": "`count` internal ports come, in one transaction",
    "del-ports": "`count` internal ports go",
    "flush-flows": "the datapath's flows go, and are learnt anew",
    "rebalance": "receive queues are dealt to the PMD threads anew",
    "settings": "`settings` are applied, and taken back once the traffic has ended",
    "restart": "the switch ends, starts again on its database, and gets its rules anew",
}
"""What can happen to the DUT."""
NEEDS_PMD: Final = ("rebalance",)
NEEDS_COUNT: Final = ("add-flows", "del-flows", "add-ports", "del-ports")

SOAK = Table(
    "soak",
    "A long time at one load, seen in windows that follow each other without a gap. Each window is kept as it ends; "
    "`--resume` adds what is left of the time.",
    (
        Key(
            "load_fps",
            kinds.number(1, 1e9),
            "Frames per second, all streams together.",
            Unset("`share` of the NDR, which is searched first"),
        ),
        Key("share", kinds.number(0.01, 1), "Of the NDR, where `load_fps` is not set.", 0.9),
        Key("duration_s", kinds.number(1, 2_592_000), "Of all windows together, seconds.", 3600.0),
        Key(
            "window_s",
            kinds.number(0.1, 3600),
            "Of one window, seconds. Counters of the host and the switch are read at each end, on a core of the lab.",
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
            "What the shares are of, frames per second.",
            Unset("the NDR, which is searched first"),
        ),
        Key("overload_share", kinds.number(1, 10), "Of the throughput.", 1.1),
        Key("overload_s", kinds.number(0.1, 3600), "Of the overload, seconds.", 60.0),
        Key("reduced_share", kinds.number(0.01, 1), "Of the throughput, after the overload.", 0.5),
        Key("reduced_s", kinds.number(0.1, 3600), "For which recovery is waited, seconds.", 10.0),
        Key("repeats", kinds.integer(1, 1000), "Overloads.", 5),
    ),
    measures=("recovery",),
)

BLOCKED = Table(
    "blocked",
    "What happens to the DUT while frames are sent. "
    + " ".join(f'"{word}": {does}.' for word, does in ACTIONS.items()),
    (
        Key("action", kinds.word(*ACTIONS), "What happens."),
        Key("count", kinds.integer(1, 1_000_000), "How many rules or ports.", 1000),
        Key(
            "settings",
            kinds.config(RESERVED_CONFIG),
            'Of Open_vSwitch other_config, with action = "settings" only.',
            {},
        ),
        Key("load_fps", kinds.number(1, 1e9), "Frames per second, all streams together.", 100_000.0),
        Key("before_s", kinds.number(0.1, 60), "Of traffic before it happens, seconds.", 1.0),
        Key("after_s", kinds.number(0.1, 600), "Of traffic after it is done, seconds.", 2.0),
        Key("repeats", kinds.integer(1, 1000), "How often it happens.", 5),
    ),
    measures=("blocked",),
)
