"""What trials of two benches in turns say: evidence that may be looked at after every pair; pure.

Without an effect either bench of a pair is as likely to come out ahead. The evidence is the wealth of a gambler who
bets on pairs that show the effect, with P(win) uniform between 1/2 and 1: without the effect it ever reaches 1 / alpha
with a probability of at most alpha, however often one looks (Ville 1939; Shafer, "Testing by betting", 2021). All
pairs are of one build of each bench: the evidence is that these two differ, whatever made them differ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pinchpoint.model.causes import Turned

CERTAIN = 120.0
"""Of the wealth: an error of 1 in 120. Three bets and one side of an interval of 95 % may confirm a cause, or five bets
and no interval (causes/experiments.py): together 5 % at most.
"""


@dataclass(frozen=True)
class Gain:
    """By what factor B does better than A in one pair."""

    value: float  # above 1: B does better
    is_at_least: bool = True  # A could do no better than it did, so that a gain is at least this
    is_at_most: bool = True  # B could do no better than it did


def wealth(wins: int, losses: int) -> float:
    """What is left of a stake of 1 after so many pairs; the order of wins and losses does not matter.

    The integral of (2p)^wins (2 - 2p)^losses over p from 1/2 to 1, times 2, by the binomial distribution.
    """
    pairs = wins + losses
    return sum(math.comb(pairs + 1, won) for won in range(wins + 1)) / ((pairs + 1) * math.comb(pairs, wins))


def turned(gains: Sequence[Gain], effect: float, alike: float = 1.0) -> Turned:
    """Evidence that B does better by more than the factor `effect`, that it does not, that it does worse, that not.

    `alike`: the gain of a bench that does as well. A gain that is not known to be large counts against a large one, and
    so does the reverse. Only for doing no worse each gain counts as it is: it is about this load, and not about others.
    """
    better = sum(gain.is_at_least and gain.value > alike * effect for gain in gains)
    no_better = sum(gain.is_at_most and gain.value < alike * effect for gain in gains)
    worse = sum(gain.is_at_most and gain.value < alike / effect for gain in gains)
    no_worse = sum(gain.value > alike / effect for gain in gains)
    number = len(gains)
    return Turned(
        median(gain.value for gain in gains) if gains else None,
        number,
        better,
        *(wealth(won, number - won) >= CERTAIN for won in (better, no_better, worse, no_worse)),
    )
