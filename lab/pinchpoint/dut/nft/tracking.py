"""What bounds the connections of a namespace that balances, and its table of them.

Sources: Documentation/networking/nf_conntrack-sysctl.rst; `__nf_conntrack_alloc`, `nf_conntrack_in` in
net/netfilter/nf_conntrack_core.c; `nf_nat_l4proto_unique_tuple` in net/netfilter/nf_nat_core.c; conntrack(8). Time-outs
belong to the namespace and are kept in whole seconds; the limit of entries is set on the host and applies to each
namespace.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import ceil

from pinchpoint.dut.nft import balancing
from pinchpoint.host.interface import PROC, CommandFailed, Host
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Family, Mode, Range, Service

FOLDER = f"{PROC}/sys/net/netfilter"
BACKLOG = f"{PROC}/sys/net/core/netdev_max_backlog"
ENTRIES = "host/conntrack/entries"
FULL, NOT_INSERTED = "host/conntrack/table_full", "host/conntrack/insert_failed"
CLOSED = "nf_conntrack_tcp_timeout_time_wait"
KERNELS_PORTS = Range(1024, 64512)  # what source NAT takes from where rules give no ports and the client's is taken
MOST_LISTED = 10_000  # entries: listing them takes 0.1 s
FLUSHED_WITHIN_S = 10.0
_POLL_S = 0.02
_PREFIX = "nf_conntrack_tcp_timeout_"
_OPENING = (f"{_PREFIX}syn_sent", f"{_PREFIX}syn_recv")
_ESTABLISHED = (f"{_PREFIX}established",)
_CLOSED = (CLOSED, f"{_PREFIX}close")  # by FINs from both sides, by a reset
_PORTS = re.compile(r"snat .*to .*:(\d+)-(\d+)")


def timeouts(service: Service) -> dict[str, str]:
    """Sysctls of the namespace by name; those alone that the scenario sets."""
    wanted = ((_OPENING, service.opening_s), (_ESTABLISHED, service.established_s), (_CLOSED, service.closed_s))
    return {name: str(ceil(value)) for names, value in wanted if value is not None for name in names}


def assignments(service: Service) -> tuple[str, ...]:
    """The same as sysctl(8) takes them."""
    return tuple(f"net.netfilter.{name}={value}" for name, value in timeouts(service).items())


class NftBalancer:
    """Connection tracking of a namespace, and the ports that its source NAT may use."""

    def __init__(self, host: Host, netns: str, service: Service) -> None:
        self._host, self._netns, self._service = host, netns, service

    def limits(self) -> tuple[Limit, ...]:
        """Local ports with full-NAT, the table, the backlog. Raises BenchError."""
        closed_s = float(self._read(CLOSED))
        limits = [self._table(closed_s), self._softirq()]
        return (self._local_ports(closed_s), *limits) if self._service.mode is Mode.FULL_NAT else tuple(limits)

    def _local_ports(self, closed_s: float) -> Limit:
        service, ports = self._service, self._ports()
        size = len(service.locals) * ports.count * len(service.backends)
        addresses = f"{len(service.locals)} address{'' if len(service.locals) == 1 else 'es'}"
        source = f"{addresses} x {ports.count:,} ports x {len(service.backends)} backends, {CLOSED} = {closed_s:g} s"
        return Limit(Resource.LOCAL_PORTS, size, closed_s, source, ENTRIES, (NOT_INSERTED,))

    def _table(self, closed_s: float) -> Limit:
        most = int(self._host.read(f"{FOLDER}/nf_conntrack_max"))
        source = f"nf_conntrack_max = {most:,} (the host's), {CLOSED} = {closed_s:g} s"
        return Limit(Resource.TABLE, most, closed_s, source, ENTRIES, (FULL,))

    def _softirq(self) -> Limit:
        frames = int(self._host.read(BACKLOG)) if self._host.exists(BACKLOG) else None
        source = "netdev_max_backlog" + (f" = {frames:,} frames" if frames else "")
        return Limit(Resource.SOFTIRQ, None, None, source, refused=("host/link/*/rx_dropped",))

    def _ports(self) -> Range:
        """Those of each local address, as the rules in force have them."""
        if self._service.local_ports is None:
            return KERNELS_PORTS
        listed = self._host.run(
            ["nft", "list", "chain", balancing.word(self._service), balancing.TABLE, "postrouting"], self._netns
        )
        if not (match := _PORTS.search(listed)):
            raise BenchError(f"service.local_ports: no ports are in force: {listed.strip()}")
        return Range(int(match[1]), int(match[2]) - int(match[1]) + 1)

    def flush(self) -> None:
        """Forget all connections. Raises BenchError where some stay."""
        try:
            self._host.run(["conntrack", "-F"], self._netns)
        except CommandFailed as error:
            raise BenchError(f"the table of connections cannot be flushed: {error.output}") from error
        until_s = time.monotonic() + FLUSHED_WITHIN_S
        while left := self.tracked():
            if time.monotonic() > until_s:
                raise BenchError(f"{left:,} connections are in the table {FLUSHED_WITHIN_S:g} s after it was flushed")
            time.sleep(_POLL_S)

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
        names = dict.fromkeys((*_OPENING, *_ESTABLISHED, *_CLOSED))
        in_force = {name: self._read(name) for name in names}
        for name, value in timeouts(self._service).items():
            if in_force[name] != value:
                raise BenchError(f"net.netfilter.{name}: {value} was set, {in_force[name]} is in force")
        ports = self._ports()
        local = {"ports of each local address": balancing.shown_ports(ports)} if self._service.local else {}
        return {**{f"net.netfilter.{name}": value for name, value in in_force.items()}, **local}

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
            raise BenchError(
                f"{resource} cannot be doubled: {CLOSED} = {closed_s} s, and half of that is no whole number"
            )
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
        text = "\n".join((f"delete table {balancing.word(service)} {balancing.TABLE}", *balancing.ruleset(service)))
        self._host.run(["nft", text], self._netns)

    def _set_closed(self, seconds: int) -> None:
        self._host.run(["sysctl", "-qw", f"net.netfilter.{CLOSED}={seconds}"], self._netns)

    def _read(self, name: str) -> str:
        """A value of the namespace."""
        return self._host.run(["sysctl", "-n", f"net.netfilter.{name}"], self._netns).strip()
