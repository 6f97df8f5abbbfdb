"""What can be made in bulk, and one making of it, timed."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pinchpoint.bulk.curve import Step, growth
from pinchpoint.bulk.watch import Watch
from pinchpoint.model.errors import DutError

FIRST_ADDRESS = "240.0.0.1"  # of rules made in bulk: 240.0.0.0/4, which no traffic uses (RFC 1112, section 4)
SHOW_EVERY_S = 0.01
BASE_TIMEOUT_S = 60.0  # from a command's return until all items show
EACH_TIMEOUT_S = 0.02  # and for each item: removing a link takes a kernel about that long


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
