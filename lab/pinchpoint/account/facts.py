"""What the host did to the device during a trial: facts that explain a rate, and discard nothing. Pure.

Three of them: others took the core of a thread that forwards; the engine's and the switch's cores were far apart;
a neighbour slowed the switch's core, which is whatever runs on that core's other hardware thread.

A cache line bounced between two virtual CPUs takes some 30 ns when they share a
last-level cache and 140 ns or more when they do not; the hypervisor may move
them at any time, and every rate that crosses the cores moves with them.

The engine probes how many instructions a cycle a core executes, before and after each trial (protocol/README.md:
`ipc_before`). The most that a core was seen to execute is all of it; less is what a neighbour left. So what is known
of a trial may change with a later one that saw more.

A mode is such a distance with or without a neighbour. The rate in a mode is the median of the threshold
at its trials, as the search tracked it.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from pinchpoint.engine.instrument import EngineResult
from pinchpoint.model import units
from pinchpoint.model.measurement import CYCLES, THREAD_BUSY
from pinchpoint.model.result import CacheLine, ModeRates, Moment, ScenarioResult
from pinchpoint.model.trial import Trial, Witness
from pinchpoint.model.warning import ResultWarning, Warn

TWO_MODES = 2.0  # neighbouring probes, sorted, this factor apart: not one distribution
ALONE = 0.93  # of the most that the core was seen to execute: probes of an idle host differ by less
TELLING = 0.1  # share of slowed trials from which the report has a sentence
FEWEST = 3  # trials of a mode that say where its rate is
SLACK = 0.05  # cycles are of a trial within 2 % of the rate, and its counters are read after its last frame


def waited_s(trial: Trial) -> dict[str, float]:
    """By packet thread, for how long others than the device had its core; what was not observed is absent."""
    waits = [(thread.name, thread.run_delay_ns, thread.own_delay_ns) for thread in trial.witness.dut_threads]
    return {name: (delay_ns - own_ns) / 1e9 for name, delay_ns, own_ns in waits if delay_ns is not None}


def stolen_s(trial: Trial) -> float:
    """By the hypervisor, from CPUs that are not the engine's: there it is a gap of its loop (account/validity.py)."""
    engine = _engine_cores(trial)
    return math.fsum(lost_s for cpu, lost_s in trial.witness.steal_s.items() if cpu not in engine)


def _engine_cores(trial: Trial) -> set[int]:
    return {worker.core for worker in trial.witness.workers if not worker.host}


def core_distance_ns(trial: Trial) -> float | None:
    """The distance of the engine's and the switch's core; None if it was not probed."""
    return mean_ns(distances_ns(trial.witness))


def distances_ns(seen: Witness | EngineResult) -> list[float]:
    """As probed before and after a trial."""
    return [probe for probe in (seen.cache_line_before_ns, seen.cache_line_after_ns) if probe is not None]


def mean_ns(probes: Sequence[float]) -> float | None:
    """Of the probes of one distance; None if there was none."""
    return math.fsum(probes) / len(probes) if probes else None


def differ(one_ns: float, other_ns: float) -> bool:
    """Whether two distances belong to different modes."""
    return max(one_ns, other_ns) >= TWO_MODES * min(one_ns, other_ns)


def may_be_alike(one_ns: float | None, other_ns: float | None) -> bool:
    """Whether they may belong to one mode: a distance that was not probed fits any."""
    return one_ns is None or other_ns is None or not differ(one_ns, other_ns)


def core_distances(trials: Sequence[Trial]) -> CacheLine | None:
    """All probes of a scenario's trials in one line; None if none was made."""
    probes = sorted(probe for trial in trials for probe in distances_ns(trial.witness))
    if not probes:
        return None
    far = _far_side(probes)
    share, note = len(far) / len(probes), ""
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


class Widths:
    """The most that each core of the DUT was seen to execute, and what trials had of it."""

    def __init__(self, trials: Sequence[Trial] = ()) -> None:
        self._most: dict[int, float] = {}
        for trial in trials:
            self._note(trial)

    def _note(self, trial: Trial) -> None:
        for core, ipc in _widths(trial):
            self._most[core] = max(ipc, self._most.get(core, 0.0))

    def left(self, trial: Trial) -> float | None:
        """The share of its core that the DUT had, the lower of the probes; None if none was made."""
        self._note(trial)
        return min((ipc / self._most[core] for core, ipc in _widths(trial)), default=None)

    def is_slowed(self, trial: Trial) -> bool:
        """Whether a trial, noted herewith, was slowed as far as is known by now."""
        left = self.left(trial)
        return left is not None and left < ALONE


def _widths(trial: Trial) -> Iterator[tuple[int, float]]:
    """(core, instructions a cycle) of the probes on cores that are not the engine's."""
    engine = _engine_cores(trial)
    for core, probes in trial.witness.ipc.items():
        if core not in engine:
            yield from ((core, ipc) for ipc in probes if ipc is not None)


def core_slowed(trials: Sequence[Trial]) -> ResultWarning | None:
    """How often a neighbour slowed a core of the DUT, and how much; None if few of the probed trials were slowed."""
    widths = Widths(trials)
    left = [share for trial in trials if (share := widths.left(trial)) is not None]
    slowed = sum(share < ALONE for share in left)
    if not left or slowed / len(left) < TELLING:
        return None
    cores = ", ".join(map(str, sorted({core for trial in trials for core, _ in _widths(trial)})))
    return Warn.CORE_SLOWED.of(cores=cores, slowed=slowed / len(left), trials=len(left), worst=min(left))


def modes_of(trials: Sequence[Trial], track: Sequence[Moment]) -> tuple[ModeRates, ...]:
    """The modes of the tracked trials, the most frequent first; none where nothing was probed or there was one only."""
    moments = {moment.trial_id: moment.median_fps for moment in track}
    tracked = [trial for trial in trials if trial.id in moments]
    widths = Widths(tracked)
    modes: list[list[Trial]] = []
    for trial in tracked:
        mode = next((mode for mode in modes if _is_same(trial, mode[0], widths)), None)
        if mode is None:
            modes.append([trial])
        else:
            mode.append(trial)
    if len(modes) < 2:
        return ()
    return tuple(_mode(mode, len(tracked), moments, widths) for mode in sorted(modes, key=len, reverse=True))


def _is_same(trial: Trial, other: Trial, widths: Widths) -> bool:
    is_near = may_be_alike(core_distance_ns(trial), core_distance_ns(other))
    return is_near and widths.is_slowed(trial) is widths.is_slowed(other)


def _mode(trials: Sequence[Trial], tracked: int, moments: dict[str, float], widths: Widths) -> ModeRates:
    distances = [distance for trial in trials if (distance := core_distance_ns(trial)) is not None]
    distance_ns = median(distances) if distances else None
    is_slowed = widths.is_slowed(trials[0])
    label = "cores not probed" if distance_ns is None else f"cores {units.nanoseconds(distance_ns)} apart"
    return ModeRates(
        label=f"{label}, the device's slowed by a neighbour" if is_slowed else label,
        distance_ns=distance_ns,
        trials=len(trials),
        traffic_s=math.fsum(trial.sent_duration_s for trial in trials),
        rates=(),
        most_offered_fps=max(trial.offered_fps for trial in trials),
        slowed=is_slowed,
        share=len(trials) / tracked,
        median_fps=median(moments[trial.id] for trial in trials) if len(trials) >= FEWEST else None,
    )


def over_clock(result: ScenarioResult) -> ResultWarning | None:
    """That cycles per packet x NDR are more than the busy share of the clock; None if they fit, or are not stated."""
    stated = {metric.name: metric.value for metric in result.metrics}
    rate_fps = result.rates[0].quoted_fps if result.rates else None
    loads = [load for load in result.threads if load.received]
    known = [(load.clock_hz, load.busy_share) for load in loads if load.clock_hz]
    if CYCLES not in stated or not rate_fps or not known or len(known) < len(loads):
        return None
    busiest, several = stated.get(THREAD_BUSY, 1.0), len(known) > 1
    had_hz = math.fsum(clock_hz * (busiest if busy is None or not several else busy) for clock_hz, busy in known)
    spent_hz = stated[CYCLES] * rate_fps
    if spent_hz <= had_hz * (1 + SLACK):
        return None
    return Warn.OVER_CLOCK.of(cycles=stated[CYCLES], spent_ghz=spent_hz / 1e9, busy_ghz=had_hz / 1e9)
