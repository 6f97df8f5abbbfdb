"""Counters of a namespace that routes: its IP layer's, connection tracking's, its rules' own.

Formats: proc_net(5) and Documentation/networking/snmp_counter.rst; `/proc/net/stat/nf_conntrack` in
net/netfilter/nf_conntrack_standalone.c; libnftables-json(5).
"""

import json
import time
from itertools import pairwise

from pinchpoint.host.interface import PROC, Host
from pinchpoint.observe.printed import Printed
from pinchpoint.observe.snapshot import Snapshot

_SNMP, _NETSTAT = f"{PROC}/net/snmp", f"{PROC}/net/netstat"
_CONNTRACK, _CONNECTIONS = f"{PROC}/net/stat/nf_conntrack", f"{PROC}/sys/net/netfilter/nf_conntrack_count"
_IP = (
    "InReceives",
    "InHdrErrors",
    "InAddrErrors",
    "ForwDatagrams",
    "InDiscards",
    "OutDiscards",
    "OutNoRoutes",
    "FragFails",
    "InNoRoutes",
    "InTruncatedPkts",
    "IPReversePathFilter",
)
_SECTIONS = ("Ip:", "IpExt:", "TcpExt:")
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
    """`Ip:`, `IpExt:`, `TcpExt:` of /proc/net/snmp and /proc/net/netstat: a line of names, then one of values."""
    counters: dict[str, int] = {}
    for names, values in pairwise(lines):
        if names.split(" ")[0] in _SECTIONS and names.split(" ")[0] == values.split(" ")[0]:
            pairs = zip(names.split()[1:], values.split()[1:], strict=True)
            counters |= {name: int(value) for name, value in pairs if name in _IP and value.lstrip("-").isdigit()}
    return counters


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
