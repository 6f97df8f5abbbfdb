"""NUMA: which nodes a host has, and on which of them memory is taken.

Source: Documentation/ABI/stable/sysfs-devices-node.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby

from pinchpoint.host import memory_policy
from pinchpoint.host.interface import SYS, Host, names_in, text_at
from pinchpoint.model.errors import DutError, HostLostError, InputError

NODES = f"{SYS}/devices/system/node"


@dataclass(frozen=True)
class Topology:
    """The machine's nodes with their CPUs; a node may have memory alone."""

    cpus: Mapping[int, tuple[int, ...]]  # node -> CPUs, rising

    def node_of(self, cpu: int) -> int | None:
        """The node that a CPU belongs to; None if the machine does not have it."""
        return next((node for node, cpus in self.cpus.items() if cpu in cpus), None)

    def nodes_of(self, cpus: Collection[int]) -> tuple[int, ...]:
        """The nodes of several CPUs, rising."""
        return tuple(sorted({node for cpu in cpus if (node := self.node_of(cpu)) is not None}))

    @property
    def with_cpus(self) -> tuple[int, ...]:
        """The nodes on which a thread can run."""
        return tuple(sorted(node for node, cpus in self.cpus.items() if cpus))


def cpu_list(text: str) -> tuple[int, ...]:
    """A kernel's CPU list, e.g. `0-3,8,10-11`; empty text is no CPU. Raises ValueError."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not 0 <= low <= high < 1 << 20:
            raise ValueError(f"{part!r} is not a range of CPUs")
        cpus.update(range(low, high + 1))
    return tuple(sorted(cpus))


def cpus_at(host: Host, path: str) -> tuple[int, ...]:
    """The CPUs that such a file lists; none where it is absent, or no such list."""
    with suppress(ValueError):
        return cpu_list(text_at(host, path))
    return ()


def cpu_words(cpus: Iterable[int]) -> str:
    """CPUs as a kernel lists them."""
    by_span = groupby(enumerate(sorted(set(cpus))), lambda placed: placed[1] - placed[0])
    spans = [[cpu for _, cpu in span] for _, span in by_span]
    return ",".join(f"{span[0]}-{span[-1]}" if len(span) > 1 else f"{span[0]}" for span in spans)


def read_topology(host: Host, folder: str = NODES, usable: Collection[int] | None = None) -> Topology:
    """The nodes of a host, with `usable` CPUs (None: those that may be used there).

    A kernel without NUMA has one node with all of them. Raises InputError for a file that is none of the kernel's.
    """
    allowed = host.cpus() if usable is None else set(usable)
    nodes: dict[int, tuple[int, ...]] = {}
    for number in (name.removeprefix("node") for name in names_in(host, folder) if name.startswith("node")):
        if not number.isdigit():
            continue
        path = f"{folder}/node{number}/cpulist"
        try:
            nodes[int(number)] = tuple(cpu for cpu in cpu_list(host.read(path)) if cpu in allowed)
        except OSError:
            continue  # a node that went offline meanwhile
        except ValueError as error:
            raise InputError(f"{path}: {error}") from error
    return Topology(dict(sorted(nodes.items())) or {0: tuple(sorted(allowed))})


@contextmanager
def memory_on(nodes: Collection[int] | None, host: Host) -> Iterator[None]:
    """Inside, what is started on the host takes memory from `nodes` alone; None changes nothing.

    On the lab's own machine that is said of this thread, and holds for it as well.

    A policy is inherited over fork and exec (set_mempolicy(2)), so no launcher is needed, and ends with
    the process. Raises RequirementError if the kernel refuses, e.g. a node that does not exist.
    """
    if nodes is None:
        yield
        return
    if host.name:
        try:
            host.bind_memory(sorted(nodes))
            yield
        finally:
            with suppress(HostLostError, DutError):  # its policy ended with the agent
                host.bind_memory(())
        return
    before = memory_policy.current()
    memory_policy.bind(nodes)
    try:
        yield
    finally:
        memory_policy.set_to(*before)
