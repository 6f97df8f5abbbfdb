"""What a scenario says of the measure `build`.

The time to make rules, ports or links.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from pinchpoint.dut.device import Keys, made_by
from pinchpoint.keys import kinds
from pinchpoint.keys.key import Key, Table
from pinchpoint.keys.reader import Values
from pinchpoint.keys.source import Source
from pinchpoint.measure.kind import TWO_PORTS, Arrays, needed
from pinchpoint.model.scenario import Batch


@dataclass(frozen=True)
class Build(Batch):
    """What is made, and how."""

    kind: ClassVar[str] = "build"
    probe_rules: int  # rules whose first frame is timed (flows only)
    load_fps: float  # forwarded meanwhile, to see what building blocks; 0: nothing is sent


_HOW: Final = {
    "process": "one process for each item",
    "file": "one process that reads all from a file",
    "bundle": "one atomic OpenFlow bundle",
    "transaction": "one transaction of the database",
    "netlink": "one socket",
}


def table(keys: Keys) -> Table:
    """`[build]` of a device with these keys."""
    made = made_by(keys)
    methods = tuple(dict.fromkeys(method for items in made.values() for method in items.methods))
    how = "; ".join(f'"{method}": {_HOW.get(method, method)}' for method in methods)
    return Table("build", "What is created, and how. The time that this takes is measured.", (
        Key("what", kinds.word(*made), "; ".join(f'"{word}": {items.words}' for word, items in made.items()) + "."),
        Key("method", kinds.word(*methods),
            f"{how}. " + " ".join(f"For {word}: {', '.join(items.methods)}." for word, items in made.items())),
        Key("count", kinds.integer(1, 5_000_000), "How many are made."),
        Key("concurrency", kinds.integer(1, 1024), "Processes at a time (method process only).", 40),
        Key("probe_rules", kinds.integer(0, 1000),
            "Rules, spread over all, for which the first frame that takes them is timed (flows only).", 0),
        Key("load_fps", kinds.number(0, 1e9),
            "Frames per second sent meanwhile, to see how long forwarding is blocked; 0 sends none.", 0.0),
    ), measures=("build",))  # fmt: skip


def check_keys(source: Source, build: Values, arrays: Arrays, keys: Keys) -> None:
    """The method is one by which the thing can be made; what sends frames has ports and streams."""
    made = made_by(keys).get(build.get("what", ""))
    methods = made.methods if made else ()
    if methods and "method" in build and build["method"] not in methods:
        expected = " or ".join(f'"{method}"' for method in methods) + f" for {build['what']}"
        source.mismatch(("build", "method"), expected, build["method"])
    if build.get("what") in ("ports", "veths") and build.get("probe_rules"):
        source.mismatch(("build", "probe_rules"), f"0 for {build['what']}", build["probe_rules"])
    if build.get("load_fps", 0) > 0 or build.get("probe_rules", 0) > 0:
        needed(source, TWO_PORTS, arrays)
