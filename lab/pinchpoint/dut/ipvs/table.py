"""The connections that IPVS remembers: what bounds them, as read back from the kernel, and how they are forgotten."""

import time

from pinchpoint.dut.ipvs import balancing
from pinchpoint.host.interface import PROC, Host
from pinchpoint.model.errors import BenchError
from pinchpoint.model.limits import Limit, Resource
from pinchpoint.model.scenario import Service

FORGETTING_S = 20.0
_TRACKED = f"{PROC}/sys/net/netfilter/nf_conntrack_count"
_OWN = f"{PROC}/net/ip_vs_conn"
_NO_DESTINATION = "net/ipv4/vs/expire_nodest_conn"
_FULL = ("host/conntrack/table_full", "host/conntrack/early_drop")  # a full table first forgets half-open connections
_ENTRIES = "host/conntrack/entries"


class Table:
    """A service's connections: what bounds them, how many there are, and how all are forgotten."""

    def __init__(self, service: Service, host: Host, netns: str) -> None:
        self._service, self._host, self._netns = service, host, netns

    def limits(self) -> tuple[Limit, ...]:
        """With full-NAT the tracked connections and the local ports; IPVS's own table is bounded by memory alone."""
        service, closed_s = self._service, float(balancing.CLOSED_S)
        own = Limit(Resource.MEMORY, None, closed_s, "IPVS's own table has no limit; TIME_WAIT lasts 120 s, fixed")
        if not balancing.is_full(service):
            return (own,)
        most, time_wait_s = (int(self._sysctl(name)) for name in (balancing.LIMIT, balancing.TIME_WAIT))
        held_s = min(closed_s, float(time_wait_s))
        ports = balancing.local_ports(service).count
        places = len(service.locals) * ports * len(service.backends)
        pool = f"{len(service.locals):,} addresses x {ports:,} ports x {len(service.backends):,} backends"
        waits = f"nf_conntrack_tcp_timeout_time_wait = {time_wait_s}"
        return (
            Limit(
                Resource.TABLE,
                most,
                held_s,
                f"nf_conntrack_max = {most}, {waits}",
                _ENTRIES,
                _FULL,
            ),
            Limit(
                Resource.LOCAL_PORTS, places, held_s, f"{pool}, {waits}", _ENTRIES, ("host/conntrack/insert_failed",)
            ),
            own,
        )

    def flush(self) -> None:
        """Forget all connections: IPVS lets those go whose virtual server is removed. Raises BenchError."""
        before = self._sysctl(_NO_DESTINATION)
        self._run("sysctl", "-qw", f"{_NO_DESTINATION}=1")
        self._run("ipvsadm", "-D", *balancing.virtual(self._service))
        try:
            self._await_forgotten()
        finally:
            self._run("sysctl", "-qw", f"{_NO_DESTINATION}={before}")
            for words in balancing.commands(self._service):
                self._run(*words)

    def tracked(self) -> int | None:
        """Connections of IPVS's own table and of connection tracking, whichever are more."""
        return max(self._own(), self._tracked())

    def _await_forgotten(self) -> None:
        deadline = time.monotonic() + FORGETTING_S
        while (left := self._own()) and time.monotonic() < deadline:
            time.sleep(0.05)
        if left:
            raise BenchError(f"{left:,} connections are still remembered {FORGETTING_S:g} s after the flush")
        if balancing.is_full(self._service):
            self._run("conntrack", "-F")

    def _own(self) -> int:
        """Lines of its list, but for the heading."""
        return int(self._run("wc", "-l", _OWN).split()[0]) - 1

    def _tracked(self) -> int:
        return int(self._run("cat", _TRACKED)) if balancing.is_full(self._service) else 0

    def _sysctl(self, name: str) -> str:
        return self._run("sysctl", "-n", name).strip()

    def _run(self, *argv: str) -> str:
        return self._host.run(argv, self._netns)
