"""How many rules of nftables each forwarded frame is compared with: rules of a chain are walked one by one.

A set or a map answers in one step, however many elements it has. Format: nft(8), `-t list ruleset`.
"""

import re
import time
from typing import Final

from pinchpoint.host.interface import CommandFailed, Host
from pinchpoint.observe.snapshot import Snapshot

WALKED: Final = "nft/rules/walked"
_BASE: Final = re.compile(r"type (?:filter|route) hook (?:ingress|prerouting|forward|postrouting|egress) ")
"""A chain that frames enter by themselves. One of type nat sees the first of a connection alone."""
_NO_RULE: Final = re.compile(r"(?:type|policy|comment|devices?)\b|#")


class Chains:
    """The rules as they stood when the bench was first read: they do not change while frames are sent."""

    name = "nft-chains"

    def __init__(self, host: Host, netns: str) -> None:
        self._host, self._netns = host, netns
        self._walked: int | None = None

    def can_run(self) -> str | None:
        """Whether nft lists the ruleset, whose rules are counted here: they do not change."""
        try:
            self._walked = walked(self._host.run(["nft", "-t", "list", "ruleset"], self._netns))
        except CommandFailed as error:
            return error.message
        return None

    def snapshot(self) -> Snapshot:
        """Gauge `nft/rules/walked`: rules on a forwarded frame's way."""
        return Snapshot(time.monotonic(), gauges={} if self._walked is None else {WALKED: float(self._walked)})


def walked(ruleset: str) -> int:
    """Rules of the chains on a forwarded frame's way, all together. One that ends the walk early is not noticed."""
    total = rules = 0
    is_base = False
    for line in map(str.strip, ruleset.splitlines()):
        if line.startswith("chain "):
            rules, is_base = 0, False
        elif line == "}":
            total, rules, is_base = total + rules * is_base, 0, False
        elif _BASE.match(line):
            is_base = True
        elif line and not _NO_RULE.match(line):
            rules += 1
    return total
