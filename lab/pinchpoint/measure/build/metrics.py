"""What one build comes to: its figures as metrics, and what to mind about them. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pinchpoint.bulk.making import Timed
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
    made: Timed
    removed: Timed
    usage: Usage
    disturbance: Disturbance | str | None  # None: no load was sent meanwhile; or why nothing can be said of it
    taken_s: tuple[float | None, ...]  # when each probed rule took its first frame; None: not at all
    taken_within_s: float  # how finely that is known


def metrics(built: Built) -> Iterator[Metric]:
    """The figures that curves are drawn from."""
    count, usage, made = built.build.count, built.usage, built.made
    yield Metric("build time", "s", made.returned_s, note="until the last command returned")
    earliest_s = max(made.returned_s, made.visible_s - made.look_s)
    note = f"until {built.shown_by} all of them; the interval is the last look at it"
    yield Metric("visible time", "s", made.visible_s, earliest_s, made.visible_s, note)
    yield Metric("build rate", "1/s", count / made.returned_s)
    yield Metric("time per item", "s", made.returned_s / count)
    yield Metric("removal time", "s", built.removed.visible_s, note=f"until {built.shown_by} none of them")
    yield Metric("commands' processor time", "s", usage.commands_cpu_s)
    if usage.lab_peak_bytes is not None:
        yield Metric("lab peak memory", "bytes", float(usage.lab_peak_bytes), note="while making")
    if (growth := made.growth) is not None:
        yield Metric("growth", "share", growth, note="time per item, last quarter / first quarter")
    if (growth := built.removed.growth) is not None:
        yield Metric("removal growth", "share", growth)
    if built.build.what != "veths":  # of which the switch knows nothing
        each = (usage.switch_after_bytes - usage.switch_before_bytes) / count
        yield Metric("switch memory per item", "bytes", each)
        yield Metric("switch processor time", "s", usage.switch_cpu_s)
    yield from _traffic(built)


def _traffic(built: Built) -> Iterator[Metric]:
    taken = [seconds for seconds in built.taken_s if seconds is not None]
    if taken:
        probed = f"{len(taken)} of {len(built.taken_s)} probed rules, known to {built.taken_within_s * 1e3:.0f} ms"
        note = f"until the datapath forwarded by it; {probed}"
        yield Metric("first frame time", "s", max(taken), min(taken), max(taken), note)
    if isinstance(built.disturbance, Disturbance):
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
