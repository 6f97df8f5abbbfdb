"""What became of steady traffic while something was made of the bench, or happened to it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pinchpoint.account import cpus
from pinchpoint.account.validity import GAP_MAJORITY
from pinchpoint.host.interface import TICKS_PER_S
from pinchpoint.model import units
from pinchpoint.model.measurement import Measurement
from pinchpoint.model.trial import TrialValidity

QUIET_LOSS = 0.001  # share of the load lost before anything happened: more of it is not its doing
SHORTEST_S = 1.0  # of what the host's part is a share: of less time, a tick of 10 ms would be a large one


@dataclass(frozen=True)
class Carried:
    """What became of steady traffic, as the engine counted it."""

    offered: int
    received: int
    duration_s: float  # of the sending
    longest_gap_s: float | None  # in the received sequence of any one stream; None: nothing was received
    missed: int  # frames that came and that the engine's own ports dropped
    engine_gaps_s: float  # in which cores of the engine stood still, those for longer than their rings absorb
    longest_silence_s: float | None = None  # in which a port delivered nothing; None: not countable
    engine_longest_s: float = 0.0  # the longest pause of a core of the engine
    parts: int = 1  # transmissions that follow each other

    @property
    def lost(self) -> int:
        """Frames that did not come back; a duplicate makes up for none."""
        return max(0, self.offered - self.received)

    @property
    def loss(self) -> float | None:
        """Share of the offered; None if nothing was offered."""
        return self.lost / self.offered if self.offered else None


@dataclass(frozen=True)
class Disturbance:
    """What making did to traffic."""

    blocked_s: float  # lost frames / offered rate, less what was lost as well while nothing was made
    engine_s: float  # of it, at most so much is the engine's own doing
    longest_gap_s: float | None


def disturbance(quiet: Carried, building: Carried) -> Disturbance | str:
    """From the traffic before and while all is made; or why nothing can be said of it."""
    if quiet.loss is None or not building.offered or building.duration_s <= 0:
        return "no blocked time: the engine could offer no frame"
    if quiet.loss > QUIET_LOSS:
        return (
            f"no blocked time: {units.loss(quiet.loss)} of the load was lost before anything happened; "
            "see that the rules forward it, or lower load_fps"
        )
    rate_fps = building.offered / building.duration_s
    lost = max(0.0, building.lost - quiet.loss * building.offered)
    own = min(lost, max(float(building.missed), building.engine_gaps_s * rate_fps))
    if own and own >= GAP_MAJORITY * lost:
        return (
            f"no blocked time: {units.frames(round(lost))} frames were lost, and the engine itself missed "
            f"{units.frames(building.missed)} and stood still for {units.nanoseconds(building.engine_gaps_s * 1e9)}"
        )
    return Disturbance(lost / rate_fps, own / rate_fps, building.longest_gap_s)


def joined(parts: Sequence[tuple[float, Carried]]) -> Carried:
    """Transmissions that follow each other as one, each with when it began, in seconds of one clock.

    Between two of them there was no link to send to: what fell due then, at the rate of the first, counts as
    offered and lost. Silence goes on to the first frame of the later one, which is as late as frames before it are
    missing.
    """
    (began_s, whole), *later = parts
    rate_fps = whole.offered / whole.duration_s if whole.duration_s else 0.0
    for next_s, part in later:
        away_s = max(0.0, next_s - began_s - whole.duration_s)
        silent_s = away_s + (part.duration_s if part.longest_gap_s is None else part.longest_gap_s)
        whole = Carried(
            offered=whole.offered + round(rate_fps * away_s) + part.offered,
            received=whole.received + part.received,
            duration_s=whole.duration_s + away_s + part.duration_s,
            longest_gap_s=max(silent_s, whole.longest_gap_s or 0.0),
            missed=whole.missed + part.missed,
            engine_gaps_s=whole.engine_gaps_s + part.engine_gaps_s,
            longest_silence_s=max(silent_s, whole.longest_silence_s or 0.0, part.longest_silence_s or 0.0),
            engine_longest_s=max(whole.engine_longest_s, part.engine_longest_s),
            parts=whole.parts + part.parts,
        )
    return whole


def judged(measurement: Measurement, made_s: float) -> Measurement:
    """The measurement with its validity: noisy if the host disturbed the making, as windows of sockets are.

    `made_s` is the time over which `measurement.observed` was read; there is no repeat to put in its
    place, so its metrics stay, with a caution.
    """
    noise = cpus.noise(measurement.observed, max(made_s, SHORTEST_S), TICKS_PER_S)
    if not noise:
        return measurement
    metrics = tuple(
        replace(metric, cautions=(*metric.cautions, "the host was disturbed"), disturbed=True)
        for metric in measurement.metrics
    )
    return replace(measurement, metrics=metrics, validity=TrialValidity.NOISY_HOST, reason=noise)
