"""What one build comes to: its figures as metrics, and what to mind about them. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pinchpoint.measure.build import Build
from pinchpoint.measure.carried import Disturbance
from pinchpoint.model.measurement import Measurement, Metric

GROWS = 1.5  # times the first quarter's time per item: more than runs on a shared machine differ


@dataclass(frozen=True)
class Usage:
    """What making took of the machine; 0 bytes where there is no such process."""

    switch_before_bytes: int  # resident memory of the device's process
    switch_after_bytes: int
    lab_peak_bytes: int | None  # while making; None: the kernel cannot tell it of a part of a process's life
    switch_cpu_s: float
    commands_cpu_s: float  # of the processes that made the items


@dataclass(frozen=True)
class Built:
    """One making and removal of all items."""

    build: Build
    shown_by: str  # whoever says whether all items are there, with the verb
    returned_s: float
    visible_s: float
    growth: float | None
    removed_s: float  # until none showed any more
    removal_growth: float | None
    usage: Usage
    disturbance: Disturbance | None  # None: no traffic went through, or nothing can be said of it
    taken_s: tuple[float | None, ...]  # when each probed rule took its first frame; None: not at all
    taken_within_s: float  # how finely that is known
    look_s: float = 0.0  # how long looking whether all show took: visible_s may be later by so much


def metrics(built: Built) -> tuple[Metric, ...]:
    """The figures that curves are drawn from."""
    count, usage = built.build.count, built.usage
    figures = [
        Metric("build time", "s", built.returned_s, note="until the last command returned"),
        _visible(built),
        Metric("build rate", "1/s", count / built.returned_s),
        Metric("time per item", "s", built.returned_s / count),
        Metric("removal time", "s", built.removed_s, note=f"until {built.shown_by} none of them"),
        Metric("commands' processor time", "s", usage.commands_cpu_s),
    ]
    if usage.lab_peak_bytes is not None:
        figures.append(Metric("lab peak memory", "bytes", float(usage.lab_peak_bytes), note="while making"))
    if built.growth is not None:
        figures.append(Metric("growth", "share", built.growth, note="time per item, last quarter / first quarter"))
    if built.removal_growth is not None:
        figures.append(Metric("removal growth", "share", built.removal_growth))
    if built.build.what != "veths":  # of which the switch knows nothing
        each = (usage.switch_after_bytes - usage.switch_before_bytes) / count
        figures.append(Metric("switch memory per item", "bytes", each))
        figures.append(Metric("switch processor time", "s", usage.switch_cpu_s))
    return (*figures, *_traffic(built))


def _visible(built: Built) -> Metric:
    earliest_s = max(built.returned_s, built.visible_s - built.look_s)
    note = f"until {built.shown_by} all of them; the interval is the last look at it"
    return Metric("visible time", "s", built.visible_s, earliest_s, built.visible_s, note)


def _traffic(built: Built) -> Iterator[Metric]:
    taken = [seconds for seconds in built.taken_s if seconds is not None]
    if taken:
        probed = f"{len(taken)} of {len(built.taken_s)} probed rules, known to {built.taken_within_s * 1e3:.0f} ms"
        note = f"until the datapath forwarded by it; {probed}"
        yield Metric("first frame time", "s", max(taken), min(taken), max(taken), note)
    if built.disturbance is not None:
        disturbance, note = built.disturbance, "lost frames / offered rate, less the loss before building"
        low_s = disturbance.blocked_s - disturbance.engine_s
        if disturbance.engine_s:
            note += "; the interval is what the engine's own pauses and drops may have cost"
        yield Metric("blocked time", "s", disturbance.blocked_s, low_s, disturbance.blocked_s, note)
        if disturbance.longest_gap_s is not None:
            yield Metric("longest gap", "s", disturbance.longest_gap_s, note="in the received sequence")


def warnings(measurement: Measurement, why_slower: str) -> tuple[str, ...]:
    """Sentences about what the figures of a measurement do not say by themselves.

    `why_slower` is why time per item may grow with their number; empty if that is not known.
    """
    lines = [f"the host disturbed this build: {measurement.reason}"] if measurement.reason else []
    growth = next((metric.value for metric in measurement.metrics if metric.name == "growth"), None)
    if growth is not None and growth > GROWS:
        reason = why_slower or "for a reason that is not known"
        lines.append(f"time per item grew {growth:.1f} x from the first to the last quarter; likely {reason}")
    probes, refused = measurement.account.get("probes"), measurement.account.get("refused")
    taken = probes["taken_s"] if isinstance(probes, Mapping) else ()
    if untaken := sum(seconds is None for seconds in taken):
        lines.append(f"{untaken} of {len(taken)} probed rules took no frame")
    if isinstance(refused, str) and refused:
        lines.append(refused)
    return tuple(lines)
