"""Whole frames for the simulated engine: how many of many are lost at random, and shares of a total."""

import math
from collections.abc import Sequence
from random import Random


def poisson(mean: float, random: Random) -> int:
    """A Poisson variable; of a large mean, the normal one that it comes near to."""
    if mean > 100:
        return max(0, round(random.gauss(mean, math.sqrt(mean))))
    count, left = 0, mean - random.expovariate(1.0)
    while left > 0:
        count, left = count + 1, left - random.expovariate(1.0)
    return count


def divide(total: int, shares: Sequence[float]) -> list[int]:
    """Whole parts of `total` in proportion to `shares`, adding up to it."""
    parts = [math.floor(total * share / sum(shares)) for share in shares]
    parts[0] += total - sum(parts)
    return parts
