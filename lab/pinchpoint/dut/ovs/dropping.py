"""A collector for the OpenFlow rules that drop, each by its name, and for ports to which mirrors send.

The datapath counts what the pipeline drops, not which rule did. Rules count the frames that they took, up to a second
late: revalidators add up their datapath flows (ovs-vswitchd(8), `bridge/dump-flows`).
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pinchpoint.dut.ovs.ovsdb import Ovsdb
from pinchpoint.dut.ovs.unixctl import Unixctl, UnixctlError
from pinchpoint.host.interface import Host
from pinchpoint.model.errors import DutError
from pinchpoint.model.hops import DROPPED_BY
from pinchpoint.observe.snapshot import Snapshot

MOST_RULES: Final = 10_000  # the switch's main thread writes the dump, about a microsecond a rule
BY_RULES, BY_TRACKING = "ovs/rules/dropped", "ovs/rules/dropped_by_tracking"
MIRRORED, CONFIGURED = "ovs/mirror/to/", "ovs/config/"
_READ: Final = ("emc-insert-inv-prob", "smc-enable")
_HIDDEN: Final = 254  # the switch's own table
_RULE: Final = re.compile(
    r"^(?:table_id=(?P<table>\d{1,3}), )?duration=\S+, n_packets=(?P<packets>\d{1,19}), n_bytes=\d+, "
    r"(?P<match>\S*?),?actions=(?P<actions>.*)$"
)
_TRACKED: Final = re.compile(r"(?:^|,)ct_(?:state|mark|label|zone)=")


@dataclass(frozen=True)
class DroppingRule:
    """A rule whose action is to drop."""

    table: int
    match: str  # with its priority
    packets: int
    follows_tracking: bool  # it, or another rule of its table, matches on what connection tracking found


def dropping_rules(text: str) -> list[DroppingRule]:
    """`bridge/dump-flows`: those that drop."""
    rules = [rule for rule in map(_RULE.match, text.splitlines()) if rule]
    tables = {int(rule["table"] or 0) for rule in rules if _TRACKED.search(rule["match"])}
    return [
        DroppingRule(table, rule["match"] or "any frame", int(rule["packets"]), table in tables)
        for rule in rules
        if rule["actions"] == "drop" and (table := int(rule["table"] or 0)) != _HIDDEN
    ]


class DroppingRules:
    """Frames that rules dropped."""

    name = "dropping rules"
    command = "bridge/dump-flows"

    def __init__(self, control: Unixctl, bridges: Sequence[str], rules: int) -> None:
        """`rules`: how many all bridges have."""
        self._control, self._bridges, self._rules = control, tuple(bridges), rules

    def can_run(self) -> str | None:
        """Whether they are few enough, and the release knows the command."""
        if self._rules > MOST_RULES:
            return f"{self._rules:,} rules, more than {MOST_RULES:,}: writing them would hold the switch up"
        try:
            self.snapshot()
        except UnixctlError as error:
            return str(error)
        return None

    def snapshot(self) -> Snapshot:
        """`dropped by/BRIDGE table=N,MATCH` of each rule that dropped; the sums of all, and after tracking."""
        at_s = time.monotonic()
        counters = {BY_RULES: 0, BY_TRACKING: 0}
        for bridge, rule in self._read():
            counters[BY_RULES] += rule.packets
            counters[BY_TRACKING] += rule.packets if rule.follows_tracking else 0
            if rule.packets:
                counters[f"{DROPPED_BY}{bridge} table={rule.table},{rule.match}"] = rule.packets
        return Snapshot(at_s, counters, sparse=True)

    def _read(self) -> Iterator[tuple[str, DroppingRule]]:
        for bridge in self._bridges:
            yield from ((bridge, rule) for rule in dropping_rules(self._control.call(self.command, bridge)))


class Database:
    """What the database says now of mirrors and caches: others may have changed it since the bench was built."""

    name = "database"

    def __init__(self, host: Host, path: str) -> None:
        self._host, self._path = host, path

    def can_run(self) -> str | None:
        try:
            self.snapshot()
        except DutError as error:
            return str(error)
        return None

    def snapshot(self) -> Snapshot:
        """Gauges `ovs/mirror/to/PORT`: 1; `ovs/config/KEY` of the caches, false as 0."""
        at_s = time.monotonic()
        with Ovsdb(self._host, self._path) as database:
            mirrors, switch = database.transact(
                [_all("Mirror", "output_port"), _all("Open_vSwitch", "other_config")], _go
            )
            targets = {row["output_port"][1] for row in mirrors["rows"] if row["output_port"][0] == "uuid"}
            ports = database.transact([_all("Port", "_uuid", "name")], _go)[0]["rows"] if targets else []
        gauges = {f"{MIRRORED}{port['name']}": 1.0 for port in ports if port["_uuid"][1] in targets}
        return Snapshot(at_s, gauges=gauges | dict(_configured(switch["rows"])))


def _configured(rows: Iterable[Mapping[str, list[list[list[str]]]]]) -> Iterator[tuple[str, float]]:
    for key, value in (pair for row in rows for pair in row["other_config"][1]):
        if key in _READ:
            yield f"{CONFIGURED}{key}", float(value) if value.isdigit() else float(value == "true")


def _all(table: str, *columns: str) -> dict[str, object]:
    """The columns of every row (RFC 7047, 5.2.2)."""
    return {"op": "select", "table": table, "where": [], "columns": list(columns)}


def _go() -> None:
    """Wait on: an answer takes milliseconds."""
