"""An OVN host: what ports and rules of its integration bridge are called in the logical network.

ovn-controller(8): `external_ids:iface-id` of an interface is the name of its logical port, and the cookie of a rule is
the first 32 bits of the UUID of the logical flow that it was made of. The southbound database knows that flow; it is
seldom on the host itself. Where it is, it is read; elsewhere the cookie is what `ovn-sbctl lflow-list` takes.
"""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from pinchpoint.dut.ovs.collectors import DroppingRule
from pinchpoint.dut.ovs.places import Ovsdb, OvsPlaces, patience, selected
from pinchpoint.host.interface import CommandFailed
from pinchpoint.model.errors import DutError

LOGICAL: Final = "ovs/logical/"
"""How gauges begin that say what a port is called: PORT/NAME."""
_SOUTHBOUND: Final = "OVN_Southbound"
_SOCKETS: Final = ("/var/run/ovn/ovnsb_db.sock", "/usr/local/var/run/ovn/ovnsb_db.sock")
_COOKIE: Final = re.compile(r"^\s*cookie=0x([0-9a-f]{1,8}), (?:table=(\d{1,3}), )?(\S*) actions=drop\s*$", re.MULTILINE)
_AGAIN_S: Final = 60.0  # rules of logical flows come and go; each look costs the switch a dump
_LONGEST: Final = 100  # characters of a flow's match
_DEFAULT_BRIDGE: Final = "br-int"


def pairs(value: object) -> dict[str, str]:
    """A column that is a map (RFC 7047, 5.1); empty where it is none."""
    is_map = isinstance(value, list) and len(value) == 2 and value[0] == "map" and isinstance(value[1], list)
    return {str(key): str(text) for key, text in value[1]} if is_map and isinstance(value, list) else {}


def logical_port(external_ids: object) -> str:
    """The name of an interface's logical port; empty where it has none."""
    return pairs(external_ids).get("iface-id", "")


def logical_names(seen: Mapping[str, float]) -> dict[str, str]:
    """Ports and what they are called."""
    words = (name.removeprefix(LOGICAL).partition("/") for name in seen if name.startswith(LOGICAL))
    return {port: logical for port, _, logical in words}


def integration_bridge(external_ids: object) -> str:
    """The bridge of ovn-controller, by that column of the switch's own row; empty on a host without it."""
    ids = pairs(external_ids)
    return ids.get("ovn-bridge", _DEFAULT_BRIDGE) if "ovn-remote" in ids else ""


class LogicalFlows:
    """The logical flows of dropping rules, asked for when there is a rule that was not there before."""

    def __init__(
        self, places: OvsPlaces, bridge: str, versions: str, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`bridge`: of ovn-controller, empty: none; `versions`: of OpenFlow, that ovs-ofctl may speak."""
        self._places, self._bridge, self._versions, self._now_s = places, bridge, versions, now_s
        self._flows: dict[tuple[int, str], str] = {}
        self._words: dict[str, str] = {}  # by cookie: the database has a million flows, and is asked for new ones alone
        self._asked_s: float | None = None

    def named(self, bridge: str, rules: Sequence[DroppingRule]) -> list[DroppingRule]:
        """The rules, each with its logical flow as far as that is known."""
        if not self._bridge or bridge != self._bridge:
            return list(rules)
        is_new = any((rule.table, rule.match) not in self._flows for rule in rules)
        if is_new and (self._asked_s is None or self._now_s() - self._asked_s >= _AGAIN_S):
            self._asked_s = self._now_s()
            self._ask()
        return [replace(rule, logical=self._flows.get((rule.table, rule.match), "")) for rule in rules]

    def _ask(self) -> None:
        management = self._places.management_of(self._bridge)
        argv = ("ovs-ofctl", "-O", self._versions, "--no-names", "--no-stats", "--timeout=10", "dump-flows", management)
        with suppress(CommandFailed):
            cookies = dict(cookies_of(self._places.ask(*argv)))
            if found := self._southbound(unknown := set(cookies.values()) - self._words.keys()):
                self._words |= {cookie: found.get(cookie, "") for cookie in unknown}
            told = self._words
            self._flows = {rule: f"logical flow {cookie}{told.get(cookie, '')}" for rule, cookie in cookies.items()}

    def _southbound(self, cookies: Collection[str]) -> dict[str, str]:
        """What the database says of the flows of these cookies; nothing where it is not here, or does not answer."""
        socket = next((path for path in _SOCKETS if cookies and self._places.host.exists(path)), None)
        if socket is None:
            return {}
        with suppress(DutError), Ovsdb(self._places.host, socket, _SOUTHBOUND) as database:
            asked = selected("Logical_Flow", "_uuid", "match", "external_ids")
            return dict(_words(database.transact([asked], patience())[0]["rows"], cookies))
        return {}


def cookies_of(dumped: str) -> Iterator[tuple[tuple[int, str], str]]:
    """`ovs-ofctl --no-stats dump-flows`: table and match of each rule that drops, and its cookie in eight digits."""
    for cookie, table, match in _COOKIE.findall(dumped):
        yield (int(table or 0), match or "any frame"), cookie.zfill(8)


def _words(rows: Sequence[Mapping[str, Any]], cookies: Collection[str]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if (cookie := str(row["_uuid"][1])[:8]) in cookies:
            match = str(row["match"])
            shown = match if len(match) <= _LONGEST else f"{match[:_LONGEST]}..."
            yield cookie, f", {pairs(row['external_ids']).get('stage-name', 'unknown stage')}: {shown}"
