"""Made-up stretches of slices, from a host whose speed is given over time."""

import math
import random
from collections.abc import Callable

from pinchpoint.model.duet import MEASURED, Slice, Slicing, Stretch

SLICING = Slicing(0.010, 0.002, 0.003)
LOAD_FPS = 10e6
RING = 4096
SCATTER = 0.13  # of a slice: between 13 and 17 % of a quad were seen on a shared machine


def stretch(
    host_fps: Callable[[float], float],
    *,
    ratio: float = 1.0,
    length_s: float = 30.0,
    seed: int = 1,
    scatter: float = SCATTER,
    slicing: Slicing = SLICING,
    gaps: float = 0.0,
    after_thaw: float = 1.0,
    warm_s: float = 0.0,
    phase: str = MEASURED,
) -> Stretch:
    """Slices A B B A ... of two benches on one host; B forwards `ratio` times as much as A.

    `gaps`: the share of slices in which the engine's core stands still, and forwards a tenth. `after_thaw`: what is
    forwarded in slices after a change of the bench, as a share; B alone forwards half until `warm_s` after it. Scatter
    has heavy tails: Student's t of 3 degrees.
    """
    chance = random.Random(seed)
    lost_s = slicing.settle_s + slicing.discard_s
    made: list[Slice] = []
    row, since_s = slicing.in_a_row, 0.0
    for number in range(int(length_s / slicing.length_s) // (4 * row) * 4 * row):
        side = "ABBA"[number // row % 4]
        thawed = not made or made[-1].side != side
        since_s = 0.0 if thawed else since_s + slicing.length_s
        begin_s, long_s = number * slicing.length_s + lost_s * thawed, slicing.length_s - lost_s * thawed
        rate = host_fps(begin_s) * math.exp(scatter * _t3(chance) / math.sqrt(3)) * (ratio if side == "B" else 1.0)
        if side == "B":
            cold_s = min(long_s, max(0.0, warm_s - since_s - lost_s * thawed))
            rate *= 1 - 0.5 * cold_s / long_s
        still = chance.random() < gaps
        rate *= (after_thaw if thawed else 1.0) * (0.1 if still else 1.0)
        received = round(min(rate, 0.9 * LOAD_FPS) * long_s)
        gap_s, switch_s = 0.9 * long_s * still, 50e-6 if thawed else None
        offered = round(LOAD_FPS * long_s)
        made.append(Slice(side, begin_s, long_s, offered, offered - received, received, gap_s, thawed, switch_s))
    return Stretch(f"slices-{seed:04d}", phase, "", length_s, LOAD_FPS, RING, slicing, tuple(made))


def _t3(chance: random.Random) -> float:
    """Of Student's t distribution with 3 degrees of freedom, whose standard deviation is the root of 3."""
    return chance.gauss(0, 1) / math.sqrt(chance.gammavariate(1.5, 2) / 3)


def constant(rate_fps: float = 2e6) -> Callable[[float], float]:
    """A host that is quiet."""
    return lambda _: rate_fps


def wandering(seed: int, share: float = 0.1) -> Callable[[float], float]:
    """A host whose speed is a random walk of `share` a second, in steps of 10 ms."""
    chance, walk = random.Random(seed), [math.log(2e6)]
    return _stepped(walk, lambda: walk[-1] + share * 0.1 * chance.gauss(0, 1))


def jumping(seed: int, every_s: float = 5.0, factor: float = 1.6) -> Callable[[float], float]:
    """A host that is `factor` times as fast for about half of the time."""
    chance, speeds = random.Random(seed), [math.log(2e6)]
    levels = math.log(2e6), math.log(2e6 * factor)
    return _stepped(speeds, lambda: chance.choice(levels) if chance.random() < 0.01 / every_s * 2 else speeds[-1])


def _stepped(so_far: list[float], following: Callable[[], float]) -> Callable[[float], float]:
    def at(second: float) -> float:
        while len(so_far) <= second / 0.01:
            so_far.append(following())
        return math.exp(so_far[int(second / 0.01)])

    return at
