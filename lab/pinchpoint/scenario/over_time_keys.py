"""The keys of measures that look at loss over time."""

from typing import Final

from pinchpoint.scenario import kinds
from pinchpoint.scenario.bench_keys import RESERVED_CONFIG
from pinchpoint.scenario.key import Key, Table, Unset

MEASURES: Final = ("soak", "recovery", "blocked")
ACTIONS: Final = {
    "none": "nothing, as a baseline of the method",
    "add-flows": "`count` OpenFlow rules are added in one bundle",
    "del-flows": "`count` OpenFlow rules are deleted, none of which forwards the frames",
    "add-ports": "`count` internal ports are added in one transaction",
    "del-ports": "`count` internal ports are deleted",
    "flush-flows": "the datapath's flows are flushed and learnt anew",
    "rebalance": "receive queues are reassigned to the PMD threads",
    "settings": "`settings` are applied, and reverted once the traffic has ended",
    "restart": "the switch is restarted on its database, and its rules are added again",
}
"""What can happen to the DUT."""
NEEDS_PMD: Final = ("rebalance",)
NEEDS_COUNT: Final = ("add-flows", "del-flows", "add-ports", "del-ports")

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

BLOCKED = Table(
    "blocked",
    "A change made to the DUT while frames are sent. "
    + " ".join(f'"{word}": {does}.' for word, does in ACTIONS.items()),
    (
        Key("action", kinds.word(*ACTIONS), "The change."),
        Key("count", kinds.integer(1, 1_000_000), "Number of rules or ports.", 1000),
        Key(
            "settings",
            kinds.config(RESERVED_CONFIG),
            'Keys of Open_vSwitch other_config; with action = "settings" only.',
            {},
        ),
        Key("load_fps", kinds.number(1, 1e9), "Frames per second, all streams together.", 100_000.0),
        Key("before_s", kinds.number(0.1, 60), "Traffic before the change, seconds.", 1.0),
        Key("after_s", kinds.number(0.1, 600), "Traffic after the change, seconds.", 2.0),
        Key("repeats", kinds.integer(1, 1000), "How often the change is made.", 5),
    ),
    measures=("blocked",),
)
