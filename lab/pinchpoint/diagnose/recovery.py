"""How long frames are lost after an overload has ended (RFC 2544, section 26.5). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from pinchpoint.diagnose.estimate import median_interval
from pinchpoint.model import units
from pinchpoint.model.measurement import Metric
from pinchpoint.model.scenario import Recovery
from pinchpoint.model.trial import Sample, Trial

STILL = 0.9  # of the time after the overload: a loss that late means that it did not recover


@dataclass(frozen=True)
class Recovered:
    """One overload and what came after it."""

    trial_id: str
    time_s: float  # from the change of load to the last lost frame; 0: none was lost after it
    within_s: float  # how finely that is known
    lost_before: int  # by the first sample after the change
    lost_after: int  # from then on
    still: bool  # it still lost frames when the trial ended


def recovered(trial: Trial, recovery: Recovery) -> Recovered:
    """From a trial whose load fell after `recovery.overload_s`.

    A lost frame is timed by the next one of its stream that arrives: later by one interval
    between frames and by the time on the way.
    """
    change_s, shares = recovery.overload_s, _shares(trial)
    last_s = max((stream.last_loss_s or 0.0 for stream in trial.streams), default=0.0)
    time_s = max(0.0, last_s - change_s)
    at_change = _at(trial.samples, change_s)
    lost_before = min(trial.lost, at_change if at_change is not None else trial.lost)
    rate_fps = trial.load_fps * recovery.reduced_share / recovery.overload_share * min(shares)
    on_the_way_s = trial.latency.p99_ns / 1e9 if trial.latency else 0.0
    return Recovered(
        trial_id=trial.id,
        time_s=time_s,
        within_s=1 / rate_fps + on_the_way_s,
        lost_before=lost_before,
        lost_after=trial.lost - lost_before,
        still=time_s > STILL * (trial.sent_duration_s - change_s),
    )


def _shares(trial: Trial) -> list[float]:
    """Of the load, by stream."""
    return [max(stream.offered, 1) / max(trial.offered, 1) for stream in trial.streams] or [1.0]


def _at(samples: Sequence[Sample], change_s: float) -> int | None:
    """Frames lost by the first sample after the change."""
    return next((sample.lost for sample in samples if sample.elapsed_s >= change_s), None)


def host_did_it(trial: Trial, recovery: Recovery, ring: int) -> str:
    """Whether a pause of the engine's core may have caused the last loss after the change; empty if not."""
    last_s = max((stream.last_loss_s or 0.0 for stream in trial.streams), default=0.0)
    if last_s <= recovery.overload_s:
        return ""
    rate_fps = trial.load_fps * recovery.reduced_share / recovery.overload_share
    around = next((sample for sample in trial.samples if sample.elapsed_s >= last_s), None)
    if around is None or around.gap_max_s * rate_fps <= ring:
        return ""
    pause = units.nanoseconds(around.gap_max_s * 1e9)
    return f"the last loss, at {last_s:.3f} s, lies by a {pause} pause of the engine's core"


def metrics(found: Sequence[Recovered], throughput_fps: float) -> tuple[Metric, ...]:
    """The measure's figures; none without a repeat."""
    if not found:
        return ()
    times = median_interval([one.time_s for one in found])
    within = f"each known to {units.nanoseconds(max(one.within_s for one in found) * 1e9)}"
    after = median_interval([float(one.lost_after) for one in found])
    before = median_interval([float(one.lost_before) for one in found])
    return (
        Metric("recovery time", "s", times.centre, times.low, times.high, f"{times.words()}; {within}"),
        Metric("lost after the overload", "count", after.centre, after.low, after.high, after.words()),
        Metric("lost in the overload", "count", before.centre, before.low, before.high, before.words()),
        Metric("throughput", "fps", throughput_fps, note="that the shares are of"),
    )


def warnings(found: Sequence[Recovered]) -> tuple[str, ...]:
    """What to mind about the figures."""
    lines = []
    if still := sum(one.still for one in found):
        lines.append(f"{still} of {len(found)} repeats still lost frames at their end: they took longer than told")
    if calm := sum(not one.lost_before for one in found):
        lines.append(
            f"{calm} of {len(found)} overloads lost nothing: raise recovery.overload_share, or the throughput is more"
        )
    return tuple(lines)
