"""What a namespace that routes tells of itself: its IP layer, connection tracking, its rules' own counters; and how
many rules each forwarded frame is compared with. Those of a chain are walked one by one; a set or a map answers in one
step, however many elements it has.

Formats: proc_net(5) and Documentation/networking/snmp_counter.rst; `/proc/net/stat/nf_conntrack` in
net/netfilter/nf_conntrack_standalone.c; libnftables-json(5); nft(8), `-t list ruleset`.
"""

import json
import re
import time
from typing import Final

from pinchpoint.dut.tcp_stack import snmp_counters
from pinchpoint.host.interface import PROC, CommandFailed, Host
from pinchpoint.observe.printed import Printed
from pinchpoint.observe.snapshot import Snapshot

_SNMP, _NETSTAT = f"{PROC}/net/snmp", f"{PROC}/net/netstat"
_CONNTRACK, _CONNECTIONS = f"{PROC}/net/stat/nf_conntrack", f"{PROC}/sys/net/netfilter/nf_conntrack_count"
_IP = (
    *("InReceives", "InHdrErrors", "InAddrErrors", "ForwDatagrams", "InDiscards", "OutDiscards", "OutNoRoutes"),
    *("FragFails", "InNoRoutes", "InTruncatedPkts", "IPReversePathFilter"),
)
WALKED: Final = "nft/rules/walked"
_BASE: Final = re.compile(r"type (?:filter|route) hook (?:ingress|prerouting|forward|postrouting|egress) ")
"""A chain that frames enter by themselves. One of type nat sees the first of a connection alone."""
_NO_RULE: Final = re.compile(r"(?:type|policy|comment|devices?)\b|#")
_STATE = ("entries", "chainlength")  # of conntrack's columns: no counters of events


class Routing(Printed):
    """What the namespace's IP layer and connection tracking did."""

    name = "routing"

    def __init__(self, host: Host, netns: str) -> None:
        super().__init__(host, ["grep", "-H", "", _SNMP, _NETSTAT], netns)

    def snapshot(self) -> Snapshot:
        """`host/ip/COUNTER`, `host/conntrack/COUNTER` of all CPUs; gauge `host/conntrack/entries`."""
        at_s = time.monotonic()
        files = _by_file(self._read())
        counters = {f"host/ip/{name}": value for name, value in ip_counters(files[_SNMP] + files[_NETSTAT]).items()}
        tracked = conntrack_counters(files.get(_CONNTRACK, []))
        counters |= {f"host/conntrack/{name}": value for name, value in tracked.items()}
        entries = files.get(_CONNECTIONS)
        return Snapshot(at_s, counters, {"host/conntrack/entries": float(entries[0])} if entries else {})

    def _read(self) -> str:
        tracked = [_CONNTRACK, _CONNECTIONS] if self._host.exists(_CONNTRACK) else []  # not before a rule has needed it
        return self._host.run([*self._argv, *tracked], self._netns)


def _by_file(said: str) -> dict[str, list[str]]:
    """`grep -H`: the lines of each file."""
    lines_by_file: dict[str, list[str]] = {_SNMP: [], _NETSTAT: []}
    for line in said.splitlines():
        path, _, text = line.partition(":")
        lines_by_file.setdefault(path, []).append(text)
    return lines_by_file


def ip_counters(lines: list[str]) -> dict[str, int]:
    """`Ip:`, `IpExt:`, `TcpExt:` of /proc/net/snmp and /proc/net/netstat."""
    return snmp_counters(lines, ("Ip:", "IpExt:", "TcpExt:"), _IP)


def conntrack_counters(lines: list[str]) -> dict[str, int]:
    """`/proc/net/stat/nf_conntrack`: a line of names, then one of hexadecimal values for each CPU; their sums.

    `table_full` is the drops of packets that found no entry to be had.
    """
    if not lines:
        return {}
    names = lines[0].split()
    columns = zip(*([int(word, 16) for word in line.split()] for line in lines[1:]), strict=True)
    sums = zip(names, map(sum, columns), strict=False)
    counters = {name: value for name, value in sums if name not in _STATE}
    if "drop" in counters and "insert_failed" in counters:  # what is not inserted counts as dropped, too
        counters["table_full"] = max(0, counters["drop"] - counters["insert_failed"])
    return counters


class NamedCounters(Printed):
    """The rules' own counters that have a name (nft(8), COUNTERS)."""

    name = "nft-counters"

    def __init__(self, host: Host, netns: str) -> None:
        super().__init__(host, ["nft", "-j", "list", "counters"], netns)

    def snapshot(self) -> Snapshot:
        """`nft/counter/NAME` in packets; counters of one name in several tables are added up."""
        at_s = time.monotonic()
        return Snapshot(at_s, {f"nft/counter/{name}": packets for name, packets in named(self._read()).items()})


def named(text: str) -> dict[str, int]:
    """`nft -j list counters`: name -> packets."""
    packets: dict[str, int] = {}
    for entry in json.loads(text)["nftables"]:
        if counter := entry.get("counter"):
            packets[counter["name"]] = packets.get(counter["name"], 0) + int(counter["packets"])
    return packets


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
