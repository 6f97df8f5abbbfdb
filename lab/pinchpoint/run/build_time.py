"""How a comparison divides its time between building both benches again and measuring on them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pinchpoint.stats.paired import fewest_pairs


class BuildTime:
    """The time of one comparison, from its construction on."""

    def __init__(self, left_s: float, builds: int, is_limit: bool, now_s: Callable[[], float] = time.monotonic) -> None:
        """`builds`: as often both benches are to be built. `is_limit`: the time is a limit of the user."""
        self.is_limit = is_limit
        self._now_s = now_s
        self._ends_s = now_s() + left_s
        self._wanted = builds
        self._made = 0
        self._began_s = now_s()  # of the latest building
        self._build_s = 0.0  # of one, without its removal
        self._planned: int | None = None  # builds

    @contextmanager
    def building(self) -> Iterator[None]:
        """Inside, both benches are built, stand and are removed."""
        self._began_s = self._now_s()
        yield
        self._made += 1

    def stands(self) -> None:
        """Both benches stand now."""
        self._build_s = self._now_s() - self._began_s

    def again(self) -> None:
        """What is measured has changed: how many builds pay is asked anew."""
        self._planned = None

    @property
    def left_s(self) -> float:
        """Seconds until the time is up; negative once it has passed."""
        return self._ends_s - self._now_s()

    @property
    def is_up(self) -> bool:
        """Whether a limit is reached."""
        return self.is_limit and self.left_s <= 0

    @property
    def is_over(self) -> bool:
        """Whether no more benches are to be built."""
        is_short = self.is_limit and self.left_s < self._build_s
        return self._made > 0 and (is_short or self._made >= (self._planned or self._wanted))

    @property
    def builds_left(self) -> int:
        """With the benches that stand."""
        return max(1, (self._planned or self._wanted) - self._made)

    def share_s(self, least_s: float) -> float:
        """How long to measure on the benches that stand, `least_s` at least."""
        if self._planned is None:
            self._planned = self._affordable(least_s) if self.is_limit else self._wanted
        others = self.builds_left - 1
        return max(least_s, (self.left_s - others * self._build_s) / self.builds_left)

    def _affordable(self, least_s: float) -> int:
        """How many builds a limit pays for that leaves `least_s` to each.

        If they are fewer than six, only these: an interval would be for the benches that stand all the same.
        """
        fit = 1 + max(0, int((self.left_s - least_s) // (self._build_s + least_s)))
        more = min(self._wanted - self._made, fit)
        return self._made + (more if self._made + more >= fewest_pairs() else 1)
