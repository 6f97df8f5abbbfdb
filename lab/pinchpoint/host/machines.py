"""The hosts that scenarios name, each connected once for as long as the lab runs."""

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from pinchpoint.host import numa
from pinchpoint.host.interface import Host
from pinchpoint.host.local import OWN, on
from pinchpoint.host.ssh import Ssh
from pinchpoint.model.scenario import LAB, Remote


@cache
def _machines() -> dict[str, Ssh]:
    """By address."""
    return {}


def machine(remote: Remote) -> Ssh:
    """The host, connected or not: one for each address, whatever names scenarios give it.

    Raises InputError if they differ in whether sudo may be used there.
    """
    found = _machines().get(remote.address)
    if found is None:
        found = _machines()[remote.address] = Ssh(remote.address, remote.sudo, remote.lease_s)
        atexit.register(found.close)
    found.agree(remote.sudo, remote.lease_s)
    return found


def held_as(remote: Remote, lock: str, labs: str) -> str | None:
    """The other name under which this lab holds the host, by the lock's file there; None: it does not.

    `labs` is the token of the lock of the lab's own machine; empty: it is not held.
    """
    host = machine(remote)
    token = host.lock_token(lock)
    if labs and token == labs:
        return LAB
    return next((one.name for one in _machines().values() if one is not host and one.holds_by(token)), None)


@contextmanager
def standing_on(remote: Remote | None) -> Iterator[None]:
    """Inside, the host is at hand on which the bench stands; None: this machine. Raises RequirementError."""
    if remote is None:
        with on(OWN):
            yield
        return
    host = machine(remote)
    host.open()
    with on(host):
        yield


def host_of(remote: Remote | None) -> Host:
    """The host, connected or not; None: the machine on which the lab runs."""
    return OWN if remote is None else machine(remote)


def connection_of(remote: Remote | None) -> int | None:
    """The number of the host's connection, 0 of this machine; None: it is not connected.

    With another number the host was lost meanwhile, and nothing stands there that stood before.
    """
    if remote is None:
        return 0
    host = machine(remote)
    return host.connection if host.is_started else None


def topology_of(remote: Remote | None) -> numa.Topology | None:
    """The NUMA nodes of the host; None of one that is not connected, so that nobody is kept waiting."""
    if remote is None:
        return numa.read_topology(OWN)
    host = machine(remote)
    return numa.read_topology(host) if host.is_started else None
