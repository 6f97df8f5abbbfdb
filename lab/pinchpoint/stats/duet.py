"""What alternating slices say about two benches: quads A B B A, and the interval of their ratio; pure.

Each of A B B A is a part: one slice, or several in a row where caches need longer to fill after a thaw. Neighbouring
quads are alike, so blocks of time are compared, or all quads of each two benches that were built (docs/method.md,
"Comparison"). A slice is discarded for what disturbed it and never for its rate, which would move the ratio.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from pinchpoint.model.duet import MEASURED, DuetMoment, DuetSummary, Slice, Slicing, Stretch, Thaw
from pinchpoint.model.measurement import fewest_for_interval
from pinchpoint.model.trial import OVERLOADED
from pinchpoint.stats.paired import PairedDifference, compare_log_ratios, compare_over_builds, in_blocks, pseudomedian

STOOD_STILL = "the engine's core stood still"
NOT_OVERLOADED = "the engine offered too little for an overload"
LATE = "the engine froze and thawed too late"
NOTHING = "nothing was forwarded"
ABORTED = "the quad was not completed"
NEIGHBOUR = "discarded with its quad"
WARMING = "caches were filling after a thaw"
TOO_SHORT = "slices turned out too short for the caches to fill"

BEST = 0.95  # of a stretch's slices forward less than what counts as the most
MOST_BLOCKS = 16  # longer blocks depend less on each other; twice as many would narrow an interval by 4 %
FEWEST_QUADS = 4  # of a block; fewer have no pseudomedian that tails do not move
SHORTEST_BLOCK_S = 0.5  # quads of one such time are alike on hosts whose cores move or are shared
MOST_TURNS = 64  # whose losses after a thaw are compared one by one; an exact test of more takes seconds


@dataclass(frozen=True)
class QuadPart:
    """One of A B B A: slices in a row of one bench."""

    side: str
    slices: Sequence[Slice]
    reasons: tuple[str, ...]  # why each slice is not used; empty if it is
    is_usable: bool  # enough of them are, and all of those overloaded the bench

    @property
    def log_fps(self) -> float:
        """Of what a usable part forwarded in the slices that are used."""
        used = [slice_ for slice_, reason in zip(self.slices, self.reasons, strict=True) if not reason]
        return math.log(sum(slice_.received for slice_ in used) / math.fsum(slice_.length_s for slice_ in used))


@dataclass(frozen=True)
class Quad:
    """Four neighbouring parts, A B B A, all of them usable."""

    at_s: float  # of measured time
    length_s: float
    log_ratio: float  # of B to A
    a_fps: float
    b_fps: float
    slices: int  # used


@dataclass(frozen=True)
class Duet:
    """What all measured stretches say together."""

    quads: tuple[Quad, ...]
    difference: PairedDifference | None  # None: there is no quad
    summary: DuetSummary


def compare_slices(stretches: Sequence[Stretch], carried: str = "") -> Duet:
    """The ratio of B to A by the slices of all measured stretches. Raises ValueError without a measured stretch.

    Slices of the side `carried` count although that bench forwarded all that was offered: it forwards as much at least.
    """
    measured = counted(stretches)
    if not measured:
        raise ValueError("no stretch of slices was measured")
    quads, reasons, made, at_s = list[tuple[int, Quad]](), Counter[str](), 0, 0.0
    for stretch in measured:
        parts = in_parts(stretch, carried)
        for four in (parts[first : first + 4] for first in range(0, len(parts), 4)):
            made += 1
            reasons += _reasons(four)
            quads += [(stretch.benches, _quad(four, at_s))] if _is_whole(four) else []
        at_s += length_of(stretch)
    slices = sum(len(stretch.slices) for stretch in stretches if stretch.phase == MEASURED)
    if too_short := slices - sum(len(stretch.slices) for stretch in measured):
        reasons[TOO_SHORT] = too_short
    every, benches = [quad for _, quad in quads], len({stretch.benches for stretch in measured})
    return Duet(
        tuple(every),
        compare_over_builds(quads, lambda own: pseudomedian(_of_blocks(own)), _of_blocks),
        DuetSummary(
            slicing=measured[-1].slicing,
            load_fps=measured[-1].load_fps,
            slices=slices,
            used=sum(quad.slices for quad in every),
            discarded=dict(reasons),
            quads=made,
            quads_used=len(every),
            thaw=thaw_of(stretches),
            benches=benches,
            series=tuple(map(_moment, quads_in_blocks(every))),
        ),
    )


def counted(stretches: Sequence[Stretch]) -> list[Stretch]:
    """The measured stretches whose slices are compared: those cut as the last one is."""
    measured = [stretch for stretch in stretches if stretch.phase == MEASURED]
    return [stretch for stretch in measured if stretch.slicing == measured[-1].slicing]


def in_parts(stretch: Stretch, carried: str = "") -> list[QuadPart]:
    """The parts of a stretch in the order of time; the last one may have fewer slices. `carried`: compare_slices."""
    row, limit_s = stretch.slicing.in_a_row, absorbed_s(stretch)
    rows = (stretch.slices[first : first + row] for first in range(0, len(stretch.slices), row))
    return [_part(slices, stretch.slicing, limit_s, carried) for slices in rows]


def length_of(stretch: Stretch) -> float:
    """Seconds from the first slice's begin to the end of the last."""
    return stretch.slices[-1].at_s + stretch.slices[-1].length_s if stretch.slices else 0.0


def absorbed_s(stretch: Stretch) -> float:
    """How long a pause of the engine's core may be without any device going short of frames, or losing its own.

    The rings hold that much of what the faster bench forwards at its best, while the engine's core runs. The slower one
    would bear more, but of a long pause its arrivals may be counted beyond the end of the slice.
    """
    awake = ((slice_.received, slice_.length_s - slice_.gap_s) for slice_ in stretch.slices)
    rates = sorted(received / awake_s for received, awake_s in awake if awake_s > 0)
    best_fps = rates[int(BEST * (len(rates) - 1))] if rates else 0.0
    return stretch.ring / (best_fps or stretch.load_fps)


def why_discarded(slice_: Slice, slicing: Slicing, absorbed_s: float, is_carried: bool = False) -> str:
    """Why a slice is not used; empty if it is. `is_carried`: its bench may have forwarded all that was offered."""
    if slice_.length_s <= 0 or slice_.gap_s > absorbed_s:
        return STOOD_STILL
    if slice_.switch_s is not None and slice_.switch_s > slicing.settle_s:
        return LATE
    if not slice_.received:
        return NOTHING
    return "" if is_carried or slice_.received < (1 - OVERLOADED) * slice_.offered else NOT_OVERLOADED


def _part(slices: Sequence[Slice], slicing: Slicing, limit_s: float, carried: str) -> QuadPart:
    """A part needs half of the slices that are to be compared: what is left speaks for the same time."""
    warming = slicing.warming if slices[0].thawed else 0
    reasons = [WARMING] * min(warming, len(slices))
    is_carried = slices[0].side == carried
    reasons += [why_discarded(slice_, slicing, limit_s, is_carried) for slice_ in slices[warming:]]
    is_usable = len(slices) == slicing.in_a_row and not {NOT_OVERLOADED, NOTHING} & set(reasons)
    is_usable = is_usable and 2 * reasons.count("") >= slicing.in_a_row - warming
    return QuadPart(slices[0].side, slices, tuple(reasons), is_usable)


def _is_whole(parts: Sequence[QuadPart]) -> bool:
    return len(parts) == 4 and all(part.is_usable for part in parts)


def _reasons(parts: Sequence[QuadPart]) -> Counter[str]:
    """Why slices of a quad are not used."""
    every = [reason for part in parts for reason in part.reasons]
    if _is_whole(parts):
        return Counter(filter(None, every))
    was_aborted = len(parts) < 4 or len(parts[-1].slices) < len(parts[0].slices)
    return Counter({ABORTED: len(every)}) if was_aborted else Counter(reason or NEIGHBOUR for reason in every)


def _quad(parts: Sequence[QuadPart], began_s: float) -> Quad:
    """Of four usable parts."""
    rates = {side: [part.log_fps for part in parts if part.side == side] for side in "AB"}
    a, b = fmean(rates["A"]), fmean(rates["B"])
    begin_s, last = parts[0].slices[0].at_s, parts[-1].slices[-1]
    used = sum(part.reasons.count("") for part in parts)
    return Quad(began_s + begin_s, last.at_s + last.length_s - begin_s, b - a, math.exp(a), math.exp(b), used)


def quads_in_blocks(quads: Sequence[Quad]) -> list[Sequence[Quad]]:
    """In at most MOST_BLOCKS blocks of neighbours, each of SHORTEST_BLOCK_S and FEWEST_QUADS at least."""
    if not quads:
        return []
    lasting_s = math.fsum(quad.length_s for quad in quads)
    number = max(1, min(MOST_BLOCKS, len(quads) // FEWEST_QUADS, int(lasting_s / SHORTEST_BLOCK_S)))
    return in_blocks(quads, number)


def _of_blocks(quads: Sequence[Quad]) -> list[float]:
    return [pseudomedian([quad.log_ratio for quad in block]) for block in quads_in_blocks(quads)]


def _moment(block: Sequence[Quad]) -> DuetMoment:
    at_s = (block[0].at_s + block[-1].at_s + block[-1].length_s) / 2
    return DuetMoment(at_s, median(quad.a_fps for quad in block), median(quad.b_fps for quad in block))


def thaw_of(stretches: Sequence[Stretch]) -> Thaw:
    """What a thaw costs: right after it by the calibration that discards nothing, later by what is counted."""
    switches = [slice_.switch_s for stretch in stretches for slice_ in stretch.slices if slice_.switch_s is not None]
    early = [stretch for stretch in stretches if stretch.slicing.discard_s == 0]
    late = counted(stretches)
    return Thaw(median(switches) if switches else None, loss_after_thaw(early), loss_after_thaw(late))


def loss_after_thaw(stretches: Sequence[Stretch], sides: str = "AB") -> float | None:
    """The share by which a part of these sides forwards less after a thaw than the part after it; None without one."""
    ratios = _after_thaw(stretches, sides)
    return 1 - math.exp(median(ratios)) if ratios else None


def steady(stretches: Sequence[Stretch], tolerance: float) -> bool | None:
    """Whether parts after a thaw forward as much as those after them, of A and of B, within `tolerance` (a share).

    Scatter alone never makes a bench unsteady: the interval of the difference must leave the tolerance out. None: too
    few slices could be used to say.
    """
    verdicts = [_is_steady(_after_thaw(stretches, side), tolerance) for side in "AB"]
    return False if False in verdicts else None if None in verdicts else True


def _is_steady(ratios: Sequence[float], tolerance: float) -> bool | None:
    if len(ratios) < fewest_for_interval():
        return None
    blocks = in_blocks(ratios, min(MOST_TURNS, len(ratios)))
    difference = compare_log_ratios([pseudomedian(block) for block in blocks])
    return difference.overlaps(1 - tolerance, 1 + tolerance)


def _after_thaw(stretches: Sequence[Stretch], sides: str = "AB") -> list[float]:
    """Logarithms of the ratio of a part after a thaw to the next one, which is of the same bench."""
    pairs = (pair for stretch in stretches for pair in pairwise(in_parts(stretch)))
    return [
        part.log_fps - after.log_fps
        for part, after in pairs
        if part.slices[0].thawed and part.side in sides and part.side == after.side
        if part.is_usable and after.is_usable
    ]
