"""A burst's own account: when its first frame left, and whether it was one. Pure."""

import math
from dataclasses import replace

from pinchpoint.model import units
from pinchpoint.model.trial import Cause, Trial, TrialValidity

CAUGHT_UP = 0.05  # share of a burst that the DUT may have forwarded while the engine stood still within it
FIRST_TURN_S = 1e-6  # a pause that begins before is the first turn of the engine's loop


def from_first_frame(trial: Trial, *, paced: bool) -> Trial:
    """The burst, timed from its first frames; discarded if the engine stood still too long after them.

    Frames leave at the end of a turn of the engine's loop, and its first turn, through cold caches, takes as long
    as several others: before it ends there is no burst. In a later pause the DUT catches up, at most with what was
    sent before it: what such a burst shows may be longer by as much than the truth. That is judged by the pauses
    alone, whatever was lost, so that discarding favours neither answer.
    """
    length_s = trial.sent_duration_s
    gaps = [(at_s, ns / 1e9) for worker in trial.witness.workers for at_s, ns in worker.gaps_longest if at_s < length_s]
    before_s = max((gap_s for at_s, gap_s in gaps if at_s < FIRST_TURN_S), default=0.0)
    if before_s < length_s:
        trial = replace(trial, sent_duration_s=length_s - before_s)
        if not paced:  # nobody intended that load: it is as high as it is
            trial = replace(trial, load_fps=trial.intended / trial.sent_duration_s)
    if trial.validity is not TrialValidity.VALID:
        return trial
    sent_fps = trial.offered_fps
    later = [(at_s - before_s, gap_s) for at_s, gap_s in gaps if at_s >= FIRST_TURN_S]
    caught_up = math.fsum(max(0.0, min(at_s, gap_s)) * sent_fps for at_s, gap_s in later)
    if caught_up <= CAUGHT_UP * trial.offered:
        return trial
    stood = units.seconds(math.fsum(gap_s for _, gap_s in later))
    reason = f"the engine's core stood still for {stood} within the {units.seconds(length_s)} of the burst"
    return replace(trial, validity=TrialValidity.NOISY_HOST, cause=Cause.BURST_INTERRUPTED, reason=reason)
