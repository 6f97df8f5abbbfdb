"""The machines of a run: the lab's own, and those that scenarios name, each connected once."""

import atexit

from pinchpoint.host import numa
from pinchpoint.host.interface import Host
from pinchpoint.host.ssh import Ssh
from pinchpoint.model.site import LAB, Remote, Site


class Machines:
    """Made once, where a command begins; what builds benches is handed it, and what reads one its host."""

    def __init__(self, lab: Host) -> None:
        """`lab` is the machine on which the lab runs."""
        self.lab = lab
        self._by_address = dict[str, Ssh]()

    def ssh(self, remote: Remote) -> Ssh:
        """The host, connected or not: one for each address, whatever names scenarios give it.

        Raises InputError if they differ in whether sudo may be used there.
        """
        host = self._by_address.get(remote.address)
        if host is None:
            host = self._by_address[remote.address] = Ssh(remote.address, remote.sudo, remote.lease_s)
            atexit.register(host.close)
        host.agree(remote.sudo, remote.lease_s)
        return host

    def opened(self, site: Site) -> Host:
        """The machine of a site, connected. Raises RequirementError."""
        if site.remote is None:
            return self.lab
        host = self.ssh(site.remote)
        host.open()
        return host

    def held_as(self, remote: Remote, lock: str, labs: str) -> str | None:
        """The other name under which this lab holds the host, by the lock's file there; None: it does not.

        `labs` is the token of the lock of the lab's own machine; empty: it is not held.
        """
        host = self.ssh(remote)
        token = host.lock_token(lock)
        if labs and token == labs:
            return LAB
        others = (other for other in self._by_address.values() if other is not host)
        return next((other.name for other in others if other.holds_by(token)), None)

    def connection(self, site: Site) -> int | None:
        """The number of the host's connection, 0 of the lab's own machine; None: it is not connected.

        With another number the host was lost meanwhile, and nothing stands there that stood before.
        """
        if site.remote is None:
            return 0
        host = self.ssh(site.remote)
        return host.connection if host.is_started else None

    def topology(self, site: Site) -> numa.Topology | None:
        """The NUMA nodes of the host; None of one that is not connected, so that nobody is kept waiting."""
        return None if self.connection(site) is None else numa.read_topology(self.opened(site))
