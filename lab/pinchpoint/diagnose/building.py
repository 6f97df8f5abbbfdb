"""What one build comes to: its figures as metrics, and what to mind about them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pinchpoint.model.measurement import Metric
from pinchpoint.model.scenario import Build

GROWS = 1.5  # times the first quarter's time per item: more than runs on a shared machine differ
QUIET_LOSS = 0.001  # share of the load lost before building: more of it is not building's doing

REASONS = {
    (
        "ports",
        "process",
    ): "because each ovs-vsctl reads the whole database, and the switch goes through all its ports each time",
    ("ports", "transaction"): "because the userspace datapath goes through all its ports for each one that it adds",
    ("veths", "process"): "because the kernel finds links by name in 256 buckets of a namespace, whatever their number",
    ("veths", "file"): "because the kernel finds links by name in 256 buckets of a namespace, whatever their number",
    ("veths", "netlink"): "because the kernel finds links by name in 256 buckets of a namespace, whatever their number",
}
"""Where time per item was seen to grow with their number, and what the profiles of it make likely."""


@dataclass(frozen=True)
class Usage:
    """What making took of the machine; 0 bytes where there is no such process."""

    switch_before_bytes: int  # resident memory of ovs-vswitchd
    switch_after_bytes: int
    lab_peak_bytes: int
    switch_cpu_s: float
    commands_cpu_s: float  # of the processes that made the items


@dataclass(frozen=True)
class Disturbance:
    """What happened to traffic meanwhile."""

    blocked_s: float  # lost frames / offered rate
    longest_gap_s: float  # in the received sequence
    quiet_loss: float  # share lost of the same traffic before anything was built


@dataclass(frozen=True)
class Built:
    """One making and removal of all items."""

    build: Build
    returned_s: float
    visible_s: float
    growth: float | None
    removed_s: float  # until none showed any more
    removal_growth: float | None
    usage: Usage
    disturbance: Disturbance | None  # None: no traffic went through
    taken_s: tuple[float | None, ...]  # when each probed rule took its first frame; None: not at all
    taken_within_s: float  # how finely that is known


def metrics(built: Built) -> tuple[Metric, ...]:
    """The figures that curves are drawn from."""
    count, usage = built.build.count, built.usage
    found = [
        Metric("build time", "s", built.returned_s, note="until the last command returned"),
        Metric("visible time", "s", built.visible_s, note="until the datapath showed all items"),
        Metric("build rate", "1/s", count / built.returned_s),
        Metric("time per item", "s", built.returned_s / count),
        Metric("removal time", "s", built.removed_s, note="until the datapath showed none of them"),
        Metric("lab peak memory", "bytes", float(usage.lab_peak_bytes)),
        Metric("commands' processor time", "s", usage.commands_cpu_s),
    ]
    if built.growth is not None:
        found.append(Metric("growth", "share", built.growth, note="time per item, last quarter / first quarter"))
    if built.removal_growth is not None:
        found.append(Metric("removal growth", "share", built.removal_growth))
    if built.build.what != "veths":  # of which the switch knows nothing
        each = (usage.switch_after_bytes - usage.switch_before_bytes) / count
        found.append(Metric("switch memory per item", "bytes", each))
        found.append(Metric("switch processor time", "s", usage.switch_cpu_s))
    return (*found, *_traffic(built))


def _traffic(built: Built) -> Iterator[Metric]:
    taken = [seconds for seconds in built.taken_s if seconds is not None]
    if taken:
        note = f"{len(taken)} of {len(built.taken_s)} probed rules, known to {built.taken_within_s * 1e3:.0f} ms"
        yield Metric("first frame time", "s", max(taken), min(taken), max(taken), note)
    if built.disturbance is not None:
        yield Metric("blocked time", "s", built.disturbance.blocked_s, note="lost frames / offered rate")
        yield Metric("longest gap", "s", built.disturbance.longest_gap_s, note="in the received sequence")


def warnings(built: Sequence[Metric], build: Build, quiet_loss: float | None, untaken: int) -> tuple[str, ...]:
    """Sentences about what the figures do not say by themselves."""
    found = []
    growth = next((metric.value for metric in built if metric.name == "growth"), None)
    if growth is not None and growth > GROWS:
        reason = REASONS.get((build.what, build.method), "for a reason that is not known")
        found.append(f"time per item grew {growth:.1f} x from the first to the last quarter; likely {reason}")
    if untaken:
        found.append(f"{untaken} of {build.probe_rules} probed rules took no frame")
    if quiet_loss is not None and quiet_loss > QUIET_LOSS:
        found.append(f"the switch lost {quiet_loss:.1%} of the load before anything was built: lower build.load_fps")
    return tuple(found)
