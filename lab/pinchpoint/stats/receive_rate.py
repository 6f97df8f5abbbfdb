"""MRR, maximum receive rate: what a device forwards under the highest load, from trials at that load. Pure.

CSIT publishes the same figure (docs.fd.io/csit, "MRR"). Frames that rings still held when sending ended are left out:
at 1 Mpps a ring of 4,096 frames would add 2 % to a trial of 0.2 s.
"""

from collections.abc import Sequence
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
    forwarded = [trial.forwarded_fps for trial in usable]
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
