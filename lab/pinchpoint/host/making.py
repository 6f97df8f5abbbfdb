"""Many processes, one that is fed, links in bulk: on any host, and timed there.

On a host by ssh its agent does the work, once it has all of what that needs, and says how long it took: neither the
line's latency nor what goes over it is in that time. How far it is meanwhile is known to about a round trip.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from pinchpoint.host import jobs, many, netlink
from pinchpoint.host.interface import PROC, Environment, Host
from pinchpoint.host.ssh import Ssh
from pinchpoint.model.errors import PinchpointError


class Clock(Protocol):
    """What times the work, and hears how far it is."""

    def reach(self, items: int) -> None:
        """How many exist now; what it raises ends the work."""

    def begins(self) -> None:
        """Work begins now that another clock times."""

    def took(self, seconds: float) -> None:
        """It has ended, after so long by that clock."""


def run_many(
    host: Host, commands: Iterable[Sequence[str]], concurrency: int, environment: Environment, clock: Clock
) -> None:
    """`many.run_many` on the host; `clock` hears how many commands have ended."""
    _work(host, "many", clock, clock.reach, commands=commands, concurrency=concurrency, environment=environment)


def run_fed(
    host: Host,
    argv: Sequence[str],
    lines: Iterable[str],
    environment: Environment,
    clock: Clock,
    on_wait: Callable[[int], None],
    *,
    timeout_s: float = math.inf,
    pipe_bytes: int | None = None,
) -> None:
    """`many.run_fed` on the host; `on_wait` receives the number of lines written."""
    limits = {"timeout_s": timeout_s, "pipe_bytes": pipe_bytes}
    _work(host, "fed", clock, on_wait, argv=argv, lines=lines, environment=environment, **limits)


def create_veths(host: Host, netns: str, peer_netns: str, pairs: Sequence[tuple[str, str]], clock: Clock) -> None:
    """`netlink.Links.create_veths` on the host; `clock` hears how many links there are."""
    _work(host, "veths", clock, clock.reach, netns=netns, peer_netns=peer_netns, pairs=pairs)


def remove_groups(host: Host, netns: str, count: int, clock: Clock) -> None:
    """`netlink.Links.remove_groups` on the host; `clock` hears how many links have gone."""
    _work(host, "groups", clock, clock.reach, netns=netns, count=count)


def remove_kind(host: Host, netns: str, kind: str, names: Collection[str], clock: Clock) -> None:
    """`netlink.Links.remove_kind` on the host. Names that are gone already are no error."""
    _work(host, "kind", clock, clock.reach, netns=netns, kind=kind, names=names)


def count_links(host: Host, netns: str) -> int:
    """Links of a namespace of the host, lo included; 0 where there is no such namespace."""
    return host.count_links(netns) if isinstance(host, Ssh) else netlink.count_links(netns)


def children_s(host: Host) -> float:
    """Processor time of all processes that have ended of those that the lab, or its agent there, started."""
    return host.children_s() if isinstance(host, Ssh) else jobs.children_s()


def most_files(host: Host) -> int:
    """That a process may have open which is started there (proc_pid_limits(5))."""
    (line,) = (line for line in host.read(f"{PROC}/self/limits").splitlines() if line.startswith("Max open files"))
    return int(line.split()[3])


def _work(host: Host, kind: str, clock: Clock, on_wait: Callable[[int], None], /, **arguments: object) -> None:
    if isinstance(host, Ssh):
        _work_there(host, kind, clock, on_wait, arguments)
    else:
        jobs.work(kind, on_wait, arguments)


def _work_there(
    host: Ssh, kind: str, clock: Clock, on_wait: Callable[[int], None], arguments: Mapping[str, object]
) -> None:
    job = host.begin(kind, jobs.pack(arguments))
    clock.begins()
    try:
        while True:
            has_ended, done, seconds = host.job(job)
            if has_ended:
                break
            on_wait(done)
            time.sleep(many.LOOK_S)
    except BaseException:
        with suppress(PinchpointError):  # of a host that is lost: its agent ends it
            host.end_job(job)
        raise
    clock.took(seconds)
