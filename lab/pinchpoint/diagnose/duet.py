"""What alternating slices say about two benches: quads A B B A, and the interval of their ratio; pure.

A quad's value is half of ln(B B / A A): whatever drifts linearly on the host during its four slices is in none of
them. Neighbouring quads are alike, because the host is slow for seconds at a time, and their values have heavy
tails. So quads are not taken for independent: they are put together in blocks of time, each block yields the
pseudomedian of its quads, and the blocks are compared by Wilcoxon's signed ranks (paired.py). The test assumes that
blocks are independent and lie symmetrically about the truth, nothing about the shape of the noise.

A slice is discarded for what disturbed it and never for its rate: a rule that looked at rates would move them.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from pinchpoint.diagnose.paired import PairedDifference, compare_pairs, fewest_pairs
from pinchpoint.model.duet import MEASURED, DuetMoment, DuetSummary, Slice, Slicing, Stretch, Thaw

STOOD_STILL = "the engine's core stood still"
NOT_OVERLOADED = "the engine offered too little for an overload"
LATE = "the engine froze and thawed too late"
NOTHING = "nothing was forwarded"
ABORTED = "the quad was not completed"
NEIGHBOUR = "another slice of its quad was discarded"

BEST = 0.95  # of a stretch's slices forward less than what counts as the most
OVERLOAD = 0.97  # of what is offered: a bench that forwards more may be able to carry all of it
MOST_BLOCKS = 16  # longer blocks depend less on each other; twice as many would narrow an interval by 4 %
FEWEST_QUADS = 4  # of a block; fewer have no pseudomedian that tails do not move
SHORTEST_BLOCK_S = 0.5  # quads of one such time are alike on hosts whose cores move or are shared


@dataclass(frozen=True)
class Quad:
    """Four neighbouring slices, A B B A, all of them usable."""

    at_s: float  # of measured time
    length_s: float
    log_ratio: float  # of B to A
    a_fps: float
    b_fps: float


@dataclass(frozen=True)
class Duet:
    """What all measured stretches say together."""

    quads: tuple[Quad, ...]
    blocks: tuple[float, ...]  # log ratios, in the order of time
    difference: PairedDifference | None  # None: there is no quad
    summary: DuetSummary


def compare_slices(stretches: Sequence[Stretch], confidence: float = 0.95) -> Duet:
    """The ratio of B to A by the slices of all measured stretches. Raises ValueError without a measured stretch."""
    measured = [one for one in stretches if one.phase == MEASURED]
    if not measured:
        raise ValueError("no stretch of slices was measured")
    found, reasons, made = list[Quad](), Counter[str](), 0
    at_s = 0.0
    for stretch in measured:
        limit_s = absorbed_s(stretch)
        for quad in in_quads(stretch):
            made += 1
            value = _quad(quad, stretch.slicing, limit_s, at_s)
            if isinstance(value, Quad):
                found.append(value)
            else:
                reasons += value
        at_s += length_of(stretch)
    blocks = tuple(pseudomedian([one.log_ratio for one in block]) for block in in_blocks(found))
    difference = None
    if blocks:
        difference = compare_pairs([1.0] * len(blocks), [math.exp(one) for one in blocks], confidence=confidence)
    last = measured[-1]
    return Duet(
        tuple(found),
        blocks,
        difference,
        DuetSummary(
            slicing=last.slicing,
            load_fps=last.load_fps,
            slices=sum(len(one.slices) for one in measured),
            used=4 * len(found),
            discarded=dict(reasons),
            quads=made,
            quads_used=len(found),
            thaw=thaw_of(stretches),
            series=tuple(_moment(block) for block in in_blocks(found)),
        ),
    )


def in_quads(stretch: Stretch) -> Iterator[Sequence[Slice]]:
    """The slices of a stretch by fours; the last ones may be fewer."""
    for first in range(0, len(stretch.slices), 4):
        yield stretch.slices[first : first + 4]


def length_of(stretch: Stretch) -> float:
    """Seconds from the first slice's begin to the end of the last."""
    return stretch.slices[-1].at_s + stretch.slices[-1].length_s if stretch.slices else 0.0


def absorbed_s(stretch: Stretch) -> float:
    """How long a pause of the engine's core may be without any device going short of frames, or losing its own.

    The rings hold that much of what the faster bench forwards at its best, while the engine's core runs. The rate of
    a single slice plays no part.
    """
    awake = ((one.received, one.length_s - one.gap_s) for one in stretch.slices)
    rates = sorted(received / awake_s for received, awake_s in awake if awake_s > 0)
    best_fps = rates[int(BEST * (len(rates) - 1))] if rates else 0.0
    return stretch.ring / (best_fps or stretch.load_fps)


def why_discarded(one: Slice, slicing: Slicing, absorbed_s: float) -> str:
    """Why a slice is not used; empty if it is. `absorbed_s` is the pause that its stretch's rings absorb."""
    if one.length_s <= 0 or one.gap_s > absorbed_s:
        return STOOD_STILL
    if one.switch_s is not None and one.switch_s > slicing.settle_s:
        return LATE
    if not one.received:
        return NOTHING
    return "" if one.received < OVERLOAD * one.offered else NOT_OVERLOADED


def _quad(slices: Sequence[Slice], slicing: Slicing, limit_s: float, began_s: float) -> Quad | Counter[str]:
    """The value of a quad; if it has none, why its slices are not used."""
    if len(slices) < 4:
        return Counter({ABORTED: len(slices)})
    reasons = [why_discarded(one, slicing, limit_s) for one in slices]
    if any(reasons):
        return Counter(reason or NEIGHBOUR for reason in reasons)
    rates = {side: [_log_rate(one) for one in slices if one.side == side] for side in "AB"}
    a, b = (sum(rates[side]) / len(rates[side]) for side in "AB")
    begin_s, end_s = slices[0].at_s, slices[-1].at_s + slices[-1].length_s
    return Quad(began_s + begin_s, end_s - begin_s, b - a, math.exp(a), math.exp(b))


def _fps(one: Slice) -> float:
    return one.received / one.length_s


def _log_rate(one: Slice) -> float:
    return math.log(_fps(one))


def in_blocks(quads: Sequence[Quad]) -> list[Sequence[Quad]]:
    """The quads in at most MOST_BLOCKS blocks of neighbours, of as equal numbers as there may be.

    Each lasts for SHORTEST_BLOCK_S at least and has FEWEST_QUADS, so that few quads make few blocks.
    """
    if not quads:
        return []
    lasting_s = sum(one.length_s for one in quads)
    number = max(1, min(MOST_BLOCKS, len(quads) // FEWEST_QUADS, int(lasting_s / SHORTEST_BLOCK_S)))
    ends = [round(place * len(quads) / number) for place in range(number + 1)]
    return [quads[first:end] for first, end in pairwise(ends)]


def pseudomedian(values: Sequence[float]) -> float:
    """The median of the means of all pairs, each value with itself included (Hodges and Lehmann 1963)."""
    n = len(values)
    return median((values[i] + values[j]) / 2 for i in range(n) for j in range(i, n))


def _moment(block: Sequence[Quad]) -> DuetMoment:
    at_s = (block[0].at_s + block[-1].at_s + block[-1].length_s) / 2
    return DuetMoment(at_s, median(one.a_fps for one in block), median(one.b_fps for one in block))


def thaw_of(stretches: Sequence[Stretch]) -> Thaw:
    """What a thaw costs: right after it by the calibration that discards nothing, later by what is counted."""
    switches = [one.switch_s for stretch in stretches for one in stretch.slices if one.switch_s is not None]
    early = [one for one in stretches if one.slicing.discard_s == 0]
    counted = [one for one in stretches if one.phase == MEASURED]
    return Thaw(median(switches) if switches else None, loss_after_thaw(early), loss_after_thaw(counted))


def loss_after_thaw(stretches: Sequence[Stretch], sides: str = "AB") -> float | None:
    """The share by which a slice after a thaw forwards less than the slice after it, which is of the same bench.

    Of these sides alone. None without such a pair of slices.
    """
    ratios = _after_thaw(stretches, sides)
    return 1 - math.exp(median(ratios)) if ratios else None


def steady(stretch: Stretch, tolerance: float) -> bool | None:
    """Whether slices after a thaw forward as much as those after them, within `tolerance` (a share).

    Scatter alone never makes a stretch unsteady: the interval of the difference must leave the tolerance out. None:
    too few slices could be used to say.
    """
    ratios = _after_thaw([stretch])
    if len(ratios) < fewest_pairs():
        return None
    found = compare_pairs([1.0] * len(ratios), [math.exp(one) for one in ratios])
    return found.high >= 1 - tolerance and found.low <= 1 + tolerance


def _after_thaw(stretches: Sequence[Stretch], sides: str = "AB") -> list[float]:
    """Logarithms of the ratio of a slice after a thaw to the next one, which is of the same bench."""
    found: list[float] = []
    for stretch in stretches:
        limit_s = absorbed_s(stretch)
        usable = [not why_discarded(one, stretch.slicing, limit_s) for one in stretch.slices]
        for place, (one, other) in enumerate(pairwise(stretch.slices)):
            if one.thawed and one.side in sides and one.side == other.side and usable[place] and usable[place + 1]:
                found.append(_log_rate(one) - _log_rate(other))
    return found
