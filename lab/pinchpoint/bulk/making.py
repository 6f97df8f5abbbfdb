"""What can be made in bulk, and one making of it, timed; on another host its agent times it.

On a host by ssh the agent does the work, once it has all of what that needs, and says how long it took: neither the
line's latency nor what goes over it is in that time. How far it is meanwhile is known to about a round trip.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Concatenate, NamedTuple, ParamSpec, Protocol

from pinchpoint.bench.resource import AnyResource, Namespace
from pinchpoint.host import many
from pinchpoint.host.interface import PROC, Host
from pinchpoint.host.many import run_fed, run_many
from pinchpoint.host.netlink import FIRST_GROUP, GROUP_SIZE, create_veths, remove_groups
from pinchpoint.host.ssh import Ssh
from pinchpoint.model.errors import DutError
from pinchpoint.model.scenario import Batch, Measure

P = ParamSpec("P")
FIRST_ADDRESS = "240.0.0.1"  # of rules made in bulk: 240.0.0.0/4, which no traffic uses (RFC 1112, section 4)
SHOW_EVERY_S = 0.01
BASE_TIMEOUT_S = 60.0  # from a command's return until all items show
EACH_TIMEOUT_S = 0.02  # and for each item: removing a link takes a kernel about that long
STEPS = 20  # of a curve: enough to see where it bends
_FEWEST_STEPS = 4  # a quarter of the items needs a step of its own
LOOKS = 40  # at what cannot tell by itself how far it is, if it takes as long again as until now
SHORTEST_LOOK_S = 0.01


class Step(NamedTuple):
    """Number of items that existed after a number of seconds."""

    items: int
    seconds: float


class Watch:
    """The clock of one making or removal: from its own making on, seconds run and items are counted.

    `check` is called wherever work may stop and raises what stops it.
    """

    def __init__(self, count: int, check: Callable[[], None] = lambda: None) -> None:
        self.count = count
        self._check = check
        self._began = time.monotonic()
        self._taken_s = 0.0  # of what an agent's clock has timed
        self._looked_s = 0.0
        self._steps = [Step(0, 0.0)]

    @property
    def elapsed_s(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._began

    def run(
        self,
        host: Host,
        reach: Callable[[int], None],
        work: Callable[Concatenate[Callable[[int], None], P], None],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> None:
        """Have a piece of work done on the host (`many`); `reach` hears how far it is, and what it raises ends it."""
        if not isinstance(host, Ssh):
            work(reach, *arguments, **named)
            return
        with closing(host.begin(work.__name__, many.pack(arguments, named))) as job:
            self._began = time.monotonic() - self._taken_s  # what it took to get it ready does not count
            while not (state := job.state())[0]:
                reach(state[1])
                time.sleep(many.LOOK_S)
        self._taken_s += state[2]
        self._began = time.monotonic() - self._taken_s

    def reach(self, items: int) -> None:
        """How many exist now."""
        self._check()
        self._steps.append(Step(items, self.elapsed_s))

    def look(self, shown: Callable[[], int | None]) -> None:
        """Ask how many there are, unless that was asked just now: looking takes time from what is looked at.

        None is no answer, e.g. of a switch that is too busy.
        """
        self._check()
        if self.elapsed_s - self._looked_s >= max(SHORTEST_LOOK_S, self._looked_s / LOOKS):
            there = shown()
            self._looked_s = self.elapsed_s
            if there is not None:
                self.reach(there)

    def steps(self, end_s: float) -> tuple[Step, ...]:
        """The curve, its end at `end_s`, thinned."""
        inner = [step for step in self._steps if step.items < self.count and step.seconds <= end_s]
        return thinned([*inner, Step(self.count, end_s)], self.count)


class Bulk(Protocol):
    """Many items of one kind, by one method."""

    def make(self, watch: Watch) -> None:
        """Make all; returns when the command does. Raises BenchError, DutError or what `watch` raises."""

    def remove(self, watch: Watch) -> None:
        """Remove all, by the same method."""

    def shown(self) -> int:
        """How many of them are there now, as whoever holds them tells."""


@dataclass(frozen=True)
class Timed:
    """One making or removal of all items."""

    returned_s: float  # when the command, the last one if there were many, returned
    visible_s: float  # when a look showed all items, or none any more
    look_s: float  # how long the last look took, which visible_s includes
    steps: tuple[Step, ...]  # items over seconds, until the command returned

    @property
    def growth(self) -> float | None:
        """Time per item in the last quarter over that in the first."""
        return growth(self.steps)


def allowed_s(count: int) -> float:
    """After which time something that makes `count` items counts as hung."""
    return BASE_TIMEOUT_S + EACH_TIMEOUT_S * count


def timed_make(bulk: Bulk, count: int, check: Callable[[], None] = lambda: None) -> Timed:
    """Make all items, and see that all show."""
    return _timed(bulk.make, bulk.shown, count, count, check)


def timed_removal(bulk: Bulk, count: int, check: Callable[[], None] = lambda: None) -> Timed:
    """Remove all items, and see that none shows."""
    return _timed(bulk.remove, bulk.shown, count, 0, check)


def _timed(
    work: Callable[[Watch], None], shown: Callable[[], int], count: int, goal: int, check: Callable[[], None]
) -> Timed:
    watch = Watch(count, check)
    work(watch)
    returned_s = watch.elapsed_s
    deadline_s = returned_s + allowed_s(count)
    began_s = returned_s
    while (there := shown()) != goal:
        check()
        if watch.elapsed_s > deadline_s:
            raise DutError(
                f"only {there:,} of {goal:,} items are visible {allowed_s(count):g} s after the command returned",
                "lower build.count, or see the device's log",
            )
        time.sleep(SHOW_EVERY_S)
        began_s = watch.elapsed_s
    visible_s = watch.elapsed_s
    return Timed(returned_s, visible_s, visible_s - began_s, watch.steps(returned_s))


def thinned(steps: Sequence[Step], total: int) -> tuple[Step, ...]:
    """At most about STEPS steps, evenly by items, the first and the last among them."""
    kept: list[Step] = []
    due = 0.0
    for step in steps:
        if step.items >= due or step is steps[-1]:
            if kept and kept[-1].items == step.items:
                continue  # items did not grow: the earlier time is when they came
            kept.append(step)
            due = step.items + total / STEPS
    return tuple(kept)


def seconds_at(steps: Sequence[Step], items: float) -> float:
    """When there were `items`, on a straight line between the steps; the ends hold beyond them."""
    before = steps[0]
    for step in steps:
        if step.items >= items:
            if step.items == before.items:
                return step.seconds
            share = (items - before.items) / (step.items - before.items)
            return before.seconds + share * (step.seconds - before.seconds)
        before = step
    return steps[-1].seconds


def growth(steps: Sequence[Step]) -> float | None:
    """Time per item in the last quarter of the items over that in the first; 1 is flat.

    None where the curve has too few steps to tell. What stands before the first item, e.g. a
    process that first reads its whole file, belongs to no item and is left out.
    """
    begun = [step for step in steps if step.items > 0]
    if not begun:
        return None
    idle = [step for step in steps if step.items == 0]
    curve = [idle[-1], *begun] if idle else begun
    first, last = curve[0].items, curve[-1].items
    quarter = (last - first) / 4
    early = sum(step.items <= first + quarter for step in curve)
    late = sum(step.items > last - quarter for step in curve)
    if len(curve) <= _FEWEST_STEPS or early < 2 or late < 2:
        return None
    opening = seconds_at(curve, first + quarter) - curve[0].seconds
    closing = curve[-1].seconds - seconds_at(curve, last - quarter)
    return closing / opening if opening > 0 else None


VETH_METHODS = ("process", "file", "netlink")
_PIPE_BYTES = 4096  # ip -batch acts line by line: what is in the pipe is not made yet
_SPARE_FILES = 64


def veth_namespaces(bench_id: str) -> tuple[str, str]:
    """The two that veth pairs are made between; they hold nothing else."""
    return f"pp-{bench_id}-near", f"pp-{bench_id}-far"


def veth_resources(measure: Measure, bench_id: str) -> tuple[AnyResource, ...]:
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
    """Pairs named `v0`, `v1`, ... in both namespaces of a host, which hold nothing else. Both ends are down.

    They are in groups of a thousand; all methods but `process` remove a group at a time (host/netlink.py says why).
    """

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
