"""What a namespace that routes tells of itself: counters of its IP layer, connection tracking and rules, how many rules
each forwarded frame is compared with; what bounds the connections that it balances, and its table of them.

Rules of a chain are walked one by one; a set or a map answers in one step, however many elements it has. Formats:
proc_net(5) and Documentation/networking/snmp_counter.rst; `/proc/net/stat/nf_conntrack` in
net/netfilter/nf_conntrack_standalone.c; libnftables-json(5); nft(8), `-t list ruleset`.

A service has destination NAT by a counter or a hash, source NAT by a counter: nft(8), NAT STATEMENTS, NUMGEN EXPRESSION
and HASH EXPRESSIONS. A NAT chain sees the first packet of a connection alone, so `numgen inc` takes the backends
exactly in turn. With a range of ports, source NAT tries those of the range and drops the first packet where all of them
lead to the same backend already. `nft -f` takes a file as one transaction, so that rules can be replaced while
connections are opened.

Sources: Documentation/networking/nf_conntrack-sysctl.rst; `__nf_conntrack_alloc`, `nf_conntrack_in` in
net/netfilter/nf_conntrack_core.c; `nf_nat_l4proto_unique_tuple` in net/netfilter/nf_nat_core.c; conntrack(8). Time-outs
belong to the namespace and are kept in whole seconds; the limit of entries is set on the host and applies to each
namespace.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from pinchpoint.dut import addresses
from pinchpoint.dut.addresses import TIMEOUT, UDP_TIMEOUT, read_sysctls
from pinchpoint.dut.places import Places
from pinchpoint.dut.program import braced
from pinchpoint.dut.services import KERNELS_PORTS, await_forgotten, cycle, is_full, local_pool
from pinchpoint.dut.softirq import BACKLOG, QDISC
from pinchpoint.host.interface import PROC, CommandFailed, Host
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Backend, Established, Family, Range, Scheduler, Service, Transport
from pinchpoint.observe.printed import Printed, snmp_counters
from pinchpoint.observe.snapshot import Collector, Snapshot

TABLE = "pinchpoint-service"
UNTRACKED = "pinchpoint-untracked"  # the counter of frames on connections that are not known
_MSS = 1460
SYN_PROXY_SYSCTLS: Final = {"net/netfilter/nf_conntrack_tcp_loose": "0", "net/ipv4/tcp_syncookies": "1"}
"""An acknowledgment of a cookie must not be taken for a connection under way (nf_conntrack-sysctl)."""
HASHED: Final = {
    Scheduler.ROUND_ROBIN: "", Scheduler.HASH: "saddr . {} sport", Scheduler.SOURCE: "saddr",
}  # fmt: skip
"""Schedulers, and what a hash is of; the transport is in its place."""
_SEED = "0x70696e63"  # of the hash: the same connections go to the same backends in every bench


def word(service: Service) -> str:
    """The family as nft(8) has it, of tables and of statements."""
    return "ip6" if service.family is Family.IPV6 else "ip"


def sysctls(established: Established | None) -> dict[str, str]:
    """Of the namespace, by name: a connection that it has forgotten is not taken for a new one (nf_conntrack-sysctl).

    Its frames would go on to another backend, and nothing would show that it was forgotten.
    """
    return {"net/netfilter/nf_conntrack_tcp_loose": "0"} if established else {}


def times(host: Host, netns: str) -> dict[str, str]:
    """When the namespace forgets a connection: one that is idle, one whose data nobody acknowledges."""
    names = (f"{TIMEOUT}{state}" for state in ("established", "unacknowledged", "max_retrans"))
    return {name.replace("/", "."): f"{value} s" for name, value in read_sysctls(host, netns, names).items()}


def ruleset(service: Service, established: Established | None = None) -> list[str]:
    """Lines of a ruleset."""
    chains = list[str]()
    if established:  # what is not translated is for the namespace itself: no other frame takes this chain
        forgotten = f"{_frames_of(service)} counter name {UNTRACKED} drop"
        chains += [f"counter {UNTRACKED} {{ }}", *_chain("input", "filter hook input priority filter", forgotten)]
    chains += _chain("prerouting", "nat hook prerouting priority dstnat", _dealt(service, service.backends))
    if is_full(service):
        pool = ", ".join(f"{number} : {local}" for number, local in enumerate(service.locals))
        chosen = f"numgen inc mod {len(service.locals)} map {{ {pool} }}"
        ports = f" : {shown_ports(service.local_ports)}" if service.local_ports else ""
        of_service = f"ct original {word(service)} daddr {service.virtual.as_addresses()}"
        of_service = f"meta l4proto {service.transport} {of_service}"
        translated = f"{of_service} counter snat to {chosen}{ports}"
        chains += _chain("postrouting", "nat hook postrouting priority srcnat", translated)
    return braced(f"table {word(service)} {TABLE}", *chains)


def syn_proxy(service: Service) -> list[str]:
    """Lines of a second table: SYNs are not tracked, and the kernel answers them and what follows by cookies.

    Its own SYN to a backend leaves by the output hook, where it is dealt as others are before routing.
    """
    untracked = f"{_frames_of(service)} tcp flags & (fin|syn|rst|ack) == syn notrack"
    proxied = f"ct state invalid,untracked synproxy mss {_MSS} wscale 7 timestamp sack-perm"
    return braced(
        f"table {word(service)} {TABLE}-syns",
        *_chain("raw", "filter hook prerouting priority raw", untracked),
        *_chain("input", "filter hook input priority filter", f"{_frames_of(service)} {proxied}"),
        *_chain("output", "nat hook output priority -100", _dealt(service, service.backends)),
    )


def _chain(name: str, hook: str, rule: str) -> list[str]:
    return braced(f"chain {name}", f"type {hook}; policy accept;", rule)


def _frames_of(service: Service) -> str:
    """Which frames are for the service, in a rule."""
    return f"{word(service)} daddr {service.virtual.as_addresses()} {service.transport} dport {service.shown_ports}"


def shown_ports(ports: Range) -> str:
    """A range of ports as rules have it."""
    return f"{ports.first}-{ports.last}"


def dealt_to(service: Service, backends: Sequence[Backend]) -> Iterator[str]:
    """Lines that deal new connections to these in the place of those before, in one transaction."""
    yield f"flush chain {word(service)} {TABLE} prerouting"
    if backends:
        yield f"add rule {word(service)} {TABLE} prerouting {_dealt(service, backends)}"


def again(service: Service) -> Iterator[str]:
    """Lines that load the whole ruleset in the place of the one that is there, in one transaction."""
    yield f"delete table {word(service)} {TABLE}"
    yield from ruleset(service)


def _dealt(service: Service, backends: Sequence[Backend]) -> str:
    dealt = cycle(backends)
    ends = ", ".join(f"{number} : {backend.address} . {backend.port}" for number, backend in enumerate(dealt))
    chosen = f"{_choice(service, len(dealt))} map {{ {ends} }}"
    return f"{_frames_of(service)} counter dnat {word(service)} to {chosen}"


def _choice(service: Service, count: int) -> str:
    if fields := HASHED[service.scheduler]:
        return f"jhash {word(service)} {fields.format(service.transport)} mod {count} seed {_SEED}"
    return f"numgen inc mod {count}"


class Rebalancing:
    """Backends removed and added. Connections that are open keep theirs: only their first packet meets the rules."""

    def __init__(self, service: Service, places: Places) -> None:
        self._service, self._places = service, places
        self._removed = set[int]()

    def remove(self, backend: int) -> None:
        """Deal to the others. Raises BenchError."""
        self._removed.add(backend)
        self._deal()

    def add(self, backend: int) -> None:
        """Deal to it again. Raises BenchError."""
        self._removed.discard(backend)
        self._deal()

    def reload(self) -> None:
        """Delete the table and load it again. Raises BenchError."""
        self._load(again(self._service))

    def _deal(self) -> None:
        left = [backend for number, backend in enumerate(self._service.backends) if number not in self._removed]
        self._load(dealt_to(self._service, left))

    def _load(self, lines: Iterable[str]) -> None:
        path, host = f"{self._places.directory}/changed.nft", self._places.host
        host.write(path, "".join(f"{line}\n" for line in lines))
        host.run(["nft", "-f", path], self._places.dut_netns)


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
MOST_LISTED = 10_000  # entries: listing them takes 0.1 s
FLUSHED_WITHIN_S = 10.0
_POLL_S = 0.02
_STATES = tuple(f"{TIMEOUT}{state}" for state in ("syn_sent", "syn_recv", "established", "time_wait", "close"))
_TIMES: Final = {Transport.TCP: _STATES, Transport.UDP: (UDP_TIMEOUT,)}
_CLOSED: Final = {Transport.TCP: "nf_conntrack_tcp_timeout_time_wait", Transport.UDP: "nf_conntrack_udp_timeout"}
"""For which a connection is remembered that has ended."""
_PORTS = re.compile(r"snat .*to .*:(\d+)-(\d+)")


class Routing(Printed):
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


class NamedCounters(Printed):
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


class Chains(Collector):
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
        self._closed = _CLOSED[service.transport]

    def limits(self) -> tuple[Limit, ...]:
        """Local ports with full-NAT, the table, the backlog. Raises BenchError."""
        service, closed_s = self._service, float(self._read(self._closed))
        most, held = int(self._host.read(f"{FOLDER}/nf_conntrack_max")), f"{self._closed} = {closed_s:g} s"
        frames = int(self._host.read(BACKLOG)) if self._host.exists(BACKLOG) else None
        backlog = "netdev_max_backlog" + (f" = {frames:,} frames" if frames else "")
        table = f"nf_conntrack_max = {most:,} (the host's), {held}"
        limits = (
            Limit(Resource.TABLE, most, closed_s, table, ENTRIES, (FULL,)),
            Limit(Resource.SOFTIRQ, None, None, backlog, refused=("host/link/*/rx_dropped",)),
            QDISC,
        )
        if not is_full(service):
            return limits
        size, pool = local_pool(service, self._ports())
        return (Limit(Resource.LOCAL_PORTS, size, closed_s, f"{pool}, {held}", ENTRIES, (NOT_INSERTED,)), *limits)

    def _ports(self) -> Range:
        """Those of each local address, as the rules in force have them."""
        if self._service.local_ports is None:
            return KERNELS_PORTS
        listed = self._host.run(["nft", "list", "chain", word(self._service), TABLE, "postrouting"], self._netns)
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
        wanted = dict.fromkeys(_TIMES[self._service.transport], "")
        settings = addresses.sysctls_in_force(self._host, self._netns, wanted | addresses.tracking(self._service))
        ports = self._ports()
        return settings | ({"ports of each local address": shown_ports(ports)} if self._service.local else {})

    @contextmanager
    def doubled(self, resource: Resource) -> Iterator[str]:
        """Inside, twice as many places, or closed connections for half as long. Raises BenchError where neither can be.

        Yields what was changed, as read back.
        """
        ports, closed_s = self._ports(), int(self._read(self._closed))
        more = Range(ports.first, 2 * ports.count)
        if resource is Resource.LOCAL_PORTS and self._service.local_ports and more.last <= 65535:
            do = partial(self._reload, replace(self._service, local_ports=more))
            undo = partial(self._reload, self._service)
        elif resource in (Resource.LOCAL_PORTS, Resource.TABLE) and closed_s % 2 == 0:
            do, undo = partial(self._set_closed, closed_s // 2), partial(self._set_closed, closed_s)
        elif resource in (Resource.LOCAL_PORTS, Resource.TABLE):
            half = f"{self._closed} = {closed_s} s, and half of that is no whole number"
            raise BenchError(f"{resource} cannot be doubled: {half}")
        else:
            raise BenchError(f"{resource} cannot be doubled while it runs")
        try:
            do()
            now, now_s = self._ports(), int(self._read(self._closed))
            sooner = f"{self._closed} = {now_s} s instead of {closed_s} s"
            yield f"{now.count:,} instead of {ports.count:,} ports" if now != ports else sooner
        finally:
            undo()

    def _reload(self, service: Service) -> None:
        """The rules of the service anew, in one transaction; the table of connections stays."""
        self._host.run(["nft", "\n".join(again(service))], self._netns)

    def _set_closed(self, seconds: int) -> None:
        self._host.run(["sysctl", "-qw", f"net.netfilter.{self._closed}={seconds}"], self._netns)

    def _read(self, name: str) -> str:
        """A value of the namespace."""
        return self._host.run(["sysctl", "-n", f"net.netfilter.{name}"], self._netns).strip()
