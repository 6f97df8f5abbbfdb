"""What an overloaded trial measures: how much its DUT carried in each slice of its time, and how much its queues hold.

From both follows the load that the trial would have borne: a slow slice costs nothing while the queues take it up.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from pinchpoint.model.trial import Sample, Trial

SLICES = 8  # of a trial: of 0.2 s, 25 ms each, where the instant of a sample is known to a few ms
FULL = 0.9  # of the load: a slice in which less was offered says what the generator did
RESOLUTION = 2e-4  # of a load, relative
BRIEF = 0.9  # of the lost frames, in one slice
LEAST_FPS = 1.0  # of a DUT that stood still


def slice_s(duration_s: float) -> float:
    """Seconds between two samples of a trial whose slices are looked at."""
    return duration_s / SLICES


def bearable_fps(trial: Trial, loss_ratio: float) -> float:
    """The load that would have lost `loss_ratio` of a trial that lost more, by bisection.

    The time before the first sample is left out: there the queues fill. Without samples the trial is one slice, and
    its queues are unknown.
    """
    slices = _slices(trial) or [(1.0, trial.offered_fps * (1 - trial.loss_ratio))]
    queue = (1 - trial.loss_ratio) * max((_waiting(sample) for sample in trial.samples), default=0)
    low, high = min(fps for _, fps in slices), trial.offered_fps
    while high > max(low * (1 + RESOLUTION), LEAST_FPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _loss_ratio(slices, queue, middle) > loss_ratio else (middle, high)
    return low


def is_brief(trial: Trial) -> bool | None:
    """Whether one slice has nearly all of the loss, as of a pause; None where the samples do not say when it came."""
    lost = [sample.lost for sample in trial.samples]
    known = [0, *(count for count in lost if count is not None)]
    if len(known) < 3 or len(known) <= len(lost) or not known[-1]:
        return None
    return max(after - before for before, after in pairwise(known)) >= BRIEF * known[-1]


def _slices(trial: Trial) -> list[tuple[float, float]]:
    """(seconds, carried frames a second) of each: its capacity where it was overloaded, else the load."""
    load_fps, found = trial.offered_fps, []
    for before, after in pairwise(trial.samples):
        length_s = after.elapsed_s - before.elapsed_s
        if before.received is None or after.received is None or length_s <= 0:
            return []
        is_full = after.offered - before.offered > FULL * load_fps * length_s
        carried_fps = (after.received - before.received) / length_s
        found.append((length_s, min(load_fps, carried_fps) if is_full else load_fps))
    return found


def _waiting(sample: Sample) -> int:
    """Frames on their way, those included that are lost and not overtaken yet; 0 where that is not known."""
    if sample.lost is None or sample.received is None:
        return 0
    return max(0, sample.offered - sample.lost - sample.received)


def _loss_ratio(slices: Sequence[tuple[float, float]], queue: float, load_fps: float) -> float:
    queued = lost = 0.0
    for length_s, carried_fps in slices:
        queued = max(0.0, queued + (load_fps - carried_fps) * length_s)
        lost, queued = lost + max(0.0, queued - queue), min(queued, queue)
    return lost / (load_fps * math.fsum(length_s for length_s, _ in slices))
