"""Veth pairs in bulk between two namespaces, both ends down, as `ip link add` makes them.

All methods but `process` put them into groups of a thousand and remove a group at a time
(host/netlink.py says why).
"""

from dataclasses import dataclass
from functools import partial

from pinchpoint.bench.resource import AnyResource, Namespace
from pinchpoint.bulk.making import Watch
from pinchpoint.host.interface import PROC, Host
from pinchpoint.host.many import run_fed, run_many
from pinchpoint.host.netlink import FIRST_GROUP, GROUP_SIZE, create_veths, remove_groups
from pinchpoint.model.scenario import Batch, Measure

METHODS = ("process", "file", "netlink")
_PIPE_BYTES = 4096  # ip -batch acts line by line: what is in the pipe is not made yet
_SPARE_FILES = 64


def veth_namespaces(bench_id: str) -> tuple[str, str]:
    """The two that veth pairs are made between; they hold nothing else."""
    return f"pp-{bench_id}-near", f"pp-{bench_id}-far"


def resources(measure: Measure, bench_id: str) -> tuple[AnyResource, ...]:
    """What a build needs of the bench beside the switch: planned, journalled and undone with it.

    To be built after the device, hence removed before it; nothing for a scenario that makes no pairs.
    """
    if not isinstance(measure, Batch) or measure.what != "veths":
        return ()
    return tuple(Namespace(name) for name in veth_namespaces(bench_id))


def most_fed(host: Host) -> int:
    """Pairs that one `ip -batch` can make: iproute2 keeps a file open for each `netns` that a line names.

    A process that is started there may have as many as its agent, or the lab (proc_pid_limits(5)).
    """
    (line,) = (line for line in host.read(f"{PROC}/self/limits").splitlines() if line.startswith("Max open files"))
    return int(line.split()[3]) - _SPARE_FILES


@dataclass(frozen=True)
class Veths:
    """Pairs named `v0`, `v1`, ... in both namespaces of a host, which hold nothing else."""

    host: Host
    netns: str
    peer_netns: str
    count: int
    method: str
    concurrency: int

    def make(self, watch: Watch) -> None:
        """Make all pairs by the method; `watch` hears how many there are."""
        if self.method == "netlink":
            pairs = [(f"v{number}", f"v{number}") for number in range(self.count)]
            watch.run(self.host, watch.reach, create_veths, self.netns, self.peer_netns, pairs)
            return
        if self.method == "process":
            commands = (["ip", "-n", self.netns, *self._words(number).split()] for number in range(self.count))
            watch.run(self.host, watch.reach, run_many, commands, self.concurrency, ())
            return
        most = most_fed(self.host)
        for first in range(0, self.count, most):
            lines = map(self._words, range(first, min(first + most, self.count)))
            argv = ["ip", "-n", self.netns, "-batch", "-"]
            watch.run(self.host, partial(_reach_beyond, watch, first), run_fed, argv, lines, (), pipe_bytes=_PIPE_BYTES)

    def _words(self, number: int) -> str:
        group = FIRST_GROUP + number // GROUP_SIZE
        return f"link add v{number} group {group} type veth peer name v{number} netns {self.peer_netns}"

    def remove(self, watch: Watch) -> None:
        """Remove all pairs, by the same method."""
        if self.method == "netlink":
            watch.run(self.host, watch.reach, remove_groups, self.netns, self.count)
        elif self.method == "process":
            commands = (["ip", "-n", self.netns, "link", "del", f"v{number}"] for number in range(self.count))
            watch.run(self.host, watch.reach, run_many, commands, self.concurrency, ())
        else:
            for group in range(-(-self.count // GROUP_SIZE)):
                argv = ["ip", "-n", self.netns, "link", "del", "group", str(FIRST_GROUP + group)]
                watch.run(self.host, partial(_reach_beyond, watch, group * GROUP_SIZE), run_fed, argv, (), ())

    def shown(self) -> int:
        """Pairs of which both ends are listed; -1 while one namespace lists more than the other."""
        near, far = self.host.count_links(self.netns), self.host.count_links(self.peer_netns)
        return near - 1 if near == far else -1  # lo is no pair's


def _reach_beyond(watch: Watch, before: int, items: int) -> None:
    watch.reach(before + items)
