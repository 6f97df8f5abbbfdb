"""MRR, maximum receive rate: what a device forwards under the highest load, from trials at that load. Pure.

CSIT publishes the same figure (docs.fd.io/csit, "MRR"). Frames that rings still held when sending ended are left out:
at 1 Mpps a ring of 4,096 frames would add 2 % to a trial of 0.2 s.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median, quantiles

from pinchpoint.model.levels import CONFIDENCE
from pinchpoint.model.result import Band, ReceiveRate
from pinchpoint.model.trial import Trial, TrialValidity
from pinchpoint.stats.estimate import FEWEST_FOR_INTERVAL, median_interval

USABLE = (TrialValidity.VALID, TrialValidity.GENERATOR_LIMITED)
"""The latter at what was offered. One whose sender stood still for a while has no overload in that time."""


def receive_rate(trials: Sequence[Trial]) -> ReceiveRate | None:
    """The MRR of trials at one load and of one length; None of fewer than six usable ones, which have no interval."""
    usable = [trial for trial in trials if trial.validity in USABLE and trial.offered]
    if len(usable) < FEWEST_FOR_INTERVAL:
        return None
    forwarded = [forwarded_fps(trial) for trial in usable]
    known = median_interval(forwarded)
    tenths = quantiles(forwarded, n=10, method="inclusive")
    return ReceiveRate(
        load_fps=median(trial.offered_fps for trial in usable),
        estimate_fps=known.centre,
        lower_fps=known.low,
        upper_fps=known.high,
        band=Band(tenths[0], tenths[-1]),
        trials=len(usable),
        trial_duration_s=usable[0].duration_s,
        confidence=CONFIDENCE,
    )


def forwarded_fps(trial: Trial) -> float:
    """Frames a second that came back while the trial was sent; without samples, all that came back over that time.

    Samples of the time after sending, in which the engine waits for the last frames, are left out.
    """
    counted = [
        (sample.elapsed_s, sample.received)
        for sample in trial.samples
        if sample.received is not None and sample.elapsed_s <= trial.sent_duration_s
    ]
    rising = [(before, after) for before, after in pairwise(counted) if after[0] > before[0]]
    if not rising:
        return trial.received / trial.sent_duration_s if trial.sent_duration_s else 0.0
    (began_s, first), (ended_s, last) = rising[0][0], rising[-1][1]
    return (last - first) / (ended_s - began_s)
