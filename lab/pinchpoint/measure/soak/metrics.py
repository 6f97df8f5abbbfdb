"""What a long time at one load comes to: windows with loss, and the time between losses. Pure.

A window is discarded where its account is unusable, as a trial is (account/validity.py): a core of the
engine that receives what another one sends stood still for longer than its rings absorb. That is
decided by the pause alone, whatever was lost: a rule that looked at the loss would favour one side.
A host that takes time from the DUT discards nothing; what was lost meanwhile is a figure of its own.

A frame counts as lost in the window in which it was refused, overtaken, or one of more than
can be on their way: a DUT that forwards nothing any more is overtaken by no frame, and its
loss would else be known only at the end.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log
from statistics import fmean

from pinchpoint.account.cpus import dut_threads
from pinchpoint.measure.session import stolen_s
from pinchpoint.model import units
from pinchpoint.model.measurement import CONFIDENCE, THREAD_BUSY, Measurement, Metric
from pinchpoint.model.trial import Sample, ThreadLoad
from pinchpoint.model.warning import ResultWarning, Warn

WHOLE = 0.5  # of a window's length: what is left of the time after the last one is not counted as one
BEGIN = Sample(0.0, 0, 0, received=0)
KERNEL_FRAMES = 2000  # in queues between the rings: net.core.netdev_max_backlog (1000), a packet socket's buffer
HELD_S = 1.0  # for which a frame may be on its way, whatever room there is
SKEW_S = 0.01  # between the totals of one sample: workers publish theirs once a millisecond
SILENT = 10  # frames of which none came back: fewer may all be on their way
_MOST_STOPS = 3


@dataclass(frozen=True)
class Window:
    """One window of a soak: its frames, and what the host did meanwhile."""

    at_s: float  # since the soak began, without the time between two parts of a resumed one
    span_s: float
    load_fps: float  # intended
    offered: int
    lost: int
    gaps_s: float  # in which the engine's cores stood still
    gap_max_s: float  # the longest of them
    delay_s: float  # in which threads of the DUT waited for a core that others than the DUT had
    steal_s: float  # taken by the hypervisor from the bench's CPUs
    busy: float | None  # share, of the busiest forwarding thread; None: nobody counts it
    received: int | None = None  # None: older records do not tell
    late: int = 0  # frames that an earlier window counted as lost, and that came in this one
    receives_apart: bool = True  # a core of the engine receives what another one sends: its pauses may lose frames

    @property
    def loss(self) -> float:
        """Lost over offered, at most 1: the first lost frames may have been offered a moment before the window."""
        return min(1.0, self.lost / self.offered) if self.offered else 0.0

    @property
    def lost_s(self) -> float:
        """The time whose frames were lost."""
        return self.loss * self.span_s


@dataclass(frozen=True)
class Stop:
    """A time in which nothing came back of what was sent; seconds since the soak began."""

    began_s: float
    ended_s: float | None  # None: not before the soak ended

    @property
    def warning(self) -> ResultWarning:
        """What a reader is told of it."""
        if self.ended_s is None:
            return Warn.STOPPED.of(began_s=self.began_s)
        return Warn.STOOD_STILL.of(began_s=self.began_s, ended_s=self.ended_s)


def under_way(rings: Iterable[int], load_fps: float) -> int:
    """How many frames may be between the engine's ports at a sample with none of them lost.

    `rings` are those of the engine's ports, each with one for either direction; the DUT has as many.
    """
    held = min(sum(2 * ring for ring in rings) + KERNEL_FRAMES, HELD_S * load_fps)
    return ceil(held + SKEW_S * load_fps)


def settled(sample: Sample, most_under_way: int) -> Sample:
    """The same, all frames that are out being lost if they are more than can be on their way."""
    if sample.received is None:
        return sample
    missing = sample.offered - sample.received
    return replace(sample, lost=missing) if missing - (sample.lost or 0) > most_under_way else sample


def window(
    at_s: float,
    load_fps: float,
    ends: tuple[Sample, Sample],
    seen: Mapping[str, float],
    threads: Sequence[ThreadLoad],
    *,
    receives_apart: bool = True,
) -> Window:
    """The window between two samples, with the counters' growth `seen` in it; see Window for the rest."""
    before, after = ends
    lost = (after.lost or 0) - (before.lost or 0)
    told = after.received is not None and before.received is not None
    return Window(
        at_s=at_s,
        span_s=after.elapsed_s - before.elapsed_s,
        load_fps=load_fps,
        offered=after.offered - before.offered,
        lost=max(0, lost),
        gaps_s=after.gaps_s - before.gaps_s,
        gap_max_s=after.gap_max_s,
        delay_s=sum((thread.run_delay_ns or 0) - thread.own_delay_ns for thread in dut_threads(seen, {})) / 1e9,
        steal_s=math.fsum(stolen_s(seen).values()),
        busy=max((load.busy_share for load in threads if load.busy_share is not None), default=None),
        received=(after.received or 0) - (before.received or 0) if told else None,
        late=max(0, -lost),
        receives_apart=receives_apart,
    )


def corrected(windows: Sequence[Window]) -> list[Window]:
    """The windows, frames that came late taken off the loss of those before, the latest of them first."""
    revised = list(windows)
    for number, window in enumerate(windows):
        late = window.late
        for before in range(number - 1, -1, -1):
            if not late:
                break
            came = min(late, revised[before].lost)
            revised[before] = replace(revised[before], lost=revised[before].lost - came)
            late -= came
    return revised


def stops(windows: Sequence[Window]) -> list[Stop]:
    """The times in which forwarding stood still for a window or longer.

    Each begins within the window before, whose loss is taken to lie at its end, and ends within the one behind.
    """
    standstills = list[Stop]()
    began_s: float | None = None
    before: Window | None = None
    for window in windows:
        if began_s is None and window.received == 0 and window.offered >= SILENT:
            began_s = window.at_s - (before.lost_s if before else 0.0)
        elif began_s is not None and window.received:
            standstills.append(Stop(began_s, window.at_s + window.lost_s))
            began_s = None
        before = window
    return standstills if began_s is None else [*standstills, Stop(began_s, None)]


def disturbed(window: Window, ring: int) -> str:
    """Why the window's account is unusable, for people; empty if it is not. Whatever was lost.

    `ring` is the smallest ring between engine and DUT, in frames: a shorter pause loses none.
    """
    if not window.receives_apart or window.gap_max_s * window.load_fps <= ring:
        return ""
    longest = units.nanoseconds(window.gap_max_s * 1e9)
    return f"a core of the engine stood still for {longest}, longer than its rings absorb"


def host_took_time(window: Window, ring: int) -> bool:
    """Whether the DUT's threads waited, or time was stolen, for longer than the ring absorbs, both known as totals."""
    return max(window.delay_s, window.steal_s) * window.load_fps > ring


def window_metrics(window: Window) -> Iterator[Metric]:
    """What a window's row shows."""
    yield Metric("window loss", "share", window.loss)
    yield Metric("lost frames", "count", float(window.lost))
    yield Metric("offered load", "fps", window.offered / window.span_s if window.span_s else 0.0)
    if window.busy is not None:
        yield Metric(THREAD_BUSY, "share", window.busy)


def read(measurement: Measurement) -> Window:
    """The window that a measurement's account holds."""
    names = Window.__dataclass_fields__
    return Window(**{name: value for name, value in measurement.account.items() if name in names})  # type: ignore[arg-type]


def metrics(windows: Sequence[Window], ring: int) -> Iterator[Metric]:
    """The soak's figures; none without a window."""
    if not windows:
        return
    judged = [window for window in windows if not disturbed(window, ring)]
    longest_s = max(window.span_s for window in windows)
    whole = [window for window in judged if window.span_s >= WHOLE * longest_s]
    offered, lost = sum(window.offered for window in windows), sum(window.lost for window in windows)
    beside = [window for window in judged if host_took_time(window, ring)]
    span_s = math.fsum(window.span_s for window in windows)
    yield from _between_losses(whole)
    yield from _longest_stop(stops(windows), span_s)
    yield Metric("loss", "share", lost / offered if offered else 0.0, note="of all windows, whoever caused it")
    yield Metric("lost frames", "count", float(lost), note=f"in {units.frames(offered)} offered")
    note = (
        f"of them, in {units.counted(len(beside), 'window')} in which the host took time from the DUT (its threads "
        "waited, or time was stolen) for longer than its ring absorbs"
    )
    yield Metric("lost frames beside the host", "count", float(sum(window.lost for window in beside)), note=note)
    yield Metric("longest loss-free stretch", "s", loss_free_s(windows), note=f"of {span_s:,.0f} s, whole windows")
    yield Metric("disturbed windows", "share", 1 - len(judged) / len(windows), note=f"of {len(windows):,}; discarded")
    busy = [window.busy for window in windows if window.busy is not None]
    if busy:
        yield Metric(THREAD_BUSY, "share", fmean(busy), min(busy), max(busy), "of windows: mean and extremes")


def held(windows: Sequence[Window], frame_bits: int | None) -> Iterator[Metric]:
    """What arrived over all windows, in bits a second; nothing where no bits of a frame are known."""
    span_s = math.fsum(window.span_s for window in windows)
    if frame_bits is not None and span_s:
        offered, lost = sum(window.offered for window in windows), sum(window.lost for window in windows)
        note = f"over {units.seconds(span_s)}, {units.frames(lost) if lost else 'nothing'} lost"
        yield Metric("held throughput", "bit/s", frame_bits * (offered - lost) / span_s, note=note)


def _longest_stop(stops: Sequence[Stop], span_s: float) -> Iterator[Metric]:
    if stops:
        longest = max(stops, key=lambda stop: (stop.ended_s or span_s) - stop.began_s)
        length_s = (longest.ended_s or span_s) - longest.began_s
        note = longest.warning.text if longest.ended_s else f"at least: {longest.warning.text}"
        yield Metric("longest stop", "s", length_s, length_s, None if longest.ended_s is None else length_s, note)


def _between_losses(judged: Sequence[Window]) -> Iterator[Metric]:
    """Share of windows with loss, and the mean time between losses if these come at random.

    Then windows of length w are free of loss with probability exp(-w / mean), so the mean follows
    from the share of lossy windows, and its interval from that share's (Clopper and Pearson 1934),
    also where a window holds several losses.
    """
    n, lossy = len(judged), sum(window.lost > 0 for window in judged)
    if not n:
        return
    low, high = share_interval(lossy, n)
    of = f"{lossy:,} of {n:,} windows that were not discarded"
    yield Metric("windows with loss", "share", lossy / n, low, high, f"{of}; {CONFIDENCE:.0%} interval")
    span_s = fmean(window.span_s for window in judged)
    if not lossy:
        least_s = span_s * n / -log(1 - CONFIDENCE)
        note = f"at least, with {CONFIDENCE:.0%}: none of {n:,} windows lost a frame"
        yield Metric("mean time between losses", "s", least_s, least_s, None, note)
    elif lossy == n:
        most_s = -span_s / log(1 - low)
        yield Metric("mean time between losses", "s", most_s, None, most_s, "at most: every window lost frames")
    else:
        note = f"if losses come at random; {of}; {CONFIDENCE:.0%} interval"
        mean_s, least_s, most_s = (-span_s / log(1 - share) for share in (lossy / n, high, low))
        yield Metric("mean time between losses", "s", mean_s, least_s, most_s, note)


def share_interval(hits: int, n: int) -> tuple[float, float]:
    """Exact 95 % interval of a share (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv  # half a second that only a soak needs

    tail = (1 - CONFIDENCE) / 2
    low = float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return low, high


def loss_free_s(windows: Iterable[Window]) -> float:
    """The longest time of whole windows, one after the other, without a lost frame."""
    longest_s = stretch_s = 0.0
    for window in windows:
        stretch_s = 0.0 if window.lost else stretch_s + window.span_s
        longest_s = max(longest_s, stretch_s)
    return longest_s


def ending(windows: Sequence[Window]) -> tuple[str, ...]:
    """What is known of a soak that ended before its time."""
    span_s = math.fsum(window.span_s for window in windows)
    return (f"{span_s:,.1f} s of the soak were measured", *(stop.warning.text for stop in stops(windows)[-1:]))


def warnings(windows: Sequence[Window], ring: int, asked_s: float) -> Iterator[ResultWarning]:
    """What to mind about the figures."""
    standstills = stops(windows)
    yield from (stop.warning for stop in standstills[:_MOST_STOPS])
    if len(standstills) > _MOST_STOPS:
        yield Warn.STOOD_STILL_MORE.of(more=len(standstills) - _MOST_STOPS)
    if late := sum(window.late for window in windows):
        yield Warn.LATE_FRAMES.of(late=late)
    discarded = sum(bool(disturbed(window, ring)) for window in windows)
    if windows and discarded == len(windows):
        yield Warn.NO_WINDOW_LEFT.of(disturbed(windows[-1], ring))
    elif discarded > len(windows) / 2:
        yield Warn.WINDOWS_DISCARDED.of(discarded=discarded, windows=len(windows))
    span_s = math.fsum(window.span_s for window in windows)
    if span_s < 0.99 * asked_s:
        yield Warn.CUT_SHORT.of(measured_s=span_s, asked_s=asked_s)
