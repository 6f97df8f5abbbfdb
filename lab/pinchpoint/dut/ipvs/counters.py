"""Counters of IPVS and of connection tracking in its namespace.

Formats: `/proc/net/ip_vs_stats_percpu` and `/proc/net/ip_vs` in net/netfilter/ipvs/ip_vs_ctl.c; conntrack(8), `-S`.
"""

import re
import time

from pinchpoint.host.interface import PROC, Host
from pinchpoint.observe.printed import Printed
from pinchpoint.observe.snapshot import Snapshot

_PER_CPU, _SERVERS = f"{PROC}/net/ip_vs_stats_percpu", f"{PROC}/net/ip_vs"
_CONNECTIONS = f"{PROC}/sys/net/netfilter/nf_conntrack_count"
_COLUMNS = ("connections", "packets_in", "packets_out", "bytes_in", "bytes_out")
_PAIR = re.compile(r"(\w+)=(\d+)")


class Balanced(Printed):
    """What IPVS did, by CPU, and the connections in its table."""

    name = "ipvs"

    def __init__(self, host: Host, netns: str) -> None:
        super().__init__(host, ["cat", _PER_CPU, _SERVERS], netns)

    def snapshot(self) -> Snapshot:
        """`ipvs/cpu/N/COLUMN`; gauges `ipvs/connections/{active,inactive}`, which are TCP's established and others."""
        at_s = time.monotonic()
        said = self._read()
        counters = {
            f"ipvs/cpu/{cpu}/{name}": value for cpu, values in per_cpu(said).items() for name, value in values.items()
        }
        active, inactive = connections(said)
        gauges = {"ipvs/connections/active": float(active), "ipvs/connections/inactive": float(inactive)}
        return Snapshot(at_s, counters, gauges)


def per_cpu(text: str) -> dict[int, dict[str, int]]:
    """`ip_vs_stats_percpu`: CPU -> counters, all in hexadecimal; the line of their sums and the rates are left out."""
    counters = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 1 + len(_COLUMNS) and re.fullmatch(r"[0-9A-F]+", words[0]):
            counters[int(words[0], 16)] = dict(zip(_COLUMNS, (int(word, 16) for word in words[1:]), strict=True))
    return counters


def connections(text: str) -> tuple[int, int]:
    """`/proc/net/ip_vs`: active and inactive connections of all backends."""
    rows = [line.split() for line in text.splitlines() if re.match(r" *-> ([0-9A-F]{8}|\[[0-9a-f:]+\]):", line)]
    return sum(int(row[-2]) for row in rows), sum(int(row[-1]) for row in rows)


class Tracked(Printed):
    """What connection tracking did, which full-NAT needs."""

    name = "conntrack"

    def __init__(self, host: Host, netns: str) -> None:
        super().__init__(host, ["conntrack", "-S"], netns)

    def snapshot(self) -> Snapshot:
        """`host/conntrack/COUNTER` of all CPUs, `host/conntrack/table_full` among them; gauge `.../entries`."""
        at_s = time.monotonic()
        sums = tracking(self._read())
        entries = float(self._host.run(["cat", _CONNECTIONS], self._netns))
        counters = {f"host/conntrack/{name}": value for name, value in sums.items()}
        return Snapshot(at_s, counters, {"host/conntrack/entries": entries})


def tracking(text: str) -> dict[str, int]:
    """`conntrack -S`: a line of `name=value` for each CPU; the sums of each name, and `table_full`.

    The kernel counts a connection whose addresses clash with another's as `insert_failed` and as `drop`, one with too
    long a chain as `insert_failed` alone, and one without a place in the table as `drop` alone
    (net/netfilter/nf_conntrack_core.c).
    """
    sums: dict[str, int] = {}
    for name, value in _PAIR.findall(text):
        if name != "cpu":
            sums[name] = sums.get(name, 0) + int(value)
    if {"drop", "insert_failed"} <= sums.keys():
        clashed = sums["insert_failed"] - sums.get("chaintoolong", 0)
        sums["table_full"] = max(0, sums["drop"] - clashed)
    return sums
