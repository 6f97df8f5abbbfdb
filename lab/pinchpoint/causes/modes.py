"""What explains the band of a rate: where the cores were, and whether a neighbour slowed the device's. Pure.

A mode is a fact of a trial, no reason to discard it. The rate in a mode is the median of the threshold
at its trials, as the search tracked it.
"""

import math
from collections.abc import Sequence
from statistics import median

from pinchpoint.account.cache_line import differ, of_trial
from pinchpoint.account.neighbour import Widths
from pinchpoint.model import units
from pinchpoint.model.result import ModeRates, Moment
from pinchpoint.model.trial import Trial

FEWEST = 3  # trials of a mode that say where its rate is


def explained(trials: Sequence[Trial], track: Sequence[Moment]) -> tuple[ModeRates, ...]:
    """The modes of the tracked trials, the most frequent first; none where nothing was probed or there was one only."""
    moments = {moment.trial_id: moment.median_fps for moment in track}
    tracked = [trial for trial in trials if trial.id in moments]
    widths = Widths()
    for trial in tracked:
        widths.note(trial)
    modes: list[list[Trial]] = []
    for trial in tracked:
        for mode in modes:
            if _is_same(trial, mode[0], widths):
                mode.append(trial)
                break
        else:
            modes.append([trial])
    if len(modes) < 2:
        return ()
    modes.sort(key=len, reverse=True)
    return tuple(_mode(mode, len(mode) / len(tracked), moments, widths) for mode in modes)


def _is_same(trial: Trial, other: Trial, widths: Widths) -> bool:
    one_ns, other_ns = of_trial(trial), of_trial(other)
    is_near = one_ns is None or other_ns is None or not differ(one_ns, other_ns)
    return is_near and widths.is_slowed(trial) is widths.is_slowed(other)


def _mode(trials: Sequence[Trial], share: float, moments: dict[str, float], widths: Widths) -> ModeRates:
    distances = [distance for trial in trials if (distance := of_trial(trial)) is not None]
    distance_ns = median(distances) if distances else None
    is_slowed = widths.is_slowed(trials[0])
    label = "cores not probed" if distance_ns is None else f"cores {units.nanoseconds(distance_ns)} apart"
    if is_slowed:
        label += ", the device's slowed by a neighbour"
    return ModeRates(
        label=label,
        distance_ns=distance_ns,
        trials=len(trials),
        traffic_s=math.fsum(trial.sent_duration_s for trial in trials),
        rates=(),
        most_offered_fps=max(trial.offered_fps for trial in trials),
        slowed=is_slowed,
        share=share,
        median_fps=median(moments[trial.id] for trial in trials) if len(trials) >= FEWEST else None,
    )
