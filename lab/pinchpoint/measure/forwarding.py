"""What a device did with the frames of one trial, as metrics: the load of its threads, and what its own counters say.

What was not counted is absent, never zero. A figure that one forwarding thread alone has is named without the thread,
so that curves from different machines line up; where several forward, each has its own figure too, named after it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from pinchpoint.dut import registry
from pinchpoint.dut.device import Device
from pinchpoint.model.errors import InputError
from pinchpoint.model.groups import total
from pinchpoint.model.measurement import THREAD_BUSY, Metric, lookup_share
from pinchpoint.model.trial import ThreadFigure, ThreadLoad, Trial


def of_trial(trial: Trial, device: Device) -> tuple[Metric, ...]:
    """What the DUT did with the frames of one trial: cycles, lookups, and what its own counters say."""
    return (*of_threads(trial.threads, device.figures), *device.metrics(trial.observed))


def of_threads(loads: Sequence[ThreadLoad], figures: Mapping[str, ThreadFigure]) -> Iterator[Metric]:
    """Of the threads that received frames: all together, then each by its name if there are several."""
    forwarding = [load for load in loads if load.received > 0]
    if not forwarding:
        return
    yield from _load(forwarding, "")
    yield from _lookups(forwarding, figures)
    if len(forwarding) > 1:
        for load in forwarding:
            yield from _load([load], f"{load.name}: ")


def figures_of(kind: str) -> Mapping[str, ThreadFigure]:
    """What a kind of device says of its own figures of a thread; empty: the default kind. Nothing of an unknown one."""
    try:
        return registry.device(kind or registry.default()).figures
    except InputError:
        return {}


def _load(loads: Sequence[ThreadLoad], prefix: str) -> Iterator[Metric]:
    cycles = [load.cycles_per_packet for load in loads if load.cycles_per_packet is not None]
    if len(cycles) == len(loads):
        spent = math.fsum(each * load.received for each, load in zip(cycles, loads, strict=True))
        yield Metric(f"{prefix}cycles per packet", "cycles", spent / sum(load.received for load in loads))
    busy = [(load.busy_share, load.name) for load in loads if load.busy_share is not None]
    if busy:
        share, name = max(busy)
        note = name if len(loads) == 1 else f"{name}, the busiest of {len(loads)}"
        yield Metric(f"{prefix}{THREAD_BUSY}", "share", share, note=note)


def _lookups(loads: Sequence[ThreadLoad], figures: Mapping[str, ThreadFigure]) -> Iterator[Metric]:
    """Who answered lookups, as shares of all of them; a recirculated frame is looked up again."""
    answered: dict[str, float] = {}
    for key, figure in figures.items():
        counts = [load.detail[key] for load in loads if key in load.detail]
        if figure.answers and counts:
            answered[figure.answers] = answered.get(figure.answers, 0) + sum(counts)
    if lookups := sum(answered.values()):
        for name, count in answered.items():
            yield Metric(lookup_share(name), "share", count / lookups)
    received, recirculated = sum(load.received for load in loads), total(load.recirculated for load in loads)
    if recirculated is not None:
        yield Metric("passes per packet", "count", (received + recirculated) / received)
