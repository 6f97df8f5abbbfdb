"""What bounds the connections of a namespace that balances, and its table of them.

Sources: Documentation/networking/nf_conntrack-sysctl.rst; `__nf_conntrack_alloc`, `nf_conntrack_in` in
net/netfilter/nf_conntrack_core.c; `nf_nat_l4proto_unique_tuple` in net/netfilter/nf_nat_core.c; conntrack(8). Time-outs
belong to the namespace and are kept in whole seconds; the limit of entries is set on the host and applies to each
namespace.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from pinchpoint.dut import addresses
from pinchpoint.dut.device import in_force
from pinchpoint.dut.nft import balancing
from pinchpoint.dut.services import await_forgotten
from pinchpoint.dut.softirq import BACKLOG
from pinchpoint.host.interface import PROC, CommandFailed, Host
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Family, Mode, Range, Service

FOLDER = f"{PROC}/sys/net/netfilter"
ENTRIES = "host/conntrack/entries"
FULL, NOT_INSERTED = "host/conntrack/table_full", "host/conntrack/insert_failed"
_PREFIX = "nf_conntrack_tcp_timeout_"
CLOSED = f"{_PREFIX}time_wait"
KERNELS_PORTS = Range(1024, 64512)  # what source NAT takes from where rules give no ports and the client's is taken
MOST_LISTED = 10_000  # entries: listing them takes 0.1 s
FLUSHED_WITHIN_S = 10.0
_POLL_S = 0.02
_STATES = ("syn_sent", "syn_recv", "established", "time_wait", "close")
_PORTS = re.compile(r"snat .*to .*:(\d+)-(\d+)")


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
        if service.mode is not Mode.FULL_NAT:
            return limits
        ports, local, backends = self._ports().count, len(service.locals), len(service.backends)
        pool = f"{local} address{'' if local == 1 else 'es'} x {ports:,} ports x {backends} backends"
        size = local * ports * backends
        return (Limit(Resource.LOCAL_PORTS, size, closed_s, f"{pool}, {held}", ENTRIES, (NOT_INSERTED,)), *limits)

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
        wanted, settings = timeouts(self._service), dict[str, str]()
        for state in _STATES:
            name, value = f"net.netfilter.{_PREFIX}{state}", self._read(f"{_PREFIX}{state}")
            settings[name] = in_force(name, wanted.get(name, value), value)
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
        self._host.run(["nft", "\n".join(balancing.again(service))], self._netns)

    def _set_closed(self, seconds: int) -> None:
        self._host.run(["sysctl", "-qw", f"net.netfilter.{CLOSED}={seconds}"], self._netns)

    def _read(self, name: str) -> str:
        """A value of the namespace."""
        return self._host.run(["sysctl", "-n", f"net.netfilter.{name}"], self._netns).strip()
