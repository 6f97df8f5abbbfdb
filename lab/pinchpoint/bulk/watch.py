"""The clock of one making or removal: notes how far it is, and is the place where it can be stopped."""

import time
from collections.abc import Callable

from pinchpoint.bulk.curve import Step, thinned

LOOKS = 40  # at what cannot tell by itself how far it is, if it takes as long again as until now
SHORTEST_LOOK_S = 0.01


class Watch:
    """From its making on, seconds run and items are counted.

    `check` is called wherever work may stop and raises what stops it.
    """

    def __init__(self, count: int, check: Callable[[], None] = lambda: None) -> None:
        self.count = count
        self._check = check
        self._began = time.monotonic()
        self._taken_s = 0.0  # of what another clock has timed
        self._looked_s = 0.0
        self._steps = [Step(0, 0.0)]

    @property
    def elapsed_s(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._began

    def begins(self) -> None:
        """Work begins now that another clock times: what it took to get it ready does not count."""
        self._began = time.monotonic() - self._taken_s

    def took(self, seconds: float) -> None:
        """It has ended, after so long by that clock."""
        self._taken_s += seconds
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
