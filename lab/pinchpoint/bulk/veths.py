"""Veth pairs in bulk between two namespaces, both ends down, as `ip link add` makes them.

All methods but `process` put them into groups of a thousand and remove a group at a time
(host/netlink.py says why).
"""

from dataclasses import dataclass

from pinchpoint.bulk.watch import Watch
from pinchpoint.host.interface import Host
from pinchpoint.host.making import count_links, create_veths, most_files, remove_groups, run_fed, run_many
from pinchpoint.host.netlink import FIRST_GROUP, GROUP_SIZE

METHODS = ("process", "file", "netlink")
_PIPE_BYTES = 4096  # ip -batch acts line by line: what is in the pipe is not made yet
_SPARE_FILES = 64


def most_fed(host: Host) -> int:
    """Pairs that one `ip -batch` can make: iproute2 keeps a file open for each `netns` that a line names."""
    return most_files(host) - _SPARE_FILES


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
            names = [f"v{number}" for number in range(self.count)]
            create_veths(self.host, self.netns, self.peer_netns, [(name, name) for name in names], watch)
            return
        if self.method == "process":
            commands = (["ip", "-n", self.netns, *self._words(number).split()] for number in range(self.count))
            run_many(self.host, commands, self.concurrency, (), watch)
            return
        most = most_fed(self.host)
        for first in range(0, self.count, most):
            part = range(first, min(first + most, self.count))
            run_fed(
                self.host,
                ["ip", "-n", self.netns, "-batch", "-"],
                map(self._words, part),
                (),
                watch,
                lambda fed, before=first: watch.reach(before + fed),  # type: ignore[misc]
                pipe_bytes=_PIPE_BYTES,
            )

    def _words(self, number: int) -> str:
        group = FIRST_GROUP + number // GROUP_SIZE
        return f"link add v{number} group {group} type veth peer name v{number} netns {self.peer_netns}"

    def remove(self, watch: Watch) -> None:
        """Remove all pairs, by the same method."""
        groups = -(-self.count // GROUP_SIZE)
        if self.method == "netlink":
            remove_groups(self.host, self.netns, self.count, watch)
        elif self.method == "process":
            commands = (["ip", "-n", self.netns, "link", "del", f"v{number}"] for number in range(self.count))
            run_many(self.host, commands, self.concurrency, (), watch)
        else:
            for group in range(groups):
                run_fed(
                    self.host,
                    ["ip", "-n", self.netns, "link", "del", "group", str(FIRST_GROUP + group)],
                    (),
                    (),
                    watch,
                    lambda _given, done=group: watch.reach(done * GROUP_SIZE),  # type: ignore[misc]
                )

    def shown(self) -> int:
        """Pairs of which both ends are listed; -1 while one namespace lists more than the other."""
        near, far = count_links(self.host, self.netns), count_links(self.host, self.peer_netns)
        return near - 1 if near == far else -1  # lo is no pair's
