"""What a namespace that routes tells of itself: counters of its IP layer, connection tracking and rules, how many rules
each forwarded frame is compared with; what bounds the connections that it balances, and its table of them.

Rules of a chain are walked one by one; a set or a map answers in one step, however many elements it has. Formats:
proc_net(5) and Documentation/networking/snmp_counter.rst; `/proc/net/stat/nf_conntrack` in
net/netfilter/nf_conntrack_standalone.c; libnftables-json(5); nft(8), `-t list ruleset`.

Sources: Documentation/networking/nf_conntrack-sysctl.rst; `__nf_conntrack_alloc`, `nf_conntrack_in` in
net/netfilter/nf_conntrack_core.c; `nf_nat_l4proto_unique_tuple` in net/netfilter/nf_nat_core.c; conntrack(8). Time-outs
belong to the namespace and are kept in whole seconds; the limit of entries is set on the host and applies to each
namespace.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from pinchpoint.dut import addresses
from pinchpoint.dut.device import Timed
from pinchpoint.dut.nft import balancing
from pinchpoint.dut.services import KERNELS_PORTS, await_forgotten, is_full
from pinchpoint.dut.softirq import BACKLOG
from pinchpoint.dut.tcp_stack import snmp_counters
from pinchpoint.host.interface import PROC, CommandFailed, Host
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Family, Range, Service
from pinchpoint.observe.printed import Printed
from pinchpoint.observe.snapshot import Snapshot

FOLDER = f"{PROC}/sys/net/netfilter"
_SNMP, _NETSTAT = f"{PROC}/net/snmp", f"{PROC}/net/netstat"
_CONNTRACK, _CONNECTIONS = f"{PROC}/net/stat/nf_conntrack", f"{FOLDER}/nf_conntrack_count"
_IP = (
    *("InReceives", "InHdrErrors", "InAddrErrors", "ForwDatagrams", "InDiscards", "OutDiscards", "OutNoRoutes"),
    *("FragFails", "InNoRoutes", "InTruncatedPkts", "IPReversePathFilter"),
)
WALKED: Final = "nft/rules/walked"
_BASE: Final = re.compile(r"type (?:filter|route) hook (?:ingress|prerouting|forward|postrouting|egress) ")
"""A chain that frames enter by themselves. One of type nat sees the first of a connection alone."""
_NO_RULE: Final = re.compile(r"(?:type|policy|comment|devices?)\b|#")
_STATE = ("entries", "chainlength")  # of conntrack's columns: no counters of events
ENTRIES = "host/conntrack/entries"
FULL, NOT_INSERTED = "host/conntrack/table_full", "host/conntrack/insert_failed"
CLOSED = "nf_conntrack_tcp_timeout_time_wait"
MOST_LISTED = 10_000  # entries: listing them takes 0.1 s
FLUSHED_WITHIN_S = 10.0
_POLL_S = 0.02
_STATES = ("syn_sent", "syn_recv", "established", "time_wait", "close")
_PORTS = re.compile(r"snat .*to .*:(\d+)-(\d+)")


class Routing(Timed, Printed):
    """What the namespace's IP layer and connection tracking did."""

    name = "routing"

    def __init__(self, host: Host, netns: str) -> None:
        super().__init__(host, ["grep", "-H", "", _SNMP, _NETSTAT], netns)

    def read(self, at_s: float) -> Snapshot:
        """`host/ip/COUNTER`, `host/conntrack/COUNTER` of all CPUs; gauge `host/conntrack/entries`."""
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


class NamedCounters(Timed, Printed):
    """The rules' own counters that have a name (nft(8), COUNTERS)."""

    name = "nft-counters"

    def __init__(self, host: Host, netns: str) -> None:
        super().__init__(host, ["nft", "-j", "list", "counters"], netns)

    def read(self, at_s: float) -> Snapshot:
        """`nft/counter/NAME` in packets; counters of one name in several tables are added up."""
        return Snapshot(at_s, {f"nft/counter/{name}": packets for name, packets in named(self._read()).items()})


def named(text: str) -> dict[str, int]:
    """`nft -j list counters`: name -> packets."""
    packets: dict[str, int] = {}
    for entry in json.loads(text)["nftables"]:
        if counter := entry.get("counter"):
            packets[counter["name"]] = packets.get(counter["name"], 0) + int(counter["packets"])
    return packets


class Chains(Timed):
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

    def read(self, at_s: float) -> Snapshot:
        """Gauge `nft/rules/walked`: rules on a forwarded frame's way."""
        return Snapshot(at_s, gauges={} if self._walked is None else {WALKED: float(self._walked)})


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


def timeouts(service: Service) -> dict[str, str]:
    """Sysctls of the namespace by name; those alone that the scenario sets."""
    return {name.replace("/", "."): value for name, value in addresses.tracking(service).items()}


class NftBalancer:
    """Connection tracking of a namespace, and the ports that its source NAT may use."""

    def __init__(self, host: Host, netns: str, service: Service) -> None:
        self._host, self._netns, self._service = host, netns, service

    def limits(self) -> tuple[Limit, ...]:
        """Local ports with full-NAT, the table, the backlog. Raises BenchError."""
        service, closed_s = self._service, float(self._read(CLOSED))
        most, held = int(self._host.read(f"{FOLDER}/nf_conntrack_max")), f"{CLOSED} = {closed_s:g} s"
        frames = int(self._host.read(BACKLOG)) if self._host.exists(BACKLOG) else None
        backlog = "netdev_max_backlog" + (f" = {frames:,} frames" if frames else "")
        table = f"nf_conntrack_max = {most:,} (the host's), {held}"
        limits = (
            Limit(Resource.TABLE, most, closed_s, table, ENTRIES, (FULL,)),
            Limit(Resource.SOFTIRQ, None, None, backlog, refused=("host/link/*/rx_dropped",)),
        )
        if not is_full(service):
            return limits
        ports, local, backends = self._ports().count, len(service.locals), len(service.backends)
        pool = f"{local} address{'' if local == 1 else 'es'} x {ports:,} ports x {backends} backends"
        size = local * ports * backends
        return (Limit(Resource.LOCAL_PORTS, size, closed_s, f"{pool}, {held}", ENTRIES, (NOT_INSERTED,)), *limits)

    def _ports(self) -> Range:
        """Those of each local address, as the rules in force have them."""
        if self._service.local_ports is None:
            return KERNELS_PORTS
        argv = ["nft", "list", "chain", balancing.word(self._service), balancing.TABLE, "postrouting"]
        listed = self._host.run(argv, self._netns)
        if not (match := _PORTS.search(listed)):
            raise BenchError(f"service.local_ports: no ports are in force: {listed.strip()}")
        return Range(int(match[1]), int(match[2]) - int(match[1]) + 1)

    def flush(self) -> None:
        """Forget all connections. Raises BenchError where some stay."""
        try:
            self._host.run(["conntrack", "-F"], self._netns)
        except CommandFailed as error:
            raise BenchError(f"the table of connections cannot be flushed: {error.output}") from error
        if left := await_forgotten(self.tracked, FLUSHED_WITHIN_S, _POLL_S):
            raise BenchError(f"{left:,} connections are in the table {FLUSHED_WITHIN_S:g} s after it was flushed")

    def tracked(self) -> int:
        """Entries of the namespace's table; of more than `MOST_LISTED` those too whose time is over.

        The kernel collects those up to a minute later; listing the table collects them at once.
        """
        count = int(self._read("nf_conntrack_count"))
        if not 0 < count <= MOST_LISTED:
            return count
        family = ("-f", "ipv6") if self._service.family is Family.IPV6 else ()  # without, it lists those of IPv4
        return len(self._host.run(["conntrack", "-L", *family], self._netns).splitlines())

    def settings(self) -> dict[str, str]:
        """The time-outs, as read back. Raises BenchError where one is not in force."""
        wanted = dict.fromkeys((f"{addresses.TIMEOUT}{state}" for state in _STATES), "")
        settings = addresses.sysctls_in_force(self._host, self._netns, wanted | addresses.tracking(self._service))
        ports = self._ports()
        return settings | ({"ports of each local address": balancing.shown_ports(ports)} if self._service.local else {})

    @contextmanager
    def doubled(self, resource: Resource) -> Iterator[str]:
        """Inside, twice as many places, or closed connections for half as long. Raises BenchError where neither can be.

        Yields what was changed, as read back.
        """
        ports, closed_s = self._ports(), int(self._read(CLOSED))
        more = Range(ports.first, 2 * ports.count)
        if resource is Resource.LOCAL_PORTS and self._service.local_ports and more.last <= 65535:
            do = partial(self._reload, replace(self._service, local_ports=more))
            undo = partial(self._reload, self._service)
        elif resource in (Resource.LOCAL_PORTS, Resource.TABLE) and closed_s % 2 == 0:
            do, undo = partial(self._set_closed, closed_s // 2), partial(self._set_closed, closed_s)
        elif resource in (Resource.LOCAL_PORTS, Resource.TABLE):
            half = f"{CLOSED} = {closed_s} s, and half of that is no whole number"
            raise BenchError(f"{resource} cannot be doubled: {half}")
        else:
            raise BenchError(f"{resource} cannot be doubled while it runs")
        try:
            do()
            yield self._shown(ports, closed_s)
        finally:
            undo()

    def _shown(self, ports: Range, closed_s: int) -> str:
        now, now_s = self._ports(), int(self._read(CLOSED))
        if now != ports:
            return f"{now.count:,} instead of {ports.count:,} ports"
        return f"{CLOSED} = {now_s} s instead of {closed_s} s"

    def _reload(self, service: Service) -> None:
        """The rules of the service anew, in one transaction; the table of connections stays."""
        self._host.run(["nft", "\n".join(balancing.again(service))], self._netns)

    def _set_closed(self, seconds: int) -> None:
        self._host.run(["sysctl", "-qw", f"net.netfilter.{CLOSED}={seconds}"], self._netns)

    def _read(self, name: str) -> str:
        """A value of the namespace."""
        return self._host.run(["sysctl", "-n", f"net.netfilter.{name}"], self._netns).strip()
