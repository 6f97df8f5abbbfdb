"""How far apart the engine's and the switch's cores were: virtual machines may have two modes.

A cache line bounced between two virtual CPUs takes some 30 ns when they share a
last-level cache and 140 ns or more when they do not; the hypervisor may move
them at any time, and every rate that crosses the cores moves with them.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from pinchpoint.model import units
from pinchpoint.model.result import CacheLine
from pinchpoint.model.trial import Trial

TWO_MODES = 2.0  # neighbouring probes, sorted, this factor apart: not one distribution


def of_trial(trial: Trial) -> float | None:
    """One trial's distance, the mean of its probes before and after; None if there was none."""
    probes = (trial.witness.cache_line_before_ns, trial.witness.cache_line_after_ns)
    distances = [probe for probe in probes if probe is not None]
    return math.fsum(distances) / len(distances) if distances else None


def differ(one_ns: float, other_ns: float) -> bool:
    """Whether two distances belong to different modes."""
    return max(one_ns, other_ns) >= TWO_MODES * min(one_ns, other_ns)


def apart(distance_ns: float | None) -> str:
    """A mode in words."""
    return "cores not probed" if distance_ns is None else f"cores {units.nanoseconds(distance_ns)} apart"


def distance(trials: Sequence[Trial]) -> CacheLine | None:
    """All probes of a scenario's trials in one line; None if none was made."""
    probes = sorted(
        value
        for trial in trials
        for value in (trial.witness.cache_line_before_ns, trial.witness.cache_line_after_ns)
        if value is not None
    )
    if not probes:
        return None
    far = _far_side(probes)
    share = len(far) / len(probes)
    note = ""
    if far:
        near = probes[: len(probes) - len(far)]
        note = (
            f"the cores were near ({units.nanoseconds(median(near))}) in {units.share(1 - share)} of the probes and "
            f"far ({units.nanoseconds(median(far))}) in {units.share(share)}: rates of the two modes are mixed"
        )
    return CacheLine(median(probes), probes[0], probes[-1], len(probes), share, note)


def _far_side(probes: Sequence[float]) -> Sequence[float]:
    """The probes above the widest relative gap, if that gap tells two modes apart."""
    gaps = [(after / before, number) for number, (before, after) in enumerate(pairwise(probes), start=1)]
    widest, number = max(gaps, default=(1.0, 0))
    return probes[number:] if widest >= TWO_MODES else ()
