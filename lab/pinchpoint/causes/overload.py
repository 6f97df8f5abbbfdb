"""What a device forwards when it is offered more than it can take, and how near to that its losses begin. Pure.

A polling thread looks busy at any load: at a third of its load it spends four times the cycles on each packet, since
its batches are small. What it can do shows under overload, and there alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from pinchpoint.model.trial import ThreadLoad, Trial, TrialValidity

OVERLOADED: Final = 1.2  # times the rate, offered at least: what a device forwards of less may be all that was asked
TOP: Final = 0.9  # of the highest load: the trials from there on are overloads
_COUNTED: Final = (TrialValidity.VALID, TrialValidity.GENERATOR_LIMITED)  # an engine at its end counts what it offers


@dataclass(frozen=True)
class Overload:
    """Trials at the highest load, medians; `rate_fps` is the rate that they are compared with."""

    rate_fps: float
    forwarded_fps: float
    cycles: Mapping[str, float]  # per packet, by forwarding thread

    @property
    def ndr_of_mrr(self) -> float:
        """The rate, of what the device forwards at most."""
        return self.rate_fps / self.forwarded_fps

    def busy_share(self, load: ThreadLoad, traffic_s: float) -> float | None:
        """Of a thread in another trial: the time that its packets would take under overload; else as it counted."""
        cycles = self.cycles.get(load.name)
        if cycles is None or not load.clock_hz or traffic_s <= 0:
            return load.busy_share
        needed = min(1.0, load.received / traffic_s * cycles / load.clock_hz)
        return needed if load.busy_share is None else min(needed, load.busy_share)


def overload(trials: Sequence[Trial], rate_fps: float | None) -> Overload | None:
    """What the trials at the highest loads show; None where none of them was an overload of that rate."""
    counted = [trial for trial in trials if trial.validity in _COUNTED and trial.sent_duration_s > 0]
    highest_fps = max((trial.offered_fps for trial in counted), default=0.0)
    if not rate_fps or highest_fps < OVERLOADED * rate_fps:
        return None
    top = [trial for trial in counted if trial.offered_fps >= TOP * highest_fps]
    cycles: dict[str, list[float]] = {}
    for load in (load for trial in top for load in trial.threads):
        if load.cycles_per_packet:
            cycles.setdefault(load.name, []).append(load.cycles_per_packet)
    forwarded_fps = median(trial.forwarded_fps for trial in top)
    if not forwarded_fps:
        return None
    return Overload(rate_fps, forwarded_fps, {name: median(each) for name, each in cycles.items()})
