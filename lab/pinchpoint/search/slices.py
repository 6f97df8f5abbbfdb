"""What the samples of a losing trial say: which load it would have borne, and whether a pause or an overload lost.

A slice is the time between two samples. A pause loses frames within one or two, out of queues that were nearly empty
when they began; an overload loses them out of queues that stay full.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pinchpoint.model.trial import Sample, Trial

SLICES = 8  # of a trial: of 0.2 s, 25 ms each, where the instant of a sample is known to a few ms
FULL = 0.9  # of the load: a slice in which less was offered says what the generator did
FINEST = 2e-4  # of a load, relative: what no trial resolves
LEAST_FPS = 1.0  # of a DUT that stood still
# What tells a pause from the trough of a sine, a slow drift and a recorded trace: without it rates of such devices came
# out 3 to 13 % wrong.
PAUSES = SLICES // 2  # slices with losses: more of them are no pause
ACROSS = 2  # neighbouring slices that one pause may reach into
IN_PAUSES = 0.8  # share of the loss in slices that began with room in the ring
OF_SHORTFALL = 0.7  # share of all that did not come back in time, in the slices that lost: the others kept up
ROOM = 0.5  # of the ring: fewer frames waited when a pause began


@dataclass(frozen=True)
class Slice:
    """What happened between two samples; frames."""

    length_s: float
    offered: int
    received: int
    lost: int
    waiting: int  # at its beginning


@dataclass(frozen=True)
class Loss:
    """What a trial that lost more than a ratio says beyond that."""

    bearable_fps: float  # the load that would have kept the ratio, by what each slice carried
    is_pause: bool | None  # None: the samples, or what is known of the ring, do not say
    pause_fps: float  # with a pause: the load at which the ring would have borne it


def slice_s(duration_s: float) -> float:
    """Seconds between two samples of a trial whose slices are looked at."""
    return duration_s / SLICES


def most_waiting(trial: Trial) -> int:
    """The most frames that were on their way at a sample: of an overloaded trial, what the rings hold."""
    return max((_waiting(sample) for sample in trial.samples), default=0)


def late_fps(trial: Trial) -> float:
    """What a trial carried in its second half, when buckets are empty; of all of it where there are no samples."""
    slices = _slices(trial.samples)
    if not slices:
        return trial.offered_fps * (1 - trial.loss_ratio)
    late = slices[len(slices) // 2 :]
    return sum(part.received for part in late) / math.fsum(part.length_s for part in late)


def loss_of(trial: Trial, loss_ratio: float, ring: float) -> Loss:
    """Of a trial that lost more than `loss_ratio`; `ring` is known within a factor of two, 0 if it is not."""
    slices = _slices(trial.samples)
    bearable_fps = _bearable_fps(trial, slices[1:], loss_ratio)
    is_pause = _is_pause(slices, ring)
    return Loss(bearable_fps, is_pause, _pause_fps(trial, slices, loss_ratio, ring) if is_pause else trial.offered_fps)


def _is_pause(slices: Sequence[Slice], ring: float) -> bool | None:
    runs, lost = _losing(slices), sum(part.lost for part in slices if part.lost > 0)
    if not lost or not ring:
        return None
    if sum(map(len, runs)) > PAUSES:
        return False
    began_empty = sum(part.lost for run in runs for part in run if run[0].waiting < ROOM * ring and len(run) <= ACROSS)
    shortfall = sum(max(0, part.offered - part.received) for part in slices)
    of_losing = sum(max(0, part.offered - part.received) for part in slices if part.lost > 0)
    return began_empty >= IN_PAUSES * lost and of_losing >= OF_SHORTFALL * shortfall


def _losing(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Runs of neighbouring slices in which frames were lost: one pause may reach into the next slice."""
    return [list(run) for is_losing, run in groupby(slices, key=lambda part: part.lost > 0) if is_losing]


def _pause_fps(trial: Trial, slices: Sequence[Slice], loss_ratio: float, ring: float) -> float:
    """The load at which the same pauses would have lost the ratio: a pause of L seconds costs load x L - ring."""
    losing = sorted((sum(part.lost for part in run) for run in _losing(slices)), reverse=True)
    losing = losing if loss_ratio else losing[:1]
    held = ring * len(losing)
    paused_s = (sum(losing) + held) / trial.offered_fps
    return min(trial.offered_fps, held / max(paused_s - loss_ratio * trial.sent_duration_s, held / trial.offered_fps))


def _bearable_fps(trial: Trial, slices: Sequence[Slice], loss_ratio: float) -> float:
    """By bisection, without the time in which the queues fill; of no samples as of one slice without queues."""
    carried = [(part.length_s, _carried_fps(part, trial.offered_fps)) for part in slices]
    carried = carried or [(1.0, trial.offered_fps * (1 - trial.loss_ratio))]
    queue = (1 - trial.loss_ratio) * most_waiting(trial)
    low, high = min(fps for _, fps in carried), trial.offered_fps
    while high > max(low * (1 + FINEST), LEAST_FPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _loss_ratio(carried, queue, middle) > loss_ratio else (middle, high)
    return low


def _carried_fps(part: Slice, load_fps: float) -> float:
    """Its capacity where it was overloaded, else the load."""
    is_full = part.offered > FULL * load_fps * part.length_s
    return min(load_fps, part.received / part.length_s) if is_full else load_fps


def _slices(samples: Sequence[Sample]) -> list[Slice]:
    """None where a sample says too little."""
    slices, before = [], Sample(0.0, 0, 0, received=0)
    for after in samples:
        length_s = after.elapsed_s - before.elapsed_s
        if before.received is None or after.received is None or before.lost is None or after.lost is None:
            return []
        if length_s <= 0:
            return []
        counts = after.offered - before.offered, after.received - before.received, after.lost - before.lost
        slices.append(Slice(length_s, *counts, _waiting(before)))
        before = after
    return slices


def _waiting(sample: Sample) -> int:
    """Frames on their way, those included that are lost and not overtaken yet; 0 where that is not known."""
    is_known = sample.lost is not None and sample.received is not None
    return max(0, sample.offered - (sample.lost or 0) - (sample.received or 0)) if is_known else 0


def _loss_ratio(carried: Sequence[tuple[float, float]], queue: float, load_fps: float) -> float:
    queued = lost = 0.0
    for length_s, carried_fps in carried:
        queued = max(0.0, queued + (load_fps - carried_fps) * length_s)
        lost, queued = lost + max(0.0, queued - queue), min(queued, queue)
    return lost / (load_fps * math.fsum(length_s for length_s, _ in carried))
